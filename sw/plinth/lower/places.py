"""Weights and all else that a step has in die memory, as the host reads and writes it, as a :class:`HostView` by name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.executor import Executor, Piece
from plinth.errors import UserError, quoted
from plinth.files.documents import nearest
from plinth.lower.codes import LevelPlace
from plinth.lower.lookups import CountPlace, LookupNumbers
from plinth.lower.tensors import Floats, HostTensor, PlacedBatches, PlacedTensor, Reading, RowNumbers, read_together
from plinth.network.parameters import KeptVectors, LayerVector, Parameters, check_arrays
from plinth.partition.cuts import Integers
from plinth.partition.groups import RING
from plinth.step import tensors
from plinth.step.lookups import LookupCounts, LookupLists, Lookups
from plinth.step.owned import Kept, OwnedChunks
from plinth.step.row_lists import HostWords, RowLists
from plinth.step.step import Realised, Step
from plinth.step.tile_operations import ElementRates
from plinth.step.weights import Weights, WeightSlice
from plinth_hw.isa.formats import Fixed, Format, word_type
from plinth_hw.isa.parameters import DieParameters

#: Elements of weights that are read together, about: 64 MiB.
READ_ELEMENTS = 1 << 24


class GradientSum(NamedTuple):
    """A layer's gradient, summed over the dies of each ring, flat.

    Attributes
    ----------
    values : array
        Sums in float64, which rounds nothing of what dies have in memory.
    rounding : array
        How far a die's own sum of each element may be off these, in whichever order it adds: of N members at most
        N 2^-24 of the sum of magnitudes in FP32; in fixed point as much as the magnitudes' sum is beyond the format,
        since a partial sum may saturate.
    """

    values: NDArray[np.float64]
    rounding: NDArray[np.float64]

    def over(self, scale: float) -> "GradientSum":
        """The sum of gradients that are ``scale`` times as small."""
        return GradientSum(self.values / scale, self.rounding / scale)


def _sum_rounding(fmt: Format, magnitudes: NDArray[np.float64], members: int) -> NDArray[np.float64]:
    """How far a sum over ``members`` may be off, whose magnitudes add up to ``magnitudes``."""
    if members == 1:
        return np.zeros_like(magnitudes)
    if isinstance(fmt, Fixed):
        return np.maximum(0.0, magnitudes - fmt.most * 2.0**-fmt.fraction_bits)
    return members * 2.0**-24 * magnitudes


@dataclass(frozen=True)
class LayerWeights:
    """A layer's weights and bias, or their gradients, in die memory: on each die a row of words, matrix then bias."""

    #: Its variables as one.
    vector: LayerVector
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
        weights, bias = np.split(flat, [self._size])
        return np.concatenate([piece.taken(weights, self.shape), bias[piece.output_index] if piece.bias else bias[:0]])

    @property
    def _size(self) -> int:
        """Elements of all that is not added."""
        return sum(variable.elements for variable in self.vector.variables if not variable.added)

    def reading(self) -> Reading[Floats]:
        """A read of all weights and the bias, flat: of every slice the copy on its ring's first die."""
        return self._copy(0)

    def copies(self) -> Reading[list[Floats]]:
        """A read of all weights and the bias, flat, as often as dies hold copies of their slices."""
        readings = [self._copy(copy) for copy in range(len(self.rings[0]))]
        count = len(self.rings)
        return Reading([piece for reading in readings for piece in reading.pieces], lambda values: [
            reading.make(values[number * count:(number + 1) * count]) for number, reading in enumerate(readings)])

    def _copy(self, copy: int) -> Reading[Floats]:
        return Reading([(ring[copy], self.buffers[ring[copy]]) for ring in self.rings], lambda values: np.asarray(
            self.join([rows[0] for rows in values], np.float32), np.float32))

    def sums(self, fmt: Format) -> Reading[GradientSum]:
        """A read of the whole layer's gradient, flat: each slice summed over its ring, whose dies add in format
        ``fmt``."""
        def make(values: Sequence[Floats]) -> GradientSum:
            numbers = iter(values)
            sums, roundings = [], []
            for ring in self.rings:
                terms = [next(numbers)[0].astype(np.float64) for _ in ring]
                sums.append(np.sum(terms, axis=0))
                roundings.append(_sum_rounding(fmt, np.sum(np.abs(terms), axis=0), len(ring)))
            return GradientSum(*(np.asarray(self.join(each, np.float64), np.float64) for each in (sums, roundings)))

        return Reading([(die, self.buffers[die]) for ring in self.rings for die in ring], make)

    def join(self, values: Sequence[NDArray[np.floating]], dtype: type[np.floating]) -> NDArray[np.floating]:
        """Assemble all weights and the bias, flat, of one slice from each ring."""
        flat, rates = np.zeros(self.vector.elements, dtype=dtype), np.array(self.rates) if self.rates else None
        weights, bias = np.split(flat, [self._size])
        for ring, flat_slice in zip(self.rings, values, strict=True):
            piece = self.slices[ring[0]]
            piece.put(weights, self.shape, flat_slice[:piece.weights], rates)
            if piece.bias:
                bias[piece.output_index] = flat_slice[piece.weights:]
        return flat


@dataclass(frozen=True)
class KeptWeights:
    """An optimiser state, or low halves, beside a layer's weights in die memory: on each die the blocks it owns."""

    weights: LayerWeights
    blocks: Sequence[Sequence[tuple[OwnedChunks, Buffer]]]

    def pieces(self) -> list[Piece]:
        """The regions of memory that hold the vector, die by die."""
        return [(die, buffer) for die, blocks in enumerate(self.blocks) for _, buffer in blocks]

    def reading(self) -> Reading[NDArray[np.float64]]:
        """A read of the whole vector, flat, in the order of the layer's weights."""
        owned = [(ring, die, block, buffer) for ring in self.weights.rings for die in ring
                 for block, buffer in self.blocks[die]]

        def make(values: Sequence[Floats]) -> NDArray[np.float64]:
            slices = {ring: np.zeros(self.weights.buffers[ring[0]].columns) for ring in self.weights.rings}
            for (ring, _, block, _), numbers in zip(owned, values, strict=True):
                block.view(slices[ring])[...] = numbers
            return np.asarray(self.weights.join(list(slices.values()), np.float64), np.float64)

        return Reading([(die, buffer) for _, die, _, buffer in owned], make)

    def spread(self, flat: NDArray[np.floating], executor: Executor) -> None:
        """Write the blocks that it owns into each die of this process."""
        for die in executor.numbers:
            own = self.weights.cut(flat, die)
            for block, buffer in self.blocks[die]:
                executor.write_floats(die, buffer, block.view(own))


class _HostPlaces:
    """Where the host reads and writes what a step has."""

    def __init__(self, step: Step, at: Callable[[Buffer], Buffer],
                 counts: Mapping[str, Sequence[CountPlace]] | None = None) -> None:
        self._step, self._at, self._counts = step, at, counts or {}

    def tensor(self, tensor: tensors.Tensor) -> PlacedTensor:
        """A tensor."""
        dies = range(self._step.dies)
        rows, columns = tensor.samples, tensor.channels
        samples, channels = (columns, rows) if tensor.by_channel else (rows, columns)
        return PlacedTensor(tensor.name, samples, tensor.positions, channels, [tensor.part(die) for die in dies],
                            [self._at(tensor.buffer(die)) for die in dies], tensor.by_channel)

    def batches(self, each: Sequence[tensors.Tensor]) -> HostTensor:
        """A tensor of all micro-batches."""
        placed = [self.tensor(tensor) for tensor in each]
        return placed[0] if len(placed) == 1 else PlacedBatches(placed)

    def inputs(self) -> list[HostTensor]:
        """What the network's input is given to."""
        return [self._input(number, each) for number, each in enumerate(self._step.inputs.values())]

    def _input(self, number: int, each: Sequence[tensors.Tensor]) -> HostTensor:
        tensor, table = self.batches(each), self._step.tables.get(number)
        if not isinstance(tensor, PlacedTensor):
            return tensor
        lookups = self._step.lookups.get(number)
        if lookups is not None:
            return self._lookups(tensor, lookups)
        if table is None:
            return tensor
        return RowNumbers(tensor.name, tensor.samples, tensor.positions, tensor.channels, tensor.parts, tensor.buffers,
                          slices=[table.slice(die) for die in range(self._step.dies)], rows=table.shape[1])

    def _lookups(self, numbers: PlacedTensor, lookups: Lookups) -> LookupNumbers:
        dies, lists = range(self._step.dies), LookupLists(f"{lookups.layer}.lists", lookups)
        counts = LookupCounts(f"{lookups.layer}.counts", self._step.dies)
        return LookupNumbers(
            numbers.name, numbers.samples, numbers.positions, numbers.channels, numbers.parts, numbers.buffers,
            lookups=lookups, counts=[self._at(counts.buffer(die)) for die in dies],
            lists=[{worker: self._at(lists.of(die, worker)) for worker in lookups.workers(die)} for die in dies],
            tasks=self._counts.get(lookups.layer, ()))

    def weights(self, weights: Weights, summed: bool = False) -> LayerWeights:
        """Weights of a layer, or what has their shape; ``summed``: parts of sums, where others are copies."""
        step = self._step
        number = next(number for number, node in enumerate(step.graph.nodes)
                      if node.name == weights.name.rpartition(".")[0])
        dies = range(step.dies)
        node = step.graph.nodes[number]
        return LayerWeights(LayerVector(node.name, node.variables), weights.shape, [weights.slice(die) for die in dies],
                            [self._at(weights.buffer(die)) for die in dies],
                            (step.members(RING, number) if summed else step.sharding.replicas(number)).members)

    def all_weights(self) -> dict[str, LayerWeights]:
        """The weights of each layer in die memory, by the layer's name."""
        return {name: self.weights(weights) for name, weights in self._step.weights.items()}

    def all_gradients(self) -> dict[str, LayerWeights]:
        """The gradients of each layer in die memory, by the layer's name, with rates that they are multiplied by."""
        rates = {operation.node.name: operation.rates for operation in self._step.operations_of(ElementRates)}
        return {name: replace(self.weights(gradients, summed=True), rates=rates.get(name, ()))
                for name, gradients in self._step.gradients.items()}

    def all_kept(self) -> dict[str, dict[str, KeptWeights]]:
        """What is kept beside the weights, by layer and name."""
        return {layer: {name: self._kept(self._step.weights[layer], vector) for name, vector in vectors.items()}
                for layer, vectors in self._step.kept.items()}

    def _kept(self, weights: Weights, kept: Kept) -> KeptWeights:
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
    outputs : mapping of layer to Tensor
        Outputs of layers, which memory holds until the next step; of the loss what the network predicts. A layer whose
        output the activation behind it replaces has none, nor has one whose sum the loss finishes. Behind a predicted
        gather those elements are approximate that a max-pool then drops.
    kept : mapping of layer to mapping of name to KeptWeights
        What is kept beside the weights.
    generators : sequence of Buffer
        Each die's generator of random bits, if there is one.
    constants : sequence of (Buffer, values)
        Places of constants on every die, and what they hold.
    host_words : sequence of (sequence of Buffer, HostWords)
        Places of what is written once, on each die other words: lists of row numbers, masks.
    batches : int
        Batches that lie in memory at once.
    levels : mapping of layer to sequence of LevelPlace
        Of layers whose gathers are predicted where levels stand.
    living : mapping of layer to Tensor
        Outputs of ReLUs that these follow from.
    notes : sequence of str
        What the host should know of the program.
    realised : mapping of (Engine, str) to definition
        What tasks move between dies, by their names up to a bracket.
    """

    parameters: DieParameters
    gradient_scale: float
    weights: Mapping[str, LayerWeights]
    gradients: Mapping[str, LayerWeights]
    inputs: Sequence[HostTensor]
    targets: HostTensor
    predictions: HostTensor
    maps: Mapping[str, HostTensor]
    kept: Mapping[str, Mapping[str, KeptWeights]]
    generators: Sequence[Buffer]
    constants: Sequence[tuple[Buffer, Sequence[Sequence[float]]]]
    host_words: Sequence[tuple[Sequence[Buffer], HostWords]] = ()
    batches: int = 1
    levels: Mapping[str, Sequence[LevelPlace]] = field(default_factory=dict)
    living: Mapping[str, HostTensor] = field(default_factory=dict)
    notes: Sequence[str] = ()
    realised: Realised = field(default_factory=dict)
    outputs: Mapping[str, HostTensor] = field(default_factory=dict)

    @property
    def dies(self) -> int:
        """Number of dies of the array."""
        return len(self.predictions.parts)

    def load(self, executor: Executor, parameters: Parameters) -> None:
        """Give every die of this process the constants, and its slices of all variables.

        Raises
        ------
        UserError
            If the parameters are not those of all variables, in their shapes.
        """
        check_arrays(parameters, [layer.vector for layer in self.weights.values()])
        for die in executor.numbers:
            for buffer, constant in self.constants:
                executor.write_floats(die, buffer, np.array(constant, dtype=np.float32))
            for buffers, words in self.host_words:
                if buffers[die].columns:
                    executor.write(die, buffers[die], words.words(die)[None])
        for layer in self.weights.values():
            values = layer.vector.join(parameters)
            for die in executor.numbers:
                if layer.buffers[die].columns:
                    executor.write_floats(die, layer.buffers[die], layer.cut(values, die)[None])

    def load_kept(self, executor: Executor, kept: KeptVectors) -> None:
        """Give every die of this process what it owns of the vectors beside the weights.

        Raises
        ------
        UserError
            If a vector of a variable is missing, or has another shape than the variable.
        """
        for layer, vectors in self.kept.items():
            for vector, place in vectors.items():
                for variable in self.weights[layer].vector.variables:
                    name = variable.qualified(layer)
                    by_vector = kept.get(name, {})
                    shape = list(np.shape(by_vector[vector])) if vector in by_vector else None
                    if shape != list(variable.shape):
                        there = "missing" if shape is None else f"of shape {shape}"
                        raise UserError(f"vector {vector!r} of variable {name!r} is {there}; give an array of shape "
                                        f"{list(variable.shape)}")
                values = {name: kept[name][vector] for name in place.weights.vector.names}
                place.spread(place.weights.vector.join(values), executor)

    def write_batch(self, executor: Executor, x: NDArray[Any], targets: NDArray[Any], place: int = 0) -> None:
        """Write a batch into the dies of this process: samples ``[sample, ...]``, and one-hot classes or targets.

        Raises
        ------
        UserError
            If they are no real numbers, or not of the shapes of the network's input and output and of the step's
            batch; if rows of a table are asked for that it does not have; if there is no such place.
        """
        if not 0 <= place < self.batches:
            raise UserError(f"there is no place {place} of a batch; give one from 0 to {self.batches - 1}")
        for tensor in self.inputs:
            tensor.spread(x, executor, place)
        self.targets.spread(targets, executor, place)

    def rows_of(self, x: NDArray[Any]) -> dict[str, Integers]:
        """For each layer whose rows move one by one, how many of a batch's rows each owner (row) has for each worker
        (column).

        Raises
        ------
        UserError
            As :meth:`write_batch`.
        """
        return {tensor.moved.layer: tensor.rows(x) for tensor in self.inputs if isinstance(tensor, LookupNumbers)}

    def row_words(self, rows: Mapping[str, Integers]) -> int:
        """Words that dies send for so many rows from each owner to each worker, by layer, and for their gradients."""
        return sum(tensor.moved.width * tensor.moved.traffic.moved(rows[tensor.moved.layer])
                   for tensor in self.inputs if isinstance(tensor, LookupNumbers))

    def expected_rows(self) -> dict[str, Integers]:
        """:meth:`rows_of` a batch as predictions take it."""
        return {tensor.moved.layer: tensor.moved.traffic.expected for tensor in self.inputs
                if isinstance(tensor, LookupNumbers)}

    def write_generators(self, executor: Executor, states: Sequence[int]) -> None:
        """Give every die of this process the state of its generator of random bits, if there are any."""
        for die in executor.numbers if self.generators else ():
            words = np.array([states[die]], dtype=np.uint32).view(word_type(self.parameters.memory_format))
            executor.write(die, self.generators[die], words[None])

    # What follows reads of all dies, each with one request, or one for so many elements, and is collective.

    def parameters_of(self, executor: Executor) -> dict[str, Floats]:
        """Read all variables by name: of every slice the copy on its ring's first die."""
        return dict(self.each_parameter(executor))

    def each_parameter(self, executor: Executor) -> Iterator[tuple[str, Floats]]:
        """Read variables one after the other, so that no more than :data:`READ_ELEMENTS` or one layer need be held."""
        for layer, (flat,) in self._each(executor, {name: [weights] for name, weights in self.weights.items()}):
            yield from self.weights[layer].vector.split(flat).items()

    def each_kept(self, executor: Executor) -> Iterator[tuple[str, str, Floats]]:
        """Read the vectors beside variables, of wide numbers each half as a number, one after the other like these:
        the variable's name, the vector's, and its values."""
        for layer, flats in self._each_kept_flats(executor):
            split = self.weights[layer].vector.split
            of_vectors = {vector: split(flat.astype(np.float32)) for vector, flat in flats.items()}
            for name in self.weights[layer].vector.names:
                yield from ((name, vector, values[name]) for vector, values in of_vectors.items())

    def _each_kept_flats(self, executor: Executor) -> Iterator[tuple[str, dict[str, NDArray[np.float64]]]]:
        """Read the vectors beside each layer's variables as one vector, layer by layer, by their names."""
        for layer, flats in self._each(executor, {name: list(vectors.values()) for name, vectors in self.kept.items()}):
            yield layer, dict(zip(self.kept[layer], flats, strict=True))

    def _each(self, executor: Executor, vectors: Mapping[str, Sequence[LayerWeights | KeptWeights]]
              ) -> Iterator[tuple[str, list[NDArray[Any]]]]:
        """Read vectors of layers as whole ones, layer by layer, many of them with one request."""
        elements = [self.weights[layer].vector.elements * len(places) for layer, places in vectors.items()]
        group = np.cumsum(elements) // READ_ELEMENTS
        for _, layers in groupby(zip(group, vectors, strict=True), key=itemgetter(0)):
            names = [name for _, name in layers]
            readings: dict[tuple[str, int], Reading[Any]] = {
                (name, number): place.reading() for name in names for number, place in enumerate(vectors[name])}
            flats = read_together(executor, readings)
            for name in names:
                yield name, [flats.pop((name, number)) for number in range(len(vectors[name]))]

    def outputs_of(self, executor: Executor, layers: Sequence[str]) -> dict[str, Floats]:
        """Read the outputs ``[sample, position, channel]`` of layers in the last step, by name.

        Raises
        ------
        UserError
            If there is no such layer, or none whose output memory holds.
        """
        for name in layers:
            if name not in self.outputs:
                raise UserError(f"memory holds no output of a layer {quoted(str(name))}; "
                                f"{nearest(str(name), self.outputs)}")
        return read_together(executor, {name: self.outputs[name].reading() for name in layers})

    def copies_of(self, executor: Executor) -> dict[str, list[Floats]]:
        """Read the variables of each layer as one vector, as often as dies hold copies of their slices."""
        return read_together(executor, {name: weights.copies() for name, weights in self.weights.items()})

    def gradients_of(self, executor: Executor) -> dict[str, GradientSum]:
        """Read the loss's own gradients of each layer's variables as one vector: of every slice the sum over its
        ring."""
        fmt = self.parameters.memory_format
        sums = read_together(executor, {name: gradients.sums(fmt) for name, gradients in self.gradients.items()})
        return {name: gradient_sum.over(self.gradient_scale) for name, gradient_sum in sums.items()}

    def kept_of(self, executor: Executor) -> dict[str, dict[str, Floats]]:
        """Read the vectors beside all variables, by the variable's name."""
        by_variable: dict[str, dict[str, Floats]] = {}
        for name, vector, values in self.each_kept(executor):
            by_variable.setdefault(name, {})[vector] = values
        return by_variable

    def kept_flats_of(self, executor: Executor) -> dict[str, dict[str, NDArray[np.float64]]]:
        """Read the vectors beside each layer's variables as one vector, by layer and name."""
        return dict(self._each_kept_flats(executor))

    def maps_of(self, executor: Executor) -> dict[str, Floats]:
        """Read the maps that decide kinks, by layer."""
        return read_together(executor, {name: tensor.reading() for name, tensor in self.maps.items()})

    def generators_of(self, executor: Executor) -> tuple[int, ...]:
        """Read the states of the dies' generators of random bits, if they have any."""
        return tuple(int(np.ascontiguousarray(words[0]).view(np.uint32)[0])
                     for words in executor.collect(list(enumerate(self.generators)))) if self.generators else ()

    def state_of(self, executor: Executor) -> list[NDArray[Any]]:
        """Read the words of all that a step hands on to the next: weights on every die, what is kept beside them,
        generators."""
        return executor.collect([(die, buffer) for die, buffer in (
            *(piece for layer in self.weights.values() for piece in enumerate(layer.buffers)),
            *(piece for vectors in self.kept.values() for kept_weights in vectors.values()
              for piece in kept_weights.pieces()),
            *enumerate(self.generators)) if buffer.columns])


def host_view(step: Step, at: Callable[[Buffer], Buffer] = lambda buffer: buffer, *,
              living: Mapping[str, Sequence[tensors.Tensor]] | None = None, lists: bool = True,
              counts: Mapping[str, Sequence[CountPlace]] | None = None, **settings: Any
              ) -> dict[str, Any]:
    """The fields of :class:`HostView` of a step; ``settings`` are those that do not follow from it.

    Parameters
    ----------
    at : callable
        Where a piece of a place lies, as who reads and writes it names it.
    living : mapping of layer to tensor
        As there.
    lists : bool
        Whether the host writes lists of row numbers that follow from what dies have.
    counts : mapping of layer to sequence of CountPlace
        Of embeddings whose tables servers own the tasks that say how many rows they move.
    """
    places = _HostPlaces(step, at, counts)
    return {
        "parameters": step.parameters, "gradient_scale": step.scale, "weights": places.all_weights(),
        "gradients": places.all_gradients(), "inputs": places.inputs(), "targets": places.batches(step.targets),
        "predictions": places.batches(step.predictions),
        "maps": {name: places.batches(each) for name, each in step.maps.items()}, "kept": places.all_kept(),
        "constants": [(at(constant.buffer(0)), constant.values) for constant in step.constants],
        "host_words": [([at(words.buffer(die)) for die in range(step.dies)], words) for words in step.host_words
                       if lists or not isinstance(words, RowLists)],
        "generators": [] if step.generator is None else [at(step.generator.buffer(die)) for die in range(step.dies)],
        "living": {name: places.batches(each) for name, each in (living or {}).items()},
        "realised": step.realised(), "outputs": {name: places.batches(each) for name, each in step.outputs.items()},
        **settings}
