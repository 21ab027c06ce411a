"""Operands of the vector engine's lanes: groups of a and b from the scratchpad, in halves side by side.

::

    command --> SharedArray --> reg --> reg --> turn --> a, held --> half --> reg --> a
         0          2            3       4  but by W/2      5                  6      7
                                                turn --> b, held --> half ----------> b
                                                            6                         7

A group of a and one of b are read in turn and each is held for the two cycles until the next one, so what is held need
not be turned by half of the lanes: one chooses the other half instead.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.lib.rotator import rotate, rotate_held
from plinth_hw.memory.scratchpad import vector_command


class PairReader(wiring.Component):
    """Reads pairs of groups of W words.

    Parameters
    ----------
    banks, lines, width : int
        As of the scratchpad; W = ``banks``.

    Members
    -------
    command : Out of :func:`~plinth_hw.memory.scratchpad.vector_command`, seen from the client
        Its group is one of b if ``second``, given a cycle after that of a, else one of a. With ``broadcast`` lane
        0's word is that of all lanes.
    no_b : In(1)
        Zeros come in place of b.
    half : In(1)
        Array that is read; stable from a command until its data have come.
    data_0, data_1 : In
        Of each bank of both arrays, two cycles after the command.
    a, b : Out, W/2 words
        Lower lanes ``latency`` cycles after a's command, upper lanes a cycle later.
    """

    #: Cycles from a's command to lower lanes of both.
    latency = 7

    def __init__(self, banks: int, lines: int, width: int):
        self.banks = banks
        self.width = width
        words = data.ArrayLayout(unsigned(width), banks // 2)
        super().__init__({
            "command": In(wiring.Signature({**vector_command(banks, lines), "second": Out(1), "broadcast": Out(1)})),
            "no_b": In(1), "half": In(1),
            **{f"data_{half}": In(data.ArrayLayout(unsigned(width), banks)) for half in range(2)},
            "a": Out(words), "b": Out(words),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        half_bits = exact_log2(self.banks // 2)
        turn = data.StructLayout({"skew": half_bits + 1, "broadcast": 1, "second": 1})
        turn_1, turn_2, turn_3, turn_4, turn_a, turn_b = (Signal(turn, name=f"turn_{name}") for name in "1234ab")
        held_a, held_b = (Signal(self.width * self.banks, name=f"held_{name}", reset_less=True) for name in "ab")
        second_5, second_6 = (Signal(name=f"second_{cycle}") for cycle in (5, 6))
        valid_1, valid_2, valid_3, valid_4 = (Signal(name=f"valid_{cycle}") for cycle in (1, 2, 3, 4))
        m.d.sync += [
            valid_1.eq(self.command.enable), valid_2.eq(valid_1), valid_3.eq(valid_2), valid_4.eq(valid_3),
            turn_1.eq(Cat(self.command.skew, self.command.broadcast, self.command.second)), turn_2.eq(turn_1),
            turn_3.eq(turn_2), turn_4.eq(turn_3), second_5.eq(turn_4.second), second_6.eq(second_5),
        ]
        first = min(1, half_bits)

        def low(lane: int) -> Value:
            return Mux(turn_2.broadcast, (turn_2.skew - lane)[:first], turn_2.skew[:first])

        # Straight from the memories; zero but for the one wanted of both arrays and of the lowest places of a turn.
        selected = rotate_held(m, "selected", [list(self.data_0), list(self.data_1)], 0, first,
                               lambda array, value, lane: (self.half == array) & (low(lane) == value), up=False)
        chosen = Signal(self.width * self.banks, name="chosen", reset_less=True)
        m.d.sync += chosen.eq(Cat(selected))
        turned = Cat(rotate(m, "data", [chosen.word_select(lane, self.width) for lane in range(self.banks)],
                            turn_4.skew, first, half_bits, up=False, broadcast=turn_4.broadcast))
        with m.If(valid_4 & ~turn_4.second):
            m.d.sync += [held_a.eq(turned), turn_a.eq(turn_4)]
        with m.If(valid_4 & turn_4.second):
            m.d.sync += [held_b.eq(turned), turn_b.eq(turn_4)]

        def half(group: Value, turn: Any, lane: int, upper: Value) -> Value:
            """The lane's word, one of two."""
            other = Mux(turn.broadcast, (turn.skew - lane)[half_bits], turn.skew[half_bits] ^ upper)
            return Mux(other, group.word_select(lane + self.banks // 2, self.width),
                       group.word_select(lane, self.width))

        for lane in range(self.banks // 2):
            early, a, b = (Signal(self.width, name=f"{name}_{lane}", reset_less=True) for name in ("early", "a", "b"))
            m.d.sync += [early.eq(half(held_a, turn_a, lane, second_5)), a.eq(early),
                         b.eq(Mux(self.no_b, 0, half(held_b, turn_b, lane, second_6)))]
            m.d.comb += [self.a[lane].eq(a), self.b[lane].eq(b)]
        return m
