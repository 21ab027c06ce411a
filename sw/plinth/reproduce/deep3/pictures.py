"""The picture: speed-up of time to equal accuracy by kernels, beside synchronous training (Figure 5)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plinth.report.plan import LOOKS
from plinth.reproduce.deep3.runs import LINKS
from plinth.reproduce.paper import Table
from plinth.reproduce.pictures import bare, picture, write

OURS, SYNCHRONOUS, IDEAL = LOOKS["dp"][2], "#777777", "#cccccc"


def draw(folder: Path, tables: Sequence[Table]) -> list[Path]:
    """``figure-5.png``, if that table is there; returns the files.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    return write(folder, tables, {"5": _speed_up})


def _speed_up(table: Table) -> Any:
    """Curves of both ways, a link a part."""
    drawing, axes = picture("Figure 5's kind of curve: speed-up over one kernel of time to equal accuracy, digits, "
                            "virtual time", 9, 4, 1, len(LINKS))
    kernels = table.points["kernels"]
    for axis, link in zip(axes[0], LINKS, strict=True):
        axis.plot(kernels, kernels, "--", color=IDEAL, label="as many as kernels")
        axis.plot(kernels, table.points[link]["ours"], "o-", color=OURS, label="local networks")
        axis.plot(kernels, table.points[link]["together"], "s-", color=SYNCHRONOUS, label="synchronous, balanced")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        axis.set_xticks(kernels, [str(count) for count in kernels])
        axis.set_xlabel("kernels")
        axis.set_title(link, fontsize=10)
        bare(axis)
    axes[0, 0].set_ylabel("times as fast")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return drawing
