"""The host's end of a serial line to a host bridge: requests that are done once each, whatever happens to bytes.

Frames are declared in :mod:`plinth_hw.isa.frames`. A request is sent until its answer has come: several are under way
at once, the bridge does them in order and keeps their answers. An answer that a later one overtakes was lost, and is
asked for at once; else the line has to be silent for a while, which grows with each time that nothing came of it.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from plinth.errors import UserError
from plinth_hw.isa import layout
from plinth_hw.isa.frames import (
    BYTE_BITS,
    DELIMITER,
    PROTOCOL_VERSION,
    AnswerTrailer,
    Limits,
    RequestHeader,
    RequestKind,
    decode,
    encode,
)

#: Rate of a line that nobody asked for another one.
BAUD = 3_000_000
#: Seconds of silence, at least, after which requests are sent again; times that they are, each after twice the silence
#: of the time before: of a bridge that has not answered yet, and of one that has.
SILENCE, FIRST_TRIES, TRIES = 0.2, 4, 7
#: Times as long as a line has been silent before bytes came that it may be.
PATIENCE = 4
#: Seconds of silence, at most, before requests are sent again; what is kept of a silence each time bytes come.
MOST_SILENCE, DECAY = 30.0, 0.9
#: Bytes that may come without an answer among them before they count as silence.
MOST_USELESS = 1 << 14
_DELIMITER = bytes([DELIMITER])
_RESPONSES = {2: "SLVERR", 3: "DECERR"}
_SEQUENCES = 1 << layout.width(RequestHeader.FIELDS["sequence"].shape)


class LineError(UserError):
    """A serial line cannot be used, is cut, or what answers is no host bridge; an access failed."""


class Port(Protocol):
    """A serial byte stream in both directions."""

    @property
    def name(self) -> str:
        """The port's name in messages."""

    @property
    def byte_seconds(self) -> float:
        """Seconds that a byte takes on the line."""

    def write(self, line: bytes) -> None:
        """Send bytes; raises ``LineError`` if the line is cut."""

    def read(self, seconds: float) -> bytes:
        """Read the bytes that have come; wait for the first of them, up to a time. Raises ``LineError`` if the line is
        cut."""

    def close(self) -> None:
        """Release the port."""


@dataclass(frozen=True)
class Request:
    """Accesses of registers: ``count`` reads, or a write of each four bytes of ``data``, from byte address ``address``
    on or, if ``fixed``, all there."""

    operation: RequestKind
    address: int
    count: int = 0
    fixed: bool = False
    data: bytes = b""

    def __str__(self) -> str:
        return f"{self.operation.name.lower()} of register {self.address:#x}"


@dataclass
class _UnderWay:
    """A request with its number, and what has become of it."""

    request: Request
    sequence: int
    line: bytes
    answer: bytes | None = None
    #: It has been sent again since the line was silent.
    again: bool = False


class SerialLine:
    """A line to one host bridge.

    Parameters
    ----------
    port : Port

    Attributes
    ----------
    words : int
        Most words of data of a request.
    sent_again : int
        Requests that were sent more than once.

    Raises
    ------
    LineError
        If nothing answers, or no bridge of this version.
    """

    def __init__(self, port: Port) -> None:
        self.port = port
        self.words, self.sent_again = 0, 0
        self._slots, self._sequence = 1, 0
        self._silence = 0.0
        #: Bytes of the frame that is coming; whether any came at all, and frames.
        self._came, self._heard, self._frames = bytearray(), False, 0
        self._begin()

    def _begin(self) -> None:
        """Agree on a number to begin with, and on sizes."""
        mark = secrets.randbits(16)
        self.port.write(_DELIMITER)
        answer = self._exchange([Request(RequestKind.SYNC, mark)], FIRST_TRIES, mark)[0]
        limits = layout.unpack(Limits, [int.from_bytes(answer, "little")])
        if limits.version != PROTOCOL_VERSION:
            raise LineError(f"{self.port.name}: its host bridge speaks version {limits.version} of the protocol, not "
                            f"{PROTOCOL_VERSION}; load a bitstream of this version")
        self.words, self._slots = limits.words, limits.slots

    def exchange(self, requests: Sequence[Request]) -> list[bytes]:
        """Have requests done, in order; the data of their answers.

        Raises
        ------
        LineError
            If the line is cut or silent, or an access fails; then requests behind it may have been done or not.
        """
        return self._exchange(requests, TRIES, None)

    def _exchange(self, requests: Sequence[Request], most_tries: int, mark: int | None) -> list[bytes]:
        under_way: list[_UnderWay] = []
        answers: list[bytes] = []
        left = list(reversed(requests))
        tries, doubled, useless, failure = 0, 0, 0, ""
        while left or under_way:
            while left and len(under_way) < self._slots and not failure:
                under_way.append(self._numbered(left.pop()))
                self.port.write(under_way[-1].line)
            wait = min(max(SILENCE, PATIENCE * self._silence) * 2 ** doubled, MOST_SILENCE)
            wait += 2 * self.port.byte_seconds * sum(len(sent.line) + 4 * sent.request.count for sent in under_way)
            start = time.monotonic()
            came = self.port.read(wait)
            useless += len(came)
            self._heard |= bool(came)
            if not came or useless > MOST_USELESS:
                tries, doubled, useless = tries + 1, doubled + 1, 0
                if tries == most_tries:
                    raise self._silent(under_way[0].request)
                self._send_again(under_way)
                continue
            # After a silence that was too long for a try, the patience that was long enough is kept.
            waited = wait / PATIENCE if doubled else time.monotonic() - start
            self._silence, doubled = max(waited, DECAY * self._silence), 0
            for words in self._whole_frames(came):
                trailer = layout.unpack(AnswerTrailer, [int.from_bytes(words[-4:], "little")])
                place = next((place for place, sent in enumerate(under_way) if sent.sequence == trailer.sequence), None)
                if place is None or (mark is not None and trailer.count != mark):
                    continue
                tries, useless = 0, 0
                under_way[place].answer = words[:-4]
                failure = failure or self._failure(under_way[place].request, trailer)
                self._send_again([sent for sent in under_way[:place] if not (sent.again or sent.answer is not None)])
            while under_way and under_way[0].answer is not None:
                answers.append(under_way.pop(0).answer or b"")
            if failure and not under_way:
                raise LineError(failure)
        return answers

    def _numbered(self, request: Request) -> _UnderWay:
        header = layout.pack(RequestHeader, {
            "sequence": self._sequence, "operation": request.operation, "fixed": request.fixed,
            "count": request.count})
        words = b"".join(word.to_bytes(4, "little") for word in (*header, request.address))
        sent = _UnderWay(request, self._sequence, encode(words + request.data))
        self._sequence = (self._sequence + 1) % _SEQUENCES
        return sent

    def _send_again(self, requests: Sequence[_UnderWay]) -> None:
        """Behind a delimiter, which ends what the line may have made of bytes before."""
        if requests:
            self.sent_again += len(requests)
            for request in requests:
                request.again = True
            self.port.write(b"".join((_DELIMITER, *(request.line for request in requests))))

    def _whole_frames(self, came: bytes) -> list[bytes]:
        """Words of frames that have come."""
        self._came += came
        *lines, rest = self._came.split(_DELIMITER)
        self._came = rest[-MOST_USELESS:]
        frames = [words for line in lines if (words := decode(bytes(line))) is not None]
        self._frames += len(frames)
        return frames

    def _failure(self, request: Request, trailer: AnswerTrailer) -> str:
        """What went wrong with a request, or nothing."""
        if trailer.count != (request.count or len(request.data) // 4) and request.operation is not RequestKind.SYNC:
            name = _RESPONSES.get(trailer.response, trailer.response)
            return (f"{self.port.name}: the {request} was answered with {name} after {trailer.count} words; check that "
                    "the die has this register, and memory there")
        return ""

    def _silent(self, request: Request) -> LineError:
        baud = round(BYTE_BITS / self.port.byte_seconds)
        if self._frames:
            return LineError(f"{self.port.name}: no answer to the {request} after {TRIES} tries; the line was cut or "
                             "the board was reset: check both and begin anew")
        if self._heard:
            return LineError(f"{self.port.name}: what answers is no Plinth host bridge, or speaks at another rate than "
                             f"{baud:,} baud; check the port and its rate")
        return LineError(f"{self.port.name}: nothing answers at {baud:,} baud; check the cable, the rate, and that the "
                         "board has a bitstream with a host bridge")
