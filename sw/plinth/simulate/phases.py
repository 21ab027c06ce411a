"""What the operations of a step are for, as pictures and traces tell them apart."""

from plinth.step.operations import Barrier, Exchange, Operation, Reduce
from plinth.step.step import Step
from plinth.step.tasks import UPDATE

#: What an operation can be for.
PHASES = ("fprop", "bprop", "weight gradient", "transfer", "reduction")


def phase(step: Step, number: int, operation: Operation) -> str:
    """What an operation of a step is for."""
    if isinstance(operation, (Exchange, Barrier)):
        return "transfer"
    if isinstance(operation, Reduce):
        return "reduction"
    if getattr(operation, "direction", "") == UPDATE or getattr(operation, "added", False):
        return "weight gradient"
    return "fprop" if number < step.forward_operations else "bprop"
