"""What is simulated of a step, and what it is for: its phase, by which pictures colour it, and its layer and direction,
by which reports count time, words and energy."""

from collections.abc import Callable
from typing import Any, NamedTuple

from plinth.step.between import Barrier, Exchange, Reduce, Regroup
from plinth.step.kernel_sums import KernelProducts, KernelSums
from plinth.step.layers.embedding import RowGather
from plinth.step.layers.products import Products
from plinth.step.layers.sparse import SparseProducts
from plinth.step.operations import Operation, entry_of
from plinth.step.row_moves import RowPull, RowPush, RowSums
from plinth.step.step import Step
from plinth.step.tasks import BPROP as BACKWARD
from plinth.step.tasks import FPROP as FORWARD
from plinth.step.tasks import UPDATE
from plinth.step.tile_operations import ElementProducts, ElementRates
from plinth.step.updates import StateUpdate
from plinth_sim.array.machine import Activity

#: What an operation can be for.
PHASES = FPROP, BPROP, GRADIENT, TRANSFER, REDUCTION = ("fprop", "bprop", "weight gradient", "transfer", "reduction")


class Purpose(NamedTuple):
    """What an operation is for: its phase, the node of the plan's graph that it belongs to, by name, and the direction
    of that node's work: fprop, bprop, or update."""

    phase: str
    layer: str
    direction: str


def _product(operation: Products | SparseProducts | ElementProducts | KernelProducts | KernelSums) -> str:
    return GRADIENT if operation.direction == UPDATE else ""


#: Phases of operations by their kind; "", and others: the pass where they stand.
FOR: dict[type, Callable[[Any], str]] = {
    Exchange: lambda operation: TRANSFER, Barrier: lambda operation: TRANSFER,
    Regroup: lambda operation: REDUCTION, Reduce: lambda operation: REDUCTION, StateUpdate: lambda operation: REDUCTION,
    **dict.fromkeys((Products, SparseProducts, ElementProducts, KernelProducts, KernelSums), _product),
    RowGather: lambda operation: GRADIENT if operation.added else "",
    **dict.fromkeys((RowPull, RowPush), lambda operation: TRANSFER), RowSums: lambda operation: GRADIENT}


#: Directions of operations that belong to a layer's update wherever they stand, beside those whose phase is the
#: gradient.
DIRECTIONS: dict[type, str] = dict.fromkeys((Barrier, Regroup, Reduce, StateUpdate, ElementRates), UPDATE)


def phase(step: Step, number: int, operation: Operation) -> str:
    """The phase of an operation of a step."""
    phase_of = entry_of(FOR, operation)
    return (phase_of and phase_of(operation)) or (FPROP if step.forwards[number] else BPROP)


def layer(step: Step, operation: Operation) -> str:
    """The name of the node that an operation belongs to; empty: to none, as none of a plan's step does."""
    node = step.graph.nodes[operation.node] if isinstance(operation.node, int) else operation.node
    return "" if node is None else node.name


def purpose(step: Step, number: int, operation: Operation) -> Purpose:
    """Find the purpose of an operation of a step."""
    what = phase(step, number, operation)
    direction = UPDATE if what == GRADIENT else entry_of(DIRECTIONS, operation) or (
        FORWARD if step.forwards[number] else BACKWARD)
    return Purpose(what, layer(step, operation), direction)


class Collected:
    """Activities, each with what it is for, and how many tasks of dies are done when it is.

    Attributes
    ----------
    activities : list of Activity
    purposes : list of Purpose
    tasks : list of int
    """

    def __init__(self) -> None:
        self.activities: list[Activity] = []
        self.purposes: list[Purpose] = []
        self.tasks: list[int] = []
        self._names: dict[str, int] = {}

    def add(self, activity: Activity, purpose: Purpose, tasks: int) -> None:
        """Append an activity, with its purpose and the tasks that it ends."""
        self.activities.append(activity)
        self.purposes.append(purpose)
        self.tasks.append(tasks)

    def named(self, name: str) -> str:
        """A name that nothing else has."""
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name} ({self._names[name]})"
