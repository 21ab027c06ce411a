"""The library function ``plinth.train_locally``: a network, trained by local networks on kernels of different kinds,
each at its own pace (Deep3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plinth import defaults
from plinth.api import html
from plinth.api.arguments import choice, flag, integer, optional, real
from plinth.api.arguments import path as path_of
from plinth.api.choices import epochs_of
from plinth.api.objects import network as network_of
from plinth.api.progress import Progress, Told, activity
from plinth.api.results import Result
from plinth.api.training import data_given, file_to_save, scale_given
from plinth.errors import UserError, quoted
from plinth.limits import MAXIMUM_BATCH, MAXIMUM_EPOCHS, MAXIMUM_MEMORY_MIB, MAXIMUM_SEED
from plinth.local.coordinator import PATIENCE_SECONDS
from plinth.local.devices import kernel_devices
from plinth.local.draws import DRAWS, UNIFORM
from plinth.local.fitting import check_used, costs_of, fitting_widths, profile_of
from plinth.local.job import CLOCKS, REAL, LocalOptions, parsed_push, parsed_widths, run_local, usual_batches
from plinth.local.merging import AUTO, MERGES
from plinth.local.push import CORRECTED
from plinth.local.samples import prepared
from plinth.local.training import USUAL_COSTS
from plinth.network.layers import SoftmaxCrossEntropy
from plinth.network.local import checked_widths
from plinth.network.network import Network
from plinth.profile.profile import load_profile
from plinth.train.scale import Scale
from plinth.update.kinds import ADAGRAD, KINDS, LAWS

if TYPE_CHECKING:
    from plinth.train.data import Samples
    from plinth.train.folder import RunFolder

#: What is trained on if nothing is said: kernels, samples of a batch, and learning rate of Adagrad.
KERNELS, BATCH, RATE = "2*numpy", 100, 0.02
#: How many times as many epochs as one device local networks train for: parts of a network need more.
EPOCHS_FACTOR = 4
#: Widths: what fits each kernel.
FITTING = "auto"
#: Longest patience, in seconds.
MOST_PATIENCE = 1e6


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class LocalTrainingResult(Result):
    """The result of :func:`train_locally`: trained parameters and the report of a run.

    Attributes
    ----------
    network : Network
        The global one.
    parameters : dict of str to ndarray
        Its weights behind the last merge, FP32, by the names of layer and variable.
    accuracy : float or None
        Share of the test samples that is right; None where there are no classes, or no validation.
    loss : float or None
        Mean loss on the test samples.
    report : dict
        The local report (docs/reports.md), as ``report.json`` of the command holds it.
    notes : tuple of str
        Messages of the run, of what its user may not expect.
    """

    network: Network
    parameters: dict[str, NDArray[np.float32]]
    report: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def accuracy(self) -> float | None:
        """Share of the test samples that is right."""
        accuracy: float | None = self.report["test_accuracy"]
        return accuracy

    @property
    def loss(self) -> float | None:
        """The mean loss on the test samples."""
        loss: float | None = self.report["test_loss"]
        return loss

    def _report(self) -> dict[str, Any]:
        return self.report

    def _line(self) -> str:
        report = self.report
        right = "not validated" if self.loss is None else (
            f"test loss {self.loss:.4g}" if self.accuracy is None else f"test accuracy {self.accuracy:.2%}")
        return (f"{report['network']} trained by local networks on {len(report['kernels'])} kernels, "
                f"{report['merged_batches']} batches of {report['batch']}: {right}")

    def _tables(self) -> list[str]:
        from plinth.report.local import local_rows

        return [html.table(local_rows(self.report))]

    def _picture(self) -> bytes:
        from plinth.report.local import local_png

        return local_png(self.report)


def local_job(network: Network, data: Path | Samples | None, *, scale: Scale | None, local: str | Sequence[int],
              kernels: str | None, push: str | int | None, merge: str | None, draw: str | None, clock: str | None,
              profiles: Iterable[Path], accuracy: float | None, patience: float | None, baseline: bool | None,
              epochs: int | None, batch: int | None, rate: float | None, update: str | None, epsilon: float | None,
              beta: float | None, validate: int | None, seed: int, memory_mib: int | None, save: Path | None,
              out: RunFolder | None = None) -> LocalOptions:
    """The complete options of a run by local networks: an argument that is None is the default.

    Raises
    ------
    UserError
        If there is no such kernel, or what is asked for does not fit the network.
    """
    devices, batch = kernel_devices(kernels or KERNELS), batch or BATCH
    memory_mib = defaults.MEMORY_MIB if memory_mib is None else memory_mib
    by_place = {place: load_profile(place) for place in profiles}
    check_used(devices, by_place)
    read = list(by_place.values())
    if isinstance(local, str) and local == FITTING:
        fitting = {device: fitting_widths(network, device, read, batch=batch, memory_mib=memory_mib)
                   for device in dict.fromkeys(devices)}
        widths = [fitting[device] for device in devices]
    else:
        own = parsed_widths(local, network) if isinstance(local, str) else local
        widths = [checked_widths(network, own, projected=True)] * len(devices)
    inputs = {own[0] for own in widths}
    if len(inputs) > 1:
        raise UserError(f"kernels fit {', '.join(map(str, sorted(inputs)))} inputs, and samples are projected to one "
                        f"number of them; give widths with {min(inputs)} of them")
    if accuracy is not None and not isinstance(network.loss, SoftmaxCrossEntropy):
        raise UserError(f"network {network.name!r} has no classes, of which a share could be right; leave accuracy= "
                        "out")
    ready = prepared(network, data, scale=scale, devices=devices, inputs=min(inputs), beta=beta)
    network, dataset = ready.network, ready.dataset
    update = update or ADAGRAD
    rule = devices[0].rule(update, None, None)
    return LocalOptions(
        network=network, dataset=dataset, projection=ready.to_data(), projected=ready.projection, devices=devices,
        widths=[(network.input.elements, *own[1:]) for own in widths], batch=batch,
        batches=usual_batches(dataset, batch, epochs or EPOCHS_FACTOR * epochs_of(network.name, rule)),
        accuracy=accuracy, update=update, rate=_rate(update, rate), epsilon=epsilon, seed=seed,
        push=parsed_push(push or CORRECTED) if push is None or isinstance(push, str) else integer(
            "push", push, 1, 1 << 20),
        merge=merge or AUTO, draw=draw or UNIFORM, clock=clock or REAL,
        costs=[costs_of(device, read, network, batch, USUAL_COSTS) for device in devices],
        profiled=[profile_of(device, read) is not None for device in devices],
        memory_mib=memory_mib,
        patience_seconds=PATIENCE_SECONDS if patience is None else patience,
        validate_every=validate, baseline=baseline is not False, save=save, out=out)


def _rate(update: str, rate: float | None) -> float:
    """The learning rate that was asked for, or that local networks learn best with."""
    return rate if rate is not None else RATE if update == ADAGRAD else float(LAWS[update].defaults.get(
        "rate", defaults.RATE))


def train_locally(network: str | Path | Network | None = None, x: ArrayLike | str | Path | None = None,
                  y: ArrayLike | None = None, *, local: str | Sequence[int] = "1/2", kernels: str = KERNELS,
                  push: int | str | None = None, merge: str = AUTO, draw: str = UNIFORM, clock: str = REAL,
                  profiles: Sequence[str | Path] = (), accuracy: float | None = None, patience: float | None = None,
                  baseline: bool = False, epochs: int | None = None, batch: int | None = None,
                  update: str = ADAGRAD, rate: float | None = None, epsilon: float | None = None,
                  beta: float | None = None, validate: int | None = None, scale: Any = 1, seed: int = 0,
                  memory_mib: int | None = None, save: str | Path | None = None, progress: Progress = None
                  ) -> LocalTrainingResult:
    """Train a network by local networks: parts of it with some units of each layer, drawn anew again and again, on
    kernels that each go on at their own pace.

    Parameters
    ----------
    network : str, Path, Network or None
        As :func:`plinth.network` takes it; None: the perceptron ``digits-tanh``.
    x, y
        As of :func:`plinth.train`.
    local : str or sequence of int
        Units of each layer, input and output among them; a share of all, such as ``"1/2"``; or ``"auto"``: what fits
        each kernel.
    kernels : str
        ``"2*numpy,1*fpga-demo"``: numpy, co-simulated dies of a preset, ``golden:PRESET``, or
        ``serial:PRESET:PORT[@BAUD]``; ``/4`` behind one makes it four times as slow.
    push : int, str or None
        Batches of a set, n_push; ``"corrected"``, ``"printed"``: by which cost model; ``"measured"``: the best of three
        that are tried on a share of the samples. None: corrected.
    merge : {"auto", "add", "divide"}
        Differences are added, or divided by the kernels that hold a weight.
    draw : {"uniform", "balanced"}
        How units are drawn.
    clock : {"real", "virtual"}
        Virtual: the order of merges follows from the profiles' times, and so all bits from the seed.
    profiles : sequence of str or Path
        Files that ``plinth profile --out`` wrote of the kernels' devices.
    accuracy : float or None
        End once so much of the test samples is right.
    patience : float or None
        Seconds without an answer after which a kernel is left out. None: 300.
    baseline : bool
        Train the whole network synchronously as well.
    epochs : int or None
        Passes of all kernels together. None: 96 with Adagrad.
    batch : int or None
        Samples of a kernel's batch. None: 100.
    beta : float or None
        Tolerance of the projection of the samples, which are projected if it is given, or if ``local`` has fewer inputs
        than the network. None: 0.1.
    validate : int or None
        Answers after which the test samples are validated. None: as many as there are kernels.
    update, rate, epsilon, scale, seed, memory_mib, save
        As of :func:`plinth.train`; the rate of Adagrad is 0.02.
    progress : callable, True or None
        Told (done, total, text) of batches; True: a bar on standard error.

    Raises
    ------
    UserError
        If an argument is not what it may be, or does not fit the others; or if all kernels were lost.
    """
    settings = {
        "local": local if isinstance(local, str) else _numbers(local), "kernels": _text("kernels", kernels),
        "push": push, "merge": choice("merge", merge, MERGES), "draw": choice("draw", draw, DRAWS),
        "clock": choice("clock", clock, CLOCKS), "profiles": _paths(profiles),
        "accuracy": optional(real, "accuracy", accuracy, 0, 1),
        "patience": optional(real, "patience", patience, 1e-3, MOST_PATIENCE),
        "baseline": flag("baseline", baseline), "epochs": optional(integer, "epochs", epochs, 1, MAXIMUM_EPOCHS),
        "batch": optional(integer, "batch", batch, 1, MAXIMUM_BATCH), "update": choice("update", update, KINDS),
        "rate": optional(real, "rate", rate), "epsilon": optional(real, "epsilon", epsilon),
        "beta": optional(real, "beta", beta), "validate": optional(integer, "validate", validate, 1, 1 << 31),
        "seed": integer("seed", seed, 0, MAXIMUM_SEED),
        "memory_mib": optional(integer, "memory_mib", memory_mib, 1, MAXIMUM_MEMORY_MIB),
        "save": file_to_save(save)}
    job = local_job(network_of("digits-tanh" if network is None else network), data_given(x, y),
                    scale=scale_given(scale), **settings)
    with activity(progress, f"setting up {job.network.name}", "") as told:
        run = run_local(job, told)
    if run.report["ended"] == "lost":
        raise UserError(f"all kernels were lost: {run.report['incidents'][-1]}")
    return LocalTrainingResult(network=job.network, parameters=dict(run.parameters), report=run.report,
                               notes=tuple(told.said) if isinstance(told, Told) else ())


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(f"{name} must be a text, not {quoted(repr(value))}")
    return value


def _paths(profiles: Any) -> list[Path]:
    if not isinstance(profiles, (tuple, list)):
        raise UserError(f"profiles must be a list of paths, not {quoted(repr(profiles))}")
    return [path_of("profiles", place) for place in profiles]


def _numbers(local: Any) -> tuple[Any, ...]:
    if not isinstance(local, (tuple, list, np.ndarray)):
        raise UserError(f"local must be widths, a share such as \"1/2\", or \"auto\", not {quoted(repr(local))}")
    return tuple(width.item() if isinstance(width, np.generic) else width for width in local)
