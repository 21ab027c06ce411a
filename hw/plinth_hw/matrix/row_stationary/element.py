# amaranth: UnusedElaboratable=no
# Arithmetic units that are made to ask for their latency; elements that are placed as instances.
"""Processing element of the row-stationary array.

::

    filters (2 halves) --line--> word --+
                                        x --product--> + --sum--+---> chain, to the element below
    ifmaps (ring) -----line--> word --+              ^        |
                                                       |        v
    chain, from the element above --> psums (ring) --> start <-- accumulators

The element is datapath only: all elements of a row run in lockstep, and the row makes their control.

Latency from the addresses of a slot's operands, in cycles (Lm multiplier, La adder): the line 1, the word 2,
the product 2 + Lm, the sum 2 + Lm + La; its starting value is chosen 1 + Lm after the addresses. One
multiply-add a cycle. Source: HyPar, section 5; Eyeriss.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.units import adder as adder_unit
from plinth_hw.arith.units import multiplier as multiplier_unit
from plinth_hw.isa.formats import identifiers
from plinth_hw.matrix.row_stationary.interface import ArrayShape


def read_control(lines: int, words: int) -> data.StructLayout:
    """A line is read in the cycle of ``enable``; ``word`` selects from it one cycle later."""
    return data.StructLayout({"enable": 1, "line": range(lines), "word": range(words)})


def element_control(shape: ArrayShape) -> data.StructLayout:
    """Control of the elements of a row; every field acts in the cycle in which it is present.

    ``filter``, ``ifmap``: operands. ``bubble``: with the selected words, multiply -0 by +0 instead.
    ``start``: what goes to the adder next starts from word ``psum_read`` of the psums, else from accumulator
    ``read_slot``. ``capture``: the adder's sum goes to accumulator ``write_slot``. ``chain``: the word from above
    goes to word ``psum_write`` of the psums. ``filter_write``, ``ifmap_write``: places of lines that are written.
    """
    return data.StructLayout({
        "filter": read_control(2 * shape.filter_lines, shape.feed_words),
        "ifmap": read_control(shape.ifmap_lines, shape.feed_words),
        "bubble": 1,
        "start": 1, "psum_read": range(2 * shape.psum_words), "read_slot": range(shape.psum_words),
        "capture": 1, "write_slot": range(shape.psum_words),
        "chain": 1, "psum_write": range(2 * shape.psum_words),
        "filter_enable": 1, "filter_write": range(2 * shape.filter_lines),
        "ifmap_write": range(shape.ifmap_lines),
    })


class RowElement(wiring.Component):
    """Multiply-add on operands and psums of its own scratchpads.

    Parameters
    ----------
    shape : ArrayShape

    Members
    -------
    control : In(element_control)
    filter_words, ifmap_words : In(operand_line)
        Lines to write; the first with ``control.filter_enable``, the second with ``ifmap_enable``.
    ifmap_enable : In(1)
    chain : In
        Word from the element above.
    o_chain : Out
        The adder's sum, for the element below.

    Attributes
    ----------
    multiply_latency, add_latency : int
        Lm and La.
    """

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape
        self._multiplier = multiplier_unit(shape.multiply_format, shape.accumulate_format)
        self._adder = adder_unit(shape.accumulate_format)
        self.multiply_latency = self._multiplier.latency
        self.add_latency = self._adder.latency
        word = shape.accumulate_format.bits
        super().__init__({
            "control": In(element_control(shape)),
            "filter_words": In(shape.operand_line),
            "ifmap_words": In(shape.operand_line), "ifmap_enable": In(1),
            "chain": In(word), "o_chain": Out(word),
        })

    @property
    def module_name(self) -> str:
        """Name of the module that all equal elements share."""
        shape = self.shape
        return (f"plinth_row_element_{identifiers(shape.multiply_format, shape.accumulate_format)}"
                f"_w{shape.filter_words}_x{shape.ifmap_words}_s{shape.psum_words}_f{shape.feed_words}")

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape, control = self.shape, self.control
        operand, word = shape.multiply_format.bits, shape.accumulate_format.bits
        m.submodules.multiplier = multiplier = self._multiplier
        m.submodules.adder = adder = self._adder
        m.submodules.filters = filters = Memory(shape=shape.operand_line, depth=2 * shape.filter_lines, init=[])
        m.submodules.ifmaps = ifmaps = Memory(shape=shape.operand_line, depth=shape.ifmap_lines, init=[])
        m.submodules.psums = psums = Memory(shape=word, depth=2 * shape.psum_words, init=[])
        m.submodules.accumulators = accumulators = Memory(shape=word, depth=shape.psum_words, init=[])

        for memory, read, enable, place, words in (
                (filters, control.filter, control.filter_enable, control.filter_write, self.filter_words),
                (ifmaps, control.ifmap, self.ifmap_enable, control.ifmap_write, self.ifmap_words)):
            write, line = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.en.eq(enable), write.addr.eq(place), write.data.eq(words),
                line.en.eq(read.enable), line.addr.eq(read.line),
            ]
            factor = Signal(operand, reset_less=True)
            if memory is filters:
                m.d.sync += factor.eq(Mux(control.bubble, 1 << (operand - 1), line.data[read.word]))
                m.d.comb += multiplier.a.eq(factor)
            else:
                m.d.sync += factor.eq(Mux(control.bubble, 0, line.data[read.word]))
                m.d.comb += multiplier.b.eq(factor)

        from_above, own = psums.read_port(domain="comb"), accumulators.read_port(domain="comb")
        arrive, capture = psums.write_port(), accumulators.write_port()
        start = Signal(word, reset_less=True)
        m.d.sync += start.eq(Mux(control.start, from_above.data, own.data))
        m.d.comb += [
            from_above.addr.eq(control.psum_read), own.addr.eq(control.read_slot),
            adder.a.eq(start), adder.b.eq(multiplier.o),
            arrive.en.eq(control.chain), arrive.addr.eq(control.psum_write), arrive.data.eq(self.chain),
            capture.en.eq(control.capture), capture.addr.eq(control.write_slot), capture.data.eq(adder.o),
            self.o_chain.eq(adder.o),
        ]
        return m
