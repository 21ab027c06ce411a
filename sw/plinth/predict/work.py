"""The cost of each kind of work of a step: one table, which predictions and both forms of simulation read.

A kind of work is added here by the function that gives its :class:`~plinth.machine.record.WorkCost`; what it costs a
host stands in the table of :mod:`plinth.predict.host`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from plinth.machine.control import GROUP_CYCLES
from plinth.machine.die import DieCycles
from plinth.machine.host import HostCycles
from plinth.machine.memory import MEMORY_LATENCY
from plinth.machine.record import WorkCost
from plinth.predict.codes import decode_cost, encode_cost, predict_cost
from plinth.predict.host import host_cost
from plinth.predict.tasks import copy_cost, matrix_cost, rows_cost, vector_cost
from plinth.predict.transforms import line_cost, spread_cost, transform_cost
from plinth.predict.updates import message_cost, optimiser_cost
from plinth.step.tasks import (
    Decode,
    Encode,
    GroupRow,
    LineTransform,
    LookupCopy,
    Multiplication,
    Optimisation,
    Predict,
    Reduction,
    RowsByNumber,
    Signal,
    TileCopy,
    TransformTiles,
    Vector,
    Work,
)


class CostContext(NamedTuple):
    """The conditions that the cost of work depends on beside the work and its die.

    Attributes
    ----------
    codes : str or None
        How dies of the array code tiles (:class:`plinth.array.array.Array`).
    flit_cycles : float or None
        Cycles of a flit on the slowest link between the die and the one that gets the words; None: they stay on the
        die, or links do not count.
    """

    codes: str | None = None
    flit_cycles: float | None = None


def _tile(machine: DieCycles, work: TileCopy, setting: CostContext) -> WorkCost:
    """A copy is one to a single place, or of parts to several dies."""
    return copy_cost(machine, work, setting.flit_cycles) if work.members is None else spread_cost(
        machine.parameters, work)


def _signal(machine: DieCycles, work: Signal, setting: CostContext) -> WorkCost:
    """A copy of a word takes memory's latency."""
    return WorkCost(float(MEMORY_LATENCY), float(MEMORY_LATENCY))


#: For each kind of work what it costs.
COSTS: dict[type, Callable[[DieCycles, Any, CostContext], WorkCost]] = {
    Multiplication: lambda machine, work, setting: matrix_cost(machine, work),
    Vector: lambda machine, work, setting: vector_cost(machine, work),
    TileCopy: _tile,
    TransformTiles: lambda machine, work, setting: transform_cost(machine.parameters, work),
    LineTransform: lambda machine, work, setting: line_cost(machine.parameters, work),
    Encode: lambda machine, work, setting: encode_cost(machine.parameters, work, setting.codes),
    Decode: lambda machine, work, setting: decode_cost(machine.parameters, work, setting.codes),
    Predict: lambda machine, work, setting: predict_cost(machine.parameters, work, setting.codes),
    RowsByNumber: lambda machine, work, setting: rows_cost(machine, work),
    LookupCopy: lambda machine, work, setting: copy_cost(machine, work.typical, setting.flit_cycles),
    Reduction: lambda machine, work, setting: message_cost(machine, work),
    GroupRow: lambda machine, work, setting: WorkCost(GROUP_CYCLES, GROUP_CYCLES),
    Optimisation: lambda machine, work, setting: optimiser_cost(machine.parameters, work),
    Signal: _signal,
}


def work_cost(machine: DieCycles, work: Work, codes: str | None = None, flit_cycles: float | None = None) -> WorkCost:
    """The cost of a piece of work on its engine if nothing else uses the memory.

    Parameters
    ----------
    codes, flit_cycles
        The setting that the cost depends on (:class:`CostContext`).
    """
    if isinstance(machine, HostCycles):
        return host_cost(machine, work)
    return COSTS[type(work)](machine, work, CostContext(codes, flit_cycles))
