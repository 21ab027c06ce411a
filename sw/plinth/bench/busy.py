"""Row about the co-simulation beside other programs: the main job beside one busy loop a processor."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import Any

from plinth.bench.commands import usage_of
from plinth.bench.row import BenchRow
from plinth.errors import UserError

#: The main job, for an epoch; and pairs of an undisturbed and a disturbed run of it.
JOB = ("train", "digits-mlp", "--dies", "4", "--planner", "data", "--epochs", "1")
PAIRS = 3


@contextmanager
def busy_loops() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Beside what is run in it, each processor has a process that never rests."""
    loops: list[subprocess.Popen[bytes]] = []
    try:
        for processor in sorted(os.sched_getaffinity(0)):
            loops.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            os.sched_setaffinity(loops[-1].pid, {processor})
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _run(arguments: tuple[str, ...], *, beside_loops: bool) -> dict[str, float]:
    """Die-cycles a second of a run of the job, and the processor seconds that it got a second."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as out, \
            tempfile.TemporaryFile("w+") as complaints, busy_loops() if beside_loops else nullcontext():
        before = os.times()
        child = subprocess.Popen([sys.executable, "-m", "plinth.cli", *JOB, *arguments, "--json", "--out", folder],
                                 stdout=out, stderr=complaints)
        usage = usage_of(child)
        seconds = os.times().elapsed - before.elapsed
        out.seek(0)
        complaints.seek(0)
        if child.returncode:
            raise UserError(complaints.read().strip().splitlines()[-1].removeprefix("plinth: error: "))
        report = json.load(out)
        return {"die_cycles_per_second": report["die_cycles_per_second"],
                "processors": (usage.ru_utime + usage.ru_stime) / seconds}


def _shares(*arguments: str) -> list[dict[str, Any]]:
    """Pairs of runs, and what the disturbed one keeps of the undisturbed one."""
    pairs = []
    for _ in range(PAIRS):
        alone, beside = (_run(arguments, beside_loops=beside_loops) for beside_loops in (False, True))
        share, processors = (beside[key] / alone[key] for key in ("die_cycles_per_second", "processors"))
        pairs.append({"share": share, "share_of_processors": processors, "alone": alone, "beside": beside})
    return pairs


def busy_machine_share() -> list[BenchRow]:
    """Speed of the main job beside one busy loop a processor, over undisturbed; median of three pairs."""
    # Builds the simulator.
    _run(("--steps", "1"), beside_loops=False)
    pairs = _shares()
    return [BenchRow("busy_machine_share", median(pair["share"] for pair in pairs),
                     "die-cycles a second beside busy loops / alone",
                     "a thread that the system stops amid a die holds up the others, whose processors go to the loops",
                     {"fair_share": 0.5, "pairs": pairs, "pairs_of_one_thread": _shares("--threads", "1")})]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"busy_machine_share": busy_machine_share}
