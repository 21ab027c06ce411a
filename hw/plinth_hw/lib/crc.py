"""Cyclic redundancy check of a word, in one cycle: a parity of the word's bits for each bit of the check."""

from amaranth.hdl import Cat, Module, Value

from plinth_hw.lib.parity import parities

#: Polynomial of 24 bits, FlexRay's, without its highest term. It tells words of up to 2,026 bits apart that differ in 5
#: bits or fewer (Koopman's tables, 0xAE36E5 there), and all that differ within 24 bits in a row; of others it misses
#: one in 2^24.
CRC24 = 0x5D6DCB
CRC24_BITS = 24


_ONES = (1 << CRC24_BITS) - 1


def check_of(word: int, bits: int, start: int = _ONES) -> int:
    """Check of a number of so many bits, bit 0 first, 24 bits."""
    state = start
    for bit in range(bits):
        feedback = (state >> CRC24_BITS - 1 ^ word >> bit) & 1
        state = (state << 1 & _ONES) ^ (CRC24 if feedback else 0)
    return state


def crc(m: Module, name: str, word: Value) -> Value:
    """Check of a word, as :func:`check_of`, without a clock; its highest bit first, as it follows the word."""
    zero = check_of(0, len(word))
    # The check is linear but for where it starts.
    effects = [check_of(1 << bit, len(word)) ^ zero for bit in range(len(word))]
    places = range(CRC24_BITS - 1, -1, -1)
    rows = [frozenset(bit for bit, effect in enumerate(effects) if effect >> place & 1) for place in places]
    return Cat(parity ^ (zero >> place & 1) for place, parity in zip(places, parities(m, name, word, rows),
                                                                    strict=True))
