"""Ranges of learning rate and epsilon that dies of a number format can hold, and the words that tasks have for them.

With gradients that are larger by the scale of errors, what dies hold are those of :meth:`UpdateRule.scaled`::

    FP32    rate, epsilon      FP32 numbers; only normal ones, whose inverse is finite as well
    Q3.12   rate               mantissa / 2^shift (:class:`~plinth_hw.isa.formats.Factor`), and, unless they are rounded
                               at random, so large that the largest step there is changes a weight
            epsilon            whole units of 2^-28, 32 bits
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context

import numpy as np

from plinth.errors import UserError
from plinth.update.rule import UpdateRule
from plinth_hw.isa.formats import Q3_12, Factor, Fixed, Format
from plinth_hw.isa.limits import field_bits
from plinth_hw.isa.update_bodies import OptimiserBody

#: The last place of states, and the most that is added to them.
STATE_UNIT, MOST_EPSILON = 2.0**-28, (1 << field_bits(OptimiserBody, "epsilon")) - 1
#: Shift and mantissa of the least and largest factor.
_MOST_SHIFT, _MOST_MANTISSA = ((1 << Factor.FIELDS[name].shape.bits) - 1 for name in ("shift", "mantissa"))
#: The last place of weights that are not held wide; of others it is that of states.
_NARROW_PLACE = 2.0**-Q3_12.fraction_bits
#: The most that a rate is multiplied by where the rule says nothing else: a gradient or momentum.
_MOST_GRADIENT = 2.0**Q3_12.integer_bits
#: Two digits of a bound, inside of it.
_DIGITS_UP, _DIGITS_DOWN = Context(2, ROUND_CEILING), Context(2, ROUND_FLOOR)
_FP32 = (float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max))
#: Least and largest number, by name of the rule's number.
_FLOAT_RANGES = {"rate": _FP32, "epsilon": _FP32}


def _fixed_ranges(rule: UpdateRule) -> dict[str, tuple[float, float]]:
    """The least and the largest rate and epsilon that dies of Q3.12 hold."""
    place = STATE_UNIT if rule.wide else _NARROW_PLACE
    least = 0.0 if rule.stochastic and not rule.wide else place / 2 / (rule.law.most_step or _MOST_GRADIENT)
    return {"rate": (max(2.0**-_MOST_SHIFT, least), float(_MOST_MANTISSA)),
            "epsilon": (STATE_UNIT, MOST_EPSILON * STATE_UNIT)}


def check_numbers(rule: UpdateRule, scale: float, fmt: Format) -> None:
    """Refuse a rate or an epsilon that is 0, or too large, in a memory format.

    Parameters
    ----------
    rule : UpdateRule
        For the loss's own gradients.
    scale : float
        How much larger gradients are in memory.

    Raises
    ------
    UserError
        With the least and the largest number that the format holds.
    """
    unit = UpdateRule(rule.kind, rate=1.0, epsilon=1.0).scaled(scale)
    for name, (least, most) in (_fixed_ranges(rule) if isinstance(fmt, Fixed) else _FLOAT_RANGES).items():
        value, factor = getattr(rule, name), getattr(unit, name)
        if (name == "rate" or name in rule.law.numbers) and not least <= value * factor <= most:
            raise UserError(
                f"{name} {value:g} of update {rule.kind!r} is {'below' if value * factor < least else 'above'} what "
                f"{'Q3.12' if isinstance(fmt, Fixed) else 'FP32'} holds; give {name}= from "
                f"{_DIGITS_UP.create_decimal_from_float(least / factor):g} to "
                f"{_DIGITS_DOWN.create_decimal_from_float(most / factor):g}")


def epsilon_word(rule: UpdateRule) -> int:
    """The word of an optimiser task for a rule's epsilon; the rule is the one for gradients as they are in memory."""
    return min(max(1, round(rule.epsilon / STATE_UNIT)), MOST_EPSILON)
