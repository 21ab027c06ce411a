"""A step for eyes: its operations, the tasks of a die, and where two steps differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rich.markup import escape

from plinth.buffers import Buffer
from plinth.errors import UserError
from plinth.files.reports import report
from plinth.plan.plan import Plan
from plinth.predict.tasks import product_of
from plinth.simulate.costs import multiply_adds, useful_multiply_adds
from plinth.simulate.phases import purpose
from plinth.step.build import step_of
from plinth.step.digest import digest
from plinth.step.operations import Operation
from plinth.step.step import Step
from plinth.step.tasks import (
    Arrivals,
    Decode,
    Encode,
    GroupRow,
    Item,
    LineTransform,
    LookupCopy,
    Multiplication,
    Optimisation,
    Predict,
    Reduction,
    RowsByNumber,
    Sent,
    Signal,
    Task,
    TileCopy,
    TransformTiles,
    Vector,
    Work,
    tasks_of,
)

if TYPE_CHECKING:
    from rich.console import Console

#: Lines of a table of differences.
MOST_DIFFERENCES = 40


def step_of_plan(plan: Plan) -> Step:
    """The step that a plan's dies do.

    Raises
    ------
    UserError
        If the plan does not say what its array is, or its dies cannot do the step.
    """
    if plan.hardware is None:
        raise UserError(f"the plan does not say what array {plan.array!r} is, and so nothing of its dies; make it "
                        "again with `plinth plan`")
    return step_of(plan.sharding, plan.hardware.die_parameters())


def check_die(plan: Plan, path: Path, die: int | None) -> None:
    """Refuse a die that the plan of a file does not have, before its step is built.

    Raises
    ------
    UserError
        With the dies that there are.
    """
    if die is not None and not 0 <= die < plan.dies:
        raise UserError(f"die={die} is none of the dies of {path}; give one from 0 to {plan.dies - 1}")


# What a task does, in words.


def _sides(buffer: Buffer) -> str:
    return f"{buffer.rows}x{buffer.columns}"


def _to(work: Sent) -> str:
    if work.members is not None:
        return f" to {work.members.count} dies from die {work.members.first} on"
    return "" if work.die is None else f" to die {work.die}"


def _product(work: Multiplication) -> str:
    product = product_of(work)
    if product.window is None:
        return f"{work.direction}: {product.samples} rows, {product.inputs} inputs, {product.outputs} outputs"
    window = product.window
    return (f"{work.direction}: {product.samples} images of {product.inputs}x{window.size[0]}x{window.size[1]}, kernel "
            f"{window.kernel[0]}x{window.kernel[1]}, {product.outputs} channels")


def _vector(work: Vector) -> str:
    names = Counter(instruction.op.name.lower() for instruction in work.program.instructions)
    done = ", ".join(name if count == 1 else f"{count} {name}" for name, count in names.items())
    return f"{done or 'copy'} on {work.rows}x{work.columns}"


def _tile(work: TileCopy) -> str:
    sides = f"{work.planes}x{work.shape[0]}x{work.shape[1]}"
    numbered = "" if work.index is None else f", rows {'written' if work.index.scatter else 'read'} by number"
    return f"{'add' if work.added else 'copy'} of {sides}{numbered}{_to(work)}"


def _transform(work: TransformTiles) -> str:
    what = "tiles of maps" if work.scatter else "maps of tiles"
    return f"{what}, {work.maps.images} images{', added' if work.added else ''}{_to(work)}"


def _lines(work: LineTransform) -> str:
    return f"lines of {work.columns} columns of tiles{_to(work)}"


def _encode(work: Encode) -> str:
    return f"strings of {work.runs.rows} runs of {work.runs.columns}{_to(work)}"


def _decode(work: Decode) -> str:
    return f"{work.runs.rows} runs of {work.runs.columns} from strings"


def _predict(work: Predict) -> str:
    return f"masks of {work.masks.rows} elements that living neurons need"


def _rows(work: RowsByNumber) -> str:
    return f"{work.rows.rows} rows of {work.rows.columns} {'added to' if work.added else 'from'} {work.own_rows}"


def _lookup(work: LookupCopy) -> str:
    what = "added sums" if work.added else "sums of errors" if work.index is None else "copy"
    return f"{what} of about {work.rows} of {work.typical.source.columns} that die {work.worker} looks up{_to(work)}"


def _reduction(work: Reduction) -> str:
    return f"{work.phase.value} of {work.target.columns} words over {len(work.ring)} dies"


def _group_row(work: GroupRow) -> str:
    return f"row {work.row} of the group table to a ring of {len(work.ring)} dies"


def _optimisation(work: Optimisation) -> str:
    return f"update of {_sides(work.weights)} weights"


def _signal(work: Signal) -> str:
    return f"signal to die {work.die}"


#: For each kind of work what it does, in words.
SAYS: dict[type, Callable[[Any], str]] = {
    Multiplication: _product, Vector: _vector, TileCopy: _tile, TransformTiles: _transform, LineTransform: _lines,
    Encode: _encode, Decode: _decode, Predict: _predict, RowsByNumber: _rows, LookupCopy: _lookup,
    Reduction: _reduction,
    GroupRow: _group_row, Optimisation: _optimisation, Signal: _signal}
assert set(SAYS) == set(get_args(Work))


def _place(buffer: Buffer) -> dict[str, Any]:
    return {"place": buffer.place, "first_word": buffer.address, "end_word": buffer.end}


def _words(item: Item) -> dict[str, Any]:
    return {"reads": list(map(_place, item.reads)), "writes": list(map(_place, item.writes))}


def _task(task: Task) -> dict[str, Any]:
    """A task as JSON has it: its name and engine, what it does, words it reads and writes, multiply-adds."""
    return {"task": task.name, "engine": task.engine.name.lower(), "does": SAYS[type(task.work)](task.work),
            **_words(task), "macs": int(multiply_adds(task)) if task.share is not None else 0}


def _arrivals(arrivals: Arrivals) -> dict[str, Any]:
    """What comes from other dies as JSON has it."""
    return {"task": f"arrivals[{arrivals.exchange}]", "engine": None, "does": f"{arrivals.count} tiles or signals come",
            **_words(arrivals), "macs": 0}


ITEMS: dict[type, Callable[[Any], dict[str, Any]]] = {Task: _task, Arrivals: _arrivals}


# Operations.


def _kind(operation: Operation) -> str:
    """The kind of an operation in words: ``element products``."""
    name = type(operation).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _range(values: Sequence[int]) -> list[int]:
    return [min(values), max(values)]


def _operations(step: Step) -> Iterator[dict[str, Any]]:
    """Each operation with what a die has of it, at least and at most."""
    dies = [int(some[0]) for some in step.classes()]
    for number, operation in enumerate(step.operations):
        items = [list(operation.tasks(die)) for die in dies]
        tasks = [list(tasks_of(some)) for some in items]
        engines = {task.engine.name.lower(): None for some in tasks for task in some}
        products = [[task for task in some if task.share is not None] for some in tasks]
        what = purpose(step, number, operation)
        yield {"operation": operation.name, "layer": what.layer, "direction": what.direction, "kind": _kind(operation),
               "engine_names": list(engines), "tasks_range": _range([len(some) for some in tasks]),
               "macs_range": _range([sum(int(multiply_adds(task)) for task in some) for some in products]),
               "useful_macs_range": _range([sum(int(useful_multiply_adds(task)) for task in some)
                                            for some in products])}


def step_report(plan: Plan, step: Step, die: int | None = None) -> dict[str, Any]:
    """What ``plinth step --json`` prints, as :mod:`plinth.files.reports` says.

    Parameters
    ----------
    die : int or None
        The tasks of this die of the plan; None: operations.
    """
    summary = report("step", {
        "network": plan.network, "array": plan.array, "dies": step.dies, "word_bytes": step.parameters.word_bytes,
        "batch": step.batch, "planner": plan.planner, "update": step.rule.title, "preset": step.parameters.name,
        "digest": step.digest()})
    if die is None:
        return summary | {"place_bytes": step.place_bytes(), "operations": list(_operations(step))}
    return summary | {"die": die, "program": [ITEMS[type(item)](item) for item in step.tasks(die)]}


def _between(values: Sequence[int]) -> str:
    least, most = values
    return f"{least:,}" if least == most else f"{least:,}-{most:,}"


def _looks(task: dict[str, Any]) -> tuple[str, ...]:
    """What a table shows of a task, behind what neighbours of one operation have in common of their names."""
    places = (", ".join(dict.fromkeys(operand["place"] for operand in task[key])) for key in ("reads", "writes"))
    return task["task"].partition("[")[0], task["engine"] or "-", task["does"], *places


def _macs(operation: dict[str, Any]) -> str:
    """Multiply-adds, and where zeros fill blocks of a sparse layer up how many are of its entries."""
    issued, useful = operation["macs_range"], operation["useful_macs_range"]
    return _between(issued) + (f", useful {_between(useful)}" if useful != issued else "")


#: Columns of :func:`operation_rows`.
OPERATION = ("operation", "kind", "engine", "tasks", "multiply-adds")


def operation_rows(summary: dict[str, Any]) -> list[list[str]]:
    """Table rows: the operations of a step."""
    return [[operation["operation"], operation["kind"], ", ".join(operation["engine_names"]) or "-",
             _between(operation["tasks_range"]), _macs(operation)] for operation in summary["operations"]]


def show_step(console: Console, summary: dict[str, Any]) -> None:
    """Print a step's operations, or a die's tasks."""
    from plinth_hw.terminal.table import new_table, print_table

    console.print(f"[bold]{summary['network']}[/bold] on {summary['array']} ({summary['dies']} dies of "
                  f"{summary['preset']}), batch {summary['batch']}, planner {summary['planner']}, update "
                  f"{summary['update']}", highlight=False)
    if "program" in summary:
        table = new_table("task", "engine", "does", "reads", "writes", text=("task", "engine", "does", "reads",
                                                                           "writes"),
                          title=f"die {summary['die']}, in the order of its program")
        for (_, *cells), alike in groupby(summary["program"], _looks):
            first, *others = [task["task"] for task in alike]
            name = f"{first} .. {others[-1]}, {len(others) + 1:,} tasks" if others else first
            table.add_row(*(escape(cell) for cell in (name, *cells)))
    else:
        table = new_table(*OPERATION, text=("operation", "kind", "engine"),
                          title="operations, in the order of every die's program; tasks and multiply-adds of a die")
        for name, *cells in operation_rows(summary):
            table.add_row(escape(name), *cells)
    print_table(console, table)
    console.print(f"digest {summary['digest']}", style="dim", highlight=False, soft_wrap=True)


# Two steps.


def _parts(step: Step, die: int | None) -> dict[str, dict[str, str]]:
    """What may differ of a step, each by its name, as digests."""
    def numbered(names: Sequence[str], digests: Sequence[str]) -> dict[str, str]:
        seen: Counter[str] = Counter()
        by_name = {}
        for name, part_digest in zip(names, digests, strict=True):
            seen[name] += 1
            by_name[name if seen[name] == 1 else f"{name} ({seen[name]})"] = part_digest
        return by_name

    sharding = step.sharding
    parts = {"setting": {name: str(getattr(sharding, name)) for name in ("batch", "factors", "rule")} | {
        "preset": digest(step.parameters)}}
    parts["splits"] = {node.name: digest(vector, sharding.lists[number] if sharding.lists else None)
                       for number, (node, vector) in enumerate(zip(sharding.graph.nodes, sharding.splits, strict=True))}
    if die is None:
        parts["place"] = {name: str(words) for name, words in step.place_words().items()}
        parts["operation"] = numbered([operation.name for operation in step.operations],
                                      [digest(operation) for operation in step.operations])
    else:
        tasks = list(step.tasks(die))
        parts["task"] = numbered([ITEMS[type(task)](task)["task"] for task in tasks], [digest(task) for task in tasks])
    return parts


def differences(left: tuple[Plan, Step], right: tuple[Plan, Step], die: int | None = None) -> list[dict[str, str]]:
    """List where two steps of a network differ: what it is, its name, and how: ``first``, ``second`` (only there),
    ``differs``, or ``order``.

    Parameters
    ----------
    die : int or None
        Tasks of this die are compared, which both plans have; None: operations.

    Raises
    ------
    UserError
        If they are of two networks.
    """
    (first, step), (second, another) = left, right
    first.sharding.check_fits(second.sharding)
    rows = []
    parts, others = _parts(step, die), _parts(another, die)
    for kind, mine in parts.items():
        theirs = others[kind]
        for name in dict.fromkeys((*mine, *theirs)):
            if name not in theirs or name not in mine:
                rows.append({"what": kind, "name": name, "how": "first" if name in mine else "second"})
            elif mine[name] != theirs[name]:
                rows.append({"what": kind, "name": name, "how": "differs"})
        if mine.keys() == theirs.keys():
            rows += [{"what": kind, "name": name, "how": "order"} for name, there in zip_longest(mine, theirs)
                     if name != there][:1]
    return rows


def compared(left: tuple[Plan, Step], right: tuple[Plan, Step], die: int | None = None) -> dict[str, Any]:
    """What ``plinth step --against --json`` prints.

    Raises
    ------
    UserError
        As :func:`differences`.
    """
    rows = differences(left, right, die)
    digests = [step.digest() for _, step in (left, right)]
    return report("step-comparison", {"network": left[0].network, "digests": digests,
                                      "equal": digests[0] == digests[1], "differences": rows})


def show_compared(console: Console, comparison: dict[str, Any], names: tuple[str, str]) -> None:
    """Print where two steps differ."""
    if comparison["equal"]:
        console.print(f"one step: digest {comparison['digests'][0]}", highlight=False, soft_wrap=True)
        return
    if not comparison["differences"]:
        console.print("no differences in what was compared; other dies differ", highlight=False)
    how = {"first": f"only in {escape(names[0])}", "second": f"only in {escape(names[1])}", "differs": "differs",
           "order": "first of other order"}
    from plinth_hw.terminal.table import new_table, print_table

    table = new_table("what", "name", "how", text=("what", "name", "how"))
    for difference in comparison["differences"][:MOST_DIFFERENCES]:
        table.add_row(difference["what"], escape(difference["name"]), how[difference["how"]])
    print_table(console, table)
    others = len(comparison["differences"]) - MOST_DIFFERENCES
    if others > 0:
        console.print(f"and {others:,} others, with --json", highlight=False)
    for name, step_digest in zip(names, comparison["digests"], strict=True):
        console.print(f"digest {step_digest} {name}", style="dim", highlight=False, soft_wrap=True, markup=False)


