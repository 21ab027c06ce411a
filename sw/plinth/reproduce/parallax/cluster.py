"""A step of a model on the cluster of section 6.1, simulated: 8 machines of 6 GPUs, 100 Gb/s into each and out of each.

::

    pull --> computation of a GPU --> push --> sums of servers --> next step
                                  `-> ring of dense gradients, AllGatherv of rows

Pulls and pushes are a flow from each machine to each other one, which share the links that they meet on; all workers
are alike, so that a machine's are one task. Variables are spread evenly over servers, as in Table 3. What a GPU
computes is not hidden behind messages, nor they behind it.

:class:`Rates` has what is no property of the network: how fast a server adds up the rows that it is sent, and how fast
rows are gathered. Without them both take no time of their own. Merging on a machine, and adding up dense gradients,
takes none with rates either.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

import numpy as np
from scipy.optimize import brentq

from plinth.reproduce.parallax.models import MACHINES, WORKERS, SparseModel
from plinth_sim.array.machine import Activity, EngineTask, Flow, SimulatedArray, SimulatedDie, SimulatedLink, Wait
from plinth_sim.array.simulate import simulate

#: Words of 32 bits a second into a machine, and out of it: 100 Gb/s.
LINK = 100e9 / 32
#: Words a second from which on rates are looked for.
LEAST_RATE = 1e5
#: Rate of what takes no time of its own.
FREE = 1e18


class Way(StrEnum):
    """How copies are kept equal, by the names of Table 4."""

    #: Dense gradients go round a ring of all workers, which gather touched rows of tables from all.
    AR = "AR"
    #: All variables are served, to each worker for itself.
    NAIVE = "NaivePS"
    #: Workers of a machine pull and push together.
    OPTIMISED = "OptPS"
    #: Dense gradients as ``AR``, tables as ``OptPS``.
    HYBRID = "HYB"
    #: Gradients of whole tables go round the ring with dense ones; no way of Table 4.
    RINGS = "rings"


@dataclass(frozen=True)
class Rates:
    """Words a second of a machine's software.

    Parameters
    ----------
    summed : float
        Rows that are pushed to its server, which adds them up one by one.
    gathered : float
        Rows that pass through an AllGatherv.
    """

    summed: float = inf
    gathered: float = inf


@dataclass
class _StepFlows:
    """Activities of a step in the making. Links: into a machine, out of it, its server's sums, its gathers."""

    machines: int
    rates: Rates
    activities: list[Activity] = field(default_factory=list)

    @property
    def array(self) -> SimulatedArray:
        software = [min(rate, FREE) for rate in (self.rates.summed, self.rates.gathered)]
        return SimulatedArray(dies=(SimulatedDie(words_per_second=FREE),) * self.machines, links=tuple(
            SimulatedLink(name=f"{what} {machine}", words_per_second=rate) for what, rate in (
                ("in", LINK), ("out", LINK), ("sums", software[0]), ("gathers", software[1]))
            for machine in range(self.machines)))

    def flow(self, name: str, words: Sequence[tuple[int, float]], waits: Sequence[str]) -> str:
        links = [(link, amount) for link, amount in words if amount]
        self.activities.append(Flow(name=name, links=np.array([link for link, _ in links], np.int64),
                                    words=np.array([amount for _, amount in links]),
                                    waits=tuple(Wait(each) for each in waits)))
        return name

    def around(self, name: str, words: float, waits: Sequence[str], *, gathers: bool = False) -> None:
        """Words that pass each machine's border in a ring of all workers, which are neighbours on a machine."""
        self.flow(name, [(link, words) for machine in range(self.machines) for link in (
            self.into(machine), self.out(machine), *([self.gathers(machine)] if gathers else []))], waits)

    def into(self, machine: int) -> int:
        return machine

    def out(self, machine: int) -> int:
        return self.machines + machine

    def sums(self, machine: int) -> int:
        return 2 * self.machines + machine

    def gathers(self, machine: int) -> int:
        return 3 * self.machines + machine


def step_seconds(model: SparseModel, way: Way, machines: int = MACHINES, rates: Rates | None = None, *,
                 whole: bool = False) -> float:
    """Seconds of a step.

    Parameters
    ----------
    model : SparseModel
    way : Way
    machines : int
        Each of :data:`~plinth.reproduce.parallax.models.WORKERS` workers.
    rates : Rates, optional
        Of machines' software; default: it takes no time.
    whole : bool
        The largest dense variable is one server's, as frameworks serve variables that nobody cuts; default: all are
        spread evenly, as in Table 3.
    """
    step, every = _StepFlows(machines, rates or Rates()), range(machines)
    merged = way in (Way.OPTIMISED, Way.HYBRID)
    rows = 0.0 if way in (Way.AR, Way.RINGS) else model.merged if merged else WORKERS * model.touched
    dense = model.dense * (1 if merged else WORKERS) if way in (Way.NAIVE, Way.OPTIMISED) else 0.0
    undivided = dense * model.largest / model.dense if whole else 0.0
    # Of each server, words that each machine pulls from it, and pushes back.
    served = [(rows + dense - undivided) / machines + (0.0 if server else undivided) for server in every]
    for machine in every:
        pulls = [step.flow(f"pull {server} {machine}", [(step.out(server), served[server]),
                                                        (step.into(machine), served[server])], ())
                 for server in every if served[server] and server != machine]
        step.activities.append(EngineTask(name=f"compute {machine}", die=machine, engine="gpu", seconds=model.seconds,
                                          waits=tuple(Wait(pull) for pull in pulls)))
    for machine in every:
        for server in (server for server in every if served[server]):
            network = [] if server == machine else [step.out(machine), step.into(server)]
            step.flow(f"push {machine} {server}", [*((link, served[server]) for link in network),
                                                   (step.sums(server), rows / machines)], [f"compute {machine}"])
    done, members = [f"compute {machine}" for machine in every], machines * WORKERS
    ringed = {Way.AR: model.dense, Way.HYBRID: model.dense, Way.RINGS: model.dense + model.sparse}.get(way, 0.0)
    if ringed and machines > 1:
        step.around("ring", 2 * ringed * (members - 1) / members, done)
    if way == Way.AR and model.touched and machines > 1:
        step.around("gather", (members - 1) * model.touched, done, gathers=True)
    return simulate(step.array, step.activities).seconds


def throughput(model: SparseModel, way: Way, machines: int = MACHINES, rates: Rates | None = None, *,
               whole: bool = False) -> float:
    """Images or words a second of all workers; parameters as of :func:`step_seconds`."""
    return machines * WORKERS * model.instances / step_seconds(model, way, machines, rates, whole=whole)


def fitted_rates(model: SparseModel, naive: float, gathers: float) -> Rates:
    """The rates with which a model's ``NaivePS`` and ``AR`` have the given throughput."""
    return Rates(
        brentq(lambda rate: throughput(model, Way.NAIVE, rates=Rates(summed=rate)) - naive, LEAST_RATE, LINK),
        brentq(lambda rate: throughput(model, Way.AR, rates=Rates(gathered=rate)) - gathers, LEAST_RATE, LINK))
