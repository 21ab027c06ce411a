"""Golden model of the optimiser engine: updates of fixed-point weights that keep state, or more than 16 bits.

Numbers are whole: gradients g in units of 2^-12, weights W and states S in units of 2^-28, from -2^31 to 2^31 - 1. In
memory a weight or a state is the Q3.12 number ``high`` alone, or with a ``low`` half beside it, both signed::

    X = 2^16 high + low                                                       low = 0 of what is narrow
    X stored wide:    X is at most 2^31 - 2^15 - 1;  high = floor((X + 2^15) / 2^16),  low = X - 2^16 high
    X stored narrow:  high = X / 2^16 rounded to nearest, ties to even, or stochastic: floor((X + r) / 2^16); saturated

For each word, in the order of rows and columns, with ``[x]`` for x rounded to nearest, ties to even, and ``sat`` for
the ends of 32 bits (of 34 bits: ``sat34``)::

    SGD              Q = 2^17 g
    MOMENTUM         S = sat([decay S] + 2^16 g);   Q = 2 S
    ADAGRAD          S = sat(S + 2^4 g^2);          Q = sat34(g R 2^(z/2))
    ADAGRAD_PRINTED  S = sat(S + 2^4 g^2);          Q = sat34([g R^2 2^z / 2^17])
    all              W = sat(W - [rate Q / 2])

Q, in units of 2^-29, is what the rate multiplies. It is made of S as it is stored; so are R and z, those of
:mod:`~plinth_hw.isa.inverse_root` for ``min(max(S, 0) + epsilon, 2^32 - 1)``. Factors are mantissa / 2^shift.

The random bits r of a word are those of Marsaglia's xorshift32 (Journal of Statistical Software 8 (14), 2003): each
word takes one step of the generator, ``x ^= x << 13; x ^= x >> 17; x ^= x << 5``, and then the low 16 bits for its
weight, the high ones for its state. The generator stays at zero if it is there.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plinth_hw.isa import inverse_root as _table
from plinth_hw.isa.formats import Q3_12, as_words
from plinth_hw.isa.operations import OptimiserOperation
from plinth_sim.golden.arithmetic import halved, numbers, saturated, scaled
from plinth_sim.golden.blocks import window
from plinth_sim.golden.vector import BadOperandError

Words = NDArray[np.unsignedinteger]
Integers = NDArray[np.int64]

#: Bits of a half, and of the fraction of gradients below that of weights.
HALF = 16
_LEAST, _MOST, _MOST_WIDE = -1 << 31, (1 << 31) - 1, (1 << 31) - (1 << 15) - 1
#: Rules whose states are sums of squares.
SQUARES = (OptimiserOperation.ADAGRAD, OptimiserOperation.ADAGRAD_PRINTED)
#: The ends of Q.
_QUOTIENT = 1 << 33


class StoredNumbers(NamedTuple):
    """Weights or states as they lie in memory; ``low`` of those that are wide."""

    high: Words
    low: Words | None

    def value(self) -> Integers:
        """In units of 2^-28."""
        whole = numbers(Q3_12, self.high) << HALF
        return whole if self.low is None else whole + numbers(Q3_12, self.low)

    def store(self, value: Integers, noise: Integers | None) -> Integers:
        """Store values, narrow ones rounded with random bits if there are some; returns what is stored then."""
        if self.low is None:
            high = halved(value, HALF) if noise is None else value + noise >> HALF
            self.high[...] = saturated(Q3_12, high)
        else:
            value = np.minimum(value, _MOST_WIDE)
            high = value + (1 << HALF - 1) >> HALF
            self.high[...] = saturated(Q3_12, high)
            self.low[...] = saturated(Q3_12, value - (high << HALF))
        return self.value()


class UpdateCounts(NamedTuple):
    """What updating some words has given besides: the generator's state, and how many sums of states and of weights,
    and quotients of Adagrad, were beyond their ends."""

    generator: int
    saturated: int


def _step(state: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The generator's next state."""
    state = state ^ state << np.uint32(13)
    state = state ^ state >> np.uint32(17)
    return state ^ state << np.uint32(5)


def random_words(generator: int, count: int) -> NDArray[np.uint32]:
    """The generator's next states.

    A step is linear over bits, so that states double up: what 2^k steps make of each bit is known from 2^(k-1) steps.
    """
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    jump = _step(bits)
    states = _step(np.array([generator], dtype=np.uint32))
    while len(states) < count:
        states = np.concatenate([states, _linear(jump, states)])
        jump = _linear(jump, jump)
    return states[:count]


def _linear(images: NDArray[np.uint32], states: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A linear map, given by the images of the bits, of states."""
    mapped = np.zeros_like(states)
    for bit, image in enumerate(images):
        mapped ^= np.where(states >> np.uint32(bit) & np.uint32(1), image, np.uint32(0))
    return mapped


def inverse_root(argument: Integers) -> tuple[Integers, Integers]:
    """R and z of arguments from 1 to 2^32 - 1."""
    table = np.array(_table.knots(), dtype=np.int64)
    z = (_table.ARGUMENT_BITS - np.frexp(argument.astype(np.float64))[1].astype(np.int64)) & ~1
    m = argument << z
    s = (m >> _table.LINE_BITS) - _table.FIRST
    d = m >> _table.LINE_BITS - _table.OFFSET_BITS & (1 << _table.OFFSET_BITS) - 1
    line = table[s] + ((table[s + 1] - table[s]) * d >> _table.OFFSET_BITS)
    return line + 2 >> _table.KNOT_FRACTION_BITS - _table.FRACTION_BITS, z


def update(operation: OptimiserOperation, gradient: Words, weights: StoredNumbers, state: StoredNumbers | None, *,
           rate: int,
           decay: int = 0, epsilon: int = 1, generator: int | None = None) -> UpdateCounts:
    """Update weights and their states in place.

    Parameters
    ----------
    gradient : array of words
    weights, state : Number
        Of the same shape; ``state`` is None with SGD.
    rate, decay : int
        As tasks hold them (:class:`~plinth_hw.isa.formats.Factor`).
    epsilon : int
        In units of 2^-28, from 1 on.
    generator : int or None
        State of the generator: what is narrow is rounded at random.
    """
    g = numbers(Q3_12, gradient)
    noise: NDArray[np.uint32] | None = None
    if generator is not None:
        noise = random_words(generator, g.size).reshape(g.shape)
    low, high = (None, None) if noise is None else (
        (noise & np.uint32(0xFFFF)).astype(np.int64), (noise >> np.uint32(HALF)).astype(np.int64))
    beyond = 0
    if state is None:
        quotient = g << HALF + 1
    else:
        adds = operation in SQUARES
        new = state.value() + (g * g << 4) if adds else scaled(state.value(), decay) + (g << HALF)
        clipped = np.clip(new, _LEAST, _MOST)
        beyond += int(np.count_nonzero(clipped != new))
        stored = state.store(clipped, high)
        quotient, outside = _quotient(operation, g, stored, epsilon) if adds else (stored << 1, 0)
        beyond += outside
    new = weights.value() - scaled(quotient, rate, halvings=1)
    clipped = np.clip(new, _LEAST, _MOST)
    weights.store(clipped, low)
    last = 0 if noise is None else int(noise.reshape(-1)[-1])
    return UpdateCounts(last, beyond + int(np.count_nonzero(clipped != new)))


def _quotient(operation: OptimiserOperation, g: Integers, state: Integers, epsilon: int) -> tuple[Integers, int]:
    """Q of Adagrad, and how many were beyond their ends."""
    root, z = inverse_root(np.minimum(np.maximum(state, 0) + epsilon, (1 << _table.ARGUMENT_BITS) - 1))
    product = g * root
    if operation is OptimiserOperation.ADAGRAD:
        quotient = product << (z >> 1)
    else:
        down = _table.FRACTION_BITS + 1 - z
        rounded = halved(product * root, np.maximum(down, 0))
        # So that 64 bits hold it once it is shifted up; what is beyond its ends stays beyond.
        quotient = np.clip(rounded, -2 * _QUOTIENT, 2 * _QUOTIENT) << np.maximum(-down, 0)
    clipped = np.clip(quotient, -_QUOTIENT, _QUOTIENT - 1)
    return clipped, int(np.count_nonzero(clipped != quotient))


def check(operation: OptimiserOperation, body: Any, beat_words: int) -> None:
    """Refuse what the engine refuses.

    Raises
    ------
    BadOperandError
        If there are no words, a pointer that is used or the offset from row to row is no whole number of beats, or
        Adagrad adds nothing to its state.
    """
    if not (body.columns and body.rows):
        raise BadOperandError(f"an update needs rows and columns, not {body.rows} and {body.columns}")
    if (body.stride | body.state_stride) % beat_words:
        raise BadOperandError(f"rows must begin with a beat of {beat_words} words, not {body.stride} and "
                              f"{body.state_stride} words apart")
    if operation in SQUARES and not body.epsilon:
        raise BadOperandError("epsilon must not be 0")


def execute(memory: Words, operation: OptimiserOperation, body: Any, bases: Sequence[int], beat_words: int) -> int:
    """Run a task body on a die's memory, in place; returns how many sums and quotients were beyond their ends.

    Raises
    ------
    BadOperandError
        As :func:`check`.
    IndexError
        If a vector leaves the memory.
    """
    check(operation, body, beat_words)

    def at(pointer: Any) -> int:
        address = bases[pointer.base] + pointer.offset
        if address % beat_words:
            raise BadOperandError(f"vectors must begin with a beat of {beat_words} words, not at word {address}")
        return address

    def vector(pointer: Any, stride: int) -> Words:
        return window(memory, at(pointer), stride, body.rows, body.columns)

    gradient, high = vector(body.gradient, body.stride), vector(body.weights, body.stride)
    weights = StoredNumbers(high, vector(body.weights_low, body.state_stride) if body.wide_weights else None)
    state = None
    if operation is not OptimiserOperation.SGD:
        state = StoredNumbers(vector(body.state, body.state_stride),
                              vector(body.state_low, body.state_stride) if body.wide_state else None)
    seed = window(memory, at(body.generator), 0, 1, 2)[0] if body.stochastic else None
    generator = None if seed is None else int(seed.copy().view(np.uint32)[0])
    updated = update(operation, gradient, weights, state, rate=body.rate, decay=body.decay, epsilon=body.epsilon,
                     generator=generator)
    if seed is not None:
        seed[:] = as_words(np.array([updated.generator], dtype=np.uint32), memory.dtype)
    return updated.saturated
