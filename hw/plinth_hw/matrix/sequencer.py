"""Sequencer: takes task bodies and cuts them into panels and tiles.

::

    BODY --> PREPARE --> START --> BASES --> PANEL --> EMIT --> ADVANCE --> (BODY)
    words    check,      wait      add         ^ sizes  jobs    next  |
             products    for it    bases       +----------------------+

Loops: m blocks of R Im rows, in each n blocks of C In columns, in each panels of ``panel_k`` k steps. A panel
that still lies in its half and is the next one of its operand is not loaded again: that is A's while n
advances, and B's while m advances over a single n block, if K has at most two panels.

A panel takes three cycles. The body takes 56 and the preparation at most some 40, while earlier panels are
still being multiplied.
"""

from amaranth.hdl import Array, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.tasks import ErrorCode, MatrixBody, MatrixOperation
from plinth_hw.matrix.geometry import Geometry, lookup

#: Words of the body that hold fields.
FIELD_WORDS = data.Layout.cast(MatrixBody).size // 32


class Sequencer(wiring.Component):
    """Walks tasks.

    Members
    -------
    body, operation, start, bases
        As of ``EngineSignature``. The body of the next task is taken once all panels of this one have
        been handed out.
    a_load, b_load : Out streams of ``geometry.load_job``
    feed : Out stream of ``geometry.feed_job``
    preload, store : Out streams of ``geometry.tile_job``
        The jobs of a panel are handed out in one cycle, so each ``ready`` may have to wait for the others.
    release, a_released, b_released : In
        As of the feeder.
    running : Out(1)
        Panels of a started task are still to be handed out.
    began : Out(1)
        Pulse: a task was started.
    """

    def __init__(self, geometry: Geometry):
        self.geometry = geometry
        parameters = geometry.parameters
        super().__init__({
            "body": In(stream.Signature(BodyWord)),
            "operation": In(4),
            "start": In(stream.Signature(unsigned(1))),
            "bases": In(data.ArrayLayout(unsigned(parameters.address_bits), 16)),
            "a_load": Out(stream.Signature(geometry.load_job(geometry.a_bits))),
            "b_load": Out(stream.Signature(geometry.load_job(geometry.b_bits))),
            "feed": Out(stream.Signature(geometry.feed_job)),
            "preload": Out(stream.Signature(geometry.tile_job)),
            "store": Out(stream.Signature(geometry.tile_job)),
            "release": In(1), "a_released": In(1), "b_released": In(1),
            "running": Out(1), "began": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        geometry = self.geometry
        words = Signal(data.ArrayLayout(unsigned(32), FIELD_WORDS))
        task = data.View(MatrixBody, words.as_value())
        option = task.interleave_m_log2[:geometry.option_bits]
        span = {"m": lookup(m, "a_span", option, geometry.a_span),
                "n": lookup(m, "b_span", option, geometry.b_span),
                "k": lookup(m, "panel_k", option, geometry.panel_k)}
        address_bits, element_bits = geometry.parameters.address_bits, geometry.element_address_bits
        scale = geometry.element_log2

        # Block steps of A and C, panel step of B or the like: whatever multiplies a stride.
        a_step = Signal(element_bits)
        b_step = Signal(element_bits)
        c_step = Signal(address_bits)
        begin_products, multiplied = Signal(), Signal()
        self._products(m, begin_products, multiplied, [
            (a_step, task.a_stride << scale, Mux(task.transpose_a, span["k"], span["m"])),
            (b_step, task.b_stride << scale, Mux(task.transpose_b, span["n"], span["k"])),
            (c_step, task.c_stride, span["m"])])

        a_block, a_panel, b_start, b_block, b_panel = (
            Signal(element_bits, name=name)
            for name in ("a_block", "a_panel", "b_start", "b_block", "b_panel"))
        c_block, c_tile = (Signal(address_bits, name=name) for name in ("c_block", "c_tile"))
        left = {name: Signal(32, name=f"{name}_left") for name in "mnk"}
        first = {name: Signal(name=f"{name}_first") for name in "mnk"}
        last = {name: Signal(name=f"{name}_last") for name in "mnk"}
        size = {name: Signal(len(span[name]), name=f"{name}_size") for name in "mnk"}
        error = Signal(ErrorCode)
        emit, emitted = Signal(), Signal()
        self._emit(m, task, emit, emitted, a_panel, b_panel, c_tile, span["k"], first, last, size, error)

        a_block_step = Mux(task.transpose_a, span["m"], a_step)
        a_panel_step = Mux(task.transpose_a, a_step, span["k"])
        b_block_step = Mux(task.transpose_b, b_step, span["n"])
        b_panel_step = Mux(task.transpose_b, span["k"], b_step)
        a_block_next, b_block_next = Signal(element_bits), Signal(element_bits)
        c_block_next = Signal(address_bits)
        m.d.comb += [a_block_next.eq(a_block + a_block_step), b_block_next.eq(b_block + b_block_step),
                     c_block_next.eq(c_block + c_step), self.running.eq(1)]

        with m.FSM():
            with m.State("BODY"):
                m.d.comb += [self.body.ready.eq(1), self.running.eq(0)]
                with m.If(self.body.valid):
                    with m.Switch(self.body.payload.index):
                        for index in range(FIELD_WORDS):
                            with m.Case(index):
                                m.d.sync += words[index].eq(self.body.payload.word)
                    with m.If(self.body.payload.last):
                        m.next = "PREPARE"
            with m.State("PREPARE"):
                m.d.comb += [begin_products.eq(1), self.running.eq(0)]
                bad = ((task.m == 0) | (task.n == 0) | (task.k == 0) | (span["k"] == 0)
                       | (task.interleave_m_log2 >= geometry.options))
                m.d.sync += error.eq(Mux(bad, ErrorCode.BAD_OPERAND, ErrorCode.NONE))
                m.next = "START"
            with m.State("START"):
                m.d.comb += self.running.eq(0)
                with m.If(multiplied):
                    m.d.comb += [self.start.ready.eq(1), self.began.eq(self.start.valid)]
                    with m.If(self.start.valid):
                        m.next = "BASES"
                    with m.If(self.start.valid & (self.operation != MatrixOperation.GEMM.value)):
                        m.d.sync += error.eq(ErrorCode.BAD_OPERATION)
            with m.State("BASES"):
                bases = Array(self.bases[i] for i in range(16))
                for pointer, registers, shift in ((task.a, (a_block, a_panel), scale),
                                                  (task.b, (b_start, b_block, b_panel), scale),
                                                  (task.c, (c_block, c_tile), 0)):
                    start = Signal(address_bits, name="start_address")
                    m.d.comb += start.eq(bases[pointer.base] + pointer.offset)
                    m.d.sync += [register.eq(start << shift) for register in registers]
                m.d.sync += [first[name].eq(1) for name in "mnk"]
                m.d.sync += [left["m"].eq(task.m), left["n"].eq(task.n), left["k"].eq(task.k)]
                m.next = "PANEL"
            with m.State("PANEL"):
                for name in "mnk":
                    fits = Signal(name=f"{name}_fits")
                    m.d.comb += fits.eq(left[name] <= span[name])
                    m.d.sync += [last[name].eq(fits), size[name].eq(Mux(fits, left[name], span[name]))]
                m.next = "EMIT"
            with m.State("EMIT"):
                m.d.comb += emit.eq(1)
                with m.If(emitted & (error != ErrorCode.NONE)):
                    m.next = "BODY"
                with m.Elif(emitted):
                    m.next = "ADVANCE"
            with m.State("ADVANCE"):
                m.d.sync += [first["k"].eq(last["k"]), left["k"].eq(left["k"] - span["k"]),
                             a_panel.eq(a_panel + a_panel_step), b_panel.eq(b_panel + b_panel_step)]
                m.next = "PANEL"
                with m.If(last["k"]):
                    m.d.sync += [first["n"].eq(last["n"]), left["k"].eq(task.k),
                                 left["n"].eq(left["n"] - span["n"]), c_tile.eq(c_tile + span["n"]),
                                 a_panel.eq(a_block), b_panel.eq(b_block_next), b_block.eq(b_block_next)]
                    with m.If(last["n"]):
                        m.d.sync += [first["m"].eq(0), left["n"].eq(task.n),
                                     left["m"].eq(left["m"] - span["m"]),
                                     c_tile.eq(c_block_next), c_block.eq(c_block_next),
                                     a_panel.eq(a_block_next), a_block.eq(a_block_next),
                                     b_panel.eq(b_start), b_block.eq(b_start)]
                        with m.If(last["m"]):
                            m.next = "BODY"
        return m

    def _products(self, m: Module, begin: Signal, done: Signal,
                  products: list[tuple[Signal, Value, Value]]) -> None:
        """One product after another, by shifts and additions, a bit of the small factor a cycle."""
        bits = max(len(result) for result, _, _ in products)
        count_bits = max(len(count) for _, _, count in products)
        stride, sum_ = Signal(bits), Signal(bits)
        count = Signal(count_bits)
        with m.FSM(name="products"):
            with m.State("DONE"):
                m.d.comb += done.eq(1)
                with m.If(begin):
                    m.next = "LOAD_0"
            for i, (result, value, factor) in enumerate(products):
                with m.State(f"LOAD_{i}"):
                    m.d.sync += [stride.eq(value), count.eq(factor), sum_.eq(0)]
                    m.next = f"ADD_{i}"
                with m.State(f"ADD_{i}"):
                    with m.If(count == 0):
                        m.d.sync += result.eq(sum_)
                        m.next = f"LOAD_{i + 1}" if i + 1 < len(products) else "DONE"
                    with m.Else():
                        m.d.sync += [sum_.eq(sum_ + Mux(count[0], stride, 0)), stride.eq(stride << 1),
                                     count.eq(count >> 1)]

    def _emit(self, m: Module, task: data.View, emit: Signal, emitted: Signal, a_panel: Signal,
              b_panel: Signal, c_tile: Signal, panel_k: Signal, first: dict[str, Signal],
              last: dict[str, Signal], size: dict[str, Signal], error: Signal) -> None:
        """Hand out the jobs of a panel, all in one cycle, when every queue and half has room."""
        geometry = self.geometry
        option = task.interleave_m_log2[:geometry.option_bits]
        failed, last_tile, resident, single, several = (Signal() for _ in range(5))
        m.d.comb += [
            failed.eq(error != ErrorCode.NONE),
            last_tile.eq(last["m"] & last["n"]),
            several.eq(~(first["k"] & last["k"])),
            single.eq(first["n"] & last["n"]),
        ]
        # Registered: stable for the whole task.
        m.d.sync += resident.eq(task.k <= (panel_k << 1))
        loads = {"a": ~(resident & ~first["n"]), "b": ~(resident & single & ~first["m"])}
        rooms = []
        for name, panel, along_k, length, released in (
                ("a", a_panel, ~task.transpose_a, size["m"], self.a_released),
                ("b", b_panel, task.transpose_b, size["n"], self.b_released)):
            stream_ = self.a_load if name == "a" else self.b_load
            stride = (task.a_stride if name == "a" else task.b_stride) << geometry.element_log2
            # The half that was used last, and panels that are to be read from each half.
            current = Signal(name=f"{name}_current")
            half = Signal(name=f"{name}_half")
            needed = Signal(name=f"{name}_needed")
            users = [Signal(4, name=f"{name}_users_{i}") for i in range(2)]
            m.d.comb += [
                needed.eq(loads[name]),
                half.eq(current ^ (needed | several)),
                stream_.valid.eq(emitted & needed & ~failed),
                stream_.payload.address.eq(panel), stream_.payload.stride.eq(stride),
                stream_.payload.k.eq(size["k"]), stream_.payload.span.eq(length),
                stream_.payload.along_k.eq(along_k), stream_.payload.half.eq(half),
                stream_.payload.option.eq(option),
                (self.feed.payload.a_half if name == "a" else self.feed.payload.b_half).eq(half),
            ]
            given = emitted & ~failed
            for i, count in enumerate(users):
                m.d.sync += count.eq(count + (given & (half == i)) - (self.release & (released == i)))
            with m.If(given):
                m.d.sync += current.eq(half)
            rooms.append(~needed | (stream_.ready & (Mux(half, users[1], users[0]) == 0)))
        preloads = Signal()
        stores = Signal()
        m.d.comb += [
            preloads.eq(task.accumulate & first["k"] & ~failed),
            stores.eq(last["k"] | failed),
            emitted.eq(emit & (failed | (self.feed.ready & rooms[0] & rooms[1]))
                       & (~preloads | self.preload.ready) & (~stores | self.store.ready)),
            self.feed.valid.eq(emitted & ~failed),
            self.feed.payload.k.eq(size["k"]),
            self.feed.payload.rows.eq(size["m"]), self.feed.payload.columns.eq(size["n"]),
            self.feed.payload.option.eq(option),
            self.feed.payload.first.eq(first["k"]), self.feed.payload.last.eq(last["k"]),
            self.feed.payload.accumulate.eq(task.accumulate),
            self.feed.payload.task_last.eq(last_tile & last["k"]),
            self.preload.valid.eq(emitted & preloads),
            self.store.valid.eq(emitted & stores),
        ]
        for port in (self.preload, self.store):
            m.d.comb += [
                port.payload.address.eq(c_tile), port.payload.stride.eq(task.c_stride),
                port.payload.rows.eq(size["m"]), port.payload.columns.eq(size["n"]),
                port.payload.option.eq(option), port.payload.task_last.eq(last_tile | failed),
                port.payload.error.eq(error),
            ]


