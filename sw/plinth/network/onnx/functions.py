"""What groups of nodes that work element by element compute: found out by computing it at some points.

Exporters write one function in many orders of sums and products; its values do not depend on them.
"""

from collections.abc import Callable, Mapping, Sequence
from math import erf, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.network.layers import TANH
from plinth.network.onnx.proto import OnnxNode, small_values

Array = NDArray[np.float64]

#: Operators of two operands that groups are made of.
ARITHMETIC: Mapping[str, Callable[..., Array]] = {"Add": np.add, "Mul": np.multiply, "Div": np.divide, "Pow": np.power}
_erf = np.vectorize(erf, otypes=[np.float64])
_FUNCTIONS: Mapping[str, Callable[..., Array]] = {"Tanh": np.tanh, "Erf": _erf}
#: Where functions are compared, and how near their values must be: constants of files are rounded to FP32, and the two
#: forms of GELU are up to 0.00047 apart.
_POINTS, _NEAR = np.linspace(-6, 6, 49), 1e-5


def _computed(nodes: Sequence[OnnxNode], source: str, tensor: Callable[[str], Any]) -> Array | None:
    """What the last of some nodes gives; None if a constant is no single number of the file, or an operator is none of
    those that are known."""
    values: dict[str, Any] = {source: _POINTS}
    for node in nodes:
        function, count = ARITHMETIC.get(node.operator), 2
        if function is None:
            function, count = _FUNCTIONS.get(node.operator), 1
        for name in node.inputs:
            if name not in values:
                constant = tensor(name)
                values[name] = None if constant is None else small_values(constant)
                values[name] = float(values[name][0]) if values[name] and len(values[name]) == 1 else None
        operands = [values[name] for name in node.inputs]
        if function is None or len(operands) != count or any(operand is None for operand in operands):
            return None
        with np.errstate(all="ignore"):
            values[node.key] = function(*operands)
    return np.broadcast_to(values[nodes[-1].key], _POINTS.shape)


def gelu_form(nodes: Sequence[OnnxNode], source: str, tensor: Callable[[str], Any]) -> str | None:
    """The form of GELU that some nodes compute.

    Parameters
    ----------
    nodes : sequence of Node
        Each behind those that feed it; what is asked about is the last one's output.
    source : str
        The one tensor that they read beside constants.
    tensor : callable
        The constant of a name; None: there is none.

    Returns
    -------
    str or None
        ``"tanh"`` or ``"none"`` (by the error function), as ONNX calls them; None if it is no GELU.
    """
    computed, x = _computed(nodes, source, tensor), _POINTS
    for form, doubled in ((TANH, 1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))), ("none", 1 + _erf(x / sqrt(2)))):
        if computed is not None and np.allclose(computed, x / 2 * doubled, rtol=0, atol=_NEAR):
            return form
    return None
