"""Coordinates of a batch as a matrix product of a die: ``C = A Q^T``, one GEMM task of ``samples x size x features``.

In FP32 a die multiplies what the host would, in its own order of sums: feature ascending, in one accumulator. In fixed
point samples and basis are multiplied by powers of two first, so that neither they nor coordinates leave the format,
and coordinates are divided by these. A coordinate is at most its sample's norm: the basis is multiplied by 2, and
samples by what then keeps the largest norm of those that are given together within the format.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import floor, log2
from typing import Any, NamedTuple

import numpy as np

from plinth.driver.device import DeviceArray
from plinth.driver.driver import Driver
from plinth.driver.program import Program
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.machine.tiles import interleave_m_log2
from plinth.projection.projection import Projection
from plinth.projection.samples import Floats, check_count, checked
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.operations import Engine, MatrixOperation
from plinth_hw.isa.parameters import SYSTOLIC, DieParameters

#: Samples of a product by default: Deep3's batch.
BATCH = 100
#: Most samples of a product.
MAXIMUM_BATCH = 1 << 16
#: What a fixed-point basis is multiplied by, whose elements are 1 at most.
BASIS_FACTOR = 2.0


class DieCoordinates(NamedTuple):
    """Coordinates that a die has computed, and what it took."""

    #: FP32 ``[samples, size]``.
    coordinates: Floats
    #: Cycles from the start of each product to its last write response, by its completion record, all together.
    cycles: int
    #: Useful multiply-adds, by the matrix engine's counters.
    useful_macs: int
    #: Cycles in which the matrix engine was busy, by its counters.
    busy_cycles: int
    #: The host's seconds for the same coordinates.
    host_seconds: float


@dataclass(frozen=True, kw_only=True)
class ProductProgram(Program):
    """The product of a batch, with the places of samples, basis and coordinates in ``buffers``: a, q, c."""

    batch: int


def lower_product(features: int, size: int, parameters: DieParameters, *, batch: int = BATCH, memory_words: int
                  ) -> ProductProgram:
    """The task graph of the coordinates of a batch on one die.

    Parameters
    ----------
    features, size : int
        Values of a sample, and coordinates.
    batch : int
        Samples of a product.
    memory_words : int
        Memory of the die.

    Raises
    ------
    UserError
        If the die has no systolic matrix engine of operands of whole words, sums of so many products could leave its
        accumulator, or the product does not fit the die's memory.
    """
    check_count("batch", batch, 1, MAXIMUM_BATCH, "give the samples of a product")
    if Engine.MATRIX not in parameters.engines or parameters.machine != SYSTOLIC or parameters.packing > 1:
        raise UserError(f"preset {parameters.name!r} does not multiply matrices of whole words by a systolic array; "
                        "choose ndp-demo or fpga-demo")
    fmt = parameters.memory_format
    if isinstance(fmt, Fixed) and features > fmt.most_products:
        raise UserError(f"a sum of {features} products may leave the accumulator of preset {parameters.name!r}, which "
                        f"holds {fmt.most_products}; choose an FP32 die")
    builder = GraphBuilder(parameters)
    a, q, c = (builder.allocate(name, rows, columns) for name, rows, columns in (
        ("a", batch, features), ("q", features, size), ("c", batch, size)))
    builder.add("coordinates", Engine.MATRIX, MatrixOperation.GEMM, {
        "a": a.pointer, "a_stride": a.stride, "b": q.pointer, "b_stride": q.stride, "c": c.pointer,
        "c_stride": c.stride, "m": batch, "n": size, "k": features,
        "interleave_m_log2": interleave_m_log2(parameters, batch, size)}, reads=[a, q], writes=[c])
    setup = [ring_setup(parameters, [0], 0, 0)] if parameters.ports else []
    program = assemble(setup, [builder], memory_words=memory_words)
    return ProductProgram(**vars(program), batch=batch)


class DieProjection:
    """Projects batches of samples on a die.

    Parameters
    ----------
    projection : Projection
        Of which coordinates by the basis are computed, whatever its kind.
    array : DeviceArray
        One die: golden, co-simulated, or a board.
    parameters : DieParameters
        Of the die.
    batch : int
        Samples of a product; what is left of the last one is filled with zeros.
    memory_words : int
        Memory of the die.

    Raises
    ------
    UserError
        As :func:`lower_product`, and if the device is no such die.
    """

    def __init__(self, projection: Projection, array: DeviceArray, parameters: DieParameters, *, batch: int = BATCH,
                 memory_words: int) -> None:
        self.projection, self.parameters = projection, parameters
        self.program = lower_product(projection.features, projection.size, parameters, batch=batch,
                                     memory_words=memory_words)
        self._driver = Driver(array, self.program, memory_words=memory_words)
        self._fixed = isinstance(parameters.memory_format, Fixed)
        basis = np.ascontiguousarray(projection.basis.T)
        self._driver.write_floats(0, self.program.buffers["q"], basis * np.float32(self._basis_factor))

    @property
    def _basis_factor(self) -> float:
        return BASIS_FACTOR if self._fixed else 1.0

    def sample_factor(self, x: Floats) -> float:
        """The power of two that samples ``[samples, features]`` are multiplied by: 1 in FP32."""
        fmt = self.parameters.memory_format
        if not isinstance(fmt, Fixed):
            return 1.0
        largest = float(np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64).max(initial=0)))
        return 2.0 ** floor(log2(2.0 ** fmt.integer_bits / (self._basis_factor * largest) * (1 - 1e-3))) if (
            largest) else 1.0

    def project(self, x: Any) -> DieCoordinates:
        """Coordinates of samples, computed by the die, beside the host's time.

        Parameters
        ----------
        x : array_like ``[samples, features]``

        Raises
        ------
        UserError
            As :meth:`Projection.project`.
        DieError
            If the die stops with an error.
        """
        samples = checked(x, self.projection.features)
        begun = time.perf_counter()
        samples @ self.projection.basis.T
        seconds = time.perf_counter() - begun
        factor, cycles = self.sample_factor(samples), 0
        out = np.empty((len(samples), self.projection.size), np.float32)
        self._driver.clear_counters()
        for part, batch in self._batches(samples * np.float32(factor)):
            self._driver.write_floats(0, self.program.buffers["a"], batch)
            self._driver.step(0)
            (record,) = self._driver.records(0)
            cycles += record.end - record.start
            out[part] = self._driver.read_floats(0, self.program.buffers["c"])[:len(out[part])]
        counters = self._driver.counters(0)[Engine.MATRIX]
        # Powers of two: exact.
        return DieCoordinates(out / np.float32(factor * self._basis_factor), cycles, counters.useful_macs,
                              counters.busy, seconds)

    def _batches(self, samples: Floats) -> Iterator[tuple[slice, Floats]]:
        """Places of samples, and as many samples as a product has, the last ones followed by zeros."""
        count = self.program.batch
        for start in range(0, len(samples), count):
            part = samples[start:start + count]
            batch = np.zeros((count, samples.shape[1]), np.float32)
            batch[:len(part)] = part
            yield slice(start, start + count), batch
