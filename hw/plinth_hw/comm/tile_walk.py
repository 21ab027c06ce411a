"""Walks a tile: cuts it into pieces.

::

    body --> words --sizes-----> rows, planes left -------------+
               ^  +--strides--> side of the source -------------+--> piece
               |  +--strides--> side of the destination --------+
               +--- product <-- numbers of rows <-- index

A side is the address that a piece begins at, and the first words of plane, row and list of row numbers in look-up-table
RAM. Each of its steps is one sum: from where it is to the next packet, or from one of these first words on by a word of
the body, to the next row, plane or piece of the list. The product of an indexed row's number and its stride takes a
place among the words of the body. The zeros that these RAMs hold beside are written in the cycle after reset, while the
product is 0 and both sides are at the last word, of which the next is 0.

Throughput: a piece a cycle, a plane one more; an indexed row takes four, and each 16 of them one more. Latency: start
to first piece 2 cycles.
"""

from collections.abc import Callable
from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import Digits, chosen_sum, loaded_sum, table_sum
from plinth_hw.comm.run_reader import packet_words
from plinth_hw.comm.tile_read import PieceUse, tile_flit_layout, tile_piece_layout
from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import INDEX_WORDS, DieParameters
from plinth_hw.isa.tasks import field_word
from plinth_hw.isa.transfer_bodies import TransferBody
from plinth_hw.lib.count import index_bits
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.ram import LUT_RAM, SECTION
from plinth_hw.shapes import shape_of

#: Pieces of row numbers that may be under way.
INDEX_PIECES = 2
#: Words of a body.
FIELDS = TransferBody.BITS // WORD_BITS
#: Behind them in their memory: a product, and 0.
_PRODUCT, _NOTHING = range(FIELDS, FIELDS + 2)
#: Which word of the body a field is in, by its name.
index_of_field = partial(field_word, TransferBody)


def placement_layout() -> data.StructLayout:
    """The word of the body that says where the tile goes and which rows are indexed."""
    shapes = shape_of(TransferBody)
    word = index_of_field("destination_die")
    return data.StructLayout({name: shapes[name].shape for name in TransferBody.FIELDS if index_of_field(name) == word})


class First(enum.Enum, shape=unsigned(2)):
    """First words that a side keeps."""

    #: None of them: address 0.
    NONE = 0
    PLANE = 1
    ROW = 2
    #: Of the next piece of the list of row numbers.
    LIST = 3


class TileWalk(wiring.Component):
    """Cuts a tile into pieces.

    Members
    -------
    body_valid, body : In(1), In(BodyWord)
        A word of a task's body, with the address in place of a pointer; they come in order, none of them from ``start``
        until ``done``.
    placement : Out, :func:`placement_layout`
        Of that body.
    empty : Out(1)
        One of its sizes is zero.
    start : In(1)
        Pulse: the body has come; walk its tile.
    piece : Out stream of :func:`tile_piece_layout`
    index : In stream of :func:`tile_flit_layout`
        Words of the INDEX pieces.
    done : Out(1)
        Everything has been given.
    blocks : In(1)
        Of dies that have transforms: from ``start`` until ``done``, rows are cut in pieces of a beat's words.
    ends_row, ends_plane : Out(1)
        Of those: with a piece, that it is its row's last; its plane's.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "body_valid": In(1), "body": In(BodyWord), "placement": Out(placement_layout()), "empty": Out(1),
            "start": In(1),
            "piece": Out(stream.Signature(tile_piece_layout(parameters))),
            "index": In(stream.Signature(tile_flit_layout(parameters))),
            "done": Out(1),
            **({"blocks": In(1), "ends_row": Out(1), "ends_plane": Out(1)} if parameters.transforms else {}),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        reach, lane_bits = packet_words(self.parameters), exact_log2(self.parameters.flit_words)
        piece, placement = self.piece.payload, self.placement
        m.submodules.words = words = _BodyWords(self.parameters)
        m.submodules.source = source = _Side(self.parameters)
        m.submodules.destination = destination = _Side(self.parameters)
        m.submodules.counts = counts = _Counts()
        m.submodules.numbers = numbers = _RowNumbers(self.parameters)
        wiring.connect(m, wiring.flipped(self.index), numbers.flit)
        m.d.comb += [
            words.i_valid.eq(self.body_valid), words.i.eq(self.body),
            placement.eq(words.placement), self.empty.eq(words.empty), counts.size.eq(words.size),
            counts.pieces.eq(numbers.pieces),
        ]
        listed = Signal()
        m.d.comb += listed.eq(placement.gather | placement.scatter)

        # Both sides move at once, to the reach of the packet or by ``turns`` from a first word on.
        turns, moves, keep = Signal(name="turns"), Signal(name="moves"), Signal(First, name="keep")
        begin, lists, clears = Signal(exact_log2(reach)), Signal(name="lists"), Signal(name="clears")
        for side, stride in ((source, words.source_stride), (destination, words.destination_stride)):
            m.d.comb += [side.turns.eq(turns), side.moves.eq(moves), side.keep.eq(keep), side.begin.eq(begin),
                         side.stride.eq(stride | Mux(lists, INDEX_WORDS, 0)), side.clears.eq(clears)]
        # Words left in the row, those to the packet's reach, and where the row would end in it.
        left, room = Signal(WORD_BITS, name="left"), Signal(range(reach + 1), name="room")
        end = Signal(range(3 * reach))
        row_ends, fills, many = Signal(name="row_ends"), Signal(name="fills"), Signal(name="many")
        m.d.comb += begin.eq(destination.o)
        if self.parameters.transforms:
            # As if each piece began a beat before the packet's reach.
            with m.If(self.blocks):
                m.d.comb += begin.eq(reach - self.parameters.beat_words)
            m.d.comb += [self.ends_row.eq(row_ends), self.ends_plane.eq(row_ends & counts.row_last)]
        m.d.comb += [
            room.eq(reach - begin), many.eq(left[len(room):].any()),
            end.eq(left[:len(room)] + begin),
            fills.eq(many | (end >= reach)), row_ends.eq(~many & (end <= reach)),
        ]
        remaining = loaded_sum(m, platform, "remaining", turns, words.columns, left, Cat(begin, 1).as_signed())
        with m.If(moves):
            m.d.sync += left.eq(remaining)

        row_last, opens = counts.row_last, Signal(name="opens")
        # A counter's number; the destination is 0 by then.
        asks, arrival = Signal(name="asks"), Signal.like(placement.arrival, name="arrival")
        m.d.comb += [
            piece.source.eq(source.o), piece.run.address.eq(destination.o | arrival),
            piece.run.words.eq(Mux(row_ends, left, room)), piece.use.eq(PieceUse.TILE),
            piece.last.eq(row_ends & row_last & counts.plane_last),
            piece.tail.eq(fills | ~words.destination_goes_on | listed | row_last),
            piece.more.eq(~row_ends | (words.source_goes_on & ~listed & ~row_last)),
        ]
        sides = {name: (side, at) for name, side, at in (
            ("source", source, words.source_at), ("destination", destination, words.destination_at))}

        def step(stride: Callable[[str], int], first: First) -> None:
            """The way that both sides turn."""
            for name, (side, at) in sides.items():
                m.d.comb += [side.first.eq(first), at.eq(stride(name))]

        with m.FSM():
            with m.State("CLEAR"):
                m.d.comb += [clears.eq(1), moves.eq(1), keep.eq(First.NONE),
                             words.keeps_product.eq(1)]
                m.next = "IDLE"
            with m.State("IDLE"):
                step(index_of_field, First.NONE)
                m.d.comb += [self.done.eq(1), turns.eq(1), moves.eq(1), keep.eq(First.PLANE),
                             words.size_at.eq(index_of_field("planes")), counts.loads_planes.eq(1)]
                with m.If(self.start):
                    m.next = "PLANE"
            with m.State("PLANE"):
                step(lambda _: index_of_field("index"), First.NONE)
                m.d.comb += [turns.eq(1), moves.eq(listed), keep.eq(First.LIST),
                             words.size_at.eq(index_of_field("rows")), counts.loads_rows.eq(1)]
                m.d.sync += opens.eq(1)
                m.next = "PIECES"
                with m.If(listed):
                    m.next = "NUMBER"
            with m.State("NUMBER"):
                step(lambda _: _NOTHING, First.LIST)
                m.d.comb += [
                    turns.eq(1), lists.eq(1), moves.eq(self.piece.valid & self.piece.ready), keep.eq(First.LIST),
                    words.size_at.eq(Mux(placement.gather, index_of_field("source_row_stride"),
                                         index_of_field("destination_row_stride"))),
                    piece.run.address[:lane_bits].eq(0), piece.run.words.eq(counts.list_words),
                    piece.use.eq(PieceUse.INDEX), piece.tail.eq(1), piece.more.eq(0),
                    asks.eq(counts.list_goes_on & (numbers.pieces != INDEX_PIECES)),
                    self.piece.valid.eq(asks), numbers.asked.eq(asks & self.piece.ready),
                ]
                with m.If(~asks & numbers.o.valid):
                    m.next = "PRODUCT"
            with m.State("PRODUCT"):
                m.d.comb += [words.keeps_product.eq(1), numbers.o.ready.eq(1)]
                m.next = "INDEXED"
            with m.State("INDEXED"):
                m.d.comb += [turns.eq(1), moves.eq(1), keep.eq(First.ROW)]
                for name, indexed in (("source", placement.gather), ("destination", placement.scatter)):
                    side, at = sides[name]
                    m.d.comb += [
                        side.first.eq(Mux(indexed | opens, First.PLANE, First.ROW)),
                        at.eq(Mux(indexed, _PRODUCT, Mux(opens, _NOTHING, index_of_field(f"{name}_row_stride"))))]
                m.next = "PIECES"
            with m.State("PIECES"):
                m.d.comb += [self.piece.valid.eq(1), turns.eq(row_ends), moves.eq(self.piece.ready)]
                with m.If(row_last & counts.plane_last):
                    step(lambda _: _NOTHING, First.NONE)
                with m.Elif(row_last):
                    m.d.comb += keep.eq(First.PLANE)
                    step(lambda name: index_of_field(f"{name}_plane_stride"), First.PLANE)
                with m.Elif(listed):
                    m.d.comb += keep.eq(First.LIST)
                    step(lambda _: _NOTHING, First.LIST)
                with m.Else():
                    m.d.comb += keep.eq(First.ROW)
                    step(lambda name: index_of_field(f"{name}_row_stride"), First.ROW)
                    with m.If(opens):
                        m.d.comb += [side.first.eq(First.PLANE) for side, _ in sides.values()]
                with m.If(self.piece.ready & row_ends):
                    m.d.comb += counts.row_ends.eq(1)
                    m.d.sync += opens.eq(0)
                    with m.If(row_last):
                        m.next = "PLANE"
                        with m.If(counts.plane_last):
                            m.next = "ARRIVAL"
                    with m.Elif(listed):
                        m.next = "NUMBER"
            with m.State("ARRIVAL"):
                m.d.comb += [
                    self.piece.valid.eq(placement.arrival_enable), piece.use.eq(PieceUse.ARRIVAL),
                    arrival.eq(placement.arrival), piece.tail.eq(1), piece.more.eq(0)]
                with m.If(self.piece.ready | ~placement.arrival_enable):
                    m.next = "IDLE"
        # The stride of indexed rows is a task's, and is read long before its first number comes.
        factor = Signal(WORD_BITS, name="factor", reset_less=True)
        with m.If(asks):
            m.d.sync += factor.eq(words.size)
        # Products of halves, which are added as they are kept.
        number, half = Signal(WORD_BITS, name="number"), WORD_BITS // 2
        low, upper, lower = (Signal(WORD_BITS, name=f"product_{name}") for name in ("low", "upper", "lower"))
        m.d.sync += [low.eq(number[:half] * factor[:half]), upper.eq(number[half:] * factor[:half]),
                     lower.eq(number[:half] * factor[half:])]
        m.d.comb += [
            number.eq(numbers.o.payload), words.product.eq(low + (upper << half) + (lower << half)),
            words.product_at.eq(Mux(clears, _NOTHING, _PRODUCT)),
        ]
        return m


class _Counts(wiring.Component):
    """Planes, and rows of a plane, that are left.

    Rows are counted in groups, as many as a piece of the list has, and within a group. Counts of planes and groups lie
    in look-up-table RAM and share a sum; they are two less than are left, this one included, so that the last
    one's is negative.

    Members
    -------
    size : In(32), loads_planes, loads_rows : In(1)
        So many planes, so many rows, from the first on.
    row_ends : In(1)
        Pulse: to the next row, or of the last one to the next plane, whose rows are loaded next.
    row_last, plane_last : Out(1)
        It is the plane's last row; the last plane.
    pieces : In
        Of the list of row numbers, of this group and following ones, that have been asked for.
    list_goes_on, list_words : Out(1), Out
        There is another piece, and its words.
    """

    def __init__(self) -> None:
        super().__init__({
            "size": In(WORD_BITS), "loads_planes": In(1), "loads_rows": In(1), "row_ends": In(1),
            "row_last": Out(1), "plane_last": Out(1),
            "pieces": In(range(INDEX_PIECES + 1)), "list_goes_on": Out(1), "list_words": Out(range(INDEX_WORDS + 1)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row_bits = exact_log2(INDEX_WORDS)
        m.submodules.left = left = Memory(shape=WORD_BITS + 1, depth=2, init=[], attrs=LUT_RAM)
        write, read = left.write_port(), left.read_port(domain="comb")
        loads, of_rows, moves = Signal(name="loads"), Signal(name="of_rows"), Signal(name="moves")
        # The row's number in its group, the last row's in the last group; no group, or one, follows.
        row, row_end = Signal(row_bits, name="row"), Signal(row_bits, name="row_end")
        group_last, group_next = Signal(name="group_last"), Signal(name="group_next")
        # Of planes 2 less as they are loaded, then 1; of rows 1 and two groups, then a group.
        step = Cat(~(loads ^ of_rows), (loads | ~of_rows).replicate(row_bits - 1), 1, ~(loads & of_rows))
        following = chosen_sum(m, platform, "following", loads, self.size, read.data,
                               Cat(step, Const(-1, signed(WORD_BITS + 1 - len(step)))))
        negative = following[-1]
        m.d.comb += [
            loads.eq(self.loads_planes | self.loads_rows),
            of_rows.eq(self.loads_rows | ~(self.loads_planes | self.row_last)),
            moves.eq(loads | (self.row_ends & (self.row_last | row.all()))),
            read.addr.eq(of_rows), write.addr.eq(of_rows), write.data.eq(following), write.en.eq(moves),
            self.row_last.eq(group_last & (row == row_end)),
            # A piece has the numbers of the group after those whose pieces have been asked for.
            self.list_goes_on.eq((self.pieces == 0) | ~group_last),
            self.list_words.eq(Mux(Mux(self.pieces == 0, group_last, group_next), row_end + 1, INDEX_WORDS)),
        ]
        with m.If(moves):
            with m.If(of_rows):
                m.d.sync += [row_end.eq(following), group_last.eq(negative & ~following[row_bits]),
                             group_next.eq(negative & following[row_bits])]
            with m.Else():
                m.d.sync += self.plane_last.eq(negative)
        with m.If(self.loads_rows):
            m.d.sync += row.eq(0)
        with m.Elif(self.row_ends):
            m.d.sync += row.eq(row + 1)
        return m


class _BodyWords(wiring.Component):
    """Words of a body, a product and 0 in look-up-table RAM, of which three are told each cycle, and what the walk
    needs to know of the body all the time.

    Members
    -------
    i_valid, i : In(1), In(BodyWord)
        A word comes.
    product, keeps_product, product_at : In(address), In(1), In
        To be kept there, in a cycle in which no word comes.
    source_at, destination_at, size_at : In
        Places of what is told.
    source_stride, destination_stride, size : Out(32)
        What lies there.
    columns : Out(32), placement : Out
        These words.
    empty, source_goes_on, destination_goes_on : Out(1)
        A size is zero; rows follow each other on a side, but for its index.
    """

    def __init__(self, parameters: DieParameters):
        place, word = unsigned(index_bits(SECTION)), unsigned(WORD_BITS)
        super().__init__({
            "i_valid": In(1), "i": In(BodyWord),
            "product": In(parameters.address_bits), "keeps_product": In(1), "product_at": In(place),
            "source_at": In(place), "destination_at": In(place), "size_at": In(place),
            "source_stride": Out(word), "destination_stride": Out(word), "size": Out(word),
            "columns": Out(word), "placement": Out(placement_layout()),
            "empty": Out(1), "source_goes_on": Out(1), "destination_goes_on": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        index, word = self.i.index, self.i.word
        m.submodules.kept = words = Memory(shape=WORD_BITS, depth=SECTION, init=[], attrs=LUT_RAM)
        write = words.write_port()
        m.d.comb += [
            write.en.eq((self.i_valid & Cat(index == field for field in range(FIELDS)).any()) | self.keeps_product),
            write.addr.eq(Mux(self.keeps_product, self.product_at, index)),
            write.data.eq(Mux(self.keeps_product, self.product, word)),
        ]
        for at, told in ((self.source_at, self.source_stride), (self.destination_at, self.destination_stride),
                         (self.size_at, self.size)):
            read = words.read_port(domain="comb")
            m.d.comb += [read.addr.eq(at), told.eq(read.data)]
        follows, zero = Signal(name="follows"), Signal(name="zero")
        m.d.comb += [follows.eq(word == self.columns), zero.eq(word == 0)]
        with m.If(self.i_valid), m.Switch(index):
            with m.Case(index_of_field("columns")):
                m.d.sync += [self.columns.eq(word), self.empty.eq(zero)]
            with m.Case(index_of_field("rows"), index_of_field("planes")):
                m.d.sync += self.empty.eq(self.empty | zero)
            with m.Case(index_of_field("source_row_stride")):
                m.d.sync += self.source_goes_on.eq(follows)
            with m.Case(index_of_field("destination_row_stride")):
                m.d.sync += self.destination_goes_on.eq(follows)
            with m.Case(index_of_field("destination_die")):
                m.d.sync += self.placement.eq(word)
        return m


class _Side(wiring.Component):
    """Where the walk is in the source or in the destination.

    Members
    -------
    moves : In(1)
        ``o`` moves,
    turns : In(1)
        to ``stride`` words from a first word on, else as far as the destination to the next packet's first word.
    first : In(First)
        That first word.
    keep : In(First)
        As what the place that ``o`` turns to is kept.
    stride : In(32)
    begin : In
        Low part of the destination's ``o``, in a packet's reach.
    clears : In(1)
        First cycle after reset, with ``moves``, ``keep`` NONE and not ``turns``: ``o`` and that word become 0.
    o : Out(address)
        All ones after reset.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "moves": In(1), "turns": In(1), "first": In(First), "keep": In(First), "stride": In(WORD_BITS),
            "begin": In(exact_log2(packet_words(parameters))), "clears": In(1),
            "o": Out(parameters.address_bits, init=(1 << parameters.address_bits) - 1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.kept = kept = Memory(shape=self.parameters.address_bits, depth=len(First), init=[], attrs=LUT_RAM)
        write, read = kept.write_port(), kept.read_port(domain="comb")
        low = len(self.begin)
        step = Signal(low)

        def place(addend: Value, turns: Value, first: Value, o: Value) -> Value:
            return (first & turns) | (o & ~turns)

        following = table_sum(m, platform, "following", [
            Digits((step, self.turns, read.data[:low], self.o[:low]), place, lambda addend, *_: addend),
            Digits((self.stride[low:len(self.o)], self.turns, read.data[low:], self.o[low:]), place,
                   lambda stride, turns, *_: stride & turns),
        ], carry=~self.turns)
        m.d.comb += [
            # With the carry, that many words are left to the packet's reach.
            step.eq(Mux(self.turns, self.stride[:low], ~self.begin)),
            read.addr.eq(self.first), write.addr.eq(self.keep), write.data.eq(following),
            write.en.eq(self.moves & (self.turns | self.clears)),
        ]
        with m.If(self.moves):
            m.d.sync += self.o.eq(following)
        return m


class _RowNumbers(wiring.Component):
    """Keeps row numbers that have been read.

    Members
    -------
    asked : In(1)
        Pulse: a piece of them is under way.
    pieces : Out
        How many pieces are, or have numbers that were not taken.
    flit : In stream of :func:`tile_flit_layout`
    o : Out stream of row number
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "asked": In(1), "pieces": Out(range(INDEX_PIECES + 1)),
            "flit": In(stream.Signature(tile_flit_layout(parameters))),
            "o": Out(stream.Signature(parameters.word_bits)),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flit_words = self.parameters.flit_words
        shape = data.StructLayout({name: self.flit.payload.shape()[name].shape for name in ("data", "words", "tail")})
        depth = max(2, INDEX_PIECES * INDEX_WORDS // flit_words)
        m.submodules.numbers = numbers = FIFO(shape, depth + 1, Storage.HEAD)
        lane, ends = Signal(index_bits(flit_words), name="lane"), Signal(name="ends")
        head = numbers.o.payload
        m.d.comb += [
            numbers.i.valid.eq(self.flit.valid), self.flit.ready.eq(numbers.i.ready),
            *(numbers.i.payload[name].eq(self.flit.payload[name]) for name in ("data", "words", "tail")),
            self.o.valid.eq(numbers.o.valid), self.o.payload.eq(head.data[lane]),
            ends.eq(lane + 1 == head.words), numbers.o.ready.eq(self.o.ready & ends),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += lane.eq(Mux(ends, 0, lane + 1))
        m.d.sync += self.pieces.eq(self.pieces + self.asked - (self.o.valid & self.o.ready & ends & head.tail))
        return m
