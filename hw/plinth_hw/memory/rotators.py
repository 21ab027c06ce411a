"""Rotators between the lanes of vectors and the banks of a vector memory.

Element (i, j) lies in bank (i + j) mod B, so a vector's lane 0 is at bank ``skew``: writes rotate up by it, reads
rotate back. What they are given and when: see :class:`~plinth_hw.memory.scratchpad.VectorReadPort`.
"""

from amaranth.hdl import Cat, Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.lib.delay import delayed
from plinth_hw.lib.rotator import rotate, rotate_held, rotate_registered


class WriteRotator(wiring.Component):
    """Rotates mask and data of writes of vectors from lanes to banks.

    Parameters
    ----------
    banks, width : int
        As of :class:`~plinth_hw.memory.scratchpad.VectorMemory`.
    words : int or None
        Words of data, a power of two, if they are fewer than the lanes.

    Members
    -------
    enable, skew, mask, data : In
        As of :class:`~plinth_hw.memory.scratchpad.VectorWritePort`.
    o_mask, o_data : Out
        Of each bank, one cycle later.
    """

    def __init__(self, banks: int, width: int, *, words: int | None = None):
        self.banks = banks
        self.words = banks if words is None else words
        super().__init__({
            "enable": In(1), "skew": In(exact_log2(banks)), "mask": In(banks),
            "data": In(data.ArrayLayout(unsigned(width), self.words)),
            "o_mask": Out(banks), "o_data": Out(data.ArrayLayout(unsigned(width), banks)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # The mask rotates like the data; one bit a lane, so in one go.
        m.d.sync += self.o_mask.eq(Cat(*rotate(m, "mask", [self.mask[lane] for lane in range(self.banks)],
                                               self.skew, 0, exact_log2(self.banks), up=True)))
        rotated = rotate_registered(m, [self.data[word] for word in range(self.words)], self.skew, self.enable, up=True)
        m.d.comb += self.o_data.as_value().eq(Cat(*rotated * (self.banks // self.words)))
        return m


class ReadRotator(wiring.Component):
    """Rotates data of reads of vectors from banks to lanes.

    Parameters
    ----------
    banks, width : int
        As of :class:`~plinth_hw.memory.scratchpad.VectorMemory`.

    Members
    -------
    enable, skew : In
        As of :class:`~plinth_hw.memory.scratchpad.VectorReadPort`.
    data : In
        Of each bank, two cycles later.
    o : Out
        Of each lane, ``latency`` cycles after the command.
    """

    #: Cycles from a command to its data.
    latency = 3

    def __init__(self, banks: int, width: int):
        self.banks = banks
        words = data.ArrayLayout(unsigned(width), banks)
        super().__init__({"enable": In(1), "skew": In(exact_log2(banks)), "data": In(words), "o": Out(words)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        skew, valid = (delayed(m, name, value, self.latency - 1)
                       for name, value in (("skew", self.skew), ("valid", self.enable)))
        m.d.comb += self.o.as_value().eq(Cat(*rotate_registered(
            m, [self.data[bank] for bank in range(self.banks)], skew, valid, up=False, late=True)))
        return m


class SharedReadRotator(wiring.Component):
    """Rotates data of reads of vectors from banks to lanes, as :class:`ReadRotator` does, for one client of two arrays.

    Parameters
    ----------
    banks, width : int
        As of :class:`~plinth_hw.memory.scratchpad.VectorMemory`.

    Members
    -------
    skew : In
        As of :class:`~plinth_hw.memory.scratchpad.VectorReadPort`.
    half : In(1)
        Array that is read; stable from a command until its data have come.
    data_0, data_1 : In
        Of each bank of both arrays, two cycles later.
    o : Out
        Of each lane, ``latency`` cycles after the command.
    """

    #: Cycles from a command to its data.
    latency = ReadRotator.latency + 1

    def __init__(self, banks: int, width: int):
        self.banks = banks
        words = data.ArrayLayout(unsigned(width), banks)
        super().__init__({"skew": In(exact_log2(banks)), "half": In(1), "data_0": In(words),
                          "data_1": In(words), "o": Out(words)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = exact_log2(self.banks)
        early = delayed(m, "early", self.skew, self.latency - 2)
        skew = delayed(m, "skew", early, 1)
        chosen = rotate_held(m, "chosen", [list(self.data_0), list(self.data_1)], 0, 1,
                             lambda array, value, lane: (self.half == array) & (early[0] == value), up=False)
        last = max(1, bits - 2)
        rotated = rotate(m, "data", chosen, skew, 1, last, up=False)
        m.d.comb += self.o.as_value().eq(Cat(*rotate_held(
            m, "rotated", [rotated], last, bits, lambda array, value, lane: skew[last:] == value, up=False)))
        return m
