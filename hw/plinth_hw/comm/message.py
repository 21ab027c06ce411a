"""What a reduce block knows of its message, and the schedule that all its parts walk.

A message is cut in chunks; chunk c belongs to member c mod N. Chunks go in macro-rounds of P * N chunks,
P = :func:`chunks_in_flight`. In stage s of a round, member i works on the P chunks of the round whose owner
is (i - 1 - s) mod N:

    stage            member i
    0                sends its own words                                    START
    1 .. N-2         adds its words to what arrives, sends the sum          SUM
    N-1              the same as owner: updates, writes, sends the result   SUM
    N .. 2N-3        writes what arrives and sends it on                    COPY
    2N-2             writes what arrives                                    COPY

An all-reduce goes through all stages, a reduce-scatter ends with stage N-1 and an all-gather begins there
(then START). One :class:`Schedule` walks them ahead of the data and tells each part of the block, through a
queue, the steps that concern it. Source: MPT section VI.C, pipelined ring of chunks.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.arith.carry import Digits, chosen_sum, loaded_sum, table_sum
from plinth_hw.comm.flit import payload_layout
from plinth_hw.isa.limits import field_bits
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.update_bodies import CollectiveBody
from plinth_hw.memory.port import TASK_BITS

#: Bits of ``members`` and ``index`` in the group table.
MEMBER_BITS = field_bits(CollectiveBody, "members")
#: Flits that a stage of a long message has: more than a hop's latency, at most what a hop can buffer.
STAGE_FLITS = 128


def chunk_flits(parameters: DieParameters) -> int:
    """Flits of a full chunk."""
    return parameters.chunk_words // parameters.flit_words


def chunks_in_flight(parameters: DieParameters) -> int:
    """P, the chunks of each owner in a macro-round; a power of two."""
    return max(2, STAGE_FLITS // chunk_flits(parameters))


def count_bits(parameters: DieParameters) -> int:
    """Bits of a chunk's number, the message's last one and those of the round after it."""
    return 33 - exact_log2(parameters.chunk_words)


def message_layout(parameters: DieParameters) -> data.StructLayout:
    """A message as a reduce block holds it while it serves it."""
    beats = unsigned(parameters.address_bits - exact_log2(parameters.beat_words))
    return data.StructLayout({
        #: beat addresses
        "source": beats, "destination": beats,
        #: chunks that have all their words
        "full_chunks": unsigned(count_bits(parameters) - 1),
        #: words of the last chunk minus one
        "last_words": unsigned(exact_log2(parameters.chunk_words)),
        #: ring: number of the last member, and of this one
        "last_member": unsigned(MEMBER_BITS), "index": unsigned(MEMBER_BITS),
        "next_die": unsigned(parameters.die_bits),
        #: names of the message in flits
        "group": unsigned(4), "message": unsigned(8),
        #: of the task, as of requests to memory
        "task": unsigned(TASK_BITS),
        #: learning rate
        "rate": unsigned(32),
        #: no sums: begin with the owners' chunks
        "gather": unsigned(1),
        #: no gather: end with the owners' results; so does a message without other members
        "scatter": unsigned(1),
        #: SGD
        "update": unsigned(1),
        #: the destination already holds this member's chunks
        "in_place": unsigned(1),
    })


def sector_layout(parameters: DieParameters) -> data.StructLayout:
    """Words of one flit within a die."""
    return data.StructLayout({
        "data": payload_layout(parameters),
        #: valid words minus one
        "words": unsigned(max(1, exact_log2(parameters.flit_words))),
        #: last of its chunk
        "tail": unsigned(1),
    })


def step_layout(parameters: DieParameters) -> data.StructLayout:
    """A chunk to work on."""
    return data.StructLayout({
        "chunk": unsigned(count_bits(parameters)),
        #: this member's words begin a chain of sums, or a gather; nothing arrives
        "start": unsigned(1),
        #: this member owns the chunk
        "own": unsigned(1),
        #: somebody's result, which is copied
        "copy": unsigned(1),
        #: a copy that is not sent on
        "final": unsigned(1),
        #: this is the message's last chunk, which may be short
        "short": unsigned(1),
    })


class Schedule(wiring.Component):
    """Chunks in the order of the schedule.

    A step that is taken is followed by the next one in the next cycle, but for one cycle at the end of a stage
    with less than P chunks, and one or two between rounds. From ``start`` to the first step 3 cycles, to that of
    an all-gather 2.

    Members
    -------
    start : In(1)
        Pulse: begin, with ``message`` valid from then until ``idle``.
    message : In, :func:`message_layout`
    o : Out stream of :func:`step_layout`
    idle : Out(1)
        Everything has been taken.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        super().__init__({
            "start": In(1),
            "message": In(message_layout(parameters)),
            "o": Out(stream.Signature(step_layout(parameters))),
            "idle": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        depth, bits = chunks_in_flight(self._parameters), count_bits(self._parameters)
        message, step = self.message, self.o.payload
        # The chunk, its place in the stage, the stage's first chunk, their owner, and whether that is this member.
        chunk, first = Signal(bits, name="chunk"), Signal(bits, name="first")
        place = Signal(range(depth))
        owner, own = Signal(MEMBER_BITS, name="owner"), Signal(name="own")
        # In the round's first stage; results are passed on; the last chunk has been taken.
        opening, passing, finished = Signal(name="opening"), Signal(name="passing"), Signal(name="finished")
        loads, advances, turns = Signal(name="loads"), Signal(name="advances"), Signal(name="turns")
        moves, stage_ends = Signal(name="moves"), Signal(name="stage_ends")
        # The next owner: this member at first, then the one before; the next chunk: the owner's next one, or the next
        # owner's in the same place.
        wraps, next_own = Signal(name="wraps"), Signal(name="next_own")
        distance = Signal(signed(MEMBER_BITS + 1))
        m.d.comb += wraps.eq(owner == 0)
        # The member after this one. If it is the owner at hand, this member is next: known without a wait for the sum.
        after_own = Signal(MEMBER_BITS)
        m.d.sync += after_own.eq(Mux(message.index == message.last_member, 0, message.index + 1))
        before = loaded_sum(m, platform, "before", loads | wraps, Mux(loads, message.index, message.last_member), owner,
                            Const(-1))
        m.d.comb += distance.eq(Mux(loads, message.index, Mux(advances | wraps, message.last_member, -1)))
        following = chosen_sum(m, platform, "following", advances, chunk, first, distance, carry=advances)
        # Chunks behind this one; a last chunk that has all its words is one of those that have.
        left = table_sum(m, platform, "left", [Digits(
            (Cat(message.full_chunks, Const(0, 2)), Cat(chunk, Const(0, 1))), lambda full, at: full,
            lambda full, at: ~at)], ~message.last_words.all()).as_signed()
        m.d.comb += [
            next_own.eq(loads | (owner == after_own)),
            step.chunk.eq(chunk),
            step.short.eq(left == 0),
            step.own.eq(own),
            step.start.eq(opening & (message.gather | ~own)),
            step.copy.eq(passing),
            step.final.eq(passing & next_own),
            stage_ends.eq((left < 0) | (place == depth - 1)),
            turns.eq(stage_ends & Mux(message.scatter, own, step.final)),
        ]
        with m.If(moves):
            m.d.sync += chunk.eq(following)
            with m.If(~advances | turns):
                m.d.sync += first.eq(following)
            with m.If(~advances):
                m.d.sync += [owner.eq(before), own.eq(next_own)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                m.d.sync += [first.eq(0), opening.eq(1), passing.eq(0), finished.eq(0), place.eq(0)]
                with m.If(self.start):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += [moves.eq(1), loads.eq(1)]
                m.next = "SKIP"
                with m.If(message.gather):
                    m.next = "STAGE"
            with m.State("SKIP"):
                m.d.comb += moves.eq(1)
                m.next = "STAGE"
            with m.State("STAGE"):
                # The last stage of a round ends at its owner's first chunk of the next round.
                m.d.comb += [self.o.valid.eq(left >= 0), moves.eq(self.o.ready | (left < 0)),
                             advances.eq(~stage_ends | turns)]
                with m.If(moves):
                    m.d.sync += [place.eq(place + 1), finished.eq(finished | step.short)]
                    with m.If(stage_ends):
                        m.d.sync += [place.eq(0), opening.eq(0), passing.eq(passing | own)]
                    with m.If(turns):
                        m.next = "TURN"
            with m.State("TURN"):
                m.d.comb += moves.eq(1)
                m.d.sync += [opening.eq(1), passing.eq(0)]
                # An all-reduce has ended at the chunk after this member's and begins at the one before.
                m.next = "SKIP"
                with m.If(message.scatter | message.gather):
                    m.next = "STAGE"
                with m.If(finished):
                    m.next = "IDLE"
        return m
