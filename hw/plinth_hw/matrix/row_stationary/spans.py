"""Walk over the psums of a batch, in memory and in a region of the psum buffer.

::

    batch -> group -> step (interleaved windows) -> window -> array column (image, y) -> span of filters

Psums of a window are neighbours in a bank, windows and groups follow each other, each group with windows up to a whole
number of steps. Nobody multiplies: the address of a window goes on by ``c_run`` and ``c_column``, that of an array
column from there by ``c_row`` and ``c_image``.
"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.lib.count import index_bits
from plinth_hw.matrix.row_stationary.jobs import COUNT_BITS, GROUP_BITS, Sizes, copied
from plinth_hw.memory.rows import span_layout
from plinth_hw.shapes import shape_of


def place_layout(sizes: Sizes) -> data.StructLayout:
    """Where a span lies in the psum buffer: array column, and word in its bank."""
    return data.StructLayout({"column": unsigned(index_bits(sizes.array.columns)),
                              "word": unsigned(sizes.psum_bits)})


class PsumSpans(wiring.Component):
    """Walks batches.

    Latency: 3 cycles from a job to the first span. Throughput: a span a cycle, less one a window.

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    task : In(RowStationaryBody)
        Stable while a job is offered.
    job : In stream of ``sizes.batch_job``
    allowed : In(1)
        The next step may be walked; ``begins`` Out(1): it is.
    o : Out stream of ``{span, place}``
        Spans of words in memory, ``last`` of the batch, and where they lie in the buffer.
    """

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        self.span = span_layout(sizes.parameters, sizes.filter_bits)
        super().__init__({
            "task": In(shape_of(RowStationaryBody)), "job": In(stream.Signature(sizes.batch_job)),
            "allowed": In(1), "begins": Out(1),
            "o": Out(stream.Signature(data.StructLayout({"span": self.span, "place": place_layout(sizes)}))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        address = unsigned(sizes.address_bits)
        job, accepted = Signal(sizes.batch_job, name="job"), Signal(name="accepted")
        task = copied(m, self.task, "images rows windows window_run filter_step interleaved_windows c_image c_row "
                                    "c_column c_run", accepted)
        m.d.comb += accepted.eq(self.job.valid & self.job.ready)
        at = Signal(data.StructLayout(dict.fromkeys(("group", "v", "w", "image", "column"), address)), name="at")
        left = Signal(data.StructLayout({
            "groups": GROUP_BITS, "filters": COUNT_BITS, "windows": COUNT_BITS, "run": COUNT_BITS,
            "interleaved": 8, "images": COUNT_BITS, "rows": COUNT_BITS}), name="left")
        column = Signal(place_layout(sizes)["column"].shape)
        word = Signal(sizes.psum_bits)
        filters = Signal(8)
        fresh = Signal()
        span, place = self.o.payload.span, self.o.payload.place
        last_column, last_window, last_group, ends = (Signal(name=name) for name in (
            "last_column", "last_window", "last_group", "ends"))
        following = {name: Signal(address, name=f"following_{name}") for name in ("v", "w", "image")}
        m.d.comb += [
            last_column.eq((left.images == 1) & (left.rows == 1)), last_window.eq(left.windows == 1),
            last_group.eq(left.groups == 1),
            span.address.eq(at.column), span.task.eq(job.number), span.columns.eq(filters),
            span.last.eq(last_column & last_window & last_group),
            place.column.eq(column), place.word.eq(word),
            following["v"].eq(at.v + task.c_column), following["w"].eq(at.w + task.c_run),
            following["image"].eq(at.image + task.c_image),
        ]
        with m.FSM():
            with m.State("JOB"):
                m.d.comb += self.job.ready.eq(1)
                payload = self.job.payload
                m.d.sync += [job.eq(payload), at.group.eq(payload.address), left.groups.eq(payload.groups),
                             left.filters.eq(payload.filters), word.eq(Mux(payload.region, sizes.bank_words, 0))]
                with m.If(accepted):
                    m.next = "GROUP"
            with m.State("GROUP"):
                m.d.sync += [
                    at.v.eq(at.group), at.w.eq(at.group), left.windows.eq(task.windows), left.run.eq(task.window_run),
                    filters.eq(Mux(left.filters < task.filter_step, left.filters, task.filter_step)),
                    left.interleaved.eq(task.interleaved_windows), fresh.eq(1),
                ]
                m.next = "WINDOW"
            with m.State("WINDOW"):
                m.d.sync += [at.image.eq(at.w), at.column.eq(at.w), column.eq(0), left.images.eq(task.images),
                             left.rows.eq(task.rows)]
                with m.If(~fresh | self.allowed):
                    m.d.comb += self.begins.eq(fresh)
                    m.next = "COLUMNS"
            with m.State("COLUMNS"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [column.eq(column + 1), at.column.eq(at.column + task.c_row),
                                 left.rows.eq(left.rows - 1)]
                    with m.If(left.rows == 1):
                        m.d.sync += [at.image.eq(following["image"]), at.column.eq(following["image"]),
                                     left.rows.eq(task.rows), left.images.eq(left.images - 1)]
                    m.d.comb += ends.eq(last_column)
                with m.If(ends):
                    m.d.sync += [
                        word.eq(word + task.filter_step), left.windows.eq(left.windows - 1),
                        left.interleaved.eq(left.interleaved - 1), fresh.eq(left.interleaved == 1),
                        at.w.eq(following["w"]), left.run.eq(left.run - 1),
                    ]
                    with m.If(left.interleaved == 1):
                        m.d.sync += left.interleaved.eq(task.interleaved_windows)
                    with m.If(left.run == 1):
                        m.d.sync += [at.w.eq(following["v"]), at.v.eq(following["v"]), left.run.eq(task.window_run)]
                    m.next = "WINDOW"
                    with m.If(last_window):
                        m.next = "PADDING"
            with m.State("PADDING"):
                # Windows of the last step that there are not.
                with m.If(fresh):
                    m.d.sync += [at.group.eq(at.group + task.filter_step), left.groups.eq(left.groups - 1),
                                 left.filters.eq(left.filters - task.filter_step)]
                    m.next = "GROUP"
                    with m.If(last_group):
                        m.next = "JOB"
                with m.Else():
                    m.d.sync += [word.eq(word + task.filter_step), left.interleaved.eq(left.interleaved - 1),
                                 fresh.eq(left.interleaved == 1)]
        return m
