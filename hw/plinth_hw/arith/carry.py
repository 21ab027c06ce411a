"""Sums of digits that are functions of a few bits each, in the form that the target makes best use of.

Generic (simulation, ASIC, other FPGAs): the digits, and their sum. ECP5: ``CCU2C``, whose look-up tables have four
inputs at each place of the carry chain, while synthesis uses two of them: the digits take no tables of their own.
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


class Place(NamedTuple):
    """Two digits of a sum: functions, of operators ``&``, ``|`` and ``^``, of up to four bits."""

    inputs: tuple[Value, ...]
    one: Callable[..., Any]
    other: Callable[..., Any] = _zero


def table_sum(m: Module, platform: Any, name: str, places: Sequence[Place], carry: Value) -> Value:
    """The sum of the digits ``one`` and ``other`` of all places, the lowest first, and a carry, without the carry out.

    The platform chooses the form: one whose ``family`` is ``"ecp5"`` gets ``CCU2C``.

    Raises
    ------
    ValueError
        If an ECP5 has no table for a place.
    """
    total = Signal(len(places), name=name)
    if getattr(platform, "family", None) != "ecp5":
        one, other = (Cat(digit(*place.inputs) for place, digit in zip(places, digits, strict=True))
                      for digits in zip(*((place.one, place.other) for place in places), strict=True))
        m.d.comb += total.eq(one + other + carry)
        return total
    for low in range(0, len(places), _PLACES):
        pair = places[low:low + _PLACES]
        following = Signal(name=f"{name}_carry_{low}")
        pins: dict[str, Any] = {"i_CIN": carry, "o_COUT": following}
        for number in range(_PLACES):
            inputs, table = (pair[number].inputs, carry_table(pair[number])) if number < len(pair) else ((), 0)
            pins |= {f"p_INIT{number}": Const(table, 16), f"p_INJECT1_{number}": "NO",
                     f"o_S{number}": total[low + number] if number < len(pair) else Signal(name=f"{name}_unused"),
                     **{f"i_{pin}{number}": inputs[at] if at < len(inputs) else Const(1, 1)
                        for at, pin in enumerate("ABCD")}}
        m.submodules[f"{name}_{low}"] = Instance("CCU2C", **pins)
        carry = following
    return total


def carry_table(place: Place) -> int:
    """Contents of a place's table; inputs that it does not use are 1.

    A table of four inputs says whether the digits differ, and then a carry passes. Else the first four entries, those
    for two zeros at the last two inputs, tell from the other two inputs whether there is one.

    Raises
    ------
    ValueError
        If no contents do both.
    """
    used = len(place.inputs)
    entries: dict[int, int] = {}
    carries: dict[int, set[int]] = {}
    for bits in product((0, 1), repeat=used):
        one, other = place.one(*bits), place.other(*bits)
        padded = (*bits, *(1,) * (_INPUTS - used))
        entries[sum(bit << at for at, bit in enumerate(padded))] = one ^ other
        if one == other:
            carries.setdefault(padded[0] | padded[1] << 1, set()).add(one)
    for entry, wanted in carries.items():
        if wanted != {entries.setdefault(entry, min(wanted))}:
            raise ValueError(f"A carry chain has no table for a place with carries {carries!r}")
    return sum(bit << entry for entry, bit in entries.items())
