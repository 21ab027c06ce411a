"""Body of a task: staged as it comes, then told field by field, and checked.

::

    body --> memory of words --(load)--> fields, rule, checks

The next task's body is taken once this one's has been told. Latency: ``FIELDS`` cycles from ``load`` to the last field.
"""

from functools import partial
from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from plinth_hw.control.engine import BodyWord
from plinth_hw.isa.layout import WORD_BITS
from plinth_hw.isa.operations import Engine, OptimiserOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import field_word
from plinth_hw.isa.update_bodies import OptimiserBody
from plinth_hw.lib.ram import LUT_RAM, SECTION
from plinth_hw.optimiser.update import Rule

#: Vectors of a task, in the order in which a block of each is read.
VECTORS = ("gradient", "state", "state_low", "weights", "weights_low")
#: Fields that are part of the rule.
_KEPT = ("wide_weights", "wide_state", "stochastic", "rate", "decay", "epsilon")
#: Words of a body.
FIELDS = OptimiserBody.BITS // WORD_BITS
#: Which word of the body a field is in, by its name.
index_of_field = partial(field_word, OptimiserBody)


class OptimiserBodyStore(wiring.Component):
    """Takes bodies and tells them.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    body : In stream of BodyWord
    staged : Out(1)
        A body is there.
    load : In(1)
        Pulse: tell it. It is staged.
    operation : In(4)
        Of the task; constant from the cycle after ``load`` on. What it decides is looked at a cycle later.
    valid, field : Out(1), Out(BodyWord)
        A word of the body, with the address in place of a pointer, in order.
    rule : Out(Rule), used : Out(VECTORS)
        Of the task whose last field has been told: how words are updated, and the vectors that it has.
    bad : Out(1)
        The same task: the engine refuses an operand.
    """

    def __init__(self, parameters: DieParameters) -> None:
        self.parameters = parameters
        super().__init__({
            "body": In(stream.Signature(BodyWord)),
            "staged": Out(1), "load": In(1), "operation": In(4), "valid": Out(1), "field": Out(BodyWord),
            "rule": Out(Rule), "used": Out(len(VECTORS)), "bad": Out(1),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        index, field, rule = Signal(range(SECTION)), self.field, self.rule
        m.submodules.words = words = Memory(shape=WORD_BITS, depth=SECTION, init=[], attrs=LUT_RAM)
        write, read = words.write_port(), words.read_port(domain="comb")
        came, word = Signal(), self.body.payload
        assert self.parameters.body_words(Engine.OPTIMISER) <= SECTION
        m.d.comb += [
            self.body.ready.eq(~self.staged), came.eq(self.body.valid & self.body.ready),
            write.en.eq(came & (word.index < SECTION)), write.addr.eq(word.index),
            write.data.eq(word.word), read.addr.eq(index),
            field.index.eq(index), field.word.eq(read.data), field.last.eq(index == FIELDS - 1),
            self.used.eq(Cat(1, ~rule.sgd, ~rule.sgd & rule.wide_state, 1, rule.wide_weights)),
        ]
        with m.If(came & word.last):
            m.d.sync += self.staged.eq(1)
        with m.If(self.load):
            m.d.sync += [self.valid.eq(1), index.eq(0), self.bad.eq(0)]
        kept: dict[str, Value] = {name: Signal.like(Value.cast(rule[name]), name=name) for name in _KEPT}
        m.d.comb += [Value.cast(rule[name]).eq(register) for name, register in kept.items()]
        for name, operation in (("sgd", OptimiserOperation.SGD), ("momentum", OptimiserOperation.MOMENTUM),
                                ("printed", OptimiserOperation.ADAGRAD_PRINTED)):
            flag = Signal(name=name)
            m.d.sync += flag.eq(self.operation == operation.value)
            m.d.comb += rule[name].eq(flag)
        with m.If(self.valid):
            m.d.sync += [index.eq(index + 1), self.bad.eq(self.bad | self._refused(m))]
            with m.If(field.last):
                m.d.sync += [self.valid.eq(0), self.staged.eq(0)]
            for name, register in kept.items():
                first = OptimiserBody.FIELDS[name].offset % WORD_BITS
                with m.If(index == index_of_field(name)):
                    m.d.sync += register.eq(field.word[first:first + len(register)])
        return m

    def _refused(self, m: Module) -> Value:
        """The field that is told is no operand; flags, of which that depends, have been told first."""
        lanes = exact_log2(self.parameters.beat_words)
        aligned = dict.fromkeys(("stride", "state_stride"), Const(1)) | {"generator": self.rule.stochastic} | {
            name: self.used[number] for number, name in enumerate(VECTORS)}
        some = {"columns": Const(1), "rows": Const(1), "epsilon": ~self.rule.sgd & ~self.rule.momentum}
        wanted = {what: Signal(name=what) for what in ("must_be_aligned", "must_not_be_zero")}
        for told, names in zip(wanted.values(), (aligned, some), strict=True):
            m.d.comb += told.eq(Cat((self.field.index == index_of_field(name)) & applies
                                    for name, applies in names.items()).any())
        must_be_aligned, must_not_be_zero = wanted.values()
        return (must_be_aligned & self.field.word[:lanes].any()) | (must_not_be_zero & ~self.field.word.any())
