"""Requests for the vectors of a task, block by block.

::

    fields --> values of the task: addresses, what is left, strides --+--> requests: a block of each vector in turn
                    ^                                                 +--> writes that are due once it is updated
                    +------------- one sum a cycle <------------------+--> blocks

A block is up to ``BLOCK_BEATS`` beats of a row. For each there is a cycle for each vector, used or not, one for what is
left of the row, and, when that ends, one for the rows: in each, a value of the task becomes the next one. A cycle
before the first block, and after the last one, is for the generator of random bits, which is read and written as a
vector of a beat.

Each vector has a ring of places, of which the beats of the gradient take one after the other, and those of all others,
and their new values, the same. So places are counted here, and are free again when what was to be written has been
read there.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import chosen_sum, stepped_sum
from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import index_of, one_of
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.lib.ram import LUT_RAM, SECTION
from plinth_hw.memory.port import request_layout
from plinth_hw.optimiser.body import FIELDS, VECTORS, index_of_field

#: Beats of a vector in a block, at most; places of a vector.
BLOCK_BEATS, PLACES = 16, 128
#: Bits of the number of a block's beats, and of a place.
BEATS_BITS, PLACE_BITS = BLOCK_BEATS.bit_length(), exact_log2(PLACES)
#: Vectors that are written, as new values are numbered; blocks of them that wait until they may be, at most.
WRITTEN, WRITES = VECTORS[1:], 32

_BLOCK_LOG2 = exact_log2(BLOCK_BEATS)
#: Where values are, as fields; what is left of a row lies behind them.
_ADDRESSES = tuple(index_of_field(name) for name in VECTORS)
_COLUMNS, _ROWS, _GENERATOR = (index_of_field(name) for name in ("columns", "rows", "generator"))
_LEFT = SECTION - 1
assert _LEFT >= FIELDS


def beat_address_bits(parameters: DieParameters) -> int:
    """Bits of the address of a beat."""
    return parameters.address_bits - exact_log2(parameters.beat_words)


#: ``more``: beats after the first one; ``row_last``: the block ends a row.
BLOCK = data.StructLayout({"more": exact_log2(BLOCK_BEATS), "row_last": 1})


def write_layout(parameters: DieParameters) -> data.StructLayout:
    """A block of one of the ``WRITTEN``: ``first`` of its block that is written; ``row_last``: it ends a row. Or the
    ``generator``'s state, when all words of the blocks before are updated."""
    return data.StructLayout({"address": unsigned(beat_address_bits(parameters)), "beats": BEATS_BITS,
                              "vector": range(len(WRITTEN)), "first": 1, "row_last": 1, "generator": 1})


class BlockWalk(wiring.Component):
    """Walks over the blocks of a task.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    field_valid, field : In(1), In(BodyWord)
        Words of the body, addresses in place of pointers, in order; all of them before ``start``.
    used : In
        Vectors that the task has, in the order of ``VECTORS``; constant from ``start`` on.
    generator : In(1)
        The generator's state is read first and written last; constant from ``start`` on.
    end_lane : Out
        Lane of the last word of a row, once the fields have been told.
    start : In(1)
        Pulse.
    done : Out(1)
        No task, or all has been given.
    task : In
        As of requests.
    request : Out stream of requests
        Reads.
    write : Out stream of :func:`write_layout`
        It waits in :data:`WRITES` places, so ``ready`` is not looked at.
    block : Out stream of ``BLOCK``
    taken : In(1)
        Pulse: of ``write`` one has been taken from where it waits.
    free : In
        First place that is not free, with the parity of its lap.
    full : Out(1)
        Requests wait for places, or for earlier blocks.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        super().__init__({
            "field_valid": In(1), "field": In(BodyWord), "used": In(len(VECTORS)), "generator": In(1),
            "start": In(1), "done": Out(1), "end_lane": Out(exact_log2(parameters.beat_words)),
            "task": In(request_layout(parameters)["task"].shape),
            "request": Out(stream.Signature(request_layout(parameters))),
            "write": Out(stream.Signature(write_layout(parameters))), "block": Out(stream.Signature(BLOCK)),
            "taken": In(1), "free": In(PLACE_BITS + 1), "full": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        lane_bits = exact_log2(self.parameters.beat_words)
        # Turns: a vector each, what is left of the row, rows, the generator.
        turn = Signal(len(VECTORS) + 3, init=1)
        vectors, (is_row, is_rows, is_generator) = turn[:len(VECTORS)], turn[len(VECTORS):]
        is_gradient, ending = turn[0], Signal(name="ending")
        active, step, may = (Signal(name=name) for name in ("active", "step", "may"))
        # What a turn does is known when it comes: whether it needs room, makes a request, is told to who writes.
        fills, asks, writes = (Signal(name=name) for name in ("fills", "asks", "writes"))
        row_first, row_last = Signal(name="row_first"), Signal(name="row_last")
        # Words of a row's last block, less one; flags: a row is one block, the row is the last one.
        row_end, one_block, last_row = Signal(_BLOCK_LOG2 + lane_bits), Signal(), Signal()
        total, value = self._values(m, platform, turn, active, step, row_first, row_last)
        address = value[lane_bits:self.parameters.address_bits]
        negative = total[-1]
        with m.If(self.field_valid):
            with m.If(self.field.index == _COLUMNS):
                m.d.sync += [row_end.eq(total), one_block.eq(negative), row_last.eq(negative), row_first.eq(1)]
            with m.If(self.field.index == _ROWS):
                m.d.sync += last_row.eq(negative)
        m.d.comb += self.end_lane.eq(row_end)

        # No path leads from who takes requests to the walk.
        m.submodules.requests = requests = FIFO(self.request.payload.shape(), 2, Storage.HEAD)
        wiring.connect(m, requests.o, wiring.flipped(self.request))
        head, room, first = Signal(PLACE_BITS + 1, name="head"), Signal(name="room"), Signal(name="first")
        more, beats = self.block.payload.more, requests.i.payload.beats
        m.d.comb += [
            self.done.eq(~active), may.eq(active & (room | ~fills)), step.eq(may & (requests.i.ready | ~asks)),
            self.full.eq(active & fills & ~room), more.eq(Mux(row_last, row_end[lane_bits:], BLOCK_BEATS - 1)),
            # A block is told with its gradient's request, before any of its beats comes.
            self.block.valid.eq(step & is_gradient), self.block.payload.row_last.eq(row_last),
            requests.i.valid.eq(may & asks), beats.eq(Mux(is_generator, 0, more) + 1),
            requests.i.payload.address.eq(address), requests.i.payload.task.eq(self.task),
            self.write.valid.eq(step & writes),
            self.write.payload.address.eq(address), self.write.payload.beats.eq(beats),
            self.write.payload.vector.eq(index_of(vectors[1:])), self.write.payload.first.eq(first),
            self.write.payload.row_last.eq(row_last), self.write.payload.generator.eq(is_generator),
        ]
        # A block takes cycles enough for what is held to be that of a cycle ago. It needs places for its beats, one for
        # itself, and some for its writes: of those there are so many more than it needs, or less than none.
        held, spare = Signal(PLACE_BITS + 1), Signal(signed(exact_log2(WRITES) + 1), init=WRITES - len(WRITTEN))
        m.d.comb += held.eq(head - self.free)
        m.d.sync += [
            spare.eq(stepped_sum(m, platform, "spare", spare, self.taken, self.write.valid)),
            room.eq((held < PLACES - BLOCK_BEATS) & self.block.ready & ~spare[-1]),
        ]
        used = Signal(len(VECTORS), name="used")
        m.d.sync += used.eq(self.used)
        begins, vector_follows = Signal(name="begins"), Signal(name="vector_follows")
        ends_row, ends = is_row & row_last, is_rows & last_row
        generator_follows = ends & self.generator
        m.d.comb += [
            begins.eq((is_row & ~row_last) | (is_rows & ~(last_row & self.generator)) | is_generator),
            vector_follows.eq((vectors[:-1] & used[1:]).any()),
        ]
        with m.If(step):
            with m.If(asks):
                m.d.sync += first.eq(is_gradient)
            with m.If(is_gradient):
                m.d.sync += head.eq(head + beats)
            with m.If(is_row):
                m.d.sync += [row_first.eq(row_last), row_last.eq(Mux(row_last, one_block, negative))]
            with m.If(is_rows):
                m.d.sync += [ending.eq(last_row), last_row.eq(negative)]
            m.d.sync += [
                turn.eq(Cat(begins, vectors, ends_row, generator_follows)), fills.eq(begins | generator_follows),
                asks.eq(begins | vector_follows), writes.eq(generator_follows | vector_follows),
            ]
            with m.If((ends & ~self.generator) | (is_generator & ending)):
                m.d.sync += active.eq(0)
        with m.If(~active):
            first_turn = Cat(~self.generator, Const(0, len(turn) - 2), self.generator)
            m.d.sync += [turn.eq(first_turn), fills.eq(1), asks.eq(1), writes.eq(0), ending.eq(0)]
        with m.If(self.start):
            m.d.sync += active.eq(1)
        return m

    def _values(self, m: Module, platform: Any, turn: Value, active: Value, step: Value, row_first: Value,
                row_last: Value) -> tuple[Value, Value]:
        """The value of a turn and the next one, with its sign; or, while fields come, what becomes of the field.

        Addresses of vectors are those of the block; a stride is held less what the blocks of a row have added before.
        Of a row is held how many words there are behind the block, less one; of rows, how many there are behind the
        row, less one. So what is last has a negative number.
        """
        m.submodules.values = values = Memory(shape=WORD_BITS, depth=SECTION, init=[], attrs=LUT_RAM)
        put, get, get_added = values.write_port(), values.read_port(domain="comb"), values.read_port(domain="comb")
        vectors, (is_row, is_rows, is_generator) = turn[:len(VECTORS)], turn[len(VECTORS):]
        # Where the stride lies that is of the turn's vector; while fields come, what they need. A register, for speed.
        strides_at = [index_of_field("stride" if name in ("gradient", "weights") else "state_stride")
                      for name in VECTORS]
        added_at = Signal(range(SECTION), init=_COLUMNS)
        with m.If(step):
            m.d.sync += added_at.eq(Mux(vectors[:-1].any(), one_of(vectors[:-1], strides_at[1:]), strides_at[0]))
        with m.If(~active):
            m.d.sync += added_at.eq(Mux(self.field_valid, _COLUMNS, strides_at[0]))
        columns, rows, strides = (Signal(name=f"is_{name}") for name in ("columns", "rows", "stride"))
        told = {name: ~active & (self.field.index == index_of_field(name))
                for name in ("columns", "rows", "stride", "state_stride")}
        ends, goes, negative = Signal(name="ends"), Signal(name="goes"), Signal(name="negative")
        m.d.comb += [
            columns.eq(told["columns"]), rows.eq(told["rows"]), strides.eq(told["stride"] | told["state_stride"]),
            ends.eq(active & vectors.any() & row_last), goes.eq(active & vectors.any() & ~row_last),
            negative.eq(columns | rows | (active & (is_row | is_rows))),
            get.addr.eq(one_of(Cat(vectors, is_row & row_first, is_row & ~row_first, is_rows, is_generator),
                               (*_ADDRESSES, _COLUMNS, _LEFT, _ROWS, _GENERATOR))),
            get_added.addr.eq(added_at),
        ]
        # Lane and beat of a block, and blocks.
        low, word = _BLOCK_LOG2 + exact_log2(self.parameters.beat_words), get_added.data
        added = Signal(WORD_BITS + 1)
        m.d.comb += added.eq(Cat(
            (word[0] & ends) | columns | (active & is_rows),
            *((digit & ends) | columns | rows | (active & is_rows) for digit in word[1:low]),
            ((word[low] ^ strides) & (ends | strides)) | (negative & ~columns) | goes,
            *(((digit ^ strides) & (ends | strides)) | negative for digit in word[low + 1:]), negative))
        total = chosen_sum(m, platform, "next_value", ~active, Cat(self.field.word, Const(0, 1)),
                           Cat(get.data, Const(0, 1)), added)
        m.d.comb += [
            put.en.eq(self.field_valid | (step & ~is_generator)), put.data.eq(total),
            put.addr.eq(Mux(active, one_of(turn, (*_ADDRESSES, _LEFT, _ROWS, _GENERATOR)), self.field.index)),
        ]
        return total, get.data
