"""Cycles of a die's tasks, by the machine's own formulas (docs/matrix.md, docs/row_mapping.md, docs/vector.md,
docs/memory.md) and the constants of its control; tests hold them against tasks counted on co-simulated dies."""

from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

from plinth.machine.mappings import work
from plinth.predict import systolic
from plinth.predict.copies import MEMORY_LATENCY, Copy, copy_formula
from plinth.predict.products import Product, row_stationary_parts
from plinth.predict.systolic import ROWS_UNDER_WAY
from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.parameters import SYSTOLIC, DieParameters

#: Of rows by their numbers (docs/memory.md): cycles of a row at least; cycles from an add's read until what it wrote
#: may be read again, but for its flits, as counted; longest packets whose places in memory are told apart.
INDEXED_CYCLES, ADD_CYCLES, ADD_PACKETS = 4.0, 125.0, 32
#: Latency of the links that constants are of, in cycles.
LINK_LATENCY = 5
#: Cycles of a row that a vector program loads, at least: from its request to its last beat, so many under way.
ROW_CYCLES = (MEMORY_LATENCY + 6) / ROWS_UNDER_WAY
#: Cycles that the control of tasks takes: from a task to the next of its engine; from the end of a task to the start of
#: one that waited for it; from the last word of a copy on its die's link to the start of what waits for it on the other
#: die; of a ring reduction beside its words, on two dies, and for each further hop; of one on a single die beside its
#: words.
CONTROL: dict[str, float] = {
    "fetch": 2 * BODY_WORDS + 8, "issue": 15, "arrival": 80, "ring": 340, "hop": 28, "reduce": 200}

#: Cycles of a task alone, and of a further one in a row.
Cycles = tuple[float, float]


class Work(NamedTuple):
    """What a vector program does with a region of rows x columns."""

    #: Full regions loaded and stored, and rows loaded and stored.
    loads: int
    stores: int
    row_loads: int = 0
    row_stores: int = 0
    #: Instructions: element-wise; sums over the rows; reductions along a row; functions of all elements, of a column.
    wise: int = 0
    sums: int = 0
    reductions: int = 0
    functions: int = 0
    column_functions: int = 0
    #: Of the full regions loaded and stored, those whose numbers lie in memory two to a word.
    packed_loads: int = 0
    packed_stores: int = 0

    def packed(self, loads: int, stores: int) -> "Work":
        """The same with so many of its regions packed: each is converted by an instruction."""
        return self._replace(wise=self.wise + loads + stores, packed_loads=loads, packed_stores=stores)

    def full(self, plain: float, packed: float) -> tuple[float, float]:
        """Of all full regions loaded, and of those stored, what one takes as it is, or packed."""
        return ((self.loads - self.packed_loads) * plain + self.packed_loads * packed,
                (self.stores - self.packed_stores) * plain + self.packed_stores * packed)


#: Bias and activation of a layer, a sum of what other dies send, and the error behind them with its sums.
FORWARD = Work(1, 1, row_loads=1, wise=2)
SUM = Work(4, 1, wise=3)
BACKWARD = Work(2, 1, row_loads=1, row_stores=1, wise=1, sums=1)


def matrix_formula(parameters: DieParameters, m: int, n: int, k: int, run: int = 0, product: str = "fprop") -> Cycles:
    """Cycles of one product on a systolic die alone, and of a further one in a row.

    Parameters
    ----------
    run : int
        Elements of the first operand that lie next to each other; 0: all.
    """
    return systolic.cost(parameters, systolic.shape(parameters, product, m, n, k, run))[:2]


def matrix_memory(parameters: DieParameters, m: int, n: int, k: int, run: int = 0, product: str = "fprop",
                  ) -> tuple[float, float]:
    """Words of the beats that a product moves, and the share of its time in a row that memory takes for them."""
    if not (m and n and k):
        return 0.0, 0.0
    found = systolic.cost(parameters, systolic.shape(parameters, product, m, n, k, run))
    words = parameters.beat_words * (found.reads + found.writes)
    return words, max(words / float(parameters.memory_words_per_cycle), found.reads) / found.row


@lru_cache(maxsize=1 << 12)
def _row(beat: int, words: int) -> tuple[float, float]:
    """Beats, of ``beat`` words, of a row of so many, of rows one behind the other on the average; and the share of rows
    that begin in the upper half of a beat."""
    places = range(0, beat, gcd(words, beat))
    return (sum(-(-(place + words) // beat) for place in places) / len(places),
            sum(2 * place >= beat for place in places) / len(places))


def row_words(parameters: DieParameters, columns: int) -> float:
    """Words of the beats in which a row lies, of rows one behind the other on the average."""
    return parameters.beat_words * _row(parameters.beat_words, columns)[0]


def full_words(parameters: DieParameters, work: Work, rows: int, columns: int) -> tuple[float, float]:
    """Words of the beats that a vector program reads and writes of its full regions."""
    return work.full(rows * row_words(parameters, columns), rows * row_words(parameters, -(-columns // 2)))


def vector_formula(parameters: DieParameters, work: Work, rows: int, columns: int) -> tuple[float, float, float]:
    """Cycles in which a vector program over rows x columns elements loads, computes and stores; one after the other
    they are the time of the program alone.

    A beat takes a cycle; of numbers that are packed two to a word two, but one where the row begins in its upper half.
    """
    beat = parameters.beat_words
    across = -(-columns // beat)
    groups = min(across * rows, -(-rows // beat) * columns)
    row, (beats, upper) = _row(beat, columns)[0], _row(beat, -(-columns // 2))
    packed = 2 * beats - upper
    load, _ = work.full(rows * max(row, ROW_CYCLES), rows * max(packed, ROW_CYCLES))
    _, store = work.full(rows * row, rows * packed)
    load, store = load + work.row_loads * row, store + work.row_stores * row
    compute = (work.wise * (2 * groups + 17) + work.sums * (8 * -(-across // 4) * rows + 17)
               + work.reductions * (8 * -(-rows // (4 * beat)) * columns + 17)
               + work.functions * (rows * columns + 22) + work.column_functions * (rows + 22))
    return MEMORY_LATENCY + 6 + load, compute + 14, MEMORY_LATENCY + store


class Multiplication(NamedTuple):
    """Cycles of a product's tasks, the words that they move, and the share of the time of those in a row that memory
    takes for them."""

    cycles: Cycles
    words: float
    memory: float


@dataclass(frozen=True)
class Machine:
    """One die: cycles of its tasks."""

    parameters: DieParameters
    #: Cycles of :data:`CONTROL`.
    control: dict[str, float] = field(default_factory=CONTROL.copy)
    _products: dict[Product, Multiplication] = field(default_factory=dict, compare=False)
    _stages: dict[tuple[Any, ...], tuple[float, float, float]] = field(default_factory=dict, compare=False)
    _copies: dict[tuple[Copy, float | None], Cycles] = field(default_factory=dict, compare=False)
    #: What tasks of steps take, as :mod:`plinth.predict.tasks` has asked.
    known_products: dict[tuple[Any, ...], Any] = field(default_factory=dict, compare=False)
    known_vectors: dict[tuple[Any, ...], Any] = field(default_factory=dict, compare=False)

    @property
    def source(self) -> str:
        """Where the cycles come from, for people."""
        return f"formulas of the engines of preset {self.parameters.name}"

    def product(self, product: Product) -> Multiplication:
        """What a product takes; nothing if it is empty."""
        if product not in self._products:
            if product.empty:
                found = Multiplication((0.0, 0.0), 0.0, 0.0)
            elif self.parameters.machine == SYSTOLIC:
                shape = (*product.gemm, product.run(self.parameters.packing))
                found = Multiplication(matrix_formula(self.parameters, *shape, product.name),
                                       *matrix_memory(self.parameters, *shape, product.name))
            else:
                moved = work(self.parameters, row_stationary_parts(self.parameters, product))
                words = moved.read + moved.written
                found = Multiplication((moved.alone, moved.row), words,
                                       words / float(self.parameters.memory_words_per_cycle) / moved.row)
            self._products[product] = found
        return self._products[product]

    def vector(self, work: Work, rows: int, columns: int) -> tuple[float, float, float]:
        """Cycles in which a vector program that does ``work`` on rows x columns elements loads, computes and stores;
        none of an empty one."""
        key = (work, rows, columns)
        if key not in self._stages:
            self._stages[key] = (vector_formula(self.parameters, work, rows, columns) if rows and columns
                                 else (0.0, 0.0, 0.0))
        return self._stages[key]

    def ring_latency(self, members: int, links: float) -> float:
        """Cycles of a ring reduction beside its words; ``links`` are those of the links' latencies once around it
        (:meth:`plinth.array.array.Array.ring_latency`)."""
        return (self.control["ring"] + 2 * (members - 2) * self.control["hop"]
                + 2 * (links - (members - 1) * LINK_LATENCY))

    def copy(self, copy: Copy, link: float | None = None) -> Cycles:
        """Of a copy of a tile until its last word has left.

        Parameters
        ----------
        link : float, optional
            Cycles of the fullest link on its way; default: it is one within the die.
        """
        key = (copy, link)
        if key not in self._copies:
            self._copies[key] = (copy_formula(self.parameters, copy, link) if copy.rows and copy.columns
                                 else (0.0, 0.0))
        return self._copies[key]

    def rows(self, rows: int, columns: int, unlike: float = 0.0) -> Cycles:
        """Of rows of an embedding that are copied to those of its output, or added to those of its gradient.

        Parameters
        ----------
        unlike : float
            0: they are copied. Else one in so many pairs of them is added to the same row. The second of a pair waits
            until the first is in memory: if that is under way, half of an add's l cycles on the average. Adds that take
            t cycles each have l / t of them under way, so ``t = p + l**2 / (2 t unlike)``, p the cycles of a copied
            row. Rows of equal places in blocks that the die does not tell apart wait as equal ones do.
        """
        alone, row = self.copy(Copy.part(rows, columns))
        if not alone:
            return 0.0, 0.0
        period = max(row / rows, INDEXED_CYCLES)
        more = MEMORY_LATENCY + rows * period - row
        if unlike:
            flits = -(-columns // self.parameters.flit_words)
            latency, apart = ADD_CYCLES + 2 * flits, ADD_PACKETS * self.parameters.chunk_words / columns
            added = (period + (period ** 2 + 2 * latency ** 2 / max(1.0, min(unlike, apart))) ** 0.5) / 2
            more += MEMORY_LATENCY + rows * max(0.0, min(added, latency) - period)
        return alone + more, row + more


def unlike(table: int, own: int) -> float:
    """One in so many pairs of row numbers is of one of a die's ``own`` rows, and the same, if all rows of the table are
    as likely."""
    return table ** 2 / max(1, own)


@lru_cache(maxsize=64)
def machine(parameters: DieParameters) -> Machine:
    """The die of a preset."""
    return Machine(parameters)
