"""A profile of a device: what was measured, the fits, and the local layers that it suits; as data, and as a file.

The file is a report (``plinth schema report-profile``). It is text of others: whoever reads one checks form and ranges,
and refuses what is none in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from plinth import defaults
from plinth.errors import UserError
from plinth.files.reports import check_report, read_report, report
from plinth.network.network import Network
from plinth.output import write_json
from plinth.profile.batch_fit import BatchFit
from plinth.profile.batches import MeasuredBatch
from plinth.profile.cache import CacheSweep
from plinth.profile.costs import KernelCosts, units
from plinth.profile.fits import FAMILIES, FORMS, MAX, KindFit, Sample, median_error, work_of
from plinth.profile.table_fit import table_costs
from plinth.profile.widest import Widest, hidden_widths, shares, with_widths
from plinth.profile.works import batch_works
from plinth_hw.installation import commit

#: What may be minimised.
TIME, ENERGY, ENERGY_DELAY, MEMORY = METRICS = defaults.METRICS
#: Networks between the narrowest and the whole one that Table 2 is fitted to, of one network's range.
RANGE_NETWORKS = 16
#: Least share of hidden widths in that range.
NARROWEST = 1 / 8


@dataclass(frozen=True)
class KindProfile:
    """A kind of work: its fit, and what it was measured at; no measurements in a profile that was read of a file's fits
    alone."""

    fit: KindFit
    samples: tuple[Sample, ...] = ()

    def error(self, *, fitted: bool) -> float | None:
        """Median relative error of the fit, on the measurements that it was made from or on the others; None: there are
        none."""
        return median_error(self.fit, self.samples, fitted=fitted)


@dataclass(frozen=True)
class BatchSample:
    """A whole batch that was measured: multiply-adds and units of a sample, weights, samples, and seconds, measured and
    fitted, and whether the fit was made from it."""

    macs: int
    units: int
    parameters: int
    batch: int
    seconds: float
    fitted_seconds: float
    fitted: bool


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What training costs on a device.

    Attributes
    ----------
    device : str
        As the command line names it.
    conditions : dict of str to str
        What times depend on: preset, clock and where it comes from, threads.
    metric : str
        Of :data:`METRICS`, for which S_L was chosen.
    costs : KernelCosts
        Table 2, fitted to all batches that were measured.
    costs_error : float or None
        Median relative error of these on batches that played no part in any fit.
    kinds : dict of str to KindProfile
        By kind of work.
    batch_fit : BatchFit
    batches : tuple of BatchSample
    cache : CacheSweep or None
        Of a host.
    stated_caches : dict of str to int
        Bytes of the host's caches as the system says.
    watts : float or None
        Power that was stated; None: there is no energy.
    local : Widest or None
        S_L of a network.
    network, network_sha256 : str or None
        That network's name, and the digest of its definition.
    batch : int or None
        Samples of a batch that S_L is for.
    """

    device: str
    conditions: Mapping[str, str]
    metric: str = TIME
    costs: KernelCosts
    costs_error: float | None = None
    kinds: Mapping[str, KindProfile]
    batch_fit: BatchFit
    batches: tuple[BatchSample, ...] = ()
    cache: CacheSweep | None = None
    stated_caches: Mapping[str, int] = field(default_factory=dict)
    watts: float | None = None
    local: Widest | None = None
    network: str | None = None
    network_sha256: str | None = None
    batch: int | None = None

    @property
    def widths(self) -> tuple[int, ...] | None:
        """S_L, if there is a network: units of the hidden layers that fit the device."""
        return None if self.local is None else self.local.widths

    @property
    def fits(self) -> dict[str, KindFit]:
        """Fits by kind of work."""
        return {kind: profile.fit for kind, profile in self.kinds.items()}

    def batch_error(self, *, fitted: bool) -> float | None:
        """Median relative error of whole batches, of those that fits were made from or of the others; None: there are
        none."""
        errors = [abs(batch.fitted_seconds / batch.seconds - 1) for batch in self.batches if batch.fitted == fitted]
        return float(np.median(errors)) if errors else None

    def check_error(self) -> float | None:
        """Median relative error of all fits on single operations and transfers that played no part in them; None: there
        are none."""
        errors = [kind.fit.error(sample) for kind in self.kinds.values() for sample in kind.samples
                  if not sample.fitted]
        return float(np.median(errors)) if errors else None

    def batch_seconds(self, network: Network, batch: int) -> float:
        """Seconds of a training batch of a network, by the fits of its operations.

        Raises
        ------
        UserError
            If the network has a layer that no micro-benchmark measures, or that the profile knows nothing of.
        """
        missing = [work for work in batch_works(network, batch) if work.kind not in self.kinds
                   and self.batch_fit.needs_operations]
        if missing:
            raise UserError(f"operation {missing[0].operation!r} of network {network.name!r} is {missing[0].kind}, of "
                            f"which the profile of {self.device} has no fit; make the profile anew")
        return self.batch_fit.seconds(self.fits, network, batch)

    def outside(self, network: Network, batch: int) -> list[str]:
        """Operations of a batch whose sizes are outside of those that were measured."""
        return [work.operation for work in batch_works(network, batch)
                if work.kind in self.kinds and not self.kinds[work.kind].fit.within(work.sizes)]

    def batch_joules(self, network: Network, batch: int) -> float | None:
        """Joules of a training batch by the power that was stated; None: none was."""
        return None if self.watts is None else self.watts * self.batch_seconds(network, batch)

    def cost(self, network: Network, batch: int, metric: str) -> float:
        """What a training batch costs by a metric: seconds, joules, or joules times seconds.

        Raises
        ------
        UserError
            If the metric needs a power, and none was stated; and as :meth:`batch_seconds`.
        """
        seconds = self.batch_seconds(network, batch)
        if metric == TIME:
            return seconds
        if self.watts is None:
            raise UserError(f"metric={metric} needs the power of the device, which has no meter; give watts=")
        return self.watts * seconds * (seconds if metric == ENERGY_DELAY else 1.0)

    def costs_for(self, network: Network, batch: int, narrowest: float = NARROWEST) -> KernelCosts:
        """Table 2 for one network with hidden layers between a share of its widths and all: the coefficients that come
        nearest to what the fits of single operations say of these.

        Raises
        ------
        UserError
            As :meth:`batch_seconds`.
        """
        choices = shares(hidden_widths(network))
        first = min(int(narrowest * len(choices)), len(choices) - 1)
        picked = np.unique(np.linspace(first, len(choices) - 1, RANGE_NETWORKS).astype(int))
        return table_costs([self._predicted(with_widths(network, choices[number]), batch) for number in picked],
                           net_seconds=self.costs.net_seconds, word_seconds=self.costs.word_seconds)

    def _predicted(self, network: Network, batch: int) -> MeasuredBatch:
        """A batch as the fits have it: forward propagation has the share of the time that its operations have."""
        seconds = self.batch_seconds(network, batch)
        if not self.batch_fit.needs_operations:
            return MeasuredBatch(network, batch, seconds)
        works = [(work, self.kinds[work.kind].fit.seconds(work.sizes)) for work in batch_works(network, batch)]
        whole = sum(took for _, took in works)
        # Where nothing takes time, what is forward is as little known as it matters.
        forward = sum(took for work, took in works if work.is_forward) / whole if whole else 0.0
        return MeasuredBatch(network, batch, seconds, forward * seconds)

    def to_data(self) -> dict[str, Any]:
        """The profile as a report."""
        data: dict[str, Any] = {
            "device": self.device, "measured_under": dict(self.conditions), "metric": self.metric,
            "costs": asdict(self.costs), "costs_error": self.costs_error,
            "kinds": [_kind_data(kind) for kind in self.kinds.values()],
            "batch_fit": {"terms": self.batch_fit.terms, "coefficients": list(self.batch_fit.coefficients),
                          "fit_error": self.batch_error(fitted=True), "check_error": self.batch_error(fitted=False)},
            "batches": [{"batch": sample.batch, "macs_per_sample": sample.macs, "units": sample.units,
                         "parameters": sample.parameters, "measured_seconds": sample.seconds,
                         "fitted_seconds": sample.fitted_seconds, "fitted_to": sample.fitted}
                        for sample in self.batches],
            "cache": None if self.cache is None else {
                "knee_bytes": self.cache.knee_bytes, "working_set_bytes": list(self.cache.sizes),
                "bytes_per_second": list(self.cache.rates), "stated_bytes": dict(self.stated_caches)},
            "watts": self.watts, "local": None, "commit": commit()}
        if self.local is not None:
            data |= {"network": self.network, "network_sha256": self.network_sha256, "batch": self.batch, "local": {
                "widths": list(self.local.widths), "global_widths": list(self.local.whole),
                "needed_memory_bytes": self.local.needed_bytes, "limit_bytes": self.local.limit_bytes,
                "rule": self.local.rule}}
        return report("profile", data)


def _kind_data(kind: KindProfile) -> dict[str, Any]:
    fit = kind.fit
    return {"kind": fit.kind, "form": fit.form, "tile": list(fit.tile), "constant_seconds": fit.constant,
            "coefficients": list(fit.coefficients), "least_sizes": list(fit.least), "most_sizes": list(fit.most),
            "fit_error": kind.error(fitted=True), "check_error": kind.error(fitted=False), "measurements": [
                {"sizes": list(sample.sizes), "amount": work_of(fit.kind, sample.sizes),
                 "measured_seconds": sample.seconds, "fitted_seconds": fit.seconds(sample.sizes),
                 "region": fit.region(sample.sizes), "fitted_to": sample.fitted} for sample in kind.samples]}


def batch_samples(batches: Iterable[MeasuredBatch], fit: BatchFit, fits: Mapping[str, KindFit], *, fitted: bool
                  ) -> list[BatchSample]:
    """Batches beside what a fit says of them."""
    return [BatchSample(batch.network.macs, units(batch.network), batch.network.parameters, batch.batch, batch.seconds,
                        fit.seconds(fits, batch.network, batch.batch), fitted) for batch in batches]


def save_profile(path: Path, profile: Profile) -> None:
    """Write a profile's file in one step.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    write_json(path, profile.to_data())


def load_profile(path: Path) -> Profile:
    """The profile that a file holds.

    Raises
    ------
    UserError
        If the file cannot be read, is no profile of today's version, or its numbers do not belong together.
    """
    return profile_of(read_report(path, "profile"), str(path))


def profile_of(data: Any, where: str) -> Profile:
    """The profile of a report.

    Raises
    ------
    UserError
        If it is another report, or its numbers do not belong together; ``where`` is named.
    """
    check_report(data, where, "profile")
    kinds = {row["kind"]: _kind(row, where) for row in data["kinds"]}
    if len(kinds) < len(data["kinds"]):
        raise _wrong(where, "a kind of work stands twice")
    if data["metric"] not in METRICS:
        raise _wrong(where, f"metric {data['metric'][:40]!r} is none of {', '.join(METRICS)}")
    costs = KernelCosts(**{key.name: data["costs"][key.name] for key in fields(KernelCosts)})
    batch = data["batch_fit"]
    try:
        batch_fit = BatchFit(batch["terms"], tuple(batch["coefficients"]))
    except ValueError as error:
        raise _wrong(where, str(error)) from None
    cache = data["cache"]
    return Profile(
        device=data["device"], conditions=data["measured_under"], metric=data["metric"], costs=costs,
        costs_error=data["costs_error"], kinds=kinds, batch_fit=batch_fit,
        batches=tuple(BatchSample(row["macs_per_sample"], row["units"], row["parameters"], row["batch"],
                                  _positive(row["measured_seconds"], where), row["fitted_seconds"], row["fitted_to"])
                      for row in data["batches"]),
        cache=None if cache is None else _cache(cache, where),
        stated_caches={} if cache is None else cache["stated_bytes"], watts=data["watts"],
        local=_local(data["local"], where), **{key: data.get(key) for key in ("network", "network_sha256", "batch")})


def _wrong(where: str, problem: str) -> UserError:
    return UserError(f"{where}: a profile in which {problem}; make one with `plinth profile DEVICE --out FILE`")


def _positive(seconds: float, where: str) -> float:
    if seconds <= 0:
        raise _wrong(where, "something took no time")
    return seconds


def _cache(row: Mapping[str, Any], where: str) -> CacheSweep:
    if len(row["working_set_bytes"]) != len(row["bytes_per_second"]) or not all(row["bytes_per_second"]):
        raise _wrong(where, "rates of the cache are missing")
    return CacheSweep(tuple(row["working_set_bytes"]), tuple(row["bytes_per_second"]))


def _local(row: Mapping[str, Any] | None, where: str) -> Widest | None:
    if row is None:
        return None
    widths, whole = tuple(row["widths"]), tuple(row["global_widths"])
    if not widths or len(widths) != len(whole) or not all(1 <= local <= wide for local, wide in zip(
            widths, whole, strict=True)):
        raise _wrong(where, "local layers are other than, or wider than, those of the network")
    return Widest(widths, whole, row["needed_memory_bytes"], row["limit_bytes"], row["rule"])


def _kind(row: Mapping[str, Any], where: str) -> KindProfile:
    kind = row["kind"]
    if kind not in FAMILIES:
        raise _wrong(where, f"{kind[:40]!r} is no kind of work")
    if row["form"] not in FORMS:
        raise _wrong(where, f"form {row['form'][:40]!r} is none of {', '.join(FORMS)}")
    amounts = FAMILIES[kind]
    coefficients = 2 if row["form"] == MAX else len(amounts.terms)
    sizes = len(amounts.sizes)
    lengths: Sequence[tuple[Any, int]] = [
        (row["coefficients"], coefficients), (row["tile"], 2), (row["least_sizes"], sizes), (row["most_sizes"], sizes),
        *((measurement["sizes"], sizes) for measurement in row["measurements"])]
    if any(len(values) != count for values, count in lengths):
        raise _wrong(where, f"numbers of {kind} are too few or too many")
    if min(row["tile"]) < 1 or any(min(values) < 1 for values, _ in lengths[2:]):
        raise _wrong(where, f"a size of {kind} is 0")
    samples = tuple(Sample(tuple(measurement["sizes"]), _positive(measurement["measured_seconds"], where),
                           measurement["fitted_to"]) for measurement in row["measurements"])
    return KindProfile(KindFit(kind, row["form"], tuple(row["tile"]), row["constant_seconds"],
                           tuple(row["coefficients"]), tuple(row["least_sizes"]), tuple(row["most_sizes"])), samples)
