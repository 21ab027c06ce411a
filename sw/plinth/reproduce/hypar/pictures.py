"""The figures as pictures, in the paper's own form: bars on log scales, colour maps, curves, grids of splits."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plinth.report.plan import LOOKS
from plinth.reproduce import pictures
from plinth.reproduce.hypar.cases import CONSTANT, HYPAR, NAMES
from plinth.reproduce.paper import PaperRow, Table
from plinth.reproduce.pictures import PAPER, bar, bare

#: Colours of series: those of the splits, and one for HyPar.
COLOURS = {"data": LOOKS["dp"][2], "model": LOOKS["mp"][2], "hypar": LOOKS["op"][2],
           "energy": LOOKS["dp"][2]}
SERIES: dict[str, str] = HYPAR.data["series"]
#: Stands in the pictures that the fitted constant enters.
FITTED = "time = GB moved + K x GMAC, one fitted constant: K = 2/7 GB a GMAC"


def _picture(figure: Table, width: float, height: float, rows: int = 1, columns: int = 1) -> Any:
    title = f"HyPar, {figure.heading}"
    return pictures.picture(f"{title}\n{FITTED}" if CONSTANT in " ".join(figure.notes) else title, width, height,
                            rows, columns)


def _splits(figure: Table) -> Any:
    """Figure 5: a grid for each network, layers across, levels down."""
    from matplotlib.patches import Patch, Rectangle

    points = figure.points
    widest = max(len(network["layers"]) for network in points.values())
    drawing, axes = _picture(figure, 9.2, 16.5, len(points), 2)
    for pair, (name, network) in zip(axes, points.items(), strict=True):
        for axis, form in zip(pair, ("published", "exact"), strict=True):
            for place, layer in enumerate(network[form]):
                for level, digit in enumerate(layer):
                    axis.add_patch(Rectangle((place, level), 1, 1, edgecolor="white", linewidth=1.5,
                                             facecolor=LOOKS["mp" if digit == "1" else "dp"][2]))
            stated = {row.what.split()[1] for row in figure.rows if row.what.split()[0] == name}
            for part in stated if form == "published" else ():
                cells = ([(place, int(part[1]) - 1) for place in range(len(network["layers"]))]
                         if part not in network["layers"] else
                         [(network["layers"].index(part), level) for level in range(4)])
                for place, level in cells:
                    axis.plot(place + 0.5, level + 0.5, ".", color="white", markersize=4)
            axis.set(xlim=(0, widest), ylim=(4, 0), aspect="equal")
            axis.set_xticks([place + 0.5 for place in range(len(network["layers"]))], network["layers"],
                            rotation=90, fontsize=7)
            axis.set_yticks([level + 0.5 for level in range(4)], [f"H{level + 1}" for level in range(4)], fontsize=7)
            axis.tick_params(length=0)
            axis.set_title(f"{name}, {form} words", fontsize=8, loc="left", pad=3)
            bare(axis, ("top", "right", "bottom", "left"))
    drawing.legend(handles=[*(Patch(facecolor=LOOKS[split][2], label=LOOKS[split][0]) for split in ("dp", "mp")),
                            _dot("stated in the paper's text")],
                   loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return drawing


def _dot(label: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color="none", marker="o", markerfacecolor="white", markeredgecolor="grey", markersize=4,
                  label=label)


def _bars(axis: Any, names: Sequence[str], sets: Sequence[tuple[Sequence[PaperRow], str]], *, size: float = 6.5,
          inside: bool = False) -> None:
    """Groups of bars: of each set of rows the paper's, then ours, with their values above or inside."""
    wide = 0.84 / (2 * len(sets))
    for number, (rows, colour) in enumerate(sets):
        for place, row in enumerate(rows):
            for which, value in enumerate((row.paper, row.ours)):
                bar(axis, place - 0.42 + (2 * number + which) * wide, float(value or 0), wide, colour,
                    1 if which else PAPER, size=size, inside=inside)
    axis.set_xticks(range(len(names)), names, fontsize=9)
    axis.set_xlim(-0.55, len(names) - 0.45)
    bare(axis)


def _rows(figure: Table, series: str) -> list[PaperRow]:
    return [row for row in figure.rows if row.series == series]


def _handles(series: Sequence[str]) -> list[Any]:
    from matplotlib.patches import Patch

    return [Patch(facecolor=COLOURS[name], alpha=alpha, label=f"{SERIES[name]}, {who}")
            for name in series for who, alpha in (("paper", PAPER), ("ours", 1))]


#: Marks of simulated columns: key, marker, label.
MARKS = (("stated", "v", "simulated, stated bandwidth"), ("k_links", "x", "simulated, K's bandwidth"),
         ("our_dies", "D", "simulated, our dies"))


def _marks(axis: Any, figure: Table, sets: Sequence[Sequence[PaperRow]]) -> list[Any]:
    """Marks on our bars for the columns that are simulated; returns their legend."""
    from matplotlib.lines import Line2D

    wide, handles = 0.84 / (2 * len(sets)), []
    for key, marker, label in MARKS:
        if key not in figure.further:
            continue
        places = [(place - 0.42 + (2 * number + 1.5) * wide, row.further[key])
                  for number, rows in enumerate(sets) for place, row in enumerate(rows)]
        axis.plot(*zip(*places, strict=True), linestyle="none", marker=marker, markersize=4.5, color="black",
                  markerfacecolor="none", zorder=3)
        handles.append(Line2D([], [], linestyle="none", marker=marker, color="black", markerfacecolor="none",
                              markersize=4.5, label=label))
    return handles


def _against_data(figure: Table) -> Any:
    """Figures 6 and 7."""
    drawing, axes = _picture(figure, 13, 5)
    axis = axes[0, 0]
    drawn = [[row for row in _rows(figure, series) if row.what in (*NAMES, "gmean")] for series in ("model", "hypar")]
    axis.set_yscale("log")
    axis.set_ylim(*((0.008, 90) if figure.key == "6" else (0.06, 30)))
    axis.axhline(1, color=COLOURS["data"], linewidth=1.2)
    _bars(axis, [row.what for row in drawn[0]], [(drawn[0], COLOURS["model"]), (drawn[1], COLOURS["hypar"])], size=7.5)
    axis.set_ylabel(figure.unit)
    from matplotlib.lines import Line2D

    drawing.legend(handles=[*_handles(("model", "hypar")), *_marks(axis, figure, drawn),
                            Line2D([], [], color=COLOURS["data"], label="Data Parallelism = 1")],
                   loc="outside lower center", ncols=4, fontsize=8.5, frameon=False)
    return drawing


def _topologies(figure: Table) -> Any:
    """Figure 12: ours on both, and the geometric means that the paper prints."""
    from matplotlib.patches import Patch

    drawing, axes = _picture(figure, 11, 4.6)
    axis, looks = axes[0, 0], {"torus": LOOKS["mp"][2], "hypar": COLOURS["hypar"]}
    for number, (series, colour) in enumerate(looks.items()):
        rows = [row for row in _rows(figure, series) if row.what in (*NAMES, "gmean")]
        for place, row in enumerate(rows):
            bars = [(row.paper, PAPER)] if row.what == "gmean" else []
            for which, (value, alpha) in enumerate([*bars, (row.ours, 1)]):
                bar(axis, place - 0.4 + 0.4 * number + (0.2 * which if bars else 0), float(value or 0),
                    0.4 / (1 + len(bars)), colour, alpha)
    axis.set_yscale("log")
    axis.set_ylim(0.5, 60)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_xticks(range(len(NAMES) + 1), (*NAMES, "gmean"), fontsize=9)
    bare(axis)
    axis.set_ylabel(figure.unit)
    drawing.legend(handles=[*(Patch(facecolor=colour, label=f"{name}, simulated") for colour, name in
                              ((looks["torus"], "torus"), (looks["hypar"], "H-tree"))),
                            Patch(facecolor="grey", alpha=PAPER, label="paper (geometric means only)")],
                   loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
    return drawing


def _communication(figure: Table) -> Any:
    """Figure 8: bars, and a line across ours at what the dies really move."""
    drawing, axes = _picture(figure, 15, 5.6)
    axis = axes[0, 0]
    names = ("model", "data", "hypar")
    sets = [(_rows(figure, series), COLOURS[series]) for series in names]
    axis.set_yscale("log")
    axis.set_ylim(0.001, 1000)
    _bars(axis, [row.what for row in sets[0][0]], sets, size=7, inside=True)
    wide = 0.84 / (2 * len(sets))
    for number, (rows, _) in enumerate(sets):
        for place, row in enumerate(rows):
            left = place - 0.42 + (2 * number + 1) * wide
            axis.hlines(row.further["exact"], left - wide * 0.1, left + wide * 1.04, color="black", linewidth=1.6)
    axis.set_ylabel(figure.unit)
    from matplotlib.lines import Line2D

    drawing.legend(handles=[*_handles(names), Line2D([], [], color="black", label="the dies, same splits")],
                   loc="outside lower center", ncols=7, fontsize=8.5, frameon=False)
    return drawing


def _space(figure: Table) -> Any:
    """Figures 9 and 10: a colour map of all points, HyPar's choice and the highest points marked."""
    points = figure.points
    drawing, axes = _picture(figure, 7.4, 6.6)
    axis, codes = axes[0, 0], points["codes"]
    image = axis.imshow(points["values"], cmap="viridis", aspect="equal")
    axis.set_xticks(range(len(codes)), codes, rotation=90, fontsize=8, family="monospace")
    axis.set_yticks(range(len(codes)), codes, fontsize=8, family="monospace")
    axis.set(xlabel=points["across"], ylabel=points["down"])
    for marks, marker, area, label in ((points["peaks"], "*", 110, "highest, ours"),
                                       ([points["hypar"]], "s", 190, "HyPar's choice")):
        axis.scatter([codes.index(mark[1]) for mark in marks], [codes.index(mark[0]) for mark in marks],
                     marker=marker, s=area, facecolors="none" if marker == "s" else "#d62728", edgecolors="#d62728",
                     linewidths=1.4, label=label)
    peak = next(str(row.paper) for row in figure.rows if row.what.startswith("where")).split()
    axis.scatter(codes.index(peak[1]), codes.index(peak[0]), marker="o", s=330, facecolors="none",
                 edgecolors="black", linewidths=1.4, label="highest, paper")
    drawing.colorbar(image, ax=axis, label=figure.unit, shrink=0.85)
    drawing.legend(loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
    return drawing


def _scaling(figure: Table) -> Any:
    """Figure 11: gains on the left axis, communication on the right."""
    points = figure.points
    drawing, axes = _picture(figure, 8.4, 5.6)
    axis = axes[0, 0]
    other = axis.twinx()
    sizes = points["accelerators"]
    for series in ("hypar", "data"):
        axis.plot(sizes, points["gain"][series], "o-", color=COLOURS[series], label=f"{SERIES[series]}, gain")
        other.plot(sizes[1:], points["gb"][series][1:], "s--", color=COLOURS[series], alpha=0.55, markersize=4,
                   label=f"{SERIES[series]}, communication")
        row = next(row for row in _rows(figure, series) if row.what == "fastest with")
        axis.axvline(row.paper, color=COLOURS[series], linestyle=":", linewidth=1.4,
                     label=f"{SERIES[series]}, fastest in the paper")
        for key, style, what in (("whole", "x", "one total"), ("links", "v:", "a link each")):
            axis.plot(sizes, points["simulated"][key][series], style, color=COLOURS[series], markersize=5,
                      markerfacecolor="none", linewidth=0.9, label=f"{SERIES[series]}, simulated, {what}")
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.set(xlabel="accelerators", ylabel="gain over one accelerator", ylim=(0, 21))
    other.set(ylabel="communication of a step, GB", yscale="log")
    axis.grid(True, alpha=0.25)
    drawing.legend(loc="outside lower center", ncols=2, fontsize=8.5, frameon=False)
    return drawing


def _trick(figure: Table) -> Any:
    """Figure 13."""
    drawing, axes = _picture(figure, 8.5, 4.4)
    axis, sets = axes[0, 0], [(_rows(figure, series), COLOURS[series]) for series in ("hypar", "energy")]
    _bars(axis, [row.what.replace("-", "\n", 1) for row in sets[0][0]], sets, size=7)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set(ylabel=figure.unit, ylim=(0, 2.75))
    drawing.legend(handles=[*_handles(("hypar",)), *_handles(("energy",))], loc="outside lower center", ncols=4,
                   fontsize=8.5, frameon=False)
    return drawing


_DRAWN: dict[str, Callable[[Table], Any]] = {
    "5": _splits, "6": _against_data, "7": _against_data, "8": _communication, "9": _space, "10": _space,
    "11": _scaling, "12": _topologies, "13": _trick}


def draw(folder: Path, figures: Sequence[Table]) -> list[Path]:
    """Write the pictures of a reproduction."""
    return pictures.write(folder, figures, _DRAWN)
