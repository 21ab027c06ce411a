"""A plan for eyes: a table as HyPar's Figure 5, layers across and levels down, and the same as a picture."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from plinth.files.reports import report
from plinth.partition.graph import PP, Node
from plinth.partition.lists import AXES
from plinth.partition.regions import Splits
from plinth.partition.stages import stage_digit
from plinth.plan.plan import Plan
from plinth.report.canvas import new_figure, png, write_png
from plinth.report.traffic import traffic_axes
from plinth.sharding import Server
from plinth.units import duration, largest, size

if TYPE_CHECKING:
    from rich.console import Console

    from plinth.plan.planning import Outcome, Planned

#: Splits: what they are called, their style in tables, their colour in pictures.
LOOKS = {"dp": ("data-parallel", "blue", "#3b75af"), "mp": ("model-parallel (input channels)", "yellow", "#ef8636"),
         "op": ("model-parallel (output channels)", "green", "#519e3e"),
         "ep": ("elements of Winograd tiles", "magenta", "#a53b80"), "pp": ("pipeline stage", "cyan", "#3a9aa0")}
#: Inches of what goes between dies, in pictures of sparse networks.
_TRAFFIC_HEIGHT = 2.8
#: Columns of :func:`total_rows`.
TOTALS = ("planner", "moved a step", "of data", "predicted step", "speed-up")


def _look(split: str) -> str:
    """By which of :data:`LOOKS` a split is shown: all stages by one."""
    return split if stage_digit(split) is None else PP


def _looks_of(splits: Splits) -> list[tuple[str, str]]:
    """What splits are called, and by which of :data:`LOOKS` they are shown."""
    used = {_look(split) for vector in splits for split in vector}
    return [(f"{look}0, {look}1, ..." if look == PP else look, look) for look in LOOKS if look in used]


def _micro_batches(plan: Plan) -> str:
    """In how many parts the batch goes, if these are several."""
    count = plan.sharding.micro_batches
    return f" in {count} micro-batches" if count > 1 else ""


def _number(value: float) -> int | float:
    """Whole numbers as integers."""
    return int(value) if value == int(value) else value


def saved(plan: Plan) -> dict[str, int]:
    """What blocks of Winograd layers save, as JSON says it, if they do."""
    return {"saved_words": plan.saved_words} if plan.saved_words else {}


def show_saved(console: Console, plan: Plan, word_bytes: int) -> None:
    """Print the words that blocks of Winograd layers save as a line."""
    if plan.saved_words:
        share = plan.saved_words / (plan.words + plan.saved_words)
        console.print(f"blocks of Winograd layers save {plan.saved_words:,} words a step "
                      f"({size(word_bytes * plan.saved_words)}), {share:.1%} of what its layers would move one by one",
                      highlight=False)


def plan_report(planned: Planned) -> dict[str, Any]:
    """What ``plinth plan --json`` prints, as :mod:`plinth.files.reports` says."""
    plan = planned.plan

    def costs(outcome: Outcome) -> dict[str, Any]:
        return {"predicted_injected_words": _number(outcome.injected_words),
                "predicted_seconds": outcome.predicted_seconds}

    step = planned.outcome.step
    return report("plan", {
        "network": plan.network, "planner": plan.planner, "model": plan.model, "array": plan.array,
        "dies": plan.dies, "levels": plan.levels, "factors": list(plan.factors), "batch": plan.batch,
        **({"micro_batches": plan.sharding.micro_batches} if plan.sharding.micro_batches > 1 else {}),
        "update": plan.rule.title, "word_bytes": planned.word_bytes,
        "layers": [{"layer": node.name, "kind": node.kind, "splits": list(plan.splits[number]),
                    "copies": {variable.name: sync.kind for variable, sync in zip(
                        node.variables, plan.sharding.syncs(number), strict=False)}, **_pieces(plan, number, node)}
                   for number, node in _shown(plan)],
        **({"touched_share": dict(plan.sharding.touched)} if plan.sharding.touched else {}),
        **({"alpha": alpha} if (alpha := _alpha(plan)) is not None else {}),
        **({"notes": list(planned.notes)} if planned.notes else {}),
        **costs(planned.outcome), **saved(plan), "predicted_cycles": step.cycles,
        "predicted_cycles_by_part": {"compute": step.compute, "transfers": step.transfers,
                                     "exposed_reductions": step.exposed, "reductions": step.reductions},
        "cycles_from": planned.cycles_from, "needed_memory_bytes": planned.needed_memory_bytes,
        "memory_bytes": planned.memory_bytes, "fits_memory": planned.fits_memory,
        **({"place_bytes": dict(planned.place_bytes)} if planned.place_bytes else {}),
        "baselines": {name: costs(outcome) for name, outcome in planned.baselines.items()},
    })


def _shown(plan: Plan) -> list[tuple[int, Node]]:
    """Nodes whose splits are shown, with their numbers: layers with weights, and junctions."""
    nodes = plan.graph.nodes
    return [(number, nodes[number]) for number in plan.graph.planned
            if nodes[number].weighted or nodes[number].junction]


def _pieces(plan: Plan, number: int, node: Node) -> dict[str, dict[str, int]]:
    """In how many pieces servers own variables of a layer, as JSON says it, if any do."""
    pieces = {variable.name: len(sync.owners) for variable, sync in zip(
        node.variables, plan.sharding.syncs(number), strict=False) if isinstance(sync, Server)}
    return {"pieces": pieces} if pieces else {}


def _alpha(plan: Plan) -> float | None:
    """The share of the model's elements that a die's samples touch, of a plan that says what they touch of tables."""
    return plan.sharding.alpha if plan.sharding.touched else None


def _kinds(plan: Plan, number: int) -> str:
    """How copies of a layer's variables are kept equal, each way once; of servers with the number of pieces."""
    return "+".join(dict.fromkeys(f"{sync.kind} x{len(sync.owners)}" if isinstance(sync, Server) else sync.kind
                                  for sync in plan.sharding.syncs(number)))


def touched_line(plan: Plan) -> str:
    """What a die's samples touch in a step, of each table and of the model, on one line; empty if nobody has said."""
    shares = ", ".join(f"{share:.2%} of the rows of {name}" for name, share in plan.sharding.touched)
    alpha = _alpha(plan)
    whole = "" if alpha is None else f"; {alpha:.2%} of the model's elements (alpha)"
    return f"samples of a die touch {shares}{whole}" if shares else ""


def copies_row(planned: Planned) -> list[str]:
    """Below :func:`split_rows`, how copies of each layer's variables are kept equal."""
    return ["copies", *(_kinds(planned.plan, number) for number, _ in _shown(planned.plan))]


def split_rows(planned: Planned) -> list[list[str]]:
    """A row a level, with its name and the split of each layer or junction with one; the first has their names."""
    plan, shown = planned.plan, _shown(planned.plan)
    return [["", *(node.name for _, node in shown)],
            *([f"H{level + 1}", *(plan.splits[number][level] for number, _ in shown)] for level in range(plan.levels))]


def total_rows(planned: Planned) -> list[list[str]]:
    """Table rows: what the plan and those that it is compared with cost, under :data:`TOTALS`."""
    plan, data = planned.plan, planned.baselines["data"]
    rows = {f"{plan.planner}{' by list' if plan.lists else ''}": planned.outcome, **planned.baselines}
    return [[name, size(planned.word_bytes * outcome.injected_words),
             f"{outcome.injected_words / data.injected_words if data.injected_words else 1.0:.3g}",
             duration(outcome.predicted_seconds), f"{data.predicted_seconds / outcome.predicted_seconds:.3g}"]
            for name, outcome in rows.items()]


def show_plan(console: Console, planned: Planned) -> None:
    """Print the splits, as many layers side by side as fit, and the totals."""
    from rich.table import Table
    from rich.text import Text

    from plinth_hw.terminal.table import new_table, print_table

    plan, graph = planned.plan, planned.plan.graph
    console.print(f"[bold]{plan.network}[/bold] on {plan.array} ({plan.dies} dies), batch {plan.batch}"
                  f"{_micro_batches(plan)}, planner {plan.planner}, {plan.model} model, update {plan.rule.title}",
                  highlight=False)
    if plan.levels:
        levels = ", ".join(f"H{level + 1} in {factor}" for level, factor in enumerate(plan.factors))
        console.print(f"levels are the factors of {plan.dies} dies: {levels}", style="dim", highlight=False)
    columns = [number for number, _ in _shown(plan)]
    room = 0
    blocks: list[list[int]] = []
    for number in columns:
        width = max(2, len(graph.nodes[number].name), len(_kinds(plan, number))) + 2
        if not blocks or room + width > console.width - 7:
            blocks.append([])
            room = 0
        blocks[-1].append(number)
        room += width
    for block in blocks if plan.levels else []:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), collapse_padding=True)
        table.add_column("")
        for number in block:
            table.add_column(graph.nodes[number].name, no_wrap=True, header_style="italic"
                             if graph.nodes[number].junction else "bold")
        for level in range(plan.levels):
            splits = [plan.splits[number][level] for number in block]
            table.add_row(f"H{level + 1}", *(Text(split, style=LOOKS[_look(split)][1]) for split in splits))
        table.add_row("copies", *(Text(_kinds(plan, number), style="dim") for number in block))
        tiled = [plan.arrangements.get(graph.nodes[number].name) for number in block]
        if any(tiled):
            for name, what in (("F", "transform"), ("g x c", "arranged")):
                table.add_row(name, *(Text(getattr(arrangement, what) if arrangement else "", style="dim")
                                      for arrangement in tiled))
        console.print(table)
        console.print()
    for number, node in enumerate(graph.nodes):
        lists = plan.lists[number] if plan.lists else None
        if lists is not None:
            told = [axis for axis in AXES if getattr(lists, axis) is not None]
            told += ["other owners"] if lists.owners is not None else []
            console.print(f"{node.name} by list: {', '.join(told)}", style="dim", highlight=False)
    console.print(", ".join(f"{name} {LOOKS[look][0]}" for name, look in _looks_of(plan.splits)), style="dim",
                  highlight=False)
    if touched := touched_line(plan):
        console.print(touched, style="dim", highlight=False)
    totals = new_table(*TOTALS, text=["planner"])
    for row in total_rows(planned):
        totals.add_row(*row)
    print_table(console, totals)
    show_saved(console, plan, planned.word_bytes)
    step, cycles = planned.outcome.step, planned.outcome.step.cycles
    console.print(f"the step: {step.compute / cycles:.1%} compute, {step.transfers / cycles:.1%} transfers between "
                  f"layers, {step.exposed / cycles:.1%} weight reductions that nothing hides", highlight=False)
    console.print(f"cycles from {planned.cycles_from}", style="dim", highlight=False)
    if not planned.fits_memory:
        console.print(f"[bold]warning:[/bold] the fullest die needs {size(planned.needed_memory_bytes)} of memory, a "
                      f"die of {plan.array} has {size(planned.memory_bytes)}: {largest(planned.place_bytes)}",
                      highlight=False, soft_wrap=True)


def draw_plan(path: Path, planned: Planned) -> None:
    """Write the plan as a PNG in one step: layers across, levels down, a colour a split; of sparse networks with the
    words that go between dies below.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    write_png(path, plan_png(planned))


def plan_png(planned: Planned) -> bytes:
    """Draw the plan as a PNG in memory: layers across, levels down, a colour a split."""
    plan, graph = planned.plan, planned.plan.graph
    numbers, levels = list(graph.planned), max(1, plan.levels)
    across = min(len(numbers), 40)
    bands = [numbers[start:start + across] for start in range(0, len(numbers), across)]
    labels = {number: f"{graph.nodes[number].name} ({kinds})" if (kinds := _kinds(plan, number)) else
              graph.nodes[number].name for number in numbers}
    longest = max(map(len, labels.values()))
    heights = [0.3 * levels + 0.09 * longest + 0.3] * len(bands) + [_TRAFFIC_HEIGHT] * graph.sparse
    figure = new_figure(layout="constrained", figsize=(max(6.5, 0.36 * across + 1), 1.3 + sum(heights)))
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights, width_ratios=(3, 2))
    axes = [figure.add_subplot(grid[row, :]) for row in range(len(bands))]
    if graph.sparse:
        traffic_axes(plan, *(figure.add_subplot(grid[-1, side]) for side in range(2)))
    from matplotlib.patches import Patch, Rectangle

    for axis, band in zip(axes, bands, strict=True):
        for place, number in enumerate(band):
            for level, split in enumerate(plan.splits[number]):
                axis.add_patch(Rectangle((place, level), 1, 1, facecolor=LOOKS[_look(split)][2], edgecolor="white",
                                         linewidth=1.5))
                axis.text(place + 0.5, level + 0.5, split, ha="center", va="center", fontsize=7, color="white")
        axis.set(xlim=(0, across), ylim=(levels, 0))
        axis.set_xticks([place + 0.5 for place in range(len(band))], [labels[number] for number in band],
                        rotation=90, fontsize=8)
        axis.set_yticks([level + 0.5 for level in range(plan.levels)],
                        [f"H{level + 1}" for level in range(plan.levels)], fontsize=8)
        axis.tick_params(length=0)
        for side in axis.spines.values():
            side.set_visible(False)
    outcome, data, word = planned.outcome, planned.baselines["data"], planned.word_bytes
    batch = f"{plan.batch}{_micro_batches(plan)}"
    figure.suptitle(f"{plan.network} on {plan.array}, batch {batch}, planner {plan.planner}\n"
                    f"{size(word * outcome.injected_words)} a step (data: {size(word * data.injected_words)}), "
                    f"{duration(outcome.predicted_seconds)} predicted (data: {duration(data.predicted_seconds)})"
                    + "".join(f"\n{line}" for line in wrap(touched_line(plan), 90)), fontsize=9)
    # The loss, which stands last, is in no picture.
    if used := _looks_of(plan.splits[:-1]):
        figure.legend(handles=[Patch(facecolor=LOOKS[look][2], label=f"{name}  {LOOKS[look][0]}")
                               for name, look in used], loc="outside lower center", ncols=1 if across < 12 else
                      len(used), fontsize=8, frameon=False)
    return png(figure, min(150, 50_000 / figure.get_figheight()))
