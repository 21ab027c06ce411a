"""Operands of the vector engine's lanes: groups of a and b from the scratchpad, in halves side by side.

::

    command --> SharedArray --> reg --> turn --> a, held --> half --> reg --> a
         0          2            3   but by W/2    4                   5
                                        turn --> b ---------> half --> reg --> b
                                          4      \\--> held -> half      5

A group of a and one of b are read in turn and used in the two cycles in which the next two are, so what is held
need not be turned by half of the lanes: one chooses the other half instead. Registers whose names say for what half,
turn or cycle they are wanted are zero otherwise: their OR is chosen.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.lib.choice import one_registered
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
    latency = 5

    def __init__(self, banks: int, lines: int, width: int = 32):
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
        turn_1, turn_2, turn_3, turn_a, turn_b = (Signal(turn, name=f"turn_{name}") for name in "123ab")
        held_a, held_b = (Signal(self.width * self.banks, name=f"held_{name}", reset_less=True) for name in "ab")
        second_4, valid_1, valid_2 = Signal(name="second_4"), Signal(name="valid_1"), Signal(name="valid_2")
        valid_3 = Signal()
        m.d.sync += [
            valid_1.eq(self.command.enable), valid_2.eq(valid_1), valid_3.eq(valid_2), second_4.eq(turn_3.second),
            turn_1.eq(Cat(self.command.skew, self.command.broadcast, self.command.second)), turn_2.eq(turn_1),
            turn_3.eq(turn_2),
        ]
        first = min(1, half_bits)

        def low(lane: int) -> Value:
            return Mux(turn_2.broadcast, (turn_2.skew - lane)[:first], turn_2.skew[:first])

        chosen = rotate_held(m, "chosen", [list(self.data_0), list(self.data_1)], 0, first,
                                  lambda array, value, lane: (self.half == array) & (low(lane) == value), up=False)
        turned = Cat(rotate(m, "data", chosen, turn_3.skew, first, half_bits, up=False, broadcast=turn_3.broadcast))
        with m.If(valid_3 & ~turn_3.second):
            m.d.sync += [held_a.eq(turned), turn_a.eq(turn_3)]
        with m.If(valid_3 & turn_3.second):
            m.d.sync += [held_b.eq(turned), turn_b.eq(turn_3)]

        def other(turn: Any, lane: int, upper: Any) -> Value:
            return Mux(turn.broadcast, (turn.skew - lane)[half_bits], turn.skew[half_bits] ^ upper)

        for lane in range(self.banks // 2):
            lower, upper = (held_a.word_select(lane + side * self.banks // 2, self.width) for side in range(2))
            m.d.sync += self.a[lane].eq(Mux(other(turn_a, lane, second_4), upper, lower))
            wanted, words = [], []
            for at, group, turn, now in ((0, turned, turn_3, turn_3.second), (1, held_b, turn_b, second_4)):
                for side in range(2):
                    wanted.append((other(turn, lane, at) == side) & now & ~self.no_b)
                    words.append(group.word_select(lane + side * self.banks // 2, self.width))
            m.d.comb += self.b[lane].eq(one_registered(m, f"b_{lane}", wanted, words))
        return m
