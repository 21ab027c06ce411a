"""Rows about ranks of MPI: how fast a step in numpy is on one and on two, what its rings cost, and how soon all end."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from plinth.bench.numpy_loop import BATCH
from plinth.bench.row import BenchRow
from plinth.runtime.launcher import ENVIRONMENT, PATIENCE, printed, rank_command
from plinth.runtime.mpi import MpiTransport, world
from plinth.runtime.mpi_messages import MpiMessages
from plinth.runtime.rings import LibraryPasses, MemberRows, OwnerChunks, RingPasses
from plinth.step.tasks import Phase

#: Steps of two runs, whose difference counts: what is before the first step, and the checks of the first eight, are in
#: both; a run of each, so many times.
FEW, MANY, TURNS = 10, 110, 3
#: Words of a sum, 64 MB; those of a chunk; sums.
WORDS, CHUNK, SUMS = 1 << 24, 64, 9
#: Moments at which a rank is killed, in seconds after its first step.
MOMENTS = 5
#: Runs of golden dies whose bits are compared: plans of several kinds, each machine and format; on so many ranks.
RUNS = (("digits-cnn", "--planner", "one-weird-trick"), ("digits-cnn", "--planner", "joint", "--machine", "hypar"),
        ("digits-mlp", "--planner", "model"), ("digits-mlp", "--planner", "data", "--format", "mixed"),
        ("digits-mlp", "--planner", "data", "--machine", "fpga"),
        ("digits-cnn", "--planner", "mpt", "--winograd", "2", "--weights", "winograd"))
RANKS, DIES = (2, 3, 4, 8), 8


def _step_seconds(ranks: int, dies: int, batch: int) -> float:
    """Seconds of a step of lenet-c by the command, data parallel."""
    def wall(steps: int) -> float:
        with tempfile.TemporaryDirectory() as name:
            folder, generator = Path(name), np.random.default_rng(0)
            np.savez(folder / "samples.npz", x=generator.random((5 * batch, 1, 28, 28), np.float32),
                     y=np.arange(5 * batch) % 10)
            report = json.loads(printed(ranks, [
                "-m", "plinth.cli", "run", "lenet-c", "--data", str(folder / "samples.npz"), "--device", "numpy",
                "--planner", "data", "--dies", str(dies), "--batch", str(batch), "--epochs", "100",
                "--rate", "0.001", "--steps", str(steps), "--check", "1000", "--out", name, "--json"]))
        return float(report["wall_seconds"])

    return (wall(MANY) - wall(FEW)) / (MANY - FEW)


def runtime_scaling() -> list[BenchRow]:
    """How much faster two ranks with a die each are than one rank, with the same two dies or with one of the whole
    batch, whichever is faster: steps of lenet-c, batch 512, by the command, one BLAS thread a rank; the median of
    turns."""
    turns = [[_step_seconds(*ranks_and_dies, 512) for ranks_and_dies in ((1, 1), (1, 2), (2, 2))] for _ in range(TURNS)]
    ratios = sorted(min(one) / two for *one, two in turns)
    least = [min(turn[number] for turn in turns) for number in range(3)]
    return [BenchRow("runtime_scaling", median(ratios), "seconds of a step of one rank / of two",
                     "what ranks do not share: losses, orders of samples, and memory, which has one way for both",
                     {"network": "lenet-c", "batch": 512, "seconds_1_die": least[0], "seconds_2_dies": least[1],
                      "seconds_2_ranks": least[2], "least": ratios[0], "most": ratios[-1]})]


def runtime_overhead() -> list[BenchRow]:
    """A step of lenet-c of one rank by the command over one of the loop by hand, batch 256: losses, orders of samples
    and batches are the command's; the median of turns."""
    program = "import sys; from plinth.bench.numpy_loop import print_seconds_by_hand as run; run(int(sys.argv[1]))"
    turns = [(_step_seconds(1, 1, BATCH), float(printed(1, ["-c", program, str(MANY - FEW)]))) for _ in range(TURNS)]
    ratios = sorted(ours / theirs for ours, theirs in turns)
    return [BenchRow("runtime_overhead", median(ratios), "seconds of a step of the command / of a loop by hand",
                     "kernels called an operation at a time; windows of convolutions are unrolled into a cache, by "
                     "hand of the whole batch",
                     {"network": "lenet-c", "batch": BATCH, "seconds": min(ours for ours, _ in turns),
                      "seconds_by_hand": min(theirs for _, theirs in turns), "least": ratios[0], "most": ratios[-1]})]


def print_sums() -> None:
    """Run a rank's part of :func:`ring_over_library`: the first prints the seconds of each sum, of either kind."""
    ranks = world()
    with MpiTransport(ranks.communicator, [(rank,) for rank in range(ranks.size)], nap_seconds=1.0) as transport:
        seconds: dict[str, list[float]] = {"ring": [], "library": []}
        passes: dict[str, tuple[MpiMessages, Any]] = {}
        for kind in seconds:
            messages = MpiMessages(transport, library=kind == "library")
            row = MemberRows(np.ones(WORDS, np.float32), np.zeros(WORDS, np.float32))
            everyone = range(ranks.size)
            library = messages.all_reduce(everyone, WORDS)
            passes[kind] = messages, RingPasses(
                Phase.UPDATE, 0.1, OwnerChunks(WORDS, CHUNK, ranks.size), [row if rank == ranks.rank else None
                                                                      for rank in everyone],
                everyone, messages, 0) if library is None else LibraryPasses(True, 0.1, [row], library)
        for _ in range(SUMS):
            for kind, (messages, each) in passes.items():
                ranks.communicator.Barrier()
                started = time.perf_counter()
                messages.begin()
                for awaited in each.begin():
                    messages.wait(awaited.arrived)
                seconds[kind].append(time.perf_counter() - started)
        if ranks.rank == 0:
            for kind, times in seconds.items():
                print(kind, *times)


def ring_over_library() -> list[BenchRow]:
    """Sum and update of 64 MB on two ranks, by our ring, in the order of the golden model's, over the library's
    all-reduce and the same update: medians of sums one after the other, without the first of each."""
    lines = (line.split() for line in printed(
        2, ["-c", "from plinth.bench.ranks import print_sums; print_sums()"]).splitlines())
    seconds = {kind: median(map(float, times[1:])) for kind, *times in lines}
    ring, library = seconds["ring"], seconds["library"]
    return [BenchRow("ring_over_library", ring / library, "seconds of a sum by the ring / by the library",
                     "copies of chunks into messages and out of them",
                     {"bytes": 4 * WORDS, "chunk_words": CHUNK, "seconds": ring, "seconds_library": library})]


def bits() -> list[BenchRow]:
    """Bytes of weights and states in which ranks of golden dies differ from one process, of eight dies on 2, 3, 4 and 8
    ranks: plans of several kinds, each machine and number format, by the command."""
    differ = compared = 0
    for run in RUNS:
        whole, *others = (_weights(run, ranks) for ranks in (1, *RANKS))
        for shared in others:
            compared += len(whole)
            differ += sum(one != other for one, other in zip(whole, shared, strict=True))
    return [BenchRow("bits", float(differ), "bytes that differ", "nothing: sums have an order of their own",
                     {"runs": len(RUNS), "dies": DIES, "ranks": list(RANKS), "bytes": compared})]


def _weights(run: Sequence[str], ranks: int) -> bytes:
    """What golden dies on some ranks have trained, all arrays of the checkpoint one behind the other."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "weights.npz"
        printed(ranks, ["-m", "plinth.cli", "run", *run, "--dies", str(DIES), "--batch", "16", "--steps", "2",
                         "--out", folder, "--save", str(saved), "--json"])
        with np.load(saved) as arrays:
            return b"".join(arrays[name].tobytes() for name in sorted(arrays.files) if name != "header")


def kill_recover_seconds() -> list[BenchRow]:
    """From the kill of one of two ranks to the end of all, at moments of a training run: the longest."""
    waited = []
    for moment in range(MOMENTS):
        with tempfile.TemporaryDirectory() as folder:
            waited.append(_killed(Path(folder), 0.37 * moment))
    return [BenchRow("kill_recover_seconds", max(waited), "s", "the launcher, which sees that a process has ended",
                     {"ranks": 2, "seconds": waited})]


def _killed(folder: Path, moment: float) -> float:
    """Seconds from the kill of rank 1, so long after the first step, to the end of the launcher."""
    program = ("import os, sys, pathlib; from plinth.cli import main\n"
               "rank = os.environ.get('PMI_RANK') or os.environ['OMPI_COMM_WORLD_RANK']\n"
               f"pathlib.Path({str(folder)!r}, rank).write_text(str(os.getpid()))\n"
               "main(['run', '--device', 'numpy', '--planner', 'data', '--epochs', '10000', '--out', "
               f"{str(folder / 'out')!r}])")
    with subprocess.Popen(rank_command(2, ["-c", program]), text=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, env=os.environ | ENVIRONMENT) as launcher:
        assert launcher.stderr is not None
        try:
            for line in launcher.stderr:
                if "step " in line:
                    break
            time.sleep(moment)
            drained = threading.Thread(target=launcher.stderr.read, daemon=True)
            drained.start()
            killed = time.perf_counter()
            os.kill(int((folder / "1").read_text(encoding="utf-8")), signal.SIGKILL)
            launcher.wait(PATIENCE)
            return time.perf_counter() - killed
        finally:
            launcher.kill()


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "runtime_overhead": runtime_overhead, "runtime_scaling": runtime_scaling, "ring_over_library": ring_over_library,
    "bits": bits, "kill_recover_seconds": kill_recover_seconds}
