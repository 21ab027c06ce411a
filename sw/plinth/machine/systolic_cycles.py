"""Cycles of a product on the systolic array: its tiles and panels walked through as the engine does (docs/matrix.md).

Each panel waits for its half of the operand buffers, is loaded over the die's read channel, a beat a cycle, and is
multiplied once it is there; what lies along k comes in pieces that the array follows. Tiles drain into the output
buffer and are stored meanwhile. Long products are not walked to their end: every loop of more than :data:`WALKED` turns
goes on as its last turn did.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from plinth.machine.memory import MEMORY_LATENCY, READ_LATENCY, ROWS_UNDER_WAY
from plinth.machine.tiles import TASK_PERIOD, interleave_m_log2, tile_shape
from plinth_hw.isa.parameters import DieParameters

#: Cycles from a task's start to its first request, and in which the sequencer makes the jobs of a panel: counted on
#: `ndp-demo`.
START, PANEL = 27, 4
#: Turns of each loop that are walked.
WALKED = 4


class ProductCost(NamedTuple):
    """Cycles of a task alone, of a further one in a row, and the beats that it reads and writes."""

    alone: float
    row: float
    reads: float
    writes: float


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
    a_aligned, b_aligned, c_aligned : bool
        Rows begin on beats.
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
    a_aligned: bool = True
    b_aligned: bool = True
    c_aligned: bool = True
    accumulate: bool = False


def shape(parameters: DieParameters, product: str, m: int, n: int, k: int, run: int) -> ProductShape:
    """A product of m x k and k x n as lowering makes its task; matrices lie row behind row.

    Parameters
    ----------
    product : str
        "fprop", "bprop" or "update", with "convolution-" before it if it is one.
    run : int
        Elements of a window that lie next to each other; 0 of a fully connected layer.
    """
    transpose_a, transpose_b = product.endswith("update"), product.endswith("bprop")

    def aligned(columns: int, packing: int = parameters.packing) -> bool:
        return ceil(columns / packing) % parameters.beat_words == 0

    log2 = tile_shape(parameters, m, n)[1] if run else interleave_m_log2(parameters, m, n)
    return ProductShape(m, n, k, log2, transpose_a, transpose_b, run, aligned(run or (m if transpose_a else k)),
                        aligned(k if transpose_b else n), aligned(n, 1))


@lru_cache(maxsize=1 << 16)
def cost(parameters: DieParameters, product: ProductShape) -> ProductCost:
    """Cycles and beats of a product if nothing else uses the memory."""
    depth = parameters.interleave
    tile_m = parameters.rows << product.interleave_m_log2
    tile_n = parameters.columns * (depth >> product.interleave_m_log2)
    packing = parameters.packing
    panel = packing * parameters.operand_buffer_words // max(tile_m, tile_n)
    return _extend(parameters, product, [("m", tile_m), ("n", tile_n), ("k", panel)])


def _extend(parameters: DieParameters, product: ProductShape, loops: list[tuple[str, int]]) -> ProductCost:
    """The walk, with the loops that are too long cut, and what was cut added at the pace of the last turn."""
    if not loops:
        return _walk(parameters, product)
    (name, span), rest = loops[0], loops[1:]
    size = getattr(product, name)
    turns = ceil(size / span)
    if turns <= WALKED:
        return _extend(parameters, product, rest)
    short = size - (turns - WALKED) * span
    longer = _extend(parameters, replace(product, **{name: short}), rest)
    shorter = _extend(parameters, replace(product, **{name: short - span}), rest)
    return ProductCost(*(last + (turns - WALKED) * (last - before)
                         for last, before in zip(longer, shorter, strict=True)))


def _beats(columns: int, beat: int, aligned: bool) -> float:
    """Beats of neighbouring elements."""
    return ceil(columns / beat) if aligned else (columns - 1 + beat) / beat


def _runs(start: int, columns: int, beat: int, aligned: bool, run: int) -> tuple[float, float]:
    """Beats of some columns of a row, and cycles: a request takes at least as long as rows under way hide latency."""
    beats = cycles = 0.0
    while columns:
        size = min(columns, run - start % run) if run else columns
        run_beats = _beats(size, beat, aligned)
        beats, cycles = beats + run_beats, cycles + max(run_beats, READ_LATENCY / ROWS_UNDER_WAY)
        start, columns = start + size, columns - size
    return beats, cycles


def _pieces(start: int, steps: int, beat: int, run: int, hurry: bool) -> list[int]:
    """Pieces in which steps that are neighbours in memory are loaded."""
    done, pieces = 0, list[int]()
    while done < steps:
        size = min(steps - done, (done or beat) if hurry else steps)
        if run:
            size = min(size, run - (start + done) % run)
        pieces.append(size)
        done += size
    return pieces


class _Load:
    """One operand's buffer; ``beat`` elements a beat, ``slots`` cycles a k step."""

    def __init__(self, along_k: bool, aligned: bool, run: int, beat: int, slots: int):
        self.along_k, self.aligned, self.run, self.beat, self.slots = along_k, aligned, run, beat, slots
        self.half = 0
        self.released = [0.0, 0.0]
        #: When the first steps of a half are there, and when all can have been multiplied.
        self.first = [0.0, 0.0]
        self.last = [0.0, 0.0]

    def load(self, begin: float, feed: float, span: int, at: int, k: int, steps: int) -> tuple[float, float]:
        """Load a panel of ``steps`` from ``k`` on, of ``span`` elements from ``at`` on, into the half; the array is
        busy until ``feed``. Cycles that the channel is held for, and beats."""
        if self.along_k:
            pieces = _pieces(k, steps, self.beat, self.run, begin + 8 > feed)
            place, costs, beats = k, list[float](), 0.0
            for piece in pieces:
                moved, cycles = _runs(place, piece, self.beat, self.aligned, self.run)
                costs.append(span * cycles)
                beats += span * moved
                place += piece
            first, tail = costs[0], pieces[-1] * self.slots if len(pieces) > 1 else 0
        else:
            moved, cycles = _runs(at, span, self.beat, self.aligned, self.run)
            costs, beats = [steps * cycles], steps * moved
            first, tail = 1, self.slots
        held = sum(costs)
        self.first[self.half] = begin + READ_LATENCY + first
        self.last[self.half] = begin + held + READ_LATENCY + tail
        return held, beats


def _walk(parameters: DieParameters, product: ProductShape) -> ProductCost:
    packing = parameters.packing
    beat, slots = parameters.beat_words * packing, parameters.interleave
    tile_m = parameters.rows << product.interleave_m_log2
    tile_n = parameters.columns * (slots >> product.interleave_m_log2)
    panel = packing * parameters.operand_buffer_words // max(tile_m, tile_n)
    resident, single, several = product.k <= 2 * panel, product.n <= tile_n, product.k > panel
    two = parameters.output_buffer_words >= 2 * parameters.tile_words
    a = _Load(not product.transpose_a, product.a_aligned, product.a_run, beat, slots)
    b = _Load(product.transpose_b, product.b_aligned, 0, beat, slots)
    feed = channel = drained = 0.0
    stores, ends, reads, writes = [0.0, 0.0], list[float](), 0.0, 0.0
    tasks = 3
    issue = float(START)
    for _ in range(tasks):
        for m0 in range(0, product.m, tile_m):
            rows = min(tile_m, product.m - m0)
            for n0 in range(0, product.n, tile_n):
                columns = min(tile_n, product.n - n0)
                for k0 in range(0, product.k, panel):
                    steps = min(panel, product.k - k0)
                    issue += PANEL
                    start, limit = feed, 0.0
                    if product.accumulate and not k0:
                        start += (parameters.rows + 1) * slots
                    for load, span, at, needed in ((a, rows, m0, not (resident and n0)),
                                                   (b, columns, n0, not (resident and single and m0))):
                        load.half ^= int(needed or several)
                        half = load.half
                        if needed:
                            begin = max(issue, load.released[half], channel)
                            held, beats = load.load(begin, feed, span, at, k0, steps)
                            channel, reads = begin + held, reads + beats
                        start, limit = max(start, load.first[half]), max(limit, load.last[half])
                    feed = max(start + steps * slots, limit)
                    for load in (a, b):
                        load.released[load.half] = feed
                feed = max(feed, drained, stores[0] if two else stores[1])
                drained = feed + parameters.rows * slots
                beats = rows * _beats(columns, parameters.beat_words, product.c_aligned)
                writes += beats
                reads += beats * product.accumulate
                begin = max(stores[1], feed + parameters.rows + parameters.columns + 21)
                stores = [stores[1], begin + max(beats + 8, parameters.rows * slots)]
        ends.append(stores[1] + MEMORY_LATENCY)
        issue += TASK_PERIOD
    reads, writes = reads / tasks, writes / tasks
    memory = (reads + writes) * parameters.beat_words / float(parameters.memory_words_per_cycle)
    row = max(ends[-1] - ends[-2], memory)
    return ProductCost(max(ends[0], row), row, reads, writes)


def matrix_formula(parameters: DieParameters, m: int, n: int, k: int, run: int = 0, product: str = "fprop"
                   ) -> tuple[float, float]:
    """Cycles of one product on a systolic die alone, and of a further one in a row.

    Parameters
    ----------
    run : int
        Elements of the first operand that lie next to each other; 0: all.
    """
    return cost(parameters, shape(parameters, product, m, n, k, run))[:2]


def matrix_memory(parameters: DieParameters, m: int, n: int, k: int, run: int = 0, product: str = "fprop"
                  ) -> tuple[float, float]:
    """Words of the beats that a product moves, and the share of its time in a row that memory takes for them."""
    if not (m and n and k):
        return 0.0, 0.0
    product_cost = cost(parameters, shape(parameters, product, m, n, k, run))
    words = parameters.beat_words * (product_cost.reads + product_cost.writes)
    return words, max(words / float(parameters.memory_words_per_cycle), product_cost.reads) / product_cost.row
