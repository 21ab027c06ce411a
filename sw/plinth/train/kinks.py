"""Kinks that the dies decide: how many, what gradients differ by on the other side, and how many may be.

At a kink (a ReLU's input of 0, equal taps of a max-pool) both subgradients are right. Where a sum is so near to it that
roundings decide, the reference takes the dies' side. What it cannot see for that is bounded by the share of those::

    share        kinks at which the dies' side was taken / ReLUs and windows of max-pools
    difference   |dW - dW'| / |dW|, largest of all layers; dW' the gradient on float64's own side of every kink
"""

from dataclasses import dataclass, field

from plinth.network.parameters import ReferenceStep

#: Largest share of a step's kinks that the dies may decide, unless the job says otherwise, by
#: ``DieParameters.number_format``: half of what F(4,3) leaves to roundings on black pixels with zero biases, and twice
#: what roundings of 16 bits decide by chance in overlapping windows of a max-pool (docs/software.md).
SHARES = {"fp32": 0.01, "mixed": 0.1, "fixed": 0.1}


@dataclass
class Kinks:
    """Kinks of a run's steps.

    Parameters
    ----------
    allowed : float
        Largest share of a step's kinks that the dies may decide.
    remedy : str
        What leaves fewer to them.
    """

    allowed: float = SHARES["fp32"]
    remedy: str = ("layers by F(4,3) need a bias that is not 0 where samples are: choose winograd=2 or off, or allow "
                   "as many")
    #: At which the dies' side was taken, over all steps.
    decided: int = 0
    #: By step.
    shares: list[float] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)

    def count(self, step: ReferenceStep) -> str | None:
        """Take a step in; what is wrong with it, if the dies decided more than they may."""
        share = step.kinks / step.kinked if step.kinked else 0.0
        self.decided += step.kinks
        self.shares.append(share)
        self.differences.append(step.kink_difference)
        if share <= self.allowed:
            return None
        return (f"dies decide {share:.2%} of the kinks, beyond {self.allowed:.2%}, and with the other side a gradient "
                f"differs by {step.kink_difference:.2g}; {self.remedy} with kinks={_above(share):g}")

    def to_data(self) -> dict[str, dict[str, float]]:
        """Share and difference: the largest and the mean over steps, and the bound."""
        return {"kink_share": _over_steps(self.shares) | {"largest_allowed": self.allowed},
                "kink_difference": _over_steps(self.differences)}


def bounded(number_format: str, allowed: float | None) -> Kinks:
    """Kinks of a run in a number format, none counted yet, of which the dies may decide the share ``allowed``; None:
    as :data:`SHARES` says."""
    allowed = SHARES[number_format] if allowed is None else allowed
    return Kinks(allowed) if number_format == "fp32" else Kinks(
        allowed, "16 bits tell fewer apart: choose format=fp32, or allow as many")


def _over_steps(values: list[float]) -> dict[str, float]:
    return {"largest": max(values, default=0.0), "mean": sum(values) / max(1, len(values))}


def _above(share: float) -> float:
    """A share of two decimals that is not below."""
    return min(1.0, round(share + 0.005, 2))
