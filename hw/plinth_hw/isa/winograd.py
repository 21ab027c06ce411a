"""Winograd's minimal filtering: exact matrices from one generator, and where the tiles of a map lie.

F(m, r) makes m outputs of a filter of r taps, y_i = sum_k w_k d_(i+k), of T = m + r - 1 products:

    y = A^T [(G w) * (B^T d)]               A^T [m, T],  G [T, r],  B^T [T, T]

It is Toom-Cook's product of polynomials, transposed. With points p_0 .. p_(T-2), f_t = prod_(s != t) (p_t - p_s) and
L_t = prod_(s != t) (x - p_s), coefficients by rising powers of x:

    A^T[i, t] = p_t^i                       its last column: 1 for i = m - 1, else 0
    G[t, k] = p_t^k / |f_t|                 its last row: 1 for k = r - 1, else 0
    B^T[t] = L_t, negated if f_t < 0        its last row: prod_s (x - p_s)

Of a map, F(m, r) down and F(m', r') across are nested; a kernel of one row or column has F(1, 1), which is 1, in that
direction. Tiles of inputs and of outputs, and their transposes, which errors take on the way back, are of one kind:
windows of ``reach`` places, ``step`` from one to the next, and a matrix M that makes T places of each
(:class:`Lattice`)::

    scatter     X = M d M'^T                of each window d of a map
    gather      M^T X M'                    of each tile, added up where windows overlap

    forward     scatter on the inputs' lattice, M = B^T; products with W; gather on the outputs' lattice, M = A
    backward    scatter on the outputs' lattice; products with W and with X; gather on the inputs' lattice

Sources: MPT section II.B, which names the transforms but not their matrices; S. Winograd, Arithmetic Complexity of
Computations, 1980, for transposing Toom-Cook's algorithm.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = tuple[tuple[Fraction, ...], ...]
Pair = tuple[int, int]

#: What m can be for a kernel; where the kernel has one tap, m is 1.
OUTPUTS: dict[Pair, tuple[int, ...]] = {(3, 3): (2, 4), (5, 5): (2,), (3, 1): (2,), (1, 3): (2,)}


@dataclass(frozen=True)
class Transform:
    """The matrices of F(``outputs``, ``taps``).

    Attributes
    ----------
    outputs, taps : int
        m and r.
    a, g, b : Matrix
        A^T, ``[m, T]``; G, ``[T, r]``; B^T, ``[T, T]``. A^T and B^T are of integers up to T = 6.
    """

    outputs: int
    taps: int
    a: Matrix
    g: Matrix
    b: Matrix

    @property
    def size(self) -> int:
        """T, the products."""
        return self.outputs + self.taps - 1


@lru_cache(maxsize=256)
def transform(outputs: int, taps: int) -> Transform:
    """F(``outputs``, ``taps``).

    Raises
    ------
    ValueError
        If a size is not positive.
    """
    if outputs < 1 or taps < 1:
        raise ValueError(f"outputs and taps must be positive, not {outputs} and {taps}")
    points = list(islice(_points(), outputs + taps - 2))
    g, b = [], []
    for point in points:
        others = [other for other in points if other != point]
        scale = prod((point - other for other in others), start=Fraction(1))
        g.append(tuple(point**power / abs(scale) for power in range(taps)))
        b.append(tuple(value if scale > 0 else -value for value in (*_coefficients(others), Fraction(0))))
    a = [*(tuple(point**power for power in range(outputs)) for point in points), _last(outputs)]
    return Transform(outputs, taps, transposed(tuple(a)), (*g, _last(taps)), (*b, _coefficients(points)))


def _points() -> Iterator[Fraction]:
    """0, 1, -1, 2, -2, 1/2, -1/2, 3, ...: their powers and differences are small."""
    yield Fraction(0)
    yield from (Fraction(1), Fraction(-1))
    number = 2
    while True:
        yield from (Fraction(number), Fraction(-number), Fraction(1, number), Fraction(-1, number))
        number += 1


def _last(count: int) -> tuple[Fraction, ...]:
    """The highest power alone: a polynomial at infinity."""
    return (*(Fraction(0),) * (count - 1), Fraction(1))


def _coefficients(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Of prod (x - root), by rising powers."""
    coefficients: tuple[Fraction, ...] = (Fraction(1),)
    for root in roots:
        coefficients = tuple(low - root * high for low, high in zip(
            (Fraction(0), *coefficients), (*coefficients, Fraction(0)), strict=True))
    return coefficients


def transposed(matrix: Matrix) -> Matrix:
    """Its rows as columns."""
    return tuple(zip(*matrix, strict=True))


#: Transforms that dies can have, as F(m, r).
TRANSFORMS: tuple[Pair, ...] = ((2, 3), (4, 3), (2, 5))
#: Sides of blocks whose places go as they are, by a matrix 1 as large.
PLAIN: tuple[int, ...] = (2, 4)
#: Matrices that tasks name by their numbers: 1, B^T, A, B, A^T of each transform, and those of :data:`PLAIN`.
MATRICES: tuple[Matrix, ...] = (transform(1, 1).a, *(
    matrix for winograd in (transform(*sizes) for sizes in TRANSFORMS)
    for matrix in (winograd.b, transposed(winograd.a), transposed(winograd.b), winograd.a)), *(
    tuple(tuple(Fraction(row == column) for column in range(side)) for row in range(side)) for side in PLAIN))
#: Numbers of matrices 1 by their sides.
PLAIN_NUMBERS: dict[int, int] = {1: 0} | {
    side: 1 + 4 * len(TRANSFORMS) + place for place, side in enumerate(PLAIN)}

#: Of these, those that make neurons of elements: 1, and each A^T.
FROM_ELEMENTS: tuple[int, ...] = (0, *(4 * place + 4 for place in range(len(TRANSFORMS))))


def matrix_numbers(transforms: Sequence[Pair]) -> tuple[int, ...]:
    """Of :data:`MATRICES`, those that dies with some transforms have: numbers, rising."""
    numbers = (1 + 4 * TRANSFORMS.index(sizes) + place for sizes in sorted(transforms, key=TRANSFORMS.index)
               for place in range(4))
    return (0, *numbers, *(PLAIN_NUMBERS[side] for side in PLAIN if transforms))


def plain_sides(places: int) -> Pair | None:
    """Sides of a block of so many places that go as they are; None: there is no such block."""
    return next(((down, across) for down in reversed(PLAIN_NUMBERS) for across in PLAIN_NUMBERS
                 if down * across == places and across <= down), None)


def terms(row: Sequence[Fraction]) -> list[tuple[int, int]]:
    """Columns and signed powers of two whose products are added up: of a coefficient one for each of its ones, the
    largest first.

    Raises
    ------
    ValueError
        If a coefficient is no integer, or all are zero.
    """
    powers = []
    for column, coefficient in enumerate(row):
        if coefficient.denominator != 1:
            raise ValueError(f"a coefficient must be an integer, not {coefficient}")
        size, sign = abs(coefficient.numerator), 1 if coefficient > 0 else -1
        powers += [(column, sign << bit) for bit in reversed(range(size.bit_length())) if size >> bit & 1]
    if not powers:
        raise ValueError("a row of a matrix must not be all zero")
    return powers


@dataclass(frozen=True)
class Lattice:
    """Windows along one side of a map, and what makes tiles of them.

    Attributes
    ----------
    matrix : Matrix
        M, ``[T, reach]``.
    step : int
        Places from a window to the next.
    first : int
        Place of the map at which window 0 begins: negative with padding. What lies outside the map is 0.
    count : int
        Windows.
    """

    matrix: Matrix
    step: int
    first: int
    count: int

    @property
    def size(self) -> int:
        """T, places of a tile."""
        return len(self.matrix)

    @property
    def reach(self) -> int:
        """Places of a window."""
        return len(self.matrix[0])


@dataclass(frozen=True)
class Form:
    """How a convolution of stride 1 is computed: F(m, r) down and across.

    Attributes
    ----------
    transforms : pair of Transform
        Down, across.
    """

    transforms: tuple[Transform, Transform]

    @property
    def sides(self) -> Pair:
        """Rows and columns of a tile."""
        return self.transforms[0].size, self.transforms[1].size

    @property
    def elements(self) -> int:
        """Of a tile."""
        return self.sides[0] * self.sides[1]

    def lattices(self, sides: Pair, padding: tuple[int, ...]
                 ) -> tuple[tuple[Lattice, Lattice], tuple[Lattice, Lattice]]:
        """Of the inputs and of the outputs, down and across.

        Parameters
        ----------
        sides : pair of int
            Of the map of inputs, rows and columns.
        padding : tuple of int
            Above and left of the map, then below and right where these differ; from 0 to a tap less than the kernel
            has.

        Raises
        ------
        ValueError
            If a padding is not in that range, or the kernel does not fit in the padded map.
        """
        inputs, outputs = [], []
        for transform, side, pad, far in zip(self.transforms, sides, padding[:2], padding[-2:], strict=True):
            for each in (pad, far):
                if not 0 <= each < transform.taps:
                    raise ValueError(f"a padding of {each} is not between 0 and {transform.taps - 1}, a tap less than "
                                     "the kernel has; use direct convolution")
            windows = side + pad + far - transform.taps + 1
            if windows < 1:
                raise ValueError(f"a kernel of {transform.taps} taps does not fit in {side} places with padding "
                                 f"{pad if pad == far else f'{pad} and {far}'}")
            count = -(-windows // transform.outputs)
            inputs.append(Lattice(transform.b, transform.outputs, -pad, count))
            outputs.append(Lattice(transposed(transform.a), transform.outputs, 0, count))
        return (inputs[0], inputs[1]), (outputs[0], outputs[1])


def form(kernel: Pair, outputs: int) -> Form:
    """Of a kernel, rows by columns.

    Parameters
    ----------
    kernel : pair of int
        Its taps.
    outputs : int
        m, in the directions in which it has more than one tap.

    Raises
    ------
    ValueError
        If :data:`OUTPUTS` does not have it.
    """
    if kernel not in OUTPUTS:
        known = ", ".join(f"{rows}x{columns}" for rows, columns in OUTPUTS)
        raise ValueError(f"a kernel of {kernel[0]}x{kernel[1]} has no Winograd transform here, only {known} have; use "
                         "direct convolution")
    if outputs not in OUTPUTS[kernel]:
        known = " or ".join(map(str, OUTPUTS[kernel]))
        raise ValueError(f"a kernel of {kernel[0]}x{kernel[1]} makes {known} outputs a tile each way, not {outputs}; "
                         "use that, or direct convolution")
    down, across = (transform(outputs if taps > 1 else 1, taps) for taps in kernel)
    return Form((down, across))


def member_places(body: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of a task whose tiles go to several dies, for each place of a tile, row by row: the number of the die, and that
    of the place among those of the die.

    Parameters
    ----------
    body : object
        With the fields of :class:`~plinth_hw.isa.transfer_bodies.TransformBody` as attributes, and matrices that exist.
    """
    sizes = [body.member_places + (member < body.longer_members) for member in range(body.members)]
    member = np.repeat(np.arange(body.members), sizes)
    first = np.concatenate([[0], np.cumsum(sizes)])
    return member, np.arange(len(member)) - first[member]


def places(body: Any, side: str, start: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """First words of all places of a task that transforms, and which of them lie in the map.

    Parameters
    ----------
    body : object
        With the fields of :class:`~plinth_hw.isa.transfer_bodies.TransformBody` as attributes, and matrices that exist.
    side : str
        ``source`` or ``destination``.
    start : int
        Address of the side's pointer.

    Returns
    -------
    words, inside : ``[planes, rows, down, across]``
        Words modulo 2^32.
    """
    matrices = MATRICES[body.down], MATRICES[body.across]
    counts = [len(matrix[0]) if side == "source" else len(matrix) for matrix in matrices]
    field = {name: getattr(body, f"{side}_{name}") for name in (
        "origin", "plane_stride", "row_stride", "down", "across", "row", "row_step", "rows", "column", "column_step",
        "columns")}
    plane, row, i, j = np.ogrid[:body.planes, :body.rows, :counts[0], :counts[1]]
    inner = i * field["down"] + j * field["across"]
    if side == "destination" and body.members:
        _, place = member_places(body)
        inner = place.reshape(1, 1, *counts) * field["across"]
    words = (start + field["origin"] + plane * field["plane_stride"] + row * field["row_stride"] + inner) & 0xFFFF_FFFF
    y, x = (first + tile * step + place for first, tile, step, place in (
        (field["row"], plane, field["row_step"], i), (field["column"], row, field["column_step"], j)))
    inside = (y >= 0) & (y < field["rows"]) & (x >= 0) & (x < field["columns"])
    return words, np.broadcast_to(inside, words.shape)
