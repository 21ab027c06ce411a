"""Rows about the array simulator: how long `plinth simulate` takes, the whole command."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from plinth.bench.row import Row
from plinth.errors import UserError
from plinth.model.array import ARRAYS
from plinth.plan.cost.machine import machine
from plinth.simulate.step import check_calibration

#: Network that is simulated.
NETWORK = "vgg-e"


def _command(array: str) -> tuple[float, float, dict[str, Any]]:
    """Seconds and most bytes of memory of the command, and what it prints."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as complaints:
        started = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-m", "plinth.cli", "simulate", NETWORK, "--array", array, "--json"],
                                 stdout=out, stderr=complaints)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        complaints.seek(0)
        if child.returncode:
            raise UserError(complaints.read().strip().removeprefix("plinth: error: "))
        return seconds, 1024.0 * usage.ru_maxrss, json.load(out)


def _row(name: str, array: str, runs: int) -> list[Row]:
    # The Verilog that a calibration table is compared with is made once.
    check_calibration(machine(ARRAYS[array].die_parameters()))
    found = [_command(array) for _ in range(runs)]
    _, size, step = found[0]
    detail = {"bytes": size, "runs": [seconds for seconds, _, _ in found],
              **{key: step[key] for key in ("tasks", "events", "seconds", "joules_total")}}
    return [Row(name, median(seconds for seconds, _, _ in found), "seconds",
                "imports" if runs > 1 else "making tasks of the plan, and events", detail)]


def simulate_vgg_e_16_seconds() -> list[Row]:
    """VGG-E on HyPar's sixteen dies; median of three."""
    return _row("simulate_vgg_e_16_seconds", "hypar-16", 3)


def simulate_vgg_e_1024_seconds() -> list[Row]:
    """VGG-E on 1,024 dies."""
    return _row("simulate_vgg_e_1024_seconds", "hypar-1024", 1)


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[Row]]] = {
    "simulate_vgg_e_16_seconds": simulate_vgg_e_16_seconds,
    "simulate_vgg_e_1024_seconds": simulate_vgg_e_1024_seconds,
}
