"""Vector engine: element-wise programs, reductions and functions over regions of memory.

::

    body, start --> BodyStore -- task --> load stage --> compute stage --> store stage --> done
                                              |            |     |            |
    load_memory ----------------------------->+        +-->+     +--+         +--> store_memory
                                              v        |            v         ^
                                            scratchpad half 0 / half 1 -------+

Task t + 1 loads into one half of the scratchpad while task t computes in the other one, and task t - 1 waits
for memory's responses; a half is free again when its stores have been read. Nothing guards memory between
tasks but their waits: a task may load as soon as its ``start`` is taken.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from plinth_hw.control.engine import EngineSignature, account, ends_signature
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import ReadPort, WritePort
from plinth_hw.memory.rotators import SharedReadRotator, WriteRotator
from plinth_hw.memory.scratchpad import SharedArray, VectorWriter, check_sizes
from plinth_hw.vector.body import READERS, BodyStore
from plinth_hw.vector.compute import ComputeStage
from plinth_hw.vector.load import LoadStage
from plinth_hw.vector.moves import scratchpad_lines
from plinth_hw.vector.store import StoreStage


class VectorEngine(wiring.Component):
    """Runs vector programs, see :class:`~plinth_hw.isa.vector_body.VectorBody`.

    ``payload_words`` of a task are the words it loaded and stored, ``busy`` are cycles in which a program
    ran or a word moved, ``stall_cycles`` as of :func:`~plinth_hw.control.engine.account`.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    engine : Out(EngineSignature)
    load_memory : Out(ReadPort)
    store_memory : Out(WritePort)
    ends : Out
        As of :class:`~plinth_hw.vector.compute.ComputeStage`.

    Raises
    ------
    ValueError
        If the lanes of the scratchpad are not a power of two, or more than the words of a bank.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        banks, lines = parameters.beat_words, scratchpad_lines(parameters)
        check_sizes(banks, lines, parameters.word_bits)
        self._sizes = banks, lines, parameters.word_bits
        super().__init__({
            "engine": Out(EngineSignature(parameters)),
            "load_memory": Out(ReadPort(parameters)),
            "store_memory": Out(WritePort(parameters)),
            **ends_signature(parameters, parameters.beat_words // 2),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        engine = self.engine
        m.submodules.bodies = bodies = BodyStore(self.parameters)
        m.submodules.load = load = LoadStage(self.parameters)
        m.submodules.compute = compute = ComputeStage(self.parameters)
        m.submodules.store = store = StoreStage(self.parameters)
        wiring.connect(m, wiring.flipped(engine.body), bodies.body)
        wiring.connect(m, wiring.flipped(self.load_memory), load.port)
        wiring.connect(m, wiring.flipped(self.store_memory), store.port)
        wiring.connect(m, load.o, compute.i)
        wiring.connect(m, compute.o, store.i)
        assert len(bodies.read) == READERS
        for reader, body in zip(bodies.read, (load.body, compute.body, store.body), strict=True):
            wiring.connect(m, reader, body)

        half = Signal()
        used = Signal(2)
        # A start is taken when nothing stands in its way any more, and seen a cycle later.
        ready, started = Signal(name="start_ready"), Signal(name="started")
        number, operation = Signal.like(engine.start.payload), Signal.like(engine.operation)
        m.d.sync += [
            ready.eq(bodies.complete & load.i.ready & ~used.bit_select(half, 1) & ~started
                     & ~(ready & engine.start.valid)),
            started.eq(ready & engine.start.valid), number.eq(engine.start.payload), operation.eq(engine.operation),
        ]
        m.d.comb += [
            engine.start.ready.eq(ready), bodies.operation.eq(operation), bodies.started.eq(started),
            load.i.valid.eq(started), load.i.payload.summary.eq(bodies.summary),
            load.i.payload.number.eq(number), load.i.payload.body.eq(bodies.place),
            load.i.payload.half.eq(half),
        ]
        with m.If(store.free):
            m.d.sync += used.bit_select(store.half, 1).eq(0)
        with m.If(started):
            m.d.sync += [half.eq(~half), used.bit_select(half, 1).eq(1)]
        if isinstance(self.parameters.memory_format, Fixed):
            m.d.comb += self.ends.eq(compute.ends)
        self._scratchpad(m, load, compute, store)
        self._report(m, bodies, load, compute, store)
        return m

    def _scratchpad(self, m: Module, load: LoadStage, compute: ComputeStage, store: StoreStage) -> None:
        """Each half serves the stage that uses it: loads, stores and the operands by one port of its memories, which
        choose between their commands, the results by the other."""
        banks, lines, width = self._sizes
        m.submodules.load_turn = load_turn = WriteRotator(banks, width)
        m.submodules.store_turn = store_turn = SharedReadRotator(banks, width)
        m.submodules.compute_write = compute_write = VectorWriter(banks, lines, width, words=banks // 2)
        wiring.connect(m, compute.write, compute_write.i)
        m.d.comb += [
            load_turn.enable.eq(load.write.enable), load_turn.skew.eq(load.write.skew),
            load_turn.mask.eq(load.write.mask), load_turn.data.eq(load.write.data),
            store_turn.half.eq(store.half), store_turn.skew.eq(store.read.skew),
            store.read.data.eq(store_turn.o),
        ]
        for number in range(2):
            array = SharedArray(banks, lines, width)
            m.submodules[f"half_{number}"] = array
            loads, stores, computes, results, owned, filled = (Signal(name=f"{name}_{number}") for name in (
                "loads", "stores", "computes", "results", "owned", "filled"))
            # While a program has the half, and a cycle later, nobody else gives a command; its first one comes later.
            # Before it only loads do, after it only stores, until they have read the half.
            m.d.sync += owned.eq(compute.busy & (compute.half == number))
            with m.If(owned):
                m.d.sync += filled.eq(1)
            with m.Elif(store.free & (store.half == number)):
                m.d.sync += filled.eq(0)
            m.d.comb += [
                loads.eq(load.write.enable & (load.half == number)),
                stores.eq(store.read.enable & (store.half == number)),
                computes.eq(compute.read.enable & (compute.half == number)),
                results.eq(compute_write.o.enable & (compute.half == number)),
                array.command.enable.eq(loads | stores | computes), array.write.eq(loads),
                array.mask.eq(load_turn.o_mask), array.data.eq(load_turn.o_data),
                array.other.enable.eq(results), array.other.mask.eq(compute_write.o.mask),
                array.other.line.eq(compute_write.o.line), array.other.data.eq(compute_write.o.data),
            ]
            for name in ("line", "capacity", "skew", "column_low", "along_rows"):
                m.d.comb += getattr(array.command, name).eq(Mux(owned, getattr(compute.read, name), Mux(
                    filled, getattr(store.read, name), getattr(load.write, name))))
            m.d.comb += [getattr(client, f"data_{number}").eq(array.read_data) for client in (store_turn, compute)]

    def _report(self, m: Module, bodies: BodyStore, load: LoadStage, compute: ComputeStage,
                store: StoreStage) -> None:
        """Completion and counters."""
        engine, done, strobes = self.engine, self.engine.done, self.engine.strobes
        tasks, _, stalled = account(m, engine, bodies.started, READERS)
        m.d.comb += [
            done.valid.eq(store.o.valid), store.o.ready.eq(done.ready),
            done.payload.error.eq(store.o.payload.summary.error),
            done.payload.payload_words.eq(store.o.payload.words),

            strobes.words.eq(load.words + store.words),
            strobes.busy.eq(compute.busy | (strobes.words != 0)),
            strobes.stall_output.eq(stalled & store.waits),
            strobes.stall_memory.eq(stalled & store.all_given & (tasks == 1)),
            strobes.stall_input.eq(stalled & ~strobes.stall_output & ~strobes.stall_memory),
        ]
