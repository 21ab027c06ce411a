"""Beats become words, words are updated, new words become beats.

::

    beats read --> places: gradients, states, weights --> words --> UpdatePipeline --> shift register a vector --+
                                                                           (places) new beats <------------------+

Beats come vector after vector of a block, as they were asked for. Those that are updated together have the same place,
each in the memory of its vector, from which two words at a time are read. Both halves of weights, or of states, share a
memory, which gives words of the one and of the other in turn.

Time is cut into *periods* of ``max(beat_words, 8)`` cycles. In each period a beat of every vector may begin, and from
there on all that happens to it happens after a fixed number of cycles, so that new beats of one vector at a time are
written and nothing ever waits. An entry a period, handed on from period to period, says where the beats lie. A beat
begins once all its vectors have been read.

Throughput: a word a cycle, for beats of 8 words or more. Latency: from the period's begin to its first new weight
``WEIGHT_OUT`` cycles, plus ``beat_words`` until the beat is in its place.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
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
from plinth_hw.optimiser.walk import BLOCK, PLACE_BITS, WRITTEN

#: Blocks that wait for their beats, at most.
_BLOCKS = 16
#: Cycles of a period, at least.
_LEAST_PHASES = 8
#: Cycles from the place of a beat to its first words in the pipeline: memory, the register behind it, and one that low
#: halves come later.
_WORD = 3
#: Cycles from a period's begin to the first word's new values.
_STATE_OUT, WEIGHT_OUT = _WORD + STATE_LATENCY, _WORD + LATENCY
#: Words that a memory gives at a time.
_PAIR = 2

#: A beat under way, and its place; ``last`` of its block, and of its row.
_ENTRY = data.StructLayout({"valid": 1, "last": 1, "row_last": 1, "place": PLACE_BITS})


class _Event(NamedTuple):
    """A new beat of a vector is written."""

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
    vector, place, read : In, In, In(1), new_beat : Out
        With ``read``: new values of a place of one of the vectors ``WRITTEN``, from the next cycle on.
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
            ("state", _STATE_OUT), ("state_low", _STATE_OUT + 1), ("weights", WEIGHT_OUT),
            ("weights_low", WEIGHT_OUT + 1))}
        assert tuple(self.writes) == WRITTEN
        assert len({at % self.phases for at in self.writes.values()}) == len(WRITTEN), "two vectors in a cycle"
        super().__init__({
            "rule": In(Rule), "end_lane": In(exact_log2(parameters.beat_words)),
            "block": In(stream.Signature(BLOCK)), "beat_valid": In(1), "beat": In(beat_layout(parameters)),
            "updated": Out(1), "vector": In(range(len(WRITTEN))), "place": In(PLACE_BITS), "read": In(1),
            "new_beat": Out(beat_layout(parameters)), "word": Out(1), "waiting": Out(1),
            "seeded": In(1), "seed": In(32), "generator": Out(32), "ends": Out(2),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.update = update = UpdatePipeline()
        # Blocks whose beats come, and blocks whose beats begin.
        m.submodules.coming = coming = FIFO(BLOCK, _BLOCKS)
        m.submodules.blocks = blocks = FIFO(BLOCK, _BLOCKS)
        m.d.comb += [
            self.block.ready.eq(blocks.i.ready), blocks.i.valid.eq(self.block.valid),
            # It has room if the other has: what has begun has come.
            coming.i.valid.eq(self.block.valid & blocks.i.ready),
            blocks.i.payload.eq(self.block.payload), coming.i.payload.eq(self.block.payload),
            self.waiting.eq(blocks.o.valid),
        ]
        phase, turns = Signal(exact_log2(self.phases)), Signal()
        entries = [Signal(_ENTRY, name=f"entry_{age}") for age in range(self.writes["weights_low"] // self.phases + 1)]
        m.d.sync += phase.eq(phase + 1)
        m.d.comb += turns.eq(phase.all())
        with m.If(turns):
            m.d.sync += [after.eq(before) for before, after in pairwise(entries)]
        memories = gradients, states, weights = [
            self._old_beats(m, name) for name in ("gradients", "states", "weights")]
        self._begin(m, blocks, self._arrive(m, coming, memories), turns, entries[0])

        # Weights are read as late as the pipeline needs them, in periods of their own.
        late, late_place = Signal(phase.shape(), init=-WEIGHT_CYCLES % self.phases), Signal(PLACE_BITS)
        m.d.sync += late.eq(late + 1)
        with m.If(late.all()):
            m.d.sync += late_place.eq(entries[(WEIGHT_CYCLES - 1) // self.phases].place)
        early_place = entries[0].place
        gradient, _ = self._words(m, "gradient", gradients, early_place, phase)
        state_high, state_low = self._words(m, "state", states, early_place, phase)
        weight_high, weight_low = self._words(m, "weight", weights, late_place, late)
        writes = {name: _Event(entry.valid & (phase == cycles % self.phases), entry.last, entry.place)
                  for name, cycles in self.writes.items() for entry in [entries[cycles // self.phases]]}
        self._write(m, writes, update)
        inside = (phase < self.parameters.beat_words) if self.phases > self.parameters.beat_words else 1
        done = writes["weights_low"].now & writes["weights_low"].last
        m.d.comb += [
            update.gradient.eq(gradient), update.state_high.eq(state_high), update.state_low.eq(state_low),
            update.weight_high.eq(weight_high), update.weight_low.eq(weight_low),
            self.updated.eq(delayed(m, "done", done, 2)),
            self.word.eq(delayed(m, "word", entries[0].valid & inside
                                 & (~entries[0].row_last | (phase <= self.end_lane)), _WORD)),
            update.word.eq(self.word), update.rule.eq(self.rule), update.seeded.eq(self.seeded),
            update.seed.eq(self.seed), self.generator.eq(update.generator), self.ends.eq(update.ends),
        ]
        return m

    def _old_beats(self, m: Module, name: str) -> Memory:
        """Two vectors' places, one behind the other, in pairs of words."""
        pairs = self.parameters.beat_words // _PAIR
        m.submodules[name] = memory = Memory(shape=_PAIR * self.parameters.word_bits, depth=2 * pairs << PLACE_BITS,
                                             init=[], attrs=UNCHECKED)
        return memory

    def _arrive(self, m: Module, coming: FIFO, memories: list[Memory]) -> Value:
        """Beats go to their places; returns the first place whose beat is not there of all vectors."""
        number = Signal(BLOCK["more"].shape, name="number_come")
        place, whole = Signal(PLACE_BITS, name="place_come"), Signal(PLACE_BITS)
        vector, follows = Signal(5, init=1), Signal(5)
        gradient, state, state_low, weights, weights_low = vector
        ends = Signal(name="vector_ends")
        m.d.comb += [
            follows.eq(Cat(weights_low | (weights & ~self.rule.wide_weights), gradient & ~self.rule.sgd,
                           state & self.rule.wide_state,
                           (gradient & self.rule.sgd) | (state & ~self.rule.wide_state) | state_low,
                           weights & self.rule.wide_weights)),
            ends.eq(self.beat_valid & (number == coming.o.payload.more)), coming.o.ready.eq(ends & follows[0]),
        ]
        with m.If(self.beat_valid):
            m.d.sync += [number.eq(number + 1), place.eq(place + 1), whole.eq(whole + follows[0])]
        with m.If(ends):
            m.d.sync += [vector.eq(follows), number.eq(0)]
            with m.If(~follows[0]):
                m.d.sync += place.eq(whole)
        pair_bits = _PAIR * self.parameters.word_bits
        for memory, (high, low) in zip(
                memories, ((gradient, Const(0, 1)), (state, state_low), (weights, weights_low)), strict=True):
            for pair in range(self.parameters.beat_words // _PAIR):
                put = memory.write_port()
                m.d.comb += [
                    put.en.eq(self.beat_valid & (high | low)),
                    put.addr.eq(Cat(Const(pair, exact_log2(self.parameters.beat_words // _PAIR)), place, low)),
                    put.data.eq(self.beat.as_value().word_select(pair, pair_bits)),
                ]
        return whole

    def _begin(self, m: Module, blocks: FIFO, whole: Value, turns: Signal, entry: data.View) -> None:
        """The next beat begins with a period, if the last of its vectors is there."""
        block = blocks.o.payload
        number, last = Signal(BLOCK["more"].shape, name="number_begun"), Signal(name="last_begins")
        place, ready = Signal(PLACE_BITS, name="place_begun"), Signal(name="ready")
        m.d.comb += [last.eq(number == block.more), blocks.o.ready.eq(turns & ready & last)]
        # A period before it is needed, so that it may be a cycle late.
        m.d.sync += ready.eq(whole != place)
        with m.If(turns):
            m.d.sync += [entry.valid.eq(ready), entry.last.eq(last), entry.row_last.eq(last & block.row_last),
                         entry.place.eq(place)]
            with m.If(ready):
                m.d.sync += [number.eq(number + 1), place.eq(place + 1)]
                with m.If(last):
                    m.d.sync += number.eq(0)

    def _words(self, m: Module, name: str, memory: Memory, place: Value, phase: Signal) -> tuple[Value, Value]:
        """Words of both vectors at a place of a memory, from three cycles after phase 0 on.

        A register takes what the memory gives, nothing being chosen in front of it.
        """
        get = memory.read_port()
        word_bits = self.parameters.word_bits
        pair = phase[1:exact_log2(self.parameters.beat_words)]
        read_pair, second = (Signal(bits, name=f"{name}_{what}", reset_less=True)
                             for what, bits in (("pair", _PAIR * word_bits), ("second", word_bits)))
        high = Signal(word_bits, name=f"{name}_high", reset_less=True)
        first = read_pair[:word_bits]
        m.d.comb += get.addr.eq(Cat(pair, place, phase[0]))
        m.d.sync += [read_pair.eq(get.data), second.eq(read_pair[word_bits:]), high.eq(Mux(phase[0], second, first))]
        return high, Mux(phase[0], first, second)

    def _write(self, m: Module, writes: Mapping[str, _Event], update: UpdatePipeline) -> None:
        """New words collect in a beat of their vector, which goes to its place."""
        m.submodules.new_beats = new_beats = Memory(
            shape=self.parameters.beat_bits, depth=len(WRITTEN) << PLACE_BITS, init=[], attrs=UNCHECKED)
        put, get = new_beats.write_port(), new_beats.read_port()
        beats = []
        for name, new_word in (
                ("state", update.new_state_high), ("state_low", delayed(m, "new_state_low", update.new_state_low, 1)),
                ("weights", update.new_weight_high),
                ("weights_low", delayed(m, "new_weight_low", update.new_weight_low, 1))):
            beat = Signal(self.parameters.beat_bits, name=f"beat_{name}", reset_less=True)
            m.d.sync += beat.eq(Cat(beat[len(new_word):], new_word))
            beats.append(beat)
        now = [write.now for write in writes.values()]
        # What is not used of them is written as well, and never read.
        m.d.sync += [put.en.eq(Cat(now).any()),
                     put.addr.eq(one_of(now, (Cat(write.place, Const(number, exact_log2(len(WRITTEN))))
                                              for number, write in enumerate(writes.values()))))]
        m.d.comb += [
            put.data.eq(one_registered(m, "new_beat", now, beats)),
            get.addr.eq(Cat(self.place, self.vector)), get.en.eq(self.read), self.new_beat.eq(get.data),
        ]
