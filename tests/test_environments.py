"""Programs of the product in environments that are against them, and ended by signals at any moment.

A few processes stand in the regression: each start takes up to a second. The whole table is long.
"""

import signal
from pathlib import Path

import pytest
from tests.support.environments import (
    COMMANDS,
    ENVIRONMENTS,
    WRONG,
    broken_files,
    command,
    complaints,
    ended,
    killed,
    make_files,
)

from plinth_hw.terminal.program import INTERRUPTED, MENDABLE

#: What the regression runs: each environment that differs in kind, with the command that has most to lose there.
QUICK = [("ascii", "plan, shown"), ("all closed", "registers"), ("full output", "list"), ("no reader", "list"),
         ("disk full within", "train"), ("full disk", "convert"), ("home not writable", "plan"),
         ("deleted folder", "schema"), ("latin-1", "mistake")]
#: Signals, and seconds after the start at which they come.
MOMENTS = [0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


def _check(environment: str, name: str, folder: Path, files: Path) -> None:
    chosen, out = ENVIRONMENTS[environment], folder / "out"
    out.mkdir()
    result = ended(command(name, chosen.out or str(out), files), chosen, folder / "build")
    codes = (MENDABLE,) if name in WRONG else chosen.codes
    assert not complaints(result, codes), (complaints(result, codes), result)
    assert not broken_files(out)


@pytest.mark.parametrize(("environment", "name"), QUICK)
def test_a_hostile_environment_ends_in_no_traceback(environment: str, name: str, tmp_path: Path, files: Path) -> None:
    _check(environment, name, tmp_path, files)


@pytest.mark.parametrize("environment", ["full output", "full output, unbuffered"])
def test_results_that_nobody_got_are_no_success(environment: str, tmp_path: Path, files: Path) -> None:
    result = ended(command("plan --json", str(tmp_path), files), ENVIRONMENTS[environment], tmp_path / "build")
    assert result.code == MENDABLE and "standard output" in result.err, result


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_command_in_every_environment(environment: str, name: str, tmp_path: Path, files: Path) -> None:
    _check(environment, name, tmp_path, files)


def _check_killed(name: str, number: signal.Signals, after: float, folder: Path, files: Path) -> None:
    out = folder / "out"
    out.mkdir()
    result = killed(command(name, str(out), files), number, after, folder / "build")
    # Before there is a handler, and always of SIGKILL: ended by the signal itself.
    codes = (0, -number) if number == signal.SIGKILL else (0, INTERRUPTED, -number)
    assert not complaints(result, codes), (complaints(result, codes), result)
    left = [name for name in broken_files(out) if number != signal.SIGKILL or not name.endswith(".part")]
    assert not left


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_signal_ends_in_one_line(number: signal.Signals, tmp_path: Path, files: Path) -> None:
    _check_killed("train", number, 1.0, tmp_path, files)


@pytest.mark.long
@pytest.mark.parametrize("after", MOMENTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("name", ["train", "plan", "simulate", "verilog"])
def test_signals_at_many_moments(name: str, number: signal.Signals, after: float, tmp_path: Path, files: Path) -> None:
    _check_killed(name, number, after, tmp_path, files)
