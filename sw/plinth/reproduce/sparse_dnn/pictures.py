"""Pictures of Table 1, a column of panels for each network: volume and messages of H over R by processors, ours and the
paper's; and how what a processor sends scales with their number, which no run on processors is needed for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plinth.network.sparse.radix_net import CONNECTIONS
from plinth.report.canvas import png, write_png
from plinth.report.plan import LOOKS
from plinth.reproduce.paper import Table
from plinth.reproduce.pictures import bare, picture
from plinth.reproduce.sparse_dnn.cases import LAYERS

#: What is drawn, from top to bottom.
DRAWN = {"ratio_vol_avg": "volume, average, H/R", "ratio_msg_avg": "messages, average, H/R"}
OURS, PAPERS = LOOKS["dp"][2], "#777777"
_DPI = 140


#: What scales, from top to bottom: words of a processor, and words over its multiply-adds.
SCALED = ("thousand words a processor", "words over multiply-adds")


def draw(folder: Path, tables: Sequence[Table]) -> list[Path]:
    """``ratios.png`` and ``scaling.png`` of those tables that have both H and R, and ``times.png`` of that of scaling
    over ranks; returns the files, or none.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    networks = [table for table in tables if any(row.series in DRAWN and row.ours is not None for row in table.rows)]
    times = [_times(folder / "times.png", table) for table in tables if table.key == "scaling" and table.points]
    if not networks:
        return times
    drawing, axes = picture("Communication of partitions (H) over that of rows dealt out at random (R), 120 layers",
                            1.2 + 3.9 * len(networks), 6.6, len(DRAWN), len(networks))
    for column, table in enumerate(networks):
        for line, (series, label) in enumerate(DRAWN.items()):
            _panel(axes[line, column], table, series)
            axes[line, column].set_ylabel(label if column == 0 else "")
    return [_written(folder / "ratios.png", drawing, axes, networks), _scaling(folder, networks), *times]


def _scaling(folder: Path, networks: Sequence[Table]) -> Path:
    """``scaling.png``: what a processor sends of H and of R, by a run and by the formula, alone and beside its work of
    fprop and bprop, 2 x 32 N L / P multiply-adds."""
    drawing, axes = picture("What a processor sends for an input vector, by the number of processors, 120 layers",
                            1.2 + 3.9 * len(networks), 6.6, len(SCALED), len(networks))
    for column, table in enumerate(networks):
        rows = [row for row in table.rows if row.series == "ratio_vol_avg" and row.ours is not None]
        processors = [int(row.what.removeprefix("P = ")) for row in rows]
        work = [2 * CONNECTIONS * int(table.points["neurons"]) * LAYERS / each / 1e3 for each in processors]
        for key, label, style in (("h", "H", "o-"), ("r", "R, by a run", "s-"), ("formula", "R, expected", ":")):
            words = [float(row.further[key] or 0) for row in rows]
            colour = OURS if key == "h" else PAPERS if key == "r" else "black"
            axes[0, column].plot(processors, words, style, color=colour, label=label)
            axes[1, column].plot(processors, [each / of for each, of in zip(words, work, strict=True)], style,
                                 color=colour, label=label)
        for line, label in enumerate(SCALED):
            axis = axes[line, column]
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks(processors, [str(each) for each in processors])
            axis.set_ylabel(label if column == 0 else "")
            bare(axis)
    return _written(folder / "scaling.png", drawing, axes, networks)


def _times(path: Path, table: Table) -> Path:
    """``times.png``: milliseconds of SpFF and SpBP an input by ranks, H and R; filled marks were measured, hollow ones
    simulated. A column a network, a row a number of inputs of a step."""
    cases = [tuple(map(int, key.split("-"))) for key in table.points]
    columns, lines = sorted({neurons for neurons, _ in cases}), sorted({samples for _, samples in cases})
    drawing, axes = picture("SpFF and SpBP of an input over ranks, 120 layers: measured (filled), simulated (hollow)",
                            1.2 + 3.9 * len(columns), 6.6, len(lines), len(columns))
    for neurons, samples in cases:
        axis = axes[lines.index(samples), columns.index(neurons)]
        points = table.points[f"{neurons}-{samples}"]
        for key, label, mark, colour in (("h", "H", "o", OURS), ("r", "R", "s", PAPERS)):
            for how, face, style in (("simulated", "white", "-"), ("measured", colour, "")):
                chosen = [point for point in points if point["how"] == how]
                axis.plot([point["parts"] for point in chosen], [point[key] for point in chosen], mark, linestyle=style,
                          color=colour, markerfacecolor=face, label=f"{label}, {how}")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        ranks = sorted({point["parts"] for point in points})
        axis.set_xticks(ranks, [str(rank) for rank in ranks], fontsize=8)
        if samples == lines[0]:
            axis.set_title(f"N = {neurons:,}", fontsize=10)
        if samples == lines[-1]:
            axis.set_xlabel("ranks P")
        if neurons == columns[0]:
            axis.set_ylabel(f"ms an input, {samples} a step")
        bare(axis)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    write_png(path, png(drawing, _DPI))
    return path


def _written(path: Path, drawing: Any, axes: Any, networks: Sequence[Table]) -> Path:
    """Write a picture of a column a network, with its titles and legend; its path."""
    for column, table in enumerate(networks):
        axes[0, column].set_title(table.title.removeprefix("Table 1, "), fontsize=10)
        axes[-1, column].set_xlabel("processors P")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    write_png(path, png(drawing, _DPI))
    return path


def _panel(axis: Any, table: Table, series: str) -> None:
    """Ours and the paper's by processors, and what even rows need at least."""
    rows = [row for row in table.rows if row.series == series and row.entry is not None and row.ours is not None]
    processors = [int(row.what.removeprefix("P = ")) for row in rows]
    axis.plot(processors, [row.paper for row in rows], "s--", color=PAPERS, label="paper")
    axis.plot(processors, [row.ours for row in rows], "o-", color=OURS, label="ours")
    if any(row.further.get("least") for row in rows):
        # Expected words of R, so that the line is none of the draw's.
        pairs = [(float(row.further["least"] or 0), float(row.further["formula"] or 1)) for row in rows]
        axis.plot(processors, [least / formula for least, formula in pairs], ":", color="black", linewidth=1,
                  label="least with even rows")
    volume = series == "ratio_vol_avg"
    for row, processor in zip(rows, processors, strict=True):
        ours, theirs = float(row.ours or 0), float(row.paper or 0)
        # Below volumes is the least; messages fall.
        for value, colour, above in ((ours, OURS, volume or ours > theirs), (theirs, PAPERS, volume or ours <= theirs)):
            axis.annotate(f"{value:.2g}", (processor, value), (0, 5 if above else -5), textcoords="offset points",
                          ha="center", va="bottom" if above else "top", fontsize=7.5, color=colour)
    axis.set_xscale("log", base=2)
    axis.set_xticks(processors, [str(processor) for processor in processors])
    axis.set_ylim(*((-0.03, 0.72) if volume else (-0.09, 1.08)))
    axis.margins(x=0.1)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
