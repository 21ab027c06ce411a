"""Stimulus for the systolic array, what must come out, and the Verilated array that it is given to."""

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth_hw import emit
from plinth_hw.isa.formats import FP16, Fixed
from plinth_hw.matrix.systolic import SystolicArray
from plinth_sim.golden.matrix import canonical
from plinth_sim.rtl.verilator import FAST_FLAGS, build_library

VALID, FIRST, PRELOAD, LAST, DRAIN, LOAD, RESET = (1 << (16 + i) for i in range(7))

HARNESS = Path(__file__).with_name("systolic_harness.cpp")


@dataclass
class Stimulus:
    """Inputs of every cycle, and the drained words that must follow."""

    control: NDArray[np.uint32]
    a: NDArray[Any]
    b: NDArray[Any]
    load: NDArray[Any]
    #: Cycle of every drain start.
    drains: list[int] = field(default_factory=list)
    #: For every drain, [R, I, C] expected words and whether each is known.
    expected: list[tuple[NDArray[Any], NDArray[np.bool_]]] = field(default_factory=list)


class VerilatedArray:
    """One form of an array, built once."""

    def __init__(self, array: SystolicArray, form: emit.ArrayForm) -> None:
        self._word_bits = array.word_format.bits
        text = emit.verilog(array, "top", form)
        # Elements as functions of their own, barely optimised: slow, but built in seconds.
        quick = form == "cells"
        library = build_library({"top.sv": text}, "top", cpp=[HARNESS], jobs=1,
                                flags=(*FAST_FLAGS, "-fno-inline") if quick else FAST_FLAGS,
                                compile_flags=("-O1",) if quick else ())
        self._library = ctypes.CDLL(str(library))
        self._library.array_open.restype = ctypes.c_void_p

    def run(self, stimulus: Stimulus) -> tuple[NDArray[Any], NDArray[np.uint8]]:
        """Words and valid bit that the array shows in every cycle, from power-on."""
        words, bits = stimulus.load, self._word_bits
        cycles, columns = words.shape
        whole = words.dtype == np.int64
        load = words if not whole else np.packbits(
            (words[:, :, None] >> np.arange(bits) & 1).reshape(cycles, -1), axis=1, bitorder="little")
        drain, valid = np.zeros_like(load), np.zeros(cycles, np.uint8)

        def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
            assert array.flags.c_contiguous
            return ctypes.c_void_p(array.ctypes.data)

        def stride(array: NDArray[Any]) -> ctypes.c_uint64:
            return ctypes.c_uint64(array.nbytes // cycles)

        handle = ctypes.c_void_p(self._library.array_open())
        self._library.array_run(
            handle, ctypes.c_uint64(cycles), pointer(stimulus.control),
            pointer(stimulus.a), stride(stimulus.a), pointer(stimulus.b), stride(stimulus.b),
            pointer(load), stride(load), pointer(drain), pointer(valid))
        self._library.array_close(handle)
        if whole:
            unpacked = np.unpackbits(drain, axis=1, count=columns * bits, bitorder="little").reshape(
                cycles, columns, bits)
            drain = unpacked @ np.append(1 << np.arange(bits - 1), -1 << (bits - 1))
        return drain, valid


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Random numbers of a kind: ``plain``, ``bits`` (any pattern), ``small`` (subnormal products and
    sums), ``special`` (infinities, NaNs, zeros, largest among plain ones). Whole numbers are those of Q3.12: plain ones
    are below 1, products of small ones about a unit in the last place. 64 bits: words of the chain, which have two bits
    more."""
    if dtype == np.int16:
        return _whole(rng, kind, shape)
    if dtype == np.int64:
        return _whole(rng, kind, shape).astype(np.int64) * 4 + rng.integers(0, 4, shape)
    kinds = {np.dtype(np.float16): np.uint16, np.dtype(np.float32): np.uint32}
    unsigned = kinds[np.dtype(dtype)]
    plain = rng.standard_normal(shape).astype(dtype)
    if kind == "plain":
        return plain
    bits = rng.integers(0, 1 << (8 * np.dtype(dtype).itemsize), shape, dtype=np.uint64).astype(unsigned)
    if kind == "bits":
        return bits.view(dtype)
    if kind == "small":
        info = np.finfo(dtype)
        scale = rng.choice([info.smallest_subnormal, info.smallest_normal, np.sqrt(info.smallest_normal),
                            np.sqrt(info.smallest_subnormal.astype(np.float64)), 1.0], shape)
        return (plain * scale).astype(dtype)
    info = np.finfo(dtype)
    special = rng.choice(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, info.max, -info.max,
                                   info.smallest_subnormal], dtype), shape)
    signalling = (unsigned(1) | np.array(np.inf, dtype).view(unsigned)).view(dtype)
    special = np.where(rng.random(shape) < 0.05, signalling, special)
    return np.where(rng.random(shape) < 0.03, special, plain).astype(dtype)


def _whole(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> NDArray[np.int16]:
    info = np.iinfo(np.int16)
    words = rng.integers(info.min, info.max, shape, dtype=np.int16, endpoint=True)
    if kind == "plain":
        return words >> 3
    if kind == "small":
        return words >> 9
    if kind == "special":
        return np.where(rng.random(shape) < 0.1, rng.choice([info.min, info.max, 0, -1, 1], shape),
                        words >> 3).astype(np.int16)
    return words


class Schedule:
    """Builds a legal stimulus, tile by tile, from the array's published latencies."""

    def __init__(self, array: SystolicArray, seed: int, cycles: int) -> None:
        self.array = array
        self.rng = np.random.default_rng(seed)
        self.fixed = isinstance(array.word_format, Fixed)
        self.dtype = np.int16 if self.fixed else np.float16 if array.multiply_format == FP16 else np.float32
        self.word = np.int64 if self.fixed else np.float32
        interleave = array.interleave
        self.s = Stimulus((np.arange(cycles) % interleave).astype(np.uint32),
                          numbers(self.rng, "bits", (cycles, array.rows), self.dtype),
                          numbers(self.rng, "bits", (cycles, array.columns), self.dtype),
                          numbers(self.rng, "bits", (cycles, array.columns), self.word))
        # Controls in bubbles must not matter.
        noise = self.rng.integers(0, 8, cycles, dtype=np.uint32) * np.uint32(FIRST)
        self.s.control |= noise
        #: First slot 0 at which the next tile may start, and limits of the running tokens.
        self.now = interleave
        self.token_free = 0
        self.capture_free = 0
        #: Earliest drain of the tile before, and its results.
        self.finished: int | None = None
        self.results: tuple[NDArray[Any], NDArray[np.bool_]] | None = None

    def _align(self, cycle: int) -> int:
        return -(-cycle // self.array.interleave) * self.array.interleave

    def drain(self, *, wait: int = 0, exchange: bool = False) -> int:
        """Drain the tile before, as early as allowed and ``wait`` cycles; return the cycle."""
        assert self.finished is not None and self.results is not None
        start = max(self.finished, self.token_free) + wait
        self.s.control[start] |= DRAIN | (LOAD if exchange else 0)
        self.s.drains.append(start)
        self.s.expected.append(self.results)
        self.finished = self.results = None
        self.token_free = start + self.array.token_cycles
        self.capture_free = start + self.array.capture_spacing
        return start

    def load(self, kind: str, *, wait: int = 0, at: int | None = None) -> NDArray[Any]:
        """Load words; return them as [R, I, C]. ``at``: the cycle of an exchange."""
        array = self.array
        start = at if at is not None else self.token_free + wait
        self.s.control[start] |= LOAD
        self.token_free = start + array.token_cycles
        words = numbers(self.rng, kind, (array.token_cycles, array.columns), self.word)
        first = start + array.load_delay
        self.s.load[first:first + array.token_cycles] = words
        self.now = max(self.now, self._align(start + array.load_latency))
        return words.reshape(array.rows, array.interleave, array.columns)

    def tile(self, steps: int, kind: str, *, start: NDArray[Any] | None = None,
             bubbles: float = 0.0, idle: float = 0.0) -> None:
        """One tile of ``steps`` k steps; ``bubbles``: share of empty steps, ``idle``: of slots not used."""
        array, rng, s = self.array, self.rng, self.s
        interleave = array.interleave
        used = rng.random(interleave) >= idle
        totals = np.zeros((array.rows, interleave, array.columns), self.word) if start is None else start
        sums, words = array.accumulate_format, array.word_format
        finer = sums.fraction_bits - words.fraction_bits
        if self.fixed:
            totals = totals << finer
        k = 0
        while k < steps:
            late = k == steps - 1 and self.now < self.capture_free
            cycle, self.now = self.now, self.now + interleave
            if late or rng.random() < bubbles:
                continue
            span = slice(cycle, cycle + interleave)
            a = numbers(rng, kind, (interleave, array.rows), self.dtype)
            b = numbers(rng, kind, (interleave, array.columns), self.dtype)
            s.a[span], s.b[span] = a, b
            flags = VALID | (FIRST if k == 0 else 0) | (LAST if k == steps - 1 else 0)
            flags |= PRELOAD if k == 0 and start is not None else 0
            noise = s.control[span] & ~np.uint32(FIRST | PRELOAD | LAST)
            s.control[span] = np.where(used, noise | np.uint32(flags), s.control[span])
            left, right = a.astype(self.word).T[:, :, None], b.astype(self.word)[None]
            with np.errstate(all="ignore"):
                totals = totals + left * right
            totals = totals.clip(sums.least, sums.most) if self.fixed else canonical(totals)
            k += 1
        if self.fixed:
            totals = (totals >> finer | (totals & (1 << finer) - 1 != 0)).clip(words.least, words.most)
        self.finished = self.now - 1 + array.compute_latency
        self.results = totals, np.broadcast_to(used[None, :, None], totals.shape)

    def finish(self) -> Stimulus:
        """Drain what is left and return the stimulus, cut behind the last word."""
        end = self.drain() + self.array.drain_latency + self.array.token_cycles + 4
        s = self.s
        assert end <= len(s.control), f"the schedule needs {end} cycles"
        s.control, s.a, s.b, s.load = s.control[:end], s.a[:end], s.b[:end], s.load[:end]
        return s


def random_schedule(array: SystolicArray, seed: int, tiles: int) -> Stimulus:
    """Tiles of every kind of number and start, at tight and at loose spacing."""
    schedule = Schedule(array, seed, tiles * (6 * array.token_cycles + 40 * array.interleave))
    rng = schedule.rng
    kinds = ["plain", "bits", "small", "special"]
    for i in range(tiles):
        def wait() -> int:
            return int(rng.integers(0, 12)) if rng.random() < 0.5 else 0
        start, mode = None, rng.choice(["zero", "zero", "load", "exchange"])
        at = schedule.drain(wait=wait(), exchange=mode == "exchange") if i else None
        if mode != "zero":
            start = schedule.load(str(rng.choice(kinds)), wait=wait(), at=at if mode == "exchange" else None)
        schedule.tile(int(rng.choice([1, 2, 3, array.rows, array.rows + 3])), str(rng.choice(kinds)),
                      start=start, bubbles=float(rng.choice([0, 0.3])), idle=float(rng.choice([0, 0.3])))
    return schedule.finish()


def _bits(words: NDArray[Any]) -> NDArray[Any]:
    return words.view(np.uint32) if words.dtype == np.float32 else words


def check(array: SystolicArray, stimulus: Stimulus, drain: NDArray[Any],
          valid: NDArray[np.uint8]) -> None:
    """Words must come in exactly the cycles that the latencies promise, and be right."""
    expected_valid = np.zeros(len(valid), bool)
    for start, (words, known) in zip(stimulus.drains, stimulus.expected, strict=True):
        first = start + array.drain_latency
        span = slice(first, first + array.token_cycles)
        expected_valid[span] = True
        got = drain[span].reshape(words.shape)
        np.testing.assert_array_equal(_bits(got)[known], _bits(words)[known], f"drain at cycle {start}")
    np.testing.assert_array_equal(valid.astype(bool), expected_valid)
