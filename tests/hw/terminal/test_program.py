"""What a program ends in: one line, and its code."""

import os
import signal
import subprocess
import sys
import time

import click
import pytest

from plinth_hw.terminal.commands import Command, CommandGroup
from plinth_hw.terminal.program import Interruption, end_children, program


@pytest.mark.parametrize(("error", "code", "text"), [
    (ValueError("give another"), 2, "toy: error: give another\n"),
    (ValueError("two\nlines"), 2, "toy: error: two lines\n"),
    (MemoryError(), 2, "toy: error: more memory is needed than there is; give smaller files, networks or batches\n"),
    (OSError(28, "No space left on device", "here.txt"), 2,
     "toy: error: here.txt: No space left on device; make room, or choose another place\n"),
    (PermissionError(13, "Permission denied"), 2,
     "toy: error: Permission denied; choose another place, or mend this one\n"),
    (KeyboardInterrupt(), 130, "toy: interrupted; the rest is kept\n"),
    (Interruption(), 130, "toy: interrupted; the rest is kept\n"),
    (click.Abort(), 130, "toy: interrupted; the rest is kept\n"),
    (SystemExit(1), 1, ""),
])
def test_each_end_is_one_line_and_a_code(capsys: pytest.CaptureFixture[str], error: BaseException, code: int,
                                         text: str) -> None:
    with pytest.raises(SystemExit) as ended, program("toy", (ValueError,), kept="the rest is kept", last=False):
        raise error
    assert ended.value.code == code
    assert capsys.readouterr().err == text


def test_an_error_of_the_program_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), program("toy", last=False):
        raise ZeroDivisionError


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_interrupt_and_are_given_back(capsys: pytest.CaptureFixture[str], number: signal.Signals) -> None:
    # A shell's background jobs begin with SIGINT ignored, which programs leave so.
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    previous = {signum: signal.signal(signum, handler) for signum, handler in usual.items()}
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(SystemExit) as ended, program("toy", last=False):
        os.kill(os.getpid(), number)
        time.sleep(60)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "toy: interrupted\n"
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    for signum, handler in previous.items():
        signal.signal(signum, handler)


def test_names_of_files_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), program("toy", last=False):
        raise OSError(2, "No such file", "\x1b[31m\u202e")
    assert capsys.readouterr().err.startswith("toy: error: \\x1b[31m\\u202e: No such file; ")


def test_children_and_theirs_are_ended() -> None:
    """A shell that has not come to its end, and the program that it waits for."""
    child = subprocess.Popen(["sh", "-c", "sleep 300 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline()
    end_children()
    assert child.wait(60) == -signal.SIGTERM
    # Open until the last of them has ended.
    assert child.stdout.read() == ""
    child.stdout.close()


def test_an_ignored_signal_stays_ignored() -> None:
    code = ("import os, signal\nfrom plinth_hw.terminal.program import program\nsignal.signal(signal.SIGHUP, signal."
            "SIG_IGN)\nwith program('toy'):\n    os.kill(os.getpid(), signal.SIGHUP)\n    print('on')")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "on\n"


def test_an_interrupted_command_of_click_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    @click.group(cls=CommandGroup)
    def cli() -> None:
        pass

    def interrupted() -> None:
        raise KeyboardInterrupt

    cli.add_command(click.command("go")(interrupted))
    for command, words in ((cli, ["go"]), (click.command(cls=Command)(interrupted), [])):
        with pytest.raises(SystemExit) as ended, program("toy", last=False):
            command.main(words, standalone_mode=False)
        assert ended.value.code == 130 and capsys.readouterr().err == "toy: interrupted\n"
