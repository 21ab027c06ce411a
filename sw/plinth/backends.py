"""The one place of the software that knows the back ends: makes arrays of devices for the driver."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plinth.driver.device import Array
from plinth.errors import UserError
from plinth.lower.chain import chain
from plinth.model.network import Network
from plinth.training.session import Reference
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.golden import reference
from plinth_sim.golden.device import GoldenArray


def build_root() -> Path:
    """Folder of everything generated: ``PLINTH_BUILD``, or ``build`` of the checkout."""
    return Path(os.environ.get("PLINTH_BUILD") or Path(__file__).resolve().parents[2] / "build")


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
                link_latency: int = 5, window: Window | None = None) -> tuple[Array, str]:
    """Dies on the compiled co-simulation, joined in a ring, and the SHA-256 of their Verilog.

    Raises
    ------
    UserError
        If a tool is missing or fails, or the build folder cannot be written.
    """
    from plinth_sim.rtl.cosim import CosimArray, Waves
    from plinth_sim.rtl.elaborate import die_verilog
    from plinth_sim.rtl.verilator import ToolError

    waves = Waves(window.die, window.start, window.stop, window.path) if window else None
    try:
        verilog = die_verilog(parameters)
        array = CosimArray(parameters, dies, memory_words, threads=threads, link_latency=link_latency,
                           verilog=verilog, waves=waves)
    except ToolError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename or build_root()}: {error.strerror}; make the build folder writable "
                        "or set PLINTH_BUILD to another one") from error
    digest = hashlib.sha256("".join(verilog[name] for name in sorted(verilog)).encode()).hexdigest()
    return array, digest


def float64_reference(network: Network) -> Reference:
    """Gradients of a network by the task-free reference."""
    def compute(parameters: list[NDArray[np.float32]], x: NDArray[np.float32], labels: NDArray[np.int64],
                passed: list[NDArray[np.bool_]]) -> tuple[list[NDArray[np.float64]], int]:
        weights, biases = [], []
        for block, flat in zip(chain(network), parameters, strict=True):
            size = block.inputs * block.outputs
            weights.append(flat[:size].reshape(block.inputs, block.outputs).astype(np.float64))
            biases.append(flat[size:].astype(np.float64))
        found = reference.gradients(weights, biases, x.astype(np.float64), labels, passed)
        return [np.concatenate([w.ravel(), b]) for w, b in found.layers], found.kinks
    return compute
