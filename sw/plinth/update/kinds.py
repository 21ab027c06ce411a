"""The update rules by name, in the order in which options list them."""

from collections.abc import Mapping
from types import MappingProxyType

from plinth.update.adagrad import Adagrad
from plinth.update.adagrad_printed import AdagradPrinted
from plinth.update.law import Law
from plinth.update.momentum import Momentum
from plinth.update.rmsprop import RmsProp
from plinth.update.sgd import Sgd

LAWS: Mapping[str, Law] = MappingProxyType({law.kind: law for law in (
    Sgd(), Momentum(), Adagrad(), AdagradPrinted(), RmsProp())})
SGD, MOMENTUM, ADAGRAD, ADAGRAD_PRINTED, RMSPROP = KINDS = tuple(LAWS)
