"""A global network, its samples and its kernels: what a coordinator is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from plinth.array.array import ring
from plinth.errors import UserError
from plinth.local.batches import Batches
from plinth.local.coordinator import PATIENCE_SECONDS, Coordinator, CoordinatorRun, Ending, Validate
from plinth.local.devices import COSIM, NUMPY, DeviceStep, KernelDevice, device_step
from plinth.local.draws import UNIFORM, draw_of
from plinth.local.fitting import fitting_widths
from plinth.local.kernels import DeviceKernel, Kernel
from plinth.local.links import KernelLinks, VirtualLinks
from plinth.local.merging import AUTO, GlobalModel, divided_variables, expected_holders
from plinth.local.sets import Answer, LocalSet
from plinth.network.local import LocalNetwork
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.plan.planning import data_parallel, predicted_seconds
from plinth.profile.costs import KernelCosts
from plinth.train.data import Dataset
from plinth.train.evaluation import evaluate
from plinth.train.float64 import float64_predictor

#: Costs of a kernel of which nothing was measured: 50 thousand million operations a second, 1 Gb/s, a tenth of a
#: millisecond a message.
USUAL_COSTS = KernelCosts(flop_seconds=1 / 25e9, act_seconds=0.0, err_seconds=0.0, net_seconds=1e-4,
                          word_seconds=32 / 1e9)


@dataclass(frozen=True, kw_only=True)
class KernelPlan:
    """A kernel of a training run.

    Attributes
    ----------
    device : KernelDevice
    local : LocalNetwork
        Of its widths.
    step : DeviceStep
        Of its local network.
    costs : KernelCosts
        What its batches and messages cost, where time is virtual.
    profiled : bool
        Whether they are those of a profile of its device.
    """

    device: KernelDevice
    local: LocalNetwork
    step: DeviceStep
    costs: KernelCosts = USUAL_COSTS
    profiled: bool = False

    @property
    def words(self) -> int:
        """Words of a message one way: weights, and to the kernel numbers of units."""
        return self.local.words + sum(width for width, _ in self.local.hidden.values())

    @property
    def message_seconds(self) -> float:
        """Seconds of a message one way."""
        return self.costs.message(self.words)

    def batch_seconds(self, network: Network, batch: int) -> float:
        """Seconds of a batch of a network: by the device's profile or the usual costs; of a die without a profile by
        the cycles that are predicted of its step.

        Raises
        ------
        UserError
            If the die cannot run the network.
        """
        if self.profiled or self.device.kind == NUMPY:
            return self.device.slower * self.costs.batch(network, batch)
        return self.device.slower * _predicted(self.device.preset, network, batch)

    def computing_seconds(self, batch: int) -> float:
        """Seconds of a batch of its local network."""
        return self.batch_seconds(self.local.network, batch)

    def set_seconds(self, given: LocalSet, answer: Answer, batch: int) -> float:
        """Virtual seconds from when a set is sent until its answer comes: two messages, and training, of co-simulated
        dies by their cycles."""
        counted = self.device.kind == COSIM
        training = answer.seconds * self.device.slower if counted else given.batches * self.computing_seconds(batch)
        return self.costs.message(given.words) + training + self.costs.message(answer.words)


@lru_cache(maxsize=256)
def _predicted(name: str, network: Network, batch: int) -> float:
    """Seconds of a step of a network on a die of a preset, as planners predict them."""
    where = ring(1, preset=name)
    return predicted_seconds(data_parallel(network, dies=1, batch=batch).resharded(array=where), where)


def _fitting(network: Network, device: KernelDevice, batch: int, memory_mib: int) -> str:
    """What widths would fit a device, for a message; nothing if none do."""
    try:
        widths = fitting_widths(network, device, [], batch=batch, memory_mib=memory_mib)
    except UserError:
        return ""
    return f"; what fits is local={','.join(map(str, widths))}"


def planned_kernels(network: Network, devices: Sequence[KernelDevice], widths: Sequence[Sequence[int]], *,
                    batch: int, rule: str, rate: float | None, epsilon: float | None, memory_mib: int,
                    costs: Sequence[KernelCosts] | None = None, profiled: Sequence[bool] | None = None
                    ) -> tuple[KernelPlan, ...]:
    """Kernels of some devices, each with local networks of its own widths.

    Parameters
    ----------
    costs, profiled : sequence or None
        Of each kernel, as :class:`KernelPlan` has them; None: the usual ones.

    Raises
    ------
    UserError
        If widths do not fit the network, or a local network its device.
    """
    steps: dict[Any, tuple[LocalNetwork, DeviceStep]] = {}
    plans = []
    for number, (device, own) in enumerate(zip(devices, widths, strict=True)):
        key = replace(device, slower=1.0), tuple(own)
        if key not in steps:
            local, own_rule = LocalNetwork(network, tuple(own)), device.rule(rule, rate, epsilon)
            try:
                step = device_step(device, local.network, batch=batch, rule=own_rule, memory_mib=memory_mib)
            except UserError as error:
                raise UserError(f"{error}{_fitting(network, device, batch, memory_mib)}") from None
            steps[key] = local, step
        local, step = steps[key]
        plans.append(KernelPlan(device=device, local=local, step=step,
                                costs=USUAL_COSTS if costs is None else costs[number],
                                profiled=profiled is not None and profiled[number]))
    return tuple(plans)


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """A training run by local networks.

    Attributes
    ----------
    network : Network
        The global one.
    dataset : Dataset
    kernels : sequence of KernelPlan
    batch : int
        Samples of a kernel's batch.
    seed : int
    merge, draw : str
        Ways of merging and of drawing units.
    """

    network: Network
    dataset: Dataset
    kernels: Sequence[KernelPlan]
    batch: int
    seed: int
    merge: str = AUTO
    draw: str = UNIFORM

    def __post_init__(self) -> None:
        if not self.kernels:
            raise UserError("there is no kernel to train on; give at least one, such as 1*numpy")
        if self.batch > len(self.dataset.train_x):
            raise UserError(f"a batch of {self.batch} is larger than the {len(self.dataset.train_x)} training samples; "
                            "give a smaller batch=")

    @cached_property
    def holders(self) -> dict[str, float]:
        """How many kernels are expected to hold an element of each variable."""
        return expected_holders([kernel.local.shares for kernel in self.kernels])

    @cached_property
    def divided(self) -> frozenset[str]:
        """The variables whose differences are divided by holders."""
        return divided_variables(self.merge, self.holders)

    def validate(self, x: Any = None, y: Any = None) -> Validate:
        """What finds loss and accuracy of some samples, of those for testing unless others are given; in float64."""
        predict = float64_predictor(self.network)
        x, y = (self.dataset.test_x, self.dataset.test_y) if x is None else (x, y)
        return lambda parameters: evaluate(self.network, predict, parameters, x, y, classes=bool(self.dataset.classes))

    @property
    def computing_seconds(self) -> list[float]:
        """The seconds of a batch on each kernel, of its local network."""
        return [kernel.computing_seconds(self.batch) for kernel in self.kernels]

    @property
    def message_seconds(self) -> list[float]:
        """The seconds of a message one way, to or from each kernel."""
        return [kernel.message_seconds for kernel in self.kernels]

    def kernel(self, number: int) -> DeviceKernel:
        """A kernel, by its number."""
        plan = self.kernels[number]
        return DeviceKernel(plan.local, plan.step.start,
                            Batches(self.dataset.train_x, self.dataset.targets, self.batch, self.seed, number))

    def opened(self, numbers: Sequence[int] | None = None,
               progress: Callable[[int, int], object] = lambda done, total: None) -> list[DeviceKernel]:
        """Kernels with their devices started, of some numbers or all.

        Raises
        ------
        UserError
            If one does not start; the others have been closed then.
        """
        kernels: list[DeviceKernel] = []
        numbers = range(len(self.kernels)) if numbers is None else numbers
        for number in numbers:
            progress(len(kernels), len(numbers))
            kernels.append(self.kernel(number))
            try:
                kernels[-1].open()
            except UserError as error:
                for kernel in kernels:
                    kernel.close()
                raise UserError(f"kernel {number} ({self.kernels[number].device.name}) does not start: {error}"
                                ) from error
        return kernels

    def virtual_links(self, kernels: Sequence[Kernel] | None = None) -> VirtualLinks:
        """All kernels in virtual time."""
        return VirtualLinks(kernels or self.opened(),
                            lambda kernel, given, answer: self.kernels[kernel].set_seconds(given, answer, self.batch))

    def coordinator(self, links: KernelLinks, *, push: int, ending: Ending, validate: Validate | None = None,
                    validate_every: int | None = None, patience_seconds: float = PATIENCE_SECONDS) -> Coordinator:
        """The coordinator of these kernels; arguments as it has them. It validates the samples for testing, as often
        as each kernel answers, unless others are given."""
        model = GlobalModel(initial_parameters(self.network, self.seed), self.divided)
        draws = [draw_of(self.draw, kernel.local.hidden, [self.seed, 3, number])
                 for number, kernel in enumerate(self.kernels)]
        return Coordinator(model, [kernel.local for kernel in self.kernels], draws, links,
                           names=[kernel.device.name for kernel in self.kernels], push=[push] * len(self.kernels),
                           ending=ending, validate=validate or self.validate(),
                           validate_every=validate_every or len(self.kernels), patience_seconds=patience_seconds)

    def run_virtually(self, *, push: int, ending: Ending, validate: Validate | None = None,
                      validate_every: int | None = None,
                      progress: Callable[[Coordinator], object] = lambda _: None) -> CoordinatorRun:
        """Train in virtual time; arguments as of :meth:`coordinator`."""
        return self.coordinator(self.virtual_links(), push=push, ending=ending, validate=validate,
                                validate_every=validate_every).run(progress)

    def in_numpy(self) -> LocalTraining:
        """Make the training of the same local networks by kernels in numpy, all at one pace.

        Raises
        ------
        UserError
            If numpy cannot run a local network.
        """
        kernels = []
        for plan in self.kernels:
            device = KernelDevice(kind=NUMPY)
            rule = device.rule(plan.step.rule.kind, plan.step.rule.rate, plan.step.rule.epsilon)
            step = device_step(device, plan.local.network, batch=self.batch, rule=rule, memory_mib=0)
            kernels.append(KernelPlan(device=device, local=plan.local, step=step))
        return replace(self, kernels=kernels)


def sampled(dataset: Dataset, share: float, least: int, seed: int) -> Dataset:
    """A random share of the training samples, at least so many if there are, which stand for testing as well."""
    count = min(len(dataset.train_x), max(least, round(share * len(dataset.train_x))))
    numbers = np.random.default_rng([seed, 5]).permutation(len(dataset.train_x))[:count]
    x, y = dataset.train_x[numbers], dataset.train_y[numbers]
    return replace(dataset, train_x=x, train_y=y, test_x=x, test_y=y)
