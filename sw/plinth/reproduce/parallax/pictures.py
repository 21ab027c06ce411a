"""Pictures: throughput of each way (Table 4), equation 1 beside its samples (Table 2), messages over alpha (6)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plinth.partition.pieces import Fit
from plinth.report.canvas import png, write_png
from plinth.report.plan import LOOKS
from plinth.reproduce.paper import Table
from plinth.reproduce.parallax.cluster import Way
from plinth.reproduce.parallax.figures import FEWEST, SAMPLED_PIECES, WAYS
from plinth.reproduce.pictures import bar, bare, picture

OURS, PAPERS, GUESSED = LOOKS["dp"][2], "#777777", "#9fb8d8"
_DPI = 140


def draw(folder: Path, tables: Sequence[Table]) -> list[Path]:
    """``ways.png``, ``pieces.png``, ``our-pieces.png`` and ``alpha.png``, of those tables that are there; returns the
    files.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    drawn: dict[str, tuple[str, Callable[[Table], Any]]] = {
        "table4": ("ways.png", _ways), "table2": ("pieces.png", _pieces), "table5": ("our-pieces.png", _our_pieces),
        "table6": ("alpha.png", _alpha)}
    paths = []
    for table in (table for table in tables if table.key in drawn):
        name, make = drawn[table.key]
        write_png(folder / name, png(make(table), _DPI))
        paths.append(folder / name)
    return paths


def _ways(table: Table) -> Any:
    """Bars of the paper's throughput, ours by the network alone, and with rates fitted to two of LM's."""
    drawing, axes = picture("Table 4: thousand words a second on 48 GPUs by way", 9, 4, 1, len(FEWEST))
    for axis, name in zip(axes[0], FEWEST, strict=True):
        rows = {row.what: row for row in table.rows if row.series == name}
        for place, way in enumerate(WAYS):
            row = rows[way]
            values = ((row.paper, PAPERS), (row.ours, OURS), (row.further["rates"], GUESSED))
            for number, (value, colour) in enumerate(values):
                bar(axis, place - 0.42 + 0.28 * number, float(value or 0) / 1e3, 0.28, colour)
        axis.set_xticks(range(len(WAYS)), WAYS)
        axis.set_title(name, fontsize=10)
        axis.margins(y=0.15)
        bare(axis)
    axes[0, 0].set_ylabel("thousand words/s")
    for label, colour in (("paper", PAPERS), ("ours, network alone", OURS),
                          ("with rates fitted to NaivePS and AR of LM", GUESSED)):
        axes[0, 0].bar(0, 0, color=colour, label=label)
    _legend(drawing, axes[0, 0], 3)
    return drawing


def _pieces(table: Table) -> Any:
    """Seconds of a step over the number of pieces: the paper's samples, and equation 1 fitted to them."""
    drawing, axes = picture("Table 2: seconds of a step by pieces of tables, and equation 1", 9, 3.8, 1, len(FEWEST))
    for axis, name in zip(axes[0], FEWEST, strict=True):
        points = table.points[name]
        rows = {row.what: row for row in table.rows if row.series == name}
        samples = [points["words"] / float(rows[f"P = {count}"].paper or 1) for count in SAMPLED_PIECES]
        axis.plot(SAMPLED_PIECES, samples, "s", color=PAPERS, label="paper")
        _fitted(axis, Fit(*points["fit"]), SAMPLED_PIECES)
        axis.set_title(name, fontsize=10)
    axes[0, 0].set_ylabel("seconds")
    _legend(drawing, axes[0, 0], 2)
    return drawing


def _our_pieces(table: Table) -> Any:
    """Seconds of a step over the number of pieces as measured here, and equation 1 fitted to them."""
    drawing, axes = picture("Steps of our language model on four ranks by pieces of its table", 6, 3.8)
    pieces, samples = zip(*table.points["ours"]["samples"], strict=True)
    axes[0, 0].plot(pieces, [1e3 * each for each in samples], "o", color=OURS, label="ours")
    constant, shared, each = table.points["ours"]["fit"]
    _fitted(axes[0, 0], Fit(1e3 * constant, 1e3 * shared, 1e3 * each),
            [count for count in pieces if count & (count - 1) == 0])
    axes[0, 0].set_ylabel("ms")
    _legend(drawing, axes[0, 0], 2)
    return drawing


def _fitted(axis: Any, fit: Fit, ticks: Sequence[int]) -> None:
    """Equation 1 over the number of pieces, whose axis is logarithmic."""
    pieces = np.geomspace(min(ticks) / 1.5, 1.5 * max(ticks), 80)
    axis.plot(pieces, [fit.seconds(count) for count in pieces], color=OURS, label="equation 1, fitted")
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [str(count) for count in ticks])
    axis.set_ylim(0, None)
    axis.set_xlabel("pieces P")
    bare(axis)


def _alpha(table: Table) -> Any:
    """Seconds of messages of a step of LM over alpha of rows, every way; and Table 6's factor over alpha."""
    drawing, axes = picture("Alpha swept: messages of a step of LM by way (left), hybrid over servers in Table 6 "
                            "(right)", 9.5, 4, 1, 2)
    alphas, seconds = table.points["alphas"], table.points["seconds"]
    for way in Way:
        label = "rings of whole tables" if way == Way.RINGS else str(way)
        axes[0, 0].plot(alphas, [1e3 * each for each in seconds[way]], "o-", markersize=3, label=label)
    axes[0, 0].set_xscale("log")
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_xlabel("share of rows that a worker touches")
    axes[0, 0].set_ylabel("ms, network alone")
    axes[0, 0].legend(fontsize=8, frameon=False)
    rows = {series: [row for row in table.rows if row.series == series] for series in ("alpha", "speedup")}
    shares = [float(row.paper or 0) for row in rows["alpha"]]
    right = axes[0, 1]
    right.plot(shares, [row.paper for row in rows["speedup"]], "s--", color=PAPERS, label="paper")
    right.plot(shares, [row.ours for row in rows["speedup"]], "o-", color=OURS, label="ours, network alone")
    right.plot(shares, [row.further["rates"] for row in rows["speedup"]], "o-", color=GUESSED, label="with rates")
    right.set_xscale("log")
    right.set_ylim(0, None)
    right.set_xlabel("alpha of the model")
    right.set_ylabel("times as fast as TF-PS")
    right.legend(fontsize=8, frameon=False)
    for axis in axes[0]:
        bare(axis)
    return drawing


def _legend(drawing: Any, axis: Any, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)
