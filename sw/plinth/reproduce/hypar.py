"""HyPar's evaluation (Song et al., HPCA 2019, section 6), computed anew beside what the paper prints.

Words are those of :mod:`plinth.plan.cost.published` in the variant ``figure-8``, by which the splits are chosen, too.
The paper's simulator is not public; performance follows from one formula with one fitted constant,

    time = GB moved + K x GMAC x (batch / 256) x (16 / accelerators),        K = 2/7 GB for each GMAC,

where GMAC counts, for a sample, weights times positions of the layer's input map. Nothing overlaps. K was fitted to
the HyPar bars of Figure 6. What does not follow from this is shown with the reason, not forced.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import Any

from plinth.errors import UserError
from plinth.model.files import read_yaml
from plinth.model.zoo import NETWORKS
from plinth.plan.cost.exact import ExactWords
from plinth.plan.cost.published import PublishedWords
from plinth.plan.graph import DP, MP, Node, PlanGraph, chain, from_network
from plinth.plan.partition import Splits
from plinth.plan.planners import simple
from plinth.plan.planners.hypar import hypar
from plinth.reproduce.simulated import (
    HALF_ROW_TORUS,
    K_LINKS,
    LINK_TORUS,
    OUR_DIES,
    OUR_TORUS,
    ROW_TORUS,
    STATED,
    TORUS,
    Setting,
    joules,
    our_tree,
    outcome,
    tree,
)

#: The fitted constant: GB that take as long as a GMAC of a sample, at batch 256 on 16 accelerators.
GB_PER_GMAC = Fraction(2, 7)
#: Setup of section 6.1.
BATCH, LEVELS = 256, 4
#: The ten networks of section 6.1; of AlexNet the tower that the paper's figures imply.
NAMES = ("sfc", "sconv", "lenet-c", "cifar-c", "alexnet-tower", "vgg-a", "vgg-b", "vgg-c", "vgg-d", "vgg-e")
#: Series of bars, in the order of the tables.
SERIES = {"hypar": "HyPar", "data": "Data Parallelism", "model": "Model Parallelism", "explored": "explored",
          "torus": "HyPar on a torus", "hypar-exact": "HyPar by exact words"}
CONSTANT = "time = GB moved + K x GMAC, with the one fitted constant K = 2/7 GB a GMAC (batch 256, 16 accelerators)"
#: A number, a statement, or nothing.
Value = float | str | None
#: All splits of a layer at the levels of the paper's array, or of four layers at a level.
CODES = tuple("".join(code) for code in product("01", repeat=4))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number of the paper, or statement, beside ours."""

    series: str
    what: str
    paper: Value
    ours: Value
    confidence: str | None
    note: str = ""
    #: What the figure's further columns show, by their keys.
    further: dict[str, Value] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's; of splits, the share of equal ones."""
        if isinstance(self.paper, str) and isinstance(self.ours, str) and len(self.paper) == len(self.ours):
            pairs = [(one, two) for one, two in zip(self.paper, self.ours, strict=True) if one != " "]
            return sum(one == two for one, two in pairs) / len(pairs)
        if isinstance(self.paper, str) or isinstance(self.ours, str) or self.paper is None or self.ours is None:
            return None
        return self.ours / self.paper


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of the paper: rows to compare, and all points for its picture."""

    number: int
    title: str
    where: str
    unit: str
    rows: Sequence[Row]
    notes: Sequence[str]
    #: Headings of the rows' further columns, by their keys.
    further: dict[str, str] = field(default_factory=dict)
    points: dict[str, Any] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        rows = []
        for row in self.rows:
            made: dict[str, Any] = {"series": row.series, "what": row.what, "paper": row.paper, "ours": row.ours,
                                    "ratio": row.ratio, "confidence": row.confidence, "note": row.note}
            rows.append(made | {key: row.further.get(key) for key in self.further})
        return {"figure": self.number, "title": self.title, "where": self.where, "unit": self.unit, "rows": rows,
                "notes": list(self.notes), "points": self.points}


@lru_cache(maxsize=1)
def published() -> dict[str, Any]:
    """The paper's own values."""
    found: dict[str, Any] = read_yaml(Path(__file__).with_name("hypar.yaml"))
    return found


class _Draft:
    """A figure under construction: rows are looked up among the paper's values."""

    def __init__(self, number: int, **further: str) -> None:
        self.number, self.further = number, further
        self.head = next(head for head in published()["figures"] if head["figure"] == number)
        self.values = {(value["series"], value["what"]): value for value in published()["values"]
                       if value["figure"] == number}
        self.rows: list[Row] = []
        self.notes: list[str] = list(self.head.get("notes", ()))
        self.points: dict[str, Any] = {}

    def paper(self, series: str, what: str) -> Any:
        """The paper's value."""
        return self.values[series, what]["value"]

    def add(self, series: str, what: str, ours: Value, further: Mapping[str, Value] | None = None, *,
            note: str = "") -> None:
        """Add a row."""
        value = self.values.get((series, what), {})
        self.rows.append(Row(
            series=series, what=what, paper=value.get("value"), ours=ours, confidence=value.get("confidence"),
            note="; ".join(text for text in (value.get("note", ""), note) if text), further=dict(further or {})))

    def done(self) -> Figure:
        """The figure."""
        return Figure(number=self.number, title=self.head["title"], where=self.head["where"], unit=self.head["unit"],
                      rows=self.rows, notes=self.notes, further=self.further, points=self.points)


def gmacs(graph: PlanGraph) -> float:
    """10^9 multiply-adds of a sample as the fit counts them: weights times positions of the input map."""
    return sum(node.weights * node.input_positions for node in graph.nodes) / 1e9


def compute_gb(graph: PlanGraph, batch: int, levels: int) -> float:
    """GB that take as long as the compute of a step."""
    return float(GB_PER_GMAC * batch / BATCH * Fraction(1 << LEVELS, 1 << levels)) * gmacs(graph)


class Case:
    """A network on an array: splits, GB moved, and the time that the formula gives."""

    def __init__(self, graph: PlanGraph, batch: int = BATCH, levels: int = LEVELS) -> None:
        self.graph = graph
        self.words, self.exact = PublishedWords(graph, batch), ExactWords(graph, batch)
        self.compute = compute_gb(graph, batch, levels)
        self.splits: dict[str, Splits] = {
            "hypar": hypar(self.words, levels), "data": simple.data(graph, levels),
            "model": simple.model(graph, levels), "trick": simple.one_weird_trick(graph, levels)}
        self.planned_exact = hypar(self.exact, levels)

    def gb(self, splits: Splits) -> float:
        """GB that the published model counts."""
        return self.words.total_bytes(splits) / 1e9 if splits[0] else 0.0

    def exact_gb(self, splits: Splits) -> float:
        """GB that the dies really move."""
        return self.exact.total_bytes(splits) / 1e9

    def time(self, splits: Splits) -> float:
        """Time of a step, in GB."""
        return self.gb(splits) + self.compute

    def gain(self, splits: Splits) -> float:
        """Performance against Data Parallelism."""
        return self.time(self.splits["data"]) / self.time(splits)

    def number(self, layer: str) -> int:
        """Number of a layer's node."""
        return next(number for number, node in enumerate(self.graph.nodes) if node.name == layer)


@lru_cache(maxsize=32)
def case(name: str, levels: int = LEVELS) -> Case:
    """A network of the zoo at the paper's batch."""
    return Case(from_network(NETWORKS[name]), levels=levels)


def code(splits: Iterable[str]) -> str:
    """0 for dp, 1 for mp."""
    return "".join("1" if split == MP else "0" for split in splits)


def _vector(code_: str) -> tuple[str, ...]:
    return tuple(MP if digit == "1" else DP for digit in code_)


def mean(values: Sequence[float]) -> float:
    """Geometric mean."""
    return float(prod(values) ** (1 / len(values)))


def _stated(splits: Splits, found: Case, part: str) -> str:
    """Splits of a level ("H1") over the weighted layers, or of a layer over the levels."""
    if part in ("H1", "H2", "H3", "H4"):
        return code(splits[number][int(part[1]) - 1] for number in found.graph.weighted)
    return code(splits[found.number(part)])


def _figure_5() -> Figure:
    made = _Draft(5, exact="exact")
    plans = {name: (case(name).splits["hypar"], case(name).planned_exact) for name in NAMES}
    for series, what in made.values:
        name, _, part = what.partition(" ")
        if name in plans:
            ours, exact = (_stated(splits, case(name), part) for splits in plans[name])
            made.add(series, what, ours, {"exact": exact})
    for what, kind, split in (("convolutions with dp", "convolution", DP), ("fully connected with mp", "dense", MP)):
        shares = []
        for which in (0, 1):
            cells = [cell for name in NAMES for number, node in enumerate(case(name).graph.nodes)
                     if node.kind == kind for cell in plans[name][which][number]]
            shares.append(f"{cells.count(split)} of {len(cells)}")
        made.add("hypar", what, shares[0], {"exact": shares[1]})
    mixed = [sum(len({cell for number in case(name).graph.weighted for cell in plans[name][which][number]}) > 1
                 for name in NAMES) for which in (0, 1)]
    made.add("hypar", "networks with both", mixed[0], {"exact": mixed[1]})
    made.notes.append("'exact': what the same search chooses when it counts the words that the dies really move")
    for name in NAMES:
        graph = case(name).graph
        made.points[name] = {"layers": [graph.nodes[number].name for number in graph.weighted]} | {
            form: [code(splits[number]) for number in graph.weighted]
            for form, splits in zip(("published", "exact"), plans[name], strict=True)}
    return made.done()


def _gains(series: str, setting: Setting, against: Setting | None = None) -> list[float]:
    """Performance of a series in a setting against Data Parallelism in the same or another one, of all networks."""
    found = []
    for name in NAMES:
        one = case(name)
        splits = one.planned_exact if series == "hypar" and not setting.paper else one.splits[series]
        found.append(outcome(one.graph, one.splits["data"], BATCH, against or setting).seconds
                     / outcome(one.graph, splits, BATCH, setting).seconds)
    return found


def _with_mean(values: list[float]) -> list[float]:
    return [*values, mean(values)]


def _figure_6() -> Figure:
    made, bytes_ = _Draft(6, from_paper_gb="GB", stated="stated", k_links="K", our_dies="dies"), _Draft(8)
    for series in ("hypar", "model"):
        ours, theirs = [], []
        for name in NAMES:
            found = case(name)
            ours.append(found.gain(found.splits[series]))
            data, other = (bytes_.paper(which, name) + found.compute for which in ("data", series))
            theirs.append(data / other)
        note = "" if series == "hypar" else "follows Figure 8's Model Parallelism, which does not come out"
        columns = zip(_with_mean(theirs), *(_with_mean(_gains(series, setting)) for setting in
                                            (STATED, K_LINKS, OUR_DIES)), strict=True)
        for name, value, (from_gb, *simulated) in zip((*NAMES, "gmean"), _with_mean(ours), columns, strict=True):
            made.add(series, name, value, dict(zip(made.further, (from_gb, *simulated), strict=True)), note=note)
    source = outcome(case(NAMES[0]).graph, case(NAMES[0]).splits["data"], BATCH, OUR_DIES).source
    made.notes += [CONSTANT, "'GB': the same formula on the paper's own Figure 8 instead of our words; it gives the "
                   "Model Parallelism bars, too",
                   "'stated': simulated with the bandwidths that the paper states: 16 links of 1600 Mb/s move 3.2 "
                   "GB/s; reductions run beside the backward pass, and little of the communication is left to see",
                   "'K': simulated with links of 125 Mb/s, which the fitted K means, and nothing overlapping",
                   f"'dies': simulated, our row-stationary dies at 250 MHz on the stated links, exact words; cycles "
                   f"from {source}"]
    return made.done()


def _figure_7() -> Figure:
    made = _Draft(7, our_dies="dies", stored="stored", scratchpads="pads")
    for series in ("hypar", "model"):
        note = "" if series == "hypar" else "follows Figure 8's Model Parallelism, which does not come out"
        columns: list[list[float]] = []
        for setting, more in ((STATED, {}), (OUR_DIES, {}), (STATED, {"reads": 2}), (STATED, {"scratchpads": 4})):
            values = []
            for name in NAMES:
                one = case(name)
                splits = one.planned_exact if series == "hypar" and not setting.paper else one.splits[series]
                data, other = (joules(outcome(one.graph, which, BATCH, setting).counts, **more)
                               for which in (one.splits["data"], splits))
                values.append(data / other)
            columns.append(values)
        for place, name in enumerate((*NAMES, "gmean")):
            ours, *further = (_with_mean(values)[place] for values in columns)
            made.add(series, name, ours, dict(zip(made.further, further, strict=True)), note=note)
        if not note:
            theirs = [made.paper(series, name) for name in NAMES]
            orders = [sum((theirs[one] - theirs[two]) * (values[one] - values[two]) > 0
                          for one, two in combinations(range(len(NAMES)), 2)) for values in columns]
            made.add(series, "pairs in this order", orders[0], dict(zip(made.further, orders[1:], strict=True)))
    made.notes += [
        "simulated as Figure 6's column 'stated'. The paper leaves access counts open. Assumed: a multiplication and "
        "an addition a multiply-add; a product reads its operands from memory and writes its result once, through the "
        "buffer (two SRAM accesses a word); a word sent is read from memory, and written where it arrives; where it is "
        "added, the other summand is read, too; links 6.78 pJ a bit",
        "'stored': what arrives to be added is written and read again, two accesses more. This was tried first; the "
        "reading that is nearer the paper was taken",
        "'pads': four accesses of 5 pJ a multiply-add in the PEs' scratchpads, for which the paper gives no figure",
        "'dies': our dies, exact words"]
    return made.done()


def _figure_8() -> Figure:
    made = _Draft(8, exact="exact")
    for series in ("hypar", "data", "model"):
        note = "" if series != "model" else "no reading of Tables 1 and 2 that was tried gives these bars"
        ours = [case(name).gb(case(name).splits[series]) for name in NAMES]
        exact = [case(name).exact_gb(case(name).splits[series]) for name in NAMES]
        for name, value, moved in zip((*NAMES, "gmean"), (*ours, mean(ours)), (*exact, mean(exact)), strict=True):
            made.add(series, name, value, {"exact": moved}, note=note)
    exact = [case(name).exact_gb(case(name).planned_exact) for name in NAMES]
    for name, moved in zip((*NAMES, "gmean"), (*exact, mean(exact)), strict=True):
        made.add("hypar-exact", name, None, {"exact": moved})
    made.notes.append("'exact': what our dies really move under the same splits (biases count, partial sums move "
                      "before pooling), and, last, under those that HyPar's search chooses by exact words")
    return made.done()


def _grid(made: _Draft, across: str, down: str, values: dict[tuple[str, str], float], chosen: tuple[str, str]) -> None:
    """Points of an explored space, by (down, across), and its highest ones."""
    best = max(values.values())
    peaks = [place for place, value in values.items() if value >= best * (1 - 1e-12)]
    made.points = {"across": across, "down": down, "codes": list(CODES), "hypar": list(chosen),
                   "peaks": [list(peak) for peak in peaks],
                   "values": [[values[row, column] for column in CODES] for row in CODES]}


def _figure_9() -> Figure:
    made, found = _Draft(9), case("lenet-c")
    layers, splits = found.graph.weighted, found.splits["hypar"]
    values = {}
    for first, last in product(CODES, CODES):
        trial = list(splits)
        for number, top, bottom in zip(layers, _vector(first), _vector(last), strict=True):
            trial[number] = (top, *splits[number][1:3], bottom)
        values[first, last] = found.gain(tuple(trial))
    chosen = _stated(splits, found, "H1"), _stated(splits, found, "H4")
    _grid(made, "H4", "H1", values, chosen)
    made.add("hypar", "H1 0011, H4 0011", values["0011", "0011"])
    made.add("explored", "highest of 256", max(values.values()))
    made.add("explored", "where: H1, H4", ", ".join(" ".join(peak) for peak in made.points["peaks"]))
    made.notes += [f"codes are conv1 conv2 fc1 fc2; HyPar chooses H1 {chosen[0]}, H4 {chosen[1]}", CONSTANT]
    return made.done()


def _figure_10() -> Figure:
    made, found = _Draft(10), case("vgg-a")
    splits, layer, dense = found.splits["hypar"], found.number("conv5_2"), found.number("fc1")
    values = {}
    for first, second in product(CODES, CODES):
        trial = list(splits)
        trial[layer], trial[dense] = _vector(first), _vector(second)
        values[first, second] = found.gain(tuple(trial))
    chosen = code(splits[layer]), code(splits[dense])
    _grid(made, "fc1", "conv5_2", values, chosen)
    tied = made.points["peaks"]
    note = f"the same words, so the same time by the formula, at conv5_2 {' '.join(peak[0] for peak in tied)}"
    made.add("hypar", "conv5_2 0001, fc1 1111", values["0001", "1111"])
    made.add("explored", "conv5_2 1000, fc1 1111", values["1000", "1111"], note=note)
    made.add("explored", "highest of 256", max(values.values()), note=note)
    made.add("explored", "where: conv5_2, fc1", " ".join(tied[0]) if len(tied) == 1 else f"{len(tied)} points tie",
             note=note)
    made.notes += [f"codes are H1 to H4; HyPar chooses conv5_2 {chosen[0]}, fc1 {chosen[1]}", CONSTANT]
    return made.done()


def _figure_11() -> Figure:
    made = _Draft(11, whole="total", links="links", our_dies="dies")
    cases = {1 << levels: case("vgg-a", levels) for levels in range(7)}
    alone = cases[1].compute
    sizes = list(cases)
    gains = {"formula": {series: [alone / found.time(found.splits[series]) for found in cases.values()]
                         for series in ("data", "hypar")}}
    settings: dict[str, Callable[[int], Setting]] = {
        "whole": partial(tree, whole=True), "links": partial(tree, whole=False), "our_dies": our_tree}
    for key, setting in settings.items():
        gains[key] = {}
        for series in ("data", "hypar"):
            seconds = [outcome(found.graph, found.planned_exact if (key, series) == ("our_dies", "hypar") else
                               found.splits[series], BATCH, setting(size)).seconds for size, found in cases.items()]
            gains[key][series] = [seconds[0] / value for value in seconds]
    moved = {series: [found.gb(found.splits[series]) for found in cases.values()] for series in ("data", "hypar")}
    made.points = {"accelerators": sizes, "gain": gains["formula"], "gb": moved,
                   "simulated": {key: gains[key] for key in settings}}
    most = {key: {series: sizes[values.index(max(values))] for series, values in found.items()}
            for key, found in gains.items()}
    place = sizes.index(most["formula"]["hypar"])
    more = moved["hypar"][place + 1] - moved["hypar"][place]
    less = cases[sizes[place]].compute - cases[sizes[place + 1]].compute
    notes = {"hypar": f"at {sizes[place + 1]} another {more:.2f} GB move, and the compute saved is worth {less:.2f} GB",
             "data": ""}
    for series, note in notes.items():
        made.add(series, "fastest with", most["formula"][series], {key: most[key][series] for key in made.further},
                 note=note)
    for series in ("hypar", "data"):
        for size in (8, 16, 32, 64):
            made.add(series, f"gain with {size}", gains["formula"][series][sizes.index(size)],
                     {key: gains[key][series][sizes.index(size)] for key in made.further})
    faster = {key: sum(one > two for one, two in zip(found["hypar"][1:], found["data"][1:], strict=True))
              for key, found in gains.items()}
    made.add("hypar", "sizes at which it is the faster", faster.pop("formula"), faster)
    made.add("hypar", "sizes at which it moves less",
             sum(one > two for one, two in zip(moved["data"][1:], moved["hypar"][1:], strict=True)))
    made.notes += [
        CONSTANT + "; compute shrinks with the accelerators, the total bandwidth stays",
        "'total': simulated, H-tree, nothing overlapping, the bandwidth of 16 links of 125 Mb/s (K) for all "
        "accelerators together",
        "'links': the same, but every accelerator brings its link of 125 Mb/s; then more of them never hurt. The "
        "paper's peak of HyPar at 32 lies between the two, so the assumption that parts us is how the array's "
        "bandwidth grows",
        "'dies': our row-stationary dies, each with a link of 1600 Mb/s, exact words, reductions beside the backward "
        "pass; 1 is one of our dies"]
    return made.done()


def _figure_12() -> Figure:
    made = _Draft(12, links="links", rows="rows", half="half", our_dies="dies")
    trees, ours = _gains("hypar", K_LINKS), _gains("hypar", OUR_DIES)
    columns = [_gains("hypar", torus, tree) for torus, tree in (
        (TORUS, K_LINKS), (LINK_TORUS, K_LINKS), (ROW_TORUS, K_LINKS), (HALF_ROW_TORUS, K_LINKS),
        (OUR_TORUS, OUR_DIES))]
    for name, value, dies in zip((*NAMES, "gmean"), _with_mean(trees), _with_mean(ours), strict=True):
        made.add("hypar", name, value, {"our_dies": dies})
    for name, (value, *others) in zip((*NAMES, "gmean"), zip(*map(_with_mean, columns), strict=True), strict=True):
        made.add("torus", name, value, dict(zip(made.further, others, strict=True)))
    slower = [sum(one < 0.999 * two for name, one, two in zip(NAMES, values, whole, strict=True) if name != "sfc")
              for values, whole in zip(columns, (*[trees] * 4, ours), strict=True)]
    made.add("torus", "networks slowed, SFC aside", slower[0], dict(zip(made.further, slower[1:], strict=True)))
    own = mean(_gains("hypar", TORUS))
    made.notes += [
        CONSTANT + "; by it the H-tree's links of 125 Mb/s",
        "simulated as Figure 6's column 'K', against Data Parallelism on the H-tree; against that on the torus itself "
        f"the mean would be {own:.3g}, better than on the H-tree. Each die exchanges with its partner of every level",
        "ours: 25.6 Gb/s in total, as section 6.1 states it of the network: half of an H-tree's leaf for each of the "
        "torus' 32 links. Rows and columns are numbered in Gray code, so that all partners are neighbours, and no ways "
        "meet; numbered row by row it is the same if words go both ways round to a die on the other side",
        "'links': each as fast as a leaf of the H-tree; then the torus equals the H-tree, which the paper rules out",
        "'rows': such links, dies row by row, words over the lowest port, as our routers send them: where ways meet, "
        "messages share the link; 'half': the same at 25.6 Gb/s in total; then SFC gains less than 10",
        "'dies': our row-stationary dies with links of 1600 Mb/s, exact words; weights go round rings there, which a "
        "torus carries as well as a tree"]
    return made.done()


#: Layers of Figure 13 with their batch: by A(F) = 32 x 512 x 14 x 14 in section 6.5.2, conv5 has no pooling.
_LAYERS = (
    (Node(name="conv5", kind="convolution", weights=512 * 512 * 9, input_channels=512, output_channels=512,
          input_elements=512 * 14 * 14, raw_elements=512 * 14 * 14, map_elements=512 * 14 * 14,
          input_positions=14 * 14, output_positions=14 * 14), 32),
    (Node(name="fc3", kind="dense", weights=4096 * 1000, input_channels=4096, output_channels=1000,
          input_elements=4096, raw_elements=1000, map_elements=1000), 4096),
)


def _figure_13() -> Figure:
    made = _Draft(13)
    gains, chosen = [], {}
    conv5 = "A(dW) < A(F) means dp first by Table 1, not mp as the paper argues; no splits of the layer give more"
    for node, batch in _LAYERS:
        for levels in (2, 3, 4):
            found = Case(chain(node.name, [node]), batch, levels)
            gains.append(found.time(found.splits["trick"]) / found.time(found.splits["hypar"]))
            chosen[node.name] = " ".join(found.splits["hypar"][0])
            made.add("hypar", f"{node.name}-b{batch}-h{levels}", gains[-1],
                     note=conv5 if node.name == "conv5" else "")
    made.add("hypar", "gmean", mean(gains))
    made.notes += [f"each layer alone; at h4 HyPar chooses {chosen['conv5']} for conv5, {chosen['fc3']} for fc3",
                   CONSTANT + ", scaled to batch and accelerators"]
    return made.done()


#: Figures by number.
FIGURES: dict[int, Callable[[], Figure]] = {
    5: _figure_5, 6: _figure_6, 7: _figure_7, 8: _figure_8, 9: _figure_9, 10: _figure_10, 11: _figure_11,
    12: _figure_12, 13: _figure_13}


def reproduce(numbers: Sequence[int] = ()) -> list[Figure]:
    """Figures by number; all if none is named.

    Raises
    ------
    UserError
        If a figure is not among them.
    """
    for number in numbers:
        if number not in FIGURES:
            raise UserError(f"figure {number} of HyPar is not reproduced; choose one of {', '.join(map(str, FIGURES))}")
    return [FIGURES[number]() for number in dict.fromkeys(numbers or FIGURES)]


def report(figures: Sequence[Figure]) -> dict[str, Any]:
    """What ``plinth reproduce hypar --json`` prints."""
    paper = published()
    return {"paper": paper["paper"], "conditions": paper["conditions"], "confidence": paper["confidence"],
            "constant": {"name": "K", "value": float(GB_PER_GMAC), "unit": "GB a GMAC", "formula": CONSTANT},
            "figures": [figure.to_data() for figure in figures]}
