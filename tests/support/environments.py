"""Environments that are against a program, commands to run in them, and what must hold whatever happens.

No traceback; of exit codes those that programs of ours have; an error is one line; and a file is whole or absent.
"""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from plinth.files.documents import parse_yaml
from plinth_hw.terminal.program import INTERRUPTED, MENDABLE, NO_READER

#: Seconds after which a command hangs.
PATIENCE = 300
#: What ends a file of ours that is whole, by its suffix; others are parsed.
_ENDS = {".png": b"IEND\xaeB`\x82", ".v": b"endmodule\n", ".h": b"*/\n", ".lpf": b"\n", ".rdl": b"};\n"}


@dataclass(frozen=True)
class Environment:
    """How a command is started: variables (None: unset), descriptors and limits of its process, folders."""

    variables: Mapping[str, str | None] = field(default_factory=dict)
    #: Run in the child before the program.
    prepare: Callable[[], object] | None = None
    #: What stands for {out} in commands; None: a folder of the test.
    out: str | None = None
    codes: tuple[int, ...] = (0,)
    #: Whether standard output is a pipe that nobody reads.
    no_reader: bool = False


def _closed(*descriptors: int) -> Callable[[], object]:
    return lambda: [os.close(descriptor) for descriptor in descriptors]


def _full(descriptor: int) -> Callable[[], object]:
    return lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), descriptor)


def _deleted_folder() -> None:
    folder = f"/tmp/plinth-gone-{os.getpid()}"
    os.mkdir(folder)
    os.chdir(folder)
    os.rmdir(folder)


def _little_room(count: int) -> Callable[[], object]:
    """Files may have so many bytes: to programs a full disk, but for the error's number."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (count, count))


_NO_HOME = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR"))
ENVIRONMENTS: dict[str, Environment] = {
    "usual": Environment(),
    "ascii": Environment({"PYTHONIOENCODING": "ascii"}),
    "locale C": Environment({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "latin-1": Environment({"PYTHONIOENCODING": "latin-1"}),
    "no terminal type": Environment({"TERM": None, "COLUMNS": "20", "NO_COLOR": "1"}),
    "dumb terminal": Environment({"TERM": "dumb", "COLUMNS": "1", "FORCE_COLOR": "1"}),
    "closed output": Environment(prepare=_closed(1)),
    "closed error": Environment(prepare=_closed(2)),
    "all closed": Environment(prepare=_closed(0, 1, 2)),
    "full output": Environment({"PYTHONUNBUFFERED": None}, prepare=_full(1), codes=(0, MENDABLE)),
    "full output, unbuffered": Environment({"PYTHONUNBUFFERED": "1"}, prepare=_full(1), codes=(0, MENDABLE)),
    "full error": Environment(prepare=_full(2)),
    "no reader": Environment(no_reader=True, codes=(0, NO_READER)),
    "full disk": Environment(prepare=_little_room(0), codes=(0, MENDABLE)),
    "disk full within": Environment(prepare=_little_room(5000), codes=(0, MENDABLE)),
    "read-only folder": Environment(out="/proc", codes=(0, MENDABLE)),
    "no home": Environment(_NO_HOME),
    "home not writable": Environment({**_NO_HOME, "HOME": "/proc/none"}),
    "deleted folder": Environment(prepare=_deleted_folder),
}

_PYTHON = (sys.executable, "-m")
_PLINTH = (sys.executable, "-c", "from plinth.cli import main; main()")
#: Commands by name; {out} is a folder, {files} one with what they read.
COMMANDS: dict[str, tuple[str, ...]] = {
    "list": (*_PLINTH, "list"),
    "schema": (*_PLINTH, "schema", "plan"),
    "help": (*_PLINTH, "bench", "--help"),
    "mistake": (*_PLINTH, "plan", "n\u00f6pe\u2713"),
    "plan": (*_PLINTH, "plan", "digits-mlp", "--array", "ring-4", "--out", "{out}/plan.yaml", "--picture",
             "{out}/plan.png"),
    "plan, shown": (*_PLINTH, "plan", "digits-mlp", "--array", "ring-2", "--planner", "data"),
    "plan --json": (*_PLINTH, "plan", "digits-mlp", "--array", "ring-2", "--json"),
    "simulate": (*_PLINTH, "simulate", "digits-mlp", "--array", "ring-2", "--trace", "{out}/trace.json", "--picture",
                 "{out}/step.png"),
    "train": (*_PLINTH, "train", "--device", "golden", "--dies", "2", "--data", "{files}/few.npz", "--batch", "16",
              "--epochs", "1", "--save", "{out}/w.npz", "--out", "{out}"),
    "eval": (*_PLINTH, "eval", "{files}/w.npz", "--data", "{files}/few.npz"),
    "convert": (*_PLINTH, "convert", "{files}/w.npz", "{out}/v.npz", "--network", "digits-mlp"),
    "reproduce": (*_PLINTH, "reproduce", "hypar", "--figure", "8", "--out", "{out}"),
    "doctor": (*_PLINTH, "doctor"),
    "verilog": (*_PLINTH, "verilog", "ndp-tiny", "--out", "{out}/die.v"),
    "header": (*_PLINTH, "header", "ndp-tiny", "--out", "{out}/die.h"),
    "registers": (*_PYTHON, "plinth_hw.isa", "--rdl", "ndp-tiny", "{out}/die.rdl"),
    "pages": (*_PYTHON, "plinth_hw.pages", "--check"),
    "pins": (*_PYTHON, "plinth_hw.board", "ulx3s-85f", "--pins", "{out}/pins.lpf"),
    "figures": (*_PYTHON, "plinth.report.figures", "{files}/no.md", "{files}/no.json", "{files}/no.json"),
}
#: Commands that end with 2 wherever they run.
WRONG = ("mistake", "figures")


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote to its two streams."""

    code: int
    out: str
    err: str


def make_files(folder: Path) -> None:
    """What commands read: some samples, and a checkpoint."""
    from plinth.network.file import load_network
    from plinth.network.parameters import initial_parameters
    from plinth.train import checkpoint

    generator = np.random.default_rng(0)
    np.savez(folder / "few.npz", x=generator.random((40, 64), dtype=np.float32), y=np.arange(40) % 10)
    network = load_network("digits-mlp")
    checkpoint.save(folder / "w.npz", network, checkpoint.Checkpoint(initial_parameters(network, 0), 1, 0))


def command(name: str, out: str, files: Path) -> list[str]:
    """A command's words."""
    return [word.replace("{out}", out).replace("{files}", str(files)) for word in COMMANDS[name]]


def _variables(environment: Environment, build: Path) -> dict[str, str]:
    variables = {**os.environ, "PLINTH_BUILD": str(build), **environment.variables}
    return {name: value for name, value in variables.items() if value is not None}


def ended(words: Sequence[str], environment: Environment, build: Path) -> Ended:
    """Run a command in an environment."""
    options: dict[str, Any] = {"stderr": subprocess.PIPE, "env": _variables(environment, build),
                               "preexec_fn": environment.prepare}
    if environment.no_reader:
        reads, writes = os.pipe()
        os.close(reads)
        run = subprocess.run(words, stdout=writes, timeout=PATIENCE, **options)
        os.close(writes)
    else:
        run = subprocess.run(words, stdout=subprocess.PIPE, timeout=PATIENCE, **options)
    return Ended(run.returncode, (run.stdout or b"").decode(errors="replace"), run.stderr.decode(errors="replace"))


def killed(words: Sequence[str], number: signal.Signals, after: float, build: Path) -> Ended:
    """Run a command and send it a signal after so many seconds, or when it has ended."""
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=_variables(Environment(), build))
    time.sleep(after)
    child.send_signal(number)
    out, err = child.communicate(timeout=PATIENCE)
    return Ended(child.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def complaints(result: Ended, codes: Sequence[int]) -> list[str]:
    """What is wrong with how a command ended."""
    problems = [f"{word!r} in {stream}" for stream, text in (("output", result.out), ("error", result.err))
                for word in ("Traceback", "Exception ignored", "Errno") if word in text]
    if result.code not in codes:
        problems.append(f"exit code {result.code}, not one of {codes}")
    lines = result.err.splitlines()
    if result.code in (MENDABLE, INTERRUPTED) and lines:
        word = "error: " if result.code == MENDABLE else "interrupted"
        if word not in lines[-1] or sum(word in line for line in lines) > 1:
            problems.append("no line of its own on standard error")
    return problems


def broken_files(folder: Path) -> list[str]:
    """Files of a folder that are left over or not whole."""
    return [path.name for path in sorted(folder.rglob("*")) if path.is_file() and not _is_whole(path)]


def _is_whole(path: Path) -> bool:
    content = path.read_bytes()
    try:
        if path.suffix == ".json":
            json.loads(content)
        elif path.suffix == ".yaml":
            parse_yaml(content.decode(), path.name)
        elif path.suffix == ".npz":
            with np.load(io.BytesIO(content)) as file:
                return all(file[name].size for name in file.files)
        else:
            return content.endswith(_ENDS[path.suffix])
    except Exception:
        return False
    return True
