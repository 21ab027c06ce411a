"""Local networks of a global one: the same layers with some of the units of each, after Deep3 (section 5).

The *units* of a layer are its output channels: neurons of a fully connected layer, maps of a convolution. A local
network has some units of each hidden layer, all of the input and of the output, and is an ordinary network. What it
trains are parts of the global variables: along the axis of outputs the layer's own units, along the axis of inputs
those of the layers that feed it; behind a flattened map those units at every position.

Where a layer reads K of N units, its weights are larger by sqrt(N / K) than the global ones, so that the variance of
its sums is that of the global network, where activations are independent of each other; or by N / K, as dropout has it,
so that their mean is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.files.forms import described, is_integer
from plinth.network.layers import Add, Affine, Concat, Convolution, Dense, Flatten, Join, Layer
from plinth.network.network import INPUT, Network
from plinth.network.variables import INPUTS, OUTPUTS, Variable

Integers = NDArray[np.int64]
#: Powers of N / K that keep the variance of sums, and their mean.
VARIANCE, MEAN = 0.5, 1.0
#: Units of each hidden layer that has not all of them, ascending, by its name.
Units = Mapping[str, Integers]


class _Channels(NamedTuple):
    """Channels that lie one behind the other: the units of a layer, or such as are never left out."""

    layer: str | None
    width: int


class _Block(NamedTuple):
    """Channels at each of some positions, position by position."""

    positions: int
    channels: tuple[_Channels, ...]


#: What a layer gives: of a map one block of one position, behind which its positions are axes of their own.
_Blocks = tuple[_Block, ...]


def _indices(blocks: _Blocks, units: Units) -> Integers:
    """The numbers, among all that blocks have, of those that some units have."""
    found, first = [], 0
    for positions, channels in blocks:
        numbers, width = [], 0
        for layer, count in channels:
            given = None if layer is None else units.get(layer)
            numbers.append(width + (np.arange(count) if given is None else given))
            width += count
        found.append(first + np.add.outer(width * np.arange(positions), np.concatenate(numbers)).ravel())
        first += positions * width
    return np.concatenate(found)


class LocalPart(NamedTuple):
    """The part of a global variable that a local network trains.

    Attributes
    ----------
    indices : tuple of array of int
        Along each axis those that it has, ascending.
    factor : float
        By which local values are larger than global ones.
    """

    indices: tuple[Integers, ...]
    factor: float

    @property
    def place(self) -> tuple[Integers, ...]:
        """What numpy takes it by."""
        return np.ix_(*self.indices)

    def cut(self, values: NDArray[Any]) -> NDArray[Any]:
        """The part of an array of the variable's shape."""
        return values[self.place]


def makers(network: Network) -> tuple[Layer, ...]:
    """The layers that have units of their own: those that train something and give other channels than they read."""
    return tuple(layer for layer in network.weighted if not isinstance(layer, Affine))


def widths_of(network: Network) -> tuple[int, ...]:
    """S_G: elements of the network's input, then the units of each layer that has its own, in order."""
    return (network.input.elements, *(network.shapes[layer.name].output.channels for layer in makers(network)))


def shared_widths(network: Network, share: float) -> tuple[int, ...]:
    """S_L of a share of the units of each hidden layer, rounded down, at least one; layers whose units cannot be left
    out have all of them."""
    kept = _UnitFlow(network).kept
    widths = zip((INPUT, *(layer.name for layer in makers(network))), widths_of(network), strict=True)
    # What is rounded down is not what a product of two inexact numbers happens to be below.
    return tuple(width if name in kept else max(1, int(share * width + 1e-9)) for name, width in widths)


def checked_widths(network: Network, widths: Any, projected: bool = False) -> tuple[int, ...]:
    """S_L, checked: as long as S_G, nowhere wider, and whole at both ends and where units cannot be left out; of
    samples that are ``projected`` the input may be narrower.

    Raises
    ------
    UserError
        With the first entry that may not be, and why.
    """
    whole = widths_of(network)
    if not isinstance(widths, (tuple, list)) or len(widths) != len(whole):
        given = f"{len(widths)} widths" if isinstance(widths, (tuple, list)) else described(widths)
        raise UserError(f"local widths of network {network.name!r} must be as many as its own, which are "
                        f"{', '.join(map(str, whole))}, not {given}; give one for the input and one for each of its "
                        "layers with weights")
    names = (INPUT, *(layer.name for layer in makers(network)))
    kept = _UnitFlow(network).kept
    for name, width, most in zip(names, widths, whole, strict=True):
        where = "the input" if name == INPUT else f"layer {name!r}"
        if not is_integer(width, 1, most):
            raise UserError(f"local widths of {where} must be from 1 to {most}, not {described(width)}; a local "
                            "network is nowhere wider than the global one")
        if width < most and name in kept and not (projected and name == INPUT):
            raise UserError(f"{where} {kept[name]}, and cannot have {width} of {most} units; leave it whole")
    return tuple(int(width) for width in widths)


def narrowed(network: Network, widths: Mapping[str, int]) -> Network:
    """The network with other outputs or channels of some layers, fully connected ones and convolutions, by name."""
    layers: list[Layer] = []
    for layer in network.layers:
        settings: dict[str, Any] = {"shape": None}
        if layer.name in widths:
            settings["outputs" if isinstance(layer, Dense) else "channels"] = widths[layer.name]
        layers.append(replace(layer, **settings))
    return replace(network, layers=tuple(layers))


class _UnitFlow:
    """What each layer of a network gives, by the layers whose units it is made of, and which of these stay whole."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._own = {layer.name for layer in makers(network)}
        self.blocks: dict[str, _Blocks] = {INPUT: (_Block(1, (_Channels(None, network.input.channels),)),)}
        #: Why units of a layer, or of the input, cannot be left out.
        self.kept: dict[str, str] = {INPUT: "is what samples are"}
        for layer in network.layers:
            self.blocks[layer.name] = self._given(layer)

    def _keep(self, blocks: _Blocks, why: str) -> None:
        for block in blocks:
            for channels in block.channels:
                if channels.layer is not None:
                    self.kept.setdefault(channels.layer, why)

    def _given(self, layer: Layer) -> _Blocks:
        read = [self.blocks[name] for name in layer.inputs]
        shape = self._network.shapes[layer.name].output
        if layer.is_loss:
            self._keep(read[0], "is the output")
        if layer.name in self._own:
            if not isinstance(layer, (Dense, Convolution)):
                why = f"is of kind {layer.kind!r}, of which no parts are trained"
                self.kept.setdefault(layer.name, why)
                self._keep(read[0], f"feeds layer {layer.name!r} of kind {layer.kind!r}, which reads all units")
            return (_Block(1, (_Channels(layer.name, shape.channels),)),)
        if isinstance(layer, Flatten):
            (block,), positions = read[0], self._network.output_shape(layer.inputs[0])[1:]
            return (_Block(int(np.prod(positions)), block.channels),)
        if isinstance(layer, (Add, Join)) and any(blocks != read[0] for blocks in read):
            for blocks in read:
                self._keep(blocks, f"is added up with other units in layer {layer.name!r}")
        if isinstance(layer, Concat):
            return self._joined(read)
        return read[0]

    @staticmethod
    def _joined(read: Sequence[_Blocks]) -> _Blocks:
        """Maps, and features that are no flattened maps, in one block; else block by block."""
        blocks = [block for given in read for block in given]
        if all(block.positions == 1 for block in blocks):
            return (_Block(1, tuple(channels for block in blocks for channels in block.channels)),)
        return tuple(blocks)


class LocalNetwork:
    """The local networks of some widths: one network, of which each set of units makes other parts of the global one.

    Parameters
    ----------
    network : Network
        The global one.
    widths : sequence of int
        S_L: as :func:`widths_of` has S_G.
    power : float
        Of N / K, by which weights are larger.

    Attributes
    ----------
    network : Network
        The local one.
    hidden : mapping of str to (int, int)
        Of each layer with units left out how many it has, and of how many.

    Raises
    ------
    UserError
        As :func:`checked_widths`.
    """

    def __init__(self, network: Network, widths: Sequence[int], power: float = VARIANCE) -> None:
        self.whole, self.widths, self._power = network, checked_widths(network, widths), power
        self._flow = _UnitFlow(network)
        self.hidden = {layer.name: (width, whole) for layer, width, whole in zip(
            makers(network), self.widths[1:], widths_of(network)[1:], strict=True) if width < whole}
        self.network = self._local()

    def _local(self) -> Network:
        name = f"{self.whole.name[:58]}-local" if self.hidden else self.whole.name
        return replace(narrowed(self.whole, {layer: width for layer, (width, _) in self.hidden.items()}), name=name)

    @cached_property
    def share(self) -> float:
        """The share of the global network's multiply-adds that a local one has."""
        return self.network.macs / self.whole.macs

    @property
    def words(self) -> int:
        """Words of what a local network trains."""
        return self.network.parameters

    @cached_property
    def shares(self) -> dict[str, float]:
        """The share of each global variable that a local network has, by name."""
        return {name: self.network.variables[name].elements / variable.elements
                for name, variable in self.whole.variables.items()}

    def parts(self, units: Units) -> dict[str, LocalPart]:
        """The parts of all global variables that the local network of some units has, by name.

        Parameters
        ----------
        units : mapping of str to array of int
            Of each layer of :attr:`hidden` so many different units, ascending.
        """
        return {variable.qualified(layer.name): self._part(layer, variable, units)
                for layer in self.whole.weighted for variable in self.whole.shapes[layer.name].variables}

    def _part(self, layer: Layer, variable: Variable, units: Units) -> LocalPart:
        indices, factor = [], 1.0
        for axis, size in zip(variable.axes, variable.shape, strict=True):
            if axis == OUTPUTS:
                indices.append(_indices(self._flow.blocks[layer.name], units))
            elif axis == INPUTS:
                indices.append(_indices(self._flow.blocks[layer.inputs[0]], units))
                factor = (size / len(indices[-1]))**self._power
            else:
                indices.append(np.arange(size))
        return LocalPart(tuple(indices), factor)
