"""Makes the profile of a device: times batches and transfers, fits, and chooses local layers.

::

    networks.py -> device.batch -> works.py -> fits.py -> batch_fit.py, table_fit.py -> profile.py -> widest.py

Batches are timed in an order that is shuffled by a seed, so that a spell in which another program runs does not fall on
one family of sizes; where time is of the clock on the wall, all of them are timed in several rounds, and the least time
counts.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from plinth.errors import UserError
from plinth.network.network import Network
from plinth.profile.batch_fit import batch_fit
from plinth.profile.batches import BenchDevice, MeasuredBatch, TimedTransfer
from plinth.profile.cache import cache_sweep, stated_caches
from plinth.profile.fits import LEAST_MEASUREMENTS, Sample, fit_of, linear_transfer
from plinth.profile.networks import SizeBounds, SizedNetwork, benchmark_networks, network_sizes
from plinth.profile.profile import (
    ENERGY,
    ENERGY_DELAY,
    MEMORY,
    METRICS,
    TIME,
    KindProfile,
    Profile,
    batch_samples,
)
from plinth.profile.table_fit import table_costs, table_error
from plinth.profile.widest import hidden_layers, widest
from plinth.profile.works import MESSAGE, READ, WRITE
from plinth.train.settings import network_digest

#: Words of transfers: fits are made from every other one.
TRANSFER_WORDS = tuple(words for bits in range(6, 21) for words in (1 << bits, 3 << bits >> 1))
#: Seed of the order in which batches are timed.
ORDER_SEED = 0
#: Called with how much is done, of how much, and of what.
Progress = Callable[[int, int, str], object]


def quiet(done: int, total: int, what: str) -> None:
    """Tell nobody of progress."""


def check_metric(metric: str, watts: float | None) -> None:
    """Refuse, before anything is measured, a metric that there is not, or one of energy without a power.

    Raises
    ------
    UserError
        With what there is, or what is missing.
    """
    if metric not in METRICS:
        raise UserError(f"metric={metric} is none of {', '.join(METRICS)}")
    if metric in (ENERGY, ENERGY_DELAY) and watts is None:
        raise UserError(f"metric={metric} needs the power of the device, which has no meter; give watts=")


def measured(device: BenchDevice, bounds: SizeBounds, *, network: Network | None = None, batch: int = 1,
             watts: float | None = None, with_cache: bool = False, progress: Progress = quiet) -> Profile:
    """Measure a device; nothing is chosen for a network yet.

    Parameters
    ----------
    device : BenchDevice
    bounds : SizeBounds
        Sizes of the networks whose batches are timed.
    network : Network or None
        Timed as well, at a few shares of its hidden widths.
    batch : int
        Samples of a batch of it.
    watts : float or None
        Its power, where energy is asked for.
    with_cache : bool
        Measure the cache of this machine as well.
    progress : callable
        Called with how much is done, of how much, and of what.

    Raises
    ------
    UserError
        If no batch fits the device, or its clock stands still.
    """
    chosen = [(checking, sized) for checking in (False, True)
              for sized in (*benchmark_networks(bounds, checking=checking), *(
                  () if network is None else network_sizes(network, batch, bounds, checking=checking)))]
    batches = _timed(device, chosen, progress)
    fitted, checking = ([batch for batch, (of_check, _) in zip(batches, chosen, strict=True)
                         if batch is not None and of_check == check] for check in (False, True))
    if len(fitted) < LEAST_MEASUREMENTS:
        raise UserError(f"{device.name}: of {len(chosen)} batches that are measured {len(fitted)} fit the device's "
                        "memory; give more memory=")
    transfers = device.transfers(TRANSFER_WORDS)
    kinds = _kinds(fitted, checking, transfers)
    fits = {kind: profile.fit for kind, profile in kinds.items()}
    fitted, checking = ([batch for batch in some if all(work.kind in fits for work, _ in batch.works())]
                        for some in (fitted, checking))
    whole = batch_fit(fits, fitted)
    net, word = _message(kinds)
    costs = table_costs(fitted, net_seconds=net, word_seconds=word)
    cache = cache_sweep(progress=lambda done, total: progress(done, total, "cache")) if with_cache else None
    return Profile(
        device=device.name, conditions=device.conditions, costs=costs, costs_error=table_error(costs, checking),
        kinds=kinds, batch_fit=whole, watts=watts, cache=cache, stated_caches=stated_caches() if with_cache else {},
        batches=(*batch_samples(fitted, whole, fits, fitted=True), *batch_samples(checking, whole, fits, fitted=False)))


def _timed(device: BenchDevice, chosen: Sequence[tuple[bool, SizedNetwork]], progress: Progress
           ) -> list[MeasuredBatch | None]:
    """The batches of networks, in their order; None: it does not fit."""
    batches: list[MeasuredBatch | None] = [None] * len(chosen)
    order, total = list(range(len(chosen))), device.rounds * len(chosen)
    shuffled, refused = random.Random(ORDER_SEED), set[int]()
    for turn in range(device.rounds):
        shuffled.shuffle(order)
        for done, number in enumerate(order, turn * len(chosen)):
            progress(done, total, "batches")
            network, batch = chosen[number][1]
            if number in refused or not device.holds(network, batch):
                refused.add(number)
                continue
            found, before = device.batch(network, batch), batches[number]
            batches[number] = found if before is None else found.least(before)
    return batches


def _kinds(fitted: Sequence[MeasuredBatch], checking: Sequence[MeasuredBatch], transfers: Sequence[TimedTransfer]
           ) -> dict[str, KindProfile]:
    """Fits of all kinds of work of which there are measurements enough, with these."""
    samples: dict[str, list[Sample]] = {}
    for of_fit, batches in ((True, fitted), (False, checking)):
        for batch in batches:
            for work, seconds in batch.works():
                samples.setdefault(work.kind, []).append(Sample(work.sizes, seconds, of_fit))
    for transfer in transfers:
        of_kind = samples.setdefault(transfer.kind, [])
        # Every other size checks the fit.
        of_kind.append(Sample((transfer.words,), transfer.seconds, len(of_kind) % 2 == 0))
    return {kind: KindProfile(fit_of(kind, some), tuple(some)) for kind, some in sorted(samples.items())
            if sum(sample.fitted for sample in some) >= LEAST_MEASUREMENTS}


def _message(kinds: dict[str, KindProfile]) -> tuple[float, float]:
    """Seconds of a message however long, and of each of its words: between ranks, else the mean of both ways to and
    from the device."""
    ways = [linear_transfer(kinds[kind].samples) for kind in ((MESSAGE,) if MESSAGE in kinds else (WRITE, READ))
            if kind in kinds]
    if not ways:
        return 0.0, 0.0
    net, word = (sum(way) / len(ways) for way in zip(*ways, strict=True))
    return net, word


def with_local(profile: Profile, device: BenchDevice, network: Network, batch: int, *, metric: str = TIME,
               limit_bytes: int) -> Profile:
    """The profile with the local layers of a network: the widest that fit, or, by metrics of time and energy, those of
    least cost for each multiply-add among these; and with Table 2 fitted to that network's range.

    Raises
    ------
    UserError
        If the metric needs a power that was not stated, the network has layers that are not measured or have no width,
        or not even the narrowest layers fit.
    """
    check_metric(metric, profile.watts)
    hidden_layers(network)
    profile.batch_seconds(network, batch)
    local = widest(network, limit_bytes, lambda some: device.memory_bytes(some, batch), step=device.channel_step,
                   cost=None if metric == MEMORY else lambda some: profile.cost(some, batch, metric))
    return replace(profile, metric=metric, local=local, network=network.name, network_sha256=network_digest(network),
                   batch=batch, costs=profile.costs_for(network, batch))
