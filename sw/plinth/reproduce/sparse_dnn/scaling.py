"""Strong scaling of a step over ranks that run numpy, simulated on the array simulator by a host's measured rates.

A rank does in each layer what the numpy executor does: it takes the columns that others have sent, multiplies, applies
the sigmoid and packs what others need; then the same back, with the gradient of its rows first. Kernels take what
:mod:`plinth.machine.sparse_products` and :mod:`plinth.machine.host` say of the rates; an exchange is one flow on all
ranks' links, which waits for all that send and ends for all that take together, as in the simulator's groups. So ranks
wait for the slowest behind every layer.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.array.array import Array
from plinth.array.host import HostRates
from plinth.machine.host import HostWork, moved, nanoseconds, program_work
from plinth.machine.sparse_products import SparseProduct, sparse_work
from plinth.machine.vector import ProgramWork
from plinth.network.sparse.radix_net import CONNECTIONS
from plinth.predict.host import update_work
from plinth.reproduce.sparse_dnn.parts import LayerParts
from plinth.simulate.routes import LinkRoutes
from plinth_sim.array.machine import Activity, EngineTask, Flow, SimulatedArray, SimulatedDie, SimulatedLink, Wait
from plinth_sim.array.simulate import simulate

Floats = NDArray[np.float64]
#: The sigmoid, its slope and the squared error's, as programs of whole maps.
SIGMOID, SLOPE, LOSS = (ProgramWork(1, 1, wise=2, functions=2), ProgramWork(2, 1, wise=4), ProgramWork(2, 1, wise=2))
#: Kernels that a rank calls for a message that it packs or takes, beside its words: the numbers of its rows, the copy,
#: and MPI's call.
MESSAGE_CALLS = 3


class RankSeconds(NamedTuple):
    """Seconds of each rank between two exchanges: products and element-wise work, updates, and what messages take it
    itself."""

    products: Floats
    updates: Floats
    messages: Floats

    @property
    def whole(self) -> Floats:
        """Seconds of each rank, all together."""
        return self.products + self.updates + self.messages


@dataclass(frozen=True)
class ScalingPoint:
    """A step of some inputs on some ranks, in seconds.

    Attributes
    ----------
    spff, step : float
        fprop alone; fprop, bprop and updates.
    compute, updates, messages : float
        Of the step, what a rank computes, updates, and spends on messages itself, in the mean of ranks; the rest of it
        ranks wait for links and for each other.
    """

    spff: float
    step: float
    compute: float = 0.0
    updates: float = 0.0
    messages: float = 0.0

    @property
    def communication(self) -> float:
        """Seconds of a step that are neither computation nor updates."""
        return max(0.0, self.step - self.compute - self.updates)

    def to_data(self) -> dict[str, float]:
        """Seconds by name, as the file of kept points has them."""
        return asdict(self)


class _Ranks:
    """What ranks do, as a host's work: of each rank seconds."""

    def __init__(self, rates: HostRates, samples: int) -> None:
        self.rates, self.samples = rates, samples
        self._known: dict[SparseProduct, float] = {}

    def seconds(self, work: HostWork) -> float:
        return 1e-9 * nanoseconds(self.rates, work)

    def products(self, layer: LayerParts, direction: str) -> Floats:
        return np.array([self.product(SparseProduct(direction, shapes, CONNECTIONS * rows, rows, columns, self.samples))
                         for shapes, rows, columns in zip(layer.shapes, layer.rows.tolist(), layer.columns.tolist(),
                                                          strict=True)])

    def product(self, product: SparseProduct) -> float:
        if product not in self._known:
            self._known[product] = self.seconds(sparse_work(product, self.rates.cache_words))
        return self._known[product]

    def program(self, layer: LayerParts, program: ProgramWork) -> Floats:
        return np.array([self.seconds(program_work(program, rows, self.samples, self.rates.cache_words))
                         for rows in layer.rows.tolist()])

    def update(self, layer: LayerParts) -> Floats:
        return np.array([self.seconds(update_work(float(CONNECTIONS * rows), self.rates.cache_words))
                         for rows in layer.rows.tolist()])

    def messages(self, layer: LayerParts, *, added: bool) -> Floats:
        """What a rank packs, sends, takes and puts in place, a row of samples a run; errors are added up."""
        words = (layer.sent + layer.received).tolist()
        return np.array([self.seconds(moved(2.0 * rows * self.samples, self.rates.cache_words,
                                            calls=MESSAGE_CALLS * peers, runs=rows, passes=1.5 if added else 1.0))
                         + 1e-9 * peers * self.rates.message_ns
                         for rows, peers in zip(words, layer.peers.tolist(), strict=True)])


def simulated_point(layers: Sequence[LayerParts], array: Array, samples: int) -> ScalingPoint:
    """A step of so many inputs on an array of hosts.

    Raises
    ------
    UserError
        If the hosts have no rates of sparse layers.
    """
    assert array.host is not None
    ranks, size, none = _Ranks(array.host, samples), array.dies, np.zeros(array.dies)
    # Work between exchanges, which are of layers' columns in fprop, and of their errors in bprop.
    work: list[RankSeconds] = []
    flows: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for number, layer in enumerate(layers):
        taken = ranks.messages(layer, added=False) if number else none
        if number:
            work[-1] = work[-1]._replace(messages=work[-1].messages + taken / 2)
            flows.append((layer.sent, layer.received))
        work.append(RankSeconds(ranks.products(layer, "fprop") + ranks.program(layer, SIGMOID), none, taken / 2))
    forward = len(work)
    last = ranks.program(layers[-1], LOSS)
    for number in range(len(layers) - 1, -1, -1):
        layer = layers[number]
        taken = ranks.messages(layers[number + 1], added=True) if number + 1 < len(layers) else none
        if number + 1 < len(layers):
            work[-1] = work[-1]._replace(messages=work[-1].messages + taken / 2)
            flows.append((layers[number + 1].received, layers[number + 1].sent))
        products = last + ranks.program(layer, SLOPE) + ranks.products(layer, "update")
        last = none
        if number:
            products = products + ranks.products(layer, "bprop")
        work.append(RankSeconds(products, ranks.update(layer), taken / 2))
    # Behind fprop's last layer no exchange is between it and the loss.
    seconds, dones = _run(array, work, flows, forward, samples, size)
    return ScalingPoint(dones, seconds, *(float(sum(amounts).mean()) for amounts in zip(*work, strict=True)))


def _run(array: Array, work: Sequence[RankSeconds], flows: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
         forward: int, samples: int, size: int) -> tuple[float, float]:
    """Seconds of a step, and of its fprop."""
    routes = LinkRoutes(array)
    second = 1 / float(array.clock_mhz * 1_000_000)
    machine = SimulatedArray(
        dies=(SimulatedDie(words_per_second=1e18),) * size,
        links=tuple(SimulatedLink(name=name, words_per_second=rate / second)
                    for name, rate in zip(routes.names, routes.rates.tolist(), strict=True)))
    activities: list[Activity] = []
    ends: list[int] = []
    waits: tuple[Wait, ...] = ()
    going = iter(flows)
    for number, piece in enumerate(work):
        # Between two exchanges that all take part in, all begin together, and the slowest decides: one task for it.
        # Between fprop and bprop there is no exchange.
        slowest = [int(piece.whole.argmax())]
        names = {die: f"{number}@{die}" for die in (range(size) if number in (forward - 1, forward) else slowest)}
        activities += [EngineTask(name=name, die=die, engine="host", seconds=float(piece.whole[die]), waits=waits)
                       for die, name in names.items()]
        if number + 1 == forward:
            ends = list(range(len(activities) - size, len(activities)))
        waits = ()
        if number + 1 not in (forward, len(work)):
            sent, received = next(going)
            ready = tuple(Wait(name) for name in names.values())
            links, words = [], []
            for link, (node, _, other, _) in enumerate(routes.directed):
                amount = sent[node] if node < size else received[other]
                if amount:
                    links.append(link)
                    words.append(float(amount) * samples)
            if links:
                activities.append(Flow(name=f"exchange {number}", links=np.array(links), words=np.array(words),
                                       latency=float(array.route_latencies.max()) * second,
                                       waits=ready))
                ready = (Wait(f"exchange {number}"),)
            waits = ready
    run = simulate(machine, activities)
    return run.seconds, float(run.dones[ends].max())
