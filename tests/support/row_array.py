"""Passes for the row-stationary array, what must come out, and the Verilated array that they are given to."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support.systolic import numbers

from plinth_hw import emit
from plinth_hw.isa.formats import FP16
from plinth_hw.matrix.row_stationary.array import RowArray
from plinth_hw.matrix.row_stationary.interface import Pass
from plinth_sim.golden.matrix import canonical
from plinth_sim.rtl.verilator import FAST_FLAGS, build_library

HARNESS = Path(__file__).with_name("row_array_harness.cpp")
#: Probabilities in 1/256 with which the harness offers passes, filters, ifmaps and psums.
Gates = tuple[int, int, int, int]
ALWAYS: Gates = (256, 256, 256, 256)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Which rows of a map each PE takes: sets x set_rows array rows, images x image_rows array columns."""

    sets: int
    set_rows: int
    images: int
    image_rows: int
    row_stride: int = 1
    row_dilation: int = 1

    @property
    def id_rows(self) -> int:
        """Ids of an image of a set."""
        return (self.image_rows - 1) * self.row_stride + (self.set_rows - 1) * self.row_dilation + 1

    @property
    def ids(self) -> int:
        """Ids in use."""
        return self.sets * self.images * self.id_rows

    @property
    def row_parts(self) -> list[int]:
        """Row parts of the ids of the rows in use."""
        return [s * self.images * self.id_rows + r * self.row_dilation
                for s in range(self.sets) for r in range(self.set_rows)]

    @property
    def column_parts(self) -> list[int]:
        """Column parts of the ids of the columns in use."""
        return [image * self.id_rows + y * self.row_stride
                for image in range(self.images) for y in range(self.image_rows)]


@dataclass(frozen=True, kw_only=True)
class Work:
    """One pass."""

    tap_columns: int
    tap_channels: int
    tap_step: int
    window_step: int
    windows: int
    filter_step: int
    interleaved_windows: int
    #: Lines behind those that windows need.
    further_lines: int = 0

    @property
    def taps(self) -> int:
        """T."""
        return self.tap_columns * self.tap_channels

    @property
    def slots(self) -> int:
        """Psums of a step."""
        return self.filter_step * self.interleaved_windows

    @property
    def groups(self) -> int:
        """Steps that the array runs, each of ``interleaved_windows``."""
        return -(-self.windows // self.interleaved_windows)

    @property
    def span(self) -> int:
        """Words of the stream that a step covers."""
        return (self.tap_columns - 1) * self.tap_step + self.tap_channels

    def lines(self, feed_words: int) -> int:
        """Lines of a stream."""
        return -(-((self.windows - 1) * self.window_step + self.span) // feed_words) + self.further_lines

    def reach(self, feed_words: int) -> int:
        """Words that must be in the ring at once for a step to run."""
        return (self.interleaved_windows - 1) * self.window_step + self.span + 2 * feed_words


def pack(layout: Any, **fields: int) -> int:
    """Bits of a structure."""
    total = 0
    for name, value in fields.items():
        assert 0 <= value < 1 << layout[name].width, f"{name} = {value} does not fit"
        total |= value << layout[name].offset
    return total


def _bits(words: NDArray[Any]) -> int:
    return int.from_bytes(np.ascontiguousarray(words).tobytes(), "little")


@dataclass
class Program:
    """Events for every port, and what must come out."""

    shape: Any
    rng: np.random.Generator
    kind: str = "plain"
    passes: list[int] = field(default_factory=list)
    filters: list[int] = field(default_factory=list)
    filter_row: list[int] = field(default_factory=list)
    filter_loaded: list[int] = field(default_factory=list)
    ifmaps: list[int] = field(default_factory=list)
    ifmap_kind: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    psums: list[int] = field(default_factory=list)
    step_words: list[int] = field(default_factory=list)
    #: Words [columns] of each result, and which of them are known.
    expected: list[NDArray[np.float32]] = field(default_factory=list)
    known: list[NDArray[np.bool_]] = field(default_factory=list)
    #: Cycles in which each row multiplies.
    issued: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = np.float16 if self.shape.multiply_format == FP16 else np.float32
        self.issued = np.zeros(self.shape.rows, np.int64)

    def place(self, placement: Placement) -> None:
        """Write the ids that the passes behind use; unused rows and columns keep theirs."""
        layout = self.shape.id_write
        writes = [(0, i, part) for i, part in enumerate(placement.row_parts)]
        writes += [(1, j, part) for j, part in enumerate(placement.column_parts)]
        for is_column, index, value in writes:
            self.ids.append(pack(layout, valid=1, is_column=is_column, index=index, value=value))
            self.ifmap_kind.append(2)

    def add(self, placement: Placement, work: Work) -> None:
        """A pass with random words."""
        shape, rng = self.shape, self.rng
        active, feed = len(placement.row_parts), shape.feed_words
        lines = work.lines(feed)
        self.passes.append(pack(
            Pass.as_shape(), tap_columns=work.tap_columns, tap_channels=work.tap_channels, tap_step=work.tap_step,
            window_step=work.window_step, windows=work.windows, filter_step=work.filter_step,
            interleaved_windows=work.interleaved_windows, lines=lines, active=active))

        filters = numbers(rng, self.kind, (active, work.taps, work.filter_step), self.dtype)
        tap_lines = -(-work.filter_step // feed)
        padded = np.zeros((active, work.taps, tap_lines * feed), self.dtype)
        padded[:, :, :work.filter_step] = filters
        half = (len(self.passes) - 1) % 2
        for row in range(shape.rows):
            if row < active:
                order = rng.permutation(work.taps * tap_lines)
                for at, line in enumerate(order):
                    self.filters.append(pack(shape.filter_write, valid=1, row=row, half=half, address=int(line),
                                             words=_bits(padded[row].reshape(-1, feed)[line])))
                    self.filter_row.append(row)
                    self.filter_loaded.append(1 << row if at == len(order) - 1 else 0)
            else:
                self.filters.append(0)
                self.filter_row.append(row)
                self.filter_loaded.append(1 << row)

        streams = numbers(rng, self.kind, (placement.ids, lines, feed), self.dtype)
        for line in range(lines):
            for at, number in enumerate(rng.permutation(placement.ids)):
                self.ifmaps.append(pack(shape.ifmap_write, valid=1, id=int(number),
                                          words=_bits(streams[number, line])))
                self.ifmap_kind.append(int(at == placement.ids - 1))

        psums = numbers(rng, self.kind, (work.groups, work.interleaved_windows, work.filter_step, shape.columns),
                       np.float32)
        self.psums += [_bits(words) for words in psums.reshape(-1, shape.columns)]
        self.step_words += [work.slots] * work.groups
        self._expect(placement, work, filters, streams.reshape(placement.ids, -1), psums)
        self.issued[:active] += work.groups * work.slots * work.taps

    def _expect(self, placement: Placement, work: Work, filters: NDArray[Any], streams: NDArray[Any],
                psums: NDArray[np.float32]) -> None:
        used = len(placement.column_parts)
        window = np.arange(work.groups * work.interleaved_windows)
        real = window < work.windows
        start = np.where(real, window, 0) * work.window_step
        total = canonical(psums.reshape(len(window), work.filter_step, -1)[:, :, :used])
        with np.errstate(all="ignore"):
            for row, row_part in enumerate(placement.row_parts):
                for tap in range(work.taps):
                    column, channel = divmod(tap, work.tap_channels)
                    places = start + column * work.tap_step + channel
                    x = np.stack([streams[row_part + part][places] for part in placement.column_parts], -1)
                    w = filters[row, tap].astype(np.float32)
                    product = canonical(x.astype(np.float32)[:, None, :] * w[None, :, None])
                    total = canonical(total + product)
        expected = np.zeros((len(window), work.filter_step, self.shape.columns), np.float32)
        expected[:, :, :used] = total
        known = np.zeros(expected.shape, bool)
        known[real, :, :used] = True
        self.expected += list(expected.reshape(-1, self.shape.columns))
        self.known += list(known.reshape(-1, self.shape.columns))


class _Events(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("count", ctypes.c_uint64),
                ("next", ctypes.c_uint64)]


class _Stimulus(ctypes.Structure):
    _fields_ = [
        *((name, _Events) for name in ("passes", "filters", "ifmaps", "ids", "psums")),
        ("filter_row", ctypes.c_void_p), ("filter_loaded", ctypes.c_void_p), ("ifmap_kind", ctypes.c_void_p),
        ("ifmap_events", ctypes.c_uint64), ("gates", ctypes.c_uint32 * 4), ("seed", ctypes.c_uint64),
        ("rows", ctypes.c_uint64), ("ifmap_lines", ctypes.c_uint64), ("step_words", ctypes.c_void_p),
        ("steps", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class Run:
    """What the array was given and showed."""

    #: Results in order.
    results: NDArray[np.float32]
    #: Per cycle, rows that multiply.
    issued: NDArray[np.bool_]
    #: Cycles of results, of passes taken, of ``filters_loaded`` of row 0, of ``line_done``.
    result_cycles: NDArray[np.int64]
    pass_cycles: NDArray[np.int64]
    loaded_cycles: NDArray[np.int64]
    line_cycles: NDArray[np.int64]


class VerilatedRows:
    """One form of an array, built once."""

    def __init__(self, array: RowArray, form: emit.ArrayForm) -> None:
        self.shape = array.shape
        # Elements as functions of their own, barely optimised: slow, but built in seconds.
        quick = form == "cells"
        library = build_library({"top.sv": emit.verilog(array, "top", form)}, "top", cpp=[HARNESS], jobs=1,
                                flags=(*FAST_FLAGS, "-fno-inline") if quick else FAST_FLAGS,
                                compile_flags=("-O1",) if quick else ())
        self._library = ctypes.CDLL(str(library))
        self._library.row_array_run.restype = ctypes.c_uint64

    def run(self, program: Program, gates: Gates = ALWAYS, *, seed: int = 1,
            limit: int = 200_000) -> Run:
        """Run a program from reset.

        Raises
        ------
        AssertionError
            If the array does not end, or breaks a rule of its ports.
        """
        shape = self.shape
        kept: list[NDArray[Any]] = []

        def pointer(array: NDArray[Any]) -> int:
            kept.append(array)
            return int(array.ctypes.data)

        def events(payloads: Sequence[int], bits: int) -> _Events:
            size = -(-bits // 64) * 8
            packed = b"".join(payload.to_bytes(size, "little") for payload in payloads)
            return _Events(pointer(np.frombuffer(packed or bytes(size), np.uint8)), size, len(payloads), 0)

        word_bits = shape.psums_out.size
        result_bytes = -(-word_bits // 64) * 8
        results = np.zeros((len(program.expected), result_bytes), np.uint8)
        trace = np.zeros(limit, np.uint32)
        stimulus = _Stimulus(
            events(program.passes, Pass.as_shape().size), events(program.filters, shape.filter_write.size),
            events(program.ifmaps, shape.ifmap_write.size), events(program.ids, shape.id_write.size),
            events(program.psums, shape.column_psums.size),
            pointer(np.array(program.filter_row, np.uint32)), pointer(np.array(program.filter_loaded, np.uint32)),
            pointer(np.array(program.ifmap_kind, np.uint8)), len(program.ifmap_kind),
            (ctypes.c_uint32 * 4)(*gates), seed, shape.rows, shape.ifmap_lines,
            pointer(np.array(program.step_words, np.uint32)), len(program.step_words))
        cycles = self._library.row_array_run(
            ctypes.byref(stimulus), ctypes.c_uint64(limit), ctypes.c_void_p(results.ctypes.data),
            ctypes.c_uint64(result_bytes), ctypes.c_uint64(len(results)), ctypes.c_void_p(trace.ctypes.data))
        assert cycles != 0, "the array did not end"
        assert cycles != 1, "the array broke a rule of its ports"
        trace = trace[:cycles]
        bits = np.unpackbits(results, axis=1, bitorder="little")[:, 1:word_bits]
        words = np.packbits(np.ascontiguousarray(bits), axis=1, bitorder="little").view(np.uint32)
        return Run(words.view(np.float32), (trace[:, None] >> np.arange(shape.rows) & 1).astype(bool),
                   *(np.flatnonzero(trace >> bit & 1) for bit in (30, 29, 28, 27)))


def check(program: Program, run: Run) -> None:
    """Every known word must be right, and every row must have multiplied as often as its passes say."""
    expected, known = np.array(program.expected), np.array(program.known)
    np.testing.assert_array_equal(run.results.view(np.uint32)[known], expected.view(np.uint32)[known])
    np.testing.assert_array_equal(run.issued.sum(0), program.issued)
