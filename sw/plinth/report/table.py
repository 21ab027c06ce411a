"""Tables for eyes."""

from typing import Any

from rich.console import Console
from rich.table import Table


def training_table(console: Console, report: dict[str, Any]) -> None:
    """Print what a training run found."""
    table = Table(show_header=False, box=None, pad_edge=False)
    exact = {True: "every weight of every die, every step", False: "NO: RTL and golden model differ",
             None: "not compared (the golden model itself ran)"}[report["bit_exact"]]
    cycles = f"{report['cycles']:,} ({report['cycles_per_step']:,.0f} a step)" if report["cycles"] else "none"
    rows = [
        ("network", f"{report['network']}, {report['parameters']:,} parameters"),
        ("array", f"{report['dies']} x {report['preset']}, {report['device']}"),
        ("steps", f"{report['steps']} of batch {report['batch']}"),
        ("training loss", f"{report['train_loss']:.4f}"),
        ("test accuracy", f"{report['test_accuracy']:.2%}"),
        ("equal to golden", exact),
        ("gradient error", f"{report['gradient_error']:.2e} against float64"),
        ("cycles", cycles),
        ("wall time", f"{report['wall_seconds']:.1f} s, after {report['setup_seconds']:.1f} s of set-up"),
    ]
    if report["cycles"]:
        rows += [
            ("speed", f"{report['die_cycles_per_second']:,.0f} die-cycles a second"),
            ("matrix utilisation", f"{report['matrix_utilisation']:.1%}"),
            ("link traffic", f"{sum(map(sum, report['link_bytes'])):,} bytes, "
                             f"{report['link_bytes_predicted']:,} predicted"),
        ]
    for name, text in rows:
        table.add_row(f"[bold]{name}[/bold]", text)
    console.print(table)
    if report["cycles"]:
        engines = Table(title="engine cycles, all dies", title_justify="left")
        for heading in ("engine", "tasks", "busy", "wait operands", "wait room", "wait memory", "words"):
            engines.add_column(heading, justify="left" if heading == "engine" else "right")
        for name, values in report["engines"].items():
            engines.add_row(name, *(f"{values[key]:,}" for key in (
                "tasks", "busy", "stall_input", "stall_output", "stall_memory", "words")))
        console.print(engines)
