"""A network's plan, as commands and the library ask for it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from plinth import defaults
from plinth.api.choices import form_of, planner_of
from plinth.array.array import Array
from plinth.errors import UserError
from plinth.names import AUTO_COPIES, JOINT, MPT, RINGS
from plinth.network.network import Network
from plinth.partition.regions import Lists
from plinth.plan.planning import Planned, arranged, plan_network, usual_copies
from plinth.plan.row_copies import CopyChoice

#: Share of a predicted step from which it is told that another planner's is shorter.
WORTH_TELLING = 0.05


def planned(network: Network, array: Array, *, planner: str | None = None, model: str | None = None,
            batch: int | None = None, update: str | None = None, wide: bool | None = None, stochastic: bool = False,
            lists: Mapping[str, Lists] | None = None, copies: str | None = None,
            touched: float | Mapping[str, float] | NDArray[Any] | None = None,
            tolerance: float | None = None, dense_from: float | None = None, micro_batches: int | None = None,
            progress: Callable[[int], object] | None = None) -> Planned:
    """Plan a network over an array; what is None is by default.

    Parameters
    ----------
    network : Network
        With the settings of its convolutions.
    array : Array
        Of dies that can do what the network needs.
    planner, model : str or None
        How layers are split, and how words are counted.
    batch : int or None
        Samples of a step.
    update, wide, stochastic
        As :func:`plinth.api.choices.form_of`.
    lists : mapping or None
        Lists of parts by layer.
    copies : str or None
        How copies of tables are kept equal: a name of :data:`plinth.names.COPY_NAMES`.
    touched
        As :func:`plinth.plan.planning.plan_network`.
    tolerance, dense_from : float or None
        As :class:`plinth.plan.row_copies.CopyChoice`.
    micro_batches : int or None
        As :func:`plinth.plan.planning.plan_network`.
    progress : callable or None
        Called with the number of steps that were predicted.

    Raises
    ------
    UserError
        As :func:`plinth.plan.planning.plan_network`, or if a setting would decide nothing.
    """
    planner, batch = planner_of(planner, array), batch or defaults.BATCH
    network, model, rule = arranged(network, array, planner, batch), model or defaults.MODEL, form_of(
        array, update, wide, stochastic)
    found = plan_network(network, array, planner=planner, model=model, batch=batch, lists=lists,
                         copies=_choice(copies or usual_copies(planner), touched, tolerance, dense_from),
                         touched=touched, rule=rule, micro_batches=micro_batches, progress=progress)
    if planner != MPT:
        return found
    other = plan_network(network, array, model=model, batch=batch, rule=rule, progress=progress)
    less = 1 - other.outcome.predicted_seconds / found.outcome.predicted_seconds
    note = (f"{MPT} plans for little communication; planner {JOINT} is predicted to take {less:.0%} less time with "
            "these transforms")
    return replace(found, notes=(*found.notes, note)) if less > WORTH_TELLING else found


def _choice(ways: str, touched: Any, tolerance: float | None, dense_from: float | None) -> CopyChoice:
    """Settings by which copies of tables are kept equal, none of which is given in vain."""
    if tolerance is not None and ways != AUTO_COPIES:
        raise UserError(f"tolerance= decides between ways, of which copies={ways} leaves one; choose "
                        f"copies={AUTO_COPIES}, or leave it out")
    if dense_from is not None and ways == RINGS:
        raise UserError(f"dense_from= leaves tables to rings, and with copies={RINGS} all are; choose "
                        f"copies={AUTO_COPIES}, or leave it out")
    if dense_from is not None and touched is None:
        raise UserError("dense_from= is compared with the share of rows that samples touch; give touched= too")
    return CopyChoice(ways, tolerance or 0.0, dense_from)
