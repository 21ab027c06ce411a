"""A step in numpy: its operations on whole parts of dies, of all dies or of those of one process among several.

Operations are done in the step's order, but for errors that other dies need (:mod:`plinth.runtime.order`), of all dies
of the process one after the other. What goes to other processes is sent as soon as it is made; what comes is waited for
where it is touched first, and rings of sums go on meanwhile, an operation at a time. Products of sparse layers begin
with what needs no rows of other dies (:mod:`plinth.runtime.halos`). Results agree with the golden model's to rounding,
as sums of products go in the order of the kernels' own (``tests/sw/runtime``: each element of weights within 1e-4 of
the largest after three steps); they are the same in any number of processes. What dies leave out of predicted gathers
and skipped scatters is sent here: it is what a ReLU makes 0.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.runtime.crossings import MOVES, ArrivingMessage, Moves
from plinth.runtime.kernels import KERNELS, DieKernels
from plinth.runtime.lookups import ArrivingRows, LookupMoves
from plinth.runtime.memory import Floats, Kernel, Memory
from plinth.runtime.overlay import Overlay, summed_slots, touched
from plinth.runtime.rings import (
    AllReduce,
    Ends,
    Incoming,
    LibraryPasses,
    MemberRows,
    Outgoing,
    OwnerChunks,
    Pass,
    RingPasses,
)
from plinth.runtime.slot_sums import SlotSum
from plinth.runtime.tiles import NumberedRows
from plinth.step import between, operations
from plinth.step import tile_operations as tiled
from plinth.step.layers.sparse import SparseProducts
from plinth.step.row_moves import RowPull, RowPush
from plinth.step.step import Step
from plinth.step.tasks import FPROP, Phase
from plinth_hw.isa.formats import FP32

#: Addresses of bytes: the first, and the one behind the last.
Span = tuple[int, int]


class Processes(Ends, Protocol):
    """The other processes of a run."""

    def all_reduce(self, ranks: Sequence[int], words: int) -> AllReduce | None:
        """A sum over some processes, this one among them, by their library; None: it is for rings to make."""
        ...

    @property
    def expected(self) -> int:
        """Messages that come in a step, as far as they are said."""
        ...

    def begin(self, messages: Sequence[int] | None = None) -> None:
        """Begin a step, or a part of it in which messages of these numbers come: what was sent is gone, and these may
        come."""
        ...

    def wait(self, done: Callable[[], bool]) -> None:
        """Return once something is done, which is asked again and again.

        Raises
        ------
        UserError
            If another process has ended, or nothing comes for too long.
        """
        ...


class Alone:
    """The processes of a run of one: there are no others."""

    def all_reduce(self, ranks: Sequence[int], words: int) -> None:
        """None: rings of one process need no library."""

    expected = 0

    def begin(self, messages: Sequence[int] | None = None) -> None:
        """Do nothing: nothing is sent, and nothing comes."""

    def wait(self, done: Callable[[], bool]) -> None:
        """Refuse to wait, since nobody else does anything."""
        raise AssertionError("what is to be waited for depends on no other process")

    def incoming(self, rank: int, tag: int, words: int, place: Floats | None = None) -> Incoming:
        """Refuse a message from another process, since there is none."""
        raise AssertionError("there is no other process")

    def outgoing(self, rank: int, tag: int, words: int) -> Outgoing:
        """Refuse a message to another process, since there is none."""
        raise AssertionError("there is no other process")


class _Pending(Protocol):
    """What other processes take part in, from where it is begun in a step until it is done."""

    #: What it reads and writes, if it depends on another process.
    touched: Sequence[Span]

    def begin(self) -> None:
        """Begin it."""
        ...

    def advance(self) -> bool:
        """Go on as far as that goes without waiting; whether it is done."""
        ...


class _Arrival:
    """A message of another process."""

    def __init__(self, message: ArrivingMessage | ArrivingRows, *, unpacked: bool = True) -> None:
        self._message, self._unpacked = message, unpacked
        self.touched: Sequence[Span] = [
            byte_bounds(place.matrix if isinstance(place, NumberedRows) else place) for _, _, place in message.places]

    def begin(self) -> None:
        """Nothing: it comes by itself."""

    def advance(self) -> bool:
        """Whether it has come, and lies where it belongs."""
        if not self._message.incoming.arrived():
            return False
        if self._unpacked:
            self._message.unpack()
        return True


class _Ring:
    """A message of a ring."""

    def __init__(self, passes: RingPasses | LibraryPasses, rows: Sequence[MemberRows | None]) -> None:
        self._passes = passes
        self._pass: Pass | None = None
        self.touched: Sequence[Span] = [] if None not in rows else [
            byte_bounds(words) for row in rows if row is not None for words in row]

    def begin(self) -> None:
        """Begin a pass, as far as that goes without waiting."""
        self._pass = self._passes.begin()
        self._awaited = next(self._pass, None)

    def advance(self) -> bool:
        """Go on as far as that goes without waiting; whether it is done."""
        assert self._pass is not None
        while self._awaited is not None:
            if not self._awaited.arrived():
                return False
            self._awaited = next(self._pass, None)
        return True


class _Stage(NamedTuple):
    """An operation, or a part of one: what has to be done before, what it does, and what it begins."""

    due: list[_Pending]
    kernels: list[Kernel]
    begun: list[_Pending]


class NumpyStep:
    """The operations of a step as numpy kernels and messages, ready to run any number of times.

    Parameters
    ----------
    step : Step
        Of dies of FP32.
    overlay : Overlay
        Where places of the dies of this process lie.
    ranks : sequence of int
        The process of each die.
    own : int
        This process.
    processes : Processes
        The others, if there are any.

    Raises
    ------
    UserError
        If dies compute in another format, or keep states in 16 bits.
    """

    def __init__(self, step: Step, overlay: Overlay, ranks: Sequence[int], own: int,
                 processes: Processes | None = None) -> None:
        if (step.parameters.multiply_format, step.parameters.memory_format) != (FP32, FP32):
            raise UserError(f"numpy computes in FP32, dies of preset {step.parameters.name!r} do not; choose a machine "
                            "of format=fp32, or another device")
        self._step = step
        self._ranks = ranks
        self._processes = processes or Alone()
        dies = [die for die, rank in enumerate(self._ranks) if rank == own]
        self.memories = {die: Memory(step, overlay, die) for die in dies}
        #: Sums of slots that are made without them, by exchange and by sum; what is moved to be summed.
        slots = summed_slots(step)
        self._summed = {id(exchange): (exchange, total) for exchange, total in slots.values()}
        self._sums = {id(total): id(exchange) for exchange, total in slots.values()}
        self._slot_moves: dict[int, Moves] = {}
        self._halos = overlay.halos
        self._halo_of = {id(halo.exchange): halo for halo in self._halos.values()}
        #: Products that begin with rows of the dies themselves.
        divided = {id(products): products for products in step.operations_of(SparseProducts)
                   if products.direction == FPROP and products.x.side.tensor.name in self._halos}
        self._kernels = DieKernels(step, self.memories, self._halos)
        self._rate = step.rule.scaled(step.scale).rate
        self._tags = 0
        self._stages: list[_Stage] = []
        #: The operation of each stage.
        self._operations: list[operations.Operation] = []
        #: Of what other processes take part in, what no stage waits for yet.
        self._left: list[_Pending] = []
        #: Stages of fprop and loss, and numbers of messages that come in them.
        self._forward: list[_Stage] = []
        self._forward_messages: list[int] = []
        for whole, forward in zip(overlay.operations, step.forwards, strict=True):
            before = self._processes.expected
            if id(whole) in divided:
                stages = [_Stage([], kernels, []) for kernels in self._kernels.sparse_parts(divided[id(whole)])]
                self._put_off(stages[:1], self._touched(whole, own=True))
                self._put_off(stages[1:], self._touched(whole))
                self._operations += [whole] * len(stages)
            else:
                flat = list(_flat(whole))
                stages = [self._stage(operation) for operation in flat]
                self._put_off(stages, self._touched(whole))
                self._operations += flat
            self._stages += stages
            if forward:
                self._forward += stages
                self._forward_messages += range(before, self._processes.expected)
        #: What was begun and is not done.
        self._active: list[_Pending] = []

    def run(self) -> None:
        """Run one step on the inputs and targets that lie in memory.

        Raises
        ------
        UserError
            As :meth:`Processes.wait`.
        """
        self._processes.begin()
        self._run(self._stages)

    def predict(self) -> None:
        """Run fprop and loss alone, on the inputs that lie in memory: predictions are those of a step.

        Raises
        ------
        UserError
            As :meth:`Processes.wait`.
        """
        self._processes.begin(self._forward_messages)
        self._run(self._forward)

    def timed(self) -> list[tuple[operations.Operation, float]]:
        """Run one step, as :meth:`run` does, and tell what its operations take.

        Returns
        -------
        list of (Operation, float)
            Operations in their order, those within chains by themselves, each with its seconds: from the end of the one
            before to its own end, with what it waits for.

        Raises
        ------
        UserError
            As :meth:`Processes.wait`.
        """
        marks = [time.perf_counter()]
        self._processes.begin()
        self._run(self._stages, lambda: marks.append(time.perf_counter()))
        return [(operation, end - start) for operation, (start, end) in zip(self._operations, pairwise(marks),
                                                                            strict=True)]

    def _run(self, stages: Sequence[_Stage], ended: Callable[[], object] = lambda: None) -> None:
        """Run stages; ``ended`` is called behind each."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            for stage in stages:
                self._finish(stage.due)
                for kernel in stage.kernels:
                    kernel()
                for pending in stage.begun:
                    pending.begin()
                self._active += stage.begun
                self._advance()
                ended()
            self._finish(self._active)

    def _advance(self) -> None:
        self._active[:] = [pending for pending in self._active if not pending.advance()]

    def _finish(self, pendings: Iterable[_Pending]) -> None:
        """Wait for some of what was begun; all of it goes on meanwhile, for other processes may wait for that."""
        awaited = set(map(id, pendings))

        def done() -> bool:
            self._advance()
            return not any(id(pending) in awaited for pending in self._active)

        if awaited and not done():
            self._processes.wait(done)

    # Making ready.

    def _next_tags(self, count: int = 1) -> int:
        """The first of as many new tags, in all processes the same."""
        self._tags += count
        return self._tags - count

    def _stage(self, operation: operations.Operation) -> _Stage:
        """An operation of :func:`_flat`."""
        if type(operation) not in STAGES:
            raise UserError(f"numpy has no kernel for {type(operation).__name__} ({operation.name!r}); choose another "
                            "device")
        return STAGES[type(operation)](self, operation)

    def _reduced(self, reduction: between.Reduce) -> _Stage:
        """Make the stage of a message of rings."""
        return _Stage([], [], list(self._rings(reduction)))

    def _moved(self, operation: operations.Operation) -> _Stage:
        """Make the stage of an operation of :data:`~plinth.runtime.crossings.MOVES`."""
        moves = Moves(operation, self.memories, self._ranks, self._processes, self._next_tags(),
                      self._halo_of.get(id(operation)))
        summed = id(operation) in self._summed
        if summed:
            self._slot_moves[id(operation)] = moves
        arrivals: list[_Pending] = [_Arrival(message, unpacked=not summed) for message in moves.messages]
        kernels = moves.packing + [message.send for message in moves.sent]
        return _Stage([], kernels if summed else kernels + moves.copies, arrivals)

    def _looked_up(self, operation: RowPull | RowPush) -> _Stage:
        """Make the stage of rows between owners and workers."""
        moves = LookupMoves(operation, self.memories, self._ranks, self._processes, self._next_tags())
        return _Stage([], moves.kernels, [_Arrival(message) for message in moves.messages])

    def _done(self, operation: operations.Operation) -> _Stage:
        """Make the stage of what dies do for themselves; a sum of slots that are not made adds what was moved."""
        if id(operation) in self._sums:
            exchange, total = self._summed[self._sums[id(operation)]]
            return _Stage([], SlotSum(exchange, total, self.memories, self._slot_moves[id(exchange)]).kernels, [])
        return _Stage([], list(self._kernels.of(operation)), [])

    def _rings(self, reduction: between.Reduce) -> Iterator[_Pending]:
        """A message of each ring that has members here."""
        for ring in reduction.rings.members:
            tag, words, ranks = self._next_tags(len(ring)), reduction.words(ring[0]), [self._ranks[die] for die in ring]
            rows = [self._rows(reduction, die) if die in self.memories else None for die in ring]
            own = [row for row in rows if row is not None]
            if words and own and reduction.message(ring[0]) is not None:
                rate = self._rate * reduction.piece.rate(reduction.target.slice(ring[0]))
                library = (self._processes.all_reduce(ranks, words)
                           if len(own) < len(ring) and reduction.phase is not Phase.GATHER else None)
                if library is not None:
                    yield _Ring(LibraryPasses(reduction.phase is Phase.UPDATE, rate, own, library), rows)
                    continue
                blocks = OwnerChunks(words, reduction.parameters.chunk_words, len(ring))
                yield _Ring(RingPasses(reduction.phase, rate, blocks, rows, ranks, self._processes, tag), rows)

    def _rows(self, reduction: between.Reduce, die: int) -> MemberRows:
        first, words = reduction.piece.words(reduction.parameters, reduction.target.slice(die))
        source, target = (self.memories[die].view(weights.buffer(die))[0, first:first + words]
                          for weights in (reduction.source, reduction.target))
        return MemberRows(source, target)

    def _put_off(self, stages: list[_Stage], touched: Iterable[Span]) -> None:
        """Note what stages of an operation that touch so much have to wait for: the first one for what was begun before
        and touches the same words, unless an earlier one has waited for it; each other one for the one before."""
        if self._left:
            spans = np.array(list(touched)).reshape(-1, 2)
            due = [pending for pending in self._left if _overlap(pending.touched, spans)]
            stages[0].due.extend(due)
            self._left = [pending for pending in self._left if pending not in due]
        for before, behind in pairwise(stages):
            behind.due.extend(before.begun)
        self._left += [pending for pending in stages[-1].begun if pending.touched]

    def _touched(self, operation: operations.Operation, *, own: bool = False) -> Iterator[Span]:
        """What an operation reads and writes on the dies of this process; ``own``: of what products read, no rows of
        other dies."""
        for die, memory in self.memories.items():
            for buffer in touched(operation, die):
                halo = self._halos.get(buffer.place)
                if halo is not None:
                    buffer = halo.dies[die].source if own else halo.dies[die].rows
                yield byte_bounds(memory.view(buffer))


def _flat(operation: operations.Operation) -> Iterator[operations.Operation]:
    """Operations one behind the other of what dies do strip by strip."""
    yield from PARTS[type(operation)](operation) if type(operation) in PARTS else (operation,)


#: For each kind of operation that goes strip by strip on dies what it is made of.
PARTS: dict[type, Callable[[Any], Iterable[operations.Operation]]] = {
    operations.Chain: lambda chain: chain.members, tiled.InStrips: lambda whole: whole.parts}
#: For each kind of operation but these what numpy makes of it.
STAGES: dict[type, Callable[[NumpyStep, Any], _Stage]] = {
    between.Reduce: NumpyStep._reduced, **dict.fromkeys((RowPull, RowPush), NumpyStep._looked_up),
    **dict.fromkeys(MOVES, NumpyStep._moved),
    **dict.fromkeys(KERNELS, NumpyStep._done)}


def _overlap(spans: Sequence[Span], touched: NDArray[np.int64]) -> bool:
    """Whether any of some spans overlap any of others ``[number, 2]``."""
    return any(np.any((touched[:, 0] < end) & (touched[:, 1] > first)) for first, end in spans)
