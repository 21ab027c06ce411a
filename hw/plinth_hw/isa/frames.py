"""Frames of the host bridge: what goes over the serial line, declared once for bridge, driver and tests.

::

    request   RequestHeader, address, data of a write ..., check     words of 32 bits, low byte first
    answer    data of a read ..., AnswerTrailer, check
    line      COBS of either, 0x00

The check is CRC-32 (IEEE 802.3, as ``zlib.crc32``) of all words before it. COBS (consistent overhead byte stuffing)
takes the zeros out of a frame at the cost of a byte in 254, so that a zero on the line ends a frame wherever it comes
from.
"""

import zlib
from dataclasses import dataclass
from fractions import Fraction

from plinth_hw.isa.layout import Code, Struct, pack, unsigned

#: Version of the protocol.
PROTOCOL_VERSION = 1
#: What ends a frame on the line.
DELIMITER = 0
#: Most data bytes that a code byte of COBS leads.
BLOCK_BYTES = 254
#: Words of a frame besides data: those of a request, those of an answer.
REQUEST_WORDS, ANSWER_WORDS = 3, 2
#: Bits on the line for a byte: start, eight, stop.
BYTE_BITS = 10
#: Cycles of a bit, at least: the middle of one is then within a quarter of it.
LEAST_CYCLES = 4


class RequestKind(Code, bits=2):
    """What a request asks for."""

    #: ``count`` words from ``address``.
    READ = 0
    #: The frame's data to ``address``.
    WRITE = 1
    #: Begin anew with this sequence number; the answer has :class:`Limits`, and the low half of the address as count.
    SYNC = 2


class RequestHeader(Struct):
    """First word of a request."""

    #: One more than that of the request before, modulo 256; the same when it is sent again.
    sequence: unsigned(8)
    operation: RequestKind
    #: All words go to, or come from, the one address; else each from 4 bytes further on.
    fixed: unsigned(1)
    reserved: unsigned(5)
    #: Words to read: at most what an answer holds, or else some of them are read.
    count: unsigned(16)


class AnswerTrailer(Struct):
    """Last word of an answer before the check."""

    #: Of the request.
    sequence: unsigned(8)
    #: AXI response of the access that failed, the last one; 0 if all were done.
    response: unsigned(2)
    reserved: unsigned(6)
    #: Words that were read or written.
    count: unsigned(16)


class Limits(Struct):
    """Data of the answer to SYNC."""

    #: Words of data in a frame.
    words: unsigned(16)
    #: Requests that may be under way: as many answers are kept.
    slots: unsigned(8)
    version: unsigned(8)


def line_bytes(words: int) -> int:
    """Bytes on the line, at most, for a frame of so many words, check included."""
    return 4 * words + 1 + 4 * words // BLOCK_BYTES + 1


def check_rate(cycles_per_bit: Fraction | int) -> None:
    """Refuse a rate at which a line cannot be sampled.

    Raises
    ------
    TypeError
        If it is no fraction or integer.
    ValueError
        If a bit has too few cycles.
    """
    if not isinstance(cycles_per_bit, Fraction | int) or isinstance(cycles_per_bit, bool):
        raise TypeError(f"Cycles of a bit must be an integer or a fraction, not {cycles_per_bit!r}")
    if cycles_per_bit < LEAST_CYCLES:
        raise ValueError(f"Cycles of a bit must be at least {LEAST_CYCLES}, not {cycles_per_bit}")


def bit_cycles(clock_hz: Fraction, baud: int) -> Fraction:
    """Cycles of a bit on a line of so many bits a second.

    Raises
    ------
    ValueError
        If the line is too fast for the clock.
    """
    if clock_hz < LEAST_CYCLES * baud:
        raise ValueError(f"a line of {baud} baud is too fast for a clock of {float(clock_hz) / 1e6:g} MHz, which has "
                         f"to be {LEAST_CYCLES} times as fast; give less of the one or more of the other")
    return Fraction(clock_hz) / baud


def _power_of_two(value: int) -> bool:
    return value > 0 and value & value - 1 == 0


@dataclass(frozen=True, kw_only=True)
class BridgeParameters:
    """What shapes a bridge.

    Raises
    ------
    TypeError
        If a number is of the wrong kind.
    ValueError
        If a bit has fewer than four cycles, a number is no power of two, or an answer has no room for data.
    """

    #: Cycles of a bit on the line: the clock's rate over the line's.
    cycles_per_bit: Fraction | int
    #: Answers that are kept: as many requests may be under way.
    slots: int = 4
    #: Room for an answer as it goes over the line; a word of requests is stored for every four.
    slot_bytes: int = 512

    def __post_init__(self) -> None:
        check_rate(self.cycles_per_bit)
        for key, most in (("slots", 64), ("slot_bytes", 4096)):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{key} must be an integer, not {value!r}")
            if not 1 < value <= most or not _power_of_two(value):
                raise ValueError(f"{key} must be a power of two from 2 to {most}, not {value!r}")
        if self.words < 2:
            raise ValueError(f"slot_bytes must have room for two words of data, not {self.slot_bytes!r}")

    @property
    def words(self) -> int:
        """Words of data in a frame: an answer fits its slot, and as many requests as there are slots the ring."""
        most = self.slot_bytes // 4
        answer = next((words for words in range(most, 0, -1) if line_bytes(words) <= self.slot_bytes), 0)
        return min(answer - ANSWER_WORDS, most - REQUEST_WORDS)

    @property
    def limits(self) -> int:
        """What the answer to SYNC says, as a word."""
        return pack(Limits, {"words": self.words, "slots": self.slots, "version": PROTOCOL_VERSION})[0]


def encode(words: bytes) -> bytes:
    """A frame as it goes over the line: words without their check as bytes, with check and delimiter."""
    checked = words + zlib.crc32(words).to_bytes(4, "little")
    line = bytearray()
    for run in checked.split(b"\0"):
        while len(run) >= BLOCK_BYTES:
            line.append(BLOCK_BYTES + 1)
            line += run[:BLOCK_BYTES]
            run = run[BLOCK_BYTES:]
        line.append(len(run) + 1)
        line += run
    line.append(DELIMITER)
    return bytes(line)


def decode(line: bytes) -> bytes | None:
    """The words, without their check, of what was on the line before a delimiter; None if it is no whole frame."""
    words, place = bytearray(), 0
    while place < len(line):
        code = line[place]
        run = line[place + 1:place + code]
        if code == DELIMITER or len(run) < code - 1 or DELIMITER in run:
            return None
        words += run
        place += code
        if code <= BLOCK_BYTES and place < len(line):
            words.append(0)
    if len(words) < 4 * ANSWER_WORDS or len(words) % 4 or zlib.crc32(words) != _RESIDUE:
        return None
    return bytes(words[:-4])


#: CRC-32 of any words with their check behind them.
_RESIDUE = zlib.crc32(zlib.crc32(b"").to_bytes(4, "little"))
