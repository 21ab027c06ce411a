"""Golden dies shared among the ranks of an MPI program: bits of one process, and ends in order."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.networks import random_plan, trainable_network
from tests.support.ranks import in_ranks, mpiexec
from tests.support.shares import Training, check

from plinth.errors import UserError
from plinth.runtime import mpi

#: The smallest run of the command.
QUICK = ("-m", "plinth.cli", "run", "--steps", "2", "--batch", "16")


@pytest.mark.parametrize(("seed", "dies"), [(3, 2), (4, 4), (5, 6)])
def test_ranks_have_the_bits_of_one_process(seed: int, dies: int) -> None:
    """Random networks and plans, on two and three uneven ranks."""
    generator = np.random.default_rng([12, seed])
    network = trainable_network(generator)
    plan = random_plan(network, dies, int(generator.integers(dies, 3 * dies)), generator)
    check(Training(network, plan, ("ndp-tiny", "hypar-tiny")[seed % 2], steps=2), in_ranks, shares=1)


@pytest.mark.parametrize("device", ["golden", "numpy"])
def test_the_command_gives_the_weights_of_one_process(tmp_path: Path, device: str) -> None:
    """One rank reports; the report is that of one process, but for times, and says that each pair of ranks has sent the
    words of the plan."""
    reports, weights = [], []
    for ranks in (1, 3):
        folder = tmp_path / str(ranks)
        run = mpiexec(ranks, *QUICK, "--device", device, "--out", str(folder), "--save", str(folder / "w.npz"),
                      "--json")
        assert run.returncode == 0, run.stderr
        reports.append(json.loads(run.stdout))
        assert run.stderr.count("step 2 of 2: ") == 1
        with np.load(folder / "w.npz") as saved:
            weights.append({name: saved[name] for name in saved.files})
    assert "between_ranks" not in reports[0]
    pairs = reports[1].pop("between_ranks")
    assert pairs and all(pair["sent_words"] == pair["predicted_sent_words"] > 0 < pair["messages"] for pair in pairs)
    assert reports[0].keys() == reports[1].keys()
    for key in reports[0].keys() - {"wall_seconds", "setup_seconds"}:
        assert reports[0][key] == reports[1][key], key
    assert weights[0].keys() == weights[1].keys()
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_sums_by_the_library_are_equal_but_for_rounding(tmp_path: Path) -> None:
    weights = []
    for how in ("ring", "library"):
        run = mpiexec(2, *QUICK, "--dies", "3", "--planner", "data", "--device", "numpy", "--reduce", how, "--out",
                      str(tmp_path / how), "--save", str(tmp_path / "w.npz"), "--json")
        assert run.returncode == 0, run.stderr
        with np.load(tmp_path / "w.npz") as saved:
            weights.append([saved[name] for name in saved.files if name != "header"])
    # Without rings no rank sends another anything itself.
    assert json.loads(run.stdout)["between_ranks"] == []
    for left, right in zip(*weights, strict=True):
        assert np.abs(left - right).max() <= 1e-5 * np.abs(left).max()


@pytest.mark.parametrize(("ranks", "arguments", "message"), [
    (3, ("--dies", "2"), "plinth: error: 2 dies cannot be shared among 3 processes; start 1 to 2"),
    (2, ("--stepps", "2"), "plinth: error: No such option '--stepps'"),
    (2, ("--data", "none.npz"), "plinth: error: none.npz: cannot be read")])
def test_what_all_ranks_refuse_is_said_once(ranks: int, arguments: tuple[str, ...], message: str) -> None:
    run = mpiexec(ranks, *QUICK, *arguments)
    assert run.returncode == 2 and run.stdout == ""
    assert [line.startswith(message) for line in run.stderr.splitlines()] == [True], run.stderr


#: The command of a rank whose options are others than those of rank 0.
OTHER = """
import os, sys
from plinth.cli import main
rank = int(os.environ["PMI_RANK"])
main(["run", "--steps", "2", "--batch", "16", *([] if rank == 0 else sys.argv[1:])])
"""


@pytest.mark.parametrize(("arguments", "message"), [
    (("--rate", "0.5"), "processes run different programs, of digests "),
    (("--seed", "7"), "processes have different settings: --seed 0, --seed 7; start all"),
    (("--steps", "3"), "processes have different settings: --steps 2, --steps 3; start all"),
    (("--save", "w.npz"), "processes have different settings: no --save, --save; start all"),
    (("--planner", "model"), "processes run different programs, of digests "),
    (("--data", "none.npz"), "rank 1: none.npz: cannot be read"),
    (("--resume", "none.npz"), "rank 1: none.npz: cannot be read"),
    (("--stepps", "2"), "rank 1: No such option '--stepps'")])
def test_ranks_that_differ_end_with_a_line(arguments: tuple[str, ...], message: str) -> None:
    run = mpiexec(2, "-c", OTHER, *arguments)
    assert run.returncode == 2 and run.stdout == ""
    lines = [line for line in run.stderr.splitlines() if not line.startswith("setting up ")]
    assert len(lines) == 1 and lines[0].startswith(f"plinth: error: {message}"), lines


#: The command in ranks of which the last does something of its own first.
ODD = """
import os, sys
from plinth.cli import main
if os.environ["PMI_RANK"] == "1":
    exec(sys.argv[1])
main(["run", "--steps", "2", "--batch", "16"])
"""


@pytest.mark.parametrize("place", ["plinth.api.jobs.training_job", "plinth.train.job.evaluate",
                                   "plinth.runtime.mpi.MpiTransport._receive"])
def test_an_error_that_nobody_expects_ends_all(place: str) -> None:
    """Before ranks are joined, while they train, and in the thread that joins them."""
    odd = f"from unittest import mock; mock.patch({place!r}, side_effect=KeyError('odd')).start()"
    run = mpiexec(2, "-c", ODD, odd)
    assert run.returncode != 0 and run.stdout == ""
    assert run.stderr.count("KeyError: 'odd'") == 1, run.stderr


def test_a_rank_that_hangs_is_named() -> None:
    """Behind what the others have waited for, on standard error."""
    script = ("import os, signal\nimport plinth.runtime.mpi, plinth_sim.golden.array as array\n"
              "import plinth.train.job as job\nfrom plinth.cli import main\nplinth.runtime.mpi.LEAVE_SECONDS = 1\n"
              "array.GoldenArray.__init__.__kwdefaults__['patience_seconds'] = 4\n"
              "def hang(*_, **__): os.kill(os.getpid(), signal.SIGSTOP)\n"
              "if os.environ['PMI_RANK'] == '1': job.evaluate = hang\n"
              "main(['run', '--steps', '2', '--batch', '16'])\n")
    run = mpiexec(2, "-c", script)
    assert run.returncode == 2 and run.stdout == ""
    assert re.search(r"^plinth: error: rank 0: dies 2, 3 did not come to where all processes meet within 4 s; rank 1 "
                     "has not ended 1 seconds behind this one: all ranks are ended$", run.stderr, re.M), run.stderr


def test_a_rank_that_is_killed_ends_all(tmp_path: Path) -> None:
    """What was saved is whole: mpiexec ends the other ranks, in the middle of a step as well."""
    script = ("import os, signal, threading\nfrom plinth.cli import main\n"
              "if os.environ['PMI_RANK'] == '1': threading.Timer(6, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
              f"main(['run', '--batch', '256', '--epochs', '1000', '--save', {str(tmp_path / 'w.npz')!r}])\n")
    run = mpiexec(2, "-c", script)
    assert run.returncode != 0
    if (tmp_path / "w.npz").exists():
        with np.load(tmp_path / "w.npz") as saved:
            assert len(saved.files) > 3
    # Who is killed while it writes leaves what it has written so far beside the file.
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".part"] in ([], ["w.npz"])


def test_a_launcher_of_another_mpi_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each of its processes would train by itself, and write the same files."""
    assert mpi.world().size == 1
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    with pytest.raises(UserError, match=r"^one of 4 processes \(OMPI_COMM_WORLD_SIZE\), but mpi4py's MPI \(MPICH"):
        mpi.world()


def test_without_mpi4py_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(UserError, match=r"^processes over MPI need mpi4py, .*\[mpi\]"):
        mpi.world()
