"""Rows of other dies behind a die's own ones: what products of sparse layers read in numpy.

On dies an exchange copies all rows that a sparse layer reads into a tensor of their own, those that the die has itself
among them. In numpy the place of the map that they are rows of has room behind its last row for rows of other dies, a
*halo*, and products read rows of both by their numbers::

    rows of the map: 0 .. n - 1 | rows of the halo: n .. n + h - 1, in the order in which the tensor has them

So a die's own rows are never copied, and a message whose rows are neighbours in the halo is received there. It may come
at any time of a step: what reads a halo is done before the next step posts its receives.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.machine.block_cost import is_run
from plinth.partition.cuts import Integers
from plinth.step.between import Exchange
from plinth.step.layers.sparse import SparseProducts
from plinth.step.operations import Operation, entry_of
from plinth.step.row_lists import ExchangeLists
from plinth.step.slots import Slot
from plinth.step.step import Step
from plinth.step.tasks import BPROP, FPROP, UPDATE, TileCopy


class DieHalo(NamedTuple):
    """The halo of a die.

    Attributes
    ----------
    own : array of bool
        For each row of the tensor that products read, whether the die has it itself: ``[rows]``.
    numbers : array of int
        The number of each of them among the rows of the map and the halo: ``[rows]``.
    source, halo, rows : Buffer
        The map; the halo; all rows from the map's first to the halo's last.
    """

    own: NDArray[np.bool_]
    numbers: Integers
    source: Buffer
    halo: Buffer
    rows: Buffer


class Halo:
    """A halo in place of the target of an exchange, on the dies of a process.

    Parameters
    ----------
    exchange : Exchange
        Of rows of a map by their numbers, all samples of each.
    dies : sequence of int
        Of the process.
    before : dict of int to int
        Rows of earlier halos behind the same map, by die.
    """

    def __init__(self, exchange: Exchange, dies: Sequence[int], before: dict[int, int]) -> None:
        self.exchange = exchange
        #: By die of the process.
        self.dies = {die: self._of(die, before.get(die, 0)) for die in dies}

    def _of(self, die: int, before: int) -> DieHalo:
        source, (rows, places) = self.exchange.source.buffer(die), _lists(self.exchange).meeting(die, die)
        own = np.zeros(self.exchange.targets[0].part(die).samples, np.bool_)
        own[places] = True
        first, count = source.rows + before, int(np.count_nonzero(~own))
        numbers = first + np.cumsum(~own) - 1
        numbers[places] = rows
        columns, stride = source.columns, source.stride
        return DieHalo(own, numbers, source,
                       source.part(f"{source.name}.halo", first * stride, count, columns, stride),
                       source.part(f"{source.name}.extended", 0, first + count, columns, stride))

    def works(self, die: int) -> Iterator[TileCopy]:
        """What a die sends to others, in the order of the exchange; to dies of the process into their halos."""
        for other in self.exchange.peers(die)[1:]:
            for task in self.exchange.tiles(die, other):
                work = cast("TileCopy", task.work)
                if other in self.dies:
                    _, places = _lists(self.exchange).meeting(die, other)
                    here = self.dies[other]
                    work = replace(work, target=here.rows.lines(int(here.numbers[places[0]]), len(places)))
                yield work


def halos(step: Step, operations: Sequence[Operation], dies: Sequence[int]) -> dict[str, Halo]:
    """The halos on the dies of a process, by the name of the tensor that products read, which is not used then: of
    exchanges that give whole rows, each once, one sender's as neighbours, to a tensor that only products over sparse
    layers read, of maps that nothing writes afterwards.

    Parameters
    ----------
    step : Step
    operations : sequence of Operation
        Those of the step, in the order in which they are done.
    dies : sequence of int
        Of the process.
    """
    numbers = {id(operation): number for number, operation in enumerate(operations)}
    found = {exchange.targets[0].name: (numbers[id(exchange)], exchange) for exchange in step.operations_of(Exchange)
             if _whole_rows(exchange, dies)}
    if not found:
        return {}
    for name in held_places(step, dies):
        found.pop(name, None)
    for number, operation in enumerate(operations):
        used, written = _used(operation, dies)
        for name in used & found.keys():
            if found[name][1] is not operation:
                del found[name]
        for name in [name for name, (before, exchange) in found.items()
                     if exchange.source.name in written and number > before]:
            del found[name]
    halos: dict[str, Halo] = {}
    before: dict[str, dict[int, int]] = defaultdict(dict)
    for name, (_, exchange) in found.items():
        halos[name] = halo = Halo(exchange, dies, before[exchange.source.name])
        for die, there in halo.dies.items():
            before[exchange.source.name][die] = there.rows.rows - there.source.rows
    return halos


def held_places(step: Step, dies: Sequence[int]) -> set[str]:
    """Names of the places that the host reads or writes, or that hold zeros from the first step on."""
    tensors = (*step.inputs.values(), step.targets, step.predictions, *step.outputs.values(), *step.maps.values())
    return {tensor.name for each in tensors for tensor in each} | {
        clear.place.buffer(die).place for clear in step.zeros for die in dies}


def _lists(exchange: Exchange) -> ExchangeLists:
    assert exchange.lists is not None
    return exchange.lists


def _whole_rows(exchange: Exchange, dies: Sequence[int]) -> bool:
    """Whether an exchange gives dies of a process whole rows of their tensors, each once, one sender's as neighbours.
    """
    if exchange.lists is None or exchange.slots is not None or len(exchange.targets) > 1 or not exchange.own:
        return False
    source, target = exchange.source, exchange.targets[0]
    if isinstance(source, Slot) or isinstance(target, Slot) or not source.by_channel:
        return False
    for die in dies:
        part, given = target.part(die), []
        for sender in exchange.peers(die):
            rows, places = exchange.lists.meeting(sender, die)
            if not len(rows):
                continue
            theirs = source.part(sender)
            if theirs.shared_channels(part) != (0, 0, theirs.channels) or theirs.channels != part.channels:
                return False
            if sender != die and not is_run(places):
                return False
            given.append(places)
        if not np.array_equal(np.sort(np.concatenate([np.zeros(0, np.int32), *given])), np.arange(part.samples)):
            return False
    return True


def _used(operation: Operation, dies: Sequence[int]) -> tuple[set[str], set[str]]:
    """Places that an operation reads or writes, but for inputs of products over sparse layers; and those that it
    writes."""
    used = entry_of(USED, operation)
    if used is not None:
        return used(operation)
    items = [item for die in dies for item in operation.tasks(die, 1)]
    read, written = ({buffer.place for item in items for buffer in buffers(item)}
                     for buffers in (lambda item: item.reads, lambda item: item.writes))
    return read | written, written


def _sparse(products: SparseProducts) -> tuple[set[str], set[str]]:
    x, z, weights = products.x.side.tensor.name, products.z.side.tensor.name, products.weights.name
    written = {{FPROP: z, BPROP: x, UPDATE: weights}[products.direction]}
    return written | {z, weights}, written


#: What :func:`_used` says of kinds of operations whose tasks do not say it.
USED: dict[type, Callable[[Any], tuple[set[str], set[str]]]] = {SparseProducts: _sparse}
