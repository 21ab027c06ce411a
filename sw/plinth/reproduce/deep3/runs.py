"""Training to the same accuracy by local networks and synchronously, on data that packages ship.

Local networks train in virtual time (:mod:`plinth.local`), so that nothing but the last bits of products depends on
the machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean

import numpy as np

from plinth.local.coordinator import Ending, Point
from plinth.local.devices import NUMPY, KernelDevice
from plinth.local.job import one_thread
from plinth.local.synchronous import Baseline, step_seconds, times_of, train_synchronously
from plinth.local.training import USUAL_COSTS, LocalTraining, planned_kernels
from plinth.network.local import widths_of
from plinth.network.network import Network
from plinth.network.zoo import NETWORKS
from plinth.profile.costs import KernelCosts
from plinth.projection.fit import fit
from plinth.reproduce.deep3.cases import BATCH, network
from plinth.train.data import Dataset, digits, named
from plinth.update.kinds import ADAGRAD

#: Kernels of the runs that Table 4 is compared with, and batches until a kernel answers.
KERNELS, PUSH = 4, 10
#: Steps between validations of synchronous training.
VALIDATE_EVERY = 5
#: Share of units that dropout leaves out.
DROPPED = 0.5


@dataclass(frozen=True, kw_only=True)
class Stand:
    """The data and network of ours that stand for one of the paper's.

    Attributes
    ----------
    data : str
        Name of the data set.
    prepare : callable
        Makes the samples that the network reads.
    hidden : tuple of int
        As the paper's network has them.
    rate : float
        Of Adagrad.
    accuracy : float
        Training ends where test samples are classified so well.
    batches : int
        It ends there, too: of each kernel.
    seeds : int
        Runs.
    """

    data: str
    prepare: Callable[[Dataset], Dataset]
    hidden: tuple[int, ...]
    rate: float
    accuracy: float
    batches: int
    seeds: int

    def samples(self) -> Dataset:
        """The data set as the network reads it.

        Raises
        ------
        UserError
            If its package is not installed.
        """
        return self.prepare(named(self.data))


def pooled(dataset: Dataset) -> Dataset:
    """Images of 28 x 28 as 14 x 14 means."""
    def mean(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x.reshape(-1, 14, 2, 14, 2).mean((2, 4), dtype=np.float32).reshape(len(x), -1))

    return replace(dataset, train_x=mean(dataset.train_x), test_x=mean(dataset.test_x))


def as_they_are(dataset: Dataset) -> Dataset:
    """The samples as the data set has them."""
    return dataset


def projected(dataset: Dataset, inputs: int) -> Dataset:
    """Samples as coordinates of a projection onto so many directions at most, which is made of those for training."""
    projection = fit(dataset.train_x, limit=inputs, constant=True)
    return replace(dataset, train_x=projection.project(dataset.train_x), test_x=projection.project(dataset.test_x))


#: What stands for the paper's applications.
STANDS: Mapping[str, Stand] = {
    "Visual": Stand(data="mnist", prepare=pooled, hidden=(1000, 300), rate=0.02, accuracy=0.9, batches=1000, seeds=5),
    "Smart-Sensing": Stand(data="watch", prepare=as_they_are, hidden=(3000, 500), rate=0.002, accuracy=0.75,
                           batches=300, seeds=1),
    "Audio": Stand(data="watch", prepare=as_they_are, hidden=(200,), rate=0.02, accuracy=0.85, batches=1000, seeds=5)}


def first(curve: Sequence[Point], accuracy: float) -> Point | None:
    """The first validation that found so much; None: none did."""
    return next((point for point in curve if (point.accuracy or 0.0) >= accuracy), None)


def trained_locally(whole: Network, dataset: Dataset, widths: tuple[int, ...], *, kernels: int, rate: float, seed: int,
                    ending: Ending, push: int = PUSH, costs: KernelCosts = USUAL_COSTS) -> list[Point]:
    """Validations, one a set, of a run in virtual time with kernels that are all alike."""
    plans = planned_kernels(whole, [KernelDevice(kind=NUMPY)] * kernels, [widths] * kernels, batch=BATCH, rule=ADAGRAD,
                            rate=rate, epsilon=None, memory_mib=0, costs=[costs] * kernels)
    training = LocalTraining(network=whole, dataset=dataset, kernels=plans, batch=BATCH, seed=seed)
    with one_thread():
        return list(training.run_virtually(push=push, ending=ending, validate_every=1).curve)


def trained_together(whole: Network, dataset: Dataset, *, batch: int, dropped: float, rate: float, seed: int,
                     ending: Ending) -> list[Point]:
    """Validations of a synchronous run; its times are those of one kernel."""
    device = KernelDevice(kind=NUMPY)
    plans = planned_kernels(whole, [device], [widths_of(whole)], batch=BATCH, rule=ADAGRAD, rate=rate, epsilon=None,
                            memory_mib=0)
    validate = LocalTraining(network=whole, dataset=dataset, kernels=plans, batch=BATCH, seed=seed).validate()
    way = Baseline(batch=batch, rule=device.rule(ADAGRAD, rate, None), dropped=dropped)
    with one_thread():
        _, curve = train_synchronously(whole, dataset, way, seed=seed, times=times_of([USUAL_COSTS], [1.0]),
                                       costs=[USUAL_COSTS], slower=[1.0], ending=ending, validate=validate,
                                       validate_every=VALIDATE_EVERY)
    return curve


def baseline_steps(stand: Stand, dataset: Dataset, dropped: float) -> list[int | None]:
    """Steps of synchronous training to the accuracy, by seed; None: it was not reached."""
    whole = network((dataset.train_x.shape[1], *stand.hidden, dataset.classes))
    ending = Ending(batches=stand.batches, accuracy=stand.accuracy)
    points = [first(trained_together(whole, dataset, batch=BATCH, dropped=dropped, rate=stand.rate, seed=seed,
                                     ending=ending), stand.accuracy) for seed in range(stand.seeds)]
    return [None if point is None else point.batches for point in points]


def local_steps(stand: Stand, dataset: Dataset, inputs: int, share: float) -> list[float | None]:
    """Batches of each of :data:`KERNELS` kernels to the accuracy, by seed; None: it was not reached.

    Parameters
    ----------
    inputs : int
        Of the projected samples.
    share : float
        Of hidden units.
    """
    data = projected(dataset, inputs)
    whole = network((data.train_x.shape[1], *stand.hidden, data.classes))
    widths = (whole.input.elements, *(round(share * width) for width in stand.hidden), data.classes)
    ending = Ending(batches=KERNELS * stand.batches, accuracy=stand.accuracy)
    points = [first(trained_locally(whole, data, widths, kernels=KERNELS, rate=stand.rate, seed=seed, ending=ending),
                    stand.accuracy) for seed in range(stand.seeds)]
    return [None if point is None else point.batches / KERNELS for point in points]


#: Figure 5: numbers of kernels, seeds, and the accuracy that runs are to reach.
COUNTS, SCALED_SEEDS, SCALED_ACCURACY = (1, 2, 4, 8, 16), 5, 0.965
#: Its network, local networks of half the hidden units, and the rate of Adagrad.
SCALED_NETWORK, SCALED_WIDTHS, SCALED_RATE = "digits-tanh", (64, 128, 64, 10), 0.02
#: Batches of all kernels together, and steps, at which runs end.
MOST_BATCHES, MOST_STEPS = 8000, 600
#: Batches of synchronous training, of all kernels together; with each of them it runs with dropout and without.
TOGETHER = (100, 200, 400)
#: What kernels compute and links carry, by the name of the link.
LINKS: Mapping[str, KernelCosts] = {
    "1 Gb/s": USUAL_COSTS,
    "10 Gb/s": KernelCosts(flop_seconds=1 / 5e9, act_seconds=0.0, err_seconds=0.0, net_seconds=5e-5,
                           word_seconds=32 / 10e9)}


@lru_cache(maxsize=1)
def _scaled() -> tuple[Network, Dataset]:
    return NETWORKS[SCALED_NETWORK], digits()


@lru_cache(maxsize=64)
def scaled_locally(link: str, kernels: int, seeds: int = SCALED_SEEDS) -> tuple[float, float]:
    """Mean virtual seconds, and batches of all kernels together, until the digits are classified well enough."""
    whole, dataset = _scaled()
    points = [first(trained_locally(whole, dataset, SCALED_WIDTHS, kernels=kernels, rate=SCALED_RATE, seed=seed,
                                    costs=LINKS[link], ending=Ending(batches=MOST_BATCHES, accuracy=SCALED_ACCURACY)),
                    SCALED_ACCURACY) for seed in range(seeds)]
    reached = [point for point in points if point is not None]
    if len(reached) < seeds:
        return float("inf"), float("inf")
    return fmean(point.seconds for point in reached), fmean(point.batches for point in reached)


@lru_cache(maxsize=8)
def scaled_steps(batch: int, dropped: float, seeds: int = SCALED_SEEDS) -> float:
    """Mean steps of synchronous training until the digits are classified well enough; infinite if they never are.

    They are the same for any number of kernels.
    """
    whole, dataset = _scaled()
    points = [first(trained_together(whole, dataset, batch=batch, dropped=dropped, rate=SCALED_RATE, seed=seed,
                                     ending=Ending(batches=MOST_STEPS, accuracy=SCALED_ACCURACY)), SCALED_ACCURACY)
              for seed in range(seeds)]
    return fmean(point.batches if point else float("inf") for point in points)


def scaled_together(link: str, kernels: int, seeds: int = SCALED_SEEDS) -> float:
    """Mean virtual seconds of synchronous training with balanced shards: the shortest of all batches, with dropout and
    without."""
    whole, _ = _scaled()
    costs, slower = [LINKS[link]] * kernels, [1.0] * kernels
    times = times_of(costs, slower)
    return min(scaled_steps(batch, dropped, seeds) * step_seconds(whole, batch, times, costs, slower, balanced=True)
               for batch in TOGETHER for dropped in (0.0, DROPPED))
