"""The baseline: synchronous training of the global network, with dropout or without (Deep3, section 7.1).

All kernels compute gradients of a shard of each batch, which are summed round a ring; so weights are those of one
device with the whole batch, on which they are computed here, and time is virtual: that of the slowest shard, and of the
ring. Dropout leaves the same units out for all samples of a batch: a fixed number of each hidden layer, drawn anew for
each batch; of the N units of a layer, where K are kept, weights that read them count N / K times. Steps are those of
the global weights' own gradients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from plinth.local.batches import Batches
from plinth.local.coordinator import Ending, Point, Validate
from plinth.local.devices import NUMPY, KernelDevice, device_step
from plinth.local.draws import UNIFORM, draw_of
from plinth.local.kernels import DeviceKernel
from plinth.local.merging import GlobalModel
from plinth.local.sets import LocalSet
from plinth.network.local import MEAN, LocalNetwork, shared_widths
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.profile.costs import KernelCosts
from plinth.train.data import Dataset
from plinth.update.rule import UpdateRule


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A way to train synchronously.

    Attributes
    ----------
    batch : int
        Samples of a step, of all kernels together.
    rule : UpdateRule
    dropped : float
        Share of the units of each hidden layer that dropout leaves out; 0: none.
    balanced : bool
        Shards are as large as kernels are fast; else all are equal.
    """

    batch: int
    rule: UpdateRule
    dropped: float = 0.0
    balanced: bool = True


def shards(batch: int, slower: Sequence[float], balanced: bool) -> list[int]:
    """Samples of each kernel of a batch; what is left over goes to the first ones."""
    speeds = [1 / factor if balanced else 1.0 for factor in slower]
    exact = [batch * speed / sum(speeds) for speed in speeds]
    sizes = [int(share) for share in exact]
    for kernel in sorted(range(len(sizes)), key=lambda kernel: sizes[kernel] - exact[kernel])[:batch - sum(sizes)]:
        sizes[kernel] += 1
    return sizes


def step_words(network: Network, kernels: int) -> int:
    """Words that a step sends round the ring, of all kernels together."""
    return 2 * (kernels - 1) * network.parameters


#: Of a network and samples of a batch how long a kernel takes, in seconds.
BatchSeconds = Callable[[Network, int], float]


def step_seconds(network: Network, batch: int, times: Sequence[BatchSeconds], costs: Sequence[KernelCosts],
                 slower: Sequence[float], balanced: bool) -> float:
    """Seconds of a step: of the slowest shard, and of 2 (N - 1) messages of 1/N of the gradients round the ring, each
    as slow as its slowest link."""
    parts = shards(batch, slower, balanced)
    computed = max(own(network, part) if part else 0.0 for own, part in zip(times, parts, strict=True))
    count = len(costs)
    chunk = ceil(network.parameters / count)
    return computed + 2 * (count - 1) * max(own.message(chunk) for own in costs)


def times_of(costs: Sequence[KernelCosts], slower: Sequence[float]) -> list[BatchSeconds]:
    """How long batches take on kernels of some costs, each so many times as long."""
    return [partial(_slowed, own, factor) for own, factor in zip(costs, slower, strict=True)]


def _slowed(costs: KernelCosts, factor: float, network: Network, batch: int) -> float:
    return factor * costs.batch(network, batch)


def train_synchronously(network: Network, dataset: Dataset, way: Baseline, *, seed: int,
                        times: Sequence[BatchSeconds], costs: Sequence[KernelCosts], slower: Sequence[float],
                        ending: Ending, validate: Validate, validate_every: int
                        ) -> tuple[dict[str, Any], list[Point]]:
    """Train the global network; its weights, and a validation after each few steps.

    Parameters
    ----------
    times, costs, slower : sequence
        Of each kernel how long batches take, what messages cost, and how many times as long as others of its kind it
        takes, by which shards are balanced.
    ending : Ending
        Its batches are steps.
    validate, validate_every
        As :class:`~plinth.local.coordinator.Coordinator`; here of steps.

    Raises
    ------
    UserError
        If numpy cannot run the network.
    """
    local = LocalNetwork(network, shared_widths(network, 1 - way.dropped), power=MEAN)
    step = device_step(KernelDevice(kind=NUMPY), local.network, batch=way.batch, rule=way.rule, memory_mib=0)
    kernel = DeviceKernel(local, step.start, Batches(dataset.train_x, dataset.targets, way.batch, seed, 0))
    model, draw = GlobalModel(initial_parameters(network, seed)), draw_of(UNIFORM, local.hidden, [seed, 6])
    seconds = step_seconds(network, way.batch, times, costs, slower, way.balanced)
    words, curve, done = step_words(network, len(costs)), [], 0
    # A gradient of weights times a factor is smaller by it, and an update larger by so many powers of that.
    power = -float(way.rule.law.powers.get("rate", 0))
    # Without dropout all steps up to a validation are of the same units.
    together = 1 if local.hidden else validate_every
    while done < ending.batches:
        units = draw.draw()
        parts = local.parts(units)
        given = LocalSet(number=done, units=units, weights=model.held(parts), batches=together)
        model.merge(parts, kernel.train(given).differences, power)
        done += together
        if done % validate_every == 0:
            loss, accuracy = validate(model.values())
            curve.append(Point(merged=done, batches=done, words=done * words, seconds=done * seconds, loss=loss,
                               accuracy=accuracy))
            if ending.accuracy is not None and (accuracy or 0.0) >= ending.accuracy:
                break
    return model.values(), curve
