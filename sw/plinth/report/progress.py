"""Progress lines of commands that take long."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text


class _Rate(ProgressColumn):
    """Simulated cycles, and cycles a second of wall time."""

    def render(self, task: Task) -> Text:
        cycles = task.fields.get("cycles", 0)
        seconds = task.elapsed or 0.0
        if not cycles or not seconds:
            return Text("")
        return Text(f"{cycles / 1e6:.2f} M cycles {cycles / seconds / 1e3:.0f} k/s", style="cyan", no_wrap=True)


def training_progress(console: Console) -> Progress:
    """Steps, with the fields ``state`` and ``cycles`` of the task; silent where nobody watches."""
    column = Column(no_wrap=True)
    return Progress(TextColumn("step {task.completed}/{task.total}", table_column=column), BarColumn(bar_width=8),
                    TextColumn("{task.fields[state]}", table_column=column), _Rate(table_column=column),
                    TimeRemainingColumn(compact=True, table_column=column),
                    console=console, disable=not console.is_terminal)


def simulation_progress(shown: bool) -> Progress:
    """Simulated tasks, on standard error, gone at the end."""
    return Progress(TextColumn("simulating {task.completed:,.0f}/{task.total:,.0f} tasks"), BarColumn(bar_width=20),
                    TimeRemainingColumn(compact=True), console=Console(stderr=True), transient=True, disable=not shown)


def reproduction_progress(shown: bool) -> Progress:
    """Tables, and with the fields ``key`` and ``values`` of the task the one that is computed, on standard error, gone
    at the end. Tables take from nothing to minutes, so it shows the time that went by and not what is left."""
    return Progress(TextColumn("table {task.completed}/{task.total}"), BarColumn(bar_width=20),
                    TextColumn("{task.fields[key]}, {task.fields[values]} values"), TimeElapsedColumn(),
                    console=Console(stderr=True), transient=True, disable=not shown)
