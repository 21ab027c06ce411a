"""The rates of this machine as a host (:class:`~plinth.array.host.HostRates`): kernels of numpy that are timed, a few
rates fitted to them, and how far the rates are from kernels that played no part in the fit.

Each kernel is one that the numpy executor runs, with the amounts that :mod:`plinth.machine.host` says it does. It goes
over several sets of arrays in turn, as the operations of a step each find arrays that others were touched after, so
that "in the cache" means what it means in a step. Times are the shortest of several turns; the fit makes the sum of
squares of relative errors least, with the cache's size as the one of :data:`CACHE_SIZES` that leaves the least.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from plinth.array.array import MAXIMUM_MEMORY, Array
from plinth.array.host import RATES, HostRates
from plinth.errors import UserError
from plinth.machine.blocks import BlockCover
from plinth.machine.convolution import ConvolutionShape
from plinth.machine.host import RATE_OF, SUM_RUNS, HostWork, convolution_work, moved, nanoseconds, product_work
from plinth.machine.sparse_products import HostBlockCost, SparseProduct, sparse_work
from plinth.network.sparse.irregular import IrregularNet
from plinth.network.sparse.radix_net import trained_network
from plinth.profile.timing import shortest
from plinth.runtime.launcher import launched
from plinth.runtime.mpi import World, world
from plinth.runtime.products import ConvolutionKernel, product_kernel
from plinth.runtime.sparse_kernels import WorkMemories
from plinth.runtime.sparse_products import DieProducts
from plinth_hw.isa.parameters import PRESETS

if TYPE_CHECKING:
    from rich.console import Console

#: Words that the cache may hold.
CACHE_SIZES = tuple(1 << bits for bits in range(14, 25))
#: Sets of arrays that a kernel goes over in turn, at most, and words of all of them together.
SETS, SET_WORDS = 8, 48 << 20
#: Times that short messages go to and fro between two ranks; long ones go a fiftieth of that.
MESSAGE_TURNS = 2000
#: Words a nanosecond of a link of one gigabit a second.
GIGABIT_WORDS = Fraction(1, 32)
#: Preset whose step hosts do.
PRESET = "ndp-paper"
#: Layer of a RadiX-Net, from 0, behind the second copy's permutation in all sizes that are timed.
SPARSE_LAYER = 14


@dataclass(frozen=True)
class Case:
    """A kernel that is timed: what makes it ready, what it does if the cache holds so many words, and whether rates are
    fitted to it."""

    name: str
    make: Callable[[], Callable[[], Any]]
    work: Callable[[float], HostWork]
    fitted: bool


@dataclass(frozen=True)
class Timed:
    """A case and what it took, in nanoseconds."""

    case: Case
    nanoseconds: float

    def error(self, rates: HostRates) -> float:
        """The relative error of the rates: how much their time is more than the measured one, as a share of it."""
        return nanoseconds(rates, self.case.work(rates.cache_words)) / self.nanoseconds - 1


def _numbers(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.resize(np.random.default_rng(0).standard_normal(4096, dtype=np.float32), shape)


def _product(direction: str, m: int, n: int, k: int, *, fitted: bool) -> Case:
    """``z [m, n] = x [m, k] w [k, n]``, or one of its gradients."""
    return Case(f"{direction} {m} x {k} x {n}",
                lambda: product_kernel(direction, _numbers(m, k), _numbers(k, n), _numbers(m, n)),
                lambda cache: product_work(m, n, k), fitted)


def _convolution(direction: str, images: int, size: int, inputs: int, outputs: int, kernel: int, *, fitted: bool
                 ) -> Case:
    shape = ConvolutionShape(height=size, width=size, inputs=inputs, outputs=outputs, kernel=(kernel, kernel),
                             padding=(kernel // 2, kernel // 2))

    def make() -> Callable[[], object]:
        convolution = ConvolutionKernel(shape, images)
        x, w, z = _numbers(images, size, size, inputs), _numbers(shape.taps, outputs), _numbers(
            images * size * size, outputs)
        if direction == "update":
            return lambda: convolution.update(x, w, z, unrolled=convolution.kept)
        return lambda: (convolution.bprop if direction == "bprop" else convolution.fprop)(x, w, z)

    name = f"convolution {direction} {images} x {size} x {size} x {inputs}, {outputs} of {kernel} x {kernel}"
    return Case(name, make, lambda cache: convolution_work(direction, shape, images, cache), fitted)


def _wise(words: int, *, fitted: bool) -> Case:
    def make() -> Callable[[], object]:
        a, b, out = (_numbers(words) for _ in range(3))
        return lambda: np.add(a, b, out=out)

    return Case(f"add {words}", make, lambda cache: moved(3 * words, cache), fitted)


def _function(elements: int, *, fitted: bool) -> Case:
    def make() -> Callable[[], object]:
        a, out = _numbers(elements), _numbers(elements)
        return lambda: np.exp(a, out=out)

    return Case(f"exponential {elements}", make, lambda cache: moved(2 * elements, cache, functions=elements), fitted)


def _by_rows(what: str, rows: int, columns: int, *, fitted: bool) -> Case:
    """A row added to all rows, or the sum of all rows."""
    def make() -> Callable[[], object]:
        a, row = _numbers(rows, columns), np.zeros((1, columns), dtype=np.float32)
        if what == "sum":
            return lambda: np.add.reduce(a, axis=0, out=row, keepdims=True)
        return lambda: np.add(a, row, out=a)

    words = rows * columns * (1 if what == "sum" else 2)
    return Case(f"{what} of rows {rows} x {columns}", make, lambda cache: moved(
        words, cache, runs=rows * (SUM_RUNS if what == "sum" else 1)), fitted)


def _sparse(direction: str, layer: tuple[csr_array, BlockCover], name: str, samples: int, *, fitted: bool) -> Case:
    """A product of a part's rows of a sparse layer, over the blocks that a host has of it."""
    local, cover = layer
    product = SparseProduct(direction, cover.shapes(), cover.nonzeros, cover.shape[0], cover.shape[1], samples)

    def make() -> Callable[[], object]:
        w, x, z = _numbers(cover.packed), _numbers(local.shape[1], samples), _numbers(local.shape[0], samples)
        return DieProducts(cover, lambda: cover, lambda: local, samples, WorkMemories()).kernel(direction, w, x, z)

    return Case(f"sparse {direction} {name}, {samples} samples", make, lambda cache: sparse_work(product, cache),
                fitted)


def _covered(rows: csr_array, samples: int) -> tuple[csr_array, BlockCover]:
    """Rows over the columns that they need, and their blocks."""
    local = csr_array(rows[:, np.unique(rows.indices)])
    return local, HostBlockCost(samples).best(local)


@lru_cache(maxsize=16)
def _radix_net_rows(neurons: int, parts: int, samples: int) -> tuple[csr_array, BlockCover]:
    network = trained_network(neurons, SPARSE_LAYER + 1, seed=0)
    return _covered(network.rows(SPARSE_LAYER, np.arange(neurons // parts)), samples)


@lru_cache(maxsize=16)
def _irregular_rows(rows: int, columns: int, density: float, samples: int) -> tuple[csr_array, BlockCover]:
    return _covered(IrregularNet(widths=(columns, rows), density=density, seed=0).rows(0, np.arange(rows)), samples)


def _radix_net(direction: str, neurons: int, parts: int, samples: int, *, fitted: bool) -> Case:
    """Neighbouring rows of a layer behind a permutation, one part of so many."""
    return _sparse(direction, _radix_net_rows(neurons, parts, samples), f"{neurons // parts} of {neurons} rows",
                   samples, fitted=fitted)


def _irregular(direction: str, rows: int, columns: int, density: float, samples: int, *, fitted: bool) -> Case:
    """A layer without structure."""
    return _sparse(direction, _irregular_rows(rows, columns, density, samples),
                   f"{rows} x {columns}, {density:.0%} kept", samples, fitted=fitted)


def cases() -> list[Case]:
    """All kernels that are timed: those that rates are fitted to, and those that check them."""
    fit, check = {"fitted": True}, {"fitted": False}
    return [
        *(_product(direction, *size, **fit) for direction in ("fprop", "bprop", "update")
          for size in ((64, 64, 64), (256, 128, 784), (512, 512, 512), (1024, 10, 256), (16384, 20, 25),
                       (64, 2048, 2048))),
        *(_product(direction, *size, **check) for direction in ("fprop", "bprop", "update")
          for size in ((128, 96, 192), (768, 768, 768), (8192, 50, 500), (128, 10, 500), (32, 1024, 4096))),
        *(_wise(words, **fit) for words in (300, 3_000, 30_000, 300_000, 1_000_000, 3_000_000, 10_000_000)),
        *(_wise(words, **check) for words in (1_000, 100_000, 600_000, 6_000_000)),
        *(_function(elements, **fit) for elements in (1_000, 1_000_000)),
        *(_function(elements, **check) for elements in (30_000,)),
        *(_by_rows(what, *size, **fit) for what in ("sum", "row") for size in ((256, 128), (32_768, 20))),
        *(_by_rows(what, *size, **check) for what in ("sum", "row") for size in ((1_024, 64), (8_192, 50))),
        *(_convolution(direction, *size, **fit) for direction in ("fprop", "bprop", "update")
          for size in ((16, 28, 4, 16, 5), (8, 28, 32, 64, 3), (2, 56, 64, 64, 3))),
        *(_convolution(direction, *size, **check) for direction in ("fprop", "bprop", "update")
          for size in ((32, 16, 8, 16, 3), (4, 32, 64, 128, 3), (1, 112, 32, 32, 3))),
        *(_radix_net(direction, *size, **fit) for direction in ("fprop", "bprop", "update")
          for size in ((1024, 1, 64), (1024, 16, 1), (4096, 4, 16), (4096, 1, 1), (16384, 64, 64))),
        *(_radix_net(direction, *size, **check) for direction in ("fprop", "bprop", "update")
          for size in ((1024, 4, 8), (2048, 1, 32), (2048, 32, 1), (8192, 8, 64), (8192, 128, 4))),
        *(_irregular(direction, *size, **fit) for direction in ("fprop", "bprop", "update")
          for size in ((256, 784, .05, 64), (1024, 1024, .01, 4))),
        *(_irregular(direction, *size, **check) for direction in ("fprop", "bprop", "update")
          for size in ((512, 512, .04, 16), (128, 2048, .02, 1)))]


def timed(some: Sequence[Case], progress: Callable[[int], object] = lambda done: None) -> list[Timed]:
    """What cases take on this machine; ``progress`` is called with how many are done."""
    found = []
    for number, case in enumerate(some):
        progress(number)
        work = case.work(0)
        sets = int(max(1, min(SETS, SET_WORDS // max(1, work.product_words + work.memory_words))))
        found.append(Timed(case, shortest([case.make() for _ in range(sets)])))
    return found


def _least_squares(table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Times of amounts, none below 0, that make rows of ``table`` 1 as nearly as can be; those that would be negative
    are left out one by one."""
    times, kept = np.zeros(table.shape[1]), list(range(table.shape[1]))
    while kept:
        scale = np.abs(table[:, kept]).max(axis=0)
        scale[scale == 0] = 1
        some = np.linalg.lstsq(table[:, kept] / scale, np.ones(len(table)), rcond=None)[0] / scale
        if (some >= 0).all():
            times[kept] = some
            break
        kept.pop(int((some * scale).argmin()))
    return times


def fitted(found: Sequence[Timed]) -> HostRates:
    """The rates that come nearest to cases that rates are fitted to.

    Raises
    ------
    UserError
        If the times determine no rates, as those of a clock that stands still.
    """
    mine = [one for one in found if one.case.fitted]
    best: tuple[float, HostRates] | None = None
    for cache in CACHE_SIZES:
        table = np.array([one.case.work(cache) for one in mine]) / np.array([[one.nanoseconds] for one in mine])
        times = _least_squares(table)
        residual = float(((table @ times - 1) ** 2).sum())
        if best is None or residual < best[0]:
            try:
                best = residual, _rates(dict(zip(HostWork._fields, times.tolist(), strict=True)), cache)
            except ValueError:
                continue
    if best is None:
        raise UserError("the times of kernels determine no rates of this machine; measure again while nothing else "
                        "runs")
    return best[1]


def _rates(times: dict[str, float], cache: float) -> HostRates:
    """Rates of times of each amount, of four digits, as files hold them; what takes no time has the largest rate."""
    values: dict[str, float] = {"cache_words": cache}
    for amount, name in RATE_OF.items():
        if name.endswith("_per_ns"):
            values[name] = float(f"{1 / max(times[amount], 1 / RATES[name][1]):.4g}")
        else:
            values[name] = float(f"{times[amount]:.4g}")
    return HostRates(**values)


def errors(rates: HostRates, found: Sequence[Timed], *, of_fitted: bool) -> tuple[float, float]:
    """Mean and largest absolute error of the rates on kernels that they were fitted to, or on the others."""
    some = [abs(one.error(rates)) for one in found if one.case.fitted == of_fitted]
    return float(np.mean(some)), max(some)


@dataclass(frozen=True)
class Between:
    """What goes between two ranks: nanoseconds of the shortest message one way, and words a nanosecond of long
    ones."""

    nanoseconds: float
    words_per_ns: float


def between_ranks(communicator: Any, rank: int, turns: int = MESSAGE_TURNS) -> Between:
    """Messages to and fro between ranks 0 and 1, the shortest time of all: all ranks call it, and each gets what rank
    0 measured."""
    found = None
    other = 1 - rank
    if rank < 2:
        latencies = []
        for words, count in ((1, turns), (1 << 20, turns // 50)):
            buffer = np.zeros(words, dtype=np.float32)
            best = float("inf")
            # Each time by itself: another program may have a processor most of the time.
            for _ in range(count):
                start = time.perf_counter()
                if rank == 0:
                    communicator.Send(buffer, dest=other)
                    communicator.Recv(buffer, source=other)
                else:
                    communicator.Recv(buffer, source=other)
                    communicator.Send(buffer, dest=other)
                best = min(best, (time.perf_counter() - start) / 2)
            latencies.append((1e9 * best, words))
        (short, few), (long, many) = latencies
        found = Between(short, (many - few) / max(long - short, 1.0))
    return communicator.bcast(found, root=0)  # type: ignore[no-any-return]


def ranks() -> World | None:
    """The ranks that ``mpiexec`` has started together with this one; None: it has started none.

    Raises
    ------
    UserError
        As :func:`plinth.runtime.mpi.world`, where it has.
    """
    if not launched():
        return None
    found = world()
    return found if found.size > 1 else None


def with_messages(rates: HostRates, between: Between, gigabits: float | None, microseconds: float | None
                  ) -> tuple[HostRates, float, float]:
    """Rates of a host, and the rate and latency of links, of what was measured between two ranks where these were not
    given. Beside a latency that was given, what a short message takes between them is the work of both ends."""
    if microseconds is not None:
        rates = replace(rates, message_ns=float(f"{between.nanoseconds / 2:.4g}"))
    most = PRESETS[PRESET].flit_words
    return (rates, float(f"{min(between.words_per_ns, most) / float(GIGABIT_WORDS):.4g}") if gigabits is None
            else gigabits, between.nanoseconds / 1000 if microseconds is None else microseconds)


def memory_bytes() -> int:
    """The memory of this machine in bytes."""
    return min(MAXIMUM_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def host_array(rates: HostRates, ranks: int, gigabits: float, microseconds: float, *, memory_bytes: int | None = None
               ) -> Array:
    """Hosts at a switch: links of so many gigabits a second, and so many microseconds from host to host.

    Raises
    ------
    ValueError
        If there cannot be as many, or a rate or latency is out of range.
    """
    # Two links lead from host to host.
    each = round(500 * microseconds)
    rate = Fraction(str(gigabits)) * GIGABIT_WORDS
    settings: dict[str, Any] = {} if memory_bytes is None else {"memory_bytes": memory_bytes}
    return Array(name=f"hosts-{ranks}", topology="star", dies=ranks, preset=PRESET, link_rate=rate,
                 link_latency=max(1, each), host=rates, **settings)


def show(console: Console, array: Array, found: Sequence[Timed]) -> None:
    """Print an array of hosts: its rates, its links, and how well kernels agree with the rates."""
    from plinth_hw.terminal.table import new_table, print_table

    rates = array.host
    assert rates is not None
    console.print(f"[bold]{array.name}[/bold]: hosts at a switch, {float(array.rate / GIGABIT_WORDS):g} Gb a second "
                  f"and {array.link_latency * 2 / 1000:g} µs from host to host", highlight=False)
    table = new_table("rate", "of a host", "", text=("rate", ""))
    for field in fields(rates):
        table.add_row(field.name, f"{getattr(rates, field.name):g}", RATES[field.name][2])
    print_table(console, table)
    for of_fitted, what in ((True, "rates are fitted to"), (False, "played no part in the fit")):
        mean, most = errors(rates, found, of_fitted=of_fitted)
        count = sum(one.case.fitted == of_fitted for one in found)
        console.print(f"{count} kernels that {what}: off by {mean:.1%} in the mean, {most:.1%} at most",
                      highlight=False)
