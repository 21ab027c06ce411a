"""Pointers of tasks' bodies become addresses, on the way from dispatch to the queues.

::

    word --+--> number of its base --> base registers (LUT RAM, read at once) --> register --+
           +--> offset of a pointer, or the whole of another word --------------> register --+--> sum --> o

Base registers stay while tasks are under way, so a pointer may be resolved as soon as it comes. Latency: 1 cycle; a
word a cycle.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.control.dispatch import engine_order
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS, HEADER_WORDS, Pointer
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import pointer_words
from plinth_hw.shapes import shape_of


class BodyAddresses(wiring.Component):
    """Words of bodies with addresses in place of pointers; engines go by their position.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    position, index, word : In
        A word of a descriptor for that engine; one of the body.
    number : Out(4), base : In
        Of a pointer: which base register, and what that holds, in the same cycle.
    o : Out(32)
        The word of a cycle ago, or the address that it points to.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        self.engines = engine_order(parameters)
        super().__init__({
            "position": In(range(max(2, len(self.engines)))), "index": In(exact_log2(DESCRIPTOR_WORDS)),
            "word": In(WORD_BITS), "number": Out(Pointer.FIELDS["base"].shape.bits),
            "base": In(parameters.address_bits), "o": Out(WORD_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pointer, is_pointer = Signal(shape_of(Pointer), name="pointer"), Signal(name="is_pointer")
        offset, base = Signal(WORD_BITS, name="offset"), Signal(unsigned(self.parameters.address_bits), name="of")
        m.d.comb += [pointer.eq(self.word), self.number.eq(pointer.base), self.o.eq(offset + base)]
        with m.Switch(Cat(self.index, self.position)), m.Case(*(
                position << len(self.index) | HEADER_WORDS + word for position, engine in enumerate(self.engines)
                for word in pointer_words(self.parameters.body(engine)))):
            m.d.comb += is_pointer.eq(1)
        m.d.sync += [offset.eq(Mux(is_pointer, pointer.offset, self.word)), base.eq(Mux(is_pointer, self.base, 0))]
        return m
