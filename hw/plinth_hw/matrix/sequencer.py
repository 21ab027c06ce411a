"""Sequencer: takes task bodies and cuts them into panels and tiles.

::

    BODY --> PREPARE --> START --> BASES --> ORIGIN --> PANEL --> EMIT --> ADVANCE --> (BODY)
    words,   check       wait      addresses add          ^ sizes  jobs    next  |
    pointers             for it              origin       +----------------------+

Loops: m blocks of R Im rows, in each n blocks of C In columns, in each panels of ``panel_k`` k steps. A panel
that still lies in its half and is the next one of its operand is not loaded again: that is A's while n
advances, and B's while m advances over a single n block, if K has at most two panels.

A job does not say where its panel or tile lies, but whether its rows and its columns start at the task's first
ones, where those of the job before it ended, or where they started (:class:`~plinth_hw.matrix.window.Start`).

A panel takes three cycles. The body takes 56 cycles, while earlier panels are still being multiplied.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.matrix_bodies import MatrixBody
from plinth_hw.isa.operations import ErrorCode, MatrixOperation
from plinth_hw.isa.tasks import pointer_words
from plinth_hw.matrix.geometry import Geometry, lookup
from plinth_hw.matrix.window import Start
from plinth_hw.memory.port import TASK_BITS
from plinth_hw.shapes import either, shape_of

#: Words of the body that hold fields.
FIELD_WORDS = MatrixBody.BITS // WORD_BITS
#: Those of them that are addresses.
ADDRESSES = pointer_words(MatrixBody)


class SystolicSequencer(wiring.Component):
    """Walks tasks.

    Members
    -------
    body, operation, start
        As of ``EngineSignature``. The body of the next task is taken once all panels of this one have
        been handed out.
    a_load, b_load : Out streams of ``geometry.load_job``
    feed : Out stream of ``geometry.feed_job``
    preload, store : Out streams of ``geometry.tile_job``
        The jobs of a panel are handed out in one cycle, so each ``ready`` may have to wait for the others, and stays
        until then.
    release, a_released, b_released : In
        As of the feeder.
    running : Out(1)
        Panels of a started task are still to be handed out.
    began : Out(1)
        Pulse: a task was started.
    """

    def __init__(self, geometry: Geometry):
        self.geometry = geometry
        super().__init__({
            "body": In(stream.Signature(BodyWord)),
            "operation": In(4),
            "start": In(stream.Signature(unsigned(TASK_BITS))),
            "a_load": Out(stream.Signature(geometry.load_job(geometry.a_bits, True))),
            "b_load": Out(stream.Signature(geometry.load_job(geometry.b_bits, False))),
            "feed": Out(stream.Signature(geometry.feed_job)),
            "preload": Out(stream.Signature(geometry.tile_job)),
            "store": Out(stream.Signature(geometry.tile_job)),
            "release": In(1), "a_released": In(1), "b_released": In(1),
            "running": Out(1), "began": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        geometry = self.geometry
        words = Signal(data.ArrayLayout(unsigned(32), FIELD_WORDS), reset_less=True)
        task = data.View(shape_of(MatrixBody), words.as_value())
        option = task.interleave_m_log2[:geometry.option_bits]
        span = {"m": lookup(m, "a_span", option, geometry.a_span),
                "n": lookup(m, "b_span", option, geometry.b_span),
                "k": lookup(m, "panel_k", option, geometry.panel_k)}
        address_bits = geometry.parameters.address_bits

        convolution, bad_view = Signal(name="convolution"), Signal(name="bad_view")
        number = Signal(TASK_BITS)
        origin = {name: Signal(address_bits, name=f"{name}_first") for name in "abc"}
        c_column = Signal(address_bits)
        left = {name: Signal(32, name=f"{name}_left", reset_less=True) for name in "mnk"}
        first = {name: Signal(name=f"first_{name}") for name in "mnk"}
        last = {name: Signal(name=f"last_{name}") for name in "mnk"}
        size = {name: Signal(len(span[name]), name=f"{name}_size") for name in "mnk"}
        error = Signal(shape_of(ErrorCode))
        emit, emitted = Signal(name="emit"), Signal(name="emitted")
        self._views(m, task, number, convolution, origin)
        self._emit(m, task, emit, emitted, c_column, span["k"], first, last, size, error)
        m.d.comb += self.running.eq(1)

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
                m.d.comb += self.running.eq(0)
                bad = ((task.m == 0) | (task.n == 0) | (task.k == 0) | (span["k"] == 0)
                       | (task.interleave_m_log2 >= geometry.options))
                m.d.sync += error.eq(either(bad, ErrorCode.BAD_OPERAND, ErrorCode.NONE))
                needed = (task.grid_columns, task.grid_rows, task.a_run, task.a_runs, task.map_rows, task.map_columns)
                m.d.sync += bad_view.eq(Cat(*(field == 0 for field in needed),
                                            (task.b_run != 0) & (task.b_runs == 0)).any())
                m.next = "START"
            with m.State("START"):
                m.d.comb += [self.running.eq(0), self.start.ready.eq(1), self.began.eq(self.start.valid)]
                with m.If(self.start.valid):
                    m.next = "BASES"
                    m.d.sync += number.eq(self.start.payload)
                    m.d.sync += convolution.eq(self.operation == MatrixOperation.CONVOLUTION.value)
                    with m.If((self.operation != MatrixOperation.GEMM.value)
                              & (self.operation != MatrixOperation.CONVOLUTION.value)):
                        m.d.sync += error.eq(ErrorCode.BAD_OPERATION)
                    with m.Elif((self.operation == MatrixOperation.CONVOLUTION.value) & bad_view):
                        m.d.sync += error.eq(ErrorCode.BAD_OPERAND)
            with m.State("BASES"):
                m.d.sync += [place.eq(words[index]) for place, index in zip(origin.values(), ADDRESSES, strict=True)]
                m.d.sync += [first[name].eq(1) for name in "mnk"]
                m.d.sync += [left["m"].eq(task.m), left["n"].eq(task.n), left["k"].eq(task.k), c_column.eq(0)]
                m.next = "ORIGIN"
            with m.State("ORIGIN"):
                with m.If(convolution):
                    m.d.sync += origin["a"].eq(origin["a"] + task.a_origin)
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
                m.d.sync += [first["k"].eq(last["k"]), left["k"].eq(left["k"] - span["k"])]
                m.next = "PANEL"
                with m.If(last["k"]):
                    m.d.sync += [first["n"].eq(last["n"]), left["k"].eq(task.k),
                                 left["n"].eq(left["n"] - span["n"]), c_column.eq(c_column + span["n"])]
                    with m.If(last["n"]):
                        m.d.sync += [first["m"].eq(0), left["n"].eq(task.n), c_column.eq(0),
                                     left["m"].eq(left["m"] - span["m"])]
                        with m.If(last["m"]):
                            m.next = "BODY"
        return m

    def _views(self, m: Module, task: data.View, number: Signal, convolution: Signal,
               origin: dict[str, Signal]) -> None:
        """How the task's operands and C lie in memory."""
        scale = self.geometry.element_log2
        a, b = self.a_load.payload.view, self.b_load.payload.view
        for view, plain, fields in (
                (a.grid, ~convolution, {
                    "task": number, "origin": origin["a"] << scale, "step": task.a_stride << scale,
                    "row_step": task.a_row_step << scale, "image_step": task.a_image_step << scale,
                    "columns": task.grid_columns, "rows": task.grid_rows,
                    **{name: task[name] for name in ("window_row", "window_row_step", "map_rows", "window_column",
                                                     "window_column_step", "map_columns")}}),
                (a.runs, ~convolution, {
                    "run": task.a_run, "runs": task.a_runs, "step": task.a_run_step << scale,
                    "kernel_step": task.a_kernel_step << scale}),
                (b.grid, Const(1), {"task": number, "origin": origin["b"] << scale, "step": task.b_stride << scale}),
                (b.runs, ~convolution | (task.b_run == 0), {
                    "run": task.b_run, "runs": task.b_runs, "step": task.b_run_step << scale,
                    "kernel_step": task.b_kernel_step << scale}),
                *((port.payload.grid, ~convolution | task.transpose_a, {
                    "task": number, "origin": origin["c"], "step": task.c_stride, "row_step": task.c_row_step,
                    "image_step": task.c_image_step, "columns": task.grid_columns, "rows": task.grid_rows})
                  for port in (self.preload, self.store))):
            m.d.comb += [view.plain.eq(plain), *(view[name].eq(value) for name, value in fields.items())]

    def _emit(self, m: Module, task: data.View, emit: Signal, emitted: Signal, c_column: Signal,
              panel_k: Signal, first: dict[str, Signal], last: dict[str, Signal], size: dict[str, Signal],
              error: Signal) -> None:
        """Hand out the jobs of a panel, all in one cycle, when every queue and half has room."""
        geometry = self.geometry
        option = task.interleave_m_log2[:geometry.option_bits]
        failed, last_tile, resident = Signal(name="failed"), Signal(name="last_tile"), Signal(name="resident")
        single, several = Signal(name="single"), Signal(name="several")
        m.d.comb += [
            failed.eq(error != ErrorCode.NONE),
            last_tile.eq(last["m"] & last["n"]),
            several.eq(~(first["k"] & last["k"])),
            single.eq(first["n"] & last["n"]),
        ]
        # Registered: stable for the whole task.
        m.d.sync += resident.eq(task.k <= (panel_k << 1))
        loads = {"a": ~(resident & ~first["n"]), "b": ~(resident & single & ~first["m"])}
        starts = {name: Signal(Start, name=f"{name}_start") for name in "mnk"}
        m.d.comb += [
            starts["k"].eq(Mux(first["k"], Start.ORIGIN, Start.NEXT)),
            starts["m"].eq(Mux(first["m"], Start.ORIGIN, Mux(first["n"] & first["k"], Start.NEXT, Start.AGAIN))),
            starts["n"].eq(Mux(first["n"], Start.ORIGIN, Mux(first["k"], Start.NEXT, Start.AGAIN))),
        ]
        rooms = []
        for name, along_k, length, starts_across, released in (
                ("a", ~task.transpose_a, size["m"], starts["m"], self.a_released),
                ("b", task.transpose_b, size["n"], starts["n"], self.b_released)):
            stream_ = self.a_load if name == "a" else self.b_load
            panel = stream_.payload.panel
            # The half that was used last, and panels that are to be read from each half.
            current = Signal(name=f"{name}_current")
            half = Signal(name=f"{name}_half")
            needed = Signal(name=f"{name}_needed")
            users = [Signal(4, name=f"{name}_users_{i}") for i in range(2)]
            m.d.comb += [
                needed.eq(loads[name]),
                half.eq(current ^ (needed | several)),
                stream_.valid.eq(emitted & needed & ~failed),
                stream_.payload.first.eq(first["m"] & first["n"] & first["k"]),
                panel.rows_start.eq(Mux(along_k, starts_across, starts["k"])),
                panel.columns_start.eq(Mux(along_k, starts["k"], starts_across)),
                panel.k.eq(size["k"]), panel.span.eq(length),
                panel.along_k.eq(along_k), panel.half.eq(half), panel.option.eq(option),
                (self.feed.payload.a_half if name == "a" else self.feed.payload.b_half).eq(half),
            ]
            issued = emitted & ~failed
            for i, count in enumerate(users):
                m.d.sync += count.eq(count + (issued & (half == i)) - (self.release & (released == i)))
            with m.If(issued):
                m.d.sync += current.eq(half)
            rooms.append(~needed | (stream_.ready & (Mux(half, users[1], users[0]) == 0)))
        preloads, stores, able = Signal(name="preloads"), Signal(name="stores"), Signal(name="able")
        # What has room keeps it until a job is given.
        m.d.sync += able.eq(emit & ~able & (failed | (self.feed.ready & rooms[0] & rooms[1]))
                            & (~preloads | self.preload.ready) & (~stores | self.store.ready))
        m.d.comb += [
            preloads.eq(task.accumulate & first["k"] & ~failed),
            stores.eq(last["k"] | failed),
            emitted.eq(emit & able),
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
                port.payload.start.eq(Mux(first["m"] & first["n"], Start.ORIGIN,
                                          Mux(first["n"], Start.NEXT, Start.AGAIN))),
                port.payload.offset.eq(c_column),
                port.payload.rows.eq(size["m"]), port.payload.columns.eq(size["n"]),
                port.payload.option.eq(option), port.payload.task_last.eq(last_tile | failed),
                port.payload.error.eq(error),
            ]


