"""Report a simulated step: tables for people, JSON for programs, a picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plinth.errors import one_line
from plinth.files.reports import report
from plinth.report.canvas import new_figure, png, write_png
from plinth.report.plan import saved, show_saved
from plinth.simulate.phases import PHASES
from plinth.simulate.rows import ENGINES, layer_rows
from plinth.simulate.step import Simulated
from plinth.units import duration, size
from plinth_sim.array.machine import Flow
from plinth_sim.array.simulate import EngineTime

if TYPE_CHECKING:
    from rich.console import Console

#: Where the seconds of an engine go: key, what it is called, its colour.
STATES = (("busy", "busy", "#2a7f62"), ("shared", "shares memory or links", "#7a6c9d"),
          ("waiting", "waits for others", "#d9a441"), ("idle", "done", "#e6e6e6"))
#: Kinds of energy: key, what it is called, its colour.
KINDS = (("multiply", "multiplications", "#1f4e79"), ("add", "additions", "#6fa8dc"), ("sram", "SRAM", "#2a7f62"),
         ("dram", "DRAM", "#c8553d"), ("link", "links", "#d9a441"))
#: Links and dies that tables and pictures show.
SHOWN_LINKS, SHOWN_DIES = 8, 4


def simulation_report(simulation: Simulated) -> dict[str, Any]:
    """Make the report that ``plinth simulate --json`` prints, as :mod:`plinth.files.reports` says."""
    plan, result, links = simulation.plan, simulation.result, simulation.work.machine.links[:simulation.work.links]
    dies = [{"die": die, "speed": simulated_die.speed, "dram_words": float(result.memory_words[die]),
             "engine_seconds": {engine: _seconds(result.engines[die, engine]) for engine in ENGINES
                                if (die, engine) in result.engines}}
            for die, simulated_die in enumerate(simulation.work.machine.dies)]
    return report("simulate", {
        "network": plan.network, "planner": plan.planner, "model": plan.model, "array": simulation.array.name,
        "dies": plan.dies, "word_bytes": simulation.array.die_parameters().word_bytes, "batch": plan.batch,
        "update": plan.rule.title, "cost": simulation.cost,
        "cycles_from": simulation.source,
        "simulated": "in groups of tasks" if simulation.work.grouped else "task by task",
        **({"grouped_because": simulation.work.grouped} if simulation.work.grouped else {}),
        "slow": {str(die): factor for die, factor in simulation.slow.items()}, "seconds": result.seconds,
        "cycles": simulation.cycles, "energy_joules": sum(simulation.joules.values()),
        "energy_joules_by_kind": simulation.joules,
        "needed_memory_bytes": simulation.step.memory_bytes(), "memory_bytes": simulation.array.memory_bytes,
        "injected_words": plan.words, **saved(plan),
        "winograd": {name: asdict(arrangement) for name, arrangement in plan.arrangements.items()},
        **asdict(result.counts), "tasks": sum(simulation.work.tasks), "events": result.events,
        "layer_work": [asdict(row) for row in layer_rows(simulation)], "per_die": dies,
        "links": [{"link": link.name, "words_per_second": link.words_per_second, "link_words": float(words),
                   "utilisation": float(share)} for link, words, share in
                  zip(links, result.link_words[:len(links)], utilisation(simulation), strict=True)]})


def how_simulated(simulation: Simulated) -> str:
    """Say in words which of the two models simulated the step, and why."""
    if not simulation.work.grouped:
        return "simulated task by task"
    return one_line(f"simulated in groups of tasks, as {simulation.work.grouped}")


def _seconds(time: EngineTime) -> dict[str, float]:
    return {key: getattr(time, key) for key, _, _ in STATES}


def utilisation(simulation: Simulated) -> Any:
    """The utilisation of each link between dies: the words that it carried over those that it could have carried."""
    links = simulation.work.machine.links[:simulation.work.links]
    rates = np.array([link.words_per_second for link in links])
    return (simulation.result.link_words[:len(links)] / (rates * simulation.result.seconds)
            if simulation.result.seconds else 0 * rates)


def _fullest(simulation: Simulated) -> list[tuple[int, str]]:
    """The fullest links and what they are called; of links of one rate that carry the same, the first stands for
    all."""
    used, machine = utilisation(simulation), simulation.work.machine
    alike: dict[tuple[float, str], list[int]] = {}
    for number in np.argsort(-used, kind="stable").tolist():
        if used[number] > 0:
            alike.setdefault((machine.links[number].words_per_second, f"{used[number]:.3e}"), []).append(number)
    return [(min(numbers), machine.links[min(numbers)].name + (f" and {len(numbers) - 1} alike" if numbers[1:] else ""))
            for numbers in list(alike.values())[:SHOWN_LINKS]]


def _shares(simulation: Simulated, engine: str) -> Any:
    """Shares of the step in each state, [die, state]; of dies without the engine all idle."""
    nothing = EngineTime(busy=0.0, shared=0.0, waiting=0.0, idle=simulation.result.seconds)
    return np.array([list(_seconds(simulation.result.engines.get((die, engine), nothing)).values())
                     for die in range(simulation.plan.dies)]) / (simulation.result.seconds or 1.0)


def engine_rows(simulation: Simulated) -> list[list[str]]:
    """Table rows: each engine that the step uses, with its shares of the step in each of :data:`STATES`, the mean of
    all dies."""
    return [[engine, *(f"{value:.1%}" for value in _shares(simulation, engine).mean(axis=0))] for engine in ENGINES
            if any(key == engine for _, key in simulation.result.engines)]


def total_rows(simulation: Simulated) -> list[list[str]]:
    """Table rows: time and energy of the step, and what it moves."""
    word = simulation.array.die_parameters().word_bytes
    return [["a step", duration(simulation.result.seconds)],
            ["samples a second", f"{simulation.plan.batch / simulation.result.seconds:,.4g}"],
            ["energy", _joules(sum(simulation.joules.values()))],
            ["moved between dies", size(word * simulation.plan.words)]]


#: Columns of :func:`layer_work_rows`.
LAYER_WORK = ("layer", "direction", "cycles", "words sent", "memory words", "energy")


def layer_work_rows(simulation: Simulated) -> list[list[str]]:
    """Table rows: what the step spends on each layer in each direction, under :data:`LAYER_WORK`, and their sums
    last."""
    rows = layer_rows(simulation)
    sums = [sum(getattr(row, key) for row in rows)
            for key in ("cycles", "injected_words", "dram_words", "energy_joules")]
    named = [(row.layer if not number or rows[number - 1].layer != row.layer else "", row.direction,
              row.cycles, row.injected_words, row.dram_words, row.energy_joules) for number, row in enumerate(rows)]
    return [[layer, direction, f"{cycles:,.0f}", f"{sent:,.0f}", f"{memory:,.0f}", _joules(joules)]
            for layer, direction, cycles, sent, memory, joules in (*named, ("all", "", *sums))]


def show_simulation(console: Console, simulation: Simulated) -> None:
    """Print where the step's time and energy go."""
    from rich.markup import escape

    from plinth_hw.terminal.table import new_table, print_table

    plan, result, joules = simulation.plan, simulation.result, simulation.joules
    console.print(f"[bold]{plan.network}[/bold] on {simulation.array.name} ({plan.dies} dies), batch {plan.batch}, "
                  f"planner {plan.planner}, update {plan.rule.title}, {simulation.cost} cost", highlight=False)
    total = sum(joules.values())
    console.print(f"a step: [bold]{duration(result.seconds)}[/bold], {plan.batch / result.seconds:,.4g} samples a "
                  f"second, {_joules(total)}", highlight=False)
    console.print(how_simulated(simulation), style="dim", highlight=False)
    engines = new_table("engine", "", *(label for _, label, _ in STATES), text=("engine", ""),
                        title="engines, shares of the step")
    for engine in ENGINES:
        shares = _shares(simulation, engine)
        if not any(key == engine for _, key in result.engines):
            continue
        busiest, least = int(shares[:, 0].argmax()), int(shares[:, 0].argmin())
        rows = [("mean", shares.mean(axis=0)), (f"die {busiest}", shares[busiest])]
        if shares[least, 0] < shares[busiest, 0] * 0.999:
            rows.append((f"die {least}", shares[least]))
        for place, (who, values) in enumerate(rows if plan.dies > 1 else rows[1:]):
            engines.add_row("" if place else engine, who, *(f"{value:.1%}" for value in values))
    print_table(console, engines)
    layers = new_table(*LAYER_WORK, text=LAYER_WORK[:2], title="layers; cycles are those of the critical path")
    for row in layer_work_rows(simulation):
        layers.add_row(*map(escape, row))
    print_table(console, layers)
    used, word = utilisation(simulation), simulation.array.die_parameters().word_bytes
    if len(used) and used.any():
        links = new_table("link", "utilisation", "carried", "a second", text=["link"], title="links")
        machine = simulation.work.machine
        for number, name in _fullest(simulation):
            link = machine.links[number]
            links.add_row(name, f"{used[number]:.1%}", size(word * float(result.link_words[number])),
                          size(word * link.words_per_second))
        mean = float(result.link_words[:len(used)].mean())
        links.add_row(f"mean of {len(used)}", f"{used.mean():.1%}", size(word * mean), "")
        print_table(console, links)
    arranged: dict[str, list[str]] = {}
    for name, arrangement in plan.arrangements.items():
        what = f"F({arrangement.transform}) in {arrangement.groups} x {arrangement.clusters}"
        arranged.setdefault(what, []).append(name)
    for what, names in arranged.items():
        told = ", ".join(names if len(names) < 4 else [names[0], "..", names[-1]])
        console.print(f"Winograd layers {what} groups x clusters: {len(names)} ({told})", highlight=False)
    show_saved(console, plan, word)
    energy = ", ".join(f"{label} {joules[key] / total:.1%}" for key, label, _ in KINDS) if total else "none"
    console.print(f"energy: {energy}", highlight=False)
    words = (f"{size(word * plan.words)} moved between dies, "
             f"{size(word * result.counts.dram_words)} in memories")
    need, have = simulation.step.memory_bytes(), simulation.array.memory_bytes
    console.print(f"{words}; the step needs {size(need)} of a die's {size(have)}", highlight=False)
    console.print(f"cycles from {simulation.source}", style="dim", highlight=False)


def _joules(value: float) -> str:
    for factor, unit in ((1, "J"), (1e3, "mJ"), (1e6, "µJ")):
        if value * factor >= 1:
            return f"{value * factor:,.3g} {unit}"
    return f"{value * 1e9:,.3g} nJ"


def draw_simulation(path: Path, simulation: Simulated) -> None:
    """Write the step as a PNG: engines and links over time, links by utilisation, energy.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    write_png(path, simulation_png(simulation))


def simulation_png(simulation: Simulated) -> bytes:
    """Draw the step as a PNG in memory: engines and links over time, links by utilisation, energy."""
    plan, result = simulation.plan, simulation.result
    scale, unit = next(((factor, name) for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "µs"))
                        if result.seconds * factor >= 1), (1e9, "ns"))
    used = utilisation(simulation)
    fullest = _fullest(simulation)
    rows = _rows(simulation, [number for number, _ in fullest])
    figure = new_figure(layout="constrained", figsize=(10.5, 2.9 + 0.34 * len(rows) + 0.26 * len(fullest)))
    axes = figure.subplots(3 if fullest else 2, 1, height_ratios=[
        0.34 * len(rows) + 0.4, *([0.26 * len(fullest) + 0.4] if fullest else []), 0.9])
    figure.suptitle(f"{plan.network} on {simulation.array.name}, batch {plan.batch}, planner {plan.planner}, "
                    f"{simulation.cost} cost: {duration(result.seconds)} and "
                    f"{_joules(sum(simulation.joules.values()))} a step", fontsize=11)
    axis = axes[0]
    for place, (_, spans) in enumerate(rows):
        for phase, colour in COLOURS.items():
            mine = [(start * scale, (end - start) * scale) for start, end, which in spans if which == phase]
            axis.broken_barh(mine, (place + 0.1, 0.8), color=colour, linewidth=0)
    axis.set(xlim=(0, result.seconds * scale), ylim=(len(rows), 0), xlabel=f"time, {unit}")
    axis.set_yticks([place + 0.5 for place in range(len(rows))], [name for name, _ in rows], fontsize=8)
    _plain(axis)
    from matplotlib.patches import Patch

    axis.legend(handles=[Patch(color=colour, label=label) for label, colour in COLOURS.items()], ncols=len(COLOURS),
                loc="lower right", bbox_to_anchor=(1, 1), fontsize=8, frameon=False)
    if fullest:
        axis = axes[1]
        axis.barh([name for _, name in fullest], [used[number] for number, _ in fullest], color="#3b75af", height=0.7)
        axis.axvline(float(used.mean()), color="#c8553d", linewidth=1.2, label=f"mean of {len(used)} links")
        axis.set(xlim=(0, 1), xlabel="utilisation of the fullest links")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.invert_yaxis()
        axis.tick_params(axis="y", labelsize=8)
        axis.legend(loc="lower right", fontsize=8, frameon=False)
        _plain(axis)
    axis, left, total = axes[-1], 0.0, sum(simulation.joules.values()) or 1.0
    for key, label, colour in KINDS:
        share = simulation.joules[key] / total
        axis.barh(0, share, left=left, color=colour, label=f"{label} {share:.1%}")
        left += share
    axis.set(xlim=(0, 1), xlabel="energy")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axis.set_yticks([])
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(KINDS), fontsize=8, frameon=False)
    _plain(axis)
    return png(figure)


#: What goes on in a piece of a track, and its colour.
COLOURS = dict(zip(PHASES, ("#3b75af", "#ef8636", "#519e3e", "#7a6c9d", "#c8553d"), strict=True))


def _plain(axis: Any) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _rows(simulation: Simulated, fullest: list[int]) -> list[tuple[str, list[tuple[float, float, str]]]]:
    """Tracks of the picture: engines of some dies, the slowest and fastest among them, and the fullest links."""
    busy = _shares(simulation, "matrix")[:, 0] + _shares(simulation, "vector")[:, 0]
    order = np.argsort(-busy, kind="stable").tolist()
    dies = sorted({*order[:SHOWN_DIES - 1], order[-1]})
    rows: dict[tuple[int, str] | int, list[tuple[float, float, str]]] = {
        (die, engine): [] for die in dies for engine in ENGINES[:3] if (die, engine) in simulation.result.engines}
    rows |= {link: [] for link in fullest[:4]}
    for activity, what, start, end in zip(simulation.work.activities, simulation.work.purposes,
                                          simulation.result.starts.tolist(), simulation.result.ends.tolist(),
                                          strict=True):
        if isinstance(activity, Flow):
            for link in rows.keys() & set(activity.links.tolist()):
                rows[link].append((start, end, what.phase))
        if activity.die is not None and (activity.die, activity.engine) in rows:
            rows[activity.die, activity.engine].append((start, end, what.phase))
    links = simulation.work.machine.links
    return [(f"die {key[0]} {key[1]}" if isinstance(key, tuple) else links[key].name, spans)
            for key, spans in rows.items()]
