"""Streams that no text breaks, and what their failures end in."""

import errno
import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plinth_hw.terminal.streams import OutputError, Stream, replaced, standard_streams


def _stream(encoding: str, *, fatal: bool = True) -> tuple[Stream, io.BytesIO]:
    raw = io.BytesIO()
    return Stream(io.TextIOWrapper(raw, encoding=encoding, write_through=True), fatal=fatal), raw


@pytest.mark.parametrize(("encoding", "text", "bytes_"), [
    ("ascii", "52.2 \u00b5s \u2500\u2502\u250c \u2026", b"52.2 us -|+ ."),
    ("latin-1", "52.2 \u00b5s \u2502\u2192", b"52.2 \xb5s |>"),
    ("utf-8", "52.2 \u00b5s \u2502", "52.2 \u00b5s \u2502".encode()),
    ("ascii", "n\u00f6pe\u2713", b"n\\xf6pe\\u2713"),
    ("utf-8", "half \udc80", b"half \\udc80"),
])
def test_what_an_encoding_lacks_is_replaced(encoding: str, text: str, bytes_: bytes) -> None:
    stream, raw = _stream(encoding)
    assert stream.write(text) == len(text)
    assert raw.getvalue() == bytes_


@given(st.text(st.characters()), st.sampled_from(["ascii", "latin-1", "cp437", "koi8-r", "utf-8"]))
def test_any_text_can_be_written_in_any_encoding(text: str, encoding: str) -> None:
    assert replaced(text, encoding).encode(encoding).decode(encoding) == replaced(text, encoding)


class _Full(io.StringIO):
    """A file that takes nothing."""

    def __init__(self, number: int, *, at_flush: bool) -> None:
        super().__init__()
        self._error, self._at_flush, self.tries = OSError(number, "no room"), at_flush, 0

    def write(self, text: str) -> int:
        self.tries += 1
        if not self._at_flush:
            raise self._error
        return len(text)

    def flush(self) -> None:
        raise self._error


@pytest.mark.parametrize("at_flush", [False, True])
def test_a_failure_of_output_is_raised_each_time(at_flush: bool) -> None:
    """Whoever swallows it once, as click does where it tries a stream, meets it again; nothing is tried twice."""
    full = _Full(errno.ENOSPC, at_flush=at_flush)
    stream = Stream(full, fatal=True)
    with pytest.raises(OutputError, match="standard output: no room"):
        stream.write("a")
        stream.flush()
    for again in (lambda: stream.write("b"), lambda: stream.writelines(["c"]), stream.flush):
        with pytest.raises(OutputError, match="standard output: no room"):
            again()
    assert full.tries == 1


def test_standard_error_that_fails_falls_silent() -> None:
    full = _Full(errno.EPIPE, at_flush=False)
    stream = Stream(full, fatal=False)
    for _ in range(3):
        stream.write("a")
        stream.flush()
    assert full.tries == 1


def test_click_writes_through_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past a stream with an ASCII encoding click writes UTF-8 into its buffer, if it has one."""
    import click

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    with standard_streams():
        click.echo("5 \u00b5s")
    assert raw.getvalue() == b"5 us\n"


def test_streams_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    before = sys.stderr
    with standard_streams():
        print("nobody reads this")
        assert isinstance(sys.stderr, Stream) and not sys.stdout.isatty()
    assert sys.stdout is None and sys.stderr is before
