"""Tensors and weights in die memory, as the host reads and writes them: gathered from and spread over dies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.executor import Executor
from plinth.lower.codes import LevelPlace
from plinth.network.parameters import Flats, KeptVectors, Parameters
from plinth.partition.groups import RING
from plinth.step import tensors
from plinth.step.owned import Block, Kept
from plinth.step.step import Step
from plinth.step.tensors import Part, Selected, WeightSlice
from plinth.step.tile_operations import ElementRates
from plinth_hw.isa.parameters import DieParameters

Floats = NDArray[np.float32]


def _grid(axes: Sequence[Selected]) -> tuple[Any, ...]:
    """Indices of each axis as one index of numpy's."""
    if all(isinstance(axis, slice) for axis in axes):
        return tuple(axes)
    return np.ix_(*(np.arange(axis.start, axis.stop) if isinstance(axis, slice) else axis for axis in axes))


@dataclass(frozen=True)
class Tensor:
    """A tensor [sample, position, channel] in die memory: for each die its part and the buffer of it."""

    samples: int
    positions: int
    channels: int
    parts: Sequence[Part]
    buffers: Sequence[Buffer]

    def gather(self, read: Callable[[int, Buffer], Floats]) -> Floats:
        """The whole tensor; of what several dies hold, the last one's."""
        whole = np.zeros((self.samples, self.positions, self.channels), dtype=np.float32)
        for die, (part, buffer) in enumerate(zip(self.parts, self.buffers, strict=True)):
            if part.words:
                whole[_grid(part.index())] = read(die, buffer).reshape(part.samples, part.positions, part.channels)
        return whole

    def spread(self, values: NDArray[Any], write: Callable[[int, Buffer, NDArray[Any]], None]) -> None:
        """Give every die its part."""
        whole = values.reshape(self.samples, self.positions, self.channels)
        for die, (part, buffer) in enumerate(zip(self.parts, self.buffers, strict=True)):
            if part.words:
                some = np.ascontiguousarray(whole[_grid(part.index())])
                write(die, buffer, some.reshape(buffer.rows, buffer.columns))


@dataclass(frozen=True)
class RowNumbers(Tensor):
    """Row numbers of an embedding [sample, position, 1] in die memory: on each die index words for its slice, whose
    first row is 0. Rows that another die holds get the numbers of spare rows behind the slice, in turn, so that adds to
    them do not wait for each other."""

    slices: Sequence[WeightSlice]

    def spread(self, values: NDArray[Any], write: Callable[[int, Buffer, NDArray[Any]], None]) -> None:
        """Give every die its part of the rows' numbers in the whole table."""
        whole = values.reshape(self.samples, self.positions)
        for die, (part, buffer, piece) in enumerate(zip(self.parts, self.buffers, self.slices, strict=True)):
            if part.words:
                numbers = whole[part.index()[0]].astype(np.int64).ravel()
                if piece.input_order is None:
                    numbers -= piece.first_input
                else:
                    rows = np.full(len(piece.input_order.order), -1)
                    rows[piece.input_index] = np.arange(piece.inputs)
                    numbers = rows[numbers]
                if piece.spare:
                    outside = (numbers < 0) | (numbers >= piece.inputs)
                    spare = piece.inputs + np.arange(len(numbers)) % piece.spare
                    numbers = np.where(outside, spare, numbers)
                write(die, buffer, numbers.astype(np.uint32).reshape(buffer.rows, buffer.columns))


@dataclass(frozen=True)
class LayerWeights:
    """What a layer trains, or gradients of it, in die memory: on each die a row of words, a matrix, then a bias."""

    #: Its variables as one.
    flats: Flats
    #: Of the whole layer: taps, channels in, channels out.
    shape: tuple[int, int, int]
    slices: Sequence[WeightSlice]
    buffers: Sequence[Buffer]
    #: Dies whose slices are parts of one sum (gradients) or copies of each other (weights).
    rings: Sequence[tuple[int, ...]]
    #: Factors on gradients of each tap, where they have been multiplied by rates of their own.
    rates: Sequence[float] = ()

    def cut(self, flat: Floats, die: int) -> Floats:
        """A die's slice of all weights and bias of the layer, flat."""
        piece = self.slices[die]
        size = self.shape[0] * self.shape[1] * self.shape[2]
        weights = flat[:size].reshape(self.shape)[self._index(piece)]
        return np.concatenate([weights.ravel(), flat[size:][piece.output_index] if piece.bias else flat[:0]])

    def _index(self, piece: WeightSlice) -> tuple[Any, ...]:
        return _grid((piece.tap_index, piece.input_index, piece.output_index))

    def join(self, values: Sequence[NDArray[np.floating]], dtype: type[np.floating]) -> NDArray[np.floating]:
        """All weights and bias, flat, of one slice from each ring."""
        size = self.shape[0] * self.shape[1] * self.shape[2]
        flat = np.zeros(size + (self.shape[2] if self.slices[0].bias else 0), dtype=dtype)
        weights = flat[:size].reshape(self.shape)
        for ring, flat_slice in zip(self.rings, values, strict=True):
            piece = self.slices[ring[0]]
            taps = flat_slice[:piece.weights].reshape(piece.taps, piece.inputs, piece.outputs)
            if self.rates:
                taps = taps / np.array(self.rates)[piece.tap_index][:, None, None]
            weights[self._index(piece)] = taps
            if piece.bias:
                flat[size:][piece.output_index] = flat_slice[piece.weights:]
        return flat


@dataclass(frozen=True)
class KeptWeights:
    """A vector beside the weights of a layer in die memory: on each die what it owns of its slice, block by block."""

    weights: LayerWeights
    blocks: Sequence[Sequence[tuple[Block, Buffer]]]

    def join(self, read: Callable[[int, Buffer], NDArray[np.floating]]) -> NDArray[np.floating]:
        """The whole vector, flat, as the weights of the layer."""
        slices = []
        for ring in self.weights.rings:
            flat = np.zeros(self.weights.buffers[ring[0]].columns)
            for die in ring:
                for block, buffer in self.blocks[die]:
                    block.view(flat)[...] = read(die, buffer)
            slices.append(flat)
        return self.weights.join(slices, np.float64)

    def spread(self, flat: NDArray[np.floating], write: Callable[[int, Buffer, Floats], None]) -> None:
        """Give every die what it owns."""
        for die, blocks in enumerate(self.blocks):
            own = self.weights.cut(flat, die)
            for block, buffer in blocks:
                write(die, buffer, block.view(own))


class _HostPlaces:
    """Where the host reads and writes what a step has."""

    def __init__(self, step: Step, at: Callable[[Buffer], Buffer]) -> None:
        self._step, self._at = step, at

    def tensor(self, given: tensors.Tensor) -> Tensor:
        """A tensor."""
        dies = range(self._step.dies)
        return Tensor(given.samples, given.positions, given.channels, [given.part(die) for die in dies],
                      [self._at(given.buffer(die)) for die in dies])

    def inputs(self) -> list[Tensor]:
        """What the network's input is given to."""
        return [self._input(number) for number in range(len(self._step.inputs))]

    def _input(self, number: int) -> Tensor:
        found, table = self.tensor(self._step.inputs[number]), self._step.tables.get(number)
        if table is None:
            return found
        return RowNumbers(found.samples, found.positions, found.channels, found.parts, found.buffers,
                          [table.slice(die) for die in range(self._step.dies)])

    def weights(self, given: tensors.Weights) -> LayerWeights:
        """Weights of a layer, or what has their shape."""
        step = self._step
        number = next(number for number, node in enumerate(step.graph.nodes)
                      if node.name == given.name.rpartition(".")[0])
        dies = range(step.dies)
        node = step.graph.nodes[number]
        return LayerWeights(Flats(node.name, node.variables), given.shape, [given.slice(die) for die in dies],
                            [self._at(given.buffer(die)) for die in dies], step.members(RING, number).members)

    def all_weights(self) -> dict[str, LayerWeights]:
        """By layer."""
        return {name: self.weights(one) for name, one in self._step.weights.items()}

    def all_gradients(self) -> dict[str, LayerWeights]:
        """By layer, with the rates that they have been multiplied by."""
        rates = {one.node.name: one.rates for one in self._step.operations if isinstance(one, ElementRates)}
        return {name: replace(self.weights(one), rates=rates.get(name, ()))
                for name, one in self._step.gradients.items()}

    def all_kept(self) -> dict[str, dict[str, KeptWeights]]:
        """What is kept beside the weights, by layer and name."""
        return {layer: {name: self._kept(self._step.weights[layer], one) for name, one in vectors.items()}
                for layer, vectors in self._step.kept.items()}

    def _kept(self, weights: tensors.Weights, kept: Kept) -> KeptWeights:
        return KeptWeights(self.weights(weights), [
            [(block, self._at(block.beside(kept.buffer(die)))) for _, block in kept.owned.blocks(die)]
            for die in range(self._step.dies)])


@dataclass(frozen=True, kw_only=True)
class HostView:
    """The tensors of a training step that the host reads and writes.

    Attributes
    ----------
    parameters : DieParameters
        Of its dies.
    gradient_scale : float
        Factor by which errors and gradients in memory are larger than the loss's own.
    weights, gradients : mapping of layer to LayerWeights
    inputs : sequence of Tensor
        What the network's input is given to: one tensor a reader, all of the same samples.
    targets, predictions : Tensor
        One-hot classes or targets, and what the network predicts.
    maps : mapping of layer to Tensor
        Outputs of ReLUs and inputs of max-pools.
    kept : mapping of layer to mapping of name to KeptWeights
        What is kept beside the weights.
    generators : sequence of Buffer
        Each die's generator of random bits, if there is one.
    constants : sequence of (Buffer, values)
        Places of constants on every die, and what they hold.
    batches : int
        Batches that lie in memory at once.
    levels : mapping of layer to sequence of LevelPlace
        Of layers whose gathers are predicted where levels stand.
    living : mapping of layer to Tensor
        Outputs of ReLUs that these follow from.
    notes : sequence of str
        What the host should know of the program.
    """

    parameters: DieParameters
    gradient_scale: float
    weights: Mapping[str, LayerWeights]
    gradients: Mapping[str, LayerWeights]
    inputs: Sequence[Tensor]
    targets: Tensor
    predictions: Tensor
    maps: Mapping[str, Tensor]
    kept: Mapping[str, Mapping[str, KeptWeights]]
    generators: Sequence[Buffer]
    constants: Sequence[tuple[Buffer, Sequence[Sequence[float]]]]
    batches: int = 1
    levels: Mapping[str, Sequence[LevelPlace]] = field(default_factory=dict)
    living: Mapping[str, Tensor] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def dies(self) -> int:
        """Dies of the array."""
        return len(self.predictions.parts)

    def load(self, executor: Executor, parameters: Parameters) -> None:
        """Give every die the constants, and its slices of all variables."""
        for buffer, constant in self.constants:
            for die in range(self.dies):
                executor.write_floats(die, buffer, np.array(constant, dtype=np.float32))
        for layer in self.weights.values():
            values = layer.flats.join(parameters)
            for die, buffer in enumerate(layer.buffers):
                if buffer.columns:
                    executor.write_floats(die, buffer, layer.cut(values, die)[None])

    def load_kept(self, executor: Executor, kept: KeptVectors) -> None:
        """Give every die what it owns of the vectors beside the weights."""
        for vectors in self.kept.values():
            for vector, place in vectors.items():
                values = {name: kept[name][vector] for name in place.weights.flats.names}
                place.spread(place.weights.flats.join(values), executor.write_floats)

    def parameters_of(self, executor: Executor) -> dict[str, NDArray[np.float32]]:
        """All variables: of every slice the copy on its ring's first die."""
        found: dict[str, NDArray[np.float32]] = {}
        for layer in self.weights.values():
            slices = [executor.read_floats(ring[0], layer.buffers[ring[0]])[0] for ring in layer.rings]
            found |= layer.flats.split(layer.join(slices, np.float32))
        return found

    def kept_of(self, executor: Executor) -> dict[str, dict[str, NDArray[np.float32]]]:
        """The vectors beside all variables: of wide numbers each half as a number."""
        found: dict[str, dict[str, NDArray[np.float32]]] = {}
        for vectors in self.kept.values():
            for vector, place in vectors.items():
                flat = place.join(executor.read_floats).astype(np.float32)
                for name, values in place.weights.flats.split(flat).items():
                    found.setdefault(name, {})[vector] = values
        return found

    def write_batch(self, executor: Executor, x: NDArray[Any], targets: NDArray[Any], place: int = 0) -> None:
        """Samples ``[sample, ...]``, and one-hot classes or targets."""
        floats, words = partial(executor.write_floats, place=place), partial(executor.write, place=place)
        for tensor in self.inputs:
            tensor.spread(x, words if isinstance(tensor, RowNumbers) else floats)
        self.targets.spread(targets, floats)


def host_view(step: Step, at: Callable[[Buffer], Buffer] = lambda buffer: buffer, *,
              living: Mapping[str, tensors.Tensor] | None = None, **settings: Any) -> dict[str, Any]:
    """The fields of :class:`HostView` of a step; ``settings`` are those that do not follow from it.

    Parameters
    ----------
    at : callable
        Where a piece of a place lies, as who reads and writes it names it.
    living : mapping of layer to tensor
        As there.
    """
    places = _HostPlaces(step, at)
    return {
        "parameters": step.parameters, "gradient_scale": step.scale, "weights": places.all_weights(),
        "gradients": places.all_gradients(), "inputs": places.inputs(), "targets": places.tensor(step.targets),
        "predictions": places.tensor(step.predictions),
        "maps": {name: places.tensor(tensor) for name, tensor in step.maps.items()}, "kept": places.all_kept(),
        "constants": [(at(one.buffer(0)), one.values) for one in step.constants],
        "generators": [] if step.generator is None else [at(step.generator.buffer(die)) for die in range(step.dies)],
        "living": {name: places.tensor(tensor) for name, tensor in (living or {}).items()}, **settings}
