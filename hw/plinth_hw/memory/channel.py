"""Strided loads and stores: a matrix in memory as a run of beats, row by row.

A row of ``columns`` words at any word address covers ``ceil((offset + columns) / B)`` beats of
B = ``beat_words`` words, where ``offset`` is the low part of its address. Beat b of row i has its
lane 0 at element (i, b * B - offset): the first column may be negative, and a mask says which
lanes belong to the row. Requests run ahead of data::

    load:   command -> row walk -+-> request split -> port.request
                                 +-> rows FIFO -> beat walk --+-> o
                                               port.data -----+
    store:  command -> row walk -+-> request split -> port.request
                                 +-> rows FIFO -> beat walk -> fetch (to the client)
                                          client -> i + mask FIFO -> port.data
                                          port.response + FIFO of last requests -> done

Throughput: one beat a cycle, across rows and commands without gaps (the row walk makes one row a
cycle, so also when each row is a single beat). Latency: request one cycle after the row walk, which
starts in the cycle after the command; load data pass through without a register.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.memory.port import MAX_BEATS, ReadPort, WritePort, beat_layout, request_layout


def command_layout(parameters: DieParameters, row_bits: int, column_bits: int) -> data.StructLayout:
    """A region in memory: ``rows`` x ``columns`` words (both at least 1), ``stride`` words between the
    starts of rows."""
    return data.StructLayout({
        "address": unsigned(parameters.address_bits), "stride": unsigned(parameters.address_bits),
        "rows": unsigned(row_bits), "columns": unsigned(column_bits),
    })


def load_layout(parameters: DieParameters, row_bits: int, column_bits: int) -> data.StructLayout:
    """A beat of a load.

    ``data``: B words; ``row``, ``column`` (signed): element in lane 0; ``mask``: the lanes that belong to
    the row; ``words``: how many they are; ``row_last``, ``last``: last beat of the row, of the command.
    """
    return data.StructLayout({"data": beat_layout(parameters),
                              **_position(parameters, row_bits, column_bits).members})


def fetch_layout(parameters: DieParameters, row_bits: int, column_bits: int) -> data.StructLayout:
    """A beat that a store asks for; members as in :func:`load_layout`, without the data."""
    return _position(parameters, row_bits, column_bits)


def _position(parameters: DieParameters, row_bits: int, column_bits: int) -> data.StructLayout:
    return data.StructLayout({
        "row": unsigned(row_bits), "column": signed(column_bits + 1),
        "mask": unsigned(parameters.beat_words),
        "words": unsigned(parameters.beat_words.bit_length()),
        "row_last": unsigned(1), "last": unsigned(1),
    })


def _lane_bits(parameters: DieParameters) -> int:
    return (parameters.beat_words - 1).bit_length()


def _row_layout(parameters: DieParameters, column_bits: int) -> data.StructLayout:
    """What the beat walk has to know of a row: first lane, beats after the first one, last lane, and whether it
    is the last row."""
    lane_bits = _lane_bits(parameters)
    return data.StructLayout({
        "offset": unsigned(lane_bits), "more": unsigned(_row_beats_bits(parameters, column_bits)),
        "end": unsigned(lane_bits), "last": unsigned(1),
    })


def _row_beats_bits(parameters: DieParameters, column_bits: int) -> int:
    return max(1, column_bits + 1 - _lane_bits(parameters))


class RowRequests(wiring.Component):
    """Walks the rows of commands and cuts them into requests.

    Members
    -------
    command : In stream of :func:`command_layout`
    row : Out stream of the row records, one a row
    request : Out stream of port requests
    request_row_last, request_last : Out(1)
        With ``request``: it is the last one of its row, of its command.
    """

    def __init__(self, parameters: DieParameters, row_bits: int, column_bits: int, max_beats: int):
        self.parameters = parameters
        self.row_bits = row_bits
        self.column_bits = column_bits
        self.max_beats = max_beats
        super().__init__({
            "command": In(stream.Signature(command_layout(parameters, row_bits, column_bits))),
            "row": Out(stream.Signature(_row_layout(parameters, column_bits))),
            "request": Out(stream.Signature(request_layout(parameters))),
            "request_row_last": Out(1),
            "request_last": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane_bits = _lane_bits(self.parameters)
        beats_bits = _row_beats_bits(self.parameters, self.column_bits)
        current = Signal(command_layout(self.parameters, self.row_bits, self.column_bits))
        active, step, last = Signal(), Signal(), Signal()
        offset = current.address[:lane_bits]
        end = Signal(self.column_bits + 1)
        more = end[lane_bits:]

        split_address = Signal(self.parameters.address_bits - lane_bits)
        split_more = Signal(beats_bits)
        split_active, split_last, split_final, split_free = Signal(), Signal(), Signal(), Signal()

        m.d.comb += [
            last.eq(current.rows == 1),
            end.eq(offset + current.columns - 1),
            self.row.valid.eq(active & split_free),
            self.row.payload.offset.eq(offset),
            self.row.payload.more.eq(more),
            self.row.payload.end.eq(end[:lane_bits]),
            self.row.payload.last.eq(last),
            step.eq(self.row.valid & self.row.ready),
            self.command.ready.eq(~active | (step & last)),
        ]
        with m.If(~active | (step & last)):
            m.d.sync += [current.eq(self.command.payload), active.eq(self.command.valid)]
        with m.Elif(step):
            m.d.sync += [current.address.eq(current.address + current.stride), current.rows.eq(current.rows - 1)]

        m.d.comb += [
            split_final.eq(split_more < self.max_beats),
            split_free.eq(~split_active | (self.request.ready & split_final)),
            self.request.valid.eq(split_active),
            self.request.payload.address.eq(split_address),
            self.request.payload.beats.eq(Mux(split_final, split_more, self.max_beats - 1) + 1),
            self.request_row_last.eq(split_final),
            self.request_last.eq(split_final & split_last),
        ]
        with m.If(split_free):
            m.d.sync += [split_address.eq(current.address[lane_bits:]), split_more.eq(more),
                         split_active.eq(step), split_last.eq(last)]
        with m.Elif(self.request.ready):
            m.d.sync += [split_address.eq(split_address + self.max_beats),
                         split_more.eq(split_more - self.max_beats)]
        return m


class BeatWalk(wiring.Component):
    """Turns row records into the positions and masks of beats, one a cycle.

    Members
    -------
    row : In stream of the row records
    o : Out stream of :func:`fetch_layout`
    """

    def __init__(self, parameters: DieParameters, row_bits: int, column_bits: int):
        self.parameters = parameters
        self.row_bits = row_bits
        self.column_bits = column_bits
        super().__init__({
            "row": In(stream.Signature(_row_layout(parameters, column_bits))),
            "o": Out(stream.Signature(fetch_layout(parameters, row_bits, column_bits))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = self.parameters.beat_words
        lane_bits = _lane_bits(self.parameters)
        position = self.o.payload
        beat = Signal(_row_beats_bits(self.parameters, self.column_bits))
        row = Signal(self.row_bits)
        record = self.row.payload
        below = Signal(words)
        beyond = Signal(words)
        start = Signal(lane_bits)
        end = Signal(lane_bits)
        m.d.comb += [
            start.eq(Mux(beat == 0, record.offset, 0)),
            end.eq(Mux(position.row_last, record.end, words - 1)),
            below.eq(Cat(lane < start for lane in range(words))),
            beyond.eq(Cat(lane > end for lane in range(words))),
            position.row.eq(row),
            # beat * B - offset: the low part is (-offset) mod B, the upper part beat, less a borrow.
            position.column.eq((Cat(Const(0, lane_bits), beat) - record.offset).as_signed()),
            position.row_last.eq(beat == record.more),
            position.last.eq(position.row_last & record.last),
            position.mask.eq(~(below | beyond)),
            position.words.eq(end - start + 1),
            self.o.valid.eq(self.row.valid),
            self.row.ready.eq(self.o.ready & position.row_last),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += beat.eq(beat + 1)
            with m.If(position.row_last):
                m.d.sync += [beat.eq(0), row.eq(row + 1)]
            with m.If(position.last):
                m.d.sync += row.eq(0)
        return m


class StridedLoad(wiring.Component):
    """Loads matrices from memory.

    Parameters
    ----------
    parameters : DieParameters
    row_bits, column_bits : int
        Widths of the command's ``rows`` and ``columns``.
    row_depth : int
        Rows that may be requested but not delivered.
    max_beats : int
        Longest request, at most ``MAX_BEATS``.

    Members
    -------
    command : In stream of :func:`command_layout`
        Taken ahead of the data of earlier commands. Give a command only when there is room for all its
        data: the client has to take every beat within bounded time, whatever else memory does.
    port : Out(ReadPort)
    o : Out stream of :func:`load_layout`
    request_row_last : Out(1)
        With ``port.request``: it is the last one of its row.

    Raises
    ------
    ValueError
        If ``max_beats`` is not in 1 .. ``MAX_BEATS``.
    """

    def __init__(self, parameters: DieParameters, row_bits: int = 16, column_bits: int = 16,
                 row_depth: int = 32, max_beats: int = MAX_BEATS):
        _check_beats(max_beats)
        self.parameters = parameters
        self.row_bits = row_bits
        self.column_bits = column_bits
        self.row_depth = row_depth
        self.max_beats = max_beats
        super().__init__({
            "command": In(stream.Signature(command_layout(parameters, row_bits, column_bits))),
            "port": Out(ReadPort(parameters)),
            "o": Out(stream.Signature(load_layout(parameters, row_bits, column_bits))),
            "request_row_last": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.requests = requests = RowRequests(
            self.parameters, self.row_bits, self.column_bits, self.max_beats)
        m.submodules.rows = rows = SyncFIFO(
            width=requests.row.payload.shape().size, depth=self.row_depth)
        m.submodules.walk = walk = BeatWalk(self.parameters, self.row_bits, self.column_bits)
        wiring.connect(m, wiring.flipped(self.command), requests.command)
        wiring.connect(m, requests.request, wiring.flipped(self.port.request))
        beat = self.o.payload
        m.d.comb += [
            self.request_row_last.eq(requests.request_row_last),
            rows.w_data.eq(requests.row.payload), rows.w_en.eq(requests.row.valid),
            requests.row.ready.eq(rows.w_rdy),
            walk.row.payload.eq(rows.r_data), walk.row.valid.eq(rows.r_rdy), rows.r_en.eq(walk.row.ready),
            beat.data.eq(self.port.data.payload),
            beat.row.eq(walk.o.payload.row), beat.column.eq(walk.o.payload.column),
            beat.mask.eq(walk.o.payload.mask), beat.words.eq(walk.o.payload.words),
            beat.row_last.eq(walk.o.payload.row_last), beat.last.eq(walk.o.payload.last),
            self.o.valid.eq(self.port.data.valid & walk.o.valid),
            walk.o.ready.eq(self.port.data.valid & self.o.ready),
            self.port.data.ready.eq(walk.o.valid & self.o.ready),
        ]
        return m


class StridedStore(wiring.Component):
    """Stores matrices to memory.

    Parameters
    ----------
    parameters : DieParameters
    row_bits, column_bits, max_beats
        As of :class:`StridedLoad`.
    fetch_depth : int
        Beats that may be fetched but not yet given; at least the client's latency.
    request_depth : int
        Requests that may wait for their response.

    Members
    -------
    command : In stream of :func:`command_layout`
    port : Out(WritePort)
    fetch : Out stream of :func:`fetch_layout`
        Beats wanted, in address order.
    i : In stream of :func:`beat_layout`
        Their data, in the order of ``fetch``: lane l is element (row, column + l); lanes outside
        the mask are not written.
    done : Out(1)
        Pulse: memory holds all of the oldest unfinished command.
    words : Out
        Words handed to memory in this cycle.

    Raises
    ------
    ValueError
        If ``max_beats`` is not in 1 .. ``MAX_BEATS``.
    """

    def __init__(self, parameters: DieParameters, row_bits: int = 16, column_bits: int = 16,
                 fetch_depth: int = 16, request_depth: int = 32, max_beats: int = MAX_BEATS):
        _check_beats(max_beats)
        self.parameters = parameters
        self.row_bits = row_bits
        self.column_bits = column_bits
        self.fetch_depth = fetch_depth
        self.request_depth = request_depth
        self.max_beats = max_beats
        super().__init__({
            "command": In(stream.Signature(command_layout(parameters, row_bits, column_bits))),
            "port": Out(WritePort(parameters)),
            "fetch": Out(stream.Signature(fetch_layout(parameters, row_bits, column_bits))),
            "i": In(stream.Signature(beat_layout(parameters))),
            "done": Out(1),
            "words": Out(parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.requests = requests = RowRequests(
            self.parameters, self.row_bits, self.column_bits, self.max_beats)
        m.submodules.rows = rows = SyncFIFO(
            width=requests.row.payload.shape().size, depth=min(self.fetch_depth, 8))
        m.submodules.walk = walk = BeatWalk(self.parameters, self.row_bits, self.column_bits)
        strobe_bits = self.parameters.beat_words
        m.submodules.strobes = strobes = SyncFIFO(
            width=strobe_bits + len(self.words), depth=self.fetch_depth)
        m.submodules.unanswered = unanswered = SyncFIFO(width=1, depth=self.request_depth)
        wiring.connect(m, wiring.flipped(self.command), requests.command)
        m.d.comb += [
            rows.w_data.eq(requests.row.payload), rows.w_en.eq(requests.row.valid),
            requests.row.ready.eq(rows.w_rdy),
            walk.row.payload.eq(rows.r_data), walk.row.valid.eq(rows.r_rdy), rows.r_en.eq(walk.row.ready),

            self.port.request.payload.eq(requests.request.payload),
            self.port.request.valid.eq(requests.request.valid & unanswered.w_rdy),
            requests.request.ready.eq(self.port.request.ready & unanswered.w_rdy),
            unanswered.w_data.eq(requests.request_last),
            unanswered.w_en.eq(self.port.request.valid & self.port.request.ready),
            unanswered.r_en.eq(self.port.response),
            self.done.eq(self.port.response & unanswered.r_data),

            self.fetch.payload.eq(walk.o.payload),
            self.fetch.valid.eq(walk.o.valid & strobes.w_rdy),
            walk.o.ready.eq(self.fetch.ready & strobes.w_rdy),
            strobes.w_data.eq(Cat(walk.o.payload.mask, walk.o.payload.words)),
            strobes.w_en.eq(self.fetch.valid & self.fetch.ready),

            self.port.data.payload.data.eq(self.i.payload),
            self.port.data.payload.strobe.eq(strobes.r_data[:strobe_bits]),
            self.port.data.valid.eq(self.i.valid & strobes.r_rdy),
            self.i.ready.eq(self.port.data.ready & strobes.r_rdy),
            strobes.r_en.eq(self.i.valid & self.port.data.ready),
            self.words.eq(Mux(strobes.r_rdy & strobes.r_en, strobes.r_data[strobe_bits:], 0)),
        ]
        return m


def _check_beats(max_beats: int) -> None:
    if not 1 <= max_beats <= MAX_BEATS:
        raise ValueError(f"Longest request must be in 1 .. {MAX_BEATS}, not {max_beats!r}")
