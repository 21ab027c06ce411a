"""Tasks of dies in a training step, as plain data: what they read and write, and tiles that others send.

A task may stand for several equal ones that follow each other: whoever asks for a step says into how many groups the
pieces of each operation go at most (docs/step.md).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from plinth.buffers import Buffer
from plinth.machine.convolution import ConvolutionShape, FeatureMap
from plinth.machine.sparse_products import SparseProduct
from plinth.partition.cuts import Integers
from plinth.partition.graph import Node, Tiling
from plinth.step.vector import VectorProgram
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.winograd import MATRICES, PLAIN_NUMBERS, Lattice

FPROP, BPROP, UPDATE = DIRECTIONS = ("fprop", "bprop", "update")


class Kind:
    """What every kind of work says of itself."""

    @property
    def descriptors(self) -> int:
        """Descriptors that it takes, each of which is counted where it goes; of a product its machine says how many
        (:mod:`plinth.machine`)."""
        return 1

    @property
    def receivers(self) -> tuple[int, ...]:
        """Dies that each of its descriptors goes to, the die itself among them if it counts what comes as others do."""
        return ()


@dataclass(frozen=True)
class Multiplication(Kind):
    """A product of a weighted layer, or of a strip of its samples: ``z = x w``, ``dx = dz w^T`` or ``dw = x^T dz``.

    ``a`` and ``b`` are multiplied into ``c``, in the order of those formulas. Of a convolution (``shape`` is that of
    the die's slice) maps are feature maps, else matrices with a row a sample. Of a block of a sparse layer, whose rows
    are channels, ``direction`` is that of the formula that transposes the same operand.
    """

    layer: str
    direction: str
    shape: ConvolutionShape | None
    a: Buffer | FeatureMap
    b: Buffer | FeatureMap
    c: Buffer | FeatureMap
    #: Sums begin with what is in ``c``.
    added: bool = False


@dataclass(frozen=True)
class Vector(Kind):
    """A vector program over a region, in pieces of rows x columns elements."""

    program: VectorProgram
    rows: int
    columns: int
    #: Each of the tasks that it stands for waits for the one before.
    serial: bool = False


@dataclass(frozen=True)
class Members:
    """Dies that elements of tiles go to, row by row of a tile: the first one's number, from one to the next, and how
    many; elements of each, and how many of the first have one more."""

    first: int
    step: int
    count: int
    elements: int = 1
    longer: int = 0

    @property
    def shares(self) -> list[tuple[int, int]]:
        """Each die, and its elements."""
        return [(self.first + number * self.step, self.elements + (number < self.longer))
                for number in range(self.count)]


class SentKind(Kind):
    """What every kind of work says of itself whose result may go to other dies."""

    #: Receiver; None: the die itself.
    die: int | None
    #: Receivers of a part each in its place; None: there is one receiver.
    members: Members | None = None

    @property
    def receivers(self) -> tuple[int, ...]:
        """Dies that each of its descriptors goes to."""
        if self.members is not None:
            return tuple(number for number, _ in self.members.shares)
        return () if self.die is None else (self.die,)


@dataclass(frozen=True)
class RowIndex:
    """Rows of one side of a copy, by their numbers.

    Parameters
    ----------
    numbers : Buffer
        Where the list of numbers lies in the die's memory, a row.
    scatter : bool
        Whether rows of the target are numbered, else those of the source.
    rows : array of int
        The numbers.
    """

    numbers: Buffer
    scatter: bool
    rows: Integers = field(compare=False)

    def to_target(self) -> "RowIndex":
        """The same numbers for the target's rows."""
        return replace(self, scatter=True)


@dataclass(frozen=True)
class TileCopy(SentKind):
    """A copy of a tile; to another die, where it counts for an exchange.

    With an ``index`` the rows of its side are those of the buffer that the index numbers; the buffer of the other side
    has as many rows as there are numbers, and says the columns of both.
    """

    source: Buffer
    target: Buffer
    #: Receiver; None: the die itself.
    die: int | None = None
    exchange: int = -1
    #: As many alike one behind the other, and words from one to the next of either side.
    planes: int = 1
    apart: tuple[int, int] = (0, 0)
    #: Dies that get a part each, in place of ``die``: ``source`` is the first one's, those of the others lie
    #: ``members_apart`` words behind each other; it goes to ``target`` of its die. Each counts what comes, also the die
    #: itself.
    members: Members | None = None
    members_apart: int = 0
    index: RowIndex | None = None
    #: What is there is added to.
    added: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of a plane."""
        side = self.target if self.index is not None and not self.index.scatter else self.source
        return side.rows, side.columns


@dataclass(frozen=True)
class TransformTiles(SentKind):
    """Winograd tiles of some images: made of maps and sent to who has their elements, or made a map.

    Attributes
    ----------
    node : Node
    outputs : bool
        Whether the maps are the layer's outputs, else its inputs.
    scatter : bool
        From maps to tiles.
    added : bool
        The map's places get sums.
    maps : FeatureMap
    tiles : Buffer
        Of the first element: a row is a tile, of all images.
    plane : int
        Words from an element to the next.
    elements : (first row, rows, first column, columns)
        Of a tile, that ``tiles`` has.
    die, exchange : int or None
        The die that receives it, and the number of the exchange that it counts for, as a copied tile.
    members : Members or None
        Dies that have the elements, in place of one; each counts what comes, also the die itself.
    lines : (first, count) or None
        Lines of tiles, of one image; None: all.
    column : int
        Elements of a column, where they lie column by column; 0: row by row.
    plain : (down, across)
        Places of a window that go as they are, as the other direction's half alone is done; 0: transformed.
    by_column : bool
        Whether a descriptor does a column of tiles of all images, else an image.
    marked : bool
        Whether zeros tell if they have a cause.
    """

    node: Node
    outputs: bool
    scatter: bool
    added: bool
    maps: FeatureMap
    tiles: Buffer
    plane: int
    elements: tuple[int, int, int, int]
    die: int | None = None
    exchange: int = -1
    members: Members | None = None
    lines: tuple[int, int] | None = None
    by_column: bool = False
    marked: bool = False
    column: int = 0
    plain: tuple[int, int] = (0, 0)

    @property
    def tiling(self) -> Tiling:
        """How the layer is cut in tiles."""
        assert self.node.tiling is not None
        return self.node.tiling

    @property
    def lattices(self) -> tuple[Lattice, Lattice]:
        """Windows of the maps, down and across."""
        assert self.node.window is not None
        both = self.tiling.form.lattices(self.node.window.size, self.node.window.padding)[self.outputs]
        down, across = (
            lattice if not places else Lattice(MATRICES[PLAIN_NUMBERS[places]], places, 0, -(-side // places))
            for lattice, places, side in zip(both, self.plain, (self.maps.height, self.maps.width), strict=True))
        return down, across

    @property
    def counts(self) -> tuple[int, int]:
        """Tiles of an image, down and across."""
        down, across = self.lattices
        return down.count, across.count

    @property
    def positions(self) -> int:
        """Tiles of all images."""
        down, across = self.counts
        return self.maps.images * (self.lines[1] if self.lines else down) * across

    @property
    def descriptors(self) -> int:
        """One for each column of tiles, or for each image."""
        return self.counts[1] if self.by_column else self.maps.images


@dataclass(frozen=True)
class LineTransform(SentKind):
    """Columns of tiles of outputs made lines of outputs, A^T down, and sent to who has the samples.

    Attributes
    ----------
    node : Node
    source, target : Buffer
        Of the first column's first element, and of what is made of it: a row is a tile.
    columns : int
        That lie one behind the other.
    planes : pair of int
        Words from an element to the next, on either side.
    die, exchange, members, members_apart
        Who receives it, and the number of the exchange that it counts for, as a copied tile.
    """

    node: Node
    source: Buffer
    target: Buffer
    columns: int
    planes: tuple[int, int]
    die: int | None = None
    exchange: int = -1
    members: Members | None = None
    members_apart: int = 0

    @property
    def blocks(self) -> int:
        """Columns that go together: one of each die's."""
        return 1 if self.members is None else self.members.count

    @property
    def sides(self) -> tuple[int, int]:
        """Elements of a column, and outputs of it."""
        assert self.node.tiling is not None
        down, _ = self.node.tiling.form.transforms
        return down.size, down.outputs


class CodePart(NamedTuple):
    """A part of the strings of a predicted gather: the first one to the layer's level, each next one to a lower one,
    the last one to exact words (:mod:`plinth_hw.isa.codes`). Levels are the host's to set.

    Attributes
    ----------
    layer : str
    number, rounds : int
        0: the first part; so many next ones follow.
    outputs : int
        Of a tile, each way.
    shift : int
        By how much levels of the elements are below the layer's.
    share : float
        Words over those of runs, about.
    regions : bool
        They are MPT's codes, of a scale in place of a level.
    pooled : bool
        Neurons below another of their window of a max-pool are not needed either.
    """

    layer: str
    number: int
    rounds: int
    outputs: int
    shift: int = 0
    share: float = 0.0
    regions: bool = False
    pooled: bool = False

    @property
    def exact(self) -> bool:
        """Whether words are exact behind it."""
        return self.number == self.rounds


class SkipPart(NamedTuple):
    """Strings of words that are not left out: whether their masks are sent with them, else both sides have them; words
    over those of runs, about; whether masks go alone."""

    sent: bool
    share: float
    maps: bool = False


def _of(masks: Buffer | None) -> tuple[Buffer, ...]:
    return () if masks is None else (masks,)


@dataclass(frozen=True)
class Encode(SentKind):
    """Runs to strings at another die, where they count for an exchange, or at the die itself.

    Attributes
    ----------
    runs : Buffer
        A row each.
    strings : Buffer
        A place each.
    masks : Buffer or None
        Of a next part, or of words that are not left out, a row each.
    die : int or None
        Receiver; None: the die itself.
    """

    part: CodePart | SkipPart
    runs: Buffer
    strings: Buffer
    masks: Buffer | None
    die: int | None = None
    exchange: int = -1

    @property
    def touches(self) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
        """Places that it reads, and writes on its own die."""
        return (self.runs, *_of(self.masks)), (self.strings,) if self.die is None else ()


@dataclass(frozen=True)
class Decode(Kind):
    """Strings to runs; of a next part with runs as they are known. Masks that were sent are stored, if they have a
    place."""

    part: CodePart | SkipPart
    strings: Buffer
    runs: Buffer
    masks: Buffer | None

    @property
    def refines(self) -> bool:
        """Whether it reads the runs, too."""
        return isinstance(self.part, CodePart) and self.part.number > 0

    @property
    def stores(self) -> bool:
        """Whether it stores masks."""
        return isinstance(self.part, SkipPart) and self.part.sent and self.masks is not None

    @property
    def touches(self) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
        """Places that it reads, and writes."""
        masks, known = _of(self.masks), (self.runs,) if self.refines else ()
        return (self.strings, *(() if self.stores else masks), *known), (self.runs, *(masks if self.stores else ()))


@dataclass(frozen=True)
class Predict(Kind):
    """Fills of all elements of tiles to masks of those that must still come.

    Attributes
    ----------
    node : Node
    part : CodePart
        The one behind which they are fills.
    fills : Buffer
        Of the first element: a row is a tile.
    plane : int
        Words from an element to the next.
    bias : Buffer
        What is added to each channel's neurons.
    masks : Buffer
        A row an element.
    added : Buffer or None
        Maps that are added behind that, dense.
    """

    node: Node
    part: CodePart
    fills: Buffer
    plane: int
    bias: Buffer
    masks: Buffer
    added: Buffer | None = None


@dataclass(frozen=True)
class RowsByNumber(Kind):
    """Rows by their numbers: copied from a table, or added to those of its gradient."""

    numbers: Buffer
    table: Buffer
    rows: Buffer
    added: bool
    #: Rows of the whole table, and those of the die.
    table_rows: int
    own_rows: int


@dataclass(frozen=True)
class LookupCopy(SentKind):
    """Rows of a table that a worker looks up and an owner has: on their way to the worker, sums of their errors on the
    way back, or added to the rows' gradient. How many there are the host says before each step.

    Attributes
    ----------
    layer : str
    owner, worker : int
    source, target : Buffer
        A matrix; of the table, or its gradient, all of an owner's rows, else room for as many as there may be.
    index : Buffer or None
        The list of their numbers in the table; None: rows lie one behind the other on both sides.
    scatter : bool
        Whether rows of the target are numbered, else those of the source.
    added : bool
        What is there is added to.
    rows : int
        As many as predictions take it to be.
    die, exchange
        As of a copied tile.
    """

    layer: str
    owner: int
    worker: int
    source: Buffer
    target: Buffer
    index: Buffer | None
    rows: int
    scatter: bool = False
    added: bool = False
    die: int | None = None
    exchange: int = -1

    @property
    def typical(self) -> TileCopy:
        """A copy of as many rows as predictions take, with the same costs."""
        source, target = self.source, self.target
        index = None
        if self.index is not None:
            index = RowIndex(self.index, self.scatter, np.arange(self.rows, dtype=np.int32))
        if index is None or self.scatter:
            source = source.lines(0, self.rows)
        if index is None or not self.scatter:
            target = target.lines(0, self.rows)
        return TileCopy(source, target, self.die, self.exchange, index=index, added=self.added)


class Phase(Enum):
    """The phase of an all-reduce that a message of a ring does."""

    #: Sums of gradients update the weights of their owners, which all get.
    UPDATE = "all_reduce"
    #: Owners get the sums of gradients.
    SUM = "reduce_scatter"
    #: All get the owners' weights.
    GATHER = "all_gather"

    @property
    def share(self) -> float:
        """The share of an all-reduce's way, which goes round its ring twice, that this phase goes."""
        return 1.0 if self is Phase.UPDATE else 0.5


@dataclass(frozen=True)
class Reduction(Kind):
    """A message of a ring."""

    phase: Phase
    #: Row of the die's group table that its ring has, and the ring.
    row: int
    ring: tuple[int, ...]
    #: Number in the step; modulo the number of reduce blocks it is the block's.
    message: int
    #: Gradients, or with GATHER weights.
    source: Buffer
    #: Weights, or with SUM sums of gradients.
    target: Buffer
    #: Exchange whose arrivals it waits for, if any.
    after: int | None = None
    #: Factor on the learning rate.
    rate: float = 1.0


@dataclass(frozen=True)
class GroupRow(Kind):
    """Gives a row of the die's group table to a ring."""

    row: int
    ring: tuple[int, ...]


@dataclass(frozen=True)
class Optimisation(Kind):
    """An update by the optimiser engine, of weights of some rows."""

    gradients: Buffer
    weights: Buffer
    #: What is kept beside the weights, by name.
    kept: Mapping[str, Buffer]
    #: State of the generator of random bits, with random rounding.
    generator: Buffer | None


@dataclass(frozen=True)
class Signal(Kind):
    """Tells another die that all tasks of an engine so far are done."""

    die: int
    exchange: int
    engine: Engine


class Share(NamedTuple):
    """What products are of a layer: samples (of a Winograd layer tiles of all elements), of how many that the die has
    in all; rows and columns of the weights' matrix, and in how many pieces of rows the die's slice goes."""

    samples: int
    whole: int
    rows: int
    outputs: int
    pieces: int = 1


class BlockShare(NamedTuple):
    """What products of neighbouring blocks are of a sparse layer, whose samples are the columns of what a block is
    multiplied by: rows of all blocks together, as if all were as wide as the first; its columns; samples;
    multiply-adds of all that are of entries, not of what fills blocks up; and the product that a host makes of it."""

    samples: int
    rows: int
    outputs: int
    useful: int
    product: SparseProduct

    @property
    def whole(self) -> int:
        """Each block has a part of the weights for itself."""
        return self.samples

    @property
    def pieces(self) -> int:
        """Each has its own rows."""
        return 1


#: Work that may go to other dies.
Sent = TileCopy | TransformTiles | LineTransform | Encode | LookupCopy
#: All kinds of work. Who interprets them has a table, with an entry for each (docs/step.md).
Work = (Multiplication | Vector | TileCopy | TransformTiles | LineTransform | Encode | Decode | Predict |
        RowsByNumber | LookupCopy | Reduction | GroupRow | Optimisation | Signal)


@dataclass(frozen=True, slots=True)
class Task:
    """Work of one engine of a die."""

    name: str
    engine: Engine
    work: Work
    reads: tuple[Buffer, ...] = ()
    writes: tuple[Buffer, ...] = ()
    #: Tasks that it stands for, one behind the other, each as large as ``work`` says of one.
    count: int = 1
    #: The node of the plan's graph that it belongs to, and what a product is of it.
    node: Node | None = None
    share: "Share | BlockShare | None" = None

    def repeated(self, count: int) -> "Task":
        """The task as one that stands for so many."""
        return replace(self, count=count)


def code_task(name: str, work: Encode | Decode, node: Node | None = None) -> Task:
    """A task that codes or decodes, with what it reads and writes."""
    return Task(name, Engine.TRANSFER, work, *work.touches, 1, node)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Other dies send so many tiles, or signals, of an exchange; they lie in the buffers then."""

    exchange: int
    buffers: tuple[Buffer, ...]
    count: int

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """None: others write alone."""
        return ()

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """Where what they send lies."""
        return self.buffers


Item = Task | Arrivals


def tasks_of(items: Iterable[Item]) -> Iterator[Task]:
    """The tasks of a die among its items, in their order."""
    return (item for item in items if isinstance(item, Task))


def arrivals_of(items: Iterable[Item]) -> Iterator[Arrivals]:
    """What other dies send among a die's items, in their order."""
    return (item for item in items if isinstance(item, Arrivals))
