"""Kernels as users name them, and how each runs a local network.

::

    [COUNT*]DEVICE[/SLOWER]

    numpy                       this host, in FP32
    PRESET                      a co-simulated die of a preset, compared with the golden model at every set
    golden:PRESET               the golden model of such a die
    serial:PRESET:PORT[@BAUD]   a board with such a die behind a serial line

``/SLOWER`` makes a kernel take so many times as long; of a board it stands behind a rate, as ports may end so.
"""

import re
from dataclasses import dataclass
from typing import Any

from plinth.array.array import Array, ring
from plinth.driver.device import DeviceArray
from plinth.driver.driver import Driver
from plinth.driver.line import BAUD
from plinth.errors import UserError, quoted
from plinth.files.documents import nearest
from plinth.local.kernels import Running, give_back
from plinth.lower.places import HostView, host_view
from plinth.lower.stages import check_network
from plinth.lower.training import TrainingProgram, lower_training, trained_sharding
from plinth.network.network import Network
from plinth.plan.plan import Plan
from plinth.plan.planning import data_parallel
from plinth.runtime.arrays import cosim_array, golden_array, serial_array
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.step.build import step_of
from plinth.step.step import Step
from plinth.update.rule import UpdateRule, check_engines, rule_for
from plinth_hw.isa.parameters import PRESETS, DieParameters, preset

#: Kinds of devices.
NUMPY, GOLDEN, COSIM, SERIAL = "numpy", "golden", "cosim", "serial"
#: Dies whose step numpy runs: of FP32.
NUMPY_PRESET = "ndp-demo"
#: Most kernels.
MAXIMUM_KERNELS = 1024
#: By what factor a kernel may be slower, at most.
MOST_SLOWER = 1_000_000


@dataclass(frozen=True, kw_only=True)
class KernelDevice:
    """A kernel's device.

    Attributes
    ----------
    kind : str
        ``"numpy"``, ``"golden"``, ``"cosim"`` or ``"serial"``.
    preset : str
        Of its die.
    port : str
        With ``"serial"`` the name of its port, and
    baud : int
        the line's rate.
    slower : float
        By what factor its times are longer than those of the device.
    """

    kind: str
    preset: str = NUMPY_PRESET
    port: str = ""
    baud: int = BAUD
    slower: float = 1.0

    @property
    def name(self) -> str:
        """What reports call it."""
        device = {NUMPY: NUMPY, COSIM: self.preset, GOLDEN: f"golden:{self.preset}",
                  SERIAL: f"serial:{self.preset}:{self.port}"}[self.kind]
        return device if self.slower == 1 else f"{device}/{self.slower:g}"

    @property
    def parameters(self) -> DieParameters:
        """Parameters of its die."""
        return preset(self.preset)

    def rule(self, kind: str, rate: float | None, epsilon: float | None) -> UpdateRule:
        """The update rule by which it trains: wide on dies of fixed point.

        Raises
        ------
        UserError
            If its die has no engine for that, or a number is out of range.
        """
        given = {"rate": rate, "epsilon": epsilon}
        numbers: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        try:
            rule = rule_for(self.parameters, kind, **numbers)
        except ValueError as error:
            raise UserError(f"kernel {self.name}: {error}") from None
        check_engines(rule, self.parameters)
        return rule


def kernel_devices(text: str) -> tuple[KernelDevice, ...]:
    """The devices of kernels, of a text such as ``2*numpy,1*fpga-demo``.

    Raises
    ------
    UserError
        If it names none, too many, or what there is not.
    """
    devices: list[KernelDevice] = []
    for item in text.split(","):
        match = re.fullmatch(r"\s*(?:([0-9]{1,4})\*)?(serial:[^@]+(?:@[0-9]+)?|.+?)(?:/([0-9]+(?:\.[0-9]+)?))?\s*",
                             item)
        if not match:
            raise UserError(f"kernels {quoted(text)}: {quoted(item)} is not of the form [COUNT*]DEVICE[/SLOWER]; give "
                            "for example 2*numpy,1*fpga-demo")
        count, slower = int(match[1] or 1), float(match[3] or 1)
        if not count or not 1 <= slower <= MOST_SLOWER:
            wrong = "no kernel" if not count else (
                "a kernel that is faster than it is" if slower < 1 else "too slow a one")
            raise UserError(f"kernels {quoted(text)}: {quoted(item)} asks for {wrong}; give at least 1, and at most "
                            f"{MAXIMUM_KERNELS} kernels, {MOST_SLOWER:,} times as slow")
        devices += [_device(match[2], slower)] * count
        if len(devices) > MAXIMUM_KERNELS:
            raise UserError(f"kernels {quoted(text)} are more than {MAXIMUM_KERNELS}; give fewer")
    ports = [device.port for device in devices if device.kind == SERIAL]
    if len(set(ports)) < len(ports):
        raise UserError(f"kernels {quoted(text)} name a port twice; there is one die behind a port")
    return tuple(devices)


def _device(name: str, slower: float) -> KernelDevice:
    if name == NUMPY:
        return KernelDevice(kind=NUMPY, slower=slower)
    kind, separator, rest = name.partition(":")
    if separator and kind == GOLDEN:
        return KernelDevice(kind=GOLDEN, preset=_preset(rest), slower=slower)
    if separator and kind == SERIAL:
        match = re.fullmatch(r"([^:]+):([^@]+)(?:@([1-9][0-9]{1,7}))?", rest)
        if not match:
            raise UserError(f"kernel {quoted(name)} is not of the form serial:PRESET:PORT[@BAUD]; give its preset and "
                            "its port")
        return KernelDevice(kind=SERIAL, preset=_preset(match[1]), port=match[2], baud=int(match[3] or BAUD),
                            slower=slower)
    return KernelDevice(kind=COSIM, preset=_preset(name), slower=slower)


def _preset(name: str) -> str:
    if name not in PRESETS:
        raise UserError(f"there is no kernel {quoted(name)}; give {NUMPY}, golden:PRESET, serial:PRESET:PORT, or a "
                        f"preset of dies: {nearest(name, PRESETS)}")
    return name


@dataclass(frozen=True, kw_only=True)
class DeviceStep:
    """A training step of a network on a kernel's device.

    Attributes
    ----------
    device : KernelDevice
    view : HostView
        Where the host reads and writes; of dies their program.
    plan : Plan
    rule : UpdateRule
    memory_words : int
        Memory of a die, in its words.
    step : Step or None
        What numpy runs; None: a die runs its program.
    """

    device: KernelDevice
    view: HostView
    plan: Plan
    rule: UpdateRule
    memory_words: int
    step: Step | None = None

    @property
    def array(self) -> Array:
        """The one die."""
        return ring(1, preset=self.device.preset)

    def start(self) -> Running:
        """Start the device.

        Raises
        ------
        UserError
            If it cannot be built, or does not answer as the die that it is to be.
        """
        device = self.device
        if self.step is not None:
            return Running(view=self.view, executor=NumpyExecutor(self.step))
        golden = self._driver(golden_array(self._parameters, 1, self.memory_words))
        if device.kind == GOLDEN:
            return Running(view=self.view, executor=golden)
        if device.kind == SERIAL:
            dies = serial_array(self._parameters, [(device.port, device.baud)])
            return Running(view=self.view, executor=self._driver(dies), golden=golden)
        cosim, _ = cosim_array(self._parameters, 1, self.memory_words, threads=1, links=self.array.timed())
        return Running(view=self.view, executor=self._driver(cosim), golden=golden,
                       clock_hz=float(self.array.clock_mhz) * 1e6)

    @property
    def _parameters(self) -> DieParameters:
        return self.view.parameters

    def _driver(self, dies: DeviceArray) -> Driver:
        assert isinstance(self.view, TrainingProgram)
        try:
            return Driver(dies, self.view, memory_words=self.memory_words, links=self.array)
        except BaseException:
            give_back(dies)
            raise


def device_step(device: KernelDevice, network: Network, *, batch: int, rule: UpdateRule, memory_mib: int
                ) -> DeviceStep:
    """Make the training step of a network on a kernel's device.

    Raises
    ------
    UserError
        If the device cannot run the network, or it does not fit its memory.
    """
    parameters = device.parameters
    plan = data_parallel(network, dies=1, batch=batch).resharded(array=ring(1, preset=device.preset))
    try:
        if device.kind == NUMPY:
            check_network(network)
            step = step_of(trained_sharding(plan, parameters, rule), parameters)
            return DeviceStep(device=device, view=HostView(**host_view(step, lists=False)), plan=plan, rule=rule,
                              memory_words=0, step=step)
        if device.kind == SERIAL:
            parameters = parameters.with_window
        memory_words = min((memory_mib << 20) // parameters.word_bytes, parameters.most_memory_words)
        program = lower_training(network, plan, parameters, rule=rule, steps=1, memory_words=memory_words)
    except UserError as error:
        raise UserError(f"kernel {device.name}: {error}") from None
    return DeviceStep(device=device, view=program, plan=plan, rule=rule, memory_words=memory_words)
