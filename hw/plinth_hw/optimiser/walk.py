"""Requests for the vectors of a task, block by block.

::

    addresses of rows --+--> read requests: a block of each vector in turn
    place in the row ---+--> writes that are due once the block is updated
                        +--> blocks: where their beats lie in the ring of places

A block is up to ``BLOCK_BEATS`` beats of a row. For each there is a turn of five cycles, one a vector; one that is not
used passes. Beats of what is read, in the order of requests, take the places of the ring one after the other; the new
values take the same places of another memory. So places are given here, and are free again when what was to be
written has been read there.
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
from plinth_hw.lib.fifo import FIFO, Storage
from plinth_hw.memory.port import request_layout
from plinth_hw.optimiser.body import VECTORS, index_of_field

#: Beats of a vector in a block, at most; places of the ring.
BLOCK_BEATS, PLACES = 16, 512
#: Bits of the number of a block's beats, and of a place with the parity of its lap.
BEATS_BITS, PLACE_BITS = BLOCK_BEATS.bit_length(), exact_log2(PLACES) + 1


def beat_address_bits(parameters: DieParameters) -> int:
    """Bits of the address of a beat."""
    return parameters.address_bits - exact_log2(parameters.beat_words)


#: A block's beats of a vector lie one behind the other: those of the gradient from the end of the block before on, then
#: those of the state, ...; ``weights``: where those of the weights begin; ``end``: where the next block does.
BLOCK = data.StructLayout({"beats": BEATS_BITS, "row_last": 1, "weights": PLACE_BITS, "end": PLACE_BITS})


def write_layout(parameters: DieParameters) -> data.StructLayout:
    """A block of a vector that is to be written: ``first`` of its block; ``row_last``: it ends a row."""
    return data.StructLayout({"address": unsigned(beat_address_bits(parameters)), "beats": BEATS_BITS,
                              "first": 1, "row_last": 1})


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
        First place, with its lap, that is not free.
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
            "free": In(PLACE_BITS), "full": Out(1),
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
        active, step, takes, room = (Signal(name=name) for name in ("active", "step", "takes", "room"))
        row_last, beats = Signal(name="row_last"), Signal(BEATS_BITS, name="beats")
        head, weights, first = Signal(PLACE_BITS, name="head"), Signal(PLACE_BITS), Signal()
        address, places = Signal(bits, name="address"), Signal(PLACE_BITS, name="places")
        ends = Signal()
        # No path leads from who takes requests to the walk.
        m.submodules.requests = requests = FIFO(self.request.payload.shape(), 2, Storage.HEAD)
        wiring.connect(m, requests.o, wiring.flipped(self.request))
        is_gradient, is_last = turn[0], turn[-1]
        m.d.comb += [
            row_last.eq(more < BLOCK_BEATS), beats.eq(Mux(row_last, more[:BEATS_BITS - 1], BLOCK_BEATS - 1) + 1),
            takes.eq((turn & self.used).any()), address.eq(rows[0] + before),
            places.eq(head + Mux(takes, beats, 0)), self.done.eq(~active),
            step.eq(active & (~takes | (room & requests.i.ready & (is_gradient | self.write.ready)))
                    & (~is_last | self.block.ready)),
            self.full.eq(active & ((takes & (~room | ~self.write.ready)) | ~self.block.ready)),
            requests.i.valid.eq(step & takes), requests.i.payload.address.eq(address),
            requests.i.payload.beats.eq(beats), requests.i.payload.task.eq(self.task),
            self.write.valid.eq(step & takes & ~is_gradient),
            self.write.payload.address.eq(address), self.write.payload.beats.eq(beats),
            self.write.payload.first.eq(first), self.write.payload.row_last.eq(row_last),
            self.block.valid.eq(step & is_last),
            self.block.payload.beats.eq(beats), self.block.payload.row_last.eq(row_last),
            self.block.payload.weights.eq(weights), self.block.payload.end.eq(places),
            ends.eq(row_last & (rows_left == 1)),
        ]
        # As it was a cycle ago: a block of a vector may have been taken since.
        m.d.sync += room.eq((head - self.free)[:PLACE_BITS] < PLACES - 2 * BLOCK_BEATS)
        loads = self.field_valid & Cat(self.field.index == index_of_field(name) for name in VECTORS).any()
        with m.If(step):
            m.d.sync += [turn.eq(turn.rotate_left(1)), head.eq(places)]
            with m.If(takes):
                m.d.sync += first.eq(is_gradient)
            with m.If(turn[VECTORS.index("weights")]):
                m.d.sync += weights.eq(head)
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
