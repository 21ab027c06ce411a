# amaranth: UnusedElaboratable=no
# Elements and rows that share a module are elaborated once, however often they are placed.
"""Output-stationary systolic array: R x C processing elements, I interleaved outputs in each.

::

               b (C operands of one slot), load_data
                 |    |    |     skew: column c by c cycles
       skew      v    v    v
     a --[0]---> PE---PE---PE    controls of row r, column c: r + c cycles after the boundary
     a --[1]---> PE---PE---PE
     a --[2]---> PE---PE---PE
       row r     |    |    |
       by r      v    v    v     de-skew: column c by C - 1 - c cycles
               drain_data, drain_valid

The boundary is free of skew: everything that belongs to one slot enters, and every row of results leaves,
in one cycle. Let Lm and La be the latencies of multiplier and adder, and let slot 0 with ``last`` (or
``first``) be presented in cycle T, so that slot s is presented in cycle T + s.

=====================  ===================  ===========================================================
attribute              value                meaning, in cycles
=====================  ===================  ===========================================================
``compute_latency``    1 + Lm + La          earliest ``drain_start`` or ``load_start`` after the boundary
                                            cycle T + I - 1 of the tile's last slot with ``last``
``drain_latency``      R + C                from ``drain_start`` to the first ``drain_valid``
``load_delay``         1                    from ``load_start`` to word (row 0, slot 0) on ``load_data``
``token_cycles``       R I                  words of a drain or load; least spacing of two tokens
``load_latency``       max(0, R I + 1 - Lm) from ``load_start`` to the earliest slot 0 with ``preload``
``capture_spacing``    R I - I - Lm - La    from ``drain_start`` to the next tile's slot 0 with ``last``,
                                            at the earliest (may be negative: that tile may come first)
=====================  ===================  ===========================================================

Tokens are ``drain_start`` and ``load_start``. Both in one cycle are an *exchange*: the drain memories send
their results and take the loaded words instead, slot by slot. In different cycles they are at least
``token_cycles`` apart. A drain sends, without gaps, row 0 slots 0..I-1, row 1 slots 0..I-1, ...; a load
takes its words in the same order, also without gaps. As T2 - T1 is a multiple of I for tiles whose last slots
are presented at T1 and T2, and a drain starts at T1 + I - 1 + ``compute_latency``, tiles follow each other
without a pause if each has at least R k steps.

Throughput: R C multiply-adds a cycle. Source: MPT, section VI.B.
"""

import itertools
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw import emit
from plinth_hw.isa.formats import Format, identifiers
from plinth_hw.lib.delay import delayed, skewed
from plinth_hw.matrix import systolic_loops
from plinth_hw.matrix.chain import chain_format
from plinth_hw.matrix.pe import TOKEN, ProcessingElement, ProcessingRow, row_control, slot_shape


class SystolicArray(wiring.Component):
    """R x C output-stationary array with I interleaved outputs in each element.

    Order of every sum: ``acc_0 = +0`` (or the loaded word), ``acc_{k+1} = acc_k + (a_k * b_k)`` in the order
    of presentation, product and sum each rounded to nearest even; fixed-point products are exact, and sums saturate.

    Parameters
    ----------
    multiply_format, accumulate_format : Format
        Formats of the operands and of the sums. Products are rounded to the accumulate format.
    rows, columns : int
        R and C; any positive sizes.
    interleave : int
        I, the slots of an element; at least the adder's latency, and 2.

    Members
    -------
    a : In(ArrayLayout(multiply bits, rows))
        Operands of this slot, one for each row.
    b : In(ArrayLayout(multiply bits, columns))
        Operands of this slot, one for each column.
    slot : In
        Slot of this cycle. Counts modulo I without pause, whether slots are valid or not.
    valid : In(1)
        The slot multiplies. Otherwise a bubble: sums stay as they are, and ``first``, ``preload``
        and ``last`` have no effect.
    first : In(1)
        The slot starts a new output: from +0, or with ``preload`` from the drain memory.
    preload : In(1)
        With ``first``: start from the word that was loaded.
    last : In(1)
        With this product the sum is complete: it is captured in the drain memory.
    drain_start, load_start : In(1)
        Pulses; see the module's rules of spacing.
    load_data : In(ArrayLayout(bits of ``word_format``, columns))
        Word (row r, slot s) of every column ``load_delay + r * I + s`` cycles after ``load_start``.
    drain_data : Out(ArrayLayout(bits of ``word_format``, columns))
        Word (row r, slot s) of every column ``drain_latency + r * I + s`` cycles after ``drain_start``.
    drain_valid : Out(1)
        High for the R I cycles of a drain.

    Attributes
    ----------
    word_format : Format
        Of words that are loaded and drained, see :mod:`~plinth_hw.matrix.chain`.

    Raises
    ------
    TypeError
        If a size is not an integer.
    ValueError
        If a size is not positive, or the interleave is below the adder's latency, or 2.
    """

    def __init__(self, multiply_format: Format, accumulate_format: Format, rows: int, columns: int,
                 interleave: int) -> None:
        for name, value in (("Rows", rows), ("Columns", columns), ("Interleave", interleave)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, not {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be positive, not {value!r}")
        self.multiply_format = multiply_format
        self.accumulate_format = accumulate_format
        self.word_format = chain_format(multiply_format, accumulate_format)
        self.rows = rows
        self.columns = columns
        self.interleave = interleave
        element = ProcessingElement(multiply_format, accumulate_format, interleave)
        self.multiply_latency = element.multiply_latency
        self.add_latency = element.add_latency
        #: Cycles from the boundary until the starting value of a sum is chosen, and until the sum is captured.
        self.start_delay = 1 + self.multiply_latency - element.start_lead
        self.capture_delay = 1 + self.multiply_latency + self.add_latency
        self.compute_latency = 1 + self.multiply_latency + self.add_latency
        self.drain_latency = rows + columns
        self.load_delay = 1
        self.token_cycles = rows * interleave
        self.load_latency = max(0, rows * interleave + 1 - self.multiply_latency)
        self.capture_spacing = rows * interleave - interleave - self.multiply_latency - self.add_latency
        operand, word = multiply_format.bits, self.word_format.bits
        super().__init__({
            "a": In(data.ArrayLayout(operand, rows)),
            "b": In(data.ArrayLayout(operand, columns)),
            "slot": In(slot_shape(interleave)),
            "valid": In(1),
            "first": In(1),
            "preload": In(1),
            "last": In(1),
            "drain_start": In(1),
            "load_start": In(1),
            "load_data": In(data.ArrayLayout(word, columns)),
            "drain_data": Out(data.ArrayLayout(word, columns)),
            "drain_valid": Out(1),
        })

    @property
    def module_name(self) -> str:
        """Name of the module that stands for the array when it is emitted in the ``loops`` form."""
        return (f"plinth_systolic_{identifiers(self.multiply_format, self.accumulate_format)}_r{self.rows}"
                f"_c{self.columns}_i{self.interleave}")

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if isinstance(platform, emit.Emission) and platform.array_form == "loops":
            platform.register(self.module_name, self, lambda: systolic_loops.text(self, self.module_name))
            emit.instance(m, self, name="loops", module=self.module_name)
        else:
            self._cells(m, platform)
        return m

    def _cells(self, m: Module, platform: Any) -> None:
        operand = self.multiply_format.bits
        first, last = Signal(name="first"), Signal(name="last")
        m.d.comb += [first.eq(self.valid & self.first), last.eq(self.valid & self.last)]

        rows = [ProcessingRow(self.multiply_format, self.accumulate_format, self.columns, self.interleave)
                for _ in range(self.rows)]
        # A bubble multiplies -0 by +0: the product -0 leaves every sum as it is.
        negative_zero = Const(1 << (operand - 1), operand)
        a_1, b_1 = (Signal(self.signature.members[name].shape, name=f"{name}_1", reset_less=True)
                    for name in ("a", "b"))
        for r in range(self.rows):
            m.d.sync += a_1[r].eq(Mux(self.valid, self.a[r], negative_zero))
        for c in range(self.columns):
            m.d.sync += b_1[c].eq(Mux(self.valid, self.b[c], 0))
        for row, a in zip(rows, skewed(m, "a", a_1), strict=True):
            m.d.comb += row.a.eq(a)
        for r, row in enumerate(rows):
            emit.place(m, platform, row, name=f"row_{r}", module=row.module_name, room=True)
        for c, (b, word) in enumerate(zip(skewed(m, "b", b_1), skewed(m, "load", self.load_data),
                                          strict=True)):
            m.d.comb += [rows[0].b[c].eq(b), rows[0].chain[c].eq(word)]
        results = [rows[-1].o_chain[c] for c in reversed(range(self.columns))]
        for c, word in enumerate(reversed(skewed(m, "drain", results))):
            m.d.comb += self.drain_data[c].eq(word)

        start = delayed(m, "start", Cat(first & ~self.preload, first & self.preload, self.slot),
                       self.start_delay)
        capture = delayed(m, "capture", Cat(last, self.slot), self.capture_delay)
        m.d.comb += [
            rows[0].control.eq(data.View(row_control(self.interleave), Cat(start, capture))),
            rows[0].token.eq(data.View(TOKEN, Cat(self.drain_start, self.load_start))),
            self.drain_valid.eq(delayed(m, "valid", rows[-1].o_valid, self.columns - 1)),
        ]
        for above, below in itertools.pairwise(rows):
            m.d.comb += [
                below.b.eq(above.o_b), below.chain.eq(above.o_chain), below.control.eq(above.o_control),
                below.token.eq(above.o_token), below.valid.eq(above.o_valid),
            ]
