"""How copies of weights are kept equal, unless a sharding says it: in which pieces gradients go round their rings."""

from plinth.partition.cuts import parts
from plinth.partition.graph import Node
from plinth.partition.groups import RING, ProcessGroups
from plinth.partition.rounds import rounds
from plinth.sharding import MOST_PIECES, Copies, Ring, Sharding
from plinth.step import cuts
from plinth.step.tensors import Weights
from plinth_hw.isa.parameters import DieParameters

#: Words of a piece, at least: chunks that each die of a ring owns, so often; and the array's rows in its matrix.
#: Products of fewer rows move more words than they take cycles, and hold up the messages.
LEAST_CHUNKS, LEAST_ROWS = 4, 2


def weights_of(sharding: Sharding, number: int, kind: str) -> Weights:
    """Weights of a layer, or their gradient: ``kind`` is ``parameters`` or ``gradients``."""
    node, here = sharding.graph.nodes[number], sharding.layouts[number]
    taps = node.weights // (node.input_channels * node.output_channels)
    order = node.tiling.order(parts(here.ep, sharding.factors)) if node.tiling is not None and node.free else ()
    return Weights(f"{node.name}.{kind}", (taps, node.input_channels, node.output_channels), here.weights,
                   sharding.factors, node.bias > 0, cuts.SPARE_ROWS if here.mp and node.gathers else 0, tap_order=order)


def turns(sharding: Sharding, target: DieParameters, rings: ProcessGroups) -> int:
    """In how many turns rings go round, for rings that meet on a link go by different reduce blocks."""
    return 1 if rings.size == 1 else -(-len(rounds(sharding.array, rings)) // target.reduce_blocks)


def copies_of(sharding: Sharding, target: DieParameters) -> Copies:
    """How copies of each layer's weights are kept equal: as the sharding says, or in rings along the array's links, in
    as many pieces as suit dies of some parameters.

    A piece goes round its ring while the next one is computed, if both take long enough for that. Behind a
    convolution's work a message hides whole, and one product reads errors once. Where rings would have to take turns it
    goes whole, too. Weights with learning rates of their own are pieces, unless these would be too short to be
    messages, or begin within a beat.
    """
    return sharding.copies or refitted(sharding, target)


def refitted(sharding: Sharding, target: DieParameters) -> Copies:
    """The rings of a sharding in as many pieces as suit dies of some parameters, whatever it says of pieces."""
    nodes = sharding.graph.nodes
    first = next((number for number, node in enumerate(nodes) if node.window), len(nodes))
    return tuple(_ring(sharding, target, number, node, number < first) if node.weighted else None
                 for number, node in enumerate(nodes))


def _ring(sharding: Sharding, target: DieParameters, number: int, node: Node, before: bool) -> Ring:
    """``before``: no convolution comes before it."""
    groups, weights = sharding.groups(RING, number), weights_of(sharding, number, "gradients")
    least, together = LEAST_CHUNKS * groups.size * target.chunk_words, turns(sharding, target, groups) == 1
    if node.free:
        slices = [weights.slice(die) for die in range(sharding.dies)]
        words = {one.inputs * one.outputs for one in slices}
        if not together or any(each < least or each % target.beat_words for each in words):
            return Ring(groups)
        return Ring(groups, max(one.taps for one in slices) + 1, elements=True)
    if groups.size == 1 or node.gathers or not before or not together:
        return Ring(groups)
    return Ring(groups, max(1, min(MOST_PIECES, weights.place_words() // least,
                                   weights.most_rows // (LEAST_ROWS * target.rows))))
