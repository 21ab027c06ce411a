"""Sums of gradients over rings in a training step: their messages, and by which reduce blocks they go."""

from plinth.partition.groups import RING, ProcessGroups
from plinth.partition.rounds import rounds
from plinth.sharding import MOST_PIECES, Ring
from plinth.step.between import Barrier, Reduce, Regroup
from plinth.step.copies import rings_of
from plinth.step.step import Step
from plinth.step.tasks import Phase
from plinth.step.updates import StateUpdate
from plinth.step.weights import WHOLE, ElementPiece, WeightPiece, Weights
from plinth_hw.isa.operations import Engine

#: Rings that go at once by the same block: those of some process groups, and of which of their rounds.
_Set = tuple[ProcessGroups, int]


class Reductions:
    """Sums of gradients over rings, with the update of the weights: one message of a ring, where a weight is all that
    an update reads and writes; else a sum, the owners' updates (:mod:`~plinth.step.updates`), and a message that
    gathers the weights.

    Chunks of a message that a die has not started hold up its reduce block's class there, and so may those of two
    rings that meet on a link (:mod:`plinth.partition.rounds`). So each set of rings that do not meet has blocks of its
    own. Where there are more sets than blocks, those of a block take turns: before the other one's next message all
    dies end what they have.
    """

    def __init__(self, step: Step):
        self._step = step
        self._planned = {reduction.layer: reduction for reduction in step.sharding.reductions}
        blocks = step.parameters.reduce_blocks
        groups = [rings for rings in step.groups if rings.size > 1]
        self._rounds = {rings: rounds(step.array, rings) for rings in groups}
        sets = [(rings, number) for rings in groups for number in range(len(self._rounds[rings]))]
        self._blocks = {ring_set: range(number % blocks, blocks, len(sets)) for number, ring_set in enumerate(sets)}
        self._last: dict[int, _Set] = {}
        #: Of each die the group that has its table's last row now, where groups take turns in it.
        self._in_turn: dict[int, int] = {}
        self._turn = 0
        self._rings = rings_of(step.sharding, step.parameters)

    def _ring(self, number: int) -> Ring:
        ring = self._rings[number]
        assert ring is not None
        return ring

    def pieces(self, number: int) -> list[WeightPiece]:
        """Pieces of rows of a layer's gradient, each a message."""
        ring = self._ring(number)
        if ring.elements or ring.pieces == 1:
            return [WHOLE]
        return [WeightPiece(piece, ring.pieces) for piece in range(ring.pieces)]

    def elements(self, number: int, rates: tuple[float, ...]) -> list[WeightPiece]:
        """Pieces of a layer's weights that have learning rates of their own, by elements of tiles, one each, and the
        bias; none, if they do not go so: the gradient is multiplied by the rates then."""
        ring = self._ring(number)
        if not rates or not ring.elements or self._step.graph.nodes[number].name in self._step.kept:
            return []
        return [ElementPiece(piece, ring.pieces, rates) for piece in range(ring.pieces)]

    def add(self, number: int, piece: WeightPiece) -> None:
        """The reduction of a piece of one layer, behind the last micro-batch."""
        if not self._step.last_micro_batch:
            return
        step, node, rings = self._step, self._step.graph.nodes[number], self._step.members(RING, number)
        # Neighbours go by different blocks.
        self._turn = number if piece.of == 1 else self._turn + 1
        if rings.size == 1:
            self._reduce(number, piece, dict.fromkeys(range(len(rings.members)), 0), None)
            return
        together = self._together(rings)
        # Those whose turn it is go first.
        together.sort(key=lambda some: any(self._waits(rings, round_number) for round_number in some))
        for some in together:
            after = None
            if any(self._waits(rings, round_number) for round_number in some):
                after = step.next_exchange()
                step.add(Barrier(node.name, after, step.dies, Engine.COLLECTIVE, node))
            self._last.update((self._block(rings, round_number), (rings, round_number)) for round_number in some)
            self._reduce(number, piece, {ring: self._block(rings, round_number) for round_number in some
                                         for ring in self._rounds[rings][round_number]}, after)

    def _together(self, rings: ProcessGroups) -> list[range]:
        """Rounds of rings that go at once, by different blocks."""
        blocks, count = self._step.parameters.reduce_blocks, len(self._rounds[rings])
        return [range(first, min(first + blocks, count)) for first in range(0, count, blocks)]

    def _block(self, rings: ProcessGroups, round_number: int) -> int:
        """By which a round's rings go now."""
        own = self._blocks[rings, round_number]
        return own[self._turn % len(own)]

    def _waits(self, rings: ProcessGroups, round_number: int) -> bool:
        """Whether a round's block has had another set last."""
        return self._last.get(self._block(rings, round_number), (rings, round_number)) != (rings, round_number)

    def _reduce(self, number: int, piece: WeightPiece, blocks: dict[int, int], after: int | None) -> None:
        """Of some rings, each by its block."""
        step, node, rings = self._step, self._step.graph.nodes[number], self._step.members(RING, number)
        weights, gradients, kept = step.weights[node.name], step.gradients[node.name], step.kept.get(node.name)
        group = step.groups.index(rings)

        def message(phase: Phase, source: Weights, target: Weights, turn: int, after: int | None = None) -> None:
            first = (number + (piece.number + turn * MOST_PIECES) * len(step.graph.nodes)) * (
                step.parameters.reduce_blocks)
            reduce = Reduce(self._planned[node.name], node, rings, min(group, step.fixed_groups), tuple(
                first + blocks[ring] if ring in blocks else None for ring in range(len(rings.members))),
                phase, source, target, step.parameters, after, piece)
            if group >= step.fixed_groups:
                self._regroup(group, reduce)
            step.add(reduce)

        if kept is None:
            message(Phase.UPDATE, gradients, weights, 0, after)
            return
        sums = step.sums.get(node.name, gradients)
        if rings.size > 1:
            message(Phase.SUM, gradients, sums, 0, after)
        step.add(StateUpdate(node, step.parameters, step.rule.scaled(step.scale), weights, sums, step.owned[node.name],
                             kept, step.generator, piece, frozenset(blocks)))
        if rings.size > 1:
            message(Phase.GATHER, weights, weights, 1)

    def _regroup(self, group: int, reduce: Reduce) -> None:
        """Before a message of a group that takes turns in the last row: on the dies that take part, unless they have it
        there. What a step has left there the next one does not count on."""
        dies = frozenset(die for die in range(self._step.dies)
                         if self._in_turn.get(die) != group and reduce.takes_part(die))
        if dies:
            self._in_turn.update(dict.fromkeys(dies, group))
            self._step.add(Regroup(reduce.row, reduce.rings, dies, reduce.node))
