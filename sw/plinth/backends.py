"""The one place of the software that knows the back ends: makes arrays of devices for the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plinth.array.routes import Link
from plinth.driver.device import Array
from plinth.errors import UserError
from plinth.network.layers import SPATIAL, Convolution, Layer, MaxPool, MeanPool
from plinth.network.network import Network
from plinth.network.parameters import LayerArrays, Parameters, Predictor, Reference, ReferenceStep, Sizes, flats, named
from plinth_hw.board.manifest import Manifest, ManifestError
from plinth_hw.installation import cache_root
from plinth_hw.isa.frames import LEAST_CYCLES, BridgeParameters
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.golden import reference
from plinth_sim.golden.array import GoldenArray

if TYPE_CHECKING:
    from plinth.driver.serial import SerialArray
    from plinth_sim.rtl.cosim import CosimArray
    from plinth_sim.rtl.pseudo_terminal import PseudoTerminals

#: Elements of a layer's windows that the reference computes at a time: 64 MiB in float64.
BATCH_ELEMENTS = 1 << 23


@contextmanager
def tool_errors() -> Iterator[None]:
    """Around what runs tools and keeps their results in the cache.

    Raises
    ------
    UserError
        If a tool is missing or fails, or the cache cannot be written.
    """
    from plinth_hw import tools
    from plinth_sim.rtl import verilator

    try:
        yield
    except (tools.ToolError, verilator.ToolError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename or cache_root()}: {error.strerror}; make that folder writable or set "
                        "PLINTH_BUILD to another one") from error


@dataclass(frozen=True)
class Window:
    """Which die's signals to record, from which cycle to which."""

    die: int
    start: int
    stop: int
    path: Path


def golden_array(parameters: DieParameters, dies: int, memory_words: int) -> Array:
    """Dies on the golden model."""
    return GoldenArray(parameters, dies, memory_words)


def cosim_array(parameters: DieParameters, dies: int, memory_words: int, *, threads: int | None = None,
                links: Iterable[Link | tuple[int, int, int, int, int]] | None = None, window: Window | None = None,
                bit_errors: float = 0.0, bridge: BridgeParameters | None = None) -> tuple[CosimArray, str]:
    """Dies on the compiled co-simulation, and the SHA-256 of their Verilog.

    Parameters
    ----------
    links : iterable of (die, port out, die, port in) or (die, port out, die, port in, cycles of latency), or None
        Default: a ring.
    window : Window or None
        What to record as waves.
    bit_errors : float
        Share of the bits on links with a link layer that are wrong.
    bridge : BridgeParameters or None
        Of a host bridge in front of each die.

    Raises
    ------
    UserError
        If a tool is missing or fails, or the build folder cannot be written.
    """
    from plinth_sim.rtl.cosim import CosimArray, Faults, Waves
    from plinth_sim.rtl.elaborate import die_verilog

    waves = Waves(window.die, window.start, window.stop, window.path) if window else None
    with tool_errors():
        verilog = die_verilog(parameters, bridge=bridge)
        array = CosimArray(parameters, dies, memory_words, threads=threads, links=links, verilog=verilog, waves=waves,
                           bridge=bridge, faults=Faults(flip=bit_errors) if bit_errors else None)
    return array, _digest(verilog)


def pseudo_terminals(parameters: DieParameters, dies: int, memory_words: int, *, threads: int | None = None
                     ) -> PseudoTerminals:
    """Dies on the compiled co-simulation, joined to a ring, each with a host bridge at the end of a serial line that
    programs see as a port of the system.

    Raises
    ------
    UserError
        As :func:`cosim_array`.
    """
    from plinth_sim.rtl.pseudo_terminal import PseudoTerminals

    return PseudoTerminals(cosim_array(with_window(parameters), dies, memory_words, threads=threads,
                                       bridge=BridgeParameters(cycles_per_bit=LEAST_CYCLES))[0])


def simulated_serial_array(parameters: DieParameters, memory_words: int, cycles_per_bit: Fraction, clock_hz: int
                           ) -> tuple[SerialArray, CosimArray]:
    """A die on the compiled co-simulation behind a serial line, in simulated time, and the simulation.

    Raises
    ------
    UserError
        As :func:`cosim_array`.
    """
    from plinth.driver.serial import SerialArray
    from plinth_sim.rtl.simulated_port import SimulatedPort

    parameters = with_window(parameters)
    array = cosim_array(parameters, 1, memory_words, bridge=BridgeParameters(cycles_per_bit=cycles_per_bit))[0]
    return SerialArray(parameters, [SimulatedPort(array, cycles_per_second=clock_hz)]), array


def with_window(parameters: DieParameters) -> DieParameters:
    """A die whose memory is reached by its registers."""
    return parameters if parameters.has_window else replace(parameters, window=True)


def serial_array(parameters: DieParameters, ports: Iterable[tuple[str, int]]) -> SerialArray:
    """Dies behind serial lines, each by the name of its port and the line's rate in baud.

    Raises
    ------
    LineError
        If a port cannot be opened, or there is no host bridge behind it.
    """
    from plinth.driver.serial import SerialArray, SystemPort

    return SerialArray(parameters, [SystemPort(name, baud) for name, baud in ports])


def bitstream_digest(folder: Path, parameters: DieParameters) -> int:
    """VERILOG_DIGEST of the bitstream that ``make bitstream`` has put into a folder.

    Raises
    ------
    UserError
        If it is of other parameters or not what its manifest describes, or there is none.
    """
    try:
        manifest = Manifest.read(folder)
        manifest.check(folder, parameters)
    except ManifestError as error:
        raise UserError(str(error)) from error
    return manifest.verilog_digest


def _digest(verilog: Mapping[str, str]) -> str:
    return hashlib.sha256("".join(verilog[name] for name in sorted(verilog)).encode()).hexdigest()


def die_digest(parameters: DieParameters) -> str:
    """SHA-256 of a die's Verilog.

    Raises
    ------
    UserError
        If a tool is missing or fails, or the build folder cannot be written.
    """
    from plinth_sim.rtl.elaborate import die_verilog

    with tool_errors():
        return _digest(die_verilog(parameters))


def synthesizable_verilog(parameters: DieParameters) -> str:
    """Verilog of a die for other tools, as ``python -m plinth_hw`` writes it.

    Raises
    ------
    UserError
        As :func:`die_digest`.
    """
    from plinth_sim.rtl.elaborate import die_verilog

    with tool_errors():
        (text,) = die_verilog(parameters, "cells").values()
    return text


def harness_digest() -> str:
    """SHA-256 of what drives the dies of a co-simulation: its memory, links and registers."""
    from plinth_sim import rtl

    folder = Path(rtl.__file__).resolve().parent
    return _digest({path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.*") if path.is_file()})


def reference_layers(network: Network) -> tuple[reference.Layer, ...]:
    """A network as the float64 reference takes it."""
    def as_reference(layer: Layer) -> reference.Layer:
        settings, kind = {key: getattr(layer, key) for key in layer.forms()}, layer.kind
        if isinstance(layer, Convolution) and (tile := layer.transform(network.shapes[layer.name].inputs)):
            settings, kind = settings | {"tile": tile}, kind if layer.weights == SPATIAL else "winograd"
        return reference.Layer(layer.name, kind, layer.inputs, **settings)

    return tuple(map(as_reference, network.layers))


def float64_reference(network: Network, rounding: float = reference.FP32_ROUNDING) -> Reference:
    """A step of a network by the task-free reference.

    Parameters
    ----------
    rounding : float
        What numbers of the computation that is checked may be off, of their size.
    """
    layers, rows = reference_layers(network), flats(network)

    def compute(weights: LayerArrays, x: NDArray[Any], targets: NDArray[Any],
                decided: Mapping[str, NDArray[np.float32]]) -> ReferenceStep:
        found = reference.gradients(layers, named(network, weights), _samples(network, x), targets, decided, rounding)
        sizes = vars(found.scales) | {"gradients": [found.scales.gradients[one.layer] for one in rows]}
        return ReferenceStep(found.predictions.reshape(len(x), -1), found.loss,
                             [one.join(found.variables) for one in rows], Sizes(**sizes), found.kinks, found.kinked,
                             found.kink_difference)
    return compute


def float64_predictor(network: Network) -> Predictor:
    """What the loss of a network reads, by the task-free reference, some samples at a time."""
    layers, batch = reference_layers(network), _batch_samples(network)

    def compute(parameters: Parameters, x: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
        for start in range(0, len(x), batch):
            part = x[start:start + batch]
            yield reference.prediction(layers, parameters, _samples(network, part)).reshape(len(part), -1)
    return compute


def _batch_samples(network: Network) -> int:
    """Samples that the reference computes together: the windows of its widest layer, written out, stay within
    bounds."""
    widest = network.input.elements
    for layer in network.layers:
        shapes = network.shapes[layer.name]
        taps = prod(layer.kernel) * shapes.inputs[0].channels * shapes.output.positions if (
            isinstance(layer, (Convolution, MaxPool, MeanPool))) else 0
        widest = max(widest, taps, shapes.output.elements)
    return max(1, BATCH_ELEMENTS // widest)


def _samples(network: Network, x: NDArray[Any]) -> NDArray[Any]:
    """Flat samples as ``[samples, rows, columns, channels]``, or features."""
    channels, *sides = network.input
    return x.reshape(len(x), *sides, channels)
