"""An engine under Verilator, with the memory behind its ports: thousands of tasks in a second."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import Value
from numpy.typing import NDArray
from tests.support import checked_memory
from tests.support.engine_bench import resolved

from plinth_hw import emit
from plinth_hw.control.engine import Done
from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.formats import word_type
from plinth_hw.isa.layout import Struct
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import request_layout
from plinth_sim.rtl.elaborate import module_text
from plinth_sim.rtl.verilator import build_library

#: 32-bit words of a ``Done``.
_DONE_WORDS = 5
_COUNTS = ("cycles", "busy", "stall_input", "stall_output", "stall_memory", "words", "useful_macs",
           "issued_macs", "first_busy", "last_busy")
_ENGINE = ("body__valid", "body__ready", "body__payload", "operation", "start__valid", "start__ready",
           "done__valid", "done__ready", "done__payload", "strobes")


class _Settings(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("seed", "availability", "latency", "limit")]


class _Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in _COUNTS]


@dataclass
class Outcome:
    """What a run gave: a ``Done`` a task, and the strobes added up."""

    done: list[Any]
    cycles: int
    busy: int
    stall_input: int
    stall_output: int
    stall_memory: int
    words: int
    useful_macs: int
    issued_macs: int
    #: First and last cycle with ``busy``.
    first_busy: int
    last_busy: int

    @property
    def stalls(self) -> int:
        """Cycles in any stalled state."""
        return self.stall_input + self.stall_output + self.stall_memory


class VerilatedEngine:
    """An engine, built once (builds are cached).

    Parameters
    ----------
    engine : wiring.Component
        With ``engine: Out(EngineSignature)`` and memory ports.
    parameters : DieParameters
    layout : type of Struct
        Bodies of its tasks.
    reads, writes : list of str
        Names of its read and write ports.
    array_form : "cells" or "loops"
        Form of a systolic array in it.
    """

    def __init__(self, engine: Any, parameters: DieParameters, layout: type[Struct], reads: list[str],
                 writes: list[str], array_form: emit.ArrayForm = "cells"):
        self.layout = layout
        request = Value.cast(getattr(engine, (reads + writes)[0]).request.payload)
        assert len(request) == request_layout(parameters).size
        self.word_type = word_type(parameters.memory_format)
        headers = {**checked_memory.headers(parameters, reads, writes),
                   "engine_ports.h": checked_memory.references("ENGINE", ["engine"], _ENGINE)}
        # Tests of a machine's products and of its convolutions are of one engine.
        text = emit.verilog(engine, "engine_top", array_form, cache=module_text)
        library = build_library({"engine.sv": text}, "engine_top", cpp=[Path(__file__).with_name("engine_harness.cpp")],
                                headers=headers, jobs=1)
        self._run = ctypes.CDLL(str(library)).engine_run

    def run(self, tasks: list[tuple[int, list[int]]], bases: Sequence[int], memory: NDArray[np.unsignedinteger], *,
            seed: int = 1, availability: float = 1, latency: int = 6, limit: int = 1_000_000) -> Outcome:
        """Run ``tasks`` (operation, body words, with pointers) on ``memory``, in place.

        ``availability`` is the probability of every handshake in a cycle, ``latency`` that of memory in
        cycles.

        Raises
        ------
        AssertionError
            If the engine breaks a rule of its ports or hangs; the message says how.
        """
        words = np.array([[operation, *resolved(self.layout, body, bases)] for operation, body in tasks],
                         dtype=np.uint32)
        assert words.shape == (len(tasks), 1 + BODY_WORDS)
        assert memory.dtype == self.word_type and memory.flags.c_contiguous
        done = np.zeros((len(tasks), _DONE_WORDS), dtype=np.uint32)
        settings = _Settings(seed, round(256 * availability), latency, limit)
        counts = _Counts()
        message = ctypes.create_string_buffer(200)

        def pointer(array: NDArray[np.unsignedinteger]) -> ctypes.c_void_p:
            return ctypes.c_void_p(array.ctypes.data)

        failed = self._run(pointer(words), ctypes.c_uint64(len(tasks)), pointer(memory), ctypes.c_uint64(memory.size),
                           ctypes.byref(settings), pointer(done), ctypes.byref(counts), message,
                           ctypes.c_uint64(len(message)))
        assert not failed, message.value.decode()
        return Outcome([Done.from_bits(int.from_bytes(row.tobytes(), "little") & ((1 << 136) - 1))
                        for row in done], **{name: getattr(counts, name) for name in _COUNTS})
