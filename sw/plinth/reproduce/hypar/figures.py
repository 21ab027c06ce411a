"""HyPar's Figures 5 to 10: splits, performance, energy and words of ten networks, and the spaces that it explores."""

from itertools import combinations, product

from plinth.partition.graph import DP, MP
from plinth.plan.planners.hypar import hypar
from plinth.predict.published import PublishedWords
from plinth.reproduce.hypar.cases import (
    BATCH,
    CONSTANT,
    HYPAR,
    LEVELS,
    NAMES,
    case,
    code,
    mean,
    stated,
    vector,
    with_mean,
)
from plinth.reproduce.hypar.simulated import K_LINKS, OUR_DIES, READINGS, STATED, gains, outcome, saving
from plinth.reproduce.paper import CLAIMS, Draft

#: All splits of a layer at the levels of the paper's array, or of four layers at a level.
CODES = tuple("".join(code) for code in product("01", repeat=4))
#: The networks that section 6.2.4 calls large.
LARGE = NAMES[4:]


def figure_5(made: Draft) -> None:
    """Splits that the text states, and what it says of all."""
    made.further = {"exact": "exact"}
    plans = {name: (case(name).splits["hypar"], case(name).planned_exact) for name in NAMES}
    for series, what in made.entries:
        name, _, part = what.partition(" ")
        if name in plans:
            ours, exact = (stated(splits, case(name), part) for splits in plans[name])
            made.add(series, what, ours, {"exact": exact})
    for what, kind, split in (("convolutions with dp", "convolution", DP), ("dense with mp", "dense", MP)):
        shares = []
        for which in (0, 1):
            cells = [cell for name in NAMES for number, node in enumerate(case(name).graph.nodes)
                     if node.kind == kind for cell in plans[name][which][number]]
            shares.append((cells.count(split), len(cells)))
        (count, total), (other, _) = shares
        made.add("hypar", what, f"{'usually' if 2 * count > total else 'rarely'}: {count}/{total}",
                 {"exact": f"{other}/{total}"})
    mixed = [sum(len({cell for number in case(name).graph.weighted for cell in plans[name][which][number]}) > 1
                 for name in NAMES) for which in (0, 1)]
    made.add("hypar", "networks with both", mixed[0], {"exact": mixed[1]})
    made.notes.append("'exact': what the same search chooses when it counts the words that the dies really move")
    for name in NAMES:
        graph = case(name).graph
        made.points[name] = {"layers": [graph.nodes[number].name for number in graph.weighted]} | {
            form: [code(splits[number]) for number in graph.weighted]
            for form, splits in zip(("published", "exact"), plans[name], strict=True)}


def figure_6(made: Draft) -> None:
    """Performance of HyPar and of Model Parallelism, by the formula and simulated."""
    made.further = {"from_paper_gb": "GB", "stated": "stated", "k_links": "K", "our_dies": "dies"}
    words = HYPAR.draft("8")
    for series in ("hypar", "model"):
        ours, theirs = [], []
        for name in NAMES:
            found = case(name)
            ours.append(found.gain(found.splits[series]))
            data, other = (words.paper(which, name) + found.compute for which in ("data", series))
            theirs.append(data / other)
        columns = zip(with_mean(theirs), *(with_mean(gains(series, setting)) for setting in
                                            (STATED, K_LINKS, OUR_DIES)), strict=True)
        for name, value, column in zip((*NAMES, "gmean"), with_mean(ours), columns, strict=True):
            made.add(series, name, value, dict(zip(made.further, column, strict=True)))
    for name, value in zip((*NAMES, "gmean"), with_mean([case(name).gain(case(name).splits["data"]) for name in NAMES]),
                           strict=True):
        made.add("data", name, value)
    sfc, model = case("sfc"), {name: case(name).gain(case(name).splits["model"]) for name in NAMES}
    made.add(CLAIMS, "mp the slower", sum(value < 1 for value in model.values()))
    made.add(CLAIMS, "sfc, mp / dp", model["sfc"])
    made.add(CLAIMS, "sfc, HyPar / mp", sfc.gain(sfc.splits["hypar"]) / model["sfc"])
    source = outcome(case(NAMES[0]).graph, case(NAMES[0]).splits["data"], BATCH, OUR_DIES).source
    made.notes += [CONSTANT, "'GB': the same formula on the paper's own Figure 8 instead of our words; it gives the "
                   "Model Parallelism bars, too",
                   "'stated': simulated with the bandwidths that the paper states: 16 links of 1600 Mb/s move 3.2 "
                   "GB/s; reductions run beside the backward pass, and little of the communication is left to see",
                   "'K': simulated with links of 125 Mb/s, which the fitted K means, and nothing overlapping",
                   f"'dies': simulated, our row-stationary dies at 250 MHz on the stated links, exact words; cycles "
                   f"from {source}"]


def figure_7(made: Draft) -> None:
    """Energy of Data Parallelism over that of HyPar and of Model Parallelism."""
    made.further = {key: reading.heading for key, reading in READINGS.items() if reading.heading}
    for series in ("hypar", "model", "data"):
        columns = [[saving(case(name), series, reading) for name in NAMES] for reading in READINGS.values()]
        for name, ours, *further in zip((*NAMES, "gmean"), *map(with_mean, columns), strict=True):
            made.add(series, name, ours, dict(zip(made.further, further, strict=True)))
        if series == "hypar":
            theirs = [made.paper(series, name) for name in NAMES]
            orders = [sum((theirs[one] - theirs[two]) * (values[one] - values[two]) > 0
                          for one, two in combinations(range(len(NAMES)), 2)) for values in columns]
            made.add(series, "pairs in this order", orders[0], dict(zip(made.further, orders[1:], strict=True)))
    hypar_saves, model_saves = ({name: saving(case(name), series, READINGS["ours"]) for name in NAMES}
                                for series in ("hypar", "model"))
    made.add(CLAIMS, "mp spends more", sum(value < 1 for value in model_saves.values()), note="of ten networks")
    made.add(CLAIMS, "sfc, mp / dp", model_saves["sfc"])
    made.add(CLAIMS, "sfc, HyPar / mp", hypar_saves["sfc"] / model_saves["sfc"])
    made.notes += [
        "simulated as Figure 6's column 'stated'. The paper leaves access counts open. Assumed: a multiplication and "
        "an addition a multiply-add; a product reads its operands from memory and writes its result once, through the "
        "buffer (two SRAM accesses a word); a word sent is read from memory, and written where it arrives; where it is "
        "added, the other summand is read, too; links 6.78 pJ a bit",
        "'stored': what arrives to be added is written and read again, two accesses more. This was tried first; the "
        "reading that is nearer the paper was taken",
        "'pads': four accesses of 5 pJ a multiply-add in the PEs' scratchpads, for which the paper gives no figure",
        "'dies': our dies, exact words"]


def figure_8(made: Draft) -> None:
    """Words of a step: by the reading that was chosen, by the plain one, and as the dies move them."""
    made.further = {"plain": "plain", "exact": "exact"}
    plain = {name: PublishedWords(case(name).graph, BATCH, "plain") for name in NAMES}
    for series in ("hypar", "data", "model"):
        columns: list[list[float]] = [[], [], []]
        for name, words in plain.items():
            found = case(name)
            splits = found.splits[series]
            others = hypar(words, LEVELS) if series == "hypar" else splits
            for column, value in zip(columns, (found.gb(splits), words.total_bytes(others) / 1e9,
                                               found.exact_gb(splits)), strict=True):
                column.append(value)
        for name, ours, *further in zip((*NAMES, "gmean"), *map(with_mean, columns), strict=True):
            made.add(series, name, ours, dict(zip(made.further, further, strict=True)))
    sent = {series: {name: case(name).gb(case(name).splits[series]) for name in NAMES}
             for series in ("hypar", "data", "model")}
    made.add(CLAIMS, "mp moves more", sum(sent["model"][name] > sent["data"][name] for name in NAMES),
             note="of ten networks")
    made.add(CLAIMS, "sfc, mp / dp", sent["model"]["sfc"] / sent["data"]["sfc"])
    made.add(CLAIMS, "sfc, HyPar / mp", sent["hypar"]["sfc"] / sent["model"]["sfc"])
    made.add(CLAIMS, "sconv, HyPar / dp", sent["hypar"]["sconv"] / sent["data"]["sconv"])
    for what, more, less in (("large, mp / dp", "model", "data"), ("large, dp / HyPar", "data", "hypar")):
        ratios = [sent[more][name] / sent[less][name] for name in LARGE]
        made.add(CLAIMS, what, mean(ratios),
                 note=f"geometric mean of six, {min(ratios):.3g} to {max(ratios):.3g}; "
                      '"ten times" is read as more than the root of ten')
    exact = [case(name).exact_gb(case(name).planned_exact) for name in NAMES]
    for name, moved in zip((*NAMES, "gmean"), (*exact, mean(exact)), strict=True):
        made.add("hypar-exact", name, None, {"exact": moved})
    made.notes += [
        "ours: the reading 'figure-8' of Tables 1 and 2",
        "'plain': the tables as printed, each amount once; HyPar by its own search. It gives Model Parallelism of the "
        "five VGGs, and half of everything else that 'figure-8' gives",
        "'exact': what our dies really move under the same splits (biases count, partial sums move before pooling), "
        "and, last, under those that HyPar's search chooses by exact words"]


def _grid(made: Draft, across: str, down: str, values: dict[tuple[str, str], float], chosen: tuple[str, str]) -> None:
    """Points of an explored space, by (down, across), and its highest ones."""
    best = max(values.values())
    peaks = [place for place, value in values.items() if value >= best * (1 - 1e-12)]
    made.points = {"across": across, "down": down, "codes": list(CODES), "hypar": list(chosen),
                   "peaks": [list(peak) for peak in peaks],
                   "values": [[values[row, column] for column in CODES] for row in CODES]}


def figure_9(made: Draft) -> None:
    """All 256 splits of Lenet-c at H1 and H4."""
    found = case("lenet-c")
    layers, splits = found.graph.weighted, found.splits["hypar"]
    values = {}
    for first, last in product(CODES, CODES):
        trial = list(splits)
        for number, top, bottom in zip(layers, vector(first), vector(last), strict=True):
            trial[number] = (top, *splits[number][1:3], bottom)
        values[first, last] = found.gain(tuple(trial))
    chosen = stated(splits, found, "H1"), stated(splits, found, "H4")
    _grid(made, "H4", "H1", values, chosen)
    made.add("hypar", "H1 0011, H4 0011", values["0011", "0011"])
    made.add("explored", "highest of 256", max(values.values()))
    made.add("explored", "where: H1, H4", ", ".join(" ".join(peak) for peak in made.points["peaks"]))
    made.notes += [f"codes are conv1 conv2 fc1 fc2; HyPar chooses H1 {chosen[0]}, H4 {chosen[1]}", CONSTANT]


def figure_10(made: Draft) -> None:
    """All 256 splits of VGG-A's conv5_2 and fc1."""
    found = case("vgg-a")
    splits, layer, dense = found.splits["hypar"], found.number("conv5_2"), found.number("fc1")
    values = {}
    for first, second in product(CODES, CODES):
        trial = list(splits)
        trial[layer], trial[dense] = vector(first), vector(second)
        values[first, second] = found.gain(tuple(trial))
    chosen = code(splits[layer]), code(splits[dense])
    _grid(made, "fc1", "conv5_2", values, chosen)
    tied = made.points["peaks"]
    made.add("hypar", "conv5_2 0001, fc1 1111", values["0001", "1111"])
    made.add("explored", "conv5_2 1000, fc1 1111", values["1000", "1111"])
    made.add("explored", "highest of 256", max(values.values()))
    made.add("explored", "where: conv5_2, fc1", " ".join(tied[0]) if len(tied) == 1 else f"{len(tied)} points tie")
    made.notes += [f"codes are H1 to H4; HyPar chooses conv5_2 {chosen[0]}, fc1 {chosen[1]}",
                   f"the points that tie: conv5_2 {' '.join(peak[0] for peak in tied)}", CONSTANT]
