"""Sums of gradients over rings in a training step: in which pieces they go, and by which reduce blocks."""

from plinth.partition.groups import RING, ProcessGroups
from plinth.step.operations import Barrier, Reduce
from plinth.step.step import Step
from plinth.step.tensors import WHOLE, WeightPiece
from plinth_hw.isa.tasks import Engine

#: Pieces of a gradient, at most, and chunks that each die of a ring owns of one, at least.
MOST_PIECES, LEAST_CHUNKS = 4, 4


class Reductions:
    """Sums of gradients over rings, with the update of the weights.

    Chunks of a message that a die has not started hold up its reduce block's class there. Messages of one set of
    rings come to a die from one other die, in their order, so each set has blocks of its own. Where there are more
    sets than blocks, those of a block take turns: before the other one's next message all dies end what they have.
    """

    def __init__(self, step: Step):
        self._step = step
        blocks = step.parameters.reduce_blocks
        sets = [rings for rings in step.groups if rings.size > 1]
        self._blocks = {rings: range(number % blocks, blocks, len(sets)) for number, rings in enumerate(sets)}
        self._last: dict[int, ProcessGroups] = {}
        self._turn = 0
        nodes = step.graph.nodes
        self._convolution = next((number for number, node in enumerate(nodes) if node.window), len(nodes))

    def pieces(self, number: int) -> list[WeightPiece]:
        """Pieces of a layer's gradient: a piece goes round its ring while the next one is computed, if both take long
        enough for that. Behind a convolution's work a message hides whole, and one product reads errors once."""
        step, node, rings = self._step, self._step.graph.nodes[number], self._step.members(RING, number)
        if rings.size == 1 or node.gathers or number >= self._convolution:
            return [WHOLE]
        least = LEAST_CHUNKS * rings.size * step.parameters.chunk_words
        of = max(1, min(MOST_PIECES, step.weights[node.name].place_words() // least))
        return [WeightPiece(piece, of) for piece in range(of)]

    def add(self, number: int, piece: WeightPiece) -> None:
        """The reduction of a piece of one layer."""
        step, node, rings = self._step, self._step.graph.nodes[number], self._step.members(RING, number)
        own = self._blocks.get(rings, range(1))
        # Neighbours go by different blocks.
        self._turn = number if piece.of == 1 else self._turn + 1
        block = own[self._turn % len(own)]
        after = None
        if rings.size > 1 and self._last.get(block, rings) != rings:
            after = step.next_exchange()
            step.add(Barrier(node.name, after, step.dies, Engine.COLLECTIVE))
        if rings.size > 1:
            self._last[block] = rings
        message = (number + piece.number * len(step.graph.nodes)) * step.parameters.reduce_blocks + block
        step.add(Reduce(node, rings, step.groups.index(rings), message, step.weights[node.name],
                        step.gradients[node.name], step.parameters, after, piece))
