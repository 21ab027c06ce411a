"""Requests for the vectors of a task, block by block.

::

    addresses of rows --+--> read requests: a block of each vector in turn
    place in the row ---+--> writes that are due once the block is updated
                        +--> blocks

A block is up to ``BLOCK_BEATS`` beats of a row. For each there is a turn of five cycles, one a vector; one that is not
used passes. Each vector has a ring of places, of which the beats of the gradient take one after the other, and those of
all others, and their new values, the same. So places are counted here, and are free again when what was to be written
has been read there.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import loaded_sum
from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import index_of
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.memory.port import request_layout
from plinth_hw.optimiser.body import VECTORS, index_of_field

#: Beats of a vector in a block, at most; places of a vector.
BLOCK_BEATS, PLACES = 16, 128
#: Bits of the number of a block's beats, and of a place.
BEATS_BITS, PLACE_BITS = BLOCK_BEATS.bit_length(), exact_log2(PLACES)
#: Vectors that are written, as new values are numbered.
WRITTEN = VECTORS[1:]


def beat_address_bits(parameters: DieParameters) -> int:
    """Bits of the address of a beat."""
    return parameters.address_bits - exact_log2(parameters.beat_words)


#: ``more``: beats after the first one; ``row_last``: the block ends a row.
BLOCK = data.StructLayout({"more": exact_log2(BLOCK_BEATS), "row_last": 1})


def write_layout(parameters: DieParameters) -> data.StructLayout:
    """A block of one of the ``WRITTEN``: ``first`` of its block that is written; ``row_last``: it ends a row."""
    return data.StructLayout({"address": unsigned(beat_address_bits(parameters)), "beats": BEATS_BITS,
                              "vector": range(len(WRITTEN)), "first": 1, "row_last": 1})


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
    start : In(1)
        Pulse.
    done : Out(1)
        No task, or all has been given.
    task : In
        As of requests.
    request : Out stream of requests
        Reads.
    write : Out stream of :func:`write_layout`
    block : Out stream of ``BLOCK``
    free : In
        First place that is not free, with the parity of its lap.
    full : Out(1)
        Requests wait for places, or for earlier blocks.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        super().__init__({
            "field_valid": In(1), "field": In(BodyWord), "used": In(len(VECTORS)), "start": In(1), "done": Out(1),
            "task": In(request_layout(parameters)["task"].shape),
            "request": Out(stream.Signature(request_layout(parameters))),
            "write": Out(stream.Signature(write_layout(parameters))), "block": Out(stream.Signature(BLOCK)),
            "free": In(PLACE_BITS + 1), "full": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        lane_bits, bits = exact_log2(self.parameters.beat_words), beat_address_bits(self.parameters)
        count = len(VECTORS)
        # The vectors' rows take turns at the head of a ring of registers.
        rows = [Signal(bits, name=f"row_{name}") for name in VECTORS]
        stride, state_stride = Signal(bits, name="stride"), Signal(bits, name="state_stride")
        # Beats after the first of a row, and of what is left of it; rows left; beats before the block.
        row_more, more, before = (Signal(bits, name=name) for name in ("row_more", "more", "before"))
        rows_left = Signal(32)
        turn = Signal(count, init=1)
        active, step, takes, room, waits = (Signal(name=name) for name in ("active", "step", "takes", "room", "waits"))
        row_last, beats = Signal(name="row_last"), Signal(BEATS_BITS, name="beats")
        head, first = Signal(PLACE_BITS + 1, name="head"), Signal()
        address = Signal(bits, name="address")
        ends = Signal()
        # No path leads from who takes requests to the walk.
        m.submodules.requests = requests = FIFO(self.request.payload.shape(), 2, Storage.HEAD)
        wiring.connect(m, requests.o, wiring.flipped(self.request))
        is_gradient, is_last = turn[0], turn[-1]
        m.d.comb += [
            row_last.eq(more < BLOCK_BEATS), beats.eq(self.block.payload.more + 1),
            takes.eq((turn & self.used).any()), address.eq(rows[0] + before),
            self.done.eq(~active), waits.eq(Mux(is_gradient, ~room | ~self.block.ready, ~self.write.ready)),
            step.eq(active & (~takes | (requests.i.ready & ~waits))), self.full.eq(active & takes & waits),
            requests.i.valid.eq(step & takes), requests.i.payload.address.eq(address),
            requests.i.payload.beats.eq(beats), requests.i.payload.task.eq(self.task),
            self.write.valid.eq(step & takes & ~is_gradient),
            self.write.payload.address.eq(address), self.write.payload.beats.eq(beats),
            self.write.payload.first.eq(first), self.write.payload.row_last.eq(row_last),
            self.write.payload.vector.eq(index_of(turn[1:])),
            # A block is told with its gradient's request, before any of its beats comes.
            self.block.valid.eq(active & is_gradient & room & requests.i.ready),
            self.block.payload.more.eq(Mux(row_last, more[:len(self.block.payload.more)], BLOCK_BEATS - 1)),
            self.block.payload.row_last.eq(row_last),
            ends.eq(row_last & (rows_left == 1)),
        ]
        # A block takes cycles enough for what is held to be that of a cycle ago.
        held = Signal(PLACE_BITS + 1)
        m.d.comb += held.eq(head - self.free)
        m.d.sync += room.eq(held < PLACES - BLOCK_BEATS)
        loads = self.field_valid & Cat(self.field.index == index_of_field(name) for name in VECTORS).any()
        with m.If(step):
            m.d.sync += turn.eq(turn.rotate_left(1))
            with m.If(takes):
                m.d.sync += first.eq(is_gradient)
            with m.If(is_gradient):
                m.d.sync += head.eq(head + beats)
            with m.If(is_last):
                m.d.sync += [before.eq(Mux(row_last, 0, before + BLOCK_BEATS)), active.eq(~ends)]
        with m.If(loads | step):
            strided = Mux(is_gradient | turn[VECTORS.index("weights")], stride, state_stride)
            m.d.sync += [row.eq(after) for row, after in zip(
                rows, [*rows[1:], Mux(loads, self.field.word[lane_bits:], rows[0] + Mux(row_last, strided, 0))],
                strict=True)]
        with m.If(self.field_valid), m.Switch(self.field.index):
            for name, register, value in (
                    ("columns", row_more, (self.field.word - 1)[lane_bits:WORD_BITS]),
                    ("stride", stride, self.field.word[lane_bits:]),
                    ("state_stride", state_stride, self.field.word[lane_bits:])):
                with m.Case(index_of_field(name)):
                    m.d.sync += register.eq(value)
        with m.If(self.start):
            m.d.sync += [active.eq(1), before.eq(0)]
        block_ends, sets_rows = Signal(), self.field_valid & (self.field.index == index_of_field("rows"))
        m.d.comb += block_ends.eq(step & is_last)
        with m.If(self.start | block_ends):
            m.d.sync += more.eq(loaded_sum(m, platform, "more_left", self.start | row_last, row_more, more,
                                           Const(-BLOCK_BEATS, len(more))))
        with m.If(sets_rows | (block_ends & row_last)):
            m.d.sync += rows_left.eq(loaded_sum(m, platform, "fewer_rows", sets_rows, self.field.word, rows_left,
                                                Const(-1, len(rows_left))))
        return m
