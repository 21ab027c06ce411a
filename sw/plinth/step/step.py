"""A training step, said once: the operations of all dies in program order, and the places that they work on.

A sharding (:mod:`plinth.sharding`) and the die of an array give one step. It knows no addresses, no descriptors and
no cycles: lowering adds the first two (:mod:`plinth.lower`), predictions (:mod:`plinth.predict.schedule`) and the
simulator (:mod:`plinth.simulate`) the last. On each die, for its parts (see :mod:`plinth.partition.regions`), layer by
layer::

    fprop   Z = X W                                  matrix, a task a strip
            Z = rows X of W                          transfer, of an embedding
            P[k] = Z of the k-th member              transfer, where input channels are split
            A = f(((P[0] + P[1]) + ...) + b)         vector, at its owner; f the first activation, if one follows
            A = f of each input's map, side by side  vector, of a concatenation
            M = pools and further activations        vector, at its owner
            X of the readers = M                     transfer, where they hold other parts
    loss    d = (softmax(Z + b) - t) / batch, p      vector
    bprop   E = sum over readers and their members   transfer, vector: errors of M, at its owner
            dZ = back through pools and f; db = column sums of dZ
            dZ to all dies that computed Z           transfer, where input channels are split
            dX = dZ W^T                              matrix, a task a strip
            dX = the input's channels of dZ          vector, of a concatenation
    update  dW = X^T dZ                              matrix, all samples at once
            W, b -= rate * sum over dies of dW, db   collective, one message a ring

Sums over members run in ascending die order, sums over readers in the order of the network's layers, column sums
strip after strip: ``db = (strip 0) + (strip 1) + ...``, rows ascending in each. Where a reader's part is what its
die owns, nothing is copied. No place that other dies write is written twice in a step, so that within it a tile never
meets what still is to be read; a die itself adds gradients of micro-batches to those before. Between steps there is no
barrier here: who runs several sees to it that none begins too early (:class:`plinth.driver.driver.Driver`).

Of a Winograd layer tiles stand between: :mod:`plinth.step.layers.winograd`. Of these
operands alone are FP16, not X and dZ.

With rules that keep more than the weights, members of a ring own chunks of them::

    update  S = sum over dies of dW, db              collective, each die's own chunks
            W, b, state = rule(S)                    optimiser or vector, own chunks (:mod:`plinth.step.updates`)
            all have W, b                            collective

With operands of 16 bits errors are scaled up, which the learning rate takes back. Fixed-point dies have all numbers so;
with FP16 the matrix engine reads X, M, dZ and a copy of W in FP16, weights and gradients stay FP32::

    copy    H = narrow(W)                            vector, before fprop

Weights of a layer are followed by its bias in memory, and gradients alike, so that a message reduces both. Of a
fully connected layer whose gradient goes round rings of dies, with no convolution before the layer, dW is computed in
pieces of rows, and each goes as soon as it is ready, the last one with the bias (:mod:`plinth.step.reductions`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from plinth.array.array import Array
from plinth.buffers import Buffer
from plinth.partition.blocks import Residual, TileSum
from plinth.partition.cuts import Integers, places
from plinth.partition.exchanges import ExchangeDefinition
from plinth.partition.graph import Node
from plinth.partition.groups import ProcessGroups
from plinth.partition.stages import stage_levels
from plinth.sharding import ReductionDefinition, Sharded, Sharding
from plinth.step import between
from plinth.step.digest import digest
from plinth.step.lookups import Lookups
from plinth.step.operations import Chain, Chained, Clear, Operation
from plinth.step.owned import Generator, Kept, Owned
from plinth.step.row_lists import ExchangeLists, HostWords
from plinth.step.row_moves import RowPull, RowPush
from plinth.step.tasks import Item
from plinth.step.tensors import Constant, OnDies, Place, Reservable, Tensor, Tiles
from plinth.step.weights import Weights
from plinth_hw.isa.formats import Fixed, Format
from plinth_hw.isa.limits import GROUPS
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

#: Factor on errors in FP16; a power of two, so that it rounds nothing.
LOSS_SCALE = 1024.0
Reserved = TypeVar("Reserved", bound=Reservable)
Written = TypeVar("Written", bound=HostWords)
Selected = TypeVar("Selected", bound=Operation)
#: By engine and a task's name, up to a bracket, the definition of what it moves between dies.
Realised = Mapping[tuple[Engine, str], ExchangeDefinition | ReductionDefinition]
#: What tasks of an exchange are called, by its phase and kind.
_TASKS = {("fprop", "reduce"): "reduce", ("fprop", "copy"): "copy", ("bprop", "reduce"): "reduce",
          ("bprop", "copy"): "spread", ("fprop", "scatter"): "scatter", ("fprop", "gather"): "gather",
          ("bprop", "scatter"): "error_scatter", ("bprop", "gather"): "error_gather",
          ("bprop", "bias"): "bias_rows"}

#: A place that every die has, of two words: what is in it does not matter.
JOIN = Place("join", 2)


@dataclass
class Step(Sharded):
    """The step of a sharding, as :func:`plinth.step.build.step_of` builds it.

    Parameters
    ----------
    sharding : Sharding
        The network, and how it is split over dies.
    parameters : DieParameters
        Of a die.
    """

    sharding: Sharding
    parameters: DieParameters
    #: In the order in which they lie in memory.
    places: list[Place] = field(default_factory=lambda: [JOIN])
    operations: list[Operation] = field(default_factory=list)
    #: Of each operation whether it belongs to fprop and loss; others are backwards.
    forwards: list[bool] = field(default_factory=list)
    #: Before the first step: what must hold zeros, which no task of a step writes.
    zeros: list[Clear] = field(default_factory=list)
    #: What the host writes once.
    constants: list[Constant] = field(default_factory=list)
    host_words: list[HostWords] = field(default_factory=list)
    #: Rings that reduce weights.
    groups: list[ProcessGroups] = field(default_factory=list)
    #: Tensors that the host reads and writes: what the network's input is given to, one a reader (row numbers for an
    #: embedding, by number of the tensor its table); classes or targets; what the network predicts.
    #: Each has a tensor a micro-batch, one behind the other in one place. Inputs are by node and place among its
    #: inputs, and tensors are numbered in this order.
    inputs: dict[tuple[int, int], list[Tensor]] = field(default_factory=dict)
    tables: dict[int, Weights] = field(default_factory=dict)
    #: Of embeddings whose tables servers own, by number of the tensor of their row numbers, what moves.
    lookups: dict[int, Lookups] = field(default_factory=dict)
    weights: dict[str, Weights] = field(default_factory=dict)
    #: Unless reductions update, by layer: which weights are whose; what is kept beside them, by name; sums of
    #: gradients, where rings reduce them. And each die's generator of random bits, if there is one.
    owned: dict[str, Owned] = field(default_factory=dict)
    kept: dict[str, dict[str, Kept]] = field(default_factory=dict)
    sums: dict[str, Weights] = field(default_factory=dict)
    generator: Generator | None = None
    gradients: dict[str, Weights] = field(default_factory=dict)
    #: Outputs of activations with kinks and inputs of max-pools by layer name, a tensor a micro-batch: maps that decide
    #: kinks.
    maps: dict[str, list[Tensor]] = field(default_factory=dict)
    #: Outputs of layers by name, of the loss what the network predicts; none of a layer whose activation takes their
    #: place, or whose sum the loss finishes.
    outputs: dict[str, list[Tensor]] = field(default_factory=dict)
    targets: list[Tensor] = field(default_factory=list)
    predictions: list[Tensor] = field(default_factory=list)
    #: Counts what other dies send.
    exchanges: int = 0
    #: No gather of tiles goes in strips, which have an exchange each.
    whole_gathers: bool = False
    #: Names of operations between layers, each with the definition that those of the name realise.
    _names: dict[str, ExchangeDefinition] = field(default_factory=dict)
    _chain: list[Chained] = field(default_factory=list)
    #: What is being built: the stage, None where there are none, the micro-batch, and whether it goes forward.
    stage: int | None = None
    micro_batch: int = 0
    forward: bool = True
    #: Numbers of exchanges that count tiles of all micro-batches, by their names.
    _counted: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        blocks = self.sharding.blocks
        #: Of Winograd layers those whose tiles of the input they take; sums of tiles, by members; maps that are added
        #: to what a layer gathers.
        self.shared_tiles: Mapping[int, int] = blocks.shared
        self.tile_sums: Mapping[int, TileSum] = blocks.sums
        self.residuals: Mapping[int, Residual] = blocks.added
        self._defined = {(exchange.layer, exchange.phase, exchange.kind, exchange.edge): exchange
                         for exchange in self.sharding.exchanges}

    @property
    def array(self) -> Array | None:
        """The array whose links say which rings may go at once; None: all may."""
        return self.sharding.array

    @property
    def narrow(self) -> bool:
        """Whether the matrix engine reads numbers of 16 bits."""
        return self.parameters.packing > 1

    @property
    def scale(self) -> float:
        """Factor on errors and gradients in memory."""
        return loss_scale(self.parameters.multiply_format)

    @property
    def fixed_groups(self) -> int:
        """How many of the groups, the first ones, have a row of dies' group tables all along; if there are more than
        rows, those behind take turns in the last row."""
        return len(self.groups) if len(self.groups) <= GROUPS else GROUPS - 1

    def tasks(self, die: int, most: int | None = None) -> Iterator[Item]:
        """The tasks of a die, in program order; pieces of an operation in at most so many groups."""
        for operation in self.operations:
            yield from operation.tasks(die, most)

    def operations_of(self, *kinds: type[Selected]) -> Iterator[Selected]:
        """The operations of some kinds, and of kinds that extend them, in program order."""
        return (operation for operation in self.operations if isinstance(operation, kinds))

    def digest(self) -> str:
        """Hash what the step does to 64 hexadecimal digits: equal in every process and run, of the same version of the
        code."""
        sharding = self.sharding
        return digest(sharding.graph, sharding.splits, sharding.batch, sharding.factors, sharding.lists, sharding.rule,
                      self.parameters, self.places, self.zeros, self.constants, self.operations)

    def stages_of_dies(self) -> Integers:
        """The pipeline stage of every die; 0 where there are none."""
        return places(stage_levels(self.splits[0]), self.sharding.factors)

    def place_words(self) -> dict[str, int]:
        """Words of memory that each place takes on every die, of a stage on the dies of the one with most, for one
        step's inputs and targets."""
        beat = self.parameters.beat_words
        words = {place.name: (place.stage, -(-max(1, place.words) // beat) * beat) for place in self.places}
        stages = {stage for stage, _ in words.values()} - {None} or {None}
        totals = {stage: {name: count for name, (own, count) in words.items() if own in (None, stage)}
                  for stage in stages}
        return max(totals.values(), key=lambda total: sum(total.values()))

    def memory_words(self) -> int:
        """Words of memory that places take on every die, for one step's inputs and targets."""
        return sum(self.place_words().values())

    def place_bytes(self) -> dict[str, int]:
        """Bytes of memory that each place takes, as :meth:`place_words`."""
        return {name: self.parameters.word_bytes * words for name, words in self.place_words().items()}

    def memory_bytes(self) -> int:
        """Bytes of memory that places take on every die, for one step's inputs and targets."""
        return self.parameters.word_bytes * self.memory_words()

    def classes(self) -> list[Integers]:
        """Dies that have as many samples and channels of everything as each other, and whose rings go at the same time:
        they have the same tasks, but for where these lie and to whom they send."""
        parts = {(what.region, what.samples, what.channels): what.spans for what in self._tensors()}
        traits = [sizes for spans in parts.values() for sizes in (spans.samples, spans.channels)]
        traits += {(what.region, what.elements): what.counts for what in self._tensors() if isinstance(what, Tiles)
                   }.values()
        traits += [np.array(lookups.traffic.owned) for lookups in self.lookups.values()]
        going = dict.fromkeys((reduction.rings, reduction.going) for reduction in self.operations_of(between.Reduce)
                              if reduction.going is not None)
        traits += [np.array([rings.group(die) in some for die in range(self.dies)]) for rings, some in going]
        if not traits:
            return [np.arange(self.dies)]
        _, which = np.unique(np.array(traits), axis=1, return_inverse=True)
        which = which.reshape(-1)
        return [np.flatnonzero(which == number) for number in range(int(which.max()) + 1)]

    def realised(self) -> Realised:
        """The definition that tasks of an engine realise, by their names up to a bracket."""
        definitions: dict[tuple[Engine, str], ExchangeDefinition | ReductionDefinition] = {}
        for exchange in self.operations_of(between.Exchange):
            definitions[Engine.TRANSFER, exchange.name] = exchange.planned
        for moves in self.operations_of(RowPull, RowPush):
            definitions[Engine.TRANSFER, moves.name] = moves.planned
        for reduction in self.operations_of(between.Reduce):
            definitions[Engine.COLLECTIVE, reduction.name.split("[")[0]] = reduction.planned
        return definitions

    def held(self, die: int) -> int:
        """Elements of all tensors that a die has."""
        return sum(what.part(die).words for what in self._tensors())

    def _tensors(self) -> Iterator[Tensor]:
        for place in self.places:
            if isinstance(place.what, Tensor):
                yield place.what

    # Building.

    def reserve(self, what: Reserved, *, moves: bool = False) -> Reserved:
        """Reserve memory for a tensor or the like, for the micro-batch that is being built; with ``moves`` once for
        every step of an epoch: such a tensor of all micro-batches is one place."""
        words = what.place_words()
        if moves:
            assert isinstance(what, Tensor)
            beat = self.parameters.beat_words
            words = -(-words // beat) * beat if self.sharding.micro_batches > 1 else words
            if self.micro_batch:
                return replace(what, first_word=words * self.micro_batch)
            self.places.append(Place(what.name, words * self.sharding.micro_batches, moves, what))
            return what
        if self.micro_batch:
            what = cast("Reserved", replace(cast("Any", what), name=f"{what.name}@{self.micro_batch}"))
        self.places.append(Place(what.name, words, moves, what, self.stage))
        return what

    @property
    def last_micro_batch(self) -> bool:
        """Whether gradients are whole behind the micro-batch that is being built."""
        return self.micro_batch + 1 == self.sharding.micro_batches

    def add(self, operation: Operation) -> None:
        """Append an operation."""
        self.operations.append(operation)
        self.forwards.append(self.forward)

    def hold(self, operation: Chained) -> None:
        """Vector work for :meth:`release`."""
        self._chain.append(operation)

    def release(self, name: str) -> None:
        """Append what was held: a strip of images goes all its way before the next one."""
        if self._chain:
            self.add(Chain(name, tuple(self._chain)))
            self._chain = []

    def empty(self, source: Tensor, target: Tensor) -> None:
        """A die that has nothing of what it would make ``target`` of has zeros there."""
        def words(tensor: Tensor) -> Integers:
            return tensor.spans.samples * tensor.spans.channels

        dies = np.flatnonzero((words(source) == 0) & (words(target) > 0)).tolist()
        if dies:
            self.zeros.append(Clear(f"{target.name}.zero", None, self.parameters, OnDies(target, frozenset(dies)),
                                    self.any))

    def defined(self, node: Node, phase: str, kind: str, edge: int | None = None) -> ExchangeDefinition | None:
        """The definition of what moves of a node, along an edge or by itself; None: dies have it where it is needed."""
        return self._defined.get((node.name, phase, kind, edge))

    def named(self, planned: ExchangeDefinition) -> str:
        """How tasks that realise a definition are called, up to the receiver's number in brackets; no two definitions
        have one name."""
        name = f"{planned.layer}.{_TASKS[planned.phase, planned.kind]}" + (
            f".{planned.consumer}" if planned.consumer else "")
        number, first = 0, name
        while self._names.setdefault(name, planned) != planned:
            number += 1
            name = f"{first}#{number}"
        return name

    def exchange(self, planned: ExchangeDefinition, node: int, source: Tensor, targets: Sequence[Tensor],
                 slots: ProcessGroups | None = None, *, own: bool) -> None:
        """Every die sends what a definition says of its part of ``source`` to other dies' parts of a target: of that
        whose number is the sender's in its group, if there are several."""
        name, lists = self.named(planned), None
        if source.by_channel:
            lists = self.write_once(ExchangeLists(f"{name}.rows", source, targets[0]))
        self.add(between.Exchange(planned, name, node, self._exchange_of(planned, name), source, targets, slots, own,
                                  lists=lists))

    def _exchange_of(self, planned: ExchangeDefinition, name: str) -> int:
        """The number of an exchange: of all micro-batches one, where to each die one alone sends, whose tiles come in
        order."""
        sharding = self.sharding
        if sharding.micro_batches == 1 or int((sharding.words_between(planned) > 0).sum(axis=0).max()) > 1:
            return self.next_exchange()
        if name not in self._counted:
            self._counted[name] = self.next_exchange()
        return self._counted[name]

    def write_once(self, words: Written) -> Written:
        """Reserve memory for what the host writes once, on each die other words."""
        self.host_words.append(words)
        return self.reserve(words)

    def members(self, kind: str, number: int) -> ProcessGroups:
        """The groups of a node's dies, of a kind of :mod:`plinth.partition.groups`."""
        return self.sharding.groups(kind, number)

    def next_exchange(self) -> int:
        """The number of another exchange."""
        self.exchanges += 1
        return self.exchanges - 1

    @property
    def any(self) -> Buffer:
        """A place whose words do not matter."""
        return Buffer(JOIN.name, 0, 1, JOIN.words, JOIN.words)


def loss_scale(operands: Format) -> float:
    """Factor on errors where operands have 16 bits; a power of two, so that it rounds nothing: for fixed point what the
    format holds, so that the sum of a softmax's errors over a batch, at most 1, stays within it."""
    if isinstance(operands, Fixed):
        return 2.0**operands.integer_bits
    return 1.0 if operands.bits == 32 else LOSS_SCALE
