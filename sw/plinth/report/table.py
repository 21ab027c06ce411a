"""Print the report of a training run as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def training_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Table rows: names and values of what a training run measured."""
    exact = {True: "every weight of every die, every step", False: "NO: RTL and golden model differ",
             None: "not compared (numpy rounds in another order)" if report["device"] == "numpy" else
             "not compared (the golden model itself ran)"}[report["bit_exact"]]
    rows = [
        ("network", f"{report['network']}, {report['parameters']:,} parameters"),
        ("array", f"{report['array']}: {report['dies']} x {report['preset']}, {report['device']}"),
        ("planner", report["planner"]),
        ("steps", f"{report['steps']} of batch {report['batch']}"),
        ("training loss", f"{report['last_loss']:.4f}"),
        ("test accuracy", "no classes" if report["test_accuracy"] is None else f"{report['test_accuracy']:.2%}"),
        ("test loss", f"{report['test_loss']:.4f}"),
        ("equal to golden", exact),
        ("against float64", _errors(report)),
        *_verdict(report),
        *_kinks(report),
        *_saturated(report),
        *_cycles(report),
        ("wall time", f"{report['wall_seconds']:.1f} s, after {report['setup_seconds']:.1f} s of set-up"),
    ]
    if report["cycles"]:
        rows += [
            ("speed", f"{report['die_cycles_per_second']:,.0f} die-cycles a second"),
            ("matrix utilisation", f"{report['matrix_utilisation']:.1%}"),
            ("bytes sent", _sent(report)),
        ]
    return rows


def training_table(console: Console, report: dict[str, Any]) -> None:
    """Print what a training run found."""
    from plinth_hw.terminal.table import new_table, print_table

    table = new_table("", " ", text=("", " "), header=False)
    for name, text in training_rows(report):
        table.add_row(f"[bold]{name}[/bold]", text)
    print_table(console, table)
    if report.get("between_ranks"):
        _ranks(console, report["between_ranks"])
    if report["cycles"]:
        _layers(console, report)
        engines = new_table("engine", "tasks", "busy", "wait operands", "wait room", "wait memory", "words",
                            text=["engine"], title="engine cycles, all dies")
        for name, values in report["engine_counters"].items():
            engines.add_row(name, *(f"{values[key]:,}" for key in (
                "tasks", "busy_cycles", "stall_input_cycles", "stall_output_cycles", "stall_memory_cycles",
                "payload_words")))
        print_table(console, engines)


def _ranks(console: Console, pairs: list[dict[str, int]]) -> None:
    """What ranks have sent each other, pair by pair, beside what the plan says."""
    from plinth_hw.terminal.table import new_table, print_table

    table = new_table("from rank", "to", "words", "planned", "messages", "planned", title="between ranks, all steps")
    for pair in pairs:
        table.add_row(*(f"{pair[key]:,}" for key in (
            "from_rank", "to_rank", "sent_words", "predicted_sent_words", "messages", "predicted_messages")))
    print_table(console, table)


def _sent(report: dict[str, Any]) -> str:
    """Bytes that dies sent, that the plan says, and that crossed links."""
    sent, predicted, links = (report["word_bytes"] * report[key] for key in (
        "injected_words", "predicted_injected_words", "link_words"))
    return f"{sent:,}, {predicted:,} predicted; {links:,} on links"


def _errors(report: dict[str, Any]) -> str:
    """The largest error of each kind, and how near to its bound the nearest comes."""
    share = max((error["largest"] / error["largest_allowed"] for error in report["errors"].values()), default=0.0)
    steps = report["steps"]
    checked = report.get("checked_steps", steps)
    return ", ".join(f"{name} {report[f'{name}_error']:.1e}" for name in report["errors"]) + (
        f"; at most {share:.1%} of a bound{'' if checked == steps else f'; {checked:,} of {steps:,} steps compared'}")


def _cycles(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Of devices that count cycles, these."""
    if not report["cycles"]:
        return []
    predicted = report["predicted_cycles_per_step"]
    return [("cycles", f"{report['cycles']:,} ({report['cycles_per_step']:,.0f} a step)" + (
        "" if predicted is None else f", {predicted:,.0f} a step predicted"))]


def _verdict(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Of a run that is too short for the bounds of medians, how many steps those need."""
    steps, needed = report.get("checked_steps", report["steps"]), report["verdict_steps"]
    if steps >= needed:
        return []
    judged = (report["unsaturated_steps"] or {"judged": 0})["judged"]
    return [("medians", f"checked from {needed} steps on, here are {steps}; {judged} of them have no saturation and "
                        "were held to closer bounds")]


def _kinks(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Kinks at which the dies decided, if there are any."""
    if not report["kinks"]:
        return []
    share, difference = report["kink_share"]["largest"], report["kink_difference"]["largest"]
    return [("kinks", f"{report['kinks']:,} ReLUs and max-pools taken as the dies did, since roundings decide them "
                      f"({share:.2g} of a step's at most); with the other side a gradient differs by {difference:.2g} "
                      "at most")]


def _saturated(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Of fixed-point dies, how many numbers saturated."""
    if report["saturations"] is None:
        return []
    sums, results = (sum(die[name] for die in report["saturations"]) for name in ("sums", "results"))
    return [("saturated", f"{results:,} results of vector and optimiser tasks, {sums:,} sums")]


def _layers(console: Console, report: dict[str, Any]) -> None:
    """Words that each layer sent in a step, and how they differ from the plan's."""
    from plinth_hw.terminal.table import new_table, print_table

    if report["dies"] == 1:
        return
    layers = new_table("layer", "splits", "transfers", "reduction", "beyond the plan", text=("layer", "splits"),
                       title="words of a step, all dies")
    for layer in report["layers"]:
        entries = layer["transfers"] + ([layer["reduction"]] if layer["reduction"] else [])
        beyond = sum(entry["injected_words"] - entry["predicted_injected_words"] for entry in entries)
        layers.add_row(layer["layer"], " ".join(layer["splits"]),
                       f"{sum(entry['injected_words'] for entry in layer['transfers']):,}",
                       f"{layer['reduction']['injected_words']:,}" if layer["reduction"] else "-", f"{beyond:,}")
    print_table(console, layers)
