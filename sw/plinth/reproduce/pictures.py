"""Draw what the pictures of all papers have in common."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

from plinth.report.canvas import new_figure, png, write_png
from plinth.reproduce.paper import CLAIMS, Table

#: Opacity of the paper's bars, which stand beside ours.
PAPER = 0.45
#: Share of a bar's place that it fills.
FILLED = 0.94
#: Letters of a picture's title to an inch of its width.
TITLE_LETTERS = 11
_DPI = 140


def picture(title: str, width: float, height: float, rows: int = 1, columns: int = 1) -> Any:
    """A figure of matplotlib, and its axes as an array of rows and columns; ``width`` and ``height`` in inches. Titles
    that are wider than the figure are wrapped."""
    drawing = new_figure(figsize=(width, height))
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    drawing.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    drawing.suptitle(fill(title, int(TITLE_LETTERS * width)), fontsize=10.5)
    return drawing, drawing.subplots(rows, columns, squeeze=False)


def bar(axis: Any, left: float, value: float, wide: float, colour: str, alpha: float = 1, *, size: float = 7.5,
        inside: bool = False) -> None:
    """A bar in a place of ``wide`` from ``left`` on, its value above it, or inside."""
    axis.bar(left, value, wide * FILLED, align="edge", color=colour, alpha=alpha)
    digits = f"{value:.3g}" if abs(value) < 1000 else f"{float(f'{value:.3g}'):,.0f}"
    axis.annotate(digits, (left + wide / 2, value), (0, -4 if inside else 2), textcoords="offset points",
                  ha="center", va="top" if inside else "bottom", rotation=90, fontsize=size,
                  color="white" if inside and alpha == 1 else "black")


def bare(axis: Any, sides: Sequence[str] = ("top", "right")) -> None:
    """No lines at these sides, no ticks across."""
    axis.tick_params(axis="x", length=0)
    for side in sides:
        axis.spines[side].set_visible(False)


def write(folder: Path, figures: Sequence[Table], drawn: Mapping[str, Callable[[Table], Any]]) -> list[Path]:
    """Write those figures that are drawn, by their keys, as ``figure-N.png``, without measures of claims; returns the
    files.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    paths = []
    for figure in (figure for figure in figures if figure.key in drawn):
        path = folder / f"figure-{figure.key}.png"
        drawing = drawn[figure.key](replace(figure, rows=[row for row in figure.rows if row.series != CLAIMS]))
        write_png(path, png(drawing, _DPI))
        paths.append(path)
    return paths
