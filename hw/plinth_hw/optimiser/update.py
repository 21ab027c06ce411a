"""The update of weights: formulas in :mod:`plinth_sim.golden.optimiser`.

::

    gradient g --+-> g^2 or 2^12 g --------+                      +------------------------> g R
                 |                         v                      |                           |
    state S -----+-> delay ----------> sum of state --> Rounder --+-> InverseRoot R ----------+
                 |                         ^               |      |                           v
                 +-(momentum)-> SCALE -----+               v      +-> delay -> 2 S --+     (others)
                                                       new state                     |        |
                                                                                     |      SCALE
    weight W ------------------------------------------------------+                 v        v
    random bits --> Rounders                                       |                quotient Q
                                       new weight <-- Rounder <-- W - step <-- scale by the rate

SCALE is one :class:`~plinth_hw.arith.fixed.FixedScaler`: momentum scales the old state with it by ``decay``, the other
rules what the gradient and R give. So that a factor tells it all, with z places of zeros and p = g R::

    SGD              Q = 4 p                    R = 2^15
    ADAGRAD          Q = 4 p 2^13 / 2^(15 - z/2)
    ADAGRAD_PRINTED  Q = 4 p R / 2^(19 - z)     z < 18
                     Q = 4 p R / 2^(31 - z)     z >= 18, p = 2^12 g R, where g is saturated: Q is beyond its ends then

A word a cycle, no stall; all words that are under way have one rule. Seven ``MULT18X18D``.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.arith.carry import chosen_sum
from plinth_hw.arith.fixed import FixedMultiplier, FixedScaler, saturated
from plinth_hw.isa.formats import Q3_12, Factor, Fixed
from plinth_hw.lib.delay import DelayLine, delayed
from plinth_hw.optimiser.inverse_root import InverseRoot
from plinth_hw.optimiser.rounder import HALF, Rounder
from plinth_hw.shapes import shape_of

#: Quotients, and steps, which have a fraction bit less.
QUOTIENT, STEP = Fixed(4, 29), Fixed(5, 28)
#: Bits of the fraction of squares below that of states.
_SQUARE_BITS = 4
#: Bits that a gradient has, and is shifted by, where the quotient of a larger one is beyond its ends.
_FAR_BITS, _FAR_SHIFT = 4, 12
#: Bits of sums before they are saturated.
_SUM_BITS = 36
#: Cycles from operands of SCALE to its result.
_SCALE = 1 + 6
#: Cycles from a word's gradient and state to its state's sum, state, R, product p, quotient, step, and weight's sum.
_STATE_SUM = 1 + _SCALE + 1
_STATE = _STATE_SUM + Rounder.latency
_ROOT = _STATE + InverseRoot.latency + 1
_QUOTIENT = _ROOT + 1 + _SCALE + 1
_STEP = _QUOTIENT + 6
_WEIGHT_SUM = _STEP + 1
#: The same to its weight at the input, its new state and its new weight.
WEIGHT_CYCLES = _STEP - 1
STATE_LATENCY = _STATE
LATENCY = _WEIGHT_SUM + Rounder.latency


class Rule(data.Struct):
    """What is done with each word; constant while one is under way. No flag is set for Adagrad."""

    sgd: unsigned(1)
    momentum: unsigned(1)
    printed: unsigned(1)
    wide_weights: unsigned(1)
    wide_state: unsigned(1)
    stochastic: unsigned(1)
    rate: shape_of(Factor)
    decay: shape_of(Factor)
    epsilon: unsigned(32)


def joined(m: Module, name: str, high: Any, low: Any, wide: Any) -> Value:
    """What halves stand for, a cycle later."""
    above = Signal(signed(HALF + 1), name=f"{name}_above", reset_less=True)
    below = Signal(HALF, name=f"{name}_below", reset_less=True)
    m.d.sync += [above.eq(high.as_signed() - (low[-1] & wide)), below.eq(Mux(wide, low, 0))]
    return Cat(below, above).as_signed()


def line(m: Module, name: str, value: Any, cycles: int) -> Any:
    """``value`` of so many cycles ago, from a register."""
    m.submodules[name] = store = DelayLine(value.shape(), cycles - 1)
    m.d.comb += store.i.eq(value)
    last = Signal(value.shape(), name=f"{name}_last", reset_less=True)
    m.d.sync += last.eq(store.o)
    return last


class UpdatePipeline(wiring.Component):
    """Updates a weight a cycle.

    Members
    -------
    rule : In(Rule)
    word : In(1)
        A word comes in this cycle: the generator makes a step for it, and what of it is beyond its ends counts.
    gradient, state_high, state_low : In(16)
        Of it.
    weight_high, weight_low : In(16)
        Of the word of ``WEIGHT_CYCLES`` cycles before.
    seeded, seed : In(1), In(32)
        The generator's state is this from the next cycle on.
    generator : Out(32)
        The generator's state.
    new_state_high, new_state_low : Out(16)
        Of the word of ``STATE_LATENCY`` cycles before.
    new_weight_high, new_weight_low : Out(16)
        Of the word of ``LATENCY`` cycles before.
    ends : Out(2)
        How many sums of states, quotients of Adagrad and sums of weights are beyond their ends in this cycle.
    """

    def __init__(self) -> None:
        halves = [f"{what}_{half}" for what in ("state", "weight") for half in ("high", "low")]
        super().__init__({
            "rule": In(Rule), "word": In(1), "gradient": In(HALF),
            **{name: In(HALF) for name in halves}, **{f"new_{name}": Out(HALF) for name in halves},
            "seeded": In(1), "seed": In(32), "generator": Out(32), "ends": Out(2),
        })

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        rule = self.rule
        m.submodules.addend = addend = FixedMultiplier(Q3_12, Fixed(7, 24))
        m.submodules.scale = scale = FixedScaler(QUOTIENT, tells=True)
        m.submodules.by_rate = by_rate = FixedScaler(QUOTIENT, result_format=STEP)
        m.submodules.new_state = new_state = Rounder(_SUM_BITS)
        m.submodules.new_weight = new_weight = Rounder(_SUM_BITS)
        m.submodules.root = root = InverseRoot()
        assert scale.latency == by_rate.latency == _SCALE - 1

        # The state's sum: of the state times decay, and the gradient; or of the state, and the gradient's square.
        state = joined(m, "state", self.state_high, self.state_low, rule.wide_state)
        early = line(m, "gradient_line", self.gradient, _STATE_SUM - 2 - addend.latency)
        gradient, other = Signal(HALF, name="gradient", reset_less=True), Signal(HALF, name="other", reset_less=True)
        m.d.sync += [gradient.eq(early), other.eq(Mux(rule.momentum, 1 << HALF - _SQUARE_BITS, early))]
        old = line(m, "state_line", state, _STATE_SUM - 2)
        total = Signal(signed(_SUM_BITS), reset_less=True)
        added = Signal.like(total, name="added")
        m.d.comb += [addend.a.eq(gradient), addend.b.eq(other), added.eq(addend.o.as_signed() << _SQUARE_BITS)]
        scaled, kept = Signal.like(total, name="scaled"), Signal.like(total, name="kept")
        m.d.comb += [scaled.eq(scale.o.as_signed()), kept.eq(old)]
        m.d.sync += total.eq(chosen_sum(m, platform, "state_sum", rule.momentum, scaled, kept, added))
        m.d.comb += [new_state.total.eq(total), new_state.wide.eq(rule.wide_state), root.state.eq(new_state.value),
                     root.epsilon.eq(rule.epsilon),
                     self.new_state_high.eq(new_state.high), self.new_state_low.eq(new_state.low)]

        # The quotient.
        held = line(m, "late_gradient_line", gradient, _ROOT - 1 - (_STATE_SUM - 1 - addend.latency))
        far = rule.printed & root.pairs[3] & root.pairs[:3].any()
        late, product = Signal(signed(HALF), reset_less=True), Signal(signed(32), reset_less=True)
        inverse = Signal.like(root.root, name="inverse", reset_less=True)
        m.d.sync += [
            late.eq(Cat(Mux(far, 0, held[:_FAR_SHIFT]),
                        Mux(far, saturated(held.as_signed(), Fixed(_FAR_BITS - 1, 0)), held[_FAR_SHIFT:]))),
            inverse.eq(Mux(rule.sgd, 1 << 15, root.root)), product.eq(late * inverse),
        ]
        self._scale(m, scale, state, product, delayed(m, "inverse", inverse, 1), delayed(m, "pairs", root.pairs, 2),
                    delayed(m, "far", far, 2))
        stored = line(m, "new_state_line", new_state.value, _QUOTIENT - 1 - _STATE)
        quotient = Signal(QUOTIENT.bits, reset_less=True)
        m.d.sync += quotient.eq(Mux(rule.momentum, stored << 1, scale.o.as_signed()))

        # The weight.
        weight = joined(m, "weight", self.weight_high, self.weight_low, rule.wide_weights)
        rest = Signal(signed(_SUM_BITS), reset_less=True)
        m.d.comb += [by_rate.a.eq(quotient), by_rate.factor.eq(rule.rate)]
        m.d.sync += rest.eq(weight - by_rate.o.as_signed())
        m.d.comb += [new_weight.total.eq(rest), new_weight.wide.eq(rule.wide_weights),
                     self.new_weight_high.eq(new_weight.high), self.new_weight_low.eq(new_weight.low)]
        # Registers that a reset clears tell whether there is a word.
        summed = delayed(m, "word", self.word, _STATE_SUM)
        self._random(m, summed, new_state, new_weight)
        self._count(m, summed, new_state, scale, new_weight)
        return m

    def _scale(self, m: Module, scale: FixedScaler, state: Any, product: Any, inverse: Any, pairs: Any, far: Any
               ) -> None:
        """Operand and factor of SCALE: momentum's early in the pipeline, the others' late."""
        rule = self.rule
        operand, factor = Signal(QUOTIENT.bits, reset_less=True), Signal(shape_of(Factor), reset_less=True)
        m.d.comb += [scale.a.eq(operand), scale.factor.eq(factor)]
        m.d.sync += [operand.eq(Mux(rule.momentum, state, product << 2)),
                     factor.shift.eq(~pairs & 15), factor.mantissa.eq(1 << 13), factor.negative.eq(0)]
        with m.If(rule.momentum):
            m.d.sync += factor.eq(rule.decay)
        with m.Elif(rule.sgd):
            m.d.sync += [factor.shift.eq(0), factor.mantissa.eq(1)]
        with m.Elif(rule.printed):
            m.d.sync += [factor.shift.eq(~Cat(Const(0, 1), (pairs + Mux(far, 0, 6))[:4])), factor.mantissa.eq(inverse)]

    def _random(self, m: Module, summed: Signal, new_state: Rounder, new_weight: Rounder) -> None:
        """Random bits of words whose state is summed."""
        bits = self.generator
        first, second, stepped = Signal(32, name="first"), Signal(32, name="second"), Signal(32, name="stepped")
        m.d.comb += [first.eq(bits ^ (bits << 13)[:32]), second.eq(first ^ first >> 17),
                     stepped.eq(second ^ (second << 5)[:32])]
        with m.If(self.seeded):
            m.d.sync += bits.eq(self.seed)
        with m.Elif(summed):
            m.d.sync += bits.eq(stepped)
        m.d.comb += [
            new_state.noise.eq(bits[HALF:]), new_state.stochastic.eq(self.rule.stochastic),
            new_weight.noise.eq(line(m, "noise_line", bits[:HALF], _WEIGHT_SUM - _STATE_SUM)),
            new_weight.stochastic.eq(self.rule.stochastic),
        ]

    def _count(self, m: Module, summed: Signal, new_state: Rounder, scale: FixedScaler, new_weight: Rounder) -> None:
        """What of words is beyond its ends: a sum shows it a cycle later, a quotient a cycle before it is chosen."""
        rule = self.rule
        after = delayed(m, "after_sum", summed, 1)
        divided = delayed(m, "divided", after, _QUOTIENT - 1 - (_STATE_SUM + 1))
        weighed = delayed(m, "weighed", divided, _WEIGHT_SUM + 1 - (_QUOTIENT - 1))
        m.d.comb += self.ends.eq((new_state.beyond & after & ~rule.sgd)
                                 + (scale.beyond & divided & ~rule.sgd & ~rule.momentum)
                                 + (new_weight.beyond & weighed))
