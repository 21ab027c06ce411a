"""The figures as pictures: bars of ours by system or scheme, and the paper's where it prints a number."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from plinth.report.plan import LOOKS
from plinth.reproduce import pictures
from plinth.reproduce.mpt.cases import CNNS, LAYERS, MPT
from plinth.reproduce.mpt.figures import MEANS
from plinth.reproduce.paper import Table
from plinth.reproduce.pictures import PAPER, bar, bare

#: Colours of the systems of Table IV.
COLOURS = {"d_dp": "#9a9a9a", "w_dp": LOOKS["dp"][2], "w_mp": LOOKS["ep"][2], "w_mp+": "#d59ac9",
           "w_mp*": LOOKS["op"][2], "w_mp+*": "#9fcf8f"}


def _systems(figure: Table, names: Sequence[str], further: str | None = None) -> Any:
    """Figures 15 and 17: a group of bars for each layer or network and mean, a bar for each system, and the paper's
    beside it where it prints a number; ``further``: below them, the same of that column, of which the paper prints the
    most of a system."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    columns = (None, further) if further else (None,)
    drawing, axes = pictures.picture(f"MPT, {figure.heading}", 13, 4.4 * len(columns), len(columns))
    rows = {(row.series, row.what): row for row in figure.rows}
    systems = [system for system in COLOURS if (system, names[0]) in rows]
    wide, limits = 0.84 / len(systems), []
    for axis, column in zip(axes[:, 0], columns, strict=True):
        for number, system in enumerate(systems):
            for place, name in enumerate(names):
                row, left = rows[system, name], place - 0.42 + number * wide
                value = row.further[column] if column else row.ours
                shown = column is None and isinstance(row.paper, float | int)
                if shown:
                    bar(axis, left, float(row.paper or 0), wide / 2, COLOURS[system], PAPER)
                bar(axis, left + (wide / 2 if shown else 0), float(value or 0), wide / 2 if shown else wide,
                    COLOURS[system])
        axis.axhline(1, color="black", linewidth=0.8)
        for (system, what), row in rows.items():
            if column and what == f"{column}, most":
                most = float(row.paper or 0)
                axis.axhline(most, color=COLOURS[system], linestyle="--", linewidth=1.2)
                limits.append(Line2D([], [], color=COLOURS[system], linestyle="--",
                                     label=f"paper, most {column} of {system}: {most:g}"))
        axis.set_xticks(range(len(names)), [name.replace(" mean", "\nmean") for name in names], fontsize=9)
        axis.margins(y=0.12)
        axis.set_ylabel(f"{column or 'time'} of w_dp / its own")
        bare(axis)
    drawing.legend(handles=[*(Patch(facecolor=COLOURS[system], label=MPT.data["series"][system]) for system in systems),
                            *([Patch(facecolor="grey", alpha=PAPER, label="paper, where it prints a number")]
                              if any(rows[system, name].paper is not None for system in systems for name in names)
                              else []), *limits],
                   loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
    return drawing


def _plain(figure: Table) -> Any:
    """Figures 1 and 16: a bar for each row, and the paper's beside it."""
    from matplotlib.patches import Patch

    drawing, axes = pictures.picture(f"MPT, {figure.heading}", 9, 4.4)
    axis = axes[0, 0]
    rows = [row for row in figure.rows if row.ours is not None and (row.series or row.paper is not None)]
    for place, row in enumerate(rows):
        both = row.paper is not None
        if both:
            bar(axis, place - 0.4, float(row.paper or 0), 0.4, COLOURS["w_mp"], PAPER)
        bar(axis, place - (0 if both else 0.4), float(row.ours or 0), 0.4 if both else 0.8, COLOURS["w_mp"])
    names = [row.what.replace(", ", "\n") + (f"\n{row.series}" if row.series in COLOURS else "") for row in rows]
    turned = {"rotation": 45, "rotation_mode": "anchor", "ha": "right"} if len(rows) > 5 else {}
    axis.set_xticks(range(len(rows)), names, fontsize=8, **turned)
    axis.margins(y=0.12)
    axis.set_ylabel(figure.unit)
    bare(axis)
    drawing.legend(handles=[Patch(facecolor=COLOURS["w_mp"], alpha=alpha, label=who)
                            for alpha, who in ((PAPER, "paper"), (1, "ours"))],
                   loc="outside lower center", ncols=2, fontsize=8.5, frameon=False)
    return drawing


def _units(figure: Table) -> Any:
    """Figure 12: of each network tiles and lines; bars of what was found, and a dotted line at what there is."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    groups: dict[tuple[str, str], dict[str, float]] = {}
    for row in figure.rows:
        what, _, kind = row.what.rpartition(", ")
        groups.setdefault((row.series, what), {})[kind] = float(row.ours or 0)
    drawing, axes = pictures.picture(f"MPT, {figure.heading}", 9, 4.4)
    axis = axes[0, 0]
    kinds = [kind for kind in next(iter(groups.values())) if kind != "dead"]
    colours = [*("#9a9a9a",) * (len(kinds) - 1), COLOURS["w_mp"]]
    wide = 0.84 / len(kinds)
    for place, shares in enumerate(groups.values()):
        for number, (kind, colour) in enumerate(zip(kinds, colours, strict=True)):
            bar(axis, place - 0.42 + number * wide, shares[kind], wide, colour,
                0.4 + 0.6 * (number + 1) / len(kinds), inside=True)
        axis.plot((place - 0.42, place + 0.42), (shares["dead"],) * 2, color="black", linestyle=":")
    axis.set_xticks(range(len(groups)), ["\n".join(group) for group in groups], fontsize=9)
    axis.margins(y=0.12)
    axis.set_ylabel(figure.unit)
    bare(axis)
    drawing.legend(handles=[*(Patch(facecolor=colour, alpha=0.4 + 0.6 * (number + 1) / len(kinds), label=kind)
                              for number, (kind, colour) in enumerate(zip(kinds, colours, strict=True))),
                            Line2D([], [], color="black", linestyle=":", label="dead")],
                   loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
    return drawing


def _workers(figure: Table) -> Any:
    """Figures 6 and 7: of each network or layer a group for each number of workers, a bar for each kind of words, on a
    scale of powers."""
    from matplotlib.patches import Patch

    bars: dict[str, dict[str, dict[str, float]]] = {}
    for row in figure.rows:
        if row.series:
            workers, what = row.what.split(", ", 1)
            bars.setdefault(row.series, {}).setdefault(workers, {})[what] = float(row.ours or 0)
    drawing, axes = pictures.picture(f"MPT, {figure.heading}", 5.5 * len(bars) + 1, 4.4, 1, len(bars))
    kinds = list(next(iter(next(iter(bars.values())).values())))
    colours = dict(zip(kinds, (COLOURS["w_dp"], COLOURS["w_mp"], COLOURS["w_mp*"]), strict=True))
    wide = 0.84 / len(kinds)
    for axis, (series, groups) in zip(axes[0], bars.items(), strict=True):
        axis.set_yscale("log")
        for place, words in enumerate(groups.values()):
            for number, (what, value) in enumerate(words.items()):
                bar(axis, place - 0.42 + number * wide, value, wide, colours[what])
        axis.set_xticks(range(len(groups)), list(groups), fontsize=9)
        axis.margins(y=0.12)
        axis.set_xlabel(f"workers, {MPT.data['series'][series]}" if len(bars) > 1 else "workers")
        axis.set_ylabel("MB a worker")
        bare(axis)
    drawing.legend(handles=[Patch(facecolor=colour, label=what) for what, colour in colours.items()],
                   loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
    return drawing


def _whole(figure: Table) -> Any:
    """Figure 18: of each quantity bars of the systems, network by network."""
    from matplotlib.patches import Patch

    bars: dict[str, dict[str, dict[str, float]]] = {}
    for row in figure.rows:
        name, what = row.what.split(", ", 1)
        bars.setdefault(what, {}).setdefault(row.series, {})[name] = float(row.ours or 0)
    drawing, axes = pictures.picture(f"MPT, {figure.heading}", 13, 4.2, 1, len(bars))
    systems = list(next(iter(bars.values())))
    wide = 0.84 / len(systems)
    for axis, (what, by_system) in zip(axes[0], bars.items(), strict=True):
        for number, (system, values) in enumerate(by_system.items()):
            for place, value in enumerate(values.values()):
                bar(axis, place - 0.42 + number * wide, value, wide, COLOURS[system])
        axis.set_xticks(range(len(CNNS)), CNNS, fontsize=8.5)
        axis.margins(y=0.12)
        axis.set_ylabel(what)
        bare(axis)
    drawing.legend(handles=[Patch(facecolor=COLOURS[system], label=MPT.data["series"][system]) for system in systems],
                   loc="outside lower center", ncols=2, fontsize=8.5, frameon=False)
    return drawing


_DRAWN: dict[str, Callable[[Table], Any]] = {
    "1": _plain, "6": _workers, "7": _workers, "12": _units,
    "15": partial(_systems, names=(*LAYERS, *MEANS), further="energy"), "16": _plain,
    "17": partial(_systems, names=(*CNNS, "geometric mean")), "18": _whole}


def draw(folder: Path, figures: Sequence[Table]) -> list[Path]:
    """Write the pictures of a reproduction."""
    return pictures.write(folder, figures, _DRAWN)
