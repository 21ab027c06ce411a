"""Junctions: the sum of several maps, and their mean. Where the summands are Winograd layers their tiles may be added
instead (:class:`plinth.partition.blocks.TileSum`)."""

from collections.abc import Sequence
from functools import cached_property

from plinth.partition.graph import Node
from plinth.step.layers.node import NodeLayer
from plinth.step.operations import Sweep
from plinth.step.reductions import Reductions
from plinth.step.tensors import Placed, Tensor
from plinth.step.vector import Operand, VectorProgram
from plinth_hw.isa.vector_body import VectorOp


class AddLayer(NodeLayer):
    """Builds the operations of a residual add."""

    @cached_property
    def _tiled(self) -> tuple[int, ...]:
        """The layers whose tiles are added, if they are."""
        return next((tile_sum.members for tile_sum in self.step.tile_sums.values()
                     if tile_sum.junction is self.node), ())

    def inputs(self) -> list[Tensor]:
        return [] if self._tiled else super().inputs()

    def summands(self) -> list[Placed]:
        if not self._tiled:
            return super().summands()
        # Of a sum of tiles the last layer has it all.
        whole = self.layers[self._tiled[-1]].z
        assert whole is not None
        return [whole]

    @property
    def biased(self) -> list[Node]:
        return [node for node in (self.layers[number].node for number in self._tiled) if node.bias]


class JoinLayer(AddLayer):
    """Builds the operations of a join, the mean of its inputs."""

    def combine(self, program: VectorProgram, summands: Sequence[Placed], biases: Sequence[Operand]) -> None:
        """Region "z": summands, then biases, added in their order, over the number of inputs."""
        super().combine(program, summands, biases)
        program.run(VectorOp.SCALE, "z", "z", immediate=1.0 / len(self.feeds))

    def propagate(self, error: Tensor, reductions: Reductions) -> None:
        """Append what gives each input its share of the error."""
        step, node = self.step, self.node
        share = step.reserve(error.like(f"{node.name}.share"))
        program = VectorProgram(step.parameters)
        program.load("d", error)
        program.run(VectorOp.SCALE, "d", "d", immediate=1.0 / len(self.feeds))
        program.store("d", share)
        step.add(Sweep(f"{node.name}.share", node, step.parameters, program, program, error, 1))
        super().propagate(share, reductions)
