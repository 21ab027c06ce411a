"""Where places of a step lie in a process's memory: those that are never needed at the same time lie in one another's.

Dies have a place for everything, as no task of a step may write what another one still reads. In numpy operations are
done in their order, so that maps of sparse layers that are neither read by the host nor sent by other processes need
memory only from the operation that writes them to the last one that reads them: of products and errors that is one
layer's in place of all.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from plinth.buffers import Buffer
from plinth.runtime.halos import Halo, halos, held_places
from plinth.runtime.order import numpy_order
from plinth.step.between import Exchange
from plinth.step.layers.sparse import GatheredRows, SparseProducts
from plinth.step.operations import Operation, entry_of
from plinth.step.row_lists import RowLists
from plinth.step.slots import Slots
from plinth.step.step import Step
from plinth.step.sums import Sum
from plinth.step.tensors import Place, Tensor

#: Words that places begin at a multiple of: a page.
PAGE = 1024


def touched(operation: Operation, die: int) -> Iterator[Buffer]:
    """What an operation reads and writes on a die in numpy."""
    buffers = entry_of(TOUCHED, operation)
    if buffers is not None:
        yield from buffers(operation, die)
        return
    for item in operation.tasks(die, 1):
        yield from (*item.reads, *item.writes)


def _sparse(products: SparseProducts, die: int) -> tuple[Buffer, ...]:
    """All rows: a task that stands for all blocks names those of the first one."""
    return (products.x.side.tensor.buffer(die), products.z.side.tensor.buffer(die), products.weights.buffer(die))


#: What operations touch on a die, of those kinds whose tasks do not say all of it.
TOUCHED: dict[type, Callable[[Any, int], tuple[Buffer, ...]]] = {SparseProducts: _sparse}


def summed_slots(step: Step) -> dict[str, tuple[Exchange, Sum]]:
    """By the slots' place the exchanges of rows by their numbers into slots that one sum alone reads, and that sum."""
    exchanges = {exchange.targets.name: exchange for exchange in step.operations_of(Exchange)
                 if exchange.lists is not None and exchange.slots is not None and isinstance(exchange.targets, Slots)}
    return {total.sources.name: (exchanges[total.sources.name], total) for total in step.operations_of(Sum)
            if isinstance(total.sources, Slots) and total.keep == 1 and total.sources.name in exchanges}


class _Life(NamedTuple):
    """The first and the last operation that touches a place."""

    first: int
    last: int


class Overlay:
    """Where places lie, in words, on every die of a process.

    Parameters
    ----------
    step : Step
    dies : sequence of int
        Of the process.

    Attributes
    ----------
    shared : dict of str to int
        Where places of a memory that several take turns in begin, by name.
    shared_words : int
        Words of that memory.
    separate : list of Place
        Places that have memory of their own.
    operations : list of Operation
        Those of the step, in numpy's order.
    halos : dict of str to Halo
        Rows of other dies behind a map's own ones, by the name of the tensor that is not used then.
    """

    def __init__(self, step: Step, dies: Sequence[int]) -> None:
        self.operations = numpy_order(step)
        self.halos: dict[str, Halo] = halos(step, self.operations, dies)
        self._skipped = summed_slots(step).keys() | self.halos.keys()
        #: Words of halos behind a place, by die.
        self._behind: dict[str, dict[int, int]] = defaultdict(dict)
        for halo in self.halos.values():
            for die, there in halo.dies.items():
                self._behind[halo.exchange.source.name][die] = there.rows.words - there.source.words
        lives = _lives(step, self.operations, dies, self._behind)
        places = {place.name: place for place in step.places}
        self.shared: dict[str, int] = {}
        self.shared_words = 0
        placed: list[tuple[_Life, int, int]] = []
        # Large ones first: small ones fit between them.
        for name in sorted(lives, key=lambda name: (-places[name].words, name)):
            words, life = -(-max(1, places[name].words) // PAGE) * PAGE, lives[name]
            first = 0
            for _, begin, end in sorted((other for other in placed if other[0].first <= life.last
                                         and life.first <= other[0].last), key=lambda other: other[1]):
                if first + words <= begin:
                    break
                first = max(first, end)
            placed.append((life, first, first + words))
            self.shared[name] = first
            self.shared_words = max(self.shared_words, first + words)
        self.separate = [place for place in step.places if place.name not in self.shared]

    def behind(self, place: str, die: int) -> int:
        """Words of halos behind a place of a die."""
        return self._behind[place].get(die, 0) if place in self._behind else 0

    def written(self, place: Place) -> bool:
        """Whether numpy writes a place that has memory of its own."""
        return not isinstance(place.what, (GatheredRows, RowLists)) and place.name not in self._skipped

    def words(self) -> int:
        """Words of memory that numpy writes on a die."""
        return self.shared_words + sum(max(words.values()) for words in self._behind.values()) + sum(
            max(1, place.words) for place in self.separate if self.written(place))


def _lives(step: Step, operations: Sequence[Operation], dies: Sequence[int], behind: Iterable[str]
           ) -> Mapping[str, _Life]:
    """Of places that others may take when they are done with; not of those with halos ``behind`` them."""
    able = {place.name for place in step.places if _able(place)} - held_places(step, dies) - set(behind)
    able -= {target.name for exchange in step.operations_of(Exchange) for target in exchange.targets}
    # What goes into a sum of slots is read where the sum is made.
    sums = {id(exchange): total for exchange, total in summed_slots(step).values()}
    numbers = {id(operation): number for number, operation in enumerate(operations)}
    lives: dict[str, _Life] = {}
    for number, operation in enumerate(operations):
        total = sums.get(id(operation))
        last = number if total is None else max(number, numbers[id(total)])
        for name in {buffer.place for die in dies for buffer in touched(operation, die)} & able:
            first = lives[name].first if name in lives else number
            lives[name] = _Life(first, max(last, lives[name].last if name in lives else last))
    return lives


def _able(place: Place) -> bool:
    """Whether a place's first operation writes all of it: maps whose rows are channels are written as a whole."""
    return isinstance(place.what, Tensor) and place.what.by_channel and not place.moves
