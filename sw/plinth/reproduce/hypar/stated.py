"""What HyPar states outside its Figures 5 to 13: sums of the results, the setup, Tables 1 to 3, worked examples."""

from itertools import product

from plinth.network.layers import Convolution, MaxPool
from plinth.network.variables import weights
from plinth.network.zoo import NETWORKS
from plinth.partition.cuts import halves
from plinth.partition.graph import DP, MP, Node, chain
from plinth.partition.regions import layouts
from plinth.plan.planners import simple
from plinth.predict.exact import edge_words, node_words
from plinth.predict.published import PublishedWords
from plinth.reproduce.hypar.arrays import layers
from plinth.reproduce.hypar.cases import BATCH, HYPAR, NAMES, case, mean
from plinth.reproduce.hypar.simulated import OUR_DIES, READINGS, STATED, saving
from plinth.reproduce.paper import CLAIMS, Draft
from plinth.simulate.costs import PAPER_HERTZ, PAPER_PES, PAPER_WORDS
from plinth_hw.isa.parameters import PRESETS
from plinth_sim.array.energy import Energy

#: Ratio from which on one is the better of two.
_SLIGHTLY = 1.001


def summary(draft: Draft) -> None:
    """What the abstract and the text say of the figures."""
    ours = READINGS["ours"]
    faster = {name: case(name).gain(case(name).splits["hypar"]) for name in NAMES}
    spared = {name: saving(case(name), "hypar", ours) for name in NAMES}
    trick = [network.time(network.splits["trick"]) / network.time(network.splits["hypar"])
             for network in layers().values()]
    draft.add("", "performance, geometric mean", mean(list(faster.values())))
    draft.add("", "energy efficiency, geometric mean", mean(list(spared.values())))
    for what, ratios in (("performance", faster), ("energy efficiency", spared)):
        eight = [value for name, value in ratios.items() if name not in ("sfc", "sconv")]
        draft.add("", f"{what}, least of eight", min(eight))
        draft.add("", f"{what}, most of eight", max(eight))
    draft.add("", "over the trick, most", max(trick))
    draft.add("", "over the trick, geometric mean", mean(trick))
    draft.add("", "energy over it, geometric mean",
              mean([saving(network, "hypar", ours, "trick") for network in layers().values()]))
    weighted = [len(case(name).graph.weighted) for name in NAMES]
    draft.add("", "networks", len(NAMES))
    draft.add("", "weighted layers, least", min(weighted))
    draft.add("", "weighted layers, most", max(weighted))
    draft.add(CLAIMS, "Model Parallelism the slowest", sum(
        case(name).gain(case(name).splits["model"]) < min(1, faster[name]) for name in NAMES), note="of ten networks")
    draft.add(CLAIMS, "faster than both", sum(
        faster[name] > _SLIGHTLY * max(1, case(name).gain(case(name).splits["model"])) for name in NAMES),
              note="of ten networks")
    defaults = [mean([case(name).time(case(name).splits[series]) / case(name).time(case(name).splits["trick"])
                      for name in NAMES]) for series in ("data", "model")]
    draft.add(CLAIMS, "trick over the defaults", min(defaults),
              note=f"geometric means of ten networks: over Data Parallelism {defaults[0]:.3g}, over Model Parallelism "
                   f"{defaults[1]:.3g}")


def setup(draft: Draft) -> None:
    """Section 6.1: what is simulated as stated, and what our dies of that size have."""
    draft.further = {"our_dies": "dies"}
    array, die, energy = STATED.array, PRESETS[OUR_DIES.array.preset], Energy()
    hertz = float(array.clock_mhz) * 1e6
    link = float(array.rate) * 32 * hertz / 1e6
    buffers = (2 * die.operand_buffer_words + die.output_buffer_words) * 4 / 1024
    for what, ours, dies in (
            ("accelerators", array.dies, OUR_DIES.array.dies),
            ("levels", array.dies.bit_length() - 1, OUR_DIES.array.dies.bit_length() - 1),
            ("batch", BATCH, BATCH),
            ("precision, bits", die.multiply_format.bits, die.multiply_format.bits),
            ("memory, GB/s", PAPER_WORDS * 4 / 1e9, float(die.memory_words_per_cycle) * 4 * hertz / 1e9),
            ("memory, GB", array.memory_bytes / 1e9, OUR_DIES.array.memory_bytes / 1e9),
            ("PEs", PAPER_PES, die.rows * die.columns),
            ("buffer, KB", buffers, buffers),
            ("GOPS", 2 * PAPER_PES * PAPER_HERTZ / 1e9, 2 * die.rows * die.columns * hertz / 1e9),
            ("clock, MHz", PAPER_HERTZ / 1e6, hertz / 1e6),
            ("link, Mb/s", link, link),
            ("all links, Gb/s", array.dies * link / 1e3, array.dies * link / 1e3),
            ("addition, pJ", energy.add, None),
            ("multiplication, pJ", energy.multiply, None),
            ("SRAM access, pJ", energy.sram, None),
            ("DRAM access, pJ", energy.dram, None)):
        draft.add("", what, ours, {"our_dies": dies})


def _model(batch: int = 16, channels: int = 64) -> dict[str, tuple[float, float]]:
    """Amounts of Tables 1 and 2 for one direction: by the reading, and as our dies move them."""
    def dense(name: str, inputs: int, outputs: int) -> Node:
        return Node(name=name, kind="dense", variables=(weights(inputs, outputs),), input_channels=inputs,
                    output_channels=outputs, input_elements=inputs, raw_elements=outputs, map_elements=outputs)

    graph = chain("two", [dense("one", 3, channels), dense("two", channels, 1)])
    words, outputs, size = PublishedWords(graph, batch), batch * channels, graph.nodes[0].weights

    def moved(first: str, second: str) -> tuple[float, float]:
        """Words that our dies move for the first layer itself, and between the two."""
        regions = layouts(graph, ((first,), (second,), (DP,)))
        return (node_words(graph, 0, regions[0], batch, halves(1)),
                edge_words(graph, 0, regions[0].owned, regions[1], batch, halves(1)))

    amounts = {"dp, of A(dW)": (words.node_elements(0, DP, 0, 0) / size, moved(DP, DP)[0] / size),
               # Our dies count the errors to those that hold partial sums with the sums: half of the words each.
               "mp, of A(F)": (words.node_elements(0, MP, 0, 0) / outputs, moved(MP, MP)[0] / 2 / outputs)}
    for first, second in product((DP, MP), repeat=2):
        tensors = 2 if (first, second) == (DP, MP) else 1
        errors = moved(first, second)[0] / 2 if first == MP else 0
        amounts[f"{first}-{second}"] = (words.edge_elements(0, first, second, (0, 0), (0, 0)) / outputs / tensors,
                                        (errors + moved(first, second)[1]) / outputs / tensors)
    # Both directions were counted.
    return {what: (ours / 2, dies / 2) for what, (ours, dies) in amounts.items()}


def models(draft: Draft) -> None:
    """Tables 1 and 2, as the reading 'figure-8' takes them and as our dies move words."""
    draft.further = {"our_dies": "dies"}
    for what, (ours, dies) in _model().items():
        draft.add("", what, ours, {"our_dies": dies})


def networks(draft: Draft) -> None:
    """The networks of Table 3."""
    sfc, sconv = NETWORKS["sfc"], NETWORKS["sconv"]
    widths = [sfc.input.elements, *(sfc.shapes[layer.name].output.elements for layer in sfc.weighted)]
    draft.add("", "SFC", "-".join(map(str, widths)))
    kernels: list[str] = []
    for layer in sconv.layers:
        if isinstance(layer, Convolution):
            kernels.append(f"{layer.channels}@{layer.kernel[0]}")
        elif isinstance(layer, MaxPool):
            kernels[-1] += "p"
    draft.add("", "SCONV", " ".join(kernels))


def examples(draft: Draft) -> None:
    """The worked examples of sections 3.4 and 6.5.2."""
    fc = Node(name="fc", kind="dense", variables=(weights(70, 100),), input_channels=70, output_channels=100,
              input_elements=70, raw_elements=100, map_elements=100)
    conv = Node(name="conv", kind="convolution", variables=(weights(20, 50, (5, 5)),), input_channels=20,
                output_channels=50, input_elements=12 * 12 * 20, raw_elements=8 * 8 * 50, map_elements=8 * 8 * 50)
    for node, name in ((fc, "fc 70-100"), (conv, "conv 5x5, 20-50")):
        graph = chain(node.name, [node])
        words = PublishedWords(graph, 32)
        for split, planned in ((DP, simple.data), (MP, simple.model)):
            draft.add("KB", f"{name}, {split}", words.total_bytes(planned(graph, 1)) / 1e3)
    nodes = {node.name: node for node in case("vgg-e").graph.nodes}
    for name, batch in (("conv5_1", 32), ("fc3", 4096)):
        draft.add("elements", f"{name}, A(dW)", nodes[name].weights)
        draft.add("elements", f"{name}, A(F), batch {batch}", batch * nodes[name].raw_elements)


def labels(draft: Draft) -> None:
    """Geometric means of the labels as they were read, beside those that the paper prints."""
    for key in ("6", "7", "8"):
        figure = HYPAR.draft(key)
        for series in ("model", "data", "hypar"):
            what = f"Figure {key}, {HYPAR.data['series'][series]}"
            if ("", what) in draft.entries:
                draft.add("", what, mean([figure.paper(series, name) for name in NAMES]))
