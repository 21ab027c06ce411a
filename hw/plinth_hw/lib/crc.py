"""Cyclic redundancy check of a word in few look-up tables: by a polynomial of few terms, its squares first.

A word is a polynomial over GF(2), bit 0 with the highest degree; its check is what is left of it, divided by
:data:`CRC24`. Dividing takes away the highest term by adding five lower ones, 16 degrees lower at the nearest. The
polynomial's square has the same terms at twice the distance, so a word is divided by its highest power of two that is
shorter than the word first, and by the polynomial itself last: each takes away half of what is left in two steps, and
depth grows as the logarithm of the word's length. Size: five terms to add for each bit of the word, three in a LUT4.
"""

from bisect import insort

from amaranth.hdl import Cat, Const, Module, Signal, Value

#: Degrees of the terms of x^24 + x^8 + x^5 + x^4 + x^2 + 1. It tells words of up to 667 bits, 691 with their checks,
#: apart that differ in 5 bits or fewer (with six terms and none between x^14 and x^24 one other does for longer ones),
#: and all that differ within 24 bits in a row. Of others it misses one in 2^24.
CRC24 = (0, 2, 4, 5, 8, 24)
CRC24_BITS = CRC24[-1]
#: Bits of a word with its check up to which five wrong ones always show.
CRC24_SURE_BITS = 691
#: Look-up tables in a row between registers.
LEVELS = 4

_ONES = (1 << CRC24_BITS) - 1
#: Inputs of a look-up table.
_INPUTS = 4


def check_of(word: int, bits: int, start: int = _ONES) -> int:
    """Check of a number of so many bits, bit 0 first, 24 bits."""
    state, low = start, sum(1 << degree for degree in CRC24[:-1])
    for bit in range(bits):
        feedback = (state >> CRC24_BITS - 1 ^ word >> bit) & 1
        state = (state << 1 & _ONES) ^ (low if feedback else 0)
    return state


class _Bit:
    """A bit of the division: where it stands in cycle ``cycle``, behind ``level`` look-up tables, and later ones."""

    def __init__(self, value: Value, cycle: int, level: int):
        self.cycle, self.level = cycle, level
        self._values = [value]

    def __lt__(self, other: "_Bit") -> bool:
        return (self.cycle, self.level) < (other.cycle, other.level)

    def at(self, m: Module, cycle: int) -> Value:
        """The same in this cycle."""
        while len(self._values) <= cycle - self.cycle:
            later = Signal(name="crc_later")
            m.d.sync += later.eq(self._values[-1])
            self._values.append(later)
        return self._values[cycle - self.cycle]


def _added(m: Module, terms: list[_Bit]) -> _Bit:
    """The sum, those first that are there first."""
    terms = sorted(terms)
    while len(terms) > 1:
        # What is left is to fill all tables but the first.
        count = (len(terms) - 2) % (_INPUTS - 1) + 2
        cycle, level = terms[count - 1].cycle, terms[count - 1].level
        if level == LEVELS:
            cycle, level = cycle + 1, 0
        total = Signal(name="crc_sum")
        m.d.comb += total.eq(Cat(term.at(m, cycle) for term in terms[:count]).xor())
        terms = terms[count:]
        insort(terms, _Bit(total, cycle, level + 1))
    return terms[0]


def _divided(m: Module, terms: list[list[_Bit]]) -> list[_Bit | None]:
    """What is left of the division of a polynomial, each coefficient of which is a sum; None for nothing."""
    power = 1
    while 2 * power * CRC24_BITS < len(terms):
        power *= 2
    while power:
        for degree in range(len(terms) - 1, power * CRC24_BITS - 1, -1):
            highest = terms.pop()
            if highest:
                total = _added(m, highest)
                for term in CRC24[:-1]:
                    terms[degree - power * (CRC24_BITS - term)].append(total)
        power //= 2
    return [_added(m, left) if left else None for left in terms]


def crc(m: Module, word: Value, check: Value | None = None) -> tuple[int, Value, Value]:
    """Check of a word, as :func:`check_of`, highest bit first, as it follows the word; a word a cycle.

    Parameters
    ----------
    check : Value of 24 bits, optional
        What is to be the check. Then the difference is returned: zero if it is.

    Returns
    -------
    latency : int
        Cycles.
    word : Value
        Of so many cycles before.
    check : Value
        Of that.
    """
    bits = [_Bit(bit, 0, 0) for bit in word]
    follows = [[]] * CRC24_BITS if check is None else [[_Bit(bit, 0, 0)] for bit in check]
    left = _divided(m, [list(terms) for terms in reversed([*([bit] for bit in bits), *follows])])
    latency = max((bit.cycle for bit in left if bit is not None), default=0)
    # The check is linear but for where it starts.
    start = check_of(0, len(word))
    word_check = Cat((Const(0) if bit is None else bit.at(m, latency)) ^ (start >> place & 1)
                     for place, bit in reversed(list(enumerate(left))))
    return latency, Cat(bit.at(m, latency) for bit in bits), word_check
