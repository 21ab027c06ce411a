"""Operands of the vector engine's lanes: groups of a and b from the scratchpad, in halves side by side.

::

    command --> SharedArray --> turn --> a, held --> half --> reg --> reg --> a
         0          2       but by W/2    3               4       5
                                   \\--> b, held -----> half ---> reg --> b
                                            4                      5

A group of a and one of b are read in turn and used in the two cycles in which the next two are, so what is held
need not be turned by half of the lanes: one chooses the other half instead.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.memory.scratchpad import rotate, vector_command


class PairReader(wiring.Component):
    """Reads pairs of groups of W words.

    Parameters
    ----------
    banks, lines : int
        As of the scratchpad; W = ``banks``.

    Members
    -------
    command : Out of :func:`~plinth_hw.memory.scratchpad.vector_command`, seen from the client
        Its group is one of b if ``second``, given a cycle after that of a, else one of a. With ``broadcast`` lane
        0's word is that of all lanes.
    no_b : In(1)
        Zeros come in place of b.
    data : In
        Of each bank, two cycles after the command.
    a, b : Out, W/2 words
        Lower lanes ``latency`` cycles after a's command, upper lanes a cycle later.
    """

    #: Cycles from a's command to lower lanes of both.
    latency = 5

    def __init__(self, banks: int, lines: int):
        self.banks = banks
        words = data.ArrayLayout(unsigned(32), banks // 2)
        super().__init__({
            "command": In(wiring.Signature({**vector_command(banks, lines), "second": Out(1), "broadcast": Out(1)})),
            "no_b": In(1), "data": In(data.ArrayLayout(unsigned(32), banks)), "a": Out(words), "b": Out(words),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        half_bits = (self.banks // 2 - 1).bit_length()
        turn = data.StructLayout({"skew": half_bits + 1, "broadcast": 1, "second": 1})
        turn_1, turn_2, turn_a, turn_b = (Signal(turn, name=f"turn_{name}") for name in ("1", "2", "a", "b"))
        held_a, held_b = (Signal(32 * self.banks, name=f"held_{name}", reset_less=True) for name in "ab")
        second_3, valid_1, valid_2 = Signal(), Signal(), Signal()
        turned = Cat(rotate(m, "data", [self.data[bank] for bank in range(self.banks)], turn_2.skew, 0, half_bits,
                            up=False, broadcast=turn_2.broadcast))
        m.d.sync += [
            valid_1.eq(self.command.enable), valid_2.eq(valid_1), second_3.eq(turn_2.second),
            turn_1.eq(Cat(self.command.skew, self.command.broadcast, self.command.second)), turn_2.eq(turn_1),
        ]
        with m.If(valid_2 & ~turn_2.second):
            m.d.sync += [held_a.eq(turned), turn_a.eq(turn_2)]
        with m.If(valid_2 & turn_2.second):
            m.d.sync += [held_b.eq(turned), turn_b.eq(turn_2)]

        def half(held: Any, turn: Any, upper: Any) -> Any:
            return Cat(Mux(Mux(turn.broadcast, (turn.skew - lane)[half_bits], turn.skew[half_bits] ^ upper),
                           held.word_select(lane + self.banks // 2, 32), held.word_select(lane, 32))
                       for lane in range(self.banks // 2))

        half_a = Signal(16 * self.banks, reset_less=True)
        m.d.sync += [
            half_a.eq(half(held_a, turn_a, second_3)), self.a.as_value().eq(half_a),
            self.b.as_value().eq(Mux(self.no_b, 0, half(held_b, turn_b, ~second_3))),
        ]
        return m
