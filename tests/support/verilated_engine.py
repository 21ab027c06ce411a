"""Engines under Verilator, with the memory behind their ports: thousands of tasks in a second."""

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
from plinth_hw.comm.flit import flit_layout
from plinth_hw.comm.transfer import TransferEngine
from plinth_hw.control.engine import Done
from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.formats import word_type
from plinth_hw.isa.layout import Struct
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import request_layout
from plinth_sim.rtl.elaborate import module_text
from plinth_sim.rtl.verilator import build_library

#: 32-bit words of a ``Done``.
_DONE_WORDS = 5
_SETTINGS = ("seed", "availability", "latency", "response_delay", "limit", "models", "tasks", "words", "run_on",
             "cycles", "first_die", "dies", "gate")
_COUNTS = ("cycles", "busy", "stall_input", "stall_output", "stall_memory", "words", "useful_macs",
           "issued_macs", "first_busy", "last_busy", "finished", "faults", "own_faults")
_ARRAYS = ("task_counts", "tasks", "memory", "done", "counts", "traffic", "arrivals")
_ENGINE = ("body_valid", "body_ready", "body_payload", "operation", "start_valid", "start_ready",
           "done_valid", "done_ready", "done_payload", "strobes")

Task = tuple[int, list[int]]
Words = NDArray[np.unsignedinteger]


class _Settings(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in _SETTINGS]


class _Arrays(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in _ARRAYS]


@dataclass
class Outcome:
    """What a run gave: a ``Done`` a task, the strobes added up, and what was asked of memory."""

    done: list[Any]
    #: Until the last task was done.
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
    #: Requests of each memory port, and the beats that they asked for.
    requests: dict[str, int]
    beats: dict[str, int]
    #: Of a transfer engine: how often each counter was advanced by a tile that arrived.
    arrivals: NDArray[np.uint64]
    #: Of a transfer engine: tiles' packets out of range, from other dies and from this one.
    faults: int
    own_faults: int

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
        self.parameters = parameters
        self.layout = layout
        self.ports = reads + writes
        request = Value.cast(getattr(engine, self.ports[0]).request.payload)
        assert len(request) == request_layout(parameters).size
        self.word_type = word_type(parameters.memory_format)
        self.counters = parameters.counters if isinstance(engine, TransferEngine) else 0
        flit = flit_layout(parameters)["destination"]
        headers = {**checked_memory.headers(parameters, reads, writes), "engine_ports.h": "\n".join([
            checked_memory.references("ENGINE", ["engine"], _ENGINE),
            f"#define LINKS {int(bool(self.counters))}",
            f"constexpr int COUNTERS = {self.counters};",
            f"constexpr int DESTINATION_OFFSET = {flit.offset}, DESTINATION_BITS = {flit.width};", ""])}
        # Tests of a machine's products and of its convolutions are of one engine.
        text = emit.verilog(engine, "engine_top", array_form, cache=module_text)
        library = build_library({"engine.sv": text}, "engine_top", cpp=[Path(__file__).with_name("engine_harness.cpp")],
                                headers=headers, jobs=1)
        self._engine_run = ctypes.CDLL(str(library)).engine_run

    def run(self, tasks: list[Task], bases: Sequence[int], memory: Words, *, seed: int = 1, availability: float = 1,
            latency: int = 6, limit: int = 1_000_000) -> Outcome:
        """Run ``tasks`` (operation, body words, with pointers) on ``memory``, in place. A transfer engine is that of
        the machine's only die.

        ``availability`` is the probability of every handshake in a cycle, ``latency`` that of memory in
        cycles.

        Raises
        ------
        AssertionError
            If the engine breaks a rule of its ports or hangs; the message says how.
        """
        return self._run([tasks], bases, [memory], seed=seed, availability=round(256 * availability), latency=latency,
                         response_delay=latency, limit=limit, dies=1)[0]

    def _run(self, tasks: Sequence[list[Task]], bases: Sequence[int], memories: Sequence[Words], **settings: int
             ) -> list[Outcome]:
        """Run a list of tasks on each of some models of the engine."""
        models, most, size = len(tasks), max(map(len, tasks)), memories[0].size
        assert all(memory.dtype == self.word_type and memory.size == size for memory in memories)
        bodies = np.zeros((models, most, 1 + BODY_WORDS), dtype=np.uint32)
        for model, listed in enumerate(tasks):
            for number, (operation, body) in enumerate(listed):
                bodies[model, number] = [operation, *resolved(self.layout, body, bases)]
        arrays: dict[str, NDArray[Any]] = {
            "task_counts": np.array([len(listed) for listed in tasks], dtype=np.uint64), "tasks": bodies,
            "memory": np.stack(memories), "done": np.zeros((models, most, _DONE_WORDS), dtype=np.uint32),
            "counts": np.zeros((models, len(_COUNTS)), dtype=np.uint64),
            "traffic": np.zeros((models, len(self.ports), 2), dtype=np.uint64),
            "arrivals": np.zeros((models, self.counters), dtype=np.uint64)}
        pointers = _Arrays(**{name: array.ctypes.data for name, array in arrays.items()})
        message = ctypes.create_string_buffer(200)
        failed = self._engine_run(ctypes.byref(_Settings(models=models, tasks=most, words=size, **settings)),
                                  ctypes.byref(pointers), message, ctypes.c_uint64(len(message)))
        for memory, image in zip(memories, arrays["memory"], strict=True):
            memory[:] = image
        assert not failed, message.value.decode()
        return [self._outcome({name: array[model] for name, array in arrays.items()}) for model in range(models)]

    def _outcome(self, arrays: dict[str, Any]) -> Outcome:
        """What a model gave."""
        counts = dict(zip(_COUNTS, arrays["counts"].tolist(), strict=True))
        done = [Done.from_bits(int.from_bytes(row.tobytes(), "little") & ((1 << 136) - 1))
                for row in arrays["done"][:counts.pop("finished")]]
        requests, beats = (dict(zip(self.ports, column, strict=True)) for column in arrays["traffic"].T.tolist())
        return Outcome(done, **counts, requests=requests, beats=beats, arrivals=arrays["arrivals"])


class VerilatedTransfer(VerilatedEngine):
    """A transfer engine, alone or as those of two dies.

    Parameters
    ----------
    parameters : DieParameters
    """

    #: Numbers of the two dies; the second one is the machine's last.
    DIES = (3, 4)

    def __init__(self, parameters: DieParameters):
        engine = TransferEngine(parameters)
        reads = [name for name in ("read", "add_read", "codes_read") if name in engine.signature.members]
        super().__init__(engine, parameters, parameters.body(Engine.TRANSFER), reads, ["write"])

    def run_pair(self, tasks: Sequence[list[Task]], bases: Sequence[int], memories: Sequence[Words], *, seed: int = 1,
                 availability: float = 1, gate: float = 1, latency: int = 6, response_delay: int = 6,
                 cycles: int = 0, limit: int = 1_000_000) -> list[Outcome]:
        """Run a list of tasks on each of two dies, in place on the memory of each, until what they sent is in memory.

        ``availability`` is the probability of every handshake in a cycle, but for ``gate``, that of what a die takes
        from the other and of arrivals. ``latency`` counts cycles from a request to its data, ``response_delay`` from
        the last beat of a write to its response. If ``cycles`` is not 0 the run takes so many, whatever is done then.

        Raises
        ------
        AssertionError
            If an engine breaks a rule of its ports or hangs; the message says how.
        """
        assert len(tasks) == len(memories) == len(self.DIES)
        return self._run(tasks, bases, memories, seed=seed, availability=round(256 * availability),
                         gate=round(256 * gate), latency=latency, response_delay=response_delay, limit=limit,
                         run_on=20 * latency + 20 * response_delay + 300, cycles=cycles, first_die=self.DIES[0],
                         dies=self.DIES[-1] + 1)
