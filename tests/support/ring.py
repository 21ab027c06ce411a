"""A ring of dies, reduced to network and collective engine, under Verilator.

One node is built once; the harness wires any number of them to a ring, plays memory, scheduler and control
side, and keeps what they report.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped
from numpy.typing import NDArray
from tests.support import checked_memory
from tests.support.engine_bench import resolved

from plinth_hw import emit
from plinth_hw.comm.collective import CollectiveEngine
from plinth_hw.comm.interface import NetworkInterface
from plinth_hw.comm.router import Router
from plinth_hw.isa.descriptors import BODY_WORDS
from plinth_hw.isa.parameters import RESET_CYCLES, DieParameters
from plinth_hw.isa.update_bodies import CollectiveBody
from plinth_sim.rtl.verilator import FAST_FLAGS, build_library

HARNESS = Path(__file__).with_name("ring_harness.cpp")
RESULT_WORDS = 4
STROBES = 5


class Node(wiring.Component):
    """Router, interface and collective engine of one die; members are theirs."""

    def __init__(self, parameters: DieParameters):
        self.router = Router(parameters)
        self.interface = NetworkInterface(parameters)
        self.collective = CollectiveEngine(parameters)
        inner = ("inject", "eject_", "send_", "receive_")
        self.parts = (self.router, self.interface, self.collective)
        super().__init__({name: port for part in self.parts for name, port in part.signature.members.items()
                          if not name.startswith(inner)})
        self.parameters = parameters

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.router, m.submodules.interface, m.submodules.collective = self.parts
        for part in self.parts:
            for name, port in part.signature.members.items():
                if name == "die":
                    m.d.comb += part.die.eq(self.die)
                elif name in self.signature.members:
                    if port.is_port:
                        inner, outer = getattr(part, name), getattr(self, name)
                        m.d.comb += outer.eq(inner) if port.flow is wiring.Out else inner.eq(outer)
                    else:
                        connect(m, getattr(part, name), flipped(getattr(self, name)))
        connect(m, self.interface.inject, self.router.inject)
        for number in range(self.parameters.classes):
            connect(m, getattr(self.router, f"eject_{number}"), getattr(self.interface, f"eject_{number}"))
        for b in range(self.parameters.reduce_blocks):
            connect(m, getattr(self.collective, f"send_{b}"), getattr(self.interface, f"send_{b}"))
            connect(m, getattr(self.interface, f"receive_{b}"), getattr(self.collective, f"receive_{b}"))
        return m


@dataclass
class Outcome:
    """What a run reports."""

    cycles: int
    #: [dies, tasks, RESULT_WORDS]: error, stall cycles, payload words, cycle of completion
    results: NDArray[np.uint32]
    #: [dies, STROBES]: cycles busy, stalled for input, output, memory; words
    strobes: NDArray[np.uint64]
    #: [dies, counters]: advances received
    advances: NDArray[np.uint32]
    #: [dies, dies]: ERROR packets reported, by source
    errors: NDArray[np.uint32]


@dataclass
class Ring:
    """A built node.

    Parameters
    ----------
    parameters : DieParameters
    flags, compile_flags
        As for :func:`build_library`.
    """

    parameters: DieParameters
    library: Any = field(init=False)

    def __post_init__(self) -> None:
        p = self.parameters
        text = emit.verilog(Node(p), "top")
        header = f"""
enum {{ COUNTERS = {p.counters}, BODY = {BODY_WORDS}, RESET_CYCLES = {RESET_CYCLES} }};
"""
        blocks = range(p.reduce_blocks)
        memory = checked_memory.headers(p, [f"read_{b}" for b in blocks], [f"write_{b}" for b in blocks],
                                        prompt_writes=True)
        library = build_library({"top.v": text}, "top", cpp=[HARNESS],
                                headers={**memory, "ring_node.h": header}, jobs=2, flags=FAST_FLAGS,
                                compile_flags=("-O1",))
        self.library = ctypes.CDLL(str(library))
        self.library.ring_run.restype = ctypes.c_longlong

    def run(self, memories: NDArray[np.unsignedinteger], tasks: Sequence[Sequence[tuple[int, int, list[int]]]], *,
            bases: Sequence[int] = (0,) * 16, advances: Sequence[Sequence[tuple[int, int]]] = (),
            errors: Sequence[tuple[int, int]] = (), seed: int = 0, availability: float = 1.0,
            latency: int = 8, link_delay: int = 0, rate: tuple[int, int] = (15, 16),
            limit_cycles: int = 200_000) -> Outcome:
        """Run each die's ``tasks`` (operation, earliest start, body) on ``memories`` [dies, words], in place:
        unsigned numbers as wide as the die's words.

        ``advances``: for each die, (die, counter) to send, in order; ``errors``: (cycle, die) that stop.
        ``availability``: with what probability a handshake on a memory port or ``done`` is offered.

        Raises
        ------
        AssertionError
            If it does not end, or a client of the memory broke a rule; the message says which.
        """
        dies, words = memories.shape
        assert memories.itemsize * 8 == self.parameters.word_bits
        count = max((len(t) for t in tasks), default=0)
        flat = np.zeros((dies, max(1, count), 2 + BODY_WORDS), np.uint32)
        counts = np.zeros(dies, np.uint32)
        for die, list_ in enumerate(tasks):
            counts[die] = len(list_)
            for place, (operation, earliest, body) in enumerate(list_):
                flat[die, place] = [operation, earliest, *resolved(CollectiveBody, body, bases)]
        sends = [(die, to, counter) for die, list_ in enumerate(advances) for to, counter in list_]
        outcome = Outcome(0, np.zeros((dies, max(1, count), RESULT_WORDS), np.uint32),
                          np.zeros((dies, STROBES), np.uint64),
                          np.zeros((dies, self.parameters.counters), np.uint32),
                          np.zeros((dies, dies), np.uint32))
        arrays: list[NDArray[Any]] = [
            counts, flat, np.array(sends or [(0, 0, 0)], np.uint32),
            np.array(errors or [(0, 0)], np.uint32), memories, outcome.results, outcome.strobes,
            outcome.advances, outcome.errors]
        assert all(array.flags.c_contiguous for array in arrays)
        numbers = [seed, round(availability * 256), latency, latency, limit_cycles,
                   dies, words, flat.shape[1], len(sends), len(errors), link_delay, *rate]
        message = ctypes.create_string_buffer(256)
        cycles = self.library.ring_run(np.array(numbers, np.uint64).ctypes.data_as(ctypes.c_void_p),
                                       *(ctypes.c_void_p(array.ctypes.data) for array in arrays), message)
        assert cycles >= 0, message.value.decode()
        outcome.cycles = cycles
        return outcome
