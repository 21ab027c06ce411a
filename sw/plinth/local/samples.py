"""The samples of a run by local networks: as all of its kernels hold them, and projected where S_L has fewer inputs.

The first of S_L is the most inputs that fit. Where it is below the features of the samples, these are projected
(Deep3, section 6), and the network that is trained reads coordinates. Kernels of fixed point hold them up to their
range: coordinates beyond it are all multiplied by a power of two.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plinth.errors import UserError
from plinth.local.devices import KernelDevice
from plinth.network.network import Network
from plinth.network.shape import Shape
from plinth.train.data import Dataset, samples
from plinth.train.scale import STORED, Conversion, Held, Scale, held_operands

if TYPE_CHECKING:
    from plinth.projection.projection import Projection
    from plinth.train.data import Samples


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A network and its samples, projected or not.

    Attributes
    ----------
    network : Network
        Of as many inputs as the samples have features.
    dataset : Dataset
    projection : Projection or None
        What the samples were projected by, and
    factor : float
        what their coordinates were multiplied by.
    seconds : float
        That it took.
    errors : (float, float)
        Of the projection, relative Frobenius errors of the samples for training and for testing.
    """

    network: Network
    dataset: Dataset
    projection: Projection | None = None
    factor: float = 1.0
    seconds: float = 0.0
    errors: tuple[float, float] = (0.0, 0.0)

    def to_data(self) -> dict[str, Any] | None:
        """The projection as reports have it."""
        if self.projection is None:
            return None
        return {"size": self.projection.size, "features": self.projection.features, "beta": self.projection.beta,
                "factor": self.factor, "seconds": self.seconds, "train_error": self.errors[0],
                "test_error": self.errors[1]}


def held_by(devices: Sequence[KernelDevice]) -> Held:
    """What all kernels hold: the narrowest of their ranges."""
    ranges = [held_operands(device.parameters.multiply_format, device.parameters.number_format) for device in devices]
    return min((STORED, *ranges), key=lambda held: held.most)


def prepared(network: Network, data: Path | Samples | None, *, scale: Scale | None, devices: Sequence[KernelDevice],
             inputs: int, beta: float | None) -> Prepared:
    """Samples for a network, projected if there are to be fewer inputs, or if a tolerance is given.

    Parameters
    ----------
    inputs : int
        Most of them.
    beta : float or None
        Tolerance of the projection; None: 0.1, and no projection where all inputs fit.

    Raises
    ------
    UserError
        If there are no such samples, a kernel does not hold them, or the input is a map, which is not projected.
    """
    held = held_by(devices)
    if inputs >= network.input.elements and beta is None:
        return Prepared(network=network, dataset=samples(data, network, Conversion(scale, held)))
    from plinth.projection.fit import fit
    from plinth.projection.streaming import BETA

    if not network.input.flat:
        raise UserError(f"network {network.name!r} reads a map of {network.input}, whose samples are not projected; "
                        "leave its input whole, and beta= out")
    dataset = samples(data, network, Conversion(scale))
    if dataset.train_x.dtype.kind != "f":
        raise UserError(f"network {network.name!r} reads row numbers, which are not projected; leave its input whole")
    started = time.perf_counter()
    projection = fit(dataset.train_x, beta=BETA if beta is None else beta, limit=inputs, constant=True)
    if not projection.size:
        raise UserError("all samples are 0, of which nothing is projected; give others")
    train, test = projection.project(dataset.train_x), projection.project(dataset.test_x)
    factor = 1.0
    while not (held.has(factor * train) and held.has(factor * test)):
        factor /= 2
    seconds = time.perf_counter() - started
    errors = projection.error(dataset.train_x), projection.error(dataset.test_x)
    # Of a linear map the factor on coordinates is one on samples.
    scale = replace(dataset.scale, inputs=dataset.scale.inputs * factor)
    return Prepared(
        network=of_inputs(network, projection.size), projection=projection, factor=factor, seconds=seconds,
        errors=errors, dataset=replace(dataset, train_x=train * np.float32(factor), test_x=test * np.float32(factor),
                                       scale=scale))


def loaded_projection(path: Path, network: Network) -> Projection:
    """The projection of a file, of samples as a network reads them.

    Raises
    ------
    UserError
        If the file holds none, or one of other samples.
    """
    from plinth.projection.projection import Projection

    projection = Projection.load(path)
    if not network.input.flat or projection.features != network.input.elements:
        raise UserError(f"{path}: projects samples of {projection.features} features, and network {network.name!r} "
                        f"reads {network.input}; give the projection that lies beside the checkpoint")
    return projection


def of_inputs(network: Network, inputs: int) -> Network:
    """The network of features with so many inputs."""
    return replace(network, input=Shape((inputs,)),
                   layers=tuple(replace(layer, shape=None) for layer in network.layers))
