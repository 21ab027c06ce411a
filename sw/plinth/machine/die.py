"""One die: cycles of its tasks, by the machine's own formulas and the constants of its control.

Tests hold them against tasks counted on co-simulated dies (docs/calibration.md).
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from plinth.machine.control import CONTROL
from plinth.machine.copies import Copy, copy_formula, rows_formula
from plinth.machine.known import Known
from plinth.machine.links import LINK_LATENCY
from plinth.machine.mappings import work
from plinth.machine.products import Product, row_stationary_parts
from plinth.machine.systolic_cycles import matrix_formula, matrix_memory
from plinth.machine.vector import ProgramWork, vector_formula
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import SYSTOLIC, DieParameters

#: Cycles of a task alone, and of a further one in a row.
Cycles = tuple[float, float]


class ProductCycles(NamedTuple):
    """Cycles of a product's tasks, the words that they move, and the share of the time of those in a row that memory
    takes for them."""

    cycles: Cycles
    words: float
    memory: float


@dataclass(frozen=True)
class DieCycles:
    """One die: cycles of its tasks."""

    parameters: DieParameters
    #: Cycles of :data:`CONTROL`.
    control: dict[str, float] = field(default_factory=CONTROL.copy)
    _products: Known[Product, ProductCycles] = field(default_factory=Known, compare=False)
    _stages: Known[tuple[Any, ...], tuple[float, float, float]] = field(default_factory=Known, compare=False)
    _copies: Known[tuple[Copy, float | None], Cycles] = field(default_factory=Known, compare=False)
    #: What tasks of steps take, as whoever costs them has asked.
    known_products: Known[tuple[Any, ...], Any] = field(default_factory=Known, compare=False)
    known_vectors: Known[tuple[Any, ...], Any] = field(default_factory=Known, compare=False)

    @property
    def source(self) -> str:
        """The source of the cycles, in words for people: the formulas of the preset's engines."""
        return f"formulas of the engines of preset {self.parameters.name}"

    def product(self, product: Product) -> ProductCycles:
        """Cycles and memory words of a product; zeros if it is empty."""
        cycles = self._products.get(product)
        if cycles is None:
            if product.empty:
                cycles = ProductCycles((0.0, 0.0), 0.0, 0.0)
            elif self.parameters.machine == SYSTOLIC:
                shape = (*product.gemm, product.run(self.parameters.packing))
                cycles = ProductCycles(matrix_formula(self.parameters, *shape, product.name),
                                       *matrix_memory(self.parameters, *shape, product.name))
            else:
                moved = work(self.parameters, row_stationary_parts(self.parameters, product))
                words = moved.read + moved.written
                cycles = ProductCycles((moved.alone, moved.row), words,
                                       words / float(self.parameters.memory_words_per_cycle) / moved.row)
            self._products[product] = cycles
        return cycles

    def vector(self, work: ProgramWork, rows: int, columns: int) -> tuple[float, float, float]:
        """Cycles in which a vector program that does ``work`` on rows x columns elements loads, computes and stores;
        none of an empty one."""
        key = (work, rows, columns)
        stages = self._stages.get(key)
        if stages is None:
            stages = self._stages[key] = (vector_formula(self.parameters, work, rows, columns) if rows and columns
                                          else (0.0, 0.0, 0.0))
        return stages

    def engine(self, engine: Engine) -> str:
        """The name of the engine that does what a step gives to one."""
        return engine.name.lower()

    def ring_latency(self, members: int, links: float) -> float:
        """Cycles of a ring reduction beside its words; ``links`` are those of the links' latencies once around it
        (:meth:`plinth.array.array.Array.ring_latency`)."""
        return (self.control["ring"] + 2 * (members - 2) * self.control["hop"]
                + 2 * (links - (members - 1) * LINK_LATENCY))

    def arrival(self, latency: float) -> float:
        """Cycles from the last word of a copy on its die's link to the start of what waits for it on another die;
        ``latency`` is that of the links on its way."""
        return self.control["arrival"] + latency - LINK_LATENCY

    def advance(self, latency: float) -> float:
        """Cycles from the same word until the counter of the other die advances: what waits for that starts ``issue``
        later."""
        return self.arrival(latency) - self.control["issue"]

    def copy(self, copy: Copy, link: float | None = None) -> Cycles:
        """Cycles of a copy of a tile until its last word has left.

        Parameters
        ----------
        link : float, optional
            Cycles of the fullest link on its way; default: it is one within the die.
        """
        key = (copy, link)
        cycles = self._copies.get(key)
        if cycles is None:
            cycles = self._copies[key] = (copy_formula(self.parameters, copy, link) if copy.rows and copy.columns
                                          else (0.0, 0.0))
        return cycles

    def rows(self, rows: int, columns: int, unlike: float = 0.0) -> Cycles:
        """Cycles of rows of an embedding that are copied to those of its output, or added to those of its gradient.

        Parameters
        ----------
        unlike : float
            0: they are copied. Else one in so many pairs of them is added to the same row.
        """
        return rows_formula(self.parameters, rows, columns, unlike) if rows and columns else (0.0, 0.0)


@lru_cache(maxsize=64)
def machine(parameters: DieParameters) -> DieCycles:
    """The die of a preset."""
    return DieCycles(parameters)
