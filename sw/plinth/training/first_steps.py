"""What is asked of the first steps of a run with operands of 16 bits, before there are medians.

Bounds of each step leave room for steps in which numbers saturate, as outputs do late in a run. Where none does, a step
is far more exact: first steps of a run that starts from initial weights have bounds of their own, unless a number is
beyond the format, and two errors besides:

    bias     of a layer's bias, |found - db| / |db|, with bounds times the cancellation, as those of its gradient: where
             a die's part is missing, the layer's weights may hide it; |db| counts as :data:`LEAST_BIAS` of the layer's
             gradient at least
    sample   how much of a sample is missing from a layer's gradient, or too much in it. With g[i] what sample i adds to
             the reference's gradient G, h[i] = g[i] less its projection on G, and e = found - G:
             |<e, h[i]>| / (|h[i]|^2 + mean of |h|^2 / 4), largest of all samples: 0.8 if one of average size is missing

The projection on G is left out since an error along G is shared by all samples. In a batch of more than
:data:`SAMPLES` samples the roundings of all are as large as one of them, so that ``sample`` is not asked for.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.training.stored import norm

Doubles = NDArray[np.float64]

#: A bias whose gradient is less than this share of its layer's is compared with that share.
LEAST_BIAS = 0.05
#: Samples of a batch at most of which one that is missing stands out from the roundings of all.
SAMPLES = 128


@dataclass(frozen=True)
class FirstBounds:
    """What each of the first steps may be off; of ``sample`` None: it is not asked for."""

    prediction: float
    gradient: float
    bias: float
    sample: float | None


#: By number format; FP32's every step is bounded as closely (docs/software.md has what was measured).
FIRST_BOUNDS = {
    "mixed": FirstBounds(prediction=3e-3, gradient=8e-3, bias=0.01, sample=None),
    "fixed": FirstBounds(prediction=5e-3, gradient=0.04, bias=0.05, sample=0.35),
}


def bias_error(found: Doubles, wanted: Doubles, size: int) -> float:
    """How far the gradient of a layer's bias, its last ``size`` elements, is off."""
    if not size:
        return 0.0
    least = norm(wanted) * LEAST_BIAS
    return float(np.linalg.norm(found[-size:] - wanted[-size:])) / max(norm(wanted[-size:]), least)


def sample_errors(found: Sequence[Doubles], wanted: Sequence[Doubles], samples: Iterable[Sequence[Doubles]]
                  ) -> Iterator[float]:
    """Of each layer, how much of a sample is missing at most.

    Parameters
    ----------
    found, wanted : sequence of array
        Gradients of each layer, flat.
    samples : iterable of sequence of array
        What each sample adds to ``wanted``, likewise.
    """
    errors = [own - gradient for own, gradient in zip(found, wanted, strict=True)]
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
class FirstSteps:
    """Largest errors of the first steps.

    Parameters
    ----------
    bounds : FirstBounds
    """

    bounds: FirstBounds

    def __post_init__(self) -> None:
        self.largest = dict.fromkeys(asdict(self.bounds), 0.0)
        #: Steps that were judged.
        self.judged = 0

    def allowed(self, name: str) -> float | None:
        """What an error may be over its factor; None of one that first steps are not asked for."""
        bound: float | None = getattr(self.bounds, name, None)
        return bound

    def to_data(self) -> dict[str, Any]:
        """How many steps were judged; for each error its largest over its factor, and its bound."""
        return {"judged": self.judged, "errors": {
            name: {"largest": largest, "allowed": bound} for name, largest in self.largest.items()
            if (bound := self.allowed(name)) is not None}}
