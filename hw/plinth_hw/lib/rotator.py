"""Rotator: lanes rotated by an amount, between words in their order and banks in which they lie skewed.

:func:`rotate` is of multiplexers, a level a bit of the amount. :func:`rotate_held` and :func:`rotate_registered` end
in registers, one for each value of some bits, zero but for the one wanted (see :mod:`~plinth_hw.lib.choice`).
``up``: lane l goes to lane l + amount; otherwise lane l comes from lane l + amount; modulo the number of lanes, which
is a power of two.
"""

from collections.abc import Callable
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.utils import exact_log2

from plinth_hw.lib.choice import one_registered


def rotate(m: Module, name: str, lanes: list[Value], amount: Value, first_bit: int, end_bit: int, *,
           up: bool, broadcast: Value | None = None) -> list[Value]:
    """Rotate ``lanes`` by the bits ``first_bit`` to ``end_bit - 1`` of ``amount``, in the same cycle.

    Each level is one wide signal, named after ``name`` and its bit. With ``broadcast``, not ``up``, each lane l comes
    from lane ``amount``, which is that of l + (amount - l).
    """
    width, total = len(lanes[0]), len(lanes[0]) * len(lanes)
    rotated: Value = Cat(*lanes)
    for bit in range(first_bit, end_bit):
        level = Signal(total, name=f"{name}_rotated_{bit}")
        low = width << bit
        cut = total - low if up else low
        other = Cat(rotated[cut:], rotated[:cut])
        if broadcast is None:
            m.d.comb += level.eq(Mux(amount[bit], other, rotated))
        else:
            m.d.comb += level.eq(Cat(
                Mux(Mux(broadcast, (amount - lane)[bit], amount[bit]), other.word_select(lane, width),
                    rotated.word_select(lane, width)) for lane in range(len(lanes))))
        rotated = level
    return [rotated[lane * width:(lane + 1) * width] for lane in range(len(lanes))]


def rotate_held(m: Module, name: str, sources: list[list[Value]], first_bit: int, end_bit: int,
                wanted: Callable[[int, int, int], Value], *, up: bool) -> list[Value]:
    """The lanes of one of ``sources``, rotated by the bits ``first_bit`` to ``end_bit - 1`` of an amount, a cycle
    later.

    ``wanted(source, value, lane)``: the lane comes from that source, and those bits have that value; of a lane it
    holds at most once. A lane for which it does not hold is zero.
    """
    lanes = range(len(sources[0]))
    rotated = []
    for lane in lanes:
        conditions, words = [], []
        for index, source in enumerate(sources):
            for value in range(1 << (end_bit - first_bit)):
                places = (-value if up else value) << first_bit
                conditions.append(wanted(index, value, lane))
                words.append(source[(lane + places) % len(lanes)])
        rotated.append(one_registered(m, f"{name}_{lane}", conditions, words))
    return rotated


def rotate_registered(m: Module, lanes: list[Value], amount: Value, enable: Value, *, up: bool,
                      late: bool = False) -> list[Value]:
    """Rotate ``lanes`` by ``amount`` into registers that take new words with ``enable``.

    For each value of two bits of the amount there is a register, zero but for the one wanted, whose words lie as that
    value rotates them. These are the high bits, and the others rotate before the registers; or for lanes that come
    ``late``, as out of RAMs, the low ones, and the others rotate behind them.
    """
    count = len(lanes)
    bits = exact_log2(count)
    held = min(2, bits)
    low = 0 if late else bits - held
    rotated = Cat(*rotate(m, "data", lanes, amount, 0, low, up=up))
    registers = [Signal(len(rotated), name=f"held_{value}", reset_less=True) for value in range(1 << held)]
    with m.If(enable):
        m.d.sync += [register.eq(Mux(amount[low:low + held] == value, rotated, 0))
                     for value, register in enumerate(registers)]
    words = [[register.word_select(lane, len(lanes[0])) for lane in range(count)] for register in registers]
    joined = [reduce(or_, (words[value][(lane + ((-value if up else value) << low)) % count]
                           for value in range(len(registers)))) for lane in range(count)]
    if not late or bits == held:
        return joined
    rest = Signal(bits - held, reset_less=True)
    with m.If(enable):
        m.d.sync += rest.eq(amount[held:])
    return rotate(m, "late", joined, Cat(Const(0, held), rest), held, bits, up=up)
