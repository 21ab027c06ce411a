"""Fields of packets between dies whose widths follow from tasks; others follow from the die's parameters."""

from plinth_hw.isa.layout import WORD_BITS, Struct, unsigned, width
from plinth_hw.isa.update_bodies import CollectiveBody

_MESSAGE, _GROUP = (width(CollectiveBody.FIELDS[name].shape) for name in ("message", "group"))


class Sideband(Struct):
    """Of a collective its message, group and chunk; of a tile the word address; of a control packet see
    :mod:`plinth_hw.comm.flit`."""

    message: unsigned(_MESSAGE)
    group: unsigned(_GROUP)
    chunk: unsigned(WORD_BITS - _MESSAGE - _GROUP)
