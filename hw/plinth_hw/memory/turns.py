"""Lanes turned by an amount, between words in their order and banks in which they lie skewed."""

from collections.abc import Callable
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value


def rotate(m: Module, name: str, lanes: list[Value], amount: Value, first_bit: int, end_bit: int, *,
           up: bool, broadcast: Value | None = None) -> list[Value]:
    """Rotate ``lanes`` by the bits ``first_bit`` to ``end_bit - 1`` of ``amount``, one multiplexer
    level a bit. ``up``: lane l goes to lane l + amount; otherwise lane l comes from lane l + amount.
    Each level is one wide signal, named after ``name`` and its bit. With ``broadcast``, not ``up``, each lane l
    comes from lane ``amount``, which is that of l + (amount - l)."""
    width, total = len(lanes[0]), len(lanes[0]) * len(lanes)
    turned: Value = Cat(*lanes)
    for bit in range(first_bit, end_bit):
        level = Signal(total, name=f"{name}_turned_{bit}")
        low = width << bit
        cut = total - low if up else low
        other = Cat(turned[cut:], turned[:cut])
        if broadcast is None:
            m.d.comb += level.eq(Mux(amount[bit], other, turned))
        else:
            m.d.comb += level.eq(Cat(
                Mux(Mux(broadcast, (amount - lane)[bit], amount[bit]), other.word_select(lane, width),
                    turned.word_select(lane, width)) for lane in range(len(lanes))))
        turned = level
    return [turned[lane * width:(lane + 1) * width] for lane in range(len(lanes))]


def turned_registers(m: Module, name: str, sources: list[list[Value]], first_bit: int, end_bit: int,
                     wanted: Callable[[int, int, int], Value], *, up: bool) -> list[Value]:
    """The lanes of one of ``sources``, rotated by the bits ``first_bit`` to ``end_bit - 1`` of an amount, as
    :func:`rotate` does, from registers: for each source and value of those bits there is one, zero in all lanes but
    those for which ``wanted(source, value, lane)`` holds. What comes out is the OR of all."""
    lanes = range(len(sources[0]))
    words: list[list[Value]] = [[] for _ in lanes]
    for index, source in enumerate(sources):
        for value in range(1 << (end_bit - first_bit)):
            places = (-value if up else value) << first_bit
            for lane, choices in enumerate(words):
                held = Signal(len(source[lane]), name=f"{name}_{index}_{value}_{lane}", reset_less=True)
                m.d.sync += held.eq(Mux(wanted(index, value, lane), source[(lane + places) % len(lanes)], 0))
                choices.append(held)
    return [reduce(or_, choices) for choices in words]


def rotate_registered(m: Module, lanes: list[Value], amount: Value, enable: Value, *, up: bool) -> list[Value]:
    """Rotate ``lanes``, of which there are a power of two, by ``amount``, as :func:`rotate` does, into registers that
    take new words with ``enable``. For each value of the amount's two high bits there is a register, zero but for the
    one wanted, whose words lie as that value turns them: what comes out is the OR of all."""
    count = len(lanes)
    bits = (count - 1).bit_length()
    low = max(0, bits - 2)
    turned = Cat(*rotate(m, "data", lanes, amount, 0, low, up=up))
    held = [Signal(len(turned), name=f"held_{high}", reset_less=True) for high in range(1 << (bits - low))]
    with m.If(enable):
        m.d.sync += [register.eq(Mux(amount[low:bits] == high, turned, 0)) for high, register in enumerate(held)]
    words = [[register.word_select(lane, len(lanes[0])) for lane in range(count)] for register in held]
    return [reduce(or_, (words[high][(lane + ((-high if up else high) << low)) % count]
                         for high in range(len(held)))) for lane in range(count)]
