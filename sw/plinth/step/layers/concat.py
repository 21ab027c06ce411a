"""Concatenations: channels of each input, one input's behind the other's."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from plinth.buffers import Buffer
from plinth.partition.axes import Region
from plinth.step.layers.node import NodeLayer
from plinth.step.operations import Sweep
from plinth.step.reductions import Reductions
from plinth.step.tensors import Placed, Tensor, View
from plinth.step.vector import VectorProgram


@dataclass(frozen=True)
class Columns(View):
    """Neighbouring channels of a tensor whose channels no die splits."""

    of: Tensor
    first: int
    count: int

    def buffer(self, die: int) -> Buffer:
        """The memory of these channels on a die."""
        whole = self.of.buffer(die)
        return whole.part(whole.name, self.first // (2 if self.packed else 1), whole.rows, self.count, whole.stride)


def side_by_side(inputs: Sequence[Tensor], whole: Tensor) -> list[Columns]:
    """Which channels of a concatenation are those of each of its inputs."""
    firsts = accumulate((tensor.channels for tensor in inputs), initial=0)
    return [Columns(whole, first, tensor.channels) for first, tensor in zip(firsts, inputs, strict=False)]


class ConcatLayer(NodeLayer):
    """Builds the operations of a concatenation."""

    def network_part(self) -> tuple[Region, int, int]:
        region, channels, positions = super().network_part()
        others = sum(self.step.graph.edges[edge].channels for edge in self.feeds if edge is not None)
        return region, (channels - others) // len(self.node.network_inputs), positions

    def finish(self, summands: list[Placed]) -> Tensor:
        """Append what brings each input into its channels, with the first activation; the map that it gives."""
        output = self.reserve_output()
        target = self.activated(output)
        outputs, targets = (side_by_side(self.x, whole) for whole in (output, target))
        for place, (x, channels, activated) in enumerate(zip(self.x, outputs, targets, strict=True)):
            program = VectorProgram(self.step.parameters)
            program.load("z", x)
            further = self.store(program, channels, activated)
            self.step.add(Sweep(f"{self.node.name}.output{place}", self.node, self.step.parameters, program, program, x,
                                1 + further))
        return target

    def propagate(self, error: Tensor, reductions: Reductions) -> None:
        """Append what brings the errors of the inputs' channels into places of their own."""
        step, node = self.step, self.node
        for place, (x, channels) in enumerate(zip(self.x, side_by_side(self.x, error), strict=True)):
            if self.feeds[place] is None:
                continue
            part = self.errors[place] = step.reserve(x.like(f"{node.name}.error{place}"))
            program = VectorProgram(step.parameters)
            program.load("d", channels)
            program.store("d", part)
            step.add(Sweep(f"{node.name}.part{place}", node, step.parameters, program, program, part, 1))
