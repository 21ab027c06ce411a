"""What is simulated of a step, and what it is for, as pictures and traces tell it apart."""

from plinth.step.between import Barrier, Exchange, Reduce
from plinth.step.operations import Operation
from plinth.step.step import Step
from plinth.step.tasks import UPDATE
from plinth.step.updates import StateUpdate
from plinth_sim.array.machine import Activity

#: What an operation can be for.
PHASES = ("fprop", "bprop", "weight gradient", "transfer", "reduction")


def phase(step: Step, number: int, operation: Operation) -> str:
    """What an operation of a step is for."""
    if isinstance(operation, (Exchange, Barrier)):
        return "transfer"
    if isinstance(operation, (Reduce, StateUpdate)):
        return "reduction"
    if getattr(operation, "direction", "") == UPDATE or getattr(operation, "added", False):
        return "weight gradient"
    return "fprop" if number < step.forward_operations else "bprop"


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
