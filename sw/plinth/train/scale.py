"""Factors on samples and targets, and the range that a number format holds of what is given to dies.

Samples are the first layer's operands; targets are taken from what the network predicts. Held is of each number format

    fixed   what Q3.12 holds
    mixed   samples: what FP16 holds; targets: those whose errors, as dies scale them, FP16 holds
    fp32    numbers up to 2^60, so that sums of some products of two of them stay below FP32's 2^128

A scale of ``auto`` is the power of two by which the largest magnitude comes to lie above 1/2 and up to 1: it rounds
nothing, whatever the format, and is the same for all formats.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError, quoted
from plinth.step.step import loss_scale
from plinth_hw.isa.formats import Fixed, Float, Format

#: Largest magnitude of samples, targets, weights and states of FP32 dies.
FP32_MOST = 2.0**60
#: Exponents that `auto` keeps to: far beyond FP32's.
MAXIMUM_EXPONENT = 1000
_NUMBER = r"(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,3})?"


@dataclass(frozen=True)
class Scale:
    """Factors on samples and on targets. Printed as ``--scale`` takes them.

    Raises
    ------
    ValueError
        If one is not above 0 and finite.
    """

    inputs: float = 1.0
    targets: float = 1.0

    def __post_init__(self) -> None:
        for factor in (self.inputs, self.targets):
            if not 0 < factor < math.inf:
                raise ValueError(f"a scale must be above 0 and finite, not {factor}")

    def __str__(self) -> str:
        return f"{self.inputs:.17g}" + ("" if self.targets == 1 else f",{self.targets:.17g}")


#: As samples and targets are given.
UNSCALED = Scale()


def parse_scale(text: str) -> Scale | None:
    """``0.5``, of samples, or ``0.5,0.01``, of samples and of targets; None for ``auto``.

    Raises
    ------
    UserError
        If it is none of these.
    """
    if text == "auto":
        return None
    if not re.fullmatch(rf"{_NUMBER}(,{_NUMBER})?", text):
        raise UserError(f"scale={quoted(text, 40)} is neither auto nor a factor on samples, as 0.0039, nor one on "
                        "samples and one on targets, as 0.0039,0.01")
    try:
        return Scale(*map(float, text.split(",")))
    except ValueError as error:
        raise UserError(f"scale={text}: {error}; give auto, or another factor") from None


def largest(values: NDArray[Any]) -> float:
    """The largest magnitude of an array's values; 0 of an empty one, NaN if one is."""
    return max(abs(float(values.min())), abs(float(values.max()))) if values.size else 0.0


def automatic(values: NDArray[Any]) -> float:
    """The power of two by which the largest magnitude is above 1/2 and at most 1; 1 if all values are 0."""
    fraction, exponent = math.frexp(largest(values))
    exponent -= fraction == 0.5
    return math.ldexp(1.0, -max(-MAXIMUM_EXPONENT, min(exponent, MAXIMUM_EXPONENT))) if fraction else 1.0


@dataclass(frozen=True)
class Held:
    """The range of numbers that a format holds.

    Parameters
    ----------
    least, most : float
        Ends of the range.
    unit : float
        The smallest number above 0; half of it is rounded to 0.
    what : str
        Whose range it is, for messages.
    room : float
        How far beyond an end numbers lie that are rounded to it.
    """

    least: float
    most: float
    unit: float
    what: str
    room: float = 0.0

    def __str__(self) -> str:
        return f"{self.least:.6g} to {self.most:.6g}"

    def beyond(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which values the format makes infinite or, of fixed point, its least or largest number."""
        return np.asarray((values > self.most + self.room) | (values < self.least - self.room))

    def has(self, values: NDArray[Any]) -> bool:
        """Whether it holds all values; needs no memory."""
        return not values.size or not self.beyond(np.array([values.min(), values.max()], np.float64)).any()


#: What FP32 itself holds: samples of a computation on the host.
STORED = Held(-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max),
              float(np.finfo(np.float32).smallest_subnormal), "FP32")


def _float_range(fmt: Float) -> tuple[float, float]:
    """The largest number of a floating-point format, and the smallest above 0."""
    return (2 - 2.0**-fmt.fraction_bits) * 2.0**fmt.bias, 2.0 ** (1 - fmt.bias - fmt.fraction_bits)


def held_operands(operands: Format, name: str) -> Held:
    """What dies take of samples, weights and states.

    Parameters
    ----------
    operands : Format
        Of the matrix engine.
    name : str
        What users call it (``DieParameters.number_format``).
    """
    if isinstance(operands, Fixed):
        unit = 2.0**-operands.fraction_bits
        return Held(operands.least * unit, operands.most * unit, unit, f"format {name}", unit / 2)
    most, unit = _float_range(operands)
    most = most if operands.bits < 32 else FP32_MOST
    return Held(-most, most, unit, f"format {name}")


def held_targets(operands: Format, name: str, errors: int) -> Held:
    """What dies hold of targets, whose error is their distance from what is predicted, times 2 over ``errors``, the
    number of targets of a batch, times the scale of errors."""
    held = held_operands(operands, name)
    if isinstance(operands, Fixed) or operands.bits == 32:
        return held
    most = held.most * errors / (2 * loss_scale(operands))
    return Held(-most, most, 0.0, f"{held.what}, with {errors} targets a batch,")


@dataclass(frozen=True)
class Conversion:
    """How samples and targets become numbers of dies.

    Parameters
    ----------
    scale : Scale or None
        Factors; None: the automatic ones.
    inputs, targets : Held
        Ranges that are held.
    """

    scale: Scale | None = UNSCALED
    inputs: Held = STORED
    targets: Held = STORED

    def scaled(self, x: NDArray[Any] | None, y: NDArray[Any] | None, where: str
               ) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None, Scale]:
        """Samples (None: row numbers) and targets (None: there are classes) times their factors, and these.

        Raises
        ------
        UserError
            If values are not finite, or beyond what is held, or all of them round to 0; or classes would be scaled.
        """
        if y is None and self.scale is not None and self.scale.targets != 1:
            raise UserError(f"{where}: y are classes, which are not scaled, by {self.scale.targets:.6g} neither; give "
                            "scale= one factor, of samples")
        for name, values in (("x", x), ("y", y)):
            if values is not None and not np.isfinite(values).all():
                raise UserError(f"{where}: {name} has values that are not finite in {_samples(~np.isfinite(values))}; "
                                "mend or drop these samples")
        scale = self.scale or Scale(*(1.0 if values is None else automatic(values) for values in (x, y)))
        return (None if x is None else _held("x", x, scale.inputs, self.inputs, where),
                None if y is None else _held("y", y, scale.targets, self.targets, where), scale)


def _held(name: str, values: NDArray[Any], factor: float, held: Held, where: str) -> NDArray[np.float32]:
    """Values times a factor, rounded to FP32, if all are held."""
    scaled = values
    if factor != 1:
        # Rounded once, and in the range of what is given.
        scaled = values.astype(np.float64)
        with np.errstate(over="ignore", under="ignore"):
            scaled *= factor
    remedy = f"give scale=auto, which takes {name} times 2^{math.frexp(automatic(values))[1] - 1}"
    if not held.has(scaled):
        beyond, times = held.beyond(scaled), "" if factor == 1 else f" times {factor:.6g}"
        raise UserError(f"{where}: {name}{times} is from {scaled.min():.6g} to {scaled.max():.6g}, beyond the {held} "
                        f"that {held.what} holds, in {_samples(beyond)}; {remedy}, or another format=")
    if largest(values) and largest(scaled) <= held.unit / 2:
        raise UserError(f"{where}: {name} has no value that {held.what} tells from 0: the largest magnitude is "
                        f"{largest(scaled):.6g}, the smallest number {held.unit:.6g}; {remedy}")
    return scaled.astype(np.float32)


def _samples(which: NDArray[np.bool_]) -> str:
    """How many samples have such values, and the first one's number."""
    samples = np.flatnonzero(which.reshape(len(which), -1).any(axis=1))
    return f"sample {samples[0]}" if len(samples) == 1 else (
        f"{len(samples)} of {len(which)} samples, sample {samples[0]} first")
