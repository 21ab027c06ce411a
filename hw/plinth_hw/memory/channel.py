"""Strided loads and stores: a matrix in memory as a run of beats, row by row.

Requests run ahead of data::

    load:   command -> StridedRows -> RowCut -+-> port.request
                                              +-> rows FIFO -> BeatWalk --+-> o
                                                            port.data ----+
    store:  command -> StridedRows -> RowCut -+-> port.request
                                              +-> rows FIFO -> BeatWalk -> fetch (to the client)
                                                       client -> i + mask FIFO -> port.data
                                                       port.response + FIFO of last requests -> done

What rows and beats are: :mod:`~plinth_hw.memory.rows`. Clients that walk rows in another way feed :class:`RowLoad` and
:class:`RowStore` with them.

Throughput: one beat a cycle, across rows and commands without gaps (the row walk makes one row a
cycle, so also when each row is a single beat). Latency: request two cycles after the row walk, which
starts in the cycle after the command; load data pass through without a register, or one cycle later where memory is on
the chip alone.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.ram import SECTION
from plinth_hw.memory.port import MAX_BEATS, ReadPort, WritePort, beat_layout, on_chip
from plinth_hw.memory.rows import (
    BeatWalk,
    RowCut,
    StridedRows,
    command_layout,
    fetch_layout,
    load_layout,
    span_layout,
)

#: Beats that have come, and wait to be taken, where memory is on the chip alone.
_ARRIVED = 4


class RowLoad(wiring.Component):
    """Loads rows from memory.

    Parameters
    ----------
    parameters : DieParameters
    row_bits, column_bits : int
        Widths of the number of a row in its command, and of ``columns``.
    row_depth : int
        Rows that may be requested but not delivered; a power of two.
    max_beats : int
        Longest request, a power of two, at most ``MAX_BEATS``.
    clipped : bool
        Rows may be clipped.
    packing : int
        Elements of a word, where these are counted: 1, 2 or 4.
    far : bool
        Beats tell their column however far on they are.

    Members
    -------
    i : In stream of :func:`span_layout`
        Taken ahead of the data of earlier rows. Give a row only when there is room for all its data: the client
        has to take every beat within bounded time, whatever else memory does.
    port : Out(ReadPort)
    o : Out stream of :func:`load_layout`

    Raises
    ------
    ValueError
        If ``max_beats`` is no power of two in 1 .. ``MAX_BEATS``, or a word has another number of elements.
    """

    def __init__(self, parameters: DieParameters, row_bits: int, column_bits: int,
                 row_depth: int = 32, max_beats: int = MAX_BEATS, clipped: bool = False,
                 packing: int = 1, far: bool = False):
        _check_beats(max_beats)
        if packing not in (1, 2, 4):
            raise ValueError(f"A word must have 1, 2 or 4 elements, not {packing!r}")
        self.parameters = parameters
        self.row_bits = row_bits
        self.column_bits = column_bits
        self.row_depth = row_depth
        self.max_beats = max_beats
        self.clipped = clipped
        self.packing = packing
        self.far = far
        super().__init__({
            "i": In(stream.Signature(span_layout(parameters, column_bits, clipped, packing))),
            "port": Out(ReadPort(parameters)),
            "o": Out(stream.Signature(load_layout(parameters, row_bits, column_bits, clipped, packing, far))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.cut = cut = RowCut(self.parameters, self.column_bits, self.max_beats, self.clipped,
                                        self.packing)
        # A row takes no longer to come through than its data.
        m.submodules.rows = rows = FIFO(cut.row.payload.shape(), self.row_depth,
                                        Storage.LUT if self.row_depth % SECTION else Storage.SECTIONS)
        m.submodules.walk = walk = BeatWalk(self.parameters, self.row_bits, self.column_bits, self.clipped,
                                            self.packing, self.far)
        wiring.connect(m, wiring.flipped(self.i), cut.i)
        wiring.connect(m, cut.request, wiring.flipped(self.port.request))
        wiring.connect(m, cut.row, rows.i)
        wiring.connect(m, rows.o, walk.row)
        beat, place, arriving = self.o.payload, walk.o.payload, self.port.data
        if on_chip(self.parameters):
            m.submodules.arrived = arrived = FIFO(beat_layout(self.parameters), _ARRIVED)
            wiring.connect(m, wiring.flipped(self.port.data), arrived.i)
            arriving = arrived.o
        there = Signal()
        m.d.comb += [
            beat.data.as_value().eq(arriving.payload.as_value()),
            *(beat[name].eq(place[name]) for name, _ in place.shape()),
            # A beat of padding has no data to wait for.
            there.eq(arriving.valid | ~walk.read),
            self.o.valid.eq(there & walk.o.valid),
            walk.o.ready.eq(there & self.o.ready),
            arriving.ready.eq(walk.o.valid & walk.read & self.o.ready),
        ]
        return m


class StridedLoad(wiring.Component):
    """Loads matrices from memory; parameters, members and errors as of :class:`RowLoad`, but for ``i``.

    Members
    -------
    command : In stream of :func:`command_layout`
        Taken ahead of the data of earlier commands. Give a command only when there is room for all its
        data: the client has to take every beat within bounded time, whatever else memory does.
    """

    def __init__(self, parameters: DieParameters, row_bits: int, column_bits: int,
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
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rows = rows = StridedRows(self.parameters, self.row_bits, self.column_bits)
        m.submodules.load = load = RowLoad(self.parameters, self.row_bits, self.column_bits, self.row_depth,
                                           self.max_beats)
        wiring.connect(m, wiring.flipped(self.command), rows.command)
        wiring.connect(m, rows.o, load.i)
        wiring.connect(m, load.port, wiring.flipped(self.port))
        wiring.connect(m, load.o, wiring.flipped(self.o))
        return m


class RowStore(wiring.Component):
    """Stores rows to memory.

    Parameters
    ----------
    parameters : DieParameters
    row_bits, column_bits, max_beats, far
        As of :class:`RowLoad`.
    fetch_depth : int
        Beats that may be fetched but not yet given; at least the client's latency; a power of two.
    request_depth : int
        Requests that may wait for their response; a power of two.

    Members
    -------
    i_rows : In stream of :func:`span_layout`
    port : Out(WritePort)
    fetch : Out stream of :func:`fetch_layout`
        Beats wanted, in address order.
    i : In stream of :func:`beat_layout`
        Their data, in the order of ``fetch``: lane l is element (row, column + l); lanes outside
        the mask are not written.
    done : Out(1)
        Pulse: memory holds all of the oldest unfinished command.
    words : Out
        Words handed to memory in the cycle before.

    Raises
    ------
    ValueError
        If ``max_beats`` is no power of two in 1 .. ``MAX_BEATS``.
    """

    def __init__(self, parameters: DieParameters, row_bits: int, column_bits: int,
                 fetch_depth: int, request_depth: int = 32, max_beats: int = MAX_BEATS, far: bool = False):
        _check_beats(max_beats)
        self.parameters = parameters
        self.row_bits = row_bits
        self.column_bits = column_bits
        self.fetch_depth = fetch_depth
        self.request_depth = request_depth
        self.max_beats = max_beats
        self.far = far
        super().__init__({
            "i_rows": In(stream.Signature(span_layout(parameters, column_bits))),
            "port": Out(WritePort(parameters)),
            "fetch": Out(stream.Signature(fetch_layout(parameters, row_bits, column_bits, far))),
            "i": In(stream.Signature(beat_layout(parameters))),
            "done": Out(1),
            "words": Out(parameters.beat_words.bit_length()),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.cut = cut = RowCut(self.parameters, self.column_bits, self.max_beats)
        m.submodules.rows = rows = FIFO(cut.row.payload.shape(), min(self.fetch_depth, 8))
        m.submodules.walk = walk = BeatWalk(self.parameters, self.row_bits, self.column_bits, far=self.far)
        strobe_bits = self.parameters.beat_words
        m.submodules.strobes = strobes = FIFO(strobe_bits + len(self.words), self.fetch_depth)
        m.submodules.unanswered = unanswered = FIFO(1, self.request_depth)
        wiring.connect(m, wiring.flipped(self.i_rows), cut.i)
        wiring.connect(m, cut.row, rows.i)
        wiring.connect(m, rows.o, walk.row)
        m.d.comb += [
            self.port.request.payload.eq(cut.request.payload),
            self.port.request.valid.eq(cut.request.valid & unanswered.i.ready),
            cut.request.ready.eq(self.port.request.ready & unanswered.i.ready),
            unanswered.i.payload.eq(cut.request_last),
            unanswered.i.valid.eq(self.port.request.valid & self.port.request.ready),
            unanswered.o.ready.eq(self.port.response),
            self.done.eq(self.port.response & unanswered.o.payload),

            self.fetch.payload.eq(walk.o.payload),
            self.fetch.valid.eq(walk.o.valid & strobes.i.ready),
            walk.o.ready.eq(self.fetch.ready & strobes.i.ready),
            strobes.i.payload.eq(Cat(walk.o.payload.mask, walk.o.payload.words)),
            strobes.i.valid.eq(self.fetch.valid & self.fetch.ready),

            self.port.data.payload.data.eq(self.i.payload),
            self.port.data.payload.strobe.eq(strobes.o.payload[:strobe_bits]),
            self.port.data.valid.eq(self.i.valid & strobes.o.valid),
            self.i.ready.eq(self.port.data.ready & strobes.o.valid),
            strobes.o.ready.eq(self.i.valid & self.port.data.ready),
        ]
        m.d.sync += self.words.eq(Mux(strobes.o.valid & strobes.o.ready, strobes.o.payload[strobe_bits:], 0))
        return m


class StridedStore(wiring.Component):
    """Stores matrices to memory; parameters, members and errors as of :class:`RowStore`, but for ``i_rows``.

    Members
    -------
    command : In stream of :func:`command_layout`
    """

    def __init__(self, parameters: DieParameters, row_bits: int, column_bits: int,
                 fetch_depth: int, request_depth: int = 32, max_beats: int = MAX_BEATS):
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
        m.submodules.rows = rows = StridedRows(self.parameters, self.row_bits, self.column_bits)
        m.submodules.store = store = RowStore(self.parameters, self.row_bits, self.column_bits, self.fetch_depth,
                                              self.request_depth, self.max_beats)
        wiring.connect(m, wiring.flipped(self.command), rows.command)
        wiring.connect(m, rows.o, store.i_rows)
        wiring.connect(m, store.port, wiring.flipped(self.port))
        wiring.connect(m, store.fetch, wiring.flipped(self.fetch))
        wiring.connect(m, wiring.flipped(self.i), store.i)
        m.d.comb += [self.done.eq(store.done), self.words.eq(store.words)]
        return m


def _check_beats(max_beats: int) -> None:
    if not 1 <= max_beats <= MAX_BEATS or max_beats & (max_beats - 1):
        raise ValueError(f"Longest request must be a power of two in 1 .. {MAX_BEATS}, not {max_beats!r}")
