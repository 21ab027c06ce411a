"""Co-simulated dies shared among the ranks of an MPI program: bits and cycles of one process, and ends in order."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.support import vcd
from tests.support.dies import LINKED
from tests.support.lockstep import CosimTraining, assert_one_process, small
from tests.support.ranks import in_ranks, mpiexec

from plinth.array.array import full
from plinth.runtime.mpi_cosim import MpiLockstep

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

#: The smallest run of the command.
QUICK = ("run", "--device", "cosim", "--preset", "ndp-tiny", "--dies", "2", "--batch", "8", "--steps", "1")


@pytest.mark.parametrize(("processes", "training"), [
    (((0, 1), (2, 3)), small(LINKED, full(4), steps=1, bit_errors=3e-5, threads=2)),
    (((0,), (1, 2), (3,)), small(steps=1))], ids=["two ranks", "three ranks"])
def test_ranks_have_the_cycles_of_one_process(processes: Sequence[Sequence[int]], training: CosimTraining) -> None:
    assert_one_process(in_ranks(processes, training, MpiLockstep), training(None))


def test_the_command_gives_the_report_of_one_process(tmp_path: Path) -> None:
    """But for times; with weights, and the waves of the second rank's die."""
    reports, weights = [], []
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        run = mpiexec(ranks, "-m", "plinth.cli", *QUICK, "--out", str(folder), "--save", str(folder / "w.npz"),
                      "--json", "--waves", "die=1,from=1000,to=1100")
        assert run.returncode == 0, run.stderr
        reports.append(json.loads(run.stdout))
        with np.load(folder / "w.npz") as saved:
            weights.append({name: saved[name] for name in saved.files})
    assert reports[0]["bit_exact"] and reports[0]["cycles"] > 1000
    for key in reports[0].keys() - {"wall_seconds", "setup_seconds", "die_cycles_per_second"}:
        assert reports[0][key] == reports[1][key], key
    assert weights[0].keys() == weights[1].keys()
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    waves = [tmp_path / ranks / "die1.vcd" for ranks in ("1", "2")]
    assert vcd.cycles(waves[1]) == (1000, 1099) and waves[0].read_bytes() == waves[1].read_bytes()


#: The command in ranks of which the last does something of its own first.
ODD = f"""
import os, sys
import plinth.runtime.mpi_cosim as mpi_cosim
from plinth.cli import main
if os.environ["PMI_RANK"] == "1":
    exec(sys.argv[1])
main({list(QUICK)!r} + ["--out", os.environ["OUT"]] + sys.argv[2:])
"""
#: What makes a die of this rank stop with an error in its step.
BAD_TASK = """
from plinth.driver.driver import Driver
start = Driver.start
def bad(driver, *arguments, **options):
    if len(driver.numbers) == 1:
        driver.rewrite(1, 0, 0, 0xFFFFFFFF)
    start(driver, *arguments, **options)
Driver.start = bad
"""


@pytest.mark.parametrize(("odd", "message"), [
    (BAD_TASK, r"rank 1: die 1: task '.*' at word 0x[0-9a-f]+ stopped with BAD_ENGINE"),
    ("sys.argv[2:] = ['--link-latency']", "rank 1: No such option '--link-latency'"),
    ("sys.argv[2:] = ['--memory', '2']", "processes have different dies, links or memories; start all with the same"),
    ("sys.argv[2:] = ['--seed', '7']", "processes have different settings: --seed 0, --seed 7; start all")],
    ids=["a die's error", "options", "dies", "settings"])
def test_ranks_end_with_a_line(odd: str, message: str) -> None:
    run = mpiexec(2, "-c", ODD, odd)
    assert run.returncode == 2 and run.stdout == "", run.stdout
    told = "ranks on |setting up |building |training: "
    lines = [line for line in run.stderr.splitlines() if not re.match(told, line)]
    assert len(lines) == 1 and re.match(f"plinth: error: {message}", lines[0]), lines


def test_an_error_that_nobody_expects_ends_all() -> None:
    odd = "from unittest import mock; mock.patch('plinth.train.job.evaluate', side_effect=KeyError('odd')).start()"
    run = mpiexec(2, "-c", ODD, odd)
    assert run.returncode != 0 and run.stdout == ""
    assert run.stderr.count("KeyError: 'odd'") == 1, run.stderr


def test_a_rank_that_hangs_is_named() -> None:
    """Behind what the other has waited for."""
    settings = "import plinth.runtime.mpi_cosim as ranks\nranks.LEAVE_SECONDS = 1\n" \
               "ranks.MpiLockstep.__init__.__defaults__ = (4,)\n"
    hang = "import signal, plinth.train.job as job\n" \
           "job.evaluate = lambda *_, **__: os.kill(os.getpid(), signal.SIGSTOP)"
    run = mpiexec(2, "-c", settings + ODD, hang)
    assert run.returncode == 2 and run.stdout == ""
    assert re.search(r"^plinth: error: rank 0: dies 1 did not come to where all processes meet within 4 s; rank 1 has "
                     "not ended 1 seconds behind this one: all ranks are ended$", run.stderr, re.M), run.stderr
