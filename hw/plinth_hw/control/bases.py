"""Pointers of a task's body become addresses.

::

    number of the base --> register of each base, zero but for the one wanted --> OR --+
    word of the body ----> register ---------------------------------------------------+--> sum --> o

The OR of registers takes 5 LUT4 a bit for 16 base registers, instead of 12 and more. Base registers stay while tasks
are under way, so a pointer may be resolved as soon as it comes. Latency: 1 cycle; a word a cycle.
"""

from collections.abc import Collection

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import BASE_COUNT
from plinth_hw.isa.tasks import Pointer
from plinth_hw.lib.choice import one_registered
from plinth_hw.shapes import shape_of


class BodyAddresses(wiring.Component):
    """Words of a body with addresses in place of pointers.

    Parameters
    ----------
    parameters : DieParameters
    pointers : collection of int
        Which words of the body are pointers.

    Members
    -------
    bases : In
        The base registers.
    i_valid, i : In(1), In(BodyWord)
        A word is there.
    o_valid, o : Out(1), Out(BodyWord)
        It was, a cycle ago; the same word, or the address that it points to.
    """

    def __init__(self, parameters: DieParameters, pointers: Collection[int]) -> None:
        self.parameters = parameters
        self.pointers = tuple(pointers)
        super().__init__({
            "bases": In(data.ArrayLayout(unsigned(parameters.address_bits), BASE_COUNT)),
            "i_valid": In(1), "i": In(BodyWord), "o_valid": Out(1), "o": Out(BodyWord),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pointer, is_pointer = Signal(shape_of(Pointer), name="pointer"), Signal(name="is_pointer")
        given = Signal.like(self.i.word)
        numbers = range(BASE_COUNT)
        base = one_registered(m, "base", [is_pointer & (pointer.base == number) for number in numbers],
                              [self.bases[number] for number in numbers])
        m.d.comb += [
            pointer.eq(self.i.word), is_pointer.eq(Cat(self.i.index == index for index in self.pointers).any()),
            self.o.word.eq(given + base),
        ]
        m.d.sync += [
            self.o_valid.eq(self.i_valid), self.o.index.eq(self.i.index), self.o.last.eq(self.i.last),
            given.eq(Mux(is_pointer, pointer.offset, self.i.word)),
        ]
        return m
