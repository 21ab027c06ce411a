"""Golden dies shared among the ranks of an MPI program: bits of one process, and ends in order."""

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, suppress
from pathlib import Path
from platform import node

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.commands import run as in_process
from tests.support.networks import random_plan, trainable_network
from tests.support.ranks import commands, in_ranks, in_world, mpiexec
from tests.support.shares import Training, check

from plinth.cli import main
from plinth.errors import UserError
from plinth.runtime import mpi
from plinth.runtime.mpi import World


@pytest.mark.parametrize(("seed", "dies"), [(3, 2), (4, 4), (5, 6)])
def test_ranks_have_the_bits_of_one_process(seed: int, dies: int) -> None:
    """Random networks and plans, on two and three uneven ranks."""
    generator = np.random.default_rng([12, seed])
    network = trainable_network(generator)
    plan = random_plan(network, dies, int(generator.integers(dies, 3 * dies)), generator)
    check(Training(network, plan, ("ndp-tiny", "hypar-tiny")[seed % 2], steps=2), in_ranks, shares=1)


#: A run that would do two steps.
START = ("run", "--steps", "2", "--batch", "16", "--planner", "data")


def test_the_command_gives_the_weights_of_one_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One rank reports; the report is that of one process, but for times, and says that each pair of ranks has sent the
    words of the plan. Sums by the library are equal but for rounding, and no rank sends another anything itself. What
    ranks have saved another number of them goes on from, and has the weights of a run that never stopped."""
    def arguments(name: str, *options: str) -> tuple[str, ...]:
        return (*START, "--dies", "3", *options, "--out", str(tmp_path / name), "--save",
                str(tmp_path / f"{name}.npz"), "--json")

    def resumed(name: str, *options: str) -> tuple[str, ...]:
        return (*options, "--steps", "1", "--resume", str(tmp_path / f"half_{name}.npz"))

    def weights(name: str) -> dict[str, NDArray[np.float32]]:
        with np.load(tmp_path / f"{name}.npz") as saved:
            return {key: saved[key] for key in saved.files if key != "header"}

    kinds = {"golden": (), "numpy": ("--device", "numpy"), "library": ("--device", "numpy", "--reduce", "library")}
    halves = [arguments(f"half_{name}", *options, "--steps", "1") for name, options in kinds.items()]
    assert in_process(capsys, *arguments("half_numpy1", *kinds["numpy"], "--steps", "1"))[0] == 0
    cases = [*(arguments(name, *options) for name, options in kinds.items()), *halves,
             arguments("numpy12", *resumed("numpy1", *kinds["numpy"]))]
    outcomes = commands(2, [[case] * 2 for case in cases])
    assert all(code == 0 for outcome in outcomes[3:] for code, _, _ in outcome), outcomes
    outcomes = outcomes[:3]
    for (name, options), ((code, out, err), (other_code, *others)) in zip(kinds.items(), outcomes, strict=True):
        assert (code, other_code, others) == (0, 0, ["", ""]), err
        assert err.count("step 2 of 2: ") == 1
        report = json.loads(out)
        pairs = report.pop("between_ranks")
        assert ("note: MPI's library sums gradients" in err) == (name == "library")
        if name == "library":
            assert pairs == []
            continue
        assert len(pairs) == 2
        assert all(pair["sent_words"] == pair["predicted_sent_words"] > 0 for pair in pairs)
        assert all(pair["messages"] == pair["predicted_messages"] > 0 for pair in pairs)
        code, out, _ = in_process(capsys, *arguments(f"{name}1", *options))
        alone = json.loads(out)
        assert code == 0 and report.keys() == alone.keys()
        for key in report.keys() - {"wall_seconds", "setup_seconds"}:
            assert report[key] == alone[key], key
        assert in_process(capsys, *arguments(f"{name}21", *resumed(name, *options)))[0] == 0
        for other in (f"{name}1", f"{name}21", *(["numpy12"] if name == "numpy" else [])):
            left, right = weights(name), weights(other)
            assert left.keys() == right.keys() and all(np.array_equal(left[key], right[key]) for key in left), other
    for key, values in weights("library").items():
        assert np.abs(values - weights("numpy")[key]).max() <= 1e-5 * np.abs(values).max()


def test_what_cannot_be_is_said_once(tmp_path: Path) -> None:
    """What all ranks are asked for, and what one is whose options are others than those of rank 0."""
    same = {("--dies", "1"): "2 processes cannot share 1 die; start 1",
            ("--stepps", "2"): "No such option '--stepps'", ("--data", "none.npz"): "none.npz: cannot be read",
            ("--reduce", "library"): "--reduce is of sums by --device numpy, those of dies go round rings; leave it",
            ("--save-every", "2"): "--save-every says how often --save is written, and there is none; leave one out",
            ("--device", "numpy", "--format", "mixed"): "numpy computes in FP32, dies of preset 'ndp-demo-mixed' do"}
    other = {("--rate", "0.5"): "processes run different programs, of digests ",
             ("--seed", "7"): "processes have different settings: --seed 0, --seed 7; start all",
             ("--steps", "3"): "processes have different settings: --steps 2, --steps 3; start all",
             ("--save", str(tmp_path / "w.npz")): "processes have different settings: no --save, --save; start all",
             ("--check", "3"): "processes have different settings: no --check, --check 3; start all",
             ("--planner", "model"): "processes run different programs, of digests ",
             ("--data", "none.npz"): "rank 1: none.npz: cannot be read",
             ("--resume", "none.npz"): "rank 1: none.npz: cannot be read",
             ("--stepps", "2"): "rank 1: No such option '--stepps'"}
    # Of no network's input: a file that is read once all ranks have agreed to go on.
    np.savez(tmp_path / "odd.npz", x=np.zeros((50, 7), np.float32), y=np.zeros(50, np.int64))
    other[("--device", "numpy")] = "processes have different settings: --device golden, --device numpy; start all"
    numpy_too = {("--rate", "0.5"): "processes run different programs, of digests ",
                 ("--reduce", "library"): "processes have different settings: --reduce ring, --reduce library; start",
                 ("--data", str(tmp_path / "odd.npz")): f"rank 1: {tmp_path / 'odd.npz'}: x must be real numbers",
                 ("--seed", "7"): "processes have different settings: --seed 0, --seed 7; start all"}
    out = ("--out", str(tmp_path / "out"))
    cases = [[(*START, *out, *arguments)] * 2 for arguments in same]
    cases += [[(*START, *out), (*START, *out, *arguments)] for arguments in other]
    cases += [[(*START, *out, "--device", "numpy"), (*START, *out, "--device", "numpy", *arguments)]
              for arguments in numpy_too]
    messages = [*same.values(), *other.values(), *numpy_too.values()]
    for case, message, outcomes in zip(cases, messages, commands(2, cases), strict=True):
        assert [(code, printed) for code, printed, _ in outcomes] == [(2, "")] * 2, case
        lines = [line for _, _, err in outcomes for line in err.splitlines()
                 if not line.startswith(("setting up ", "ranks on "))]
        assert len(lines) == 1 and lines[0].startswith(f"plinth: error: {message}"), (case, lines)


def refused(ranks: World) -> tuple[int, str]:
    """This rank's process, and what it says in a run that ends as ranks have other seeds."""
    said = io.StringIO()
    with redirect_stderr(said), suppress(SystemExit):
        main([*START, "--device", "numpy", "--seed", str(ranks.rank)])
    return os.getpid(), said.getvalue()


def test_whose_a_process_is_is_said_first() -> None:
    """Launchers name the process of a rank that dies, not the rank."""
    (first, said), (second, others) = in_world(2, refused)
    assert said.startswith(f"ranks on {node()}: 0 (process {first}), 1 (process {second})\n") and others == ""


#: The command in ranks of which the last does something of its own first.
ODD = """
import os, sys
from plinth.cli import main
if os.environ["PMI_RANK"] == "1":
    exec(sys.argv[1])
main(["run", "--steps", "2", "--batch", "16", "--out", os.environ["OUT"]])
"""


@pytest.mark.parametrize("place", ["plinth.api.jobs.training_job", "plinth.train.job.evaluate",
                                   "plinth.runtime.mpi.MpiTransport._receive"])
def test_an_error_that_nobody_expects_ends_all(place: str) -> None:
    """Before ranks are joined, while they train, and in the thread that joins them."""
    odd = f"from unittest import mock; mock.patch({place!r}, side_effect=KeyError('odd')).start()"
    run = mpiexec(2, "-c", ODD, odd)
    assert run.returncode != 0 and run.stdout == ""
    assert run.stderr.count("KeyError: 'odd'") == 1, run.stderr
    # The thread that joins ranks says its line itself.
    assert "rank 1" in run.stderr.partition("KeyError: 'odd'")[2] or "rank 1: messages between" in run.stderr


@pytest.mark.parametrize(("odd", "code", "line"), [
    ("sys.modules['mpi4py'] = None", 2, "rank 1: processes over MPI need mpi4py, for this machine's MPI or with one"),
    ("import signal, types\n    terminate = lambda _: signal.raise_signal(signal.SIGTERM)\n"
     "    sys.modules['plinth.cli.commands'] = types.SimpleNamespace(run=terminate)", 130, "interrupted")])
def test_a_rank_that_never_comes_to_mpi_ends_all(odd: str, code: int, line: str) -> None:
    """The others wait for it within MPI, where nothing else ends them."""
    script = f"{ODD.rpartition('main(')[0].replace('exec(sys.argv[1])', odd)}main(['run', '--steps', '2'])\n"
    run = mpiexec(2, "-c", script)
    assert (run.returncode, run.stdout) == (code, ""), run
    assert run.stderr.count(line) == 1 and "Traceback" not in run.stderr, run.stderr


@pytest.mark.parametrize(("device", "why"), [
    ("golden", "dies 2, 3 did not come to where all processes meet within 4 s"),
    ("numpy", "nothing came from other ranks for 4 s")])
def test_a_rank_that_hangs_is_named(device: str, why: str) -> None:
    """Behind what the others have waited for, on standard error."""
    script = ("import os, signal\nimport plinth.runtime.mpi, plinth_sim.golden.array as array\n"
              "import plinth.runtime.mpi_messages as messages\nfrom plinth.train.session import Session\n"
              "from plinth.cli import main\nplinth.runtime.mpi.LEAVE_SECONDS = 1\n"
              "for kind in array.GoldenArray, messages.MpiMessages:\n"
              "    kind.__init__.__kwdefaults__['patience_seconds'] = 4\n"
              "def hang(*_, **__): os.kill(os.getpid(), signal.SIGSTOP)\n"
              "if os.environ['PMI_RANK'] == '1': Session.each_parameter = hang\n"
              f"main({[*START, '--device', device, '--out']} + [os.environ['OUT']])\n")
    run = mpiexec(2, "-c", script)
    assert run.returncode == 2 and run.stdout == ""
    assert re.search(f"^plinth: error: rank 0: {why}; rank 1 has not ended 1 seconds behind this one: all ranks are "
                     "ended$", run.stderr, re.M), run.stderr


@pytest.mark.parametrize("device", ["golden", "numpy"])
def test_a_rank_that_is_killed_ends_all(tmp_path: Path, device: str) -> None:
    """What was saved is whole: mpiexec ends the other ranks, in the middle of a step as well."""
    script = ("import os, signal, threading, time\nfrom plinth.cli import main\n"
              "def kill():\n"
              f"    while not os.path.exists({str(tmp_path / 'w.npz')!r}): time.sleep(0.05)\n"
              "    time.sleep(0.3)\n"
              "    os.kill(os.getpid(), signal.SIGKILL)\n"
              "if os.environ['PMI_RANK'] == '1': threading.Thread(target=kill, daemon=True).start()\n"
              f"main(['run', '--out', os.environ['OUT'], '--device', {device!r}, '--planner', 'data',"
              f" '--batch', '256', '--epochs', '1000',"
              f" '--save-every', '2', '--save', {str(tmp_path / 'w.npz')!r}])\n")
    run = mpiexec(2, "-c", script)
    assert run.returncode != 0
    with np.load(tmp_path / "w.npz") as saved:
        assert len(saved.files) > 3
    # Who is killed while it writes leaves what it has written so far beside the file.
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".part"] == ["w.npz"]


#: A message that is sent once its receiver has begun to multiply, and goes on until the message has gone.
BUSY = """
import os, time
import numpy as np
from pathlib import Path
from plinth.workers.group import joined
busy, sent = Path(os.environ["OUT"], "busy"), Path(os.environ["OUT"], "sent")
workers, a = joined(), np.ones((300, 300), np.float32)
ends = workers.outgoing(1, 5, 1 << 21) if workers.own == 0 else workers.incoming(0, 5, 1 << 21)
until = time.monotonic() + 60
workers.begin()
if workers.own == 0:
    while not busy.exists():
        time.sleep(0.001)
    ends.send()
    while not ends.request.Test() and time.monotonic() < until:
        time.sleep(0.001)
    sent.write_text(str(ends.request.Test()))
else:
    busy.touch()
    while not sent.exists() and time.monotonic() < until + 10:
        a @ a
    workers.wait(ends.arrived)
    print("gone meanwhile:", sent.read_text())
"""


def test_messages_come_while_a_rank_multiplies() -> None:
    """Eight megabytes, which no library takes from a sender before its receiver lets it: a thread of the rank does."""
    run = mpiexec(2, "-c", BUSY)
    assert run.stdout == "gone meanwhile: True\n", run.stderr


def test_a_rank_that_does_not_start_is_named() -> None:
    script = ("import os, signal\nimport plinth.runtime.mpi as mpi\nfrom plinth.cli import main\n"
              "mpi.told_by_all.__defaults__ = (3,)\n"
              "if os.environ['PMI_RANK'] == '1': mpi.World.__new__ = lambda *_: os.kill(os.getpid(), signal.SIGSTOP)\n"
              f"main({[*START, '--out']} + [os.environ['OUT']])\n")
    run = mpiexec(2, "-c", script)
    assert run.returncode == 2 and run.stdout == ""
    assert "plinth: error: rank 0: rank 1 has not come to where training starts 3 seconds behind" in run.stderr


def test_without_a_launcher_one_rank_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    """What one that mpiexec has started is not told; a run of no MPI program says nothing."""
    options = ("--device", "numpy", "--dies", "2", "--steps", "1", "--batch", "16", "--out", str(tmp_path))
    note = "note: mpiexec did not start this process: it is the only rank, with all dies\n"
    for command, ranks, said in (("run", "", 1), ("run", "1", 0), ("train", "", 0)):
        monkeypatch.setenv("PMI_SIZE", ranks)
        code, _, err = in_process(capsys, command, *options)
        assert (code, err.count(note)) == (0, said), err


def test_ranks_of_other_installed_versions_are_refused(tmp_path: Path) -> None:
    """Where no checkout says a commit."""
    script = ("import os\nfrom plinth.cli import main\nimport plinth.train.job as job\njob.commit = lambda: None\n"
              "if os.environ['PMI_RANK'] == '1': job.release = lambda: '7.7'\n"
              f"main({[*START, '--device', 'numpy', '--out', str(tmp_path)]})\n")
    run = mpiexec(2, "-c", script)
    assert run.returncode == 2 and run.stdout == ""
    assert re.search("^plinth: error: processes have different settings: version [^,]+, version 7.7; start all",
                     run.stderr, re.M), run.stderr


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


def test_a_library_of_another_abi_is_named() -> None:
    """mpi4py is there, so that it is no remedy."""
    run = subprocess.run([sys.executable, "-c", "from plinth.runtime.mpi import world; world()"], text=True,
                         capture_output=True, env=os.environ | {"MPI4PY_MPIABI": "another"})
    assert run.stderr.splitlines()[-1].startswith("plinth.errors.UserError: mpi4py finds no MPI library that it can "
                                                  "load: ImportError: cannot import name 'MPI'"), run.stderr


def test_memory_that_a_rank_lacks_is_said_by_its_number(tmp_path: Path) -> None:
    """Before there is any, and where it ends; the others end without a line."""
    script = ("import os, sys\nfrom plinth.cli import main\nimport plinth.runtime.numpy_executor as executor\n"
              "def ends(*_, **__): raise MemoryError\n"
              "if os.environ['PMI_RANK'] == '1': {}\n"
              f"main({[*START, '--device', 'numpy', '--out', str(tmp_path)]})\n")
    for patch, message in (
            ("executor.free_memory = lambda: 100_000", r"2 dies take \S+ kB in numpy, and 100 kB are free, of which "
             "this process has 1/2; give a smaller batch, or share more dies among more hosts"),
            ("executor.NumpyStep.run = ends", "more memory is needed than there is")):
        run = mpiexec(2, "-c", script.format(patch))
        lines = [line for line in run.stderr.splitlines() if not line.startswith(("setting up ", "ranks on "))]
        assert (run.returncode, run.stdout, len(lines)) == (2, "", 1), run.stderr
        assert re.match(f"plinth: error: rank 1: {message}", lines[0]), lines
