"""Cycles of a die's tasks: the machine's own tile formulas (docs/matrix.md, docs/vector.md), scaled by measurements.

A table ``calibration/<preset>.yaml``, written by `make calibrate`, holds cycles of matrix and vector tasks measured on
the co-simulated Verilog whose hash stands in it. A task's cycles are its formula's times the ratio of measured to
formula cycles of the measured tasks next to it in formula cycles, interpolated over their logarithm. Without a table
the ratio is 1.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import log
from pathlib import Path
from typing import Any

from plinth.errors import UserError
from plinth.model.files import check_mapping, check_version, read_yaml
from plinth.model.layers import described, is_integer
from plinth_hw.isa.formats import FP16
from plinth_hw.isa.parameters import DieParameters

#: Version of the calibration tables.
CALIBRATION_VERSION = 1
#: Where tables lie, one a preset.
FOLDER = Path(__file__).resolve().parent / "calibration"
#: Latency of a read, and of a write response, that the formulas assume, in cycles.
MEMORY_LATENCY = 10

#: Vector programs that tables hold: forwards (add a row, rectify) and backwards (mask, sum the columns); instructions
#: that are element-wise, reductions, and words moved an element.
PROGRAMS = {"forward": (2, 0, 2), "backward": (1, 1, 3)}
#: Products of a layer; they differ in which operand is transposed.
PRODUCTS = ("fprop", "bprop", "update")

_MATRIX_KEYS = ("product", "m", "n", "k", "cycles")
_VECTOR_KEYS = ("program", "rows", "columns", "cycles")


def interleave_m_log2(parameters: DieParameters, m: int, n: int) -> int:
    """Interleave shape with the fewest tiles; of equal ones the squarest, which loads least."""
    depth = parameters.interleave.bit_length() - 1

    def cost(log2: int) -> tuple[int, int]:
        tile_m = parameters.rows << log2
        tile_n = parameters.columns << (depth - log2)
        return -(-m // tile_m) * -(-n // tile_n), tile_m + tile_n

    return min(range(depth + 1), key=cost)


def matrix_formula(parameters: DieParameters, m: int, n: int, k: int) -> float:
    """Cycles of one GEMM task alone, operands in time or memory at its full rate."""
    rows, columns, slots = parameters.rows, parameters.columns, parameters.interleave
    shape = interleave_m_log2(parameters, m, n)
    tile_m, tile_n = rows << shape, columns * (slots >> shape)
    down, across = -(-m // tile_m), -(-n // tile_n)
    store = tile_m * -(-tile_n // parameters.beat_words)
    two = parameters.output_buffer_words >= 2 * parameters.tile_words
    steps = max(k, (store + 8) / slots if two else (rows * slots + store + 20) / slots)
    packing = 2 if parameters.multiply_format == FP16 else 1
    panel = packing * parameters.operand_buffer_words // max(tile_m, tile_n)
    loads = m * k * (across if k > 2 * panel else 1) + k * n * (1 if k <= panel and across == 1 else down)
    memory = float((loads / packing + m * n) / parameters.memory_words_per_cycle)
    return (40 + 2 * MEMORY_LATENCY + max(slots * down * across * steps, memory)
            + rows * slots + rows + columns + store)


def vector_formula(parameters: DieParameters, program: str, rows: int, columns: int) -> float:
    """Cycles of a vector program of :data:`PROGRAMS` over rows x columns elements."""
    wise, reductions, moved = PROGRAMS[program]
    beat = parameters.beat_words
    across = -(-columns // beat)
    groups = min(across * rows, -(-rows // beat) * columns)
    sums = 8 * -(-across // 4) * rows
    memory = float(moved * rows * columns / parameters.memory_words_per_cycle)
    return 40 + max(wise * (2 * groups + 15) + reductions * (sums + 15), memory)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Measured cycles of one preset."""

    preset: str
    number_format: str
    verilog_sha256: str
    #: Product of "fprop", "bprop" or "update", m, n, k, cycles.
    matrix: tuple[tuple[str, int, int, int, int], ...]
    #: Program, rows, columns, cycles.
    vector: tuple[tuple[str, int, int, int], ...]

    def to_data(self) -> dict[str, Any]:
        """As the YAML file holds it."""
        return {"version": CALIBRATION_VERSION, "preset": self.preset, "format": self.number_format,
                "verilog_sha256": self.verilog_sha256,
                "matrix": [dict(zip(_MATRIX_KEYS, row, strict=True)) for row in self.matrix],
                "vector": [dict(zip(_VECTOR_KEYS, row, strict=True)) for row in self.vector]}


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
                  required=("version", "preset", "format", "verilog_sha256", "matrix", "vector"))
    tables: dict[str, list[tuple[Any, ...]]] = {}
    for name, keys, words in (("matrix", _MATRIX_KEYS, PRODUCTS), ("vector", _VECTOR_KEYS, tuple(PROGRAMS))):
        if not isinstance(data[name], list) or not data[name]:
            raise UserError(f"{where}: {name} must be a list of measurements; {remedy}")
        rows = []
        for number, row in enumerate(data[name]):
            check_mapping(row, f"{where}: {name}[{number}]", "a measurement", required=keys)
            for key in keys:
                fits = row[key] in words if key == keys[0] else is_integer(row[key], 1, 1 << 40)
                if not fits:
                    raise UserError(f"{where}: {name}[{number}].{key} cannot be {described(row[key])}; {remedy}")
            rows.append(tuple(row[key] for key in keys))
        tables[name] = rows
    for key in ("preset", "format", "verilog_sha256"):
        if not isinstance(data[key], str):
            raise UserError(f"{where}: {key} must be text, not {described(data[key])}; {remedy}")
    return Calibration(preset=data["preset"], number_format=data["format"], verilog_sha256=data["verilog_sha256"],
                       matrix=tuple(tables["matrix"]), vector=tuple(tables["vector"]))


class _Ratio:
    """Measured over formula cycles, interpolated over the logarithm of the formula's."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        merged: dict[float, list[float]] = {}
        for formula, measured in points:
            merged.setdefault(log(formula), []).append(measured / formula)
        self.places = sorted(merged)
        self.values = [sum(merged[place]) / len(merged[place]) for place in self.places]

    def __call__(self, formula: float) -> float:
        if not self.places:
            return 1.0
        place = log(formula)
        upper = bisect_left(self.places, place)
        if upper in (0, len(self.places)):
            return self.values[min(upper, len(self.places) - 1)]
        share = (place - self.places[upper - 1]) / (self.places[upper] - self.places[upper - 1])
        return self.values[upper - 1] * (1 - share) + self.values[upper] * share


@dataclass(frozen=True)
class Machine:
    """One die: cycles of its tasks."""

    parameters: DieParameters
    calibration: Calibration | None = None
    _cycles: dict[tuple[Any, ...], float] = field(default_factory=dict, compare=False)

    @property
    def source(self) -> str:
        """Where the cycles come from, for people."""
        if self.calibration is None:
            return (f"tile formulas at an efficiency of 1, as preset {self.parameters.name} has no calibration table")
        return (f"tile formulas scaled by {len(self.calibration.matrix) + len(self.calibration.vector)} tasks measured "
                f"on the RTL of preset {self.calibration.preset} (Verilog {self.calibration.verilog_sha256[:12]})")

    @cached_property
    def _ratios(self) -> dict[str, _Ratio]:
        """By product or program."""
        points: dict[str, list[tuple[float, float]]] = {name: [] for name in (*PRODUCTS, *PROGRAMS)}
        if self.calibration:
            for name, m, n, k, cycles in self.calibration.matrix:
                points[name].append((matrix_formula(self.parameters, m, n, k), cycles))
            for name, rows, columns, cycles in self.calibration.vector:
                points[name].append((vector_formula(self.parameters, name, rows, columns), cycles))
        return {name: _Ratio(found) for name, found in points.items()}

    def matrix(self, product: str, m: int, n: int, k: int) -> float:
        """Cycles of a product of m x k and k x n; none of an empty one."""
        if not (m and n and k):
            return 0.0
        key = (product, m, n, k)
        if key not in self._cycles:
            formula = matrix_formula(self.parameters, m, n, k)
            self._cycles[key] = formula * self._ratios[product](formula)
        return self._cycles[key]

    def vector(self, program: str, rows: int, columns: int) -> float:
        """Cycles of element-wise work on rows x columns elements; none of an empty one."""
        if not (rows and columns):
            return 0.0
        key = (program, rows, columns)
        if key not in self._cycles:
            formula = vector_formula(self.parameters, program, rows, columns)
            self._cycles[key] = formula * self._ratios[program](formula)
        return self._cycles[key]


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
