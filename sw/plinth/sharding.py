"""A sharding: how a network's training step is split over the dies of an array, and nothing about when.

It is all that a step follows from, beside what a die can hold (:func:`plinth.step.build.step_of`). Planners look at
thousands, so that one is not checked when it is made; a Plan is (:meth:`Sharding.check`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from plinth.array.array import Array
from plinth.errors import UserError, one_line, quoted
from plinth.files.documents import nearest
from plinth.files.forms import described, is_integer
from plinth.limits import MAXIMUM_BATCH, MAXIMUM_DIES
from plinth.network.variables import Gradient, Variable
from plinth.partition import regions
from plinth.partition.axes import ELEMENTS, SAMPLES, Region
from plinth.partition.blocks import WinogradBlocks, blocks_of
from plinth.partition.cuts import (
    Factors,
    Indices,
    Integers,
    Levels,
    Listed,
    Runs,
    halves,
    ranges_of,
    ranges_of_indices,
)
from plinth.partition.exchanges import ExchangeDefinition, exchange_words, exchanges, word_bounds, words
from plinth.partition.graph import DP, Node, PlanGraph
from plinth.partition.groups import RING, ProcessGroups, process_groups
from plinth.partition.lists import check_lists, check_parts
from plinth.partition.regions import Layout, Lists, Partition, Splits
from plinth.partition.ring_order import along_links
from plinth.partition.row_costs import VariableLoad, model_alpha
from plinth.partition.row_traffic import RowTraffic
from plinth.partition.stages import check_stages
from plinth.update.rule import PLAIN, UpdateRule

#: Pieces of rows in which the gradient of a layer goes round its rings, at most.
MOST_PIECES = 4
#: Words of a chunk, and pieces of a variable that servers own, at most.
MAXIMUM_CHUNK, MAXIMUM_PIECES = 1 << 16, 1 << 10
#: Words in a chunk of a reduction on dies of which nothing is known.
CHUNK_WORDS = 64


@dataclass(frozen=True)
class Ring:
    """A variable's copies are kept equal by sums of their gradients, which go round rings of dies, and the same update.

    Variables of a layer whose rings are equal go in the same messages, the bias behind the weights.

    Parameters
    ----------
    groups : ProcessGroups
        The rings, each its dies in the order in which words go round: chunk c of a message belongs to member c mod N,
        and its sum starts at the member after the owner.
    pieces : int
        Messages in which the gradient goes: pieces of rows of each die's matrix, or, with ``elements``, one for each
        element of Winograd tiles that a die has, and the bias.
    chunk : int
        Words of a chunk; the last one of a message may be shorter.
    elements : bool
        Pieces are elements of tiles, whose weights have learning rates of their own.
    """

    groups: ProcessGroups
    pieces: int
    chunk: int
    elements: bool = False

    @property
    def kind(self) -> str:
        """``"ring"``, or ``"local"`` where each ring is one die, which has nothing to be equal to."""
        return RING if self.groups.size > 1 else Local.kind


@dataclass(frozen=True)
class Server:
    """A variable is cut in pieces of rows; the owner of each adds up, in die order, the gradients that all dies with a
    copy send it, updates the rows, and gives them back.

    Parameters
    ----------
    owners : tuple of int
        For each piece the die that owns it, which need not have a copy of it.
    pieces : int or tuple of Indices
        In how many pieces of neighbouring rows the variable's first axis is cut evenly, where it does not divide the
        first ones one row longer; or the rows of each piece, as ascending ranges (first, one past the last) with gaps
        between them.
    interleaved : bool
        Of a number of pieces: row r belongs to piece r mod ``pieces``, so that rows of frequent words, which are
        neighbours where words are numbered by frequency, have different owners.
    """

    kind: ClassVar[str] = "server"
    said: ClassVar[str] = "by servers"

    owners: tuple[int, ...]
    pieces: int | tuple[Indices, ...]
    interleaved: bool = False

    def rows(self, count: int) -> tuple[Indices, ...]:
        """The rows of each piece, of so many in all."""
        if not isinstance(self.pieces, int):
            return self.pieces
        if self.interleaved:
            return tuple(tuple((row, row + 1) for row in range(piece, count, self.pieces))
                         for piece in range(self.pieces))
        return ranges_of(count // self.pieces + (piece < count % self.pieces) for piece in range(self.pieces))

    def owned_rows(self, count: int, dies: int) -> tuple[Indices | Runs, ...]:
        """The rows of each die, of so many in all, ascending."""
        owned: list[list[int]] = [[] for _ in range(dies)]
        for owner, ranges in zip(self.owners, self.rows(count), strict=True):
            owned[owner] += (row for first, end in ranges for row in range(first, end))
        return tuple(ranges_of_indices(np.array(sorted(rows), np.int64)) for rows in owned)


@dataclass(frozen=True)
class Gathered:
    """Each die with a copy sends all others the rows of its gradient that its samples touch; each adds them up in die
    order, and updates all rows alike."""

    kind: ClassVar[str] = "gathered"
    said: ClassVar[str] = "by gathered rows"


@dataclass(frozen=True)
class Local:
    """A variable's copies are never made equal: each die updates its own by its own gradient."""

    kind: ClassVar[str] = "local"


#: How copies of a variable are kept equal.
Sync = Ring | Server | Gathered | Local
#: Of every variable of a network its name (``"fc1.weights"``) and how its copies are kept equal, in the order of names;
#: empty: as suits the dies.
Copies = tuple[tuple[str, Sync], ...]
#: Of variables whose gradients are rows by number their name and the share of rows that one die's samples touch in a
#: step, above 0 and at most 1.
Touched = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ReductionDefinition:
    """The definition of how copies of one layer's variables are kept equal, or of one of them where they differ in it
    or have servers. Dies that differ in the levels ``over`` have the copies.

    In a ring the gradient goes whole, weights then bias, or in pieces (:class:`Ring`), each a message. Chunk c of a
    message (the last may be short) belongs to member c mod N of the ring and its sum starts at the member after the
    owner.
    """

    layer: str
    #: None: all of them.
    variable: Variable | None
    #: How, which two of the same may differ in.
    sync: Sync = field(compare=False)
    over: Levels
    #: Levels at which the weights' input and output channels are cut.
    weights: tuple[Levels, Levels]
    #: Words that all members of all rings, or owners and workers, send together; where data decide, those expected.
    words: int
    #: Between which words these lie, where data decide.
    bounds: tuple[int, int] | None = None

    @property
    def word_bounds(self) -> tuple[int, int]:
        """Between which words its words lie."""
        return self.bounds or (self.words, self.words)


def _by_name(copies: Any) -> Copies:
    """Copies in the order of names, if they are pairs of a name and a value."""
    if not isinstance(copies, (tuple, list)) or not all(
            isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in copies):
        raise UserError("copies must be pairs of a variable's name and a Ring, a Server, Gathered or Local, not "
                        f"{described(copies)}")
    return tuple(sorted(copies, key=itemgetter(0)))


#: Types of a sharding's fields.
_KINDS = {"graph": PlanGraph, "splits": tuple, "factors": tuple, "lists": tuple, "array": Array, "rule": UpdateRule,
          "touched": tuple}


def _shown(value: Any) -> str:
    """A value of a wrong type as messages show it, on one line and cut."""
    return one_line(repr(value), 60)


def are_micro_batches(count: Any, batch: int) -> bool:
    """Whether a batch divides into so many micro-batches."""
    return is_integer(count, 1, batch) and batch % count == 0


def _are_ranges(part: Any) -> bool:
    """Whether rows of a piece are a tuple of ranges of integers, none of them empty."""
    return isinstance(part, tuple) and all(
        isinstance(bounds, tuple) and len(bounds) == 2 and all(type(row) is int for row in bounds)
        and bounds[0] < bounds[1] for bounds in part)


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """How a network is split over dies.

    Parameters
    ----------
    graph : PlanGraph
        The network.
    splits : Splits
        For each node of the graph, for each level of the array, the axis that is cut there.
    batch : int
        Samples of a step, over all dies.
    factors : Factors
        In how many parts each level cuts the dies; left out: every level halves.
    lists : Partition
        What is cut by list, for each node; left out: nothing.
    array : Array or None
        Whose links say which rings may go at once; None: all may.
    rule : UpdateRule
        How weights are updated.
    copies : Copies
        For each variable of the network how its copies are kept equal, in any order; left out: in rings along the
        array's links, in as many pieces as suit the dies.
    touched : Touched
        For variables of which a step's samples touch some rows alone, the share that they touch on one die, as
        predictions take it; of one that is left out all that they may touch.
    micro_batches : int
        Parts of the batch that go through the network one behind the other, of as many samples each; gradients are
        those of all. With pipeline stages each works on another one.

    Raises
    ------
    UserError
        If a field is of the wrong type, or copies are no pairs of a name and a value; all else is for :meth:`check`.
    """

    graph: PlanGraph
    splits: Splits
    batch: int
    factors: Factors = ()
    lists: Partition = ()
    array: Array | None = None
    rule: UpdateRule = PLAIN
    copies: Copies = ()
    touched: Touched = ()
    micro_batches: int = 1

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kind) and (name != "array" or value is not None):
                raise UserError(f"{name} of a sharding must be a {kind.__name__}, not {_shown(value)}")
        object.__setattr__(self, "factors", self.factors or halves(len(self.splits[0]) if self.splits else 0))
        lists = tuple(None if node_lists == Lists() else node_lists for node_lists in self.lists)
        object.__setattr__(self, "lists", lists if any(lists) else ())
        if self.copies != ():
            object.__setattr__(self, "copies", _by_name(self.copies))

    def __getstate__(self) -> dict[str, Any]:
        """Its fields, without what was found out about them."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def levels(self) -> int:
        """Levels of the array."""
        return len(self.factors)

    @property
    def dies(self) -> int:
        """Dies of the array."""
        return prod(self.factors)

    @property
    def samples(self) -> int:
        """Samples of a micro-batch, over all dies."""
        return self.batch // self.micro_batches

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """Regions of each node; of a layer whose table servers own, each die's rows are those that it owns."""
        layouts = regions.layouts(self.graph, self.splits, self.lists, self.factors)
        return tuple(self._owned(number, here) for number, here in enumerate(layouts)) if self.copies else layouts

    def _owned(self, number: int, here: Layout) -> Layout:
        sync, levels = self.row_sync(number), tuple(range(self.levels))
        if sync is None:
            return here
        if isinstance(sync, Gathered):
            return replace(here, ring=())
        rows = sync.owned_rows(self.graph.nodes[number].matrix[1], self.dies)
        inputs = (Listed(levels, rows),) if levels else ()
        return replace(here, weights=Region.of(inputs=inputs, outputs=()), ring=())

    def row_sync(self, number: int) -> Server | Gathered | None:
        """How the rows of a node's table are kept equal one by one; None: it has no table, or that goes round rings."""
        if not self.graph.nodes[number].gathers:
            return None
        return next((sync for sync in self.syncs(number) if isinstance(sync, Server | Gathered)), None)

    def touched_share(self, variable: str) -> float | None:
        """The share of a variable's rows that one die's samples touch in a step, as predictions take it; None: all that
        they may touch."""
        return dict(self.touched).get(variable)

    @property
    def alpha(self) -> float | None:
        """The share of all elements of the network's variables that one die's samples touch in a step, all of those of
        dense variables (Parallax, Table 1); None: of a table it is not known what they touch."""
        variables = self.graph.variables
        if any(variable.gradient is Gradient.ROWS and self.touched_share(name) is None
               for name, variable in variables.items()):
            return None
        return model_alpha([VariableLoad(prod(variable.shape), self.touched_share(name))
                            for name, variable in variables.items()])

    def row_traffic(self, number: int, variable: Variable, sync: Server | Gathered) -> RowTraffic:
        """How many rows of a variable of a node move between who owns them and dies with samples."""
        node, here, rows = self.graph.nodes[number], self.layouts[number], variable.shape[0]
        owned = np.full(self.dies, 0 if isinstance(sync, Server) else rows)
        if isinstance(sync, Server):
            for owner, ranges in zip(sync.owners, sync.rows(rows), strict=True):
                owned[owner] += sum(end - first for first, end in ranges)
        samples = here.input.lengths(SAMPLES, self.batch, self.factors)
        named = variable.gradient is Gradient.ROWS
        needed = samples * node.input_elements if named else rows * np.minimum(samples, 1)
        return RowTraffic(tuple(owned.tolist()), tuple(needed.tolist()),
                          self.touched_share(variable.qualified(node.name)) if named else None,
                          isinstance(sync, Gathered))

    @cached_property
    def _syncs(self) -> dict[str, Sync]:
        return dict(self.copies)

    def syncs(self, number: int) -> tuple[Sync, ...]:
        """How the copies of each variable of a node are kept equal, in their order there; none, if nothing is said."""
        node, syncs = self.graph.nodes[number], self._syncs
        return tuple(syncs[variable.qualified(node.name)] for variable in node.variables) if syncs else ()

    @cached_property
    def blocks(self) -> WinogradBlocks:
        """Blocks of Winograd layers, whose tiles move once."""
        return blocks_of(self.graph, self.layouts)

    @cached_property
    def exchanges(self) -> tuple[ExchangeDefinition, ...]:
        """What moves between layers in a step, in its order: the definitions that a step's operations realise."""
        definitions = exchanges(self.graph, self.layouts, self.factors, self.array, self.blocks)
        return tuple(definition for definition in definitions if definition.moves(self.samples, self.factors))

    def exchange_words(self, exchange: ExchangeDefinition) -> int:
        """Words of an exchange over all dies, with all micro-batches."""
        return self.micro_batches * exchange_words(exchange, self.samples, self.factors)

    def word_bounds(self, exchange: ExchangeDefinition) -> tuple[int, int]:
        """Between which words they lie: as many, unless data decide."""
        least, most = word_bounds(exchange, self.samples, self.factors)
        return self.micro_batches * least, self.micro_batches * most

    def words_between(self, exchange: ExchangeDefinition) -> Integers:
        """Words of an exchange that die s (row) sends to die t (column), with all micro-batches."""
        return self.micro_batches * words(exchange, self.samples, self.factors)

    @cached_property
    def reductions(self) -> tuple[ReductionDefinition, ...]:
        """Sums of gradients over dies in a step, in the order of bprop; of no words where a layer's batch is whole."""
        return tuple(reduction for number in reversed(self.graph.weighted) for reduction in self._reductions(number))

    def _reductions(self, number: int) -> Iterator[ReductionDefinition]:
        """Of a layer: one, or one of each variable."""
        node, here = self.graph.nodes[number], self.layouts[number]
        syncs = self.syncs(number) or (Ring(self.groups(RING, number), 1, CHUNK_WORDS),)
        parts = [(None, syncs[0])] if len(set(syncs)) == 1 and not isinstance(syncs[0], Server | Gathered) else zip(
            node.variables, syncs, strict=True)
        for variable, sync in parts:
            over, words, bounds = here.ring, 0, None
            if isinstance(sync, Ring):
                words = regions.ring_words(node, here, self.factors, variable)
            elif isinstance(sync, Server | Gathered):
                assert variable is not None
                traffic, width = self.row_traffic(number, variable, sync), prod(variable.shape[1:])
                over, words = here.dp, width * traffic.moved(traffic.expected)
                least, most = traffic.bounds(variable.gradient is Gradient.ROWS)
                bounds = width * least, width * most
            yield ReductionDefinition(node.name, variable, sync, over, (here.mp, here.op), words, bounds)

    def replicas(self, number: int) -> ProcessGroups:
        """Dies that have copies of the same of a node's weights."""
        if isinstance(self.row_sync(number), Gathered):
            here = self.layouts[number]
            return process_groups(RING, here.dp, self.factors, here.owners)
        return self.groups(RING, number)

    def groups(self, kind: str, number: int) -> ProcessGroups:
        """The groups of a node's dies, of a kind of :mod:`plinth.partition.groups`. Rings are those of its first
        variable that has one; where none is said they go along the array's links."""
        if kind != RING:
            return self.layouts[number].groups(kind, self.factors)
        for sync in self.syncs(number):
            if isinstance(sync, Ring):
                return sync.groups
        return along_links(self.array, self.layouts[number].groups(kind, self.factors))

    def check(self) -> None:
        """Refuse what cannot be.

        Raises
        ------
        UserError
            If a split or a list does not fit its layer, the array has another number of dies, a size is out of range,
            or copies are said of other variables than the network's, by other rings than their dies form, or by servers
            that are no dies, or do not own each row once.
        """
        levels = regions.check_splits(self.graph, self.splits)
        if len(self.factors) != levels or not all(is_integer(factor, 2, MAXIMUM_DIES) for factor in self.factors) or (
                self.dies > MAXIMUM_DIES):
            raise UserError(f"an array of {levels} levels needs as many factors from 2 on, of at most {MAXIMUM_DIES} "
                            f"dies together, not {described(list(self.factors))}")
        if self.array is not None and self.array.dies != self.dies:
            raise UserError(f"the plan is for {self.dies} dies, but array {self.array.name!r} has {self.array.dies}")
        if not is_integer(self.batch, 1, MAXIMUM_BATCH):
            raise UserError(f"a batch must be an integer from 1 to {MAXIMUM_BATCH}, not {described(self.batch)}")
        if not are_micro_batches(self.micro_batches, self.batch):
            raise UserError(f"a batch of {self.batch} cannot go in {described(self.micro_batches)} micro-batches of as "
                            "many samples each; give a number that divides it")
        check_stages(self.graph, self.splits, self.factors, self.lists, self.micro_batches)
        regions.check_elements(self.graph, self.splits, self.factors)
        check_lists(self.graph, self.splits, self.lists, self.batch, self.factors)
        self._check_copies()
        self._check_touched()

    def check_fits(self, other: "Sharding") -> None:
        """Refuse a sharding of another network, whose step trains other variables.

        Raises
        ------
        UserError
            With both networks, and the first variable that one of them lacks or has in another shape; or if it is no
            sharding.
        """
        if not isinstance(other, Sharding):
            raise UserError(f"a sharding is compared with a Sharding, such as a plan's, not {_shown(other)}")
        if (self.graph.nodes, self.graph.edges) == (other.graph.nodes, other.graph.edges):
            return
        first, second = ({name: f"of shape {list(variable.shape)}" for name, variable in graph.variables.items()}
                         for graph in (self.graph, other.graph))
        name = next((name for name in (*first, *second) if first.get(name) != second.get(name)), None)
        why = "their layers differ" if name is None else (
            f"variable {name!r} is {first.get(name, 'missing')} in the first, {second.get(name, 'missing')} in the "
            "second")
        raise UserError(f"plans of networks {self.graph.name!r} and {other.graph.name!r} do not fit each other: "
                        f"{why}; give two of one network")

    def _check_copies(self) -> None:
        if not self.copies:
            return
        variables = self.graph.variables
        for name, sync in self.copies:
            if name not in variables:
                raise UserError(f"network {self.graph.name!r} has no variable {quoted(name)}, whose copies could be "
                                f"kept equal; {nearest(name, variables)}")
            if not isinstance(sync, Sync):
                raise UserError(f"copies of variable {name!r} are kept equal by a Ring or a Server, or are Gathered or "
                                f"Local, not {described(sync)}")
        if len(self.copies) != len(variables):
            said = [name for name, _ in self.copies]
            name = next(name for name in variables if said.count(name) != 1)
            raise UserError(f"how copies of variable {name!r} are kept equal is said {said.count(name)} times; say it "
                            "once of each variable, or of none")
        for number, node in enumerate(self.graph.nodes):
            syncs = self.syncs(number)
            for place, (variable, sync) in enumerate(zip(node.variables, syncs, strict=True)):
                if isinstance(sync, Ring) and sync not in syncs[:place]:
                    self._check_ring(number, node, sync)
                elif isinstance(sync, Server):
                    self._check_server(variable.qualified(node.name), variable.shape[0], sync)
                if isinstance(sync, Server | Gathered):
                    self._check_rows(number, variable.qualified(node.name), sync)

    def _check_rows(self, number: int, name: str, sync: Server | Gathered) -> None:
        """Refuse rows that move one by one where they cannot."""
        node = self.graph.nodes[number]
        if isinstance(sync, Gathered) and not node.gathers:
            raise UserError(f"variable {name!r} has a dense gradient, of which no rows can be gathered; give it a ring")
        if node.gathers and set(self.splits[number]) - {DP}:
            raise UserError(f"variable {name!r} is kept {sync.said}, so that every level must split the batch of layer "
                            f"{node.name!r}; give it splits {DP!r}")

    def _check_touched(self) -> None:
        variables = self.graph.variables
        for name, share in self.touched:
            if name not in variables:
                raise UserError(f"network {self.graph.name!r} has no variable {quoted(str(name))}, whose rows samples "
                                f"touch; {nearest(str(name), variables)}")
            if variables[name].gradient is not Gradient.ROWS:
                raise UserError(f"variable {name!r} has a dense gradient: samples touch all of it; leave it out")
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
                raise UserError(f"the share of the rows of variable {name!r} that samples touch must be above 0 and at "
                                f"most 1, not {described(share)}")

    def _check_ring(self, number: int, node: Node, ring: Ring) -> None:
        wanted = self.layouts[number].groups(RING, self.factors)
        if not isinstance(ring.groups, ProcessGroups) or ring.groups.kind != RING:
            raise UserError(f"rings of layer {node.name!r} must be ProcessGroups of kind {RING!r}, not "
                            f"{described(ring.groups)}")
        if sorted(map(sorted, ring.groups.members)) != sorted(map(sorted, wanted.members)):
            raise UserError(f"rings of layer {node.name!r} are not those of the dies that have the same of its "
                            "weights; make the plan again with `plinth plan`")
        if ring.elements and not node.free:
            raise UserError(f"layer {node.name!r} has no Winograd tiles that are trained, whose elements could be "
                            "pieces of its gradient; make the plan again with `plinth plan`")
        low, high = 1, 1 if node.window or node.gathers or node.pattern is not None else MOST_PIECES
        if ring.elements:
            low = high = self._element_pieces(node, number)
        if not is_integer(ring.pieces, low, high):
            most = f"{low}" if low == high else f"{low} to {high}"
            raise UserError(f"the gradient of layer {node.name!r} goes in {most} piece{'s' * (high > 1)}, not "
                            f"{described(ring.pieces)}; make the plan again with `plinth plan`")
        if not is_integer(ring.chunk, 1, MAXIMUM_CHUNK):
            raise UserError(f"a chunk of the gradient of layer {node.name!r} has 1 to {MAXIMUM_CHUNK} words, not "
                            f"{described(ring.chunk)}; make the plan again with `plinth plan`")

    def _check_server(self, name: str, rows: int, server: Server) -> None:
        where = f"the servers of variable {name!r}"
        if not isinstance(server.owners, tuple):
            raise UserError(f"{where}: owners must be a tuple with the die of each piece, not "
                            f"{described(server.owners)}")
        if isinstance(server.pieces, tuple):
            for number, part in enumerate(server.pieces):
                if not _are_ranges(part):
                    raise UserError(f"{where}: piece {number} must be a tuple of ranges (first row, one past the "
                                    f"last), not {described(part)}")
            check_parts(f"{where}: rows", rows, server.pieces)
            for number, part in enumerate(server.pieces):
                if not part:
                    raise UserError(f"{where}: piece {number} has no rows; leave it out")
                if any(previous[1] >= following[0] for previous, following in pairwise(part)):
                    raise UserError(f"{where}: ranges of piece {number} must ascend with gaps between them, not "
                                    f"{described(part)}")
        pieces = len(server.pieces) if isinstance(server.pieces, tuple) else server.pieces
        if not is_integer(pieces, 1, min(rows, MAXIMUM_PIECES)):
            raise UserError(f"{where}: {rows} rows are cut in 1 to {min(rows, MAXIMUM_PIECES)} pieces, not "
                            f"{described(pieces)}")
        if len(server.owners) != pieces:
            raise UserError(f"{where} have {pieces} pieces, but {len(server.owners)} owners; give each piece one")
        for piece, owner in enumerate(server.owners):
            if not is_integer(owner, 0, self.dies - 1):
                raise UserError(f"{where}: the owner of piece {piece} is a die from 0 to {self.dies - 1}, not "
                                f"{described(owner)}")

    def _element_pieces(self, node: Node, number: int) -> int:
        """Elements of a layer's tiles that a die has, at most, and one for the bias."""
        return int(self.layouts[number].weights.lengths(ELEMENTS, node.matrix[0], self.factors).max()) + 1


class Sharded:
    """What plans and steps say of their sharding."""

    sharding: Sharding

    @property
    def graph(self) -> PlanGraph:
        """The network."""
        return self.sharding.graph

    @property
    def splits(self) -> Splits:
        """For each node of the graph, for each level."""
        return self.sharding.splits

    @property
    def lists(self) -> Partition:
        """What is cut by list, for each node; empty if nothing is."""
        return self.sharding.lists

    @property
    def samples(self) -> int:
        """Samples of a micro-batch, over all dies."""
        return self.sharding.samples

    @property
    def batch(self) -> int:
        """Samples of a step."""
        return self.sharding.batch

    @property
    def factors(self) -> Factors:
        """The number of parts into which each level cuts the dies."""
        return self.sharding.factors

    @property
    def levels(self) -> int:
        """Levels of the array."""
        return self.sharding.levels

    @property
    def dies(self) -> int:
        """Dies of the array."""
        return self.sharding.dies

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Regions of each node."""
        return self.sharding.layouts

    @property
    def rule(self) -> UpdateRule:
        """How weights are updated; of a plan whatever the rule's numbers."""
        return self.sharding.rule
