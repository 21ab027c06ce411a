"""Which workers share a machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from plinth.errors import UserError
from plinth.files.documents import check_mapping, read_yaml
from plinth.files.forms import described, is_integer
from plinth.partition.row_costs import NetworkRates

#: Most bytes of a file of machines.
MAXIMUM_FILE_BYTES = 1 << 20
#: Bounds of rates of a network.
MINIMUM_GIGABITS, MAXIMUM_RATE = 1e-3, 1e6
#: Says that workers share a machine that have its name.
HOSTS = "hosts"


@dataclass(frozen=True)
class Machines:
    """The workers of each machine; the first of each machine is its *chief*, who serves.

    Parameters
    ----------
    members : tuple of tuple of int
        Each worker once.
    local : bool
        Gradients, and rows that are asked for, are merged on a machine before they go over the network (Parallax
        section 4.3).
    rates : NetworkRates or None
        Of the network between them, if they are known.
    """

    members: tuple[tuple[int, ...], ...]
    local: bool = True
    rates: NetworkRates | None = None

    @property
    def chiefs(self) -> tuple[int, ...]:
        """The first worker of each machine."""
        return tuple(machine[0] for machine in self.members)

    @cached_property
    def machine_of(self) -> dict[int, int]:
        """The machine of each worker."""
        return {worker: number for number, machine in enumerate(self.members) for worker in machine}

    @property
    def merged(self) -> bool:
        """Whether any machine has workers to merge."""
        return self.local and any(len(machine) > 1 for machine in self.members)


def machines_of(resources: Any, workers: int, names: Sequence[str], *, local: bool = True) -> Machines:
    """The machines of some workers.

    Parameters
    ----------
    resources : None, "hosts", path, or sequence of sequences of int
        None: each worker has a machine of its own; ``"hosts"``: by the names of their hosts; a YAML file with the key
        ``machines``, which may have ``gigabits`` a second into a machine and out of it, and ``microseconds`` of a
        message, too; or the value of ``machines``.
    workers : int
    names : sequence of str
        Of each worker's host.

    Raises
    ------
    UserError
        If they are not machines that have each worker once, or rates are none.
    """
    rates = None
    if resources is None:
        return Machines(tuple((worker,) for worker in range(workers)), local)
    if isinstance(resources, str) and resources == HOSTS:
        return Machines(tuple(tuple(worker for worker, own in enumerate(names) if own == name)
                              for name in dict.fromkeys(names)), local)
    where = "resources"
    if isinstance(resources, (str, Path)):
        where, data = str(resources), read_yaml(Path(resources), MAXIMUM_FILE_BYTES)
        check_mapping(data, where, "a file of machines", required=("machines",), optional=("gigabits", "microseconds"))
        resources, rates = data["machines"], _rates(data, where)
    if not isinstance(resources, Sequence) or isinstance(resources, (str, bytes)) or not all(
            isinstance(machine, Sequence) and not isinstance(machine, (str, bytes)) and machine
            for machine in resources):
        raise UserError(f"{where}: machines must be lists of workers, such as [[0, 1], [2, 3]], not "
                        f"{described(resources)}")
    listed = [worker for machine in resources for worker in machine]
    for worker in listed:
        if not is_integer(worker, 0, workers - 1):
            raise UserError(f"{where}: a worker of a machine is a number from 0 to {workers - 1}, not "
                            f"{described(worker)}")
    if sorted(listed) != list(range(workers)):
        twice = next((worker for worker in listed if listed.count(worker) > 1), None)
        missing = next((worker for worker in range(workers) if worker not in listed), None)
        what = f"worker {twice} is named twice" if twice is not None else f"worker {missing} is on no machine"
        raise UserError(f"{where}: {what}; give each of {workers} workers one")
    return Machines(tuple(tuple(machine) for machine in resources), local, rates)


def _rates(data: Mapping[str, Any], where: str) -> NetworkRates | None:
    """The rates that a file of machines says, if it says any."""
    for name, least in (("gigabits", MINIMUM_GIGABITS), ("microseconds", 0.0)):
        value = data.get(name, 1.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= MAXIMUM_RATE:
            raise UserError(f"{where}: {name} must be a number from {least:g} to {MAXIMUM_RATE:g}, not "
                            f"{described(value)}")
    if "gigabits" not in data:
        if "microseconds" in data:
            raise UserError(f"{where}: microseconds need gigabits beside them; give gigabits too, or leave them out")
        return None
    return NetworkRates(1e9 / 32 * data["gigabits"], 1e-6 * data.get("microseconds", 0.0))
