"""Cycles of a die's tasks: the machine's own formulas (docs/matrix.md, docs/row_mapping.md, docs/vector.md), scaled by
measurements.

A table ``calibration/<preset>.yaml``, written by `make calibrate`, holds what tasks took on the co-simulated Verilog
whose hash stands in it: a task alone, and each further one of a row of equal tasks. A task's cycles are its formula's
times the ratio of measured to formula cycles of the measured tasks next to it in formula cycles, interpolated over
their logarithm. Without a table the ratio is 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import gcd, log
from pathlib import Path
from typing import Any, NamedTuple

from plinth.errors import UserError
from plinth.mapping.mappings import work
from plinth.model.files import check_mapping, check_version, read_yaml
from plinth.model.layers import described, is_integer
from plinth.partition.graph import square
from plinth.plan.cost import systolic
from plinth.plan.cost.copies import MEMORY_LATENCY, Copy, copy_formula
from plinth.plan.cost.products import Product, row_stationary_parts
from plinth_hw.isa.parameters import PRESETS, ROW_STATIONARY, SYSTOLIC, DieParameters
from plinth_hw.isa.tasks import BODY_WORDS

#: Version of the calibration tables.
CALIBRATION_VERSION = 2
#: Where tables lie, one a preset.
FOLDER = Path(__file__).resolve().parent / "calibration"
#: Of rows by their numbers (docs/memory.md): cycles of a row at least; cycles from an add's read until what it wrote
#: may be read again, but for its flits, as counted; longest packets whose places in memory are told apart.
INDEXED_CYCLES, ADD_CYCLES, ADD_PACKETS = 4.0, 125.0, 32
#: Latency of the links that tables are measured over, in cycles.
LINK_LATENCY = 5


#: Cycles of a task alone, and of a further one in a row.
Cycles = tuple[float, float]


@dataclass(frozen=True)
class Work:
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
        return replace(self, wise=self.wise + loads + stores, packed_loads=loads, packed_stores=stores)

    def full(self, plain: float, packed: float) -> tuple[float, float]:
        """Of all full regions loaded, and of those stored, what one takes as it is, or packed."""
        return ((self.loads - self.packed_loads) * plain + self.packed_loads * packed,
                (self.stores - self.packed_stores) * plain + self.packed_stores * packed)


#: Vector programs that tables hold.
PROGRAMS = {
    "forward": Work(1, 1, row_loads=1, wise=2),
    "sum": Work(4, 1, wise=3),
    "backward": Work(2, 1, row_loads=1, row_stores=1, wise=1, sums=1),
    "bias": Work(1, 0, row_loads=1, row_stores=1, sums=1),
    "pool": Work(2, 1, wise=1),
    "unpool": Work(4, 2, wise=6),
    "loss": Work(2, 2, row_loads=2, row_stores=1, wise=5, sums=1, reductions=2, functions=1, column_functions=1),
}
#: Products of a layer; they differ in which operand is transposed.
PRODUCTS = ("fprop", "bprop", "update", "convolution-fprop", "convolution-bprop", "convolution-update")
#: Copies of a tile within a die, to the next one of a ring and to the one behind that, by hops; all dies send at once.
COPIES = ("local", "remote", "far")

#: For each table of a file, its keys, the first of which is one of some words; of matrix tasks those of a systolic die.
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "matrix": (("product", "m", "n", "k", "run", "cycles", "period"), PRODUCTS),
    "vector": (("program", "rows", "columns", "cycles", "period"), tuple(PROGRAMS)),
    "transfer": (("copy", "rows", "columns", "cycles", "period"), COPIES),
    "control": (("what", "cycles"), ("fetch", "issue", "arrival", "ring", "hop", "reduce")),
}
#: Keys of the matrix tasks of a row-stationary die: a square convolution, or zeros behind ``outputs``.
ROW_STATIONARY_KEYS = ("product", "samples", "inputs", "outputs", "size", "kernel", "stride", "padding", "cycles",
                       "period")
#: Keys that may be 0.
ZERO_KEYS = ("run", "size", "kernel", "stride", "padding")


def tables(name: str) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Tables of a preset's file."""
    if name in PRESETS and PRESETS[name].machine == ROW_STATIONARY:
        return TABLES | {"matrix": (ROW_STATIONARY_KEYS, PRODUCTS)}
    return TABLES


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


def moved_words(parameters: DieParameters, rows: int, columns: int) -> float:
    """Words of the beats in which rows x columns words lie, one row behind the other."""
    beat = parameters.beat_words
    return float(rows * columns if columns % beat == 0 else rows * (columns - 1 + beat))


@lru_cache(maxsize=1 << 12)
def _packed_row(beat: int, columns: int) -> tuple[float, float]:
    """Beats, of ``beat`` words, of a row of numbers that are packed two to a word, and cycles in which a vector unit
    moves it, of rows one behind the other on the average. A beat takes two cycles, but one where the row begins in its
    upper half."""
    words = -(-columns // 2)
    places = range(0, beat, gcd(words, beat))
    beats = sum(-(-(place + words) // beat) for place in places) / len(places)
    return beats, 2 * beats - sum(2 * place >= beat for place in places) / len(places)


def full_words(parameters: DieParameters, work: Work, rows: int, columns: int) -> tuple[float, float]:
    """Words of the beats that a vector program reads and writes of its full regions."""
    beats, _ = _packed_row(parameters.beat_words, columns)
    return work.full(moved_words(parameters, rows, columns), parameters.beat_words * rows * beats)


def vector_formula(parameters: DieParameters, work: Work, rows: int, columns: int) -> tuple[float, float, float]:
    """Cycles in which a vector program over rows x columns elements loads, computes and stores; one after the other
    they are the time of the program alone."""
    beat = parameters.beat_words
    across = -(-columns // beat)
    groups = min(across * rows, -(-rows // beat) * columns)
    row, (_, packed) = moved_words(parameters, 1, columns) / beat, _packed_row(beat, columns)
    load, store = work.full(moved_words(parameters, rows, columns) / beat, rows * packed)
    load, store = load + work.row_loads * row, store + work.row_stores * row
    compute = (work.wise * (2 * groups + 15) + work.sums * (8 * -(-across // 4) * rows + 15)
               + work.reductions * (8 * -(-rows // (4 * beat)) * columns + 15)
               + work.functions * (rows * columns + 20) + work.column_functions * (rows + 20))
    return MEMORY_LATENCY + 5 + load, compute + 14, MEMORY_LATENCY + store


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What was measured of one preset: rows of the tables of :data:`TABLES`."""

    preset: str
    number_format: str
    verilog_sha256: str
    matrix: tuple[tuple[Any, ...], ...]
    vector: tuple[tuple[Any, ...], ...]
    transfer: tuple[tuple[Any, ...], ...]
    control: tuple[tuple[Any, ...], ...]

    @property
    def tasks(self) -> int:
        """Measurements."""
        return sum(len(getattr(self, name)) for name in TABLES)

    def to_data(self) -> dict[str, Any]:
        """As the YAML file holds it."""
        return {"version": CALIBRATION_VERSION, "preset": self.preset, "format": self.number_format,
                "verilog_sha256": self.verilog_sha256,
                **{name: [dict(zip(keys, row, strict=True)) for row in getattr(self, name)]
                   for name, (keys, _) in tables(self.preset).items()}}


def load_calibration(path: Path) -> Calibration:
    """A table from its file.

    Raises
    ------
    UserError
        If it cannot be read or does not have the form that :meth:`Calibration.to_data` gives.
    """
    where, remedy = str(path), "measure again with `make calibrate`"
    data = read_yaml(path)
    check_version(data, where, "a calibration table", CALIBRATION_VERSION, remedy)
    check_mapping(data, where, "a calibration table",
                  required=("version", "preset", "format", "verilog_sha256", *TABLES))
    found: dict[str, tuple[tuple[Any, ...], ...]] = {}
    for name, (keys, words) in tables(str(data["preset"])).items():
        if not isinstance(data[name], list) or not data[name]:
            raise UserError(f"{where}: {name} must be a list of measurements; {remedy}")
        rows = []
        for number, row in enumerate(data[name]):
            check_mapping(row, f"{where}: {name}[{number}]", "a measurement", required=keys)
            for key in keys:
                fits = row[key] in words if key == keys[0] else is_integer(
                    row[key], int(key not in ZERO_KEYS), 1 << 40)
                if not fits:
                    raise UserError(f"{where}: {name}[{number}].{key} cannot be {described(row[key])}; {remedy}")
            rows.append(tuple(row[key] for key in keys))
        found[name] = tuple(rows)
    for key in ("preset", "format", "verilog_sha256"):
        if not isinstance(data[key], str):
            raise UserError(f"{where}: {key} must be text, not {described(data[key])}; {remedy}")
    return Calibration(preset=data["preset"], number_format=data["format"], verilog_sha256=data["verilog_sha256"],
                       **found)


class _Ratio:
    """Measured over formula cycles: the mean over measured shapes, weighted by their nearness in the logarithms."""

    def __init__(self) -> None:
        self.places: list[tuple[float, ...]] = []
        self.values: list[float] = []

    def add(self, shape: Sequence[int], value: float) -> None:
        """A measurement."""
        self.places.append(tuple(map(log, shape)))
        self.values.append(value)

    def __call__(self, shape: Sequence[int]) -> float:
        if not self.places:
            return 1.0
        here = tuple(map(log, shape))
        weights = [1 / (sum((one - two) ** 2 for one, two in zip(here, place, strict=True)) + 1e-4) ** 2
                   for place in self.places]
        return sum(weight * value for weight, value in zip(weights, self.values, strict=True)) / sum(weights)


#: Cycles that the control of tasks takes, by the documents, where there is no table: from a task to the next of its
#: engine; from the end of a task to the start of one that waited for it; from the end of a copy to the start of what
#: waits for it on another die; of a ring reduction beside its words, on two dies, and for each further hop; of one on a
#: single die beside its words.
CONTROL: dict[str, float] = {
    "fetch": 2 * BODY_WORDS + 8, "issue": 12, "arrival": 100, "ring": 340, "hop": 28, "reduce": 200}

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
    calibration: Calibration | None = None
    _cycles: dict[tuple[Any, ...], Cycles] = field(default_factory=dict, compare=False)
    _products: dict[Product, Multiplication] = field(default_factory=dict, compare=False)
    _stages: dict[tuple[Any, ...], tuple[float, float, float]] = field(default_factory=dict, compare=False)
    #: What tasks of steps take, as :mod:`plinth.plan.cost.tasks` has asked.
    known_products: dict[tuple[Any, ...], Any] = field(default_factory=dict, compare=False)
    known_vectors: dict[tuple[Any, ...], Any] = field(default_factory=dict, compare=False)

    @property
    def source(self) -> str:
        """Where the cycles come from, for people."""
        if self.calibration is None:
            return (f"tile formulas at an efficiency of 1, as preset {self.parameters.name} has no calibration table")
        return (f"tile formulas scaled by {self.calibration.tasks} tasks measured "
                f"on the RTL of preset {self.calibration.preset} (Verilog {self.calibration.verilog_sha256[:12]})")

    @cached_property
    def control(self) -> dict[str, float]:
        """Cycles of :data:`CONTROL`, as measured."""
        return CONTROL | (dict(self.calibration.control) if self.calibration else {})

    @property
    def measured_rate(self) -> Fraction:
        """Flits a cycle of the links with which tables were measured."""
        return PRESETS[self.calibration.preset].link_rate if self.calibration else self.parameters.link_rate

    @cached_property
    def _ratios(self) -> dict[str, tuple[_Ratio, _Ratio]]:
        """By product, program or copy: of tasks alone, and in a row."""
        found = {name: (_Ratio(), _Ratio()) for name in (*PRODUCTS, *PROGRAMS, *COPIES)}
        table = self.calibration
        if table:
            for row in table.matrix:
                shape, formula = self._measured(row)
                self._add(found[row[0]], shape, formula, *row[-2:])
            for name, *shape, cycles, period in table.transfer:
                copy = Copy.part(*shape)
                # Measured at the preset's own link rate, whatever the array's is.
                link = COPIES.index(name) * copy.flits(self.parameters) / float(self.measured_rate)
                self._add(found[name], _near(copy), self._copied(name, copy, link), cycles, period)
            for name, *shape, cycles, _ in table.vector:
                whole = sum(vector_formula(self.parameters, PROGRAMS[name], *shape))
                self._add(found[name], shape, (whole, whole), cycles, cycles)
        return found

    def _measured(self, row: Sequence[Any]) -> tuple[Sequence[int], Cycles]:
        """m, n, k of a measured product, and its cycles by the formula."""
        if self.parameters.machine == SYSTOLIC:
            product, m, n, k, run, *_ = row
            return (m, n, k), matrix_formula(self.parameters, m, n, k, run, product)
        name, samples, inputs, outputs, size, kernel, stride, padding, *_ = row
        product = Product(name.rpartition("-")[2], samples, inputs, outputs,
                          square(size, kernel, stride, padding) if kernel else None)
        found = work(self.parameters, row_stationary_parts(self.parameters, product))
        return product.gemm, (found.alone, found.row)

    @staticmethod
    def _add(ratios: tuple[_Ratio, _Ratio], shape: Sequence[int], formula: Cycles, *measured: int) -> None:
        for ratio, one, two in zip(ratios, formula, measured, strict=True):
            ratio.add(shape, two / one)

    def matrix(self, product: str, m: int, n: int, k: int, run: int = 0) -> Cycles:
        """Of a product of m x k and k x n; none of an empty one."""
        key = (product, m, n, k, run)
        if key not in self._cycles:
            found: Cycles = (0.0, 0.0)
            if m and n and k:
                found = self.scaled(product, (m, n, k), matrix_formula(self.parameters, m, n, k, run, product))
            self._cycles[key] = found
        return self._cycles[key]

    def scaled(self, product: str, shape: tuple[int, int, int], cycles: Cycles) -> Cycles:
        """Cycles of the formula for a product of a kind, times what measured ones near m, n, k took of theirs."""
        one, two = self._ratios[product]
        return cycles[0] * one(shape), cycles[1] * two(shape)

    def product(self, product: Product) -> Multiplication:
        """What a product takes; nothing if it is empty."""
        if product not in self._products:
            if product.empty:
                found = Multiplication((0.0, 0.0), 0.0, 0.0)
            elif self.parameters.machine == SYSTOLIC:
                shape = (*product.gemm, product.run(self.parameters.packing))
                found = Multiplication(self.matrix(product.name, *shape),
                                       *matrix_memory(self.parameters, *shape, product.name))
            else:
                moved = work(self.parameters, row_stationary_parts(self.parameters, product))
                words = moved.read + moved.written
                found = Multiplication(self.scaled(product.name, product.gemm, (moved.alone, moved.row)), words,
                                       words / float(self.parameters.memory_words_per_cycle) / moved.row)
            self._products[product] = found
        return self._products[product]

    def vector(self, program: str, rows: int, columns: int, work: Work | None = None) -> tuple[float, float, float]:
        """Cycles in which a vector program like one of :data:`PROGRAMS` that does ``work`` (default: that program's)
        on rows x columns elements loads, computes and stores; none of an empty one."""
        key = (program, rows, columns, work)
        if key not in self._stages:
            found = (0.0, 0.0, 0.0)
            if rows and columns:
                load, compute, store = vector_formula(self.parameters, work or PROGRAMS[program], rows, columns)
                ratio = self._ratios[program][0]((rows, columns))
                found = load * ratio, compute * ratio, store * ratio
            self._stages[key] = found
        return self._stages[key]

    def ring_latency(self, members: int, hops: int, link_latency: float) -> float:
        """Cycles of a ring reduction beside its words, with so many links from a member to the next."""
        control = self.control
        return (control["ring"] + 2 * (members - 2) * control["hop"]
                + 2 * (members - 1) * (hops * link_latency - LINK_LATENCY))

    def _copied(self, kind: str, copy: Copy, link: float | None = None) -> Cycles:
        """A copy by its formula; default of ``link``: while all dies of a ring send as far."""
        hops = COPIES.index(kind)
        if hops and link is None:
            link = hops * copy.flits(self.parameters) / float(self.parameters.link_rate)
        return copy_formula(self.parameters, copy, link if hops else None)

    def copy(self, kind: str, copy: Copy, link: float | None = None) -> Cycles:
        """Of a copy of a tile, by one of :data:`COPIES`, until its last word has left.

        Parameters
        ----------
        link : float, optional
            Cycles of the fullest link on its way; default: while all dies of a ring send as far.
        """
        key = (kind, copy, link)
        if key not in self._cycles:
            found: Cycles = (0.0, 0.0)
            if copy.rows and copy.columns:
                alone, row = self._copied(kind, copy, link)
                (one, two), near = self._ratios[kind], _near(copy)
                found = alone * one(near), row * two(near)
            self._cycles[key] = found
        return self._cycles[key]

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
        alone, row = self.copy("local", Copy.part(rows, columns))
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


def _near(copy: Copy) -> tuple[int, int]:
    """A copy's shape as its neighbours are found by: its columns count more than its rows."""
    return copy.rows, copy.columns ** 3


@lru_cache(maxsize=64)
def machine(parameters: DieParameters, folder: Path = FOLDER) -> Machine:
    """The die of a preset, calibrated if there is a table.

    Raises
    ------
    UserError
        If the table is malformed.
    """
    path = folder / f"{parameters.name}.yaml"
    return Machine(parameters, load_calibration(path) if path.exists() else None)
