"""Dispatch: checks each fetched descriptor and parts it into header words and body words.

::

    i --> engine, operation, counters, die valid? --+-- words 0 to 7, address as word 8 --> header store
                                                    +-- words from 8 on, as many as it uses --> its body queue
          otherwise one ``error`` pulse, and all that follows is dropped

Word 0 stays for a cycle at least, in which its engine becomes known, and until that has room for the descriptor; all
others are taken as they come, so what is taken depends on registers alone. Later descriptors wait behind (program
order is a valid serial order, so the engine's earlier tasks cannot depend on them).
"""


from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.control.errors import Cause
from plinth_hw.control.fetch import DescriptorWord, header_word
from plinth_hw.isa.descriptors import HEADER_WORDS, WAITS, TaskHeader
from plinth_hw.isa.limits import field_most, reset_value
from plinth_hw.isa.operations import Engine, ErrorCode
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Register
from plinth_hw.lib.choice import select

#: Words that the header store keeps for a task: the header, then these two.
STORED_WORDS = 16
#: Index of the task's address, and of the cycle in which it started.
ADDRESS_WORD = HEADER_WORDS
STARTED_WORD = HEADER_WORDS + 1


def engine_order(parameters: DieParameters) -> list[Engine]:
    """The engines of a die; inside the control block an engine goes by its position in this list."""
    return sorted(parameters.engines, key=lambda engine: engine.value)


class Dispatch(wiring.Component):
    """Routes descriptors.

    Parameters
    ----------
    parameters : DieParameters
        Engines present, and how many update counters there are.

    Members
    -------
    i : In(stream of DescriptorWord)
        From the fetch.
    address : In(address_bits)
        Address of the descriptor at ``i``.
    room : In(engines)
        That engine can take one more descriptor; stays, once a word 0 has come, until it is taken.
    dies : In
        Dies of the array.
    halted : In(1)
        Drop what comes.
    position : Out
        Engine of the word at ``i`` that is taken.
    word : Out
        The word at ``i``.
    header_valid, header_index : Out
        Write ``word`` to the header store, in the place that the next descriptor of ``position`` gets; as word
        :data:`ADDRESS_WORD` the descriptor's address.
    commit : Out(1)
        With the last write to the place: it belongs to a task now.
    body_valid : Out(1)
        ``word`` is of a body for ``position``; words ``HEADER_WORDS`` on of the descriptor, as many as the engine uses.
    error : Out(Cause)
        The descriptor cannot be run; a cycle after the word that says so.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        self.engines = engine_order(parameters)
        super().__init__({
            "i": In(stream.Signature(DescriptorWord)),
            "address": In(parameters.address_bits),
            "room": In(len(self.engines)),
            "dies": In(parameters.die_bits + 1, init=reset_value(Register.DIES, parameters)),
            "halted": In(1),
            "position": Out(range(max(2, len(self.engines)))),
            "header_valid": Out(1),
            "header_index": Out(range(STORED_WORDS)),
            "word": Out(32),
            "commit": Out(1),
            "body_valid": Out(1),
            "error": Out(Cause),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        counters = self.parameters.counters
        index, word = self.i.payload.index, self.i.payload.word
        engine_number = Signal(4)
        wait_counters = Signal(32)

        first = header_word(word, 0)
        # Word 0; a word after ADDRESS_WORD; one of the body; word 0 was there a cycle ago, and room for all.
        is_first, behind, in_body, admitted = Signal(init=1), Signal(), Signal(), Signal()
        ends = [Const(HEADER_WORDS + self.parameters.body_words(engine) - 1, 6) for engine in self.engines]
        m.d.comb += self.i.ready.eq(self.halted | ~is_first | admitted)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                is_first.eq(index.all()), behind.eq((index >= ADDRESS_WORD) & ~index.all()),
                in_body.eq((index >= HEADER_WORDS - 1) & (index < select(ends, self.position))),
            ]
        here = [first.as_value()[:4] == engine.value for engine in self.engines]
        m.d.sync += admitted.eq(self.i.valid & is_first & ~admitted & (Cat(here) & self.room).any())
        m.d.comb += [self.header_index.eq(index), self.word.eq(word)]
        known, operations = Signal(name="known"), Signal(range(17), name="operations")
        with m.If(is_first):
            m.d.sync += engine_number.eq(first.as_value()[:4])
            for i, engine in enumerate(self.engines):
                with m.If(here[i]):
                    m.d.comb += [known.eq(1), operations.eq(len(self.parameters.operations(engine)))]
                    m.d.sync += self.position.eq(i)
        second = header_word(word, 1)
        remote = Signal()  # word 0 asked for a remote advance
        # Compared a word after word 1, told another word later.
        remote_die, bad_die = Signal.like(second.remote_die, name="remote_die"), Signal(name="bad_die")
        m.d.sync += bad_die.eq(remote & (remote_die >= self.dies))
        with m.If(self.i.valid & ~self.halted):
            with m.If(is_first):
                m.d.sync += remote.eq(first.remote_enable)
            with m.If(index == 1):
                m.d.sync += remote_die.eq(second.remote_die)
            with m.If(index == 2):
                m.d.sync += wait_counters.eq(word)
            # A refused descriptor waits or goes on until ``halted`` rises, and never gets as far as ``commit``.
            m.d.comb += [
                self.header_valid.eq(~behind & (~is_first | admitted)), self.commit.eq(index == ADDRESS_WORD),
                self.body_valid.eq(in_body),
            ]

        # What is wrong with a word, as registers, and what is told of it.
        looks, said = self.i.valid & ~self.halted, Signal(32)
        m.d.sync += [said.eq(word), self.error.task.eq(self.address)]

        def beyond(counter: Value) -> Value:
            return counter >= counters if counters <= field_most(TaskHeader, "wait_counter") else Const(0)

        waits = header_word(wait_counters, 2).wait_counter
        enables = header_word(word, 3).wait_enable
        faults = [
            (is_first & ~known, ErrorCode.BAD_ENGINE, Const(0)),
            (is_first & (first.operation >= operations), ErrorCode.BAD_OPERATION, Const(0)),
            (is_first & first.advance_enable & beyond(first.advance), ErrorCode.BAD_COUNTER,
             header_word(said, 0).advance),
            ((index == 1) & remote & beyond(second.remote_counter), ErrorCode.BAD_COUNTER,
             header_word(said, 1).remote_counter),
            *(((index == 3) & enables[wait] & beyond(waits[wait]), ErrorCode.BAD_COUNTER, waits[wait])
              for wait in range(WAITS)),
            ((index == 4) & bad_die, ErrorCode.BAD_DIE, Const(0)),
        ]
        raised = Signal(len(faults))
        m.d.sync += raised.eq(Cat(fault & looks for fault, _, _ in faults))
        m.d.comb += [self.error.valid.eq(raised.any()), self.error.engine.eq(engine_number)]
        for number, (_, code, counter) in reversed(list(enumerate(faults))):
            with m.If(raised[number]):
                m.d.comb += [self.error.code.eq(code), self.error.counter.eq(counter)]
        return m
