"""Rows about whole commands: what a user waits for, imports and all; and how commands are timed."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from plinth.array.array import Array
from plinth.array.file import array_to_yaml
from plinth.bench.row import BenchRow
from plinth.errors import UserError
from plinth.network.file import network_to_yaml
from plinth.network.layers import Add, Dense, Layer, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network, perceptron

#: What `plinth` runs, and the least that a program of click can be.
PLINTH = "from plinth.cli import main; main()"
EMPTY = "import click; click.group()(lambda: None)()"
#: The dies of a thousand layers.
TORUS_1024 = Array(name="torus-1024", topology="torus", dies=1024, dimensions=(32, 32), preset="ndp-bench")


class Ran(NamedTuple):
    """Wall time of a command, time of its processor, most bytes of memory, and what it printed."""

    seconds: float
    processor_seconds: float
    bytes: float
    output: str


def usage_of(child: subprocess.Popen[Any]) -> Any:
    """Wait for a process; what it and all that it waited for used, as ``os.wait4`` says it."""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage


def timed(*arguments: str, program: str = PLINTH) -> Ran:
    """Run a command in an interpreter of its own.

    Raises
    ------
    UserError
        If it fails, with what it complains of.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as complaints:
        started = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=out, stderr=complaints)
        usage = usage_of(child)
        seconds = time.perf_counter() - started
        out.seek(0)
        complaints.seek(0)
        if child.returncode:
            raise UserError(complaints.read().strip().removeprefix("plinth: error: "))
        return Ran(seconds, usage.ru_utime + usage.ru_stime, 1024.0 * usage.ru_maxrss, out.read())


def _row(name: str, runs: Sequence[Ran], limited_by: str) -> list[BenchRow]:
    return [BenchRow(name, median(ran.seconds for ran in runs), "seconds", limited_by,
                     {"bytes": max(ran.bytes for ran in runs), "runs": [ran.seconds for ran in runs],
                      "processor_seconds": [ran.processor_seconds for ran in runs]})]


def _planned(network: Network, array: Array | None, planner: str) -> Ran:
    """``plinth plan`` of a network and an array from files; of HyPar's array without one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.yaml"
        path.write_text(network_to_yaml(network), encoding="utf-8")
        arguments = [str(path), "--planner", planner, "--batch", "256", "--json"]
        if array is None:
            arguments += ["--array", "hypar-16"]
        else:
            other = Path(folder) / "array.yaml"
            other.write_text(array_to_yaml(array), encoding="utf-8")
            arguments += ["--array", str(other)]
        return timed("plan", *arguments)


def help_seconds_over_click() -> list[BenchRow]:
    """``plinth --help`` over an empty program: the quickest of nine each, in turn, for disturbances only slow them."""
    runs = [(timed("--help"), timed("--help", program=EMPTY)) for _ in range(9)]
    ours, empty = (min(run[place].seconds for run in runs) for place in range(2))
    return [BenchRow("help_seconds_over_click", ours / empty, "plinth --help / an empty program", "imports",
                     {"seconds": ours, "empty_seconds": empty})]


def plan_vgg_e_joint_seconds() -> list[BenchRow]:
    """``plinth plan vgg-e`` for HyPar's sixteen dies by the joint planner; median of three."""
    arguments = ("plan", "vgg-e", "--array", "hypar-16", "--planner", "joint", "--batch", "256", "--json")
    return _row("plan_vgg_e_joint_seconds", [timed(*arguments) for _ in range(3)],
                "mappings of products, and walks through steps")


def plan_lenet_c_seconds() -> list[BenchRow]:
    """Processor time of ``plinth plan lenet-c`` for a ring of four dies by the joint planner; median of three."""
    return _joint("plan_lenet_c_seconds", "lenet-c", "ring-4", "making tasks of steps, and walks through them", 3)


def _joint(name: str, network: str, array: str, limited_by: str = "estimates of steps, and walks through them",
           times: int = 1) -> list[BenchRow]:
    """Processor time of ``plinth plan`` by the joint planner; the median of so many runs."""
    runs = [timed("plan", network, "--array", array, "--planner", "joint", "--json") for _ in range(times)]
    return [BenchRow(name, median(ran.processor_seconds for ran in runs), "processor seconds", limited_by,
                     {"bytes": max(ran.bytes for ran in runs), "runs": [ran.processor_seconds for ran in runs],
                      "seconds": [ran.seconds for ran in runs]})]


def plan_alexnet_ring_4_seconds() -> list[BenchRow]:
    """``plinth plan alexnet`` for a ring of four dies."""
    return _joint("plan_alexnet_ring_4_seconds", "alexnet", "ring-4")


def plan_joint_64_seconds() -> list[BenchRow]:
    """``plinth plan lenet-c`` for 64 dies: of arrays with links of one rate the largest whose words are walked."""
    return _joint("plan_joint_64_seconds", "lenet-c", "torus-8x8")


def chain_1000() -> Network:
    """A thousand equal layers, one behind the other."""
    return perceptron("chain-1000", (1024,) * 1001)


def plan_1000_layers_joint_seconds() -> list[BenchRow]:
    """A thousand layers on 1,024 dies, the joint planner."""
    ran = _planned(chain_1000(), TORUS_1024, "joint")
    return _row("plan_1000_layers_joint_seconds", [ran], "estimates of steps, and walks through them")


def plan_1000_layers_command_seconds() -> list[BenchRow]:
    """A thousand layers on 1,024 dies, HyPar's planner; the baselines `data` and `model` are predicted as well."""
    ran = _planned(chain_1000(), TORUS_1024, "hypar")
    return _row("plan_1000_layers_command_seconds", [ran], "walks through steps")


def branches(count: int) -> Network:
    """Layers side by side between two others, all before the adds of sixteen that join them."""
    layers: list[Layer] = [Dense(name="stem", outputs=64)]
    layers += [Dense(name=f"branch-{number}", outputs=64, inputs=("stem",)) for number in range(count)]
    ends = [layer.name for layer in layers[1:]]
    while len(ends) > 1:
        groups = [ends[start:start + 16] for start in range(0, len(ends), 16)]
        ends = []
        for group in groups:
            if len(group) > 1:
                layers.append(Add(name=f"add-{len(layers)}", inputs=tuple(group)))
            ends.append(layers[-1].name if len(group) > 1 else group[0])
    layers += [Dense(name="last", outputs=16), SoftmaxCrossEntropy(name="loss")]
    return Network(name=f"branches-{count}", input=Shape((64,)), layers=tuple(layers))


def plan_200_branches_seconds() -> list[BenchRow]:
    """Two hundred branches on HyPar's sixteen dies, `hypar` and `joint`: the slower one."""
    runs = {planner: _planned(branches(200), None, planner) for planner in ("hypar", "joint")}
    detail = {planner: {"seconds": ran.seconds, "processor_seconds": ran.processor_seconds, "bytes": ran.bytes}
              for planner, ran in runs.items()}
    return [BenchRow("plan_200_branches_seconds", max(ran.seconds for ran in runs.values()), "seconds",
                     "walks and estimates of steps", detail)]


#: Every row's name and the function that makes it.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "help_seconds_over_click": help_seconds_over_click, "plan_vgg_e_joint_seconds": plan_vgg_e_joint_seconds,
    "plan_lenet_c_seconds": plan_lenet_c_seconds, "plan_alexnet_ring_4_seconds": plan_alexnet_ring_4_seconds,
    "plan_joint_64_seconds": plan_joint_64_seconds, "plan_1000_layers_joint_seconds": plan_1000_layers_joint_seconds,
    "plan_1000_layers_command_seconds": plan_1000_layers_command_seconds,
    "plan_200_branches_seconds": plan_200_branches_seconds,
}
