"""Beats become words, words are updated, new words become beats.

::

    beats read --> old beats --> register a vector --> lane by lane --> UpdatePipeline --> shift register a vector --+
                   (places)                                                               (places) new beats <------+

Time is cut into *periods* of ``max(beat_words, 8)`` cycles. In each period a beat of every vector may begin, and from
there on all that happens to it happens after a fixed number of cycles, so that memories are read and written by one
vector at a time and nothing ever waits. An entry a period, handed on from period to period, says where the beats lie.
A beat begins once all its vectors have been read.

Throughput: a word a cycle, for beats of 8 words or more. Latency: from the period's begin to its first new weight
``WEIGHT_OUT`` cycles, plus ``beat_words`` until the beat is in its place.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.isa.parameters import DieParameters
from plinth_hw.lib.choice import one_of, one_registered
from plinth_hw.lib.delay import delayed
from plinth_hw.lib.fifo import FIFO
from plinth_hw.lib.ram import UNCHECKED
from plinth_hw.memory.port import beat_layout
from plinth_hw.optimiser.update import LATENCY, STATE_LATENCY, WEIGHT_CYCLES, Rule, UpdatePipeline
from plinth_hw.optimiser.walk import BEATS_BITS, BLOCK, PLACE_BITS, PLACES

#: Blocks that wait for their beats, at most.
_BLOCKS = 16
#: Cycles of a period, at least.
_LEAST_PHASES = 8
#: Cycles from the place of a beat to its first word: memory's address, memory, register, lane.
_LANE = 4
#: Cycles from a period's begin to the first word's gradient and state in the pipeline, and to its new values.
_WORD = 2 + _LANE
_STATE_OUT, WEIGHT_OUT = _WORD + STATE_LATENCY, _WORD + LATENCY
#: The same to the place of each vector's beat; that of a low half follows its high half's.
_READS = {"gradient": 0, "state_high": 1, "state_low": 2,
          "weight_high": _WORD + WEIGHT_CYCLES - _LANE - 1, "weight_low": _WORD + WEIGHT_CYCLES - _LANE}

_PLACE = PLACE_BITS - 1
#: A beat under way: ``last`` of its block, and of its row; places of gradient, state and weights, of which a low half
#: lies ``beats`` further.
_ENTRY = data.StructLayout({"valid": 1, "last": 1, "row_last": 1, "beats": BEATS_BITS, "gradient": _PLACE,
                            "state": _PLACE, "weight": _PLACE})


class _Event(NamedTuple):
    """A beat of a vector is read or written."""

    now: Value
    #: It is the last one of its block.
    last: Value
    place: Value


class BeatUpdate(wiring.Component):
    """Updates blocks of beats.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    rule : In(Rule)
        Constant while something is under way.
    end_lane : In
        Lane of the last word of a row; as constant.
    block : In stream of ``BLOCK``
        Blocks whose beats come, in order.
    beat_valid, beat : In(1), In
        Beats, as requested.
    updated : Out(1)
        Pulse: all new values of a block are in their places.
    place, read : In, In(1), new_beat : Out
        With ``read``: new values of a place, from the next cycle on.
    word : Out(1)
        A word is updated.
    waiting : Out(1)
        Blocks wait for their beats.
    seeded, seed, generator, ends
        As of :class:`~plinth_hw.optimiser.update.UpdatePipeline`.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        self.phases = max(parameters.beat_words, _LEAST_PHASES)
        #: Cycles from a period's begin to the cycle in which a new beat is whole.
        self.writes = {name: at + parameters.beat_words for name, at in (
            ("state_high", _STATE_OUT), ("state_low", _STATE_OUT + 1),
            ("weight_high", WEIGHT_OUT), ("weight_low", WEIGHT_OUT + 1))}
        for times in (_READS, self.writes):
            assert len({at % self.phases for at in times.values()}) == len(times), "two vectors in a cycle"
        super().__init__({
            "rule": In(Rule), "end_lane": In(exact_log2(parameters.beat_words)),
            "block": In(stream.Signature(BLOCK)), "beat_valid": In(1), "beat": In(beat_layout(parameters)),
            "updated": Out(1), "place": In(PLACE_BITS), "read": In(1), "new_beat": Out(beat_layout(parameters)),
            "word": Out(1), "waiting": Out(1),
            "seeded": In(1), "seed": In(32), "generator": Out(32), "ends": Out(2),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.update = update = UpdatePipeline()
        m.submodules.blocks = blocks = FIFO(BLOCK, _BLOCKS)
        wiring.connect(m, wiring.flipped(self.block), blocks.i)
        arrived = Signal(PLACE_BITS)
        m.submodules.old_beats = old_beats = self._memory()
        put = old_beats.write_port()
        m.d.comb += [put.en.eq(self.beat_valid), put.addr.eq(arrived), put.data.eq(self.beat.as_value()),
                     self.waiting.eq(blocks.o.valid)]
        with m.If(self.beat_valid):
            m.d.sync += arrived.eq(arrived + 1)

        phase = Signal(exact_log2(self.phases))
        entries = [Signal(_ENTRY, name=f"entry_{age}")
                  for age in range(max(self.writes["weight_low"], _READS["weight_low"]) // self.phases + 1)]
        turns = Signal()
        m.d.sync += phase.eq(phase + 1)
        m.d.comb += turns.eq(phase.all())
        with m.If(turns):
            m.d.sync += [after.eq(before) for before, after in pairwise(entries)]
        self._begin(m, blocks, arrived, turns, entries[0])

        def events(times: Mapping[str, int]) -> dict[str, _Event]:
            """When, that many cycles after a period's begin, a beat of each vector is read or written, and its place"""
            found = {}
            for name, cycles in times.items():
                what, _, half = name.partition("_")
                entry = entries[cycles // self.phases]
                found[name] = _Event(entry.valid & (phase == cycles % self.phases), entry.last,
                                     entry[what] + (entry.beats if half == "low" else 0))
            return found

        writes = events(self.writes)
        self._read(m, old_beats, events(_READS), update, phase)
        self._write(m, writes, update)
        inside = (phase < self.parameters.beat_words) if self.phases > self.parameters.beat_words else 1
        done = writes["weight_low"].now & writes["weight_low"].last
        m.d.comb += [
            self.updated.eq(delayed(m, "done", done, 2)),
            self.word.eq(delayed(m, "word", entries[0].valid & inside
                                 & (~entries[0].row_last | (phase <= self.end_lane)), _WORD)),
            update.word.eq(self.word), update.rule.eq(self.rule), update.seeded.eq(self.seeded),
            update.seed.eq(self.seed), self.generator.eq(update.generator), self.ends.eq(update.ends),
        ]
        return m

    def _memory(self) -> Memory:
        return Memory(shape=self.parameters.beat_bits, depth=PLACES, init=[], attrs=UNCHECKED)

    def _begin(self, m: Module, blocks: FIFO, arrived: Signal, turns: Signal, entry: data.View) -> None:
        """The next beat begins with a period, if the last of its vectors is there."""
        block = blocks.o.payload
        number, left = Signal(BEATS_BITS, name="number"), Signal(BEATS_BITS, name="left")
        gradient, ready, takes = Signal(PLACE_BITS, name="gradient"), Signal(name="ready"), Signal(name="takes")
        missing = Signal(PLACE_BITS)
        m.d.comb += [left.eq(block.beats - number), missing.eq(block.end - arrived), takes.eq(turns & ready),
                     blocks.o.ready.eq(takes & (left == 1))]
        # A period before it is needed, so that it may be a cycle late.
        m.d.sync += ready.eq(blocks.o.valid & (missing.as_signed() < left))
        with m.If(turns):
            m.d.sync += [
                entry.valid.eq(ready), entry.last.eq(left == 1), entry.row_last.eq((left == 1) & block.row_last),
                entry.beats.eq(block.beats), entry.gradient.eq(gradient), entry.state.eq(gradient + block.beats),
                entry.weight.eq(block.weights + number),
            ]
        with m.If(takes):
            m.d.sync += [number.eq(Mux(left == 1, 0, number + 1)), gradient.eq(Mux(left == 1, block.end, gradient + 1))]

    def _read(self, m: Module, old_beats: Memory, reads: dict[str, _Event], update: UpdatePipeline,
              phase: Signal) -> None:
        """Old beats, each into its vector's register, and from there word by word to the pipeline."""
        get = old_beats.read_port()
        address = Signal(_PLACE)
        m.d.sync += address.eq(one_of((read.now for read in reads.values()), (read.place for read in reads.values())))
        m.d.comb += get.addr.eq(address)
        found = data.View(beat_layout(self.parameters), get.data)
        for name, read in reads.items():
            held = Signal(beat_layout(self.parameters), name=f"held_{name}", reset_less=True)
            with m.If(delayed(m, f"reads_{name}", read.now, 2)):
                m.d.sync += held.eq(found)
            lane = Signal(exact_log2(self.parameters.beat_words), name=f"lane_{name}")
            word = Signal(self.parameters.word_bits, name=f"word_{name}", reset_less=True)
            m.d.sync += [lane.eq(phase - (_READS[name] + _LANE - 2)), word.eq(held[lane])]
            # Words of a vector that is read later come later.
            aligned = {"gradient": 2, "state_high": 1, "weight_high": 1}.get(name, 0)
            m.d.comb += getattr(update, name).eq(delayed(m, f"aligned_{name}", word, aligned))

    def _write(self, m: Module, writes: dict[str, _Event], update: UpdatePipeline) -> None:
        """New words collect in a beat of their vector, which goes to its place."""
        m.submodules.new_beats = new_beats = self._memory()
        put, get = new_beats.write_port(), new_beats.read_port()
        beats = []
        for name in writes:
            word = delayed(m, f"new_{name}", getattr(update, f"new_{name}"), 1 if name.endswith("low") else 0)
            beat = Signal(self.parameters.beat_bits, name=f"beat_{name}", reset_less=True)
            m.d.sync += beat.eq(Cat(beat[len(word):], word))
            beats.append(beat)
        used = {"state_high": ~self.rule.sgd, "state_low": ~self.rule.sgd & self.rule.wide_state,
                "weight_high": 1, "weight_low": self.rule.wide_weights}
        now = [write.now & used[name] for name, write in writes.items()]
        m.d.sync += [put.en.eq(Cat(now).any()), put.addr.eq(one_of(now, (write.place for write in writes.values())))]
        m.d.comb += [
            put.data.eq(one_registered(m, "new_beat", now, beats)),
            get.addr.eq(self.place), get.en.eq(self.read), self.new_beat.eq(get.data),
        ]
