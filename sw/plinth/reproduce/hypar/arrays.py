"""HyPar's Figures 11 to 13: other sizes and topologies of the array, and single layers against one weird trick."""

from collections.abc import Callable
from functools import lru_cache, partial

from plinth.machine.convolution import ConvolutionWindow
from plinth.network.variables import weights
from plinth.partition.graph import Node, chain
from plinth.reproduce.hypar.cases import BATCH, CONSTANT, NAMES, HyParCase, case, mean, with_mean
from plinth.reproduce.hypar.simulated import (
    HALF_ROW_TORUS,
    K_LINKS,
    LINK_TORUS,
    OUR_DIES,
    OUR_TORUS,
    READINGS,
    ROW_TORUS,
    TORUS,
    SimulationSetting,
    gains,
    our_tree,
    outcome,
    saving,
    tree,
)
from plinth.reproduce.paper import CLAIMS, Draft


def figure_11(draft: Draft) -> None:
    """VGG-A on 1 to 64 accelerators."""
    draft.further = {"whole": "total", "links": "links", "our_dies": "dies"}
    cases = {1 << levels: case("vgg-a", levels) for levels in range(7)}
    alone = cases[1].compute
    sizes = list(cases)
    gain = {"formula": {series: [alone / network.time(network.splits[series]) for network in cases.values()]
                        for series in ("data", "hypar")}}
    settings: dict[str, Callable[[int], SimulationSetting]] = {
        "whole": partial(tree, whole=True), "links": partial(tree, whole=False), "our_dies": our_tree}
    for key, setting in settings.items():
        gain[key] = {}
        for series in ("data", "hypar"):
            seconds = [outcome(network.graph, network.planned_exact if (key, series) == ("our_dies", "hypar") else
                               network.splits[series], BATCH, setting(size)).seconds for size, network in cases.items()]
            gain[key][series] = [seconds[0] / value for value in seconds]
    moved = {series: [network.gb(network.splits[series]) for network in cases.values()] for series in ("data", "hypar")}
    draft.points = {"accelerators": sizes, "gain": gain["formula"], "gb": moved,
                    "simulated": {key: gain[key] for key in settings}}
    most = {key: {series: sizes[values.index(max(values))] for series, values in by_series.items()}
            for key, by_series in gain.items()}
    place = sizes.index(most["formula"]["hypar"])
    more = moved["hypar"][place + 1] - moved["hypar"][place]
    less = cases[sizes[place]].compute - cases[sizes[place + 1]].compute
    notes = {"hypar": f"at {sizes[place + 1]} another {more:.2f} GB move, and the compute saved is worth {less:.2f} GB",
             "data": ""}
    for series, note in notes.items():
        draft.add(series, "fastest with", most["formula"][series], {key: most[key][series] for key in draft.further},
                  note=note)
    for series in ("hypar", "data"):
        for size in (8, 16, 32, 64):
            draft.add(series, f"gain with {size}", gain["formula"][series][sizes.index(size)],
                      {key: gain[key][series][sizes.index(size)] for key in draft.further})
    faster = {key: sum(hypar_gain > data_gain for hypar_gain, data_gain in
                       zip(by_series["hypar"][1:], by_series["data"][1:], strict=True))
              for key, by_series in gain.items()}
    draft.add("hypar", "faster at sizes", faster.pop("formula"), faster)
    draft.add("hypar", "less moved at sizes",
              sum(data_gb > hypar_gb for data_gb, hypar_gb in zip(moved["data"][1:], moved["hypar"][1:], strict=True)))
    draft.notes += [
        CONSTANT + "; compute shrinks with the accelerators, the total bandwidth stays",
        "'total': simulated, H-tree, nothing overlapping, the bandwidth of 16 links of 125 Mb/s (K) for all "
        "accelerators together",
        "'links': the same, but every accelerator brings its link of 125 Mb/s; then more of them never hurt. The "
        "paper's peak of HyPar at 32 lies between the two, so the assumption that parts us is how the array's "
        "bandwidth grows",
        "'dies': our row-stationary dies, each with a link of 1600 Mb/s, exact words, reductions beside the backward "
        "pass; 1 is one of our dies"]


def figure_12(draft: Draft) -> None:
    """Compute Figure 12: HyPar on an H-tree and on a torus."""
    draft.further = {"links": "links", "rows": "rows", "half": "half", "our_dies": "dies"}
    trees, ours = gains("hypar", K_LINKS), gains("hypar", OUR_DIES)
    columns = [gains("hypar", torus, tree) for torus, tree in (
        (TORUS, K_LINKS), (LINK_TORUS, K_LINKS), (ROW_TORUS, K_LINKS), (HALF_ROW_TORUS, K_LINKS),
        (OUR_TORUS, OUR_DIES))]
    for name, value, dies in zip((*NAMES, "gmean"), with_mean(trees), with_mean(ours), strict=True):
        draft.add("hypar", name, value, {"our_dies": dies})
    for name, (value, *others) in zip((*NAMES, "gmean"), zip(*map(with_mean, columns), strict=True), strict=True):
        draft.add("torus", name, value, dict(zip(draft.further, others, strict=True)))
    slower = [sum(on_torus < 0.999 * on_tree for name, on_torus, on_tree in zip(NAMES, values, whole, strict=True)
                  if name != "sfc")
              for values, whole in zip(columns, (*[trees] * 4, ours), strict=True)]
    draft.add("torus", "slowed, SFC aside", slower[0], dict(zip(draft.further, slower[1:], strict=True)))
    own = mean(gains("hypar", TORUS))
    draft.add(CLAIMS, "torus, HyPar / dp", own, note="geometric mean of ten networks, both on the torus")
    draft.notes += [
        CONSTANT + "; by it the H-tree's links of 125 Mb/s",
        "simulated as Figure 6's column 'K', against Data Parallelism on the H-tree; against that on the torus itself "
        f"the geometric mean would be {own:.3g}, better than on the H-tree. Each die exchanges with its partner of "
        "every level",
        "ours: 25.6 Gb/s in total, as section 6.1 states it of the network: half of an H-tree's leaf for each of the "
        "torus' 32 links. Rows and columns are numbered in Gray code, so that all partners are neighbours, and no ways "
        "meet; numbered row by row it is the same if words go both ways round to a die on the other side",
        "'links': each as fast as a leaf of the H-tree; then the torus equals the H-tree, which the paper rules out",
        "'rows': such links, dies row by row, words over the lowest port, as our routers send them: where ways meet, "
        "messages share the link; 'half': the same at 25.6 Gb/s in total; then SFC gains less than 10",
        "'dies': our row-stationary dies with links of 1600 Mb/s, exact words; weights go round rings there, which a "
        "torus carries as well as a tree"]


#: Layers of Figure 13 with their batch: by A(F) = 32 x 512 x 14 x 14 in section 6.5.2, conv5 has no pooling.
LAYERS = (
    (Node(name="conv5", kind="convolution", variables=(weights(512, 512, (3, 3)),), input_channels=512,
          output_channels=512, input_elements=512 * 14 * 14, raw_elements=512 * 14 * 14, map_elements=512 * 14 * 14,
          macs=512 * 512 * 9 * 14 * 14, input_positions=14 * 14, output_positions=14 * 14,
          window=ConvolutionWindow(size=(14, 14), kernel=(3, 3), stride=(1, 1), padding=(1, 1), output=(14, 14))), 32),
    (Node(name="fc3", kind="dense", variables=(weights(4096, 1000),), input_channels=4096, output_channels=1000,
          input_elements=4096, raw_elements=1000, map_elements=1000, macs=4096 * 1000), 4096),
)


@lru_cache(maxsize=1)
def layers() -> dict[str, HyParCase]:
    """The six cases of Figure 13: each layer alone, on 4, 8 and 16 accelerators."""
    return {f"{node.name}-b{batch}-h{levels}": HyParCase(chain(node.name, [node]), batch, levels)
            for node, batch in LAYERS for levels in (2, 3, 4)}


def figure_13(draft: Draft) -> None:
    """Performance and energy against one weird trick."""
    draft.further = {key: reading.heading for key, reading in READINGS.items() if reading.heading}
    cases = layers()
    faster = [network.time(network.splits["trick"]) / network.time(network.splits["hypar"])
              for network in cases.values()]
    for name, value in zip((*cases, "gmean"), with_mean(faster), strict=True):
        draft.add("hypar", name, value)
    columns = [[saving(network, "hypar", reading, "trick") for network in cases.values()]
               for reading in READINGS.values()]
    for name, ours, *further in zip((*cases, "gmean"), *map(with_mean, columns), strict=True):
        draft.add("energy", name, ours, dict(zip(draft.further, further, strict=True)))
    draft.add(CLAIMS, "faster than the trick", sum(value > 1 for value in faster), note="of six")
    for name, batch in (("conv5", 32), ("fc3", 4096)):
        draft.add(CLAIMS, f"{name}, first level", cases[f"{name}-b{batch}-h4"].splits["hypar"][0][0])
    chosen = [" ".join(cases[f"{node.name}-b{batch}-h4"].splits["hypar"][0]) for node, batch in LAYERS]
    draft.notes += [f"each layer alone; at h4 HyPar chooses {chosen[0]} for conv5, {chosen[1]} for fc3",
                    CONSTANT + ", scaled to batch and accelerators; energy and its further columns as in Figure 7"]
