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


def figure_5(draft: Draft) -> None:
    """Splits that the text states, and what it says of all."""
    draft.further = {"exact": "exact"}
    plans = {name: (case(name).splits["hypar"], case(name).planned_exact) for name in NAMES}
    for series, what in draft.entries:
        name, _, part = what.partition(" ")
        if name in plans:
            ours, exact = (stated(splits, case(name), part) for splits in plans[name])
            draft.add(series, what, ours, {"exact": exact})
    for what, kind, split in (("convolutions with dp", "convolution", DP), ("dense with mp", "dense", MP)):
        shares = []
        for which in (0, 1):
            cells = [cell for name in NAMES for number, node in enumerate(case(name).graph.nodes)
                     if node.kind == kind for cell in plans[name][which][number]]
            shares.append((cells.count(split), len(cells)))
        (count, total), (other, _) = shares
        draft.add("hypar", what, f"{'usually' if 2 * count > total else 'rarely'}: {count}/{total}",
                  {"exact": f"{other}/{total}"})
    mixed = [sum(len({cell for number in case(name).graph.weighted for cell in plans[name][which][number]}) > 1
                 for name in NAMES) for which in (0, 1)]
    draft.add("hypar", "networks with both", mixed[0], {"exact": mixed[1]})
    draft.notes.append("'exact': what the same search chooses when it counts the words that the dies really move")
    for name in NAMES:
        graph = case(name).graph
        draft.points[name] = {"layers": [graph.nodes[number].name for number in graph.weighted]} | {
            form: [code(splits[number]) for number in graph.weighted]
            for form, splits in zip(("published", "exact"), plans[name], strict=True)}


def figure_6(draft: Draft) -> None:
    """Performance of HyPar and of Model Parallelism, by the formula and simulated."""
    draft.further = {"from_paper_gb": "GB", "stated": "stated", "k_links": "K", "our_dies": "dies"}
    words = HYPAR.draft("8")
    for series in ("hypar", "model"):
        ours, theirs = [], []
        for name in NAMES:
            network = case(name)
            ours.append(network.gain(network.splits[series]))
            data, other = (words.paper(which, name) + network.compute for which in ("data", series))
            theirs.append(data / other)
        columns = zip(with_mean(theirs), *(with_mean(gains(series, setting)) for setting in
                                            (STATED, K_LINKS, OUR_DIES)), strict=True)
        for name, value, column in zip((*NAMES, "gmean"), with_mean(ours), columns, strict=True):
            draft.add(series, name, value, dict(zip(draft.further, column, strict=True)))
    for name, value in zip((*NAMES, "gmean"), with_mean([case(name).gain(case(name).splits["data"]) for name in NAMES]),
                           strict=True):
        draft.add("data", name, value)
    sfc, model = case("sfc"), {name: case(name).gain(case(name).splits["model"]) for name in NAMES}
    draft.add(CLAIMS, "mp the slower", sum(value < 1 for value in model.values()))
    draft.add(CLAIMS, "sfc, mp / dp", model["sfc"])
    draft.add(CLAIMS, "sfc, HyPar / mp", sfc.gain(sfc.splits["hypar"]) / model["sfc"])
    source = outcome(case(NAMES[0]).graph, case(NAMES[0]).splits["data"], BATCH, OUR_DIES).source
    draft.notes += [CONSTANT, "'GB': the same formula on the paper's own Figure 8 instead of our words; it gives the "
                    "Model Parallelism bars, too",
                    "'stated': simulated with the bandwidths that the paper states: 16 links of 1600 Mb/s move 3.2 "
                    "GB/s; reductions run beside the backward pass, and little of the communication is left to see",
                    "'K': simulated with links of 125 Mb/s, which the fitted K means, and nothing overlapping",
                    f"'dies': simulated, our row-stationary dies at 250 MHz on the stated links, exact words; cycles "
                    f"from {source}"]


def figure_7(draft: Draft) -> None:
    """Energy of Data Parallelism over that of HyPar and of Model Parallelism."""
    draft.further = {key: reading.heading for key, reading in READINGS.items() if reading.heading}
    for series in ("hypar", "model", "data"):
        columns = [[saving(case(name), series, reading) for name in NAMES] for reading in READINGS.values()]
        for name, ours, *further in zip((*NAMES, "gmean"), *map(with_mean, columns), strict=True):
            draft.add(series, name, ours, dict(zip(draft.further, further, strict=True)))
        if series == "hypar":
            theirs = [draft.paper(series, name) for name in NAMES]
            orders = [sum((theirs[first] - theirs[second]) * (values[first] - values[second]) > 0
                          for first, second in combinations(range(len(NAMES)), 2)) for values in columns]
            draft.add(series, "pairs in this order", orders[0], dict(zip(draft.further, orders[1:], strict=True)))
    hypar_saves, model_saves = ({name: saving(case(name), series, READINGS["ours"]) for name in NAMES}
                                for series in ("hypar", "model"))
    draft.add(CLAIMS, "mp spends more", sum(value < 1 for value in model_saves.values()), note="of ten networks")
    draft.add(CLAIMS, "sfc, mp / dp", model_saves["sfc"])
    draft.add(CLAIMS, "sfc, HyPar / mp", hypar_saves["sfc"] / model_saves["sfc"])
    draft.notes += [
        "simulated as Figure 6's column 'stated'. The paper leaves access counts open. Assumed: a multiplication and "
        "an addition a multiply-add; a product reads its operands from memory and writes its result once, through the "
        "buffer (two SRAM accesses a word); a word sent is read from memory, and written where it arrives; where it is "
        "added, the other summand is read, too; links 6.78 pJ a bit",
        "'stored': what arrives to be added is written and read again, two accesses more. This was tried first; the "
        "reading that is nearer the paper was taken",
        "'pads': four accesses of 5 pJ a multiply-add in the PEs' scratchpads, for which the paper gives no figure",
        "'dies': our dies, exact words"]


def figure_8(draft: Draft) -> None:
    """Words of a step: by the reading that was chosen, by the plain one, and as the dies move them."""
    draft.further = {"plain": "plain", "exact": "exact"}
    plain = {name: PublishedWords(case(name).graph, BATCH, "plain") for name in NAMES}
    for series in ("hypar", "data", "model"):
        columns: list[list[float]] = [[], [], []]
        for name, words in plain.items():
            network = case(name)
            splits = network.splits[series]
            others = hypar(words, LEVELS) if series == "hypar" else splits
            for column, value in zip(columns, (network.gb(splits), words.total_bytes(others) / 1e9,
                                               network.exact_gb(splits)), strict=True):
                column.append(value)
        for name, ours, *further in zip((*NAMES, "gmean"), *map(with_mean, columns), strict=True):
            draft.add(series, name, ours, dict(zip(draft.further, further, strict=True)))
    sent = {series: {name: case(name).gb(case(name).splits[series]) for name in NAMES}
             for series in ("hypar", "data", "model")}
    draft.add(CLAIMS, "mp moves more", sum(sent["model"][name] > sent["data"][name] for name in NAMES),
              note="of ten networks")
    draft.add(CLAIMS, "sfc, mp / dp", sent["model"]["sfc"] / sent["data"]["sfc"])
    draft.add(CLAIMS, "sfc, HyPar / mp", sent["hypar"]["sfc"] / sent["model"]["sfc"])
    draft.add(CLAIMS, "sconv, HyPar / dp", sent["hypar"]["sconv"] / sent["data"]["sconv"])
    for what, more, less in (("large, mp / dp", "model", "data"), ("large, dp / HyPar", "data", "hypar")):
        ratios = [sent[more][name] / sent[less][name] for name in LARGE]
        draft.add(CLAIMS, what, mean(ratios),
                  note=f"geometric mean of six, {min(ratios):.3g} to {max(ratios):.3g}; "
                       '"ten times" is read as more than the root of ten')
    exact = [case(name).exact_gb(case(name).planned_exact) for name in NAMES]
    for name, moved in zip((*NAMES, "gmean"), (*exact, mean(exact)), strict=True):
        draft.add("hypar-exact", name, None, {"exact": moved})
    draft.notes += [
        "ours: the reading 'figure-8' of Tables 1 and 2",
        "'plain': the tables as printed, each amount once; HyPar by its own search. It gives Model Parallelism of the "
        "five VGGs, and half of everything else that 'figure-8' gives",
        "'exact': what our dies really move under the same splits (biases count, partial sums move before pooling), "
        "and, last, under those that HyPar's search chooses by exact words"]


def _grid(draft: Draft, across: str, down: str, values: dict[tuple[str, str], float], chosen: tuple[str, str]) -> None:
    """Points of an explored space, by (down, across), and its highest ones."""
    best = max(values.values())
    peaks = [place for place, value in values.items() if value >= best * (1 - 1e-12)]
    draft.points = {"across": across, "down": down, "codes": list(CODES), "hypar": list(chosen),
                    "peaks": [list(peak) for peak in peaks],
                    "values": [[values[row, column] for column in CODES] for row in CODES]}


def figure_9(draft: Draft) -> None:
    """Compute Figure 9: all 256 splits of Lenet-c at H1 and H4."""
    network = case("lenet-c")
    layers, splits = network.graph.weighted, network.splits["hypar"]
    values = {}
    for first, last in product(CODES, CODES):
        trial = list(splits)
        for number, top, bottom in zip(layers, vector(first), vector(last), strict=True):
            trial[number] = (top, *splits[number][1:3], bottom)
        values[first, last] = network.gain(tuple(trial))
    chosen = stated(splits, network, "H1"), stated(splits, network, "H4")
    _grid(draft, "H4", "H1", values, chosen)
    draft.add("hypar", "H1 0011, H4 0011", values["0011", "0011"])
    draft.add("explored", "highest of 256", max(values.values()))
    draft.add("explored", "where: H1, H4", ", ".join(" ".join(peak) for peak in draft.points["peaks"]))
    draft.notes += [f"codes are conv1 conv2 fc1 fc2; HyPar chooses H1 {chosen[0]}, H4 {chosen[1]}", CONSTANT]


def figure_10(draft: Draft) -> None:
    """Compute Figure 10: all 256 splits of VGG-A's conv5_2 and fc1."""
    network = case("vgg-a")
    splits, layer, dense = network.splits["hypar"], network.number("conv5_2"), network.number("fc1")
    values = {}
    for first, second in product(CODES, CODES):
        trial = list(splits)
        trial[layer], trial[dense] = vector(first), vector(second)
        values[first, second] = network.gain(tuple(trial))
    chosen = code(splits[layer]), code(splits[dense])
    _grid(draft, "fc1", "conv5_2", values, chosen)
    tied = draft.points["peaks"]
    draft.add("hypar", "conv5_2 0001, fc1 1111", values["0001", "1111"])
    draft.add("explored", "conv5_2 1000, fc1 1111", values["1000", "1111"])
    draft.add("explored", "highest of 256", max(values.values()))
    draft.add("explored", "where: conv5_2, fc1", " ".join(tied[0]) if len(tied) == 1 else f"{len(tied)} points tie")
    draft.notes += [f"codes are H1 to H4; HyPar chooses conv5_2 {chosen[0]}, fc1 {chosen[1]}",
                    f"the points that tie: conv5_2 {' '.join(peak[0] for peak in tied)}", CONSTANT]
