"""Tensors in die memory, as the host reads and writes them: gathered from and spread over dies.

The host writes what the dies of its process hold, and reads of all dies together, whatever process they live in: who
reads says which pieces of which dies, and what is made of their numbers, as a :class:`Reading`; so that one request to
the executor serves for as many tensors as are wanted at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.executor import Executor, Piece
from plinth.errors import UserError
from plinth.step.tensors import Part, grid
from plinth.step.weights import WeightSlice

Floats = NDArray[np.float32]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Reading(Generic[Value]):
    """A read of die memories: pieces to fetch, and what makes a value of the numbers ``[rows, columns]`` of each."""

    pieces: Sequence[Piece]
    make: Callable[[Sequence[Floats]], Value]

    def of(self, executor: Executor) -> Value:
        """Fetch the pieces and make the value of what dies hold now; collective."""
        return self.make(executor.collect_floats(self.pieces))


def read_together(executor: Executor, readings: Mapping[Key, Reading[Value]]) -> dict[Key, Value]:
    """Do several reads, given by name, with one request to the executor; collective."""
    values: Iterator[Floats] = iter(executor.collect_floats([
        piece for reading in readings.values() for piece in reading.pieces]))
    return {name: reading.make([next(values) for _ in reading.pieces]) for name, reading in readings.items()}


def _shaped(name: str, values: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """The array ``[shape[0], ...]`` of as many elements as a shape has, in that shape.

    Raises
    ------
    UserError
        If it is no array of real numbers, or of another shape.
    """
    try:
        array = np.asarray(values)
        there = f"{array.dtype} {list(array.shape)}"
    except ValueError:
        array, there = np.empty(0, object), "rows of different lengths"
    if array.dtype.kind not in "biuf" or array.shape[:1] != shape[:1] or array.size != prod(shape):
        raise UserError(f"{name} must be real numbers of shape {list(shape)}, not {there}")
    return array.reshape(shape)


class HostTensor(ABC):
    """A tensor [sample, position, channel] in die memory, as the host reads and writes it."""

    #: Of a step.
    samples: int
    #: For each die its part; of several micro-batches that of the first one.
    parts: Sequence[Part]

    @abstractmethod
    def reading(self) -> Reading[Floats]:
        """A read of the whole tensor; of elements that several dies hold, the last one's."""

    def gather(self, executor: Executor) -> Floats:
        """Read the whole tensor as dies hold it now; collective."""
        return self.reading().of(executor)

    @abstractmethod
    def spread(self, values: NDArray[Any], executor: Executor, place: int = 0) -> None:
        """Write its part of the tensor into each die of this process.

        Raises
        ------
        UserError
            If the values are no real numbers ``[samples, ...]``, as many as the tensor has.
        """


@dataclass(frozen=True)
class PlacedTensor(HostTensor):
    """A tensor of a step, or of a micro-batch: for each die its part and the buffer of it."""

    name: str
    samples: int
    positions: int
    channels: int
    parts: Sequence[Part]
    buffers: Sequence[Buffer]
    #: Rows of dies are channels.
    by_channel: bool = False

    def _in_memory(self, whole: NDArray[Any]) -> NDArray[Any]:
        """A view of the tensor whose axes are as in the dies' memory."""
        return whole.swapaxes(0, 2) if self.by_channel else whole

    def reading(self) -> Reading[Floats]:
        held = [(die, part) for die, part in enumerate(self.parts) if part.words]

        def make(values: Sequence[Floats]) -> Floats:
            whole = np.zeros((self.samples, self.positions, self.channels), dtype=np.float32)
            for (_, part), numbers in zip(held, values, strict=True):
                self._in_memory(whole)[grid(part.index())] = numbers.reshape(part.samples, part.positions,
                                                                             part.channels)
            return whole

        return Reading([(die, self.buffers[die]) for die, _ in held], make)

    def spread(self, values: NDArray[Any], executor: Executor, place: int = 0) -> None:
        whole = self._in_memory(_shaped(self.name, values, (self.samples, self.positions, self.channels)))
        for die in executor.numbers:
            part, buffer = self.parts[die], self.buffers[die]
            if part.words:
                some = np.ascontiguousarray(whole[grid(part.index())])
                executor.write_floats(die, buffer, some.reshape(buffer.rows, buffer.columns), place)


class PlacedBatches(HostTensor):
    """A tensor of several micro-batches, each of which has a place.

    Parameters
    ----------
    each : sequence of PlacedTensor
        In their order.
    """

    def __init__(self, each: Sequence[PlacedTensor]) -> None:
        self.each = each
        self.samples, self.parts = sum(tensor.samples for tensor in each), each[0].parts

    def reading(self) -> Reading[Floats]:
        readings = [tensor.reading() for tensor in self.each]

        def make(values: Sequence[Floats]) -> Floats:
            rest = iter(values)
            return np.concatenate([reading.make([next(rest) for _ in reading.pieces]) for reading in readings])

        return Reading([piece for reading in readings for piece in reading.pieces], make)

    def spread(self, values: NDArray[Any], executor: Executor, place: int = 0) -> None:
        first = self.each[0]
        whole = _shaped(first.name, values, (self.samples, first.positions, first.channels))
        for tensor, some in zip(self.each, np.split(whole, len(self.each)), strict=True):
            tensor.spread(some, executor, place)


def row_numbers(name: str, values: Any, shape: tuple[int, int], rows: int) -> NDArray[Any]:
    """Row numbers of a table of so many rows, in a shape.

    Raises
    ------
    UserError
        If they are no real numbers of that shape, or the table has no such row.
    """
    whole = _shaped(name, values, shape)
    odd = (whole < 0) | (whole >= rows) | (whole != np.floor(whole))
    if odd.any():
        sample, position = np.argwhere(odd)[0].tolist()
        raise UserError(f"{name} must be row numbers from 0 to {rows - 1}, not {whole[sample, position]}, which stands "
                        f"at position {position} of sample {sample} of the batch")
    return whole


@dataclass(frozen=True)
class RowNumbers(PlacedTensor):
    """Row numbers of an embedding [sample, position, 1] in die memory: on each die index words for its slice, whose
    first row is 0. Rows that another die holds get the numbers of spare rows behind the slice, in turn, so that adds to
    them do not wait for each other."""

    slices: Sequence[WeightSlice] = ()
    #: Of the whole table.
    rows: int = 0

    def spread(self, values: NDArray[Any], executor: Executor, place: int = 0) -> None:
        """Write its part of the row numbers, which are those of the whole table, into each die of this process.

        Raises
        ------
        UserError
            If they are not as many as the tensor has, or the table has no such row.
        """
        whole = row_numbers(self.name, values, (self.samples, self.positions), self.rows)
        for die in executor.numbers:
            part, buffer, piece = self.parts[die], self.buffers[die], self.slices[die]
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
                executor.write(die, buffer, numbers.astype(np.uint32).reshape(buffer.rows, buffer.columns), place)
