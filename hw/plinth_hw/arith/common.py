"""Parts that the floating-point units share: word-level shifts, counts and the packing of results.

All of them add combinational statements to the caller's module and return values; pipelining is the
caller's. Steps are written on whole words, not bits, so that a simulator evaluates few operations.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from plinth_hw.isa.formats import Float
from plinth_hw.lib.choice import select


def shift_right_sticky(m: Module, name: str, value: Value, amount: Value, kept: int,
                       unit_log2: int = 0) -> tuple[Value, Value]:
    """``value >> (amount << unit_log2)`` by powers of two, highest first, and the OR of all bits shifted out.

    The result has ``kept`` bits; the caller knows that higher ones are zero once shifted. Each level is only
    as wide as what can still reach the result.
    """
    lost = Const(0, 1)
    for level in reversed(range(len(amount))):
        step = 1 << (level + unit_log2)
        width = min(len(value), kept + step - (1 << unit_log2))
        taken = Signal(width, name=f"{name}_{step}")
        sticky = Signal(name=f"{name}_lost_{step}")
        m.d.comb += [
            taken.eq(Mux(amount[level], value[step:], value)),
            sticky.eq(lost | (amount[level] & value[:step].any())),
        ]
        value, lost = taken, sticky
    return value, lost


def leading_zeros(m: Module, name: str, value: Value, group_log2: int = 2) -> Value:
    """Number of zeros above the highest one; not specified where there is no one."""
    empty = empty_groups(m, name, value, group_log2)
    groups = leading_groups(m, name, empty)
    size = 1 << group_log2
    padded = Cat(Const(0, -len(value) % size), value)
    first = Signal(size, name=f"{name}_first")
    m.d.comb += first.eq((padded << Cat(Const(0, group_log2), groups))[len(padded) - size:len(padded)])
    places = leading_groups(m, f"{name}_places", [~bit for bit in reversed(first)])
    return Cat(places, groups)


def empty_groups(m: Module, name: str, value: Value, group_log2: int) -> list[Value]:
    """For each group of bits from the highest down, whether it is all zeros. The lowest may be shorter."""
    size, width = 1 << group_log2, len(value)
    flags: list[Value] = []
    for i, top in enumerate(range(width, 0, -size)):
        flag = Signal(name=f"{name}_empty_{i}")
        m.d.comb += flag.eq(~value[max(0, top - size):top].any())
        flags.append(flag)
    return flags


def leading_groups(m: Module, name: str, empty: list[Value], limit: Value | None = None) -> Value:
    """``min(leading empty groups, limit)``, ``limit`` being unsigned and no wider than the count.

    Every bit of the count is looked up, for each value of the bits above it, directly in the groups' flags,
    so that the depth is a few gates and not a chain of shifts.
    """
    bits = (len(empty) - 1).bit_length()
    count = Signal(bits, name=f"{name}_groups")
    for level in reversed(range(bits)):
        step = 1 << level
        cases = []
        for above in range(1 << (bits - 1 - level)):
            start = above * 2 * step
            flags = empty[start:start + step]
            allowed = Const(1) if limit is None else limit >= start + step
            cases.append(Cat(*flags).all() & allowed)
        m.d.comb += count[level].eq(select(cases, count[level + 1:]))
    return count


def at_least(value: Value, bound: int) -> Value:
    """``value >= bound``, without the carry chain that synthesis would take."""
    holds: Value = Const(1, 1)
    for place, bit in enumerate(value):
        holds = bit & holds if bound >> place & 1 else bit | holds
    return holds


def special_or(fmt: Float, nan: Value, infinite: Value, sign: Value, magnitude: Value) -> Value:
    """The bits of a result: the quiet NaN, an infinity, or sign and finite magnitude."""
    special = nan | infinite
    top = fmt.fraction_bits - 1
    return Cat(Mux(special, 0, magnitude[:top]), Mux(special, nan, magnitude[top]),
               Mux(special, fmt.exponent_maximum, magnitude[top + 1:fmt.bits - 1]), sign & ~nan)
