"""What is simulated of a step, and what it is for, as pictures and traces tell it apart."""

from collections.abc import Callable
from typing import Any

from plinth.step.between import Barrier, Exchange, Reduce, Regroup
from plinth.step.kernel_sums import KernelProducts, KernelSums
from plinth.step.operations import Gather, Operation, Products
from plinth.step.step import Step
from plinth.step.tasks import UPDATE
from plinth.step.tile_operations import ElementProducts
from plinth.step.updates import StateUpdate
from plinth_sim.array.machine import Activity

#: What an operation can be for.
PHASES = FPROP, BPROP, GRADIENT, TRANSFER, REDUCTION = ("fprop", "bprop", "weight gradient", "transfer", "reduction")


def _product(operation: Products | ElementProducts | KernelProducts | KernelSums) -> str:
    return GRADIENT if operation.direction == UPDATE else ""


#: What operations are for, by their kind; "", and others: the pass where they stand.
FOR: dict[type, Callable[[Any], str]] = {
    Exchange: lambda operation: TRANSFER, Barrier: lambda operation: TRANSFER,
    Regroup: lambda operation: REDUCTION, Reduce: lambda operation: REDUCTION, StateUpdate: lambda operation: REDUCTION,
    Products: _product, ElementProducts: _product, KernelProducts: _product, KernelSums: _product,
    Gather: lambda operation: GRADIENT if operation.added else ""}


def phase(step: Step, number: int, operation: Operation) -> str:
    """What an operation of a step is for."""
    kind = next((kind for kind in type(operation).__mro__ if kind in FOR), None)
    found = "" if kind is None else FOR[kind](operation)
    return found or (FPROP if number < step.forward_operations else BPROP)


class Collected:
    """Activities, each with what it is for."""

    def __init__(self) -> None:
        self.activities: list[Activity] = []
        self.phases: list[str] = []
        self._names: dict[str, int] = {}

    def add(self, activity: Activity, phase: str) -> None:
        """One more."""
        self.activities.append(activity)
        self.phases.append(phase)

    def named(self, name: str) -> str:
        """A name that nothing else has."""
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name} ({self._names[name]})"
