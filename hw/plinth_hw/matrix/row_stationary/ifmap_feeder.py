"""Feeder: lines of the ifmap buffer onto the array's multicast bus, and the ids of its elements.

::

    ids of the task (columns, rows) --> for each group of a round: for each line: for each id: read --> bus

All ids get their line 0, then all line 1, ...; a line is fed when every element has room for it in its ring. Latency:
3 cycles from the read to the bus. Throughput: a line of F operands for one id a cycle, less one cycle a line number.
"""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.matrix_bodies import RowStationaryBody
from plinth_hw.matrix.row_stationary.interface import ID_BITS
from plinth_hw.matrix.row_stationary.jobs import COUNT_BITS, GROUP_BITS, Sizes, copied, copied_less
from plinth_hw.memory.banks import BankReadPort
from plinth_hw.shapes import shape_of


class IfmapFeeder(wiring.Component):
    """Feeds passes.

    Parameters
    ----------
    sizes : Sizes
    lines : int
        Lines of the ifmap buffer's banks.

    Members
    -------
    task : In(RowStationaryBody)
        Stable while a job is offered.
    job : In stream of ``sizes.feed_job``
    full : In
        Halves that are loaded.
    released : Out(1)
        The half at hand is not read any more.
    read : Out(BankReadPort)
        Port of the ifmap buffer.
    ifmaps, line_done, lines_released, ids
        As of :class:`~plinth_hw.matrix.row_stationary.array.RowArray`, from the other side.
    """

    def __init__(self, sizes: Sizes, lines: int):
        self.sizes = sizes
        super().__init__({
            "task": In(shape_of(RowStationaryBody)), "job": In(stream.Signature(sizes.feed_job)),
            "full": In(range(3)), "released": Out(1), "read": Out(BankReadPort(sizes.lanes, lines, sizes.operand_bits)),
            "ifmaps": Out(sizes.array.ifmap_write), "line_done": Out(1), "lines_released": In(1),
            "ids": Out(sizes.array.id_write),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = self.sizes
        last_group, taken = Signal(GROUP_BITS, name="last_group"), Signal(name="taken")
        task = copied(m, self.task, "id_rows row_stride row_dilation stream_lines", taken)
        last = copied_less(m, self.task, "images rows sets set_rows stream_lines ids", taken)
        m.d.comb += taken.eq(self.job.valid & self.job.ready)
        room = Signal(range(sizes.array.ifmap_lines + 1), init=sizes.array.ifmap_lines)
        begins = Signal()
        m.d.sync += room.eq(room + self.lines_released - begins)

        # Place of id 0's line 0, of its line at hand, and of the line at hand.
        line_bits = sizes.stream_bits - sizes.feed_bits
        half, group = Signal(name="half"), Signal(GROUP_BITS, name="group")
        first, own, place = (Signal(line_bits, name=name) for name in ("first", "own", "place"))
        line, number = Signal(COUNT_BITS, name="line"), Signal(ID_BITS, name="number")
        read, last_id, last_line = Signal(name="read"), Signal(name="last_id"), Signal(name="last_line")
        m.d.comb += [first.eq(Mux(half, sizes.half_words // sizes.feed, 0)),
                     last_id.eq(number == last.ids), last_line.eq(line == last.stream_lines)]
        with m.FSM():
            with m.State("JOB"):
                m.d.comb += self.job.ready.eq(1)
                m.d.sync += [last_group.eq(self.job.payload.groups - 1), group.eq(0)]
                with m.If(taken & self.job.payload.first):
                    m.next = "IDS"
                with m.Elif(taken):
                    m.next = "LOADED"
            # The last line of the task before is on the bus when this state comes, at the latest.
            with m.State("IDS"), m.If(self._ids(m, task, last)):
                m.next = "LOADED"
            with m.State("LOADED"):
                m.d.sync += [own.eq(first), place.eq(first), line.eq(0), number.eq(0)]
                with m.If(self.full != 0):
                    m.next = "ROOM"
            with m.State("ROOM"):
                m.d.comb += begins.eq(room != 0)
                with m.If(begins):
                    m.next = "IDS_OF_LINE"
            with m.State("IDS_OF_LINE"):
                m.d.comb += read.eq(1)
                m.d.sync += [number.eq(number + 1), place.eq(place + task.stream_lines)]
                with m.If(last_id):
                    m.d.sync += [number.eq(0), line.eq(line + 1), own.eq(own + 1), place.eq(own + 1)]
                    m.next = "ROOM"
                    with m.If(last_line):
                        m.d.sync += [line.eq(0), own.eq(first), place.eq(first), group.eq(group + 1)]
                        with m.If(group == last_group):
                            m.d.comb += self.released.eq(1)
                            m.d.sync += half.eq(~half)
                            m.next = "JOB"

        # Read, choose the lanes, onto the bus.
        groups_log2 = sizes.lane_bits - sizes.feed_bits
        m.d.comb += [self.read.enable.eq(read),
                     *(self.read.line[bank].eq(place[groups_log2:]) for bank in range(sizes.lanes))]
        stage = data.StructLayout({"valid": 1, "id": ID_BITS, "ends": 1, "lanes": max(1, groups_log2)})
        chosen = Signal(stage)
        m.d.sync += [chosen.valid.eq(read), chosen.id.eq(number), chosen.ends.eq(read & last_id),
                     chosen.lanes.eq(place[:groups_log2])]
        ifmaps = Signal(sizes.array.ifmap_write)
        ends = Signal()
        m.d.sync += [ifmaps.valid.eq(chosen.valid), ifmaps.id.eq(chosen.id), ends.eq(chosen.ends),
                     ifmaps.words.as_value().eq(
                         self.read.data.as_value().word_select(chosen.lanes, sizes.operand_bits * sizes.feed))]
        m.d.comb += [self.ifmaps.eq(ifmaps), self.line_done.eq(ends)]
        return m

    def _ids(self, m: Module, task: data.View, last: data.View) -> Value:
        """Writes a part of the ids a cycle, columns, then rows; returns when it is the last one.

        Column (image, y): image id_rows + y row_stride. Row (set, r): set images id_rows + r row_dilation, which is
        where the columns' images end, again and again.
        """
        shape = self.sizes.array
        index = Signal(range(max(shape.rows, shape.columns)))
        is_row, outer, inner = Signal(name="is_row"), Signal(COUNT_BITS, name="outer"), Signal(COUNT_BITS, name="inner")
        base, value, set_step = (Signal(ID_BITS, name=name) for name in ("base", "value", "set_step"))
        inner_last, outer_last, done = Signal(name="inner_last"), Signal(name="outer_last"), Signal(name="done")
        following = Signal(ID_BITS)
        parts = Signal(shape.id_write)
        m.d.comb += [
            inner_last.eq(Mux(is_row, inner == last.set_rows, inner == last.rows)),
            outer_last.eq(Mux(is_row, outer == last.sets, outer == last.images)),
            following.eq(base + Mux(is_row, set_step, task.id_rows)),
            done.eq(is_row & inner_last & outer_last),
            self.ids.eq(parts),
        ]
        m.d.sync += [inner.eq(inner + 1), index.eq(index + 1),
                     value.eq(value + Mux(is_row, task.row_dilation, task.row_stride))]
        with m.If(inner_last):
            m.d.sync += [inner.eq(0), outer.eq(outer + 1), base.eq(following), value.eq(following)]
            with m.If(outer_last):
                m.d.sync += [outer.eq(0), index.eq(0), base.eq(0), value.eq(0), is_row.eq(~is_row),
                             set_step.eq(following)]
        m.d.comb += [parts.valid.eq(1), parts.is_column.eq(~is_row), parts.index.eq(index), parts.value.eq(value)]
        return done
