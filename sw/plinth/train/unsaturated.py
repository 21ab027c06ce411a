"""What is asked of steps with operands of 16 bits in which no number saturates.

Bounds of each step leave room for steps in which numbers saturate, as outputs do late in a run. Where none does but by
the rule, a step is far more exact. It has bounds of its own, and three errors besides, with dW the reference's gradient
of a layer:

    bias     of a layer's bias, |computed - db| / |db|, with bounds times the cancellation, as those of its gradient:
             where a die's part is missing, the layer's weights may hide it; |db| counts as :data:`LEAST_BIAS` of the
             layer's gradient at least
    gain     |<computed, dW> / |dW|^2 - 1|, with bounds times the cancellation: a gradient that is too large or too
             small. Roundings, which go in all directions, hardly show in it, so that its bounds are close
    sample   how much of a sample is missing from a layer's gradient, or too much in it. With g[i] what sample i adds to
             dW, h[i] = g[i] less its projection on dW, and e = computed - dW:
             |<e, h[i]>| / (|h[i]|^2 + mean of |h|^2 / 4), largest of all samples: 0.8 if one of average size is missing

The projection on dW is left out since an error along dW is shared by all samples. A pass for each sample takes long, so
that ``sample`` is asked for in the first :data:`SAMPLE_STEPS` steps only; and in a batch of more than :data:`SAMPLES`
samples the roundings of all are as large as one of them, so that it is not asked for at all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.train.stored import norm

Doubles = NDArray[np.float64]

#: A bias whose gradient is less than this share of its layer's is compared with that share.
LEAST_BIAS = 0.05
#: Samples of a batch at most of which one that is missing stands out from the roundings of all, and steps of a run in
#: which each of them is looked at.
SAMPLES, SAMPLE_STEPS = 128, 7


@dataclass(frozen=True)
class UnsaturatedBounds:
    """What each step in which nothing saturates may be off; of ``sample`` None: it is not asked for."""

    prediction: float
    gradient: float
    bias: float
    gain: float
    sample: float | None


#: By number format; FP32's every step is bounded more closely (docs/software.md has what was measured).
UNSATURATED_BOUNDS = {
    "mixed": UnsaturatedBounds(prediction=5e-3, gradient=8e-3, bias=0.01, gain=4e-3, sample=None),
    "fixed": UnsaturatedBounds(prediction=5e-3, gradient=0.04, bias=0.05, gain=6e-3, sample=0.35),
}


def bias_error(computed: Doubles, wanted: Doubles, size: int) -> float:
    """How far the gradient of a layer's bias, its last ``size`` elements, is off."""
    if not size:
        return 0.0
    least = norm(wanted) * LEAST_BIAS
    return float(np.linalg.norm(computed[-size:] - wanted[-size:])) / max(norm(wanted[-size:]), least)


def gain_error(computed: Doubles, wanted: Doubles) -> float:
    """How much too large or too small a gradient is along the one that is wanted, of its size."""
    return abs(float(computed @ wanted) / norm(wanted) ** 2 - 1) if wanted.any() else 0.0


def sample_errors(computed: Sequence[Doubles], wanted: Sequence[Doubles], samples: Iterable[Sequence[Doubles]]
                  ) -> Iterator[float]:
    """The most that a sample's gradient of each layer may be missing.

    Parameters
    ----------
    computed, wanted : sequence of array
        Gradients of each layer, flat.
    samples : iterable of sequence of array
        What each sample adds to ``wanted``, likewise.
    """
    errors = [own - gradient for own, gradient in zip(computed, wanted, strict=True)]
    # Of each sample and layer <e, g>, <G, g>, <g, g>.
    products = np.array([[(error @ part, gradient @ part, part @ part)
                          for error, gradient, part in zip(errors, wanted, parts, strict=True)] for parts in samples])
    for error, gradient, (along_error, along_gradient, squares) in zip(
            errors, wanted, np.moveaxis(products, 0, 2), strict=True):
        whole = max(float(gradient @ gradient), np.finfo(np.float64).tiny)
        apart = np.maximum(squares - along_gradient**2 / whole, 0.0)
        sizes = apart + apart.mean() / 4
        missing = np.abs(along_error - (error @ gradient) * along_gradient / whole)
        yield float((missing[sizes > 0] / sizes[sizes > 0]).max(initial=0.0))


@dataclass
class UnsaturatedSteps:
    """Largest errors of steps in which nothing saturates.

    Parameters
    ----------
    bounds : UnsaturatedBounds
    """

    bounds: UnsaturatedBounds

    def __post_init__(self) -> None:
        self.largest = dict.fromkeys(asdict(self.bounds), 0.0)
        #: Steps that were judged.
        self.judged = 0

    def allowed(self, name: str) -> float | None:
        """What an error may be over its factor; None of one that is not asked for here."""
        bound: float | None = getattr(self.bounds, name, None)
        return bound

    def to_data(self) -> dict[str, Any]:
        """How many steps were judged; for each error its largest over its factor, and its bound."""
        return {"judged": self.judged, "errors": {
            name: {"largest": largest, "largest_allowed": bound} for name, largest in self.largest.items()
            if (bound := self.allowed(name)) is not None}}
