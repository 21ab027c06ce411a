"""How dies keep copies of weights equal: in the rings that a sharding says, else in rings that suit them."""

from dataclasses import replace
from operator import itemgetter

from plinth.errors import UserError
from plinth.machine.block_cost import BlockCost
from plinth.machine.sparse_products import HostBlockCost
from plinth.network.winograd import element_rates
from plinth.partition.axes import SAMPLES
from plinth.partition.cuts import parts
from plinth.partition.graph import Node
from plinth.partition.groups import RING, ProcessGroups
from plinth.partition.rounds import rounds
from plinth.sharding import MOST_PIECES, Copies, Gathered, Ring, Server, Sharding, Sync
from plinth.step import granularity
from plinth.step.pattern_weights import PatternWeights
from plinth.step.weights import Weights
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

#: Words of a piece, at least: chunks that each die of a ring owns, so often; and the array's rows in its matrix.
#: Products of fewer rows move more words than they take cycles, and hold up the messages.
LEAST_CHUNKS, LEAST_ROWS = 4, 2


def weights_of(sharding: Sharding, number: int, kind: str, target: DieParameters) -> Weights:
    """Weights of a layer, or their gradient, on dies of some parameters: ``kind`` is ``parameters`` or
    ``gradients``."""
    node, here = sharding.graph.nodes[number], sharding.layouts[number]
    if node.pattern is not None:
        samples = int(here.input.lengths(SAMPLES, sharding.batch, sharding.factors).max())
        # What goes round rings is entries, as plans count them.
        cost = HostBlockCost(samples) if sharding.array is not None and sharding.array.host is not None else (
            BlockCost.of(target, samples, fill=parts(here.ring, sharding.factors) == 1))
        return PatternWeights(f"{node.name}.{kind}", node.matrix, here.weights, sharding.factors, node.bias > 0,
                              pattern=node.pattern, inputs=here.input, cost=cost)
    order = node.tiling.order(parts(here.ep, sharding.factors)) if node.tiling is not None and node.free else ()
    return Weights(f"{node.name}.{kind}", node.matrix, here.weights, sharding.factors, node.bias > 0,
                   granularity.SPARE_ROWS if here.mp and node.gathers else 0, tap_order=order)


def turns(sharding: Sharding, target: DieParameters, rings: ProcessGroups) -> int:
    """The number of turns in which rings go round, for rings that meet on a link go by different reduce blocks."""
    return 1 if rings.size == 1 else -(-len(rounds(sharding.array, rings)) // target.reduce_blocks)


def copies_of(sharding: Sharding, target: DieParameters) -> Copies:
    """How copies of each variable are kept equal: as the sharding says, or in rings along the array's links, in as many
    pieces as suit dies of some parameters.

    A piece goes round its ring while the next one is computed, if both take long enough for that. Behind a
    convolution's work a message hides whole, and one product reads errors once. Where rings would have to take turns it
    goes whole, too. Weights with learning rates of their own are pieces, unless these would be too short to be
    messages, or begin within a beat.
    """
    return sharding.copies or refitted(sharding, target)


def refitted(sharding: Sharding, target: DieParameters) -> Copies:
    """The copies of a sharding with pieces and chunks that suit dies of some parameters. Rings keep their dies and the
    order of these; what is not kept equal by a ring stays as it is."""
    syncs = dict(sharding.copies)
    copies: list[tuple[str, Sync]] = []
    for node, ring in zip(sharding.graph.nodes, _fitted(sharding, target), strict=True):
        for variable in node.variables:
            assert ring is not None
            name = variable.qualified(node.name)
            said = syncs.get(name, ring)
            copies.append((name, replace(ring, groups=said.groups) if isinstance(said, Ring) else said))
    return tuple(sorted(copies, key=itemgetter(0)))


def rings_of(sharding: Sharding, target: DieParameters) -> tuple[Ring | None, ...]:
    """For each node the ring that all of its variables go round together, on dies of some parameters; None where it has
    no variables.

    Raises
    ------
    UserError
        With the variable, if its copies are not kept equal so, and with the remedy.
    """
    if not sharding.copies:
        return _fitted(sharding, target)
    return tuple(_only_ring(sharding, target, number) if node.weighted else None
                 for number, node in enumerate(sharding.graph.nodes))


def _only_ring(sharding: Sharding, target: DieParameters, number: int) -> Ring:
    node, syncs = sharding.graph.nodes[number], sharding.syncs(number)
    groups = sharding.groups(RING, number)
    rings: dict[str, Ring] = {}
    for variable, sync in zip(node.variables, syncs, strict=True):
        name = variable.qualified(node.name)
        if isinstance(sync, Server | Gathered):
            if not node.gathers:
                raise UserError(f"variable {name!r} is kept {sync.said}, as dies keep tables of embeddings alone; give "
                                "it a ring, or make the plan again with `plinth plan`")
            # Who has a row updates it by itself.
            continue
        if isinstance(sync, Ring):
            rings[name] = sync
        elif groups.size > 1:
            raise UserError(f"variable {name!r} is local, but {groups.size} dies have copies of the same, which dies "
                            "keep equal; give it a ring, or make the plan again with `plinth plan`")
    # A variable of which each die has its own, or that is local to one, goes with the others.
    (first, ring), *others = rings.items() or [("", Ring(groups, 1, target.chunk_words))]
    for name, other in others:
        if other != ring:
            raise UserError(f"variable {name!r} has another ring than {first!r}, and dies send what a layer trains "
                            "together; give both the same ring, or make the plan again with `plinth plan`")
    _check_chunk(node, ring, target)
    return ring


def _check_chunk(node: Node, ring: Ring, target: DieParameters) -> None:
    if ring.chunk != target.chunk_words:
        raise UserError(f"the gradient of layer {node.name!r} goes in chunks of {ring.chunk} words, but dies of preset "
                        f"{target.name!r} have {target.chunk_words}; make the plan again with `plinth plan`")


def _fitted(sharding: Sharding, target: DieParameters) -> tuple[Ring | None, ...]:
    """For each node with weights the ring that suits dies of some parameters."""
    nodes = sharding.graph.nodes
    first = next((number for number, node in enumerate(nodes) if node.window), len(nodes))
    return tuple(_ring(sharding, target, number, node, number < first) if node.weighted else None
                 for number, node in enumerate(nodes))


def _by_elements(sharding: Sharding, target: DieParameters, number: int) -> str:
    """Why the weights of a layer do not go element by element of its Winograd tiles; empty: they do."""
    node, rule = sharding.graph.nodes[number], sharding.rule
    if not node.free:
        return "it has no Winograd tiles that are trained"
    assert node.tiling is not None
    if rule.squares or not element_rates(node.tiling.form):
        return "its elements have no learning rates of their own"
    if not (rule.plain and Engine.COLLECTIVE in target.engines):
        return "dies keep states beside its weights"
    groups, weights = sharding.groups(RING, number), weights_of(sharding, number, "gradients", target)
    words = {part.inputs * part.outputs for part in map(weights.slice, range(sharding.dies))}
    if any(each < LEAST_CHUNKS * groups.size * target.chunk_words or each % target.beat_words for each in words):
        return "elements would be too short messages, or begin within a beat"
    return "its rings take turns" if turns(sharding, target, groups) > 1 else ""


def check_copies(sharding: Sharding, target: DieParameters) -> None:
    """Refuse pieces of gradients that dies cannot send, and chunks that are not as long as theirs.

    Raises
    ------
    UserError
        With the layer, and why.
    """
    for number, node in enumerate(sharding.graph.nodes):
        for ring in dict.fromkeys(sync for sync in sharding.syncs(number) if isinstance(sync, Ring)):
            _check_chunk(node, ring, target)
            if ring.pieces == 1:
                continue
            why = _by_elements(sharding, target, number) if ring.elements else (
                "its rings take turns" if turns(sharding, target, ring.groups) > 1 else "")
            if why:
                raise UserError(f"the gradient of layer {node.name!r} cannot go in {ring.pieces} pieces"
                                f"{' of elements' * ring.elements}: {why}; make the plan again with `plinth plan`")


def _ring(sharding: Sharding, target: DieParameters, number: int, node: Node, before: bool) -> Ring:
    """``before``: no convolution comes before it."""
    groups, weights = sharding.groups(RING, number), weights_of(sharding, number, "gradients", target)
    if node.free and not _by_elements(sharding, target, number):
        pieces = max(weights.slice(die).taps for die in range(sharding.dies)) + 1
        return Ring(groups, pieces, target.chunk_words, elements=True)
    whole = node.gathers or node.pattern is not None or not before
    if groups.size == 1 or whole or turns(sharding, target, groups) > 1:
        return Ring(groups, 1, target.chunk_words)
    return Ring(groups, max(1, min(MOST_PIECES, weights.place_words() // (
        LEAST_CHUNKS * groups.size * target.chunk_words), weights.most_rows // (LEAST_ROWS * target.rows))),
        target.chunk_words)
