# amaranth: UnusedElaboratable=no
# Elements and rows that share a module are elaborated once, however often they are placed.
"""Processing element of the output-stationary array, and a row of them.

::

                   chain   b
                     |     |
    a ---------------|---> x --product--> + --sum--+------------> delay, I - La words --+
                     |     |              ^        |                                    |
                     |     |              +--------|--- zero, preload or circulate <----+
                     |     |                       v            ^
                     +-----|---- load -----> drain memory ------+
                     |     |                 (I words)
                     v     |                     |
                   drain <-|---------------------+
                     |     |
                     v     v

The sum of a slot leaves the adder La cycles after it entered, and is back at the adder's input I cycles
after it entered, together with the slot's next product. Operands move right and down, controls right, the
drain chain down, each through one register an element.

Latency: ``multiply_latency`` (Lm) from operands to product, ``add_latency`` (La) from there to the sum. One
multiply-add a cycle. Source: MPT, section VI.B.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from plinth_hw import emit
from plinth_hw.arith.units import multiplier as multiplier_unit
from plinth_hw.isa.formats import Format, identifiers
from plinth_hw.lib.ram import FEW, FLIP_FLOPS
from plinth_hw.matrix.chain import captured, chain_format, next_sum, sum_adder


def slot_shape(interleave: int) -> Shape:
    """Shape of a slot number."""
    return Shape(ceil_log2(interleave))


def pe_control(interleave: int) -> data.StructLayout:
    """Control of an element; every field acts in the cycle in which it is present.

    ``zero``, ``preload``: the sum that goes to the adder next starts from +0, or from memory word
    ``read_slot``. ``drain``: that word goes into the chain. ``capture``, ``load``: the adder's sum, or the
    word in the chain, goes to memory word ``write_slot``.
    """
    return data.StructLayout({
        "zero": 1, "preload": 1, "drain": 1, "read_slot": slot_shape(interleave),
        "capture": 1, "load": 1, "write_slot": slot_shape(interleave),
    })


def row_control(interleave: int) -> data.StructLayout:
    """Control of a row, aligned to its first element: start of sums, and capture of sums."""
    return data.StructLayout({
        "zero": 1, "preload": 1, "start_slot": slot_shape(interleave),
        "capture": 1, "capture_slot": slot_shape(interleave),
    })


#: A token enables one row after another to drain, to load, or both.
TOKEN = data.StructLayout({"drain": 1, "load": 1})


class ProcessingElement(wiring.Component):
    """Multiply-add over I circulating sums, with a drain memory of I words.

    Parameters
    ----------
    multiply_format, accumulate_format : Format
        Formats of the operands and of the sums.
    interleave : int
        I; at least the adder's latency, and 2.

    Members
    -------
    a, b : In
        Operands, every cycle. A bubble is -0 times +0.
    control : In(pe_control)
        What to do in this cycle.
    chain : In
        Word from the element above.
    o_a, o_b, o_control : Out
        ``a``, ``b`` and ``control`` of the cycle before, for the neighbours.
    o_chain : Out
        Word for the element below: the memory's word if ``control.drain`` was set, else ``chain``.

    Attributes
    ----------
    multiply_latency, add_latency : int
        Lm and La.
    word_format : Format
        Of ``chain`` and ``o_chain``, see :mod:`~plinth_hw.matrix.chain`.
    start_lead : int
        Cycles by which the choice of a starting value precedes the adder's input: 1, or 0 if I = La.

    Raises
    ------
    ValueError
        If the interleave is below the adder's latency, or 2.
    """

    def __init__(self, multiply_format: Format, accumulate_format: Format, interleave: int) -> None:
        self._multiplier = multiplier_unit(multiply_format, accumulate_format)
        self._adder = sum_adder(accumulate_format)
        self.multiply_format = multiply_format
        self.accumulate_format = accumulate_format
        self.word_format = chain_format(multiply_format, accumulate_format)
        self.interleave = interleave
        self.multiply_latency = self._multiplier.latency
        self.add_latency = self._adder.latency
        least = max(2, self.add_latency)
        if interleave < least:
            raise ValueError(f"Interleave must be at least {least} for sums of {accumulate_format}, not "
                             f"{interleave!r}")
        self.start_lead = int(interleave > self.add_latency)
        operand, word, control = multiply_format.bits, self.word_format.bits, pe_control(interleave)
        super().__init__({
            "a": In(operand), "b": In(operand), "control": In(control), "chain": In(word),
            "o_a": Out(operand), "o_b": Out(operand), "o_control": Out(control), "o_chain": Out(word),
        })

    @property
    def module_name(self) -> str:
        """Name of the module that all equal elements share."""
        return f"plinth_element_{identifiers(self.multiply_format, self.accumulate_format)}_i{self.interleave}"

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        sums, words, control = self.accumulate_format, self.word_format, self.control
        m.submodules.multiplier = multiplier = self._multiplier
        m.submodules.adder = adder = self._adder
        m.submodules.memory = memory = Memory(
            shape=words.bits, depth=self.interleave, init=[], attrs=FLIP_FLOPS if self.interleave <= FEW else {})
        write, read = memory.write_port(), memory.read_port(domain="comb")

        o_a, o_b, o_chain = (Signal.like(port, name=f"{name}_register", reset_less=True)
                             for name, port in (("a", self.a), ("b", self.b), ("chain", self.chain)))
        m.d.sync += [
            o_a.eq(self.a),
            o_b.eq(self.b),
            o_chain.eq(Mux(control.drain, read.data, self.chain)),
            self.o_control.eq(control),
        ]
        m.d.comb += [self.o_a.eq(o_a), self.o_b.eq(o_b), self.o_chain.eq(o_chain)]

        total = adder.o
        for i in range(self.interleave - self.add_latency - 1):
            stage = Signal(len(adder.o), name=f"total_{i}", reset_less=True)
            m.d.sync += stage.eq(total)
            total = stage
        start = next_sum(m, sums, words, total, read.data, control.preload, control.zero)
        if self.start_lead:
            circulating = Signal(sums.bits, name="circulating", reset_less=True)
            m.d.sync += circulating.eq(start)
            start = circulating
        m.d.comb += [
            multiplier.a.eq(self.a), multiplier.b.eq(self.b),
            adder.a.eq(start), adder.b.eq(multiplier.o),
            read.addr.eq(control.read_slot),
            write.addr.eq(control.write_slot),
            write.en.eq(control.capture | control.load),
            write.data.eq(captured(m, sums, words, adder.o, self.chain, control.load)),
        ]
        return m


class ProcessingRow(wiring.Component):
    """One row of C elements, and the head that makes their controls.

    The head holds a token for I cycles and passes it on, so that the words of the next row follow those of
    this one in the chain without a gap.

    Members
    -------
    a : In
        Operand of the row; element c sees it c cycles later.
    b : In(ArrayLayout)
        Operand of every column; that of column c is c cycles behind column 0.
    control : In(row_control)
        Aligned to element 0, as ``a`` is.
    token : In(TOKEN)
        Pulse: the row drains and loads slots 0..I-1 from the next cycle on.
    chain : In(ArrayLayout)
        Words from the row above, column c c cycles behind column 0.
    valid : In(1)
        Column 0 of ``chain`` is a drained word.
    o_b, o_control, o_token, o_chain, o_valid : Out
        The same for the row below.
    """

    def __init__(self, multiply_format: Format, accumulate_format: Format, columns: int,
                 interleave: int) -> None:
        self.multiply_format = multiply_format
        self.accumulate_format = accumulate_format
        self.columns = columns
        self.interleave = interleave
        operands = data.ArrayLayout(multiply_format.bits, columns)
        words = data.ArrayLayout(chain_format(multiply_format, accumulate_format).bits, columns)
        control = row_control(interleave)
        super().__init__({
            "a": In(multiply_format.bits),
            "b": In(operands), "control": In(control), "token": In(TOKEN), "chain": In(words),
            "valid": In(1),
            "o_b": Out(operands), "o_control": Out(control), "o_token": Out(TOKEN), "o_chain": Out(words),
            "o_valid": Out(1),
        })

    @property
    def module_name(self) -> str:
        """Name of the module that all equal rows share."""
        return (f"plinth_row_{identifiers(self.multiply_format, self.accumulate_format)}_c{self.columns}"
                f"_i{self.interleave}")

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        drain, load, final = Signal(name="drain"), Signal(name="load"), Signal(name="final")
        slot = Signal(slot_shape(self.interleave))
        m.d.comb += final.eq(slot == self.interleave - 1)
        m.d.sync += [
            slot.eq(Mux(final, 0, slot + (drain | load))),
            drain.eq(self.token.drain | (drain & ~final)),
            load.eq(self.token.load | (load & ~final)),
            self.o_token.drain.eq(drain & final),
            self.o_token.load.eq(load & final),
            self.o_valid.eq(drain | self.valid),
            self.o_control.eq(self.control),
        ]

        a, control = self.a, Signal(pe_control(self.interleave), name="control")
        m.d.comb += [
            control.zero.eq(self.control.zero),
            control.preload.eq(self.control.preload),
            control.drain.eq(drain),
            control.read_slot.eq(Mux(drain, slot, self.control.start_slot)),
            control.capture.eq(self.control.capture),
            control.load.eq(load),
            control.write_slot.eq(Mux(load, slot, self.control.capture_slot)),
        ]
        for c in range(self.columns):
            element = ProcessingElement(self.multiply_format, self.accumulate_format, self.interleave)
            emit.place(m, platform, element, name=f"element_{c}", module=element.module_name)
            m.d.comb += [
                element.a.eq(a), element.b.eq(self.b[c]), element.control.eq(control),
                element.chain.eq(self.chain[c]),
                self.o_b[c].eq(element.o_b), self.o_chain[c].eq(element.o_chain),
            ]
            a, control = element.o_a, element.o_control
        return m
