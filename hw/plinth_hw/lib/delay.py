"""What was there some cycles before: registers for few bits or cycles, look-up-table RAM for many."""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from plinth_hw.lib.ram import SECTION


def delayed(m: Module, name: str, value: Any, cycles: int, *, reset_less: bool = False) -> Any:
    """``value``, of the same shape, of ``cycles`` cycles before, in registers; zero until then, or, if these are not
    reset, anything."""
    for cycle in range(cycles):
        stage = Signal(value.shape(), name=f"{name}_delay_{cycle}", reset_less=reset_less)
        m.d.sync += stage.eq(value)
        value = stage
    return value


def skewed(m: Module, name: str, lanes: Iterable[Value]) -> list[Value]:
    """Lane i delayed by i cycles. Stage i is one register, not reset, for all lanes that still have to wait."""
    waiting, done = list(lanes), []
    bits = len(waiting[0])
    while True:
        done.append(waiting[0])
        if len(waiting) == 1:
            return done
        stage = Signal(bits * (len(waiting) - 1), name=f"{name}_skew_{len(done)}", reset_less=True)
        m.d.sync += stage.eq(Cat(*waiting[1:]))
        waiting = [stage.word_select(i, bits) for i in range(len(waiting) - 1)]


class DelayLine(wiring.Component):
    """Gives each word ``cycles`` cycles after it came.

    Sections of look-up-table RAM, one behind the other, all written at the same place. One word a cycle.

    Parameters
    ----------
    shape : ShapeLike
        Word.
    cycles : int
        At least 1.

    Members
    -------
    i : In
        Word of this cycle.
    o : Out
        Word of ``cycles`` cycles ago; anything in the first ones after reset.

    Raises
    ------
    ValueError
        If ``cycles`` is not positive.
    """

    def __init__(self, shape: Any, cycles: int) -> None:
        if cycles < 1:
            raise ValueError(f"Cycles of a delay line must be positive, not {cycles!r}")
        self.shape = shape
        self.cycles = cycles
        super().__init__({"i": In(shape), "o": Out(shape)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place = Signal(range(SECTION))
        m.d.sync += place.eq(place + 1)
        word: Any = self.i
        for number, first in enumerate(range(0, self.cycles, SECTION)):
            m.submodules[f"section_{number}"] = section = Memory(shape=self.shape, depth=SECTION, init=[])
            write, read = section.write_port(), section.read_port(domain="comb")
            delay = min(SECTION, self.cycles - first)
            m.d.comb += [write.en.eq(1), write.addr.eq(place), write.data.eq(word), read.addr.eq(place - delay)]
            word = read.data
        m.d.comb += self.o.eq(word)
        return m
