"""The float64 reference by pairs: weights, and the bias if there is one, of each layer that trains something, in order.

Functions have the names of :mod:`plinth_sim.golden.reference`, which takes the same by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from plinth_sim.golden import reference
from plinth_sim.golden.reference import ReferenceLayer

Array = NDArray[Any]
Pair = tuple[Array, Array | None]

#: Kinds of layers that train something.
WEIGHTED = ("dense", "convolution", "winograd", "affine", "embedding")


@dataclass(frozen=True)
class Gradients:
    """What the reference finds, with gradients as pairs and sizes in order."""

    named: reference.Gradients
    layers: list[Pair]
    sizes: list[float]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.named, name)


def _weighted(layers: Sequence[ReferenceLayer]) -> list[str]:
    return [layer.name for layer in layers if layer.kind in WEIGHTED]


def _named(layers: Sequence[ReferenceLayer], pairs: Sequence[Pair]) -> dict[str, Array]:
    return {f"{name}.{what}": values for name, pair in zip(_weighted(layers), pairs, strict=True)
            for what, values in zip(("weights", "bias"), pair, strict=True) if values is not None}


def forward(layers: Sequence[ReferenceLayer], pairs: Sequence[Pair], x: Array) -> Mapping[str, Array]:
    """Outputs by layer."""
    return reference.forward(layers, _named(layers, pairs), x)


def outputs(layers: Sequence[ReferenceLayer], pairs: Sequence[Pair], x: Array) -> Mapping[str, Any]:
    """Outputs by layer, with what roundings of them are relative to."""
    return reference._run(layers, _named(layers, pairs), x)


def loss(layers: Sequence[ReferenceLayer], pairs: Sequence[Pair], x: Array, targets: Array) -> float:
    """The loss."""
    return reference.loss(layers, _named(layers, pairs), x, targets)


def gradients(layers: Sequence[ReferenceLayer], pairs: Sequence[Pair], *args: Any) -> Gradients:
    """Forwards and backwards."""
    named = reference.gradients(layers, _named(layers, pairs), *args)
    names = _weighted(layers)
    return Gradients(named, [(named.variables[f"{name}.weights"], named.variables.get(f"{name}.bias"))
                             for name in names], [named.scales.gradients[name] for name in names])
