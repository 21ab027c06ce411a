"""Walks the places of windows or tiles: where each lies, and whether it lies in the map.

::

    block (address of its first place) --> line --> place --> address, inside
    tile ends, row of tiles ends --------> y, x --> y + i, x + j < rows, columns

A block is ``down`` x ``across`` places, each a run of words at its own address; the blocks of a tile follow each
other, and tiles go across, then down. On the side that is read a place outside the map is zeros, on the side that is
written it is left out. There a block's places may go to several dies, one after the other: those of each follow each
other from the block's first place on.

Throughput: a place a cycle. Latency: block to its first place 1 cycle.
"""

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.limits import field_bits
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.transfer_bodies import TransformBody
from plinth_hw.shapes import shape_of

#: Bits of places in a map.
MAP_BITS = field_bits(TransformBody, "source_rows")


def lattice_layout(parameters: DieParameters) -> data.StructLayout:
    """Where windows or tiles lie, as :class:`~plinth_hw.isa.winograd.Lattice` says of either side.

    ``down``, ``across``: words from a place to the one below, to the right; ``row``, ``column``: where the first
    window begins; ``row_step``, ``column_step``: from a window to the next; ``rows``, ``columns``: of the map.
    """
    words, step = unsigned(parameters.address_bits), unsigned(field_bits(TransformBody, "source_row_step"))
    return data.StructLayout({
        "down": words, "across": words, "row": signed(MAP_BITS), "column": signed(MAP_BITS),
        "row_step": step, "column_step": step, "rows": unsigned(MAP_BITS), "columns": unsigned(MAP_BITS)})


def members_layout(parameters: DieParameters) -> data.StructLayout:
    """``several``: there is more than one; ``die``: the first one's number; ``step``: from one's to the next;
    ``places`` of each, one less, and of the first ``longer`` of them one more."""
    shapes = shape_of(TransformBody)
    count = shapes["member_places"].shape
    return data.StructLayout({
        "several": unsigned(1), "die": unsigned(parameters.die_bits), "step": unsigned(parameters.die_bits),
        "places": count, "longer": shapes["longer_members"].shape})


def block_layout(parameters: DieParameters) -> data.StructLayout:
    """``address`` of the first word of a block's first place; ``words`` of each place, at most a beat's; ``ends_tile``,
    ``ends_row``: the next block is another tile's, in another row of tiles."""
    return data.StructLayout({
        "address": unsigned(parameters.address_bits), "words": unsigned(parameters.beat_words.bit_length()),
        "ends_tile": unsigned(1), "ends_row": unsigned(1)})


def place_layout(parameters: DieParameters) -> data.StructLayout:
    """``address`` and ``words`` of a place; whether it lies ``inside`` the map; ``last`` of its block; the ``die`` that
    it goes to, if blocks go to several."""
    return data.StructLayout({
        "address": unsigned(parameters.address_bits), "words": unsigned(parameters.beat_words.bit_length()),
        "inside": unsigned(1), "last": unsigned(1), "die": unsigned(parameters.die_bits)})


class PlaceWalk(wiring.Component):
    """Walks places.

    Parameters
    ----------
    parameters : DieParameters
    places : int
        Of a block, each way, at most.
    spreads : bool
        Its blocks may go to several dies.

    Members
    -------
    start : In(1)
        Pulse, before the first block: the walk begins with the first window.
    lattice : In, :func:`lattice_layout`
    members : In, :func:`members_layout`
        Of a walk that spreads; stable as the lattice.
    last_down, last_across : In
        Places of a block, one less; stable from ``start`` on, as the lattice.
    block : In stream of :func:`block_layout`
    o : Out stream of :func:`place_layout`
    """

    def __init__(self, parameters: DieParameters, places: int, *, spreads: bool = False):
        self._spreads = spreads
        super().__init__({
            **({"members": In(members_layout(parameters))} if spreads else {}),
            "start": In(1), "lattice": In(lattice_layout(parameters)),
            "last_down": In(range(places)), "last_across": In(range(places)),
            "block": In(stream.Signature(block_layout(parameters))),
            "o": Out(stream.Signature(place_layout(parameters))),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lattice, block, place = self.lattice, self.block.payload, self.o.payload
        line = Signal.like(block.address, name="line")
        # Of the window, and of the place; what is negative is as large as a map is not. Beyond all maps windows go no
        # farther.
        row, column = (Signal(signed(MAP_BITS + 2), name=name) for name in ("row", "column"))
        y, x, left = Signal.like(row, name="y"), Signal.like(column, name="x"), Signal.like(column, name="left")
        down, across = Signal.like(self.last_down, name="down"), Signal.like(self.last_across, name="across")
        line_ends, takes, steps = Signal(name="line_ends"), Signal(name="takes"), Signal(name="steps")
        following = Signal.like(line, name="following")
        m.d.comb += [
            line_ends.eq(across == self.last_across), place.last.eq(line_ends & (down == self.last_down)),
            steps.eq(self.o.valid & self.o.ready), self.block.ready.eq(~self.o.valid | (steps & place.last)),
            takes.eq(self.block.valid & self.block.ready),
            place.inside.eq((y.as_unsigned() < lattice.rows) & (x.as_unsigned() < lattice.columns)),
        ]
        following_line = Mux(line_ends, line + lattice.down, place.address + lattice.across)
        m.d.comb += following.eq(self._spread(m, takes, steps, following_line) if self._spreads else following_line)
        with m.If(takes):
            m.d.sync += [
                self.o.valid.eq(1), place.words.eq(block.words), place.address.eq(block.address),
                line.eq(block.address), down.eq(0), across.eq(0), y.eq(row), x.eq(column), left.eq(column),
            ]
            with m.If(block.ends_tile):
                m.d.sync += column.eq(Mux(block.ends_row, lattice.column, column + Mux(
                    column >= 1 << MAP_BITS, 0, lattice.column_step)))
            with m.If(block.ends_row):
                m.d.sync += row.eq(row + Mux(row >= 1 << MAP_BITS, 0, lattice.row_step))
        with m.Elif(steps):
            m.d.sync += [self.o.valid.eq(~place.last), place.address.eq(following), across.eq(across + 1), x.eq(x + 1)]
            with m.If(line_ends):
                m.d.sync += [line.eq(following), down.eq(down + 1), y.eq(y + 1), across.eq(0), x.eq(left)]
        with m.If(self.start):
            m.d.sync += [row.eq(lattice.row), column.eq(lattice.column)]
        return m

    def _spread(self, m: Module, takes: Value, steps: Value, following_line: Value) -> Value:
        """Where the next place lies if blocks go to several dies: from a member's last one, at the block's first."""
        members, place = self.members, self.o.payload
        base = Signal.like(place.address, name="base")
        # Places that are left of the member, one less, and members that have one more.
        left, longer = Signal.like(members.places, name="left_places"), Signal.like(members.longer, name="longer")
        ends, is_longer, before = Signal(name="member_ends"), Signal(name="longer_begins"), Signal.like(longer)
        m.d.comb += [ends.eq(left == 0), before.eq(Mux(takes, members.longer, longer)), is_longer.eq(before != 0)]
        with m.If(takes):
            m.d.sync += [base.eq(self.block.payload.address), place.die.eq(members.die)]
        with m.Elif(steps & ends):
            m.d.sync += place.die.eq(place.die + members.step)
        with m.If(takes | (steps & ends)):
            m.d.sync += [left.eq(members.places + is_longer), longer.eq(before - is_longer)]
        with m.Elif(steps):
            m.d.sync += left.eq(left - 1)
        return Mux(members.several, Mux(ends, base, place.address + self.lattice.across), following_line)
