"""Profiles of devices for people: a table, and a picture of measured times, fits and regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plinth.report.canvas import new_figure, png, write_png
from plinth.units import duration, size
from plinth_hw.terminal.table import new_table, print_table

if TYPE_CHECKING:
    from rich.console import Console

#: Colours of regions.
REGION_COLOURS = {"occupancy": "#7a6c9d", "compute": "#c8553d", "bandwidth": "#1f4e79"}
#: Panels of the picture: title, amount along x, and the kinds of work, by the beginnings of their names.
PANELS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("products", "multiply-adds", ("product",)), ("convolutions", "multiply-adds", ("convolution",)),
    ("functions", "elements", ("bias", "relu", "tanh", "sigmoid", "loss")), ("pools", "elements", (
        "max-pool", "mean-pool")),
    ("updates", "weights", ("update",)), ("transfers", "words", ("write", "read", "message")))
#: Columns of the picture.
COLUMNS = 2


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _unit(kind: str) -> str:
    """What amounts of a kind of work count."""
    return next(unit for _, unit, names in PANELS if kind.startswith(names))


def kind_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """The table of kinds of work of a profile's report, its head first."""
    rows = [["kind", "measured", "least time", "from", "to", "", "fit error", "of others", "form, bound by"]]
    for row in report["kinds"]:
        regions = Counter(measurement["region"] for measurement in row["measurements"])
        amounts = [measurement["amount"] for measurement in row["measurements"]]
        bounds = [f"{end(amounts, default=0):,.0f}" for end in (min, max)]
        rows.append([row["kind"], str(len(amounts)), duration(row["constant_seconds"]), *bounds, _unit(row["kind"]),
                     _percent(row["fit_error"]), _percent(row["check_error"]), f"{row['form']}: " + ", ".join(
                         region for region, _ in regions.most_common())])
    return rows


def cost_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """The coefficients of Table 2 of a profile's report, in seconds."""
    return [[name, f"{report['costs'][key]:.4g}"] for name, key in (
        ("alpha_flop", "flop_seconds"), ("alpha_act", "act_seconds"), ("alpha_err", "err_seconds"),
        ("a batch", "batch_seconds"), ("alpha_net", "net_seconds"), ("a word", "word_seconds"))]


def show_profile(console: Console, report: Mapping[str, Any]) -> None:
    """Print a profile's report: kinds of work, whole batches, Table 2, and the local layers."""
    console.print(f"[bold]{report['device']}[/bold]: " + ", ".join(
        f"{name} {text}" for name, text in report["measured_under"].items()), highlight=False)
    head, *rows = kind_rows(report)
    table = new_table(*head, text=("kind", "", "form, bound by"))
    for row in rows:
        table.add_row(*row)
    print_table(console, table)
    batch = report["batch_fit"]
    console.print(f"{len(report['batches'])} whole batches by {batch['terms']}: off by {_percent(batch['fit_error'])}, "
                  f"of sizes that played no part by {_percent(batch['check_error'])}, in the median", highlight=False)
    _show_costs(console, report)
    if report["cache"] is not None:
        knee = report["cache"]["knee_bytes"]
        stated = ", ".join(f"{level} {size(count)}" for level, count in report["cache"]["stated_bytes"].items())
        console.print(f"cache: rates fall beyond {'no size' if knee is None else size(knee)}; the system says "
                      f"{stated or 'nothing'}", highlight=False)
    if report["local"] is not None:
        _show_local(console, report)


def _show_costs(console: Console, report: Mapping[str, Any]) -> None:
    where = f" of {report['network']}'s range" if report["local"] is not None else ""
    table = new_table("Table 2", "seconds", text=("Table 2",))
    for row in cost_rows(report):
        table.add_row(*row)
    print_table(console, table)
    console.print(f"Table 2 is fitted to batches{where}; fitted to all that were measured it is off by "
                  f"{_percent(report['costs_error'])} in the median on others", highlight=False)


def _show_local(console: Console, report: Mapping[str, Any]) -> None:
    local = report["local"]
    table = new_table("hidden layers", "units", text=("hidden layers", "units"))
    for name, key in (("of the network (S_G)", "global_widths"), ("that fit (S_L)", "widths")):
        table.add_row(name, ", ".join(map(str, local[key])))
    print_table(console, table)
    watts = "" if report["watts"] is None else f", at {report['watts']:g} W as stated"
    console.print(f"S_L of {report['network']}, batch {report['batch']}: {local['rule']} into "
                  f"{size(local['limit_bytes'])}; takes {size(local['needed_memory_bytes'])}; metric "
                  f"{report['metric']}{watts}", highlight=False)


def draw_profile(path: Path, report: Mapping[str, Any]) -> None:
    """Write the picture of a profile's report as a PNG.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    write_png(path, profile_png(report))


def profile_png(report: Mapping[str, Any]) -> bytes:
    """The picture of a profile's report as a PNG: times of operations by their amounts, with fits and regions, whole
    batches, the cache, and the local layers."""
    drawings: list[Callable[[Any], None]] = [
        _kinds_drawing(title, unit, rows) for title, unit, names in PANELS
        if (rows := [row for row in report["kinds"] if row["kind"].startswith(names)])]
    drawings.append(lambda axis: _draw_batches(axis, report["batches"]))
    if report["cache"] is not None:
        drawings.append(lambda axis: _draw_cache(axis, report["cache"]))
    if report["local"] is not None:
        drawings.append(lambda axis: _draw_local(axis, report["local"]))
    lines = -(-len(drawings) // COLUMNS)
    figure = new_figure(layout="constrained", figsize=(11, 3.4 * lines))
    axes = figure.subplots(lines, COLUMNS, squeeze=False).ravel()
    for axis, draw in zip(axes, drawings, strict=False):
        draw(axis)
    for axis in axes[len(drawings):]:
        axis.remove()
    figure.suptitle(f"profile of {report['device']}: measured times (dots), fits (crosses), regions (colours)")
    return png(figure, dpi=100)


def _kinds_drawing(title: str, unit: str, rows: Sequence[Mapping[str, Any]]) -> Callable[[Any], None]:
    def draw(axis: Any) -> None:
        measurements = [measurement for row in rows for measurement in row["measurements"]]
        for region, colour in REGION_COLOURS.items():
            some = [measurement for measurement in measurements if measurement["region"] == region]
            if some:
                axis.plot([measurement["amount"] for measurement in some],
                          [measurement["measured_seconds"] for measurement in some], ".", color=colour, label=region)
        axis.plot([measurement["amount"] for measurement in measurements],
                  [measurement["fitted_seconds"] for measurement in measurements], "x", color="#444444", markersize=3,
                  linewidth=0.6)
        axis.set(xscale="log", yscale="log", xlabel=unit, ylabel="seconds", title=title)
        axis.grid(True, which="major", alpha=0.25)
        axis.legend(fontsize=8, frameon=False)

    return draw


def _draw_batches(axis: Any, batches: Sequence[Mapping[str, Any]]) -> None:
    """Fitted over measured times of whole batches; those that played no part in the fit hollow."""
    for fitted, style in ((True, "o"), (False, "o")):
        some = [batch for batch in batches if batch["fitted_to"] == fitted]
        axis.plot([batch["measured_seconds"] for batch in some], [batch["fitted_seconds"] for batch in some], style,
                  color="#2a7f62", markersize=4, fillstyle="full" if fitted else "none",
                  label="of the fit" if fitted else "of others")
    ends = [min(batch["measured_seconds"] for batch in batches), max(batch["measured_seconds"] for batch in batches)]
    axis.plot(ends, ends, color="#888888", linewidth=0.8)
    axis.set(xscale="log", yscale="log", xlabel="measured seconds", ylabel="fitted seconds", title="whole batches")
    axis.grid(True, which="major", alpha=0.25)
    axis.legend(fontsize=8, frameon=False)


def _draw_cache(axis: Any, cache: Mapping[str, Any]) -> None:
    axis.plot(cache["working_set_bytes"], [rate / 1e9 for rate in cache["bytes_per_second"]], ".-", color="#1f4e79")
    if cache["knee_bytes"] is not None:
        axis.axvline(cache["knee_bytes"], color="#c8553d", linewidth=0.8)
    axis.set(xscale="log", yscale="log", xlabel="working set, bytes", ylabel="GB a second", title="cache of the host")
    axis.grid(True, which="major", alpha=0.25)


def _draw_local(axis: Any, local: Mapping[str, Any]) -> None:
    places = range(len(local["widths"]))
    axis.bar(places, local["global_widths"], color="#e6e6e6", label="the network's (S_G)")
    axis.bar(places, local["widths"], color="#2a7f62", label="that fit (S_L)")
    axis.set(xticks=list(places), xticklabels=[str(place + 1) for place in places], xlabel="hidden layer",
             ylabel="units or channels", title="local layers")
    axis.legend(fontsize=8, frameon=False)
