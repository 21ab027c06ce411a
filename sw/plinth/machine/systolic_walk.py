"""A product on the systolic array, walked through as the engine does it (docs/matrix.md): panels and tiles.

Each panel waits for its halves of the operand buffers, is loaded over the die's read channel, a beat a cycle, and is
multiplied once it is there; what lies along k comes in strips that the array follows, short ones while it waits. Tiles
drain into the output buffer and are stored meanwhile; loads and stores share memory's rate.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, prod
from typing import NamedTuple

from plinth.machine.memory import MEMORY_LATENCY, READ_LATENCY, ROWS_UNDER_WAY, row_beats_from
from plinth.machine.tiles import TASK_PERIOD
from plinth_hw.isa.parameters import DieParameters

#: Cycles from a task's start to its first request, and in which the sequencer makes the jobs of a panel: counted on
#: `ndp-demo`.
START, PANEL = 27, 4
#: Cycles from when a panel's loads are given out until the first strip is sized, and to its first request; from the end
#: of a panel's multiplication until its half has room; from the end of a tile's drain, beside the array's rows and
#: columns, to the first beat of its store; and of a store beside its beats.
SIZED, ASK, ROOM, STORE, STORED = 3, 13, 3, 13, 2
#: Panels of tasks of which one behind another shows what a row of them takes; rows of shorter ones differ in pairs, as
#: buffers have two halves.
LONG_TASK = 12


class ProductCost(NamedTuple):
    """Cycles of a task alone, of a further one in a row, the beats that it reads and writes, and its turns at memory:
    of each panel the requests of the operand that has more of them; those of the other are served in the same turns."""

    alone: float
    row: float
    reads: float
    writes: float
    turns: float


@dataclass(frozen=True)
class ProductShape:
    """A product as its task says it.

    Parameters
    ----------
    m, n, k : int
        Sizes.
    interleave_m_log2 : int
        Interleave shape.
    transpose_a, transpose_b : bool
        As of the task.
    a_run : int
        Elements of A that are neighbours in memory, of a convolution; 0: all of a row.
    a_step, b_step, c_step : int
        Rows begin at multiples of so many words, of those of a beat; 0: on beats.
    accumulate : bool
        Sums begin with what is in C: the drain of a tile and the load of the next go before that is multiplied.
    """

    m: int
    n: int
    k: int
    interleave_m_log2: int
    transpose_a: bool = False
    transpose_b: bool = False
    a_run: int = 0
    a_step: int = 0
    b_step: int = 0
    c_step: int = 0
    accumulate: bool = False

    def spans(self, parameters: DieParameters) -> dict[str, int]:
        """Rows and columns of a tile, and k steps of a panel."""
        tile_m = parameters.rows << self.interleave_m_log2
        tile_n = parameters.columns * (parameters.interleave >> self.interleave_m_log2)
        return {"m": tile_m, "n": tile_n,
                "k": parameters.packing * parameters.operand_buffer_words // max(tile_m, tile_n)}

    def panels(self, loops: Iterable[tuple[str, int]]) -> int:
        """Panels of loops over some sizes, one within the other, each in turns of a span."""
        return prod(ceil(getattr(self, name) / span) for name, span in loops)


class _Strip(NamedTuple):
    """k steps of a panel that come together or one by one, beats of all of them and cycles in which they come alone."""

    steps: int
    beats: float
    cycles: float


class _There(NamedTuple):
    """k steps of a panel, and when the first and the last of them are there."""

    steps: int
    first: float
    last: float


class _Array:
    """When the array waits for operands, and until when it multiplies."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.end = 0.0
        #: While it multiplied its last panel, when it waited for operands.
        self.waits: list[tuple[float, float]] = []

    def hurried(self, time: float) -> bool:
        """Whether the array waits for operands, or multiplies the last k step of those that have come."""
        return time >= self.end - self.slots or any(begin <= time < end for begin, end in self.waits)

    def multiply(self, there: list[_There], least: float) -> None:
        """Multiply a panel whose steps come so, none before ``least``."""
        self.waits = []
        for steps, first, last in there:
            begin = max(self.end, least)
            if first > begin:
                self.waits.append((self.end, first))
                # It takes up a step every ``slots`` cycles.
                begin = first + self.slots / 2
            self.end = max(begin + steps * self.slots, last + self.slots)


class _Load:
    """One operand's buffer; ``beat`` elements a beat."""

    def __init__(self, along_k: bool, step: int, run: int, beat: int) -> None:
        self.along_k, self.step, self.run, self.beat = along_k, step or beat, run, beat
        self.half = 0
        self.released = [0.0, 0.0]
        self.there: list[list[_There]] = [[], []]
        #: When the last strip was asked for.
        self._asked = 0.0

    def _row(self, start: int, columns: int) -> tuple[float, float]:
        """Beats of some columns of a row, and cycles: a request takes at least as long as rows under way hide
        latency."""
        beats = cycles = 0.0
        while columns:
            at = start % self.run if self.run else start
            size = min(columns, self.run - at) if self.run else columns
            more = row_beats_from(at, size, self.beat, self.step)
            beats, cycles = beats + more, cycles + max(more, READ_LATENCY / ROWS_UNDER_WAY)
            start, columns = start + size, columns - size
        return beats, cycles

    def ask(self, given: float, begin: float, array: _Array, span: int, at: int, k: int, steps: int) -> list[_Strip]:
        """Parts in which a panel of ``steps`` from ``k`` on, of ``span`` elements from ``at`` on, is loaded from
        ``begin`` on; it was given out before. Strips are sized as if nobody else used the channel."""
        if not self.along_k:
            beats, cycles = self._row(at, span)
            return [_Strip(steps, steps * beats, steps * cycles)]
        parts, done = list[_Strip](), 0
        # A strip is sized as the one before is asked for.
        sized, asked = max(given, self._asked), begin
        while done < steps:
            size = min(steps - done, (done or self.beat) if array.hurried(sized) else steps)
            if self.run:
                size = min(size, self.run - (k + done) % self.run)
            beats, cycles = self._row(k + done, size)
            parts.append(_Strip(size, span * beats, span * cycles))
            sized, asked, done = asked, asked + span * cycles, done + size
        self._asked = sized
        return parts

    def turns(self, parts: list[_Strip], span: int) -> int:
        """Requests by which a panel of ``span`` rows or columns is loaded: one a row of each strip, or one a k step."""
        return span * len(parts) if self.along_k else parts[0].steps

    def arrive(self, begin: float, parts: list[_Strip], late: float) -> None:
        """The parts arrive: the last steps ``late`` cycles later than alone, those before at the pace that follows, or,
        if these are few, with half of the channel."""
        there, cycles = list[_There](), 0.0
        pace = max(1.0, late / sum(part.cycles for part in parts))
        for steps, _, more in parts:
            first = cycles + (more if self.along_k else more / steps)
            cycles += more
            there.append(_There(steps, *(begin + READ_LATENCY + time + min(pace * time, late)
                                         for time in (first, cycles))))
        self.there[self.half] = there

    def when(self, begin: int, end: int) -> tuple[float, float]:
        """When the first and last of some steps are there."""
        at, first, last = 0, 0.0, 0.0
        for steps, arrives, arrived in self.there[self.half]:
            if at <= begin < at + steps:
                each = 0.0 if self.along_k or steps == 1 else (arrived - arrives) / (steps - 1)
                first, last = arrives + (begin - at) * each, arrives + (end - 1 - at) * each
            at += steps
        return first, last


def _both(a: _Load, b: _Load) -> list[_There]:
    """Steps of a panel as both operands have come."""
    one, other = a.there[a.half], b.there[b.half]
    if len(one) == len(other) == 1:
        return [_There(one[0].steps, max(one[0].first, other[0].first), max(one[0].last, other[0].last))]
    ends = sorted({sum(part.steps for part in there[:number + 1]) for there in (one, other)
                   for number in range(len(there))})
    return [_There(end - begin, *map(max, a.when(begin, end), b.when(begin, end)))
            for begin, end in zip((0, *ends), ends, strict=False)]


@dataclass
class _Store:
    """A tile's store: the cycle of its first beat, and the one behind its last."""

    begin: float
    end: float


class _Memory:
    """What loads and stores of a product take from each other: memory moves ``rate`` beats a cycle, reads and writes
    together, and serves both in turn; each has a channel of a beat a cycle. Loads that were walked before a store are
    as they were: mostly it comes behind them. What sums begin with is counted, and has the array's exchange to come in.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        #: When the read channel is free.
        self.free = 0.0
        #: Of the last tiles: those before have been stored when something more is loaded.
        self.stores = [_Store(0.0, 0.0) for _ in range(4)]
        #: Of the last loads, begin, end and beats a cycle.
        self._loads: list[tuple[float, float, float]] = []

    def _meet(self, load: tuple[float, float, float], store: _Store) -> tuple[float, float]:
        """Ends of a load and a store that go on side by side."""
        begin, end, pace = load
        since = max(begin, store.begin)
        if since >= min(end, store.end) or pace + 1 <= self.rate:
            return end, store.end
        half = self.rate / 2
        slow, stored = (pace, self.rate - pace) if pace <= half else (half, half)
        left, beats = (end - since) * pace, store.end - since
        both = min(left / slow, beats / stored)
        return since + both + (left - both * slow) / pace, since + both + beats - both * stored

    def load(self, begin: float, cycles: float, beats: float) -> float:
        """A load of some beats begins, and takes some cycles alone; how many more beside stores."""
        end, pace, before = begin + cycles, beats / cycles, 0.0
        for store in self.stores:
            # Later ones are behind those that take longer.
            later = max(0.0, before - store.begin)
            store.begin, store.end = store.begin + later, store.end + later
            end, store.end = self._meet((begin, end, pace), store)
            before = store.end
        self._loads = [*self._loads[-3:], (begin, end, pace)]
        self.free = end
        return end - begin - cycles

    def store(self, begin: float, beats: float) -> None:
        """A tile is stored behind the one before."""
        begin = max(self.stores[-1].end, begin)
        store = _Store(begin, begin + beats + STORED)
        for load in self._loads:
            store.end = self._meet(load, store)[1]
        self.stores = [*self.stores[1:], store]


class ProductWalk:
    """A walk through tasks of one product in a row.

    Parameters
    ----------
    slow : float
        Cycles of a beat that is read: more than one where others use the channel.
    """

    def __init__(self, parameters: DieParameters, product: ProductShape, slow: float) -> None:
        self.parameters, self.product, self.slow = parameters, product, slow
        packing = parameters.packing
        self.spans = product.spans(parameters)
        beat = parameters.beat_words * packing
        self.resident, self.several = product.k <= 2 * self.spans["k"], product.k > self.spans["k"]
        self.single = product.n <= self.spans["n"]
        self.a = _Load(not product.transpose_a, packing * product.a_step, product.a_run, beat)
        self.b = _Load(product.transpose_b, packing * product.b_step, 0, beat)
        self.array = _Array(parameters.interleave)
        self.memory = _Memory(float(parameters.memory_words_per_cycle) / parameters.beat_words)
        self.issue, self.drained = float(START - ASK), 0.0
        self.reads = self.writes = self.turns = 0.0

    def cost(self) -> ProductCost:
        """Walk, and tell what a task takes."""
        pair = 2 if self.product.panels(self.spans.items()) < LONG_TASK else 1
        ends = [self._task() for _ in range(2 * pair)]
        reads, writes, turns = (amount / len(ends) for amount in (self.reads, self.writes, self.turns))
        row = max((ends[-1] - ends[pair - 1]) / pair, (reads + writes) / self.memory.rate)
        return ProductCost(max(ends[0], row), row, reads, writes, turns)

    def _task(self) -> float:
        """Walk the tiles of one task, and tell the cycle of its last write response."""
        product, spans = self.product, self.spans
        for m0 in range(0, product.m, spans["m"]):
            for n0 in range(0, product.n, spans["n"]):
                self._tile(m0, min(spans["m"], product.m - m0), n0, min(spans["n"], product.n - n0))
        self.issue += TASK_PERIOD
        return self.memory.stores[-1].end + MEMORY_LATENCY

    def _tile(self, m0: int, rows: int, n0: int, columns: int) -> None:
        parameters, product, array, memory = self.parameters, self.product, self.array, self.memory
        for k0 in range(0, product.k, self.spans["k"]):
            self._panel(m0, rows, n0, columns, k0, min(self.spans["k"], product.k - k0))
        two = parameters.output_buffer_words >= 2 * parameters.tile_words
        array.end = max(array.end, self.drained, memory.stores[-2 if two else -1].end)
        self._release()
        self.drained = array.end + parameters.rows * array.slots
        beats = rows * row_beats_from(n0, columns, parameters.beat_words, product.c_step or parameters.beat_words)
        self.writes += beats
        self.reads += beats * product.accumulate
        memory.store(self.drained + parameters.rows + parameters.columns + STORE, beats)

    def _panel(self, m0: int, rows: int, n0: int, columns: int, k0: int, steps: int) -> None:
        # A panel's loads are given out together, once there is room for all.
        self.issue += PANEL
        loads = list[tuple[_Load, int, int]]()
        for load, span, at, stays in ((self.a, rows, m0, self.resident and n0 > 0),
                                      (self.b, columns, n0, self.resident and self.single and m0 > 0)):
            load.half ^= int(self.several or not stays)
            if not stays:
                self.issue = max(self.issue, load.released[load.half] + ROOM)
                loads.append((load, span, at))
        if loads:
            self._loaded(loads, k0, steps)
        least = self.array.end
        if self.product.accumulate and not k0:
            least += (self.parameters.rows + 1) * self.array.slots
        self.array.multiply(_both(self.a, self.b), least)
        self._release()

    def _loaded(self, loads: list[tuple[_Load, int, int]], k0: int, steps: int) -> None:
        """Operands come, each as fast as it may; together they take turns at the channel."""
        begin = max(self.issue + ASK, self.memory.free)
        asked = [(load, span, load.ask(self.issue + SIZED, begin, self.array, span, at, k0, steps))
                 for load, span, at in loads]
        beats, times = ([sum(part[field] for part in parts) for *_, parts in asked] for field in (1, 2))
        whole = max(self.slow * sum(beats), *times)
        more = self.memory.load(begin, whole, sum(beats))
        for (load, _, parts), mine, time in zip(asked, beats, times, strict=True):
            until = whole if time == max(times) else max(time, self.slow * min(2 * mine, sum(beats)))
            load.arrive(begin, parts, until - time + more)
        self.reads += sum(beats)
        self.turns += max(load.turns(parts, span) for load, span, parts in asked)

    def _release(self) -> None:
        """The halves in use are free when the array ends."""
        for load in (self.a, self.b):
            load.released[load.half] = self.array.end
