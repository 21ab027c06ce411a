"""Kinds of work and of operations: who interprets them has a table with an entry for each, and nobody asks for a kind
elsewhere."""

import ast
import builtins
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any, get_args

import pytest

import plinth
import plinth.step
from plinth.lower.training import LOWERS
from plinth.predict.host import WORK
from plinth.predict.work import COSTS
from plinth.report.step import SAYS
from plinth.runtime.crossings import MOVES
from plinth.runtime.kernels import KERNELS
from plinth.runtime.numpy_step import PARTS, STAGES
from plinth.simulate.costs import PAPER_COSTS
from plinth.simulate.tasks import DOES
from plinth.simulate.workload import MADE
from plinth.step import between, kernel_sums, operations, row_moves, tile_operations
from plinth.step.step import Step
from plinth.step.tasks import Item, Kind, Sent, SentKind, Work

KINDS = get_args(Work)
SOURCES = Path(plinth.__file__).parent


@pytest.mark.parametrize("table", [COSTS, DOES, LOWERS, SAYS, WORK],
                         ids=["COSTS", "DOES", "LOWERS", "SAYS", "WORK"])
def test_every_kind_is_in_every_table(table: dict[type, Any]) -> None:
    assert set(table) == set(KINDS)


def test_tables_that_leave_out_kinds_have_no_others() -> None:
    """HyPar's machine has no cost of most kinds, and copies between dies take what their words do."""
    assert set(PAPER_COSTS) < set(KINDS)
    assert set(MADE) < set(get_args(Sent)) < set(KINDS)


def _telling(*methods: str) -> set[type]:
    """Classes of the step that tell tasks of a die by one of some methods."""
    classes = set()
    for info in pkgutil.walk_packages(plinth.step.__path__, "plinth.step."):
        module = importlib.import_module(info.name)
        classes |= {kind for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ == info.name
                    and any(callable(getattr(kind, method, None)) for method in methods)}
    return classes - {Step}


def _operations() -> set[type]:
    """Classes of operations, whose objects tell tasks of a die."""
    return {kind for kind in _telling("tasks") if not inspect.isabstract(kind) and not getattr(
        kind, "_is_protocol", False)}


#: What nobody asks whether something is of it: kinds of work, of operations, and of what an operation has for a die.
NAMES = {kind.__name__ for kind in (*KINDS, *get_args(Item), *_telling("tasks", "strip_tasks"))} | {
    "Sent", "Work", "Item"}
#: Names of what may be of any kind.
ANY = {"item", "operation", "work"}


def test_numpy_has_a_kernel_of_every_operation() -> None:
    """But of what it takes apart, of rings, which have passes of their own, of rows of tables, which have messages of
    their own, and of operands of 16 bits, which it refuses."""
    apart = {operations.Chain, tile_operations.InStrips, between.Reduce, kernel_sums.KernelSums, row_moves.RowPull,
             row_moves.RowPush}
    assert _operations() - set(KERNELS) - set(MOVES) == apart
    assert _operations() - set(STAGES) - set(PARTS) == {kernel_sums.KernelSums}


def test_kinds_say_how_many_descriptors_they_take() -> None:
    assert all(issubclass(kind, Kind) for kind in KINDS)


def test_receivers_are_said_once() -> None:
    assert {kind.receivers for kind in get_args(Sent)} == {SentKind.receivers}


def asked(source: str) -> list[tuple[int, str]]:
    """Lines of a module that ask whether something is of a kind of work or of operations, and the kind; or whether what
    may be of any is of kinds that have a name, and its own name."""
    questions = []
    for node in ast.walk(ast.parse(source)):
        inside: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in (
                "isinstance", "issubclass"):
            inside = [node.args[1]]
            what, kinds = node.args
            if isinstance(what, ast.Name) and what.id in ANY and isinstance(kinds, ast.Name) and (
                    kinds.id.isupper() or (kinds.id.islower() and not hasattr(builtins, kinds.id))):
                questions.append((node.lineno, what.id))
        elif isinstance(node, ast.Compare) and any(isinstance(operand, ast.Call) and isinstance(operand.func, ast.Name)
                                                   and operand.func.id == "type"
                                                   for operand in (node.left, *node.comparators)):
            inside = [node]
        elif isinstance(node, ast.MatchClass):
            inside = [node.cls]
        for part in (child for top in inside for child in ast.walk(top)):
            name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
            if name in NAMES:
                questions.append((node.lineno, name))
    return questions


def test_nobody_asks_for_a_kind() -> None:
    """But who selects what is of some kinds: operations of a step, tasks and arrivals of an operation."""
    questions = {str(path.relative_to(SOURCES)): [name for _, name in lines] for path in sorted(SOURCES.rglob("*.py"))
                 if (lines := asked(path.read_text()))}
    assert questions == {"step/step.py": ["operation"], "step/tasks.py": ["Task", "Arrivals"]}


@pytest.mark.parametrize("source", [
    "isinstance(work, TileCopy)", "isinstance(work, (int, tasks.Encode))", "isinstance(work, RowsByNumber | Signal)",
    "type(work) is Vector", "x = [one for one in all if type(one) in (Tile, Decode)]",
    "match work:\n    case Predict():\n        pass", "isinstance(work, Sent)", "isinstance(each, between.Exchange)",
    "isinstance(operation, UPDATES)", "isinstance(member, LastStrip)", "isinstance(each, Arrivals)"])
def test_asking_is_found(source: str) -> None:
    assert asked(source)


def test_what_is_no_question_is_not_found() -> None:
    assert not asked("made = TileCopy(source, target)\nisinstance(place, Tiles)\nTABLE[type(work)](work)\n"
                     "type(work) in MADE")
