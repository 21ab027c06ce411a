"""The bridge, in the compiled harness, before a slave that makes it wait: request by request, and what is none."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.serial_bench import ACCESSES, MEMORY_WORDS, NoisyPort, window_array

from plinth_hw import emit
from plinth_hw.host.bridge import Bridge
from plinth_hw.isa import layout
from plinth_hw.isa.frames import AnswerTrailer, BridgeParameters, Limits, RequestHeader, RequestKind, decode, encode
from plinth_hw.isa.registers import IDENTITY, ISA_VERSION, Register
from plinth_sim.rtl import verilator
from plinth_sim.rtl.lint import WAIVERS
from plinth_sim.rtl.power_up import PowerUp

BRIDGE = BridgeParameters(cycles_per_bit=4)
READ, WRITE, SYNC = RequestKind
SLVERR = 2
#: What SYNC brings and its answer has.
MARK = 0x1234


class Line:
    """Frames to a bridge and from it."""

    def __init__(self, port: NoisyPort) -> None:
        self.port = port
        self.rest = b""

    def ask(self, sequence: int, operation: RequestKind, address: int, *values: int, count: int = 0,
            fixed: bool = False) -> None:
        header = layout.pack(RequestHeader, {"sequence": sequence, "operation": operation, "fixed": fixed,
                                             "count": count})
        self.port.write(encode(np.array([*header, address, *values], "<u4").tobytes()))

    def answers(self) -> list[tuple[int, int, list[int]]]:
        """Sequence, response and data of all answers until the line is silent."""
        while received := self.port.read(0.4):
            self.rest += received
            assert len(self.rest) < 1 << 14, "the bridge does not stop sending"
        *lines, self.rest = self.rest.split(b"\0")
        result = []
        for line in lines:
            words = decode(line)
            assert words is not None, line
            *data, last = np.frombuffer(words, "<u4").tolist()
            trailer = layout.unpack(AnswerTrailer, [last])
            assert trailer.count == (len(data) or trailer.count) or trailer.count == MARK
            result.append((trailer.sequence, trailer.response, data))
        return result

    def sync(self, sequence: int = 0) -> None:
        self.ask(sequence, SYNC, MARK)
        ((echoed, response, (limits,)),) = self.answers()
        assert (echoed, response) == (sequence, 0)
        assert layout.unpack(Limits, [limits]) == Limits(words=BRIDGE.words, slots=BRIDGE.slots, version=1)

    def accesses(self, sequence: int) -> int:
        """How many accesses of the window were done."""
        self.ask(sequence, READ, ACCESSES, count=1)
        return self.answers()[0][2][0]


@pytest.fixture
def line() -> Iterator[Line]:
    with window_array(BRIDGE) as array:
        yield Line(NoisyPort(array))


def test_the_linter_is_content(tmp_path: Path) -> None:
    path = tmp_path / "bridge.v"
    path.write_text(emit.verilog(Bridge(BRIDGE), "bridge"), encoding="utf-8")
    verilator.lint([path], "bridge", [WAIVERS])


def test_registers_and_bursts(line: Line) -> None:
    """One and several words, at one address and from one on, as many as a frame holds."""
    line.sync()
    data = np.random.default_rng(1).integers(0, 1 << 32, BRIDGE.words).tolist()
    line.ask(1, READ, Register.ID, count=2)
    line.ask(2, WRITE, Register.WINDOW_ADDRESS, 9)
    line.ask(3, WRITE, Register.WINDOW_DATA, *data, fixed=True)
    assert line.answers() == [(1, 0, [IDENTITY, ISA_VERSION]), (2, 0, []), (3, 0, [])]
    line.ask(4, WRITE, Register.WINDOW_ADDRESS, 9, 5)  # and 5 behind it, to WINDOW_DATA
    line.ask(5, WRITE, Register.WINDOW_ADDRESS, 9)
    line.ask(6, READ, Register.WINDOW_DATA, count=BRIDGE.words, fixed=True)
    line.ask(7, READ, Register.WINDOW_ADDRESS, count=1)
    assert line.answers() == [(4, 0, []), (5, 0, []), (6, 0, [5, *data[1:]]), (7, 0, [9 + BRIDGE.words])]
    assert line.accesses(8) == 2 * BRIDGE.words + 1


def test_nothing_is_done_before_a_sync(line: Line) -> None:
    line.ask(1, READ, Register.ID, count=1)
    line.ask(0, WRITE, Register.WINDOW_DATA, 1)
    assert line.answers() == []
    line.sync(7)
    assert line.accesses(8) == 0


def test_a_request_again_is_answered_again_and_not_done(line: Line) -> None:
    """The last ones, in any order; older ones and later ones are passed over."""
    line.sync(253)
    for sequence in (254, 255, 0, 1, 2):
        line.ask(sequence, WRITE if sequence % 2 else READ, Register.WINDOW_DATA, *([sequence] if sequence % 2 else []),
                 count=1, fixed=True)
    first = line.answers()
    assert [(sequence, response) for sequence, response, _ in first] == [(n, 0) for n in (254, 255, 0, 1, 2)]
    for sequence in (1, 2, 255, 0, 254, 4):
        line.ask(sequence, WRITE if sequence % 2 else READ, Register.WINDOW_DATA, *([77] if sequence % 2 else []),
                 count=1, fixed=True)
    assert line.answers() == [first[number] for number in (3, 4, 1, 2)]
    assert line.accesses(3) == 5


def test_requests_before_the_sync_are_passed_over() -> None:
    """Their slots have held no answer since power came, and with all bits 1 no byte that ends a frame either."""
    with window_array(BRIDGE, PowerUp()) as array:
        line = Line(NoisyPort(array))
        line.sync(5)
        for sequence in range(4, 5 - BRIDGE.slots, -1):
            line.ask(sequence, READ, Register.ID, count=1)
        assert line.answers() == []
        line.ask(6, READ, Register.ID, count=1)
        assert line.answers() == [(6, 0, [IDENTITY])]


def test_a_sync_forgets_the_answers_before_it(line: Line) -> None:
    """Then as many are kept as there are slots, that of the SYNC among them."""
    line.sync(0)
    for sequence in range(1, BRIDGE.slots + 1):
        line.ask(sequence, READ, Register.ID, count=1)
    assert len(line.answers()) == BRIDGE.slots
    first = BRIDGE.slots + 1
    line.sync(first)
    for sequence in range(2, first):
        line.ask(sequence, READ, Register.ID, count=1)
    assert line.answers() == []
    for newest in range(first, first + BRIDGE.slots + 1):
        if newest > first:
            line.ask(newest, WRITE if newest % 2 else READ, Register.WINDOW_ADDRESS, *([0] if newest % 2 else []),
                     count=1)
            assert [sequence for sequence, _, _ in line.answers()] == [newest]
        for sequence in range(newest, newest - BRIDGE.slots - 1, -1):
            line.ask(sequence, READ, Register.ID, count=1)
        assert [sequence for sequence, _, _ in line.answers()] == [
            sequence for sequence in range(newest, newest - BRIDGE.slots, -1) if sequence >= first]


def test_an_access_that_fails_ends_its_request(line: Line) -> None:
    """What was read before comes along; the count tells what was done."""
    line.sync()
    line.ask(1, WRITE, Register.WINDOW_ADDRESS, MEMORY_WORDS - 2)
    line.ask(2, WRITE, Register.WINDOW_DATA, 11, 12, 13, 14, fixed=True)
    line.ask(3, READ, Register.WINDOW_ADDRESS, count=1)
    line.ask(4, READ, 0x44, count=2)
    line.ask(5, READ, Register.ID, count=3)
    assert line.answers() == [(1, 0, []), (2, SLVERR, []), (3, 0, [MEMORY_WORDS]), (4, SLVERR, []),
                              (5, SLVERR, [IDENTITY, ISA_VERSION])]
    assert line.accesses(6) == 2


def test_no_more_is_read_than_an_answer_holds(line: Line) -> None:
    line.sync()
    line.ask(1, READ, Register.ID, count=BRIDGE.words + 1, fixed=True)
    line.ask(2, READ, Register.ID, count=0xFFFF, fixed=True)
    line.ask(3, READ, Register.VERSION, count=1)
    answers = line.answers()
    assert [sequence for sequence, _, _ in answers] == [1, 2, 3]
    assert all(len(data) <= BRIDGE.words for _, _, data in answers)


def test_the_next_frame_behind_a_delimiter_is_read(line: Line) -> None:
    """Whatever was on the line before it: a frame cut short, bytes at random, frames of too few words."""
    line.sync()
    rng = np.random.default_rng(6)
    whole = encode(bytes(40))
    for sequence, before in enumerate((whole[:20], rng.bytes(300), whole[1:], whole[:-1] + whole, encode(b""),
                                       encode(bytes(4)), bytes(50), b"\xff" * 600), 1):
        line.port.write(before + b"\0")
        line.ask(sequence, READ, Register.ID, count=1)
        assert line.answers() == [(sequence, 0, [IDENTITY])]
