"""Variables that layers train, each with named axes, the values it begins with, and how its gradient arises.

A variable is data; :mod:`plinth.network.parameters` draws first values, and holds arrays by the variables' names.
"""

from dataclasses import dataclass
from enum import Enum
from math import prod, sqrt

from plinth.network.shape import Shape
from plinth.network.sparse.pattern import SparsePattern

#: Names of axes: channels or features that a layer reads and gives.
INPUTS, OUTPUTS = "inputs", "outputs"
#: Name of the axis of the entries of a sparse matrix, row by row.
NONZEROS = "nonzeros"


class Gradient(Enum):
    """How a variable's gradient arises."""

    #: Every element has one in each step.
    DENSE = "dense"
    #: Only the rows whose numbers the step's samples name have one.
    ROWS = "rows"
    #: Only the entries of a matrix that a fixed pattern has are there, and have one.
    PATTERN = "pattern"


@dataclass(frozen=True)
class ConstantValue:
    """First values: all the same."""

    value: float = 0.0


@dataclass(frozen=True)
class Normal:
    """First values: independent and normal, of mean 0."""

    deviation: float


@dataclass(frozen=True)
class TilesOfNormal:
    """First values: elements of the Winograd tiles F(``outputs``, kernel) that do what a kernel of normal ones does."""

    deviation: float
    #: Its taps, [rows, columns].
    kernel: tuple[int, int]
    outputs: int


@dataclass(frozen=True)
class PatternValues:
    """First values: those of a sparse layer's matrix, row by row."""

    pattern: SparsePattern


Initial = ConstantValue | Normal | TilesOfNormal | PatternValues


@dataclass(frozen=True)
class Variable:
    """An array that a layer trains.

    Parameters
    ----------
    name : str
        Within its layer: ``"weights"``, ``"bias"``.
    axes : tuple of str
        Name of each axis, outermost first. A matrix ends in what the layer reads and what it gives, and has its taps
        before; what each output has one of, a factor or a summand, has that axis alone, and entries of a sparse matrix
        are one axis.
    shape : Shape
        Elements of each axis.
    initial : ConstantValue, Normal, TilesOfNormal or PatternValues
        The values it begins with.
    gradient : Gradient
        How its gradient arises.
    added : bool
        Whether it is added to each output, so that its gradient is a sum of errors; it lies behind all others.
    """

    name: str
    axes: tuple[str, ...]
    shape: Shape
    initial: Initial
    gradient: Gradient = Gradient.DENSE
    added: bool = False

    @property
    def elements(self) -> int:
        """The number of elements, over all axes."""
        return prod(self.shape)

    def qualified(self, layer: str) -> str:
        """The variable's name in a network, that of its layer and its own: unique, as no name of a variable has a
        dot."""
        return f"{layer}.{self.name}"


def deviation(shape: Shape) -> float:
    """Standard deviation of first weights ``[.., inputs, outputs]`` (He et al., "Delving Deep into Rectifiers", 2015,
    equation 10)."""
    return sqrt(2.0 / prod(shape[:-1]))


def weights(inputs: int, outputs: int, kernel: tuple[int, ...] = ()) -> Variable:
    """The matrix of each tap of a kernel, [rows, columns], or the one of a fully connected layer."""
    shape = Shape((*kernel, inputs, outputs))
    return Variable("weights", (*(("kernel rows", "kernel columns") if kernel else ()), INPUTS, OUTPUTS), shape,
                    Normal(deviation(shape)))


def bias(outputs: int, value: float = 0.0) -> Variable:
    """Make the variable that is added to each of some outputs, of the same value at first."""
    return Variable("bias", (OUTPUTS,), Shape((outputs,)), ConstantValue(value), added=True)
