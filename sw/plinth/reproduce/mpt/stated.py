"""What MPT states outside its figures: the setup, Tables I to IV, formulas."""

from plinth.array.array import ARRAYS, data_parallel_workers
from plinth.network.layers import Convolution
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.exchanges import exchange_words, exchanges
from plinth.partition.graph import DP, EP, from_network
from plinth.partition.regions import layouts
from plinth.predict.exact import node_words
from plinth.reproduce.mpt.cases import BATCH, CLUSTERS, GROUPS, LAYERS, array, groups, layer, plan_of
from plinth.reproduce.paper import CLAIMS, Draft
from plinth.simulate.costs import DieCosts
from plinth.step.build import step_of
from plinth.step.tile_operations import ElementProducts
from plinth_hw.isa.parameters import PRESETS
from plinth_sim.array.energy import Energy

#: What the paper calls the networks of Table I, and its layers of Table II.
NAMES = {"Wide ResNet": "wrn-40-10", "ResNet": "resnet-34", "FractalNet": "fractalnet-4-4"}


def setup(draft: Draft) -> None:
    """Section VII.A and Table III: what is simulated as stated, and what our die of that size has."""
    where, die, energy = ARRAYS["mpt-256"], PRESETS[ARRAYS["mpt-256"].preset], Energy()
    hertz, word = float(where.clock_mhz) * 1e6, die.word_bytes
    assert where.narrow_rate is not None
    full, narrow = (float(rate) * word * hertz / 1e9 for rate in (where.rate / 2, where.narrow_rate))
    memory = float(die.memory_words_per_cycle) * word * hertz / 1e9
    draft.add("", "clock, GHz", hertz / 1e9)
    draft.add("", "full link, GB/s a direction", full)
    draft.add("", "narrow link, GB/s a direction", narrow)
    draft.add("", "topology", "ring + flattened butterfly")
    draft.add("", "routing", "minimal")
    draft.add("", "memory, GB/s", memory)
    draft.add("", "workers", array().dies)
    draft.add("", "batch", BATCH)
    draft.add("", "groups x clusters", f"{GROUPS}x{CLUSTERS} 4x64 1x256")
    draft.add("", "packet of a collective, B", die.chunk_words * word)
    draft.add("", "hop, ns", where.link_latency / hertz * 1e9)
    draft.add("", "PEs, FP32", f"{die.rows}x{die.columns}")
    mixed = PRESETS[ARRAYS["mpt-256-mixed"].preset]
    draft.add("", "PEs, FP16", f"{mixed.rows}x{mixed.columns}")
    draft.add("", "stream, GB/s", die.beat_words * word * hertz / 1e9)
    draft.add("", "half of an input buffer, KB", die.operand_buffer_words * word / 1024)
    draft.add("", "output buffer, KB", die.output_buffer_words * word / 1024)
    draft.add("", "half of the scratchpad, KB", die.vector_buffer_words * word / 1024)
    draft.add("", "addition, pJ", energy.add)
    draft.add("", "multiplication, pJ", energy.multiply)
    rings = data_parallel_workers(GROUPS * CLUSTERS).links[0].rate
    draft.add("", "full links, GB/s", 2 * float(rings) * word * hertz / 1e9)


def networks(draft: Draft) -> None:
    """Tables I and II."""
    for title, name in NAMES.items():
        network = NETWORKS[name]
        projections = sum(network.layer_weights(layer.name) for layer in network.weighted
                          if layer.name.startswith("shortcut"))
        kernels = sum(network.layer_weights(layer.name) for layer in network.layers
                      if isinstance(layer, Convolution) and layer.kernel == (3, 3))
        draft.add("", f"{title}, parameters", (network.parameters - projections) / 1e6)
        draft.add("", f"{title}, of 3x3", kernels / 1e6)
    for name in LAYERS:
        conv, source = NETWORKS[name].layers[0], NETWORKS[name].input
        assert isinstance(conv, Convolution)
        draft.add("", name, f"{source.channels} {conv.channels} {source[1]}x{source[2]} "
                            f"{conv.kernel[0]}x{conv.kernel[1]}")


def balance(draft: Draft) -> None:
    """Forward products of Late-1 on 256 workers: cycles of multiply-adds in all PEs, and of words at memory's rate."""
    ratios = {}
    for system in ("w_dp", "w_mp"):
        plan = plan_of(layer("mpt-late-1"), system)
        node, where = next(node for node in plan.graph.nodes if node.name == "conv"), plan.hardware
        assert where is not None and node.tiling is not None
        costs, die = DieCosts(where), where.die_parameters()
        step = step_of(plan.sharding, die)
        products = next(products for products in step.operations_of(ElementProducts) if products.name == "conv.fprop")
        done = [costs.task(task) for task in products.tasks(0)]
        multiplied = sum(cost.multiplies for cost in done) / (die.rows * die.columns)
        rate = float(die.memory_words_per_cycle)
        elements = node.tiling.elements * node.input_channels * node.output_channels / groups("mpt-late-1", system)
        moved = sum(cost.words for cost in done) / rate
        for what, cycles in (("multiply-adds over PEs", multiplied), ("words of elements of weights", elements / rate),
                             ("all words", moved)):
            draft.add(system, what, round(cycles))
        ratios[system] = moved / multiplied
    for system, ratio in ratios.items():
        draft.add(CLAIMS, f"memory / PEs, {system}", ratio)


def formulas(draft: Draft) -> None:
    """Words of a worker, as the formulas say and as our dies move them: Late-1, 16 groups and 16 clusters."""
    graph = from_network(with_tiles(NETWORKS["mpt-late-1"], 2, "winograd"))
    node, factors, dies = graph.nodes[0], (2,) * 8, GROUPS * CLUSTERS
    assert node.tiling is not None
    by_groups = ((EP,) * 4 + (DP,) * 4, (DP,) * 8)
    for what, vector, words in (("weights, data parallel", (DP,) * 8, node.weights * (dies - 1) / dies),
                                ("weights, MPT", by_groups[0], node.weights / GROUPS * (CLUSTERS - 1) / CLUSTERS)):
        here = layouts(graph, (vector, (DP,) * 8), (), factors)
        draft.add("", what, node_words(graph, 0, here[0], BATCH, factors) / 2 / dies / words)
    here = layouts(graph, by_groups, (), factors)
    scatter = next(exchange for exchange in exchanges(graph, here, factors)
                   if (exchange.phase, exchange.kind) == ("fprop", "scatter"))
    tiles = BATCH * node.tiling.positions * node.tiling.elements * node.input_channels
    draft.add("", "tiles, MPT", exchange_words(scatter, BATCH, factors) / dies / (tiles / dies * (GROUPS - 1) / GROUPS))
    draft.add("", "fprop", "Y(u,v)[b,j]=sum_i X(u,v)[b,i] W(u,v)[i,j]")
    # Of data parallelism kernels are summed, of MPT elements.
    share = 9 / node.tiling.elements
    plain = layouts(graph, ((DP,) * 8, (DP,) * 8), (), factors)
    less = share * node_words(graph, 0, plain[0], BATCH, factors) / node_words(graph, 0, here[0], BATCH, factors)
    draft.add("", "reduction", less / (GROUPS * share))
