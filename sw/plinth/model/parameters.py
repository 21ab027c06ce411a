"""A network's parameters as arrays, and the float64 figures of them that training compares with."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Weights, then bias, of each layer, flat.
Parameters = list[NDArray[np.float32]]
#: (parameters, samples, targets, outputs of ReLUs and inputs of max-pools by layer name) -> gradient of each
#: layer, weights then bias, flat float64, and the number of kinks at which the given maps decided.
Reference = Callable[[Parameters, NDArray[Any], NDArray[Any], Mapping[str, NDArray[np.float32]]],
                     tuple[list[NDArray[np.float64]], int]]
#: (parameters, samples) -> what the loss reads, float64 ``[samples, outputs]``, of some samples after the other,
#: computed on the host.
Predictor = Callable[[Parameters, NDArray[Any]], Iterator[NDArray[np.float64]]]
