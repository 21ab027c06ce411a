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
(then START). Every part of a block walks the stages that concern it with a :class:`Schedule` of its own, so
all know what comes next and nothing is looked up. Source: MPT section VI.C, pipelined ring of chunks.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.parameters import DieParameters

#: Bits of ``members`` and ``index`` in the group table.
MEMBER_BITS = 10
#: Bits of a stage number: up to 2N - 2.
STAGE_BITS = MEMBER_BITS + 1
#: Flits that a stage of a long message has: more than a hop's latency, at most what a hop can buffer.
STAGE_FLITS = 128


def log2(value: int) -> int:
    """Binary logarithm of a power of two."""
    return value.bit_length() - 1


def chunk_flits(parameters: DieParameters) -> int:
    """Flits of a full chunk."""
    return parameters.chunk_words // parameters.flit_words


def chunks_in_flight(parameters: DieParameters) -> int:
    """P, the chunks of each owner in a macro-round; a power of two."""
    return max(2, STAGE_FLITS // chunk_flits(parameters))


def count_bits(parameters: DieParameters) -> int:
    """Bits of the number of chunks in a message, and of a chunk's number."""
    return 33 - log2(parameters.chunk_words)


def message_layout(parameters: DieParameters) -> data.StructLayout:
    """A message as a reduce block holds it while it serves it."""
    beats = unsigned(parameters.address_bits - log2(parameters.beat_words))
    return data.StructLayout({
        #: beat addresses
        "source": beats, "destination": beats,
        #: number of chunks
        "chunks": unsigned(count_bits(parameters)),
        #: words of the last chunk minus one
        "last_words": unsigned(max(1, log2(parameters.chunk_words))),
        #: ring
        "members": unsigned(MEMBER_BITS), "index": unsigned(MEMBER_BITS),
        "next_die": unsigned(parameters.die_bits),
        #: names of the message in flits
        "group": unsigned(4), "message": unsigned(8),
        #: learning rate
        "rate": unsigned(32),
        #: no sums: begin with the owners' chunks
        "gather": unsigned(1),
        #: no gather: end with the owners' results
        "scatter": unsigned(1),
        #: SGD
        "update": unsigned(1),
        #: the destination already holds this member's chunks
        "in_place": unsigned(1),
    })


def piece_layout(parameters: DieParameters) -> data.StructLayout:
    """Words of one flit within a die."""
    return data.StructLayout({
        "data": data.ArrayLayout(unsigned(32), parameters.flit_words),
        #: valid words minus one
        "words": unsigned(max(1, log2(parameters.flit_words))),
        #: last of its chunk
        "tail": unsigned(1),
    })


def step_layout(parameters: DieParameters) -> data.StructLayout:
    """A chunk to work on."""
    return data.StructLayout({
        "chunk": unsigned(count_bits(parameters)),
        #: stages since the first of the round
        "stage": unsigned(STAGE_BITS),
        #: this is the first, the last stage of the round
        "first": unsigned(1), "final": unsigned(1),
        #: this is the message's last chunk, which may be short
        "short": unsigned(1),
    })


class Schedule(wiring.Component):
    """Chunks in the order of the schedule.

    A step that is taken is followed by the next one in the next cycle, but for a cycle for each stage
    without chunks at the end of a message.

    Members
    -------
    start : In(1)
        Pulse: begin, with ``chunks`` .. ``stages`` valid from then until ``idle``.
    chunks, members : In
        Of the message.
    owner : In
        Owner of the first stage's chunks; it goes down by one a stage.
    stages : In
        Stages of a round that are walked, 0 for none.
    o : Out stream of :func:`step_layout`
    idle : Out(1)
        Everything has been taken.
    """

    def __init__(self, parameters: DieParameters):
        self._parameters = parameters
        super().__init__({
            "start": In(1),
            "chunks": In(count_bits(parameters)),
            "members": In(MEMBER_BITS),
            "owner": In(MEMBER_BITS),
            "stages": In(STAGE_BITS),
            "o": Out(stream.Signature(step_layout(parameters))),
            "idle": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        depth = chunks_in_flight(self._parameters)
        bits = count_bits(self._parameters)
        step = self.o.payload
        chunk, stage = Signal(bits), Signal(STAGE_BITS)
        active = Signal()
        place = Signal(range(depth))
        owner = Signal(MEMBER_BITS)
        # First chunk of the round, and the one after the round.
        base, beyond = Signal(bits), Signal(bits + 1)
        following = Signal(bits + 1)
        present, more, finished = Signal(), Signal(), Signal()
        next_owner, next_base = Signal(MEMBER_BITS), Signal(bits)
        m.d.comb += [
            step.chunk.eq(chunk),
            step.stage.eq(stage),
            present.eq(chunk < self.chunks),
            following.eq(chunk + self.members),
            more.eq((place != depth - 1) & (following < self.chunks)),
            beyond.eq(base + (self.members << log2(depth))),
            finished.eq(step.final & (beyond >= self.chunks)),
            step.first.eq(stage == 0),
            step.final.eq(stage + 1 == self.stages),
            step.short.eq(chunk + 1 == self.chunks),
            self.o.valid.eq(active & present),
            self.idle.eq(~active),
            next_base.eq(Mux(step.final, beyond, base)),
            next_owner.eq(Mux(step.final, self.owner, Mux(owner == 0, self.members, owner) - 1)),
        ]
        with m.If(self.start):
            m.d.sync += [active.eq(self.stages != 0), place.eq(0), owner.eq(self.owner), base.eq(0),
                         chunk.eq(self.owner), stage.eq(0)]
        with m.Elif(active & (self.o.ready | ~present)):
            with m.If(more & present):
                m.d.sync += [chunk.eq(following), place.eq(place + 1)]
            with m.Else():
                m.d.sync += [
                    active.eq(~finished), place.eq(0), owner.eq(next_owner), base.eq(next_base),
                    chunk.eq(next_base + next_owner),
                    stage.eq(Mux(step.final, 0, stage + 1)),
                ]
        return m
