# amaranth: UnusedElaboratable=no
# Elements that share a module are elaborated once, however often they are placed.
"""The C processing elements of a row: cells, or for fast simulation loops."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw import emit
from plinth_hw.isa.formats import identifiers
from plinth_hw.matrix.row_stationary import loops
from plinth_hw.matrix.row_stationary.element import RowElement, element_control
from plinth_hw.matrix.row_stationary.interface import ID_BITS, ArrayShape


class RowElements(wiring.Component):
    """Elements that run in lockstep under one control.

    Parameters
    ----------
    shape : ArrayShape

    Members
    -------
    control : In(element_control)
    filter_words : In(operand_line)
        The line that is written with ``control.filter_enable``, to all elements.
    ifmaps : In
        A line that elements whose part of the id is ``offset`` write; with ``valid``.
    column_parts : In
        Parts of the ids.
    chosen, completes : In(1)
        With ``control.start``: a sum is chosen at all, and its next product is its last. For the loops, which do the
        work of several stages at once.
    chain, o_chain : In, Out
        Words of the row above, and for the row below.

    Attributes
    ----------
    start_stage, result_stage : int
        Cycles from the addresses of a slot until its starting value is chosen, and until its sum is there.
    """

    def __init__(self, shape: ArrayShape) -> None:
        self.shape = shape
        element = RowElement(shape)
        self.start_stage = 1 + element.multiply_latency
        self.result_stage = 2 + element.multiply_latency + element.add_latency
        super().__init__({
            "control": In(element_control(shape)),
            "filter_words": In(shape.operand_line),
            "ifmaps": In(data.StructLayout({
                "valid": 1, "offset": ID_BITS, "words": shape.operand_line})),
            "column_parts": In(data.ArrayLayout(ID_BITS, shape.columns)),
            "chosen": In(1), "completes": In(1),
            "chain": In(shape.column_psums), "o_chain": Out(shape.column_psums),
        })

    @property
    def module_name(self) -> str:
        """Name of the module that stands for the elements when they are emitted in the ``loops`` form."""
        shape = self.shape
        return (f"plinth_row_elements_{identifiers(shape.multiply_format, shape.accumulate_format)}_c{shape.columns}"
                f"_w{shape.filter_words}_x{shape.ifmap_words}_s{shape.psum_words}_f{shape.feed_words}")

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if isinstance(platform, emit.Emission) and platform.array_form == "loops":
            platform.register(self.module_name, self, lambda: loops.text(self, self.module_name))
            emit.instance(m, self, name="loops", module=self.module_name)
            return m
        for c in range(self.shape.columns):
            element = RowElement(self.shape)
            emit.place(m, platform, element, name=f"element_{c}", module=element.module_name)
            m.d.comb += [
                element.control.eq(self.control),
                element.filter_words.eq(self.filter_words), element.ifmap_words.eq(self.ifmaps.words),
                element.ifmap_enable.eq(self.ifmaps.valid & (self.ifmaps.offset == self.column_parts[c])),
                element.chain.eq(self.chain[c]), self.o_chain[c].eq(element.o_chain),
            ]
        return m
