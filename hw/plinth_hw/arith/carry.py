"""Sums of words that are functions of a few words each, in the form that the target makes best use of.

Generic (simulation, ASIC, other FPGAs): the words, and their sum. ECP5: ``CCU2C``, whose look-up tables have four
inputs at each place of the carry chain, while synthesis uses two of them: the words take no tables of their own.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Instance, Module, Signal, Value

#: Inputs of a look-up table, and places of a ``CCU2C``.
_INPUTS = 4
_PLACES = 2


def _zero(*inputs: Any) -> Any:
    return inputs[0] & 0


class Digits(NamedTuple):
    """Places of a sum: two words, each a function, of operators ``&``, ``|``, ``^`` and ``~``, of up to four. Inputs of
    one bit are the same at all places."""

    inputs: tuple[Value, ...]
    first: Callable[..., Any]
    second: Callable[..., Any] = _zero

    @property
    def width(self) -> int:
        """Places."""
        return max(len(word) for word in self.inputs)


def _extended(word: Value, width: int) -> Value:
    """The word, in so many bits."""
    sign = word[-1] if word.shape().signed else Const(0, 1)
    return Cat(word, sign.replicate(width))[:width]


def chosen_sum(m: Module, platform: Any, name: str, select: Value, high: Value, low: Value, addend: Value,
               carry: Value | None = None) -> Value:
    """``Mux(select, high, low) + addend``, and a carry, as wide as the widest of ``high`` and ``low``.

    The word that is not chosen may be unknown to a simulator of four states: AND and OR keep none of it.
    """
    width = max(len(high), len(low))
    words = [_extended(word, width) for word in (addend, high, low)]
    return table_sum(m, platform, name, [
        Digits((words[0], select, words[1], words[2]), lambda a, s, h, x: (h & s) | (x & ~s), lambda a, s, h, x: a)],
        carry)


def loaded_sum(m: Module, platform: Any, name: str, load: Value, value: Value, count: Value, addend: Value) -> Value:
    """``Mux(load, value, count + addend)``, as wide as ``count``."""
    words = [_extended(word, len(count)) for word in (value, addend)]
    return table_sum(m, platform, name, [
        Digits((count, load, words[0], words[1]), lambda c, s, v, a: (c & ~s) | (v & s), lambda c, s, v, a: a & ~s)])


def counted_down(m: Module, platform: Any, name: str, load: Value, number: Value, left: Value, gone: int = 0) -> Value:
    """``Mux(load, number - gone - 2, left - 1)``, as wide as ``left``, which is signed and a bit wider than ``number``.

    Of so many things, of which so many are gone and at least one is not, it is how many come after the next one: that
    it is negative says that the one at hand is the last.
    """
    def chosen(left: Any, load: Any, number: Any) -> Any:
        return (left & ~load) | (number & load)

    number = Cat(number, Const(0, 1))
    return table_sum(m, platform, name, [
        Digits((left[place:place + 1], load, number[place:place + 1]), chosen,
               (lambda left, load, number: ~load) if gone + 1 >> place & 1 else
               (lambda left, load, number: ~(left & 0)))
        for place in range(len(left))])


def stepped_sum(m: Module, platform: Any, name: str, count: Value, up: Value, down: Value) -> Value:
    """``count``, of two bits at least, and one more for ``up``, one less for ``down``."""
    return table_sum(m, platform, name, [
        Digits((count[:1], up, down), lambda c, u, d: c, lambda c, u, d: u ^ d),
        Digits((count[1:], up, down), lambda c, u, d: c, lambda c, u, d: d & ~u)])


def table_sum(m: Module, platform: Any, name: str, digits: Sequence[Digits], carry: Value | None = None) -> Value:
    """The sum of the words ``first`` and ``second`` of all digits, lowest places first, and a carry; no carry out.

    The platform chooses the form: one whose ``family`` is ``"ecp5"`` gets ``CCU2C``.

    Raises
    ------
    ValueError
        If an ECP5 has no table for a digit.
    """
    total = Signal(sum(part.width for part in digits), name=name)
    into: Value = Const(0, 1) if carry is None else carry
    if getattr(platform, "family", None) != "ecp5":
        firsts, seconds = [], []
        for part in digits:
            words = [word if len(word) == part.width else word.replicate(part.width) for word in part.inputs]
            firsts.append(part.first(*words)[:part.width])
            seconds.append(part.second(*words)[:part.width])
        m.d.comb += total.eq(Cat(firsts) + Cat(seconds) + into)
        return total
    places = [(tuple(word[place if len(word) > 1 else 0] for word in part.inputs), carry_table(part))
              for part in digits for place in range(part.width)]
    for low in range(0, len(places), _PLACES):
        pair = places[low:low + _PLACES]
        following = Signal(name=f"{name}_carry_{low}")
        pins: dict[str, Any] = {"i_CIN": into, "o_COUT": following}
        for number in range(_PLACES):
            inputs, table = pair[number] if number < len(pair) else ((), 0)
            pins |= {f"p_INIT{number}": Const(table, 16), f"p_INJECT1_{number}": "NO",
                     f"o_S{number}": total[low + number] if number < len(pair) else Signal(name=f"{name}_unused"),
                     **{f"i_{pin}{number}": inputs[at] if at < len(inputs) else Const(1, 1)
                        for at, pin in enumerate("ABCD")}}
        m.submodules[f"{name}_{low}"] = Instance("CCU2C", **pins)
        into = following
    return total


def carry_table(digits: Digits) -> int:
    """Contents of a place's table; inputs that it does not use are 1.

    A table of four inputs says whether the digits differ, and then a carry passes. Else the first four entries, those
    for two zeros at the last two inputs, tell from the other two inputs whether there is one.

    Raises
    ------
    ValueError
        If no contents do both.
    """
    used = len(digits.inputs)
    entries: dict[int, int] = {}
    carries: dict[int, set[int]] = {}
    for bits in product((0, 1), repeat=used):
        first, second = digits.first(*bits) & 1, digits.second(*bits) & 1
        padded = (*bits, *(1,) * (_INPUTS - used))
        entries[sum(bit << at for at, bit in enumerate(padded))] = first ^ second
        if first == second:
            carries.setdefault(padded[0] | padded[1] << 1, set()).add(first)
    for entry, wanted in carries.items():
        if wanted != {entries.setdefault(entry, min(wanted))}:
            raise ValueError(f"A carry chain has no table for a place with carries {carries!r}")
    return sum(bit << entry for entry, bit in entries.items())
