"""What takes long is told, as lines; what does not, is not."""

import os
import pty
import re
import select
import sys
import threading
from collections.abc import Callable

import pytest

from plinth_hw.terminal.activity import Activity


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Activity("being quick", "things", delay_seconds=60) as activity:
        activity.update(1, 10)
        activity.begin("being quick again")
    assert capsys.readouterr() == ("", "")


class _Lines:
    """Standard error that counts its lines."""

    def __init__(self, wanted: int) -> None:
        self.lines: list[str] = []
        self.enough, self._wanted = threading.Event(), wanted

    def isatty(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def write(self, text: str) -> int:
        self.lines += [text] if text.strip() else []
        if len(self.lines) >= self._wanted:
            self.enough.set()
        return len(text)


def test_lines_come_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Lines(3)
    monkeypatch.setattr(sys, "stderr", stream)
    with Activity("counting", "beans", delay_seconds=0.01, line_seconds=0.01) as activity:
        assert not activity.bar
        activity.update(2000, 10_000)
        assert stream.enough.wait(60)
    lines = [line for line in stream.lines if "beans" in line]
    assert lines and all(line.startswith("counting: 2,000 of 10,000 beans") for line in lines)
    before = len(stream.lines)
    assert threading.active_count() == sum(not thread.name.startswith("activity") for thread in threading.enumerate())
    assert len(stream.lines) == before


@pytest.mark.parametrize(("done", "total", "note", "pattern"), [
    (0, None, None, r"counting"),
    (1, None, None, r"counting: 1 beans"),
    (1, 4, "of today", r"counting: of today, 1 of 4 beans"),
])
def test_the_text_says_what_is_known(done: int, total: int | None, note: str | None, pattern: str) -> None:
    activity = Activity("counting", "beans")
    activity.update(done, total, note)
    assert re.fullmatch(pattern, activity.text)


def test_rate_and_time_left_are_of_what_was_counted() -> None:
    activity = Activity("counting", "beans")
    activity.update(1, 100)
    activity.update(50)
    assert re.fullmatch(r"counting: 50 of 100 beans, [\d,]+/s, 0 s left", activity.text)


def read_until(terminal: int, shown: bytes, is_whole: Callable[[bytes], bool]) -> bytes:
    """What a terminal has shown and shows until it is whole, for half a minute at most."""
    while not is_whole(shown):
        assert select.select([terminal], [], [], 30)[0], shown
        shown += os.read(terminal, 65536)
    return shown


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar wraps where the terminal is narrow: all digits come out, and what looks like markup."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = b""
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Activity("counting very many of our beans", "beans", delay_seconds=0.01) as activity:
            assert activity.bar
            activity.update(123_456, 1_000_000)
            shown = read_until(ours, shown, lambda text: b"123,456" in re.sub(rb"\s+", b"", text))
            activity.update(123_457, 1_000_000, "of [b]")
            shown = read_until(ours, shown, lambda text: b"of[b]" in re.sub(rb"\s+", b"", text))
            activity.say("a line above it")
            shown = read_until(ours, shown, lambda text: b"above it" in text)
        os.write(theirs, b"END")
        shown = read_until(ours, shown, lambda text: b"END" in text)
    os.close(ours)
    assert shown.endswith(b"\x1b[2KEND") or b"\x1b[2K" in shown
    assert b"\xe2\x80\xa6" not in shown
