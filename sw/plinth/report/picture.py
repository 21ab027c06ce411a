"""The picture of a training run: loss curve, where the cycles went, and one step's timeline."""

from pathlib import Path
from typing import Any

from plinth.report.canvas import new_figure, png, write_png

STATES = (("busy_cycles", "busy", "#2a7f62"), ("stall_input_cycles", "waits for operands", "#d9a441"),
          ("stall_output_cycles", "waits for room", "#c8553d"), ("stall_memory_cycles", "waits for memory", "#7a6c9d"))


def draw(path: Path, report: dict[str, Any]) -> None:
    """Write the PNG of a report (see ``report.json``) in one step.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    write_png(path, training_png(report))


def training_png(report: dict[str, Any]) -> bytes:
    """The picture of a report as a PNG."""
    figure = new_figure(layout="constrained", figsize=(9, 9 if report["timeline"] else 3.5))
    axes = figure.subplots(3 if report["timeline"] else 1, 1, squeeze=False)
    title = f"{report['network']} on {report['dies']} x {report['preset']} ({report['device']})"
    accuracy = report["test_accuracy"]
    result = f"loss {report['test_loss']:.3g}" if accuracy is None else f"accuracy {accuracy:.1%}"
    figure.suptitle(f"{title}: test {result}")
    loss = axes[0, 0]
    loss.plot(range(1, report["steps"] + 1), report["losses"], color="#1f4e79", linewidth=1.2)
    loss.set(xlabel="step", ylabel="squared error" if accuracy is None else "cross-entropy (nats)", yscale="log",
             title="training loss")
    loss.grid(True, which="both", alpha=0.25)
    if report["timeline"]:
        _cycles(axes[1, 0], report)
        _timeline(axes[2, 0], report)
    return png(figure)


def _cycles(axis: Any, report: dict[str, Any]) -> None:
    """A bar an engine: states of its cycles, as shares of all die-cycles."""
    whole = report["cycles"] * report["dies"]
    names = list(report["engine_counters"])
    left = [0.0] * len(names)
    for key, label, colour in STATES:
        widths = [report["engine_counters"][name][key] / whole for name in names]
        axis.barh(names, widths, left=left, color=colour, label=label)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axis.barh(names, [1 - share for share in left], left=left, color="#e6e6e6", label="idle")
    axis.set(xlim=(0, 1), xlabel="share of all cycles, all dies", title="where the cycles went")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axis.invert_yaxis()
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=5, fontsize=8, frameon=False)


def _timeline(axis: Any, report: dict[str, Any]) -> None:
    """Tasks of the last step on die 0, one row an engine; neighbours alternate in shade."""
    names = list(report["engine_counters"])
    shades = ("#1f4e79", "#6fa8dc")
    count = dict.fromkeys(names, 0)
    for task in report["timeline"]:
        row = names.index(task["engine"])
        axis.barh(row, task["end_cycle"] - task["start_cycle"], left=task["start_cycle"], height=0.7,
                  color=shades[count[task["engine"]] % 2])
        count[task["engine"]] += 1
    axis.set(yticks=range(len(names)), yticklabels=names, xlabel="cycles",
             title="tasks of the last step, die 0")
    axis.invert_yaxis()
    axis.grid(True, axis="x", alpha=0.25)
