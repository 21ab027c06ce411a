"""Imports run down only, and start-up loads what it needs.

A room is a package, or a module of its own, of one of the three import roots. ``MAY`` says which rooms each of them may
import, anywhere in its text; imports for the type checker alone are free.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("hw/plinth_hw", "sim/plinth_sim", "sw/plinth")

ISA, TERMINAL = "plinth_hw.isa", "plinth_hw.terminal"
#: How the package is installed, and where results are kept; of no block of the hardware.
INSTALLATION, CACHE = "plinth_hw.installation", "plinth_hw.cache"
SHAPES, LIB = "plinth_hw.shapes", "plinth_hw.lib"
_HARDWARE = {ISA, SHAPES, "plinth_hw.emit", LIB, "plinth_hw.arith", "plinth_hw.memory", "plinth_hw.control"}
_BASE = {TERMINAL, "plinth.errors", "plinth.limits", "plinth.names", "plinth.output", "plinth.units",
         "plinth.buffers", "plinth.byte_cache"}
#: What is said of networks, arrays and rules, and read from files.
_GIVEN = {"plinth.files", "plinth.network", "plinth.array", "plinth.update"}
_STEP = {*_BASE, *_GIVEN, ISA, "plinth.partition", "plinth.machine", "plinth.sharding", "plinth.step"}
_PREDICTED = {*_STEP, "plinth.predict"}
_PLANS = {*_PREDICTED, "plinth.plan"}
_LOWERED = {*_PLANS, "plinth.driver", "plinth.lower"}
_SIMULATED = {*_LOWERED, "plinth_sim.array", "plinth.simulate"}
_RUN = {*_LOWERED, "plinth.runtime", "plinth.train"}
_DEEP3 = {"plinth.profile", "plinth.projection", "plinth.local"}
#: What each room may import; itself goes without saying.
MAY: dict[str, set[str]] = {
    TERMINAL: set(),
    # What its command prints with.
    ISA: {TERMINAL},
    SHAPES: {ISA},
    "plinth_hw.pin_paths": set(),
    "plinth_hw.emit": {"plinth_hw.pin_paths", "plinth_hw.tools"},
    LIB: set(),
    "plinth_hw.arith": {ISA, SHAPES, LIB},
    "plinth_hw.memory": {ISA, SHAPES, "plinth_hw.emit", LIB, "plinth_hw.arith"},
    "plinth_hw.control": {ISA, SHAPES, LIB, "plinth_hw.memory"},
    "plinth_hw.comm": _HARDWARE,
    "plinth_hw.matrix": _HARDWARE,
    "plinth_hw.vector": _HARDWARE,
    "plinth_hw.optimiser": _HARDWARE,
    "plinth_hw.die": {*_HARDWARE, "plinth_hw.comm", "plinth_hw.matrix", "plinth_hw.vector", "plinth_hw.optimiser"},
    "plinth_hw.host": {*_HARDWARE, "plinth_hw.die"},
    INSTALLATION: set(),
    CACHE: set(),
    "plinth_hw.tools": {INSTALLATION, TERMINAL},
    "plinth_hw.fpga": {*_HARDWARE, "plinth_hw.comm", "plinth_hw.matrix", "plinth_hw.vector", "plinth_hw.optimiser",
                       "plinth_hw.die", "plinth_hw.host", "plinth_hw.tools", INSTALLATION, TERMINAL},
    "plinth_hw.integrate": {ISA, INSTALLATION, "plinth_hw.emit", "plinth_hw.control", "plinth_hw.die",
                            "plinth_hw.host"},
    "plinth_hw.board": {ISA, TERMINAL, "plinth_hw.emit", "plinth_hw.tools", INSTALLATION},
    "plinth_hw.pages": {*_HARDWARE, TERMINAL, "plinth_hw.comm", "plinth_hw.matrix", INSTALLATION},
    "plinth_sim.golden": {ISA},
    "plinth_sim.array": set(),
    "plinth_sim.rtl": {ISA, INSTALLATION, CACHE, TERMINAL, "plinth_hw", "plinth_hw.die", "plinth_hw.emit",
                       "plinth_hw.host"},
    "plinth.errors": set(),
    "plinth.output": {TERMINAL, "plinth.errors"},
    "plinth.files": {*_BASE},
    "plinth.network": {*_BASE, ISA, "plinth.files"},
    "plinth.array": {*_BASE, ISA, "plinth.files"},
    "plinth.update": {*_BASE, ISA, "plinth.files"},
    "plinth.limits": set(),
    "plinth.names": set(),
    "plinth.units": set(),
    "plinth.host": {"plinth.errors", INSTALLATION},
    "plinth.buffers": set(),
    "plinth.byte_cache": set(),
    # A program that it compiles is kept.
    "plinth.partition": {*_BASE, *_GIVEN, ISA, "plinth.machine", INSTALLATION, CACHE},
    "plinth.machine": {*_BASE, ISA, "plinth.network", "plinth.array"},
    "plinth.sharding": {*_BASE, *_GIVEN, "plinth.partition"},
    "plinth.step": _STEP,
    "plinth.predict": _STEP,
    "plinth.plan": _PREDICTED,
    "plinth.lower": {*_PLANS, "plinth.driver"},
    "plinth.driver": {*_BASE, *_GIVEN, ISA},
    "plinth.runtime": {*_LOWERED, INSTALLATION, "plinth.host", "plinth_hw.board", "plinth_hw.integrate",
                       "plinth_hw.tools", "plinth_sim.golden", "plinth_sim.rtl"},
    "plinth.simulate": {*_PLANS, "plinth_sim.array"},
    "plinth.report": {*_SIMULATED},
    "plinth.train": {*_LOWERED, "plinth.runtime", "plinth_sim.golden", INSTALLATION},
    # Rows of what users call go through it.
    "plinth.bench": {*_RUN, *_DEEP3, "plinth.host", "plinth.api", "plinth.workers", *_SIMULATED, "plinth.reproduce",
                     INSTALLATION, CACHE},
    "plinth.reproduce": {*_SIMULATED, *_DEEP3, "plinth.report", INSTALLATION, CACHE, "plinth.runtime", "plinth.train",
                         "plinth_sim.golden"},
    "plinth.doctor": {*_BASE, "plinth.host", INSTALLATION, "plinth_sim.rtl", "plinth.train"},
    "plinth.defaults": set(),
    # Loops of users over networks, or over modules of PyTorch.
    "plinth.workers": {*_RUN},
    # Platforms, data and local networks, after Deep3: each room on those above it.
    "plinth.profile": {*_RUN, "plinth.host", "plinth.defaults", INSTALLATION},
    "plinth.projection": {*_RUN},
    "plinth.local": {*_RUN, "plinth.profile", "plinth.projection", INSTALLATION},
    "plinth.api": {*_RUN, *_SIMULATED, "plinth.workers", *_DEEP3, "plinth.defaults", "plinth.report", INSTALLATION},
    "plinth.cli": {INSTALLATION, *_RUN, *_SIMULATED, *_DEEP3, "plinth.defaults", "plinth.api", "plinth.report",
                   "plinth.bench", "plinth.reproduce", "plinth.doctor"},
}
#: Imports that break the rule, (module, room), and are to go.
KNOWN: set[tuple[str, str]] = set()


def _room(module: str) -> str | None:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] in ("plinth", "plinth_sim", "plinth_hw") else None


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names of modules that a text imports, also within functions, but not for the type checker alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None and not node.level, "imports are absolute"
            whole = node.module in ("plinth", "plinth_sim", "plinth_hw")
            yield from ([f"{node.module}.{alias.name}" for alias in node.names] if whole else [node.module])
        else:
            yield from _imported(node)


def _modules() -> Iterator[tuple[str, list[str]]]:
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            parts = path.relative_to(ROOT / source).with_suffix("").parts
            name = ".".join((Path(source).name, *(part for part in parts if part != "__init__")))
            yield name, list(_imported(ast.parse(path.read_text(encoding="utf-8"))))


def _crossings() -> Iterator[tuple[str, str, str]]:
    """(module, its room, room that it imports) where the two rooms differ."""
    for name, imported in _modules():
        own = _room(name)
        for other in imported:
            room = _room(other)
            if own is not None and room is not None and room != own:
                yield name, own, room


def test_imports_run_down_only() -> None:
    up = {(name, room) for name, own, room in _crossings() if own in MAY and room not in MAY[own]}
    assert up <= KNOWN, sorted(up - KNOWN)


def test_every_room_is_known() -> None:
    rooms = {room for name, _ in _modules() if (room := _room(name))}
    assert rooms - set(MAY) <= {"plinth", "plinth_sim", "plinth_hw"}, sorted(rooms - set(MAY))


def test_hardware_imports_no_software() -> None:
    imports = {(name, other) for name, imported in _modules() if name.startswith("plinth_hw")
               for other in imported if other.split(".")[0] in ("plinth", "plinth_sim")}
    assert not imports


def test_no_circle_of_rooms() -> None:
    """Of the whole graph but what is known: a room from which no way leads on is taken away until none is left."""
    after: dict[str, set[str]] = {}
    for name, own, room in _crossings():
        if (name, room) not in KNOWN:
            after.setdefault(own, set()).add(room)
    while ends := [room for room, others in after.items() if not others & set(after)]:
        for room in ends:
            del after[room]
    assert not after, f"in a circle, or above one: {after}"


def test_the_contract_needs_no_amaranth() -> None:
    imports = {(name, other) for name, imported in _modules() if name.startswith((f"{ISA}.", "plinth.", "plinth_sim.g"))
               for other in imported if other.split(".")[0] == "amaranth"}
    assert not imports


#: Packages that take long to load.
HEAVY = ("amaranth", "cocotb", "matplotlib", "numpy", "onnx", "rich", "scipy", "sklearn", "yaml", "plinth_sim",
         "plinth.plan")


def _loaded(code: str, packages: tuple[str, ...] = HEAVY) -> set[str]:
    """Which of some packages, of the heavy ones by default, a fresh interpreter has loaded after ``code``."""
    script = f"""
import sys
try:
    {code}
except SystemExit as end:
    assert not end.code, end.code
print("loaded:", *(name for name in {packages!r} if name in sys.modules), file=sys.stderr)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stderr.rpartition("loaded:")[2].split())


def _command(*arguments: str) -> set[str]:
    return _loaded(f"from plinth.cli import main; main({list(arguments)!r})")


def test_help_loads_nothing_heavy() -> None:
    assert _loaded("import plinth.cli") == set()
    assert _command("--help") == set()
    assert _command("plan", "--help") == set()


def test_the_library_loads_what_it_needs() -> None:
    """Importing it nothing at all, planning neither simulators nor what draws and prints."""
    assert _loaded("import plinth; dir(plinth)") == set()
    assert _loaded("import plinth; plinth.array()") & {"matplotlib", "rich", "plinth_sim"} == set()
    assert _loaded("import plinth; plinth.plan().to_dict()") <= {"numpy", "yaml", "plinth.plan"}
    assert _loaded("import plinth; plinth.simulate().to_dict()") <= {"numpy", "yaml", "plinth.plan", "plinth_sim"}


@pytest.mark.parametrize("name", ["train", "TrainingResult", "plan", "PlanResult", "load_plan"])
def test_names_of_the_library_load_neither_planners_nor_dies(name: str) -> None:
    """A name is looked up, documented and signed before anything is planned or trained."""
    later = ("plinth.runtime", "plinth.lower", "plinth.plan.planning", "plinth.predict", "plinth.step.build",
             "plinth.train.job", "plinth_sim", "rich", "matplotlib")
    code = f"import inspect, plinth; found = plinth.{name}; inspect.signature(found); assert found.__doc__"
    assert _loaded(code, later) == set()
    assert _loaded("import plinth; plinth.plan()", later) >= {"plinth.plan.planning", "plinth.predict"}


def test_commands_load_what_they_need() -> None:
    assert _command("list") & {"amaranth", "cocotb", "matplotlib", "onnx", "sklearn"} == set()
    assert _command("plan", "digits-mlp", "--array", "ring-4", "--json") <= {"numpy", "rich", "yaml", "plinth.plan"}


@pytest.mark.parametrize("module", ["plinth.driver.driver", "plinth.plan.planning", "plinth.lower.training",
                                    "plinth.simulate.step", "plinth_sim.golden.device", "plinth.runtime.arrays"])
def test_software_loads_no_amaranth(module: str) -> None:
    assert _loaded(f"import {module}") & {"amaranth", "cocotb", "matplotlib", "onnx", "sklearn"} == set()
