"""Show a training run by local networks: as a table, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from plinth.report.canvas import new_figure, png, write_png

if TYPE_CHECKING:
    from rich.console import Console

#: Colours of the run, and of synchronous training without dropout and with it.
_RUN, _SYNCHRONOUS = "#1f4e79", ("#c8553d", "#d9a441")
_ENDINGS = {"accuracy": "the accuracy was reached", "batches": "all batches were trained",
            "lost": "all kernels were lost", "interrupted": "it was interrupted"}


def local_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Table rows: names and values of what a run measured."""
    push = f"{report['push']} batches; by Deep3's cost model {report['printed_push']:.3g}"
    if report["corrected_push"] is not None:
        push += (f", with convergence {report['corrected_push']:.3g} (n0 {report['n0']:.3g}), of three that were tried "
                 f"{report['measured_push']}")
    accuracy, loss = report["test_accuracy"], report["test_loss"]
    exact = [kernel["bit_exact"] for kernel in report["kernels"] if kernel["bit_exact"] is not None]
    words = report["curve"][-1]["exchanged_words"] if report["curve"] else 0
    unit = "virtual seconds" if report["clock"] == "virtual" else "s"
    rows = [("network", f"{report['network']}, {report['parameters']:,} parameters, "
                        f"{'-'.join(map(str, report['layer_widths']))}"),
            ("test accuracy", "not validated" if not report["curve"] else "no classes" if accuracy is None else
             f"{accuracy:.2%}"),
            ("test loss", "not validated" if loss is None else f"{loss:.4f}"),
            ("ended", f"after {report['merged_batches']:,} batches of {report['batch']}: {_ENDINGS[report['ended']]}"),
            ("n_push", push),
            ("merged", "added" if not report["divided"] else f"divided by holders: {', '.join(report['divided'])}"),
            *_projection(report.get("projection")),
            ("words", f"{words:,} both ways"),
            ("time", f"{report['seconds']:.4g} {unit}; {report['wall_seconds']:.1f} s on the host, after "
                     f"{report['setup_seconds']:.1f} s of set-up")]
    if exact:
        rows.append(("equal to golden", "every weight and state of every die, after every set" if all(exact) else
                     "NO: RTL and golden model differ"))
    for baseline in report["synchronous"]:
        rows.append((f"synchronous, {_dropout(baseline)}", _last(baseline["curve"])))
    return rows


def _projection(projection: dict[str, Any] | None) -> list[tuple[str, str]]:
    if projection is None:
        return []
    return [("projection", f"{projection['features']} features to {projection['size']}, error "
                           f"{projection['test_error']:.1%} of samples for testing, {projection['seconds']:.2f} s")]


def _dropout(baseline: dict[str, Any]) -> str:
    share = baseline["dropped_share"]
    return f"dropout {share:.0%}" if share else "no dropout"


def _last(curve: list[dict[str, Any]]) -> str:
    """Last accuracy or loss, and what it took."""
    last = curve[-1]
    value = f"loss {last['test_loss']:.4f}" if last["test_accuracy"] is None else f"{last['test_accuracy']:.2%}"
    return f"{value} after {last['merged_batches']:,} steps, {last['exchanged_words']:,} words"


def local_table(console: Console, report: dict[str, Any]) -> None:
    """Print what a run found."""
    from plinth_hw.terminal.table import new_table, print_table

    table = new_table("", " ", text=("", " "), header=False)
    for name, text in local_rows(report):
        table.add_row(f"[bold]{name}[/bold]", text)
    print_table(console, table)
    kernels = new_table("kernel", "units", "multiply-adds", "sets", "dropped", "batches", "staleness", "words to it",
                        "from it", "s", "cycles", text=["kernel", "units"], title="kernels")
    for kernel in report["kernels"]:
        staleness = "" if kernel["mean_staleness"] is None else (
            f"{kernel['mean_staleness']:.1f}, at most {kernel['largest_staleness']}")
        kernels.add_row(kernel["kernel"], "-".join(map(str, kernel["layer_widths"])), f"{kernel['macs_share']:.1%}",
                        f"{kernel['merged_sets']:,}", f"{kernel['dropped_sets']:,}", f"{kernel['merged_batches']:,}",
                        staleness, f"{kernel['set_words']:,}", f"{kernel['answer_words']:,}",
                        f"{kernel['seconds']:.3g}", f"{kernel['cycles']:,}")
    print_table(console, kernels)
    for incident in report["incidents"]:
        console.print(incident, soft_wrap=True, markup=False)


def draw_local(path: Path, report: dict[str, Any]) -> None:
    """Write the PNG of a report in one step.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    write_png(path, local_png(report))


def local_png(report: dict[str, Any]) -> bytes:
    """The picture of a report as a PNG: accuracy, or loss, against words and against time."""
    figure = new_figure(layout="constrained", figsize=(10, 4))
    figure.suptitle(f"{report['network']} by local networks on {len(report['kernels'])} kernels, n_push "
                    f"{report['push']}")
    classes = report["test_accuracy"] is not None
    value = "test_accuracy" if classes else "test_loss"
    time = "virtual seconds" if report["clock"] == "virtual" else "s"
    panels = (("exchanged_words", "words of 32 bits, both ways"), ("seconds", time))
    for axis, (across, label) in zip(figure.subplots(1, 2), panels, strict=True):
        _line(axis, report["curve"], across, value, color=_RUN, label="local networks")
        for baseline, color in zip(report["synchronous"], _SYNCHRONOUS, strict=False):
            # Synchronous steps have virtual times alone.
            if across != "seconds" or report["clock"] == "virtual":
                _line(axis, baseline["curve"], across, value, color=color,
                      label=f"synchronous, {_dropout(baseline)}")
        axis.set(xlabel=label, ylabel=value.replace("_", " "), xscale="log")
        if classes:
            axis.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axis.grid(True, which="both", alpha=0.25)
        axis.legend(fontsize=8, frameon=False)
    return png(figure)


def _line(axis: Any, curve: list[dict[str, Any]], across: str, value: str, **style: Any) -> None:
    axis.plot([point[across] for point in curve], [point[value] for point in curve], linewidth=1.2, **style)
