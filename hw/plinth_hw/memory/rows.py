"""Rows of a matrix in memory, cut in requests, and walked beat by beat.

A row of ``columns`` words at any word address covers ``ceil((offset + columns) / B)`` beats of
B = ``beat_words`` words, where ``offset`` is the low part of its address. Beat b of row i has its
lane 0 at element (i, b * B - offset): the first column may be negative, and a mask says which
lanes belong to the row::

    command -> StridedRows -> RowCut -> requests
                                     -> rows -> BeatWalk -> positions of beats

Rows of a load may be *clipped*: only a part of their words is read, the others, *padding*, have their place in beats
but no data.

A load may count *elements* that lie ``packing`` to a word, element 0 in the low bits of word 0, in place of words: then
"word" is to be read as "element" in all that is said of it, B is the elements of a beat, and addresses, which have as
many bits more, count elements as well.

Throughput: a row a cycle and a beat a cycle, across rows and commands without gaps.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import Digits, chosen_sum, counted_down, loaded_sum, table_sum
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.fifo import FIFO
from plinth_hw.memory.port import TASK_BITS, request_layout

#: Requests of a channel that may wait for the crossbar: few, but enough for look-up-table RAM.
_REQUESTS = 4


def command_layout(parameters: DieParameters, row_bits: int, column_bits: int) -> data.StructLayout:
    """A region in memory: ``rows`` x ``columns`` words (both at least 1), ``stride`` words between the
    starts of rows; ``task`` as of requests."""
    return data.StructLayout({
        "address": unsigned(parameters.address_bits), "stride": unsigned(parameters.address_bits),
        "rows": unsigned(row_bits), "columns": unsigned(column_bits), "task": unsigned(TASK_BITS),
    })


def beat_elements(parameters: DieParameters, packing: int) -> int:
    """Elements of a beat."""
    return parameters.beat_words * packing


def element_address_bits(parameters: DieParameters, packing: int) -> int:
    """Bits of an element's address."""
    return parameters.address_bits + exact_log2(packing)


def span_layout(parameters: DieParameters, column_bits: int, clipped: bool = False,
                packing: int = 1) -> data.StructLayout:
    """A row: ``columns`` words (at least 1) from ``address``; ``last``: of its command; ``task`` as of requests. If
    clipped, words ``low`` to ``high`` are read if ``any``, and the rest is padding."""
    clip = {"low": unsigned(column_bits), "high": unsigned(column_bits), "any": unsigned(1)}
    return data.StructLayout({
        "address": unsigned(element_address_bits(parameters, packing)), "columns": unsigned(column_bits),
        "last": unsigned(1), "task": unsigned(TASK_BITS), **(clip if clipped else {}),
    })


def load_layout(parameters: DieParameters, row_bits: int, column_bits: int, clipped: bool = False,
                packing: int = 1, far: bool = False) -> data.StructLayout:
    """A beat of a load.

    ``data``: B words; ``row``, ``column`` (signed): element in lane 0; ``mask``: the lanes that belong to
    the row; ``words``: how many were read; ``row_last``, ``last``: last beat of the row, of the command. If
    clipped, ``real``: the lanes that were read. Unless it is ``far``, ``column`` stays, from the row's second beat on,
    what it is there: a walk that goes on from beat to beat needs no more.
    """
    beat = data.ArrayLayout(unsigned(parameters.word_bits // packing), beat_elements(parameters, packing))
    return data.StructLayout({"data": beat,
                              **_position(parameters, row_bits, column_bits, clipped, packing, far).members})


def fetch_layout(parameters: DieParameters, row_bits: int, column_bits: int, far: bool = False) -> data.StructLayout:
    """A beat that a store asks for; members as in :func:`load_layout`, without the data."""
    return _position(parameters, row_bits, column_bits, far=far)


def near_column_bits(lanes: int) -> int:
    """Bits of a signed column of a row's first or second beat of so many lanes."""
    return exact_log2(lanes) + 2


def _position(parameters: DieParameters, row_bits: int, column_bits: int, clipped: bool = False,
              packing: int = 1, far: bool = False) -> data.StructLayout:
    lanes = beat_elements(parameters, packing)
    return data.StructLayout({
        "row": unsigned(row_bits), "column": signed(column_bits + 1 if far else near_column_bits(lanes)),
        "mask": unsigned(lanes), "words": unsigned(lanes.bit_length()),
        "row_last": unsigned(1), "last": unsigned(1),
        **({"real": unsigned(lanes)} if clipped else {}),
    })


def _lane_bits(parameters: DieParameters, packing: int) -> int:
    return exact_log2(beat_elements(parameters, packing))


def _row_layout(parameters: DieParameters, column_bits: int, clipped: bool, packing: int) -> data.StructLayout:
    """What the beat walk has to know of a row: first lane, beats after the first one, last lane, and whether it
    is the last row; if clipped, beat and lane of the first and last word that are read, and if there are any."""
    lane_bits, beats_bits = _lane_bits(parameters, packing), _row_beats_bits(parameters, column_bits, packing)
    place = data.StructLayout({"lane": unsigned(lane_bits), "beat": unsigned(beats_bits)})
    return data.StructLayout({
        "offset": unsigned(lane_bits), "more": unsigned(beats_bits),
        "end": unsigned(lane_bits), "last": unsigned(1),
        **({"first": place, "final": place, "any": unsigned(1)} if clipped else {}),
    })


def _row_beats_bits(parameters: DieParameters, column_bits: int, packing: int) -> int:
    return max(1, column_bits + 1 - _lane_bits(parameters, packing))


class StridedRows(wiring.Component):
    """Walks the rows of commands, one a cycle, from the cycle after the command on.

    Members
    -------
    command : In stream of :func:`command_layout`
    o : Out stream of :func:`span_layout`
    """

    def __init__(self, parameters: DieParameters, row_bits: int, column_bits: int):
        super().__init__({
            "command": In(stream.Signature(command_layout(parameters, row_bits, column_bits))),
            "o": Out(stream.Signature(span_layout(parameters, column_bits))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        current = Signal.like(self.command.payload)
        step, left = Signal(), Signal(signed(len(current.rows) + 1))
        m.d.comb += [
            self.o.payload.address.eq(current.address), self.o.payload.columns.eq(current.columns),
            self.o.payload.last.eq(left[-1]), self.o.payload.task.eq(current.task),
            step.eq(self.o.valid & self.o.ready),
            self.command.ready.eq(~self.o.valid | (step & self.o.payload.last)),
        ]
        active = Signal()
        m.d.comb += self.o.valid.eq(active)
        loads, command = self.command.ready, self.command.payload
        with m.If(loads):
            m.d.sync += [current.stride.eq(command.stride), current.columns.eq(command.columns),
                         current.task.eq(command.task), active.eq(self.command.valid)]
        with m.If(loads | step):
            m.d.sync += [
                current.address.eq(loaded_sum(m, platform, "next_address", loads, command.address, current.address,
                                              current.stride)),
                left.eq(counted_down(m, platform, "next_left", loads, command.rows, left)),
            ]
        return m


class RowCut(wiring.Component):
    """Cuts rows into requests.

    Members
    -------
    i : In stream of :func:`span_layout`
    row : Out stream of the row records, one a row
    request : Out stream of port requests
    request_last : Out(1)
        With ``request``: it is the last one of its command.
    """

    def __init__(self, parameters: DieParameters, column_bits: int, max_beats: int, clipped: bool = False,
                 packing: int = 1):
        self.parameters = parameters
        self.column_bits = column_bits
        self.max_beats = max_beats
        self.clipped = clipped
        self.packing = packing
        super().__init__({
            "i": In(stream.Signature(span_layout(parameters, column_bits, clipped, packing))),
            "row": Out(stream.Signature(_row_layout(parameters, column_bits, clipped, packing))),
            "request": Out(stream.Signature(request_layout(parameters))),
            "request_last": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane_bits = _lane_bits(self.parameters, self.packing)
        span, record = self.i.payload, self.row.payload
        offset = span.address[:lane_bits]
        end, before = Signal(self.column_bits + 1), Signal(signed(lane_bits + 1))
        m.d.comb += [
            before.eq(offset - 1), end.eq(span.columns + before),
            record.offset.eq(offset), record.more.eq(end[lane_bits:]), record.end.eq(end[:lane_bits]),
            record.last.eq(span.last),
        ]
        address, more, wanted = span.address[lane_bits:], end[lane_bits:], Const(1)
        if self.clipped:
            first, final = Signal(self.column_bits + 1, name="first"), Signal(self.column_bits + 1, name="final")
            m.d.comb += [
                first.eq(offset + span.low), final.eq(offset + span.high), record.any.eq(span.any),
                record.first.as_value().eq(first), record.final.as_value().eq(final),
            ]
            address, more = address + first[lane_bits:], (final[lane_bits:] - first[lane_bits:])[:len(more)]
            wanted = span.any

        # No path leads from who takes requests to who gives rows.
        m.submodules.requests = requests = FIFO(
            data.StructLayout({"request": request_layout(self.parameters), "last": 1}), _REQUESTS)
        cut, head = requests.i.payload, requests.o
        # All requests of a row but the last one have ``max_beats``: what is less than that is the same in all of them.
        # The sign of how many come after the next one says that there is none.
        piece_bits = exact_log2(self.max_beats)
        split_address = Signal(len(span.address) - lane_bits)
        split_rest = Signal(piece_bits)
        split_after = Signal(signed(max(1, len(more) - piece_bits) + 1))
        split_task = Signal(TASK_BITS)
        split_active, split_last, split_final, split_free = (
            Signal(name=f"split_{name}") for name in ("active", "last", "final", "free"))
        m.d.comb += [
            self.row.valid.eq(self.i.valid & split_free),
            self.i.ready.eq(self.row.ready & split_free),
            split_final.eq(split_after[-1]),
            split_free.eq(~split_active | (requests.i.ready & split_final)),
            requests.i.valid.eq(split_active),
            cut.request.address.eq(split_address), cut.request.task.eq(split_task),
            cut.request.beats.eq(table_sum(m, platform, "beats", [
                Digits((Cat(split_rest, Const(0, 1)), Cat(split_final.replicate(piece_bits), Const(1, 1))),
                       lambda rest, final: rest | ~final)], carry=Const(1, 1))),
            cut.last.eq(split_final & split_last),
            self.request.valid.eq(head.valid), head.ready.eq(self.request.ready),
            self.request.payload.eq(head.payload.request), self.request_last.eq(head.payload.last),
        ]
        with m.If(split_free):
            m.d.sync += [split_last.eq(span.last), split_task.eq(span.task), split_rest.eq(more[:piece_bits]),
                         split_address[:piece_bits].eq(address[:piece_bits]),
                         split_active.eq(self.row.valid & self.row.ready & wanted)]
        with m.If(split_free | requests.i.ready):
            m.d.sync += [
                split_address[piece_bits:].eq(loaded_sum(
                    m, platform, "next_split_address", split_free, address[piece_bits:], split_address[piece_bits:],
                    Const(1, 1))),
                split_after.eq(chosen_sum(
                    m, platform, "next_split_after", split_free, Cat(more[piece_bits:], Const(0, 1)), split_after,
                    Const(-1, len(split_after)))),
            ]
        return m


class BeatWalk(wiring.Component):
    """Turns row records into the positions and masks of beats, one a cycle, from the cycle after the record on.

    All that is said of a beat comes from registers, or is a few look-up tables away from them: where it is among the
    row's beats is counted down, to a sign.

    Members
    -------
    row : In stream of the row records
    o : Out stream of :func:`fetch_layout`
        If clipped, with ``real`` as of :func:`load_layout`, and ``words`` are the real ones.
    read : Out(1)
        The beat has words that are read; always, if not clipped.
    """

    def __init__(self, parameters: DieParameters, row_bits: int, column_bits: int, clipped: bool = False,
                 packing: int = 1, far: bool = False):
        self.parameters = parameters
        self.row_bits = row_bits
        self.clipped = clipped
        self.packing = packing
        self.far = far
        super().__init__({
            "row": In(stream.Signature(_row_layout(parameters, column_bits, clipped, packing))),
            "o": Out(stream.Signature(_position(parameters, row_bits, column_bits, clipped, packing, far))),
            "read": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = beat_elements(self.parameters, self.packing)
        lane_bits = _lane_bits(self.parameters, self.packing)
        position, record = self.o.payload, self.row.payload
        active, step, load, row_last = (Signal(name=name) for name in ("active", "step", "load", "row_last"))
        current = Signal.like(record, name="current")
        start, end = Signal(lane_bits, name="start"), Signal(lane_bits, name="end")
        from_start, to_end = Signal(words, name="from_start"), Signal(words, name="to_end")
        row = Signal(self.row_bits)
        low, high = Signal(lane_bits, name="low"), Signal(len(position.column) - lane_bits, name="high")

        def countdown(name: str, beats: Value) -> Value:
            """Whether the beat at hand is the one that comes so many after the row's first, or a later one: the sign of
            how many there are from the next one to that."""
            left = Signal(signed(len(beats) + 1), name=name)
            with m.If(load | step):
                m.d.sync += left.eq(chosen_sum(m, platform, f"next_{name}", load, Cat(beats, Const(0, 1)), left,
                                               Const(-1, len(left))))
            return left[-1]

        m.d.comb += [
            row_last.eq(countdown("after_next", record.more)),
            end.eq(Mux(row_last, current.end, words - 1)),
            position.mask.eq(from_start & (to_end | ~row_last.replicate(words))),
            position.row.eq(row), position.column.eq(Cat(low, high)),
            position.row_last.eq(row_last), position.last.eq(row_last & current.last),
            self.o.valid.eq(active), step.eq(active & self.o.ready),
            load.eq(~active | (step & row_last)), self.row.ready.eq(load),
        ]
        with m.If(load):
            m.d.sync += [current.eq(record), active.eq(self.row.valid), start.eq(record.offset), low.eq(-record.offset),
                         high.eq(record.offset.any().replicate(len(high))),
                         from_start.eq(_lanes_from(record.offset, words)), to_end.eq(_lanes_to(record.end, words))]
        with m.Elif(step):
            m.d.sync += [start.eq(0), from_start.eq(~0), high.eq(high + 1 if self.far else ~low.any())]
        with m.If(step & row_last):
            m.d.sync += row.eq(Mux(current.last, 0, row + 1))
        if not self.clipped:
            m.d.comb += [self.read.eq(1), position.words.eq(end - start + 1)]
            return m

        # Words are read from one beat on up to another one: ``begun`` behind the former, ``done`` behind the latter.
        first, final = Signal(lane_bits, name="first"), Signal(lane_bits, name="final")
        from_first, to_final = Signal(words, name="from_first"), Signal(words, name="to_final")
        begun, done, read = Signal(name="begun"), Signal(name="done"), Signal(name="reading")
        begins, ends = (countdown(f"before_{name}", record[name].beat) for name in ("first", "final"))
        m.d.comb += [
            read.eq(current.any & begins & ~done), self.read.eq(read),
            first.eq(Mux(begun, 0, current.first.lane)), final.eq(Mux(ends, current.final.lane, words - 1)),
            position.real.eq(Mux(read, (from_first | begun.replicate(words)) & (to_final | ~ends.replicate(words)), 0)),
            position.words.eq(Mux(read, final - first + 1, 0)),
        ]
        with m.If(load):
            m.d.sync += [begun.eq(0), done.eq(0), from_first.eq(_lanes_from(record.first.lane, words)),
                         to_final.eq(_lanes_to(record.final.lane, words))]
        with m.Elif(step):
            m.d.sync += [begun.eq(begins), done.eq(ends)]
        return m


def _lanes_from(lane: Value, lanes: int) -> Value:
    """That lane and all above it."""
    return Cat(number >= lane for number in range(lanes))


def _lanes_to(lane: Value, lanes: int) -> Value:
    """That lane and all below it."""
    return Cat(number <= lane for number in range(lanes))
