"""A host in a die's place: nanoseconds of whole operations, as numpy does them, by a few rates.

A host has no engines beside each other: it does one kernel after the other. What a kernel takes follows from amounts of
what it does (:class:`HostWork`), each times its rate (:class:`~plinth.array.host.HostRates`)::

    ns = calls call_ns + runs run_ns + multiply_adds / multiply_adds_per_ns + product_words / product_words_per_ns
       + cached_words / cached_words_per_ns + memory_words / memory_words_per_ns + functions / functions_per_ns
       + blocks block_ns + block_multiply_adds / block_multiply_adds_per_ns
       + entries entry_ns + entry_multiply_adds / entry_multiply_adds_per_ns

The sum is linear, so that the rates are fitted to measured kernels by least squares (:mod:`plinth.bench.host`), and
the same functions that say what a step's work is say what the measured kernels are. A cycle is a nanosecond.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from plinth.array.array import Array
from plinth.array.host import HostRates
from plinth.errors import UserError
from plinth.machine.convolution import ConvolutionShape
from plinth.machine.copies import Copy
from plinth.machine.die import Cycles, DieCycles, ProductCycles, machine
from plinth.machine.products import Product
from plinth.machine.vector import ProgramWork
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters

#: Windows of convolutions are unrolled so many elements at a time, which stay in a processor's cache where products
#: read them; of no more than that they are kept for the gradient (:mod:`plinth.runtime.products` does so).
MOST_UNROLLED = 1 << 19
#: Words that are read and written for a word that goes to another host: it is copied once on either side.
COPIED_WORDS = 4
#: Kernels, or calls as long, of a step of a ring (:mod:`plinth.runtime.rings`), as measured in one process.
STEP_CALLS = 9
#: Words that an element-wise instruction moves an element: two operands and a result, in the mean of those that have
#: one operand and of those that are two kernels.
WISE_WORDS = 3
#: Times that a word of a product's result goes through memory.
RESULT_PASSES = 3
#: Runs that a row takes which is added to a sum of rows: it is read, and so is the sum.
SUM_RUNS = 2


class HostWork(NamedTuple):
    """Amounts of what a kernel does, of which its time is a sum.

    Attributes
    ----------
    calls : float
        Kernels that are called.
    runs : float
        Runs of neighbouring words, where a kernel goes from run to run.
    multiply_adds, product_words : float
        Of products: multiply-adds, and words of operands and results.
    cached_words, memory_words : float
        Words read and written by all else, in arrays that the cache holds together, and in larger ones.
    functions : float
        Elements of an exponential or another function.
    blocks, block_multiply_adds : float
        Of sparse layers (:mod:`plinth.machine.sparse_products`): dense blocks, and their multiply-adds.
    entries, entry_multiply_adds : float
        Of sparse layers: connections that are multiplied one by one, and their multiply-adds.
    """

    calls: float = 0.0
    runs: float = 0.0
    multiply_adds: float = 0.0
    product_words: float = 0.0
    cached_words: float = 0.0
    memory_words: float = 0.0
    functions: float = 0.0
    blocks: float = 0.0
    block_multiply_adds: float = 0.0
    entries: float = 0.0
    entry_multiply_adds: float = 0.0

    def plus(self, *others: "HostWork") -> "HostWork":
        """This and others, one after the other."""
        return HostWork(*map(sum, zip(self, *others, strict=True)))


#: The rate of each amount: a time each, or, of those of :data:`PER_NS`, so many a nanosecond.
RATE_OF = {"calls": "call_ns", "runs": "run_ns", "multiply_adds": "multiply_adds_per_ns",
           "product_words": "product_words_per_ns", "cached_words": "cached_words_per_ns",
           "memory_words": "memory_words_per_ns", "functions": "functions_per_ns",
           "blocks": "block_ns", "block_multiply_adds": "block_multiply_adds_per_ns", "entries": "entry_ns",
           "entry_multiply_adds": "entry_multiply_adds_per_ns"}


def nanoseconds(rates: HostRates, work: HostWork) -> float:
    """Nanoseconds that some work takes a host.

    Raises
    ------
    UserError
        If it is of sparse layers, and the host has no rates of them.
    """
    total = 0.0
    for name, rate_name in RATE_OF.items():
        amount, rate = getattr(work, name), getattr(rates, rate_name)
        if not amount:
            continue
        if rate is None:
            raise UserError("the array's hosts have no rates of sparse layers; measure them again with `plinth array "
                            "host`")
        total += amount * rate if rate_name.endswith("_ns") and not rate_name.endswith("_per_ns") else amount / rate
    return total


def moved(words: float, cache_words: float, *, calls: float = 1, runs: float = 0.0, functions: float = 0.0,
          passes: float = 1.0) -> HostWork:
    """Element-wise work, a copy or a sum over arrays of so many words together, which are read or written ``passes``
    times."""
    cached = words <= cache_words
    return HostWork(calls=calls, runs=runs, functions=functions, cached_words=words * passes if cached else 0.0,
                    memory_words=0.0 if cached else words * passes)


def product_work(m: float, n: float, k: float) -> HostWork:
    """A product of an M x K and a K x N matrix, whose result is cleared, read and written."""
    return HostWork(calls=1, multiply_adds=m * n * k, product_words=m * k + k * n + RESULT_PASSES * m * n)


def convolution_work(direction: str, shape: ConvolutionShape, images: int, cache_words: float) -> HostWork:
    """A convolution of some images by unrolled windows: fprop unrolls and multiplies, so does the gradient where the
    windows of all images were not kept; bprop multiplies, and adds up the windows' errors tap by tap."""
    positions, taps = images * shape.out_height * shape.out_width, shape.taps
    maps, (down, across) = images * shape.height * shape.width * shape.inputs, shape.kernel
    multiplied = product_work(positions, shape.outputs, taps)
    if direction == "bprop":
        # The channels of a position are a run, both of a tap and of the map that it is added to.
        runs = 2 * positions * down * across
        return multiplied.plus(moved(positions * taps, cache_words, calls=down * across, runs=runs, passes=WISE_WORDS),
                               moved(maps, cache_words, calls=2, passes=3))
    kept = positions * taps <= MOST_UNROLLED or images == 1
    if direction == "update" and kept:
        return multiplied
    # A row of a window is a run.
    return multiplied.plus(moved(2 * maps, cache_words),
                           moved(2 * positions * taps, cache_words, runs=positions * down))


def program_work(work: ProgramWork, rows: int, columns: int, cache_words: float, *, strided: bool = False) -> HostWork:
    """A vector program over rows x columns elements, an instruction at a time; ``strided``: rows do not follow each
    other. A row that is added to all others goes row by row, sums of rows go twice so."""
    elements = float(rows * columns)
    reductions = work.sums + work.reductions
    full = work.wise + work.functions + reductions
    runs = rows * (full if strided else work.row_loads + SUM_RUNS * reductions)
    words = elements * max(WISE_WORDS if work.wise else 2, work.loads + work.stores)
    passes = (WISE_WORDS * work.wise + reductions + 2 * work.functions) * elements / words if words else 0.0
    return moved(words, cache_words, calls=full + work.column_functions, runs=runs,
                 functions=work.functions * elements + work.column_functions * rows, passes=passes)


@dataclass(frozen=True)
class HostCycles(DieCycles):
    """A host as planners and simulator ask a die: cycles are nanoseconds, and all work goes on one engine."""

    rates: HostRates | None = None

    @property
    def given(self) -> HostRates:
        """The rates, which every host has."""
        assert self.rates is not None
        return self.rates

    @property
    def source(self) -> str:
        """The source of the cycles, in words for people: the rates of a host."""
        rates = self.given
        return (f"rates of a host: {rates.multiply_adds_per_ns:.3g} multiply-adds and {rates.memory_words_per_ns:.3g} "
                f"words of memory a nanosecond, {rates.call_ns:.3g} ns a kernel")

    def engine(self, engine: Engine) -> str:
        """The name of the one engine that a host has, whatever the work."""
        return Engine.MATRIX.name.lower()

    def cycles(self, work: HostWork) -> Cycles:
        """Cycles of one piece of an operation, and of each further one of it: an operation is called once, whatever
        pieces it has on dies."""
        each = nanoseconds(self.given, work._replace(calls=0.0))
        return each + work.calls * self.given.call_ns, each

    def product(self, product: Product) -> ProductCycles:
        """Cycles that a product takes; none if it is empty."""
        if product.empty:
            return ProductCycles((0.0, 0.0), 0.0, 0.0)
        window = product.window
        if window is None:
            return ProductCycles(self.cycles(product_work(product.samples, product.outputs, product.inputs)), 0.0, 0.0)
        shape = ConvolutionShape(height=window.size[0], width=window.size[1], inputs=product.inputs,
                                 outputs=product.outputs, kernel=window.kernel, stride=window.stride,
                                 padding=window.padding)
        return ProductCycles(self.cycles(convolution_work(product.direction, shape, product.samples,
                                                          self.given.cache_words)), 0.0, 0.0)

    def vector(self, work: ProgramWork, rows: int, columns: int) -> tuple[float, float, float]:
        """Cycles in which a vector program loads, computes and stores: a host only computes."""
        if not (rows and columns):
            return 0.0, 0.0, 0.0
        return 0.0, self.cycles(program_work(work, rows, columns, self.given.cache_words))[0], 0.0

    def ring_latency(self, members: int, links: float) -> float:
        """Cycles of latency of a ring's messages, which go round twice."""
        return 2 * links

    def ring_work(self, words: float, members: int, turns: float, *, summed: bool) -> float:
        """Cycles that a member spends itself on a message of a ring: it copies what it sends and what it takes, adds
        what comes in turns of sums, and calls kernels at each step.

        Parameters
        ----------
        turns : float
            Times round the ring: 2 of an all-reduce, else 1.
        """
        steps, share = turns * (members - 1), (members - 1) / members
        moves = turns * share * COPIED_WORDS * words + summed * share * WISE_WORDS * words
        return self.cycles(moved(moves, self.given.cache_words, calls=steps * STEP_CALLS))[0] + (
            steps * 2 * self.given.message_ns)

    def arrival(self, latency: float) -> float:
        """Cycles from a message's last word to its receiver: the links' latency, and what sending and taking it
        costs."""
        return 2 * self.given.message_ns + latency

    def advance(self, latency: float) -> float:
        """Cycles from a message to what waits for it, as of :meth:`arrival`: nothing else is between them."""
        return self.arrival(latency)

    def copy(self, copy: Copy, link: float | None = None) -> Cycles:
        """A copy of a tile, or a message: its words are copied on both sides, and the link takes its time."""
        words = float(copy.rows * copy.columns)
        alone, row = self.cycles(moved(2 * words, self.given.cache_words, runs=copy.rows))
        return (alone, row) if link is None else (max(alone, link), max(row, link))

    def rows(self, rows: int, columns: int, unlike: float = 0.0) -> Cycles:
        """Rows of an embedding, copied or added one by one."""
        words = float(rows * columns)
        return self.cycles(moved((3 if unlike else 2) * words, self.given.cache_words, runs=rows))


@lru_cache(maxsize=64)
def host(parameters: DieParameters, rates: HostRates) -> HostCycles:
    """A host that does the step of dies of a preset. Nothing of a die's control takes time."""
    free = dict.fromkeys(("fetch", "issue", "arrival", "ring", "hop", "reduce"), 0.0)
    return HostCycles(parameters, control=free, rates=rates)


def machine_of(array: Array) -> DieCycles:
    """What stands at the nodes of an array: a die of its preset, or a host."""
    parameters = array.die_parameters()
    return machine(parameters) if array.host is None else host(parameters, array.host)
