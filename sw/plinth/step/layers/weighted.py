"""What nodes share whose weights make sums of their input: partial ones, where input channels are split over dies."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from plinth.partition.groups import SUM
from plinth.step.layers.node import NodeLayer
from plinth.step.reductions import Reductions
from plinth.step.slots import Slots, Summands
from plinth.step.sums import LEFT
from plinth.step.tasks import BPROP, FPROP
from plinth.step.tensors import Meeting, Placed, Tensor


class WeightedLayer(NodeLayer, ABC):
    """Builds the operations of a node with a matrix of weights for each tap. Each kind says what these do forwards
    (:meth:`multiply`) and backwards (:meth:`differentiate`)."""

    narrow_error = True
    #: Whether its product is there; else another node's has it.
    gives_product = True

    @abstractmethod
    def multiply(self, x: Tensor, z: Tensor) -> None:
        """Append fprop: what is read, with the weights, gives ``z``."""

    @abstractmethod
    def differentiate(self, x: Tensor, z: Tensor, error: Tensor, reductions: Reductions) -> None:
        """Append bprop and updateGrad from the error of ``z``, and sums of the gradient over dies."""

    def summands(self) -> list[Placed]:
        step, node = self.step, self.node
        z = Tensor(f"{node.name}.product", step.samples, node.raw_positions, node.output_channels, self.here.output,
                   step.factors)
        z = z.turned(z.name) if self.by_channel else z
        self.z = z = step.reserve(z) if self.gives_product else z
        self.multiply(self.x[0], z)
        return self.partial_sums(z)

    def partial_sums(self, z: Tensor) -> list[Placed]:
        """Append what sends the partial sums of all dies to their owners; the summands there, in die order."""
        step, node = self.step, self.node
        planned = step.defined(node, FPROP, "reduce")
        if planned is None:
            return [z]
        members = step.members(SUM, self.number)
        count = members.size
        owned = Tensor(f"{node.name}.owned", step.samples, z.positions, z.channels, planned.target, step.factors)
        slots = step.reserve(Slots(f"{node.name}.partial", owned, count, step.parameters.beat_words))
        step.exchange(planned, self.number, z, slots, members, own=False)
        # A die's own summand stays where it is.
        sources: Sequence[Placed] = Summands(slots, Meeting(z, owned), members)
        if count <= 2:
            return list(sources)
        return self.add_up(f"{node.name}.sum", sources, step.reserve(owned.like(f"{node.name}.sum")), LEFT)

    def propagate(self, error: Tensor, reductions: Reductions) -> None:
        step, node, z = self.step, self.node, self.z
        assert z is not None
        if (planned := step.defined(node, BPROP, "copy")) is not None:
            whole = step.reserve(z.like(f"{node.name}.whole_error"))
            step.exchange(planned, self.number, error, [whole], own=True)
            error = whole
            if node.bias:
                self.error_sweep(f"{node.name}.bias", None, error, None, bias=True)
                step.release(f"{node.name}.bias")
        self.differentiate(self.x[0], z, error, reductions)
