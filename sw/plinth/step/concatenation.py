"""Channels of a concatenation's output: those of each input, one input's behind the other's."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from plinth.buffers import Buffer
from plinth.step.tensors import Tensor, View


@dataclass(frozen=True)
class Columns(View):
    """Neighbouring channels of a tensor whose channels no die splits."""

    of: Tensor
    first: int
    count: int

    def buffer(self, die: int) -> Buffer:
        """Where they lie on a die."""
        whole = self.of.buffer(die)
        return whole.part(whole.name, self.first // (2 if self.packed else 1), whole.rows, self.count, whole.stride)


def side_by_side(inputs: Sequence[Tensor], whole: Tensor) -> list[Columns]:
    """Which channels of a concatenation are those of each of its inputs."""
    firsts = accumulate((one.channels for one in inputs), initial=0)
    return [Columns(whole, first, one.channels) for first, one in zip(firsts, inputs, strict=False)]
