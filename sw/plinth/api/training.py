"""The library function ``plinth.train``: it trains a network on dies, with numpy arrays as samples and results.

What runs a job (dies, lowering, checks) is loaded when one is run, not with the names of this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plinth import defaults
from plinth.api import arguments, html
from plinth.api.arguments import choice, integer, optional, real, shown
from plinth.api.objects import array_given
from plinth.api.objects import network as network_of
from plinth.api.planning import PlanResult, plan_given, refuse_beside, split_settings, update_settings
from plinth.api.progress import Progress, Told, activity
from plinth.api.results import Result
from plinth.array.array import Array
from plinth.errors import UserError
from plinth.limits import MAXIMUM_MEMORY_MIB, MAXIMUM_SEED, MAXIMUM_THREADS
from plinth.network.network import Network
from plinth.plan.plan import Plan

if TYPE_CHECKING:
    from plinth.train.data import Samples
    from plinth.train.job import JobOptions, JobResult
    from plinth.train.scale import Scale


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class TrainingResult(Result):
    """The result of :func:`train`: losses, trained parameters and the report of a run.

    Attributes
    ----------
    network, array, plan
        What was trained, where, and how it was split.
    losses : list of float
        Loss of each step's batch.
    parameters : dict of str to ndarray
        What was trained, behind the last step, FP32, by the names of layer and variable: ``fc1.weights [inputs,
        outputs]``, ``fc1.bias``; of Winograd layers that train elements of tiles, these.
    accuracy : float or None
        Share of the test samples that is right; None where there are no classes.
    loss : float
        Mean loss on the test samples.
    report : dict
        The train report (docs/reports.md), as ``report.json`` of the command holds it.
    notes : tuple of str
        Messages of the run, of what its user may not expect.
    """

    network: Network
    array: Array
    plan: Plan
    losses: list[float]
    parameters: dict[str, NDArray[np.float32]]
    report: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def accuracy(self) -> float | None:
        """Share of the test samples that is right."""
        accuracy: float | None = self.report["test_accuracy"]
        return accuracy

    @property
    def loss(self) -> float:
        """The mean loss on the test samples."""
        return float(self.report["test_loss"])

    def _report(self) -> dict[str, Any]:
        return self.report

    def _line(self) -> str:
        report = self.report
        right = f"loss {self.loss:.4g}" if self.accuracy is None else f"accuracy {self.accuracy:.2%}"
        return (f"{report['network']} trained on {report['array']} ({report['dies']} x {report['preset']}, "
                f"{report['device']}), {report['steps']} steps of {report['batch']}: test {right}")

    def _tables(self) -> list[str]:
        from plinth.report.table import training_rows

        return [html.table(training_rows(self.report))]

    def _picture(self) -> bytes:
        from plinth.report.picture import training_png

        return training_png(self.report)


class TrainingError(UserError):
    """A run whose dies differ from the golden model, or that went further from float64 than its format may.

    Attributes
    ----------
    result : TrainingResult
        What there is of the run.
    """

    def __init__(self, message: str, result: TrainingResult) -> None:
        super().__init__(message)
        self.result = result


def data_given(x: Any, y: Any) -> Path | Samples | None:
    """Convert arguments ``x`` and ``y``: samples in memory, or the path of a file or the name of a data set."""
    from plinth.train.data import Samples

    if y is None and (x is None or isinstance(x, (str, os.PathLike))):
        return None if x is None else arguments.path("x", x)
    if x is None or y is None or isinstance(x, (str, bytes, os.PathLike)):
        raise UserError("x and y must be given together, as arrays; or x alone, an .npz file or a data set by name")
    return Samples(x, y)


def scale_given(scale: Any) -> Scale | None:
    """Convert argument ``scale``: factors on samples and targets; None: automatic ones."""
    from plinth.train.scale import Scale, parse_scale

    if isinstance(scale, str):
        return parse_scale(scale)
    factors = tuple(scale) if isinstance(scale, (tuple, list)) else (scale,)
    if len(factors) > 2:
        raise UserError(f"scale must be \"auto\", a factor, or one on samples and one on targets, not {shown(scale)}")
    try:
        return Scale(*(real("scale", factor) for factor in factors))
    except ValueError as error:
        raise UserError(f"scale={shown(scale)}: {error}") from None


def _result(job: JobOptions, run: JobResult, notes: Iterable[str]) -> TrainingResult:
    """The library's result of a job that has run."""
    return TrainingResult(network=job.network, array=job.array, plan=run.plan, losses=list(run.losses),
                          parameters=dict(run.parameters), report=run.report, notes=tuple(notes))


def train(network: str | Path | Network | PlanResult | None = None, x: ArrayLike | str | Path | None = None,
          y: ArrayLike | None = None, *, array: str | Path | Array | None = None, planner: str | None = None,
          model: str | None = None, batch: int | None = None, epochs: int | None = None, steps: int | None = None,
          update: str | None = None, rate: float | None = None, momentum: float | None = None,
          epsilon: float | None = None, decay: float | None = None, wide: bool | None = None, stochastic: bool = False,
          scale: Any = 1,
          kinks: float | None = None, seed: int = 0, device: str = defaults.LIBRARY_DEVICE,
          memory_mib: int | None = None, threads: int | None = None, save: str | Path | None = None,
          save_every: int | None = None, check_every: int | None = None, executor: Any = None, reduce: str = "ring",
          progress: Progress = None) -> TrainingResult:
    """Train a network; steps are compared with a float64 reference, and on simulated RTL every weight of every die
    with the golden model's.

    Parameters
    ----------
    network : str, Path, Network, PlanResult or None
        As :func:`plinth.network` takes it; or a plan or the path of its file.
    x : array_like, str, Path or None
        Samples, ``[samples, channels, rows, columns]`` or ``[samples, features]`` as the network's input, real and
        finite; row numbers if embeddings read them. A fifth, always the same, is for testing. Or an ``.npz`` file, or a
        data set by name (``digits``, ``mnist``, ``watch``, ``segments``). None: the digits.
    y : array_like or None
        Class numbers ``[samples]``, or targets ``[samples, outputs]`` for mean-squared-error.
    array, planner, model, update, wide, stochastic
        As :func:`plinth.plan`.
    batch : int or None
        Samples of a step, up to 1,048,576. None: the plan's, or 128.
    epochs : int or None
        Up to 10,000. None: 16, with Adagrad 24, or what a network of the zoo needs.
    steps : int or None
        Stop after so many.
    rate, momentum, epsilon, decay : float or None
        Numbers of the update rule. None: its defaults.
    scale : "auto", float or pair of float
        Factors on samples and on targets of mean-squared-error; "auto": powers of two that bring the largest magnitudes
        above 1/2 and up to 1.
    kinks : float or None
        Largest share of a step's kinks that roundings of the dies may decide. None: by the number format.
    seed : int
        Seed of the initial weights and of the order of samples.
    device : {"golden", "numpy", "cosim"}
        The golden model, in seconds, or compiled RTL, bit for bit the same, which needs ``g++``; or numpy, faster than
        both and equal to rounding.
    memory_mib : int or None
        Memory of a die in MiB, up to 8,192; device ``numpy`` has none. None: 16.
    threads : int or None
        Threads that simulate RTL. None: one a processor.
    save : str, Path or None
        Path of a checkpoint, which is written after each epoch and at the end.
    save_every : int or None
        Write it also after so many steps each.
    check_every : int or None
        Steps of which one is compared with the float64 reference, and the first eight; 0: none, and with device
        ``numpy`` tests are predicted there, too. None: 1, with device ``numpy`` 100.
    executor : mpi4py communicator or None
        In an MPI program: its ranks share the dies, golden ones, co-simulated ones, or those of numpy. Each of them
        calls this with the same arguments, and gets the result; the first one shows progress and writes ``save``.
        None: this process alone.
    reduce : {"ring", "library"}
        What sums the gradients of ranks that compute in numpy: rings, with the same bits in any number of ranks, or
        MPI's all-reduce.
    progress : callable, True or None
        Told (done, total, text) of steps; True: a bar on standard error.

    Raises
    ------
    TrainingError
        If a step is wrong; it has the result so far.
    UserError
        If an argument is not what it may be, samples do not fit the network, or the network does not fit the dies; in
        all ranks, if it is so in one.
    """
    from plinth.api.jobs import check_used, training_job
    from plinth.api.ranks import shared
    from plinth.report.progress import TrainingProgress
    from plinth.train.job import DEVICES, REDUCTIONS, run_job
    from plinth.train.settings import MAXIMUM_EPOCHS

    def asked() -> JobOptions:
        settings = update_settings(update, wide, stochastic)
        settings |= split_settings(planner, model, batch)
        settings |= {"epochs": optional(integer, "epochs", epochs, 1, MAXIMUM_EPOCHS),
                     **{name: optional(integer, name, value, 1, 2**63 - 1) for name, value in (
                         ("steps", steps), ("save_every", save_every), ("check_every", check_every))},
                     "rate": optional(real, "rate", rate),
                     "kinks": optional(real, "kinks", kinks, 0, 1), "seed": integer("seed", seed, 0, MAXIMUM_SEED),
                     "device": choice("device", device, DEVICES), "reduce": choice("reduce", reduce, REDUCTIONS),
                     "memory_mib": defaults.MEMORY_MIB if memory_mib is None else (
                         integer("memory_mib", memory_mib, 1, MAXIMUM_MEMORY_MIB)),
                     "threads": optional(integer, "threads", threads, 1, MAXIMUM_THREADS),
                     "save": file_to_save(save), "scale": scale_given(scale), "data": data_given(x, y)}
        numbers = {"momentum": momentum, "epsilon": epsilon, "decay": decay}
        settings["numbers"] = {number: optional(real, number, value) for number, value in numbers.items()}
        plan, name = plan_given(network)
        if plan is not None:
            refuse_beside(key for key in ("planner", "model") if settings[key] is not None)
            settings["stochastic"] = stochastic or None
        assert plan is not None or not isinstance(network, PlanResult)
        job = training_job(plan=plan, plan_name=name or "plan", array=array_given(array),
                           network=None if plan is not None or isinstance(network, PlanResult) else network_of(network),
                           **settings)
        check_used(job, {key for key, value in (*numbers.items(), ("threads", threads), ("memory_mib", memory_mib),
                                                ("save_every", save_every),
                                                ("reduce", None if reduce == "ring" else reduce))
                         if value is not None})
        return job

    with ExitStack() as joined:
        job = asked() if executor is None else joined.enter_context(shared(executor, asked))
        first = executor is None or executor.Get_rank() == 0
        with activity(progress if first else None, f"setting up {job.network.name} on {job.array.name}", "") as told:
            run = run_job(job, TrainingProgress(told), told.say)
    result = _result(job, run, told.said if isinstance(told, Told) else ())
    if run.report["bit_exact"] is False:
        raise TrainingError("the RTL's weights differ from the golden model's; please report this with the result's "
                            "report", result)
    if run.report["failure"] is not None:
        raise TrainingError(str(run.report["failure"]), result)
    return result


def file_to_save(save: Any) -> Path | None:
    """Check argument ``save``: the path of a checkpoint, which must not be a folder."""
    place = optional(arguments.path, "save", save)
    if place is not None and place.is_dir():
        raise UserError(f"save={place} is a folder; give the name of a file")
    return place
