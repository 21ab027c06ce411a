"""Sizes that a graph computes for itself: what stands between a Shape and a Reshape.

Exporters write ``x.view(x.size(0), -1)`` as Shape, Gather, Unsqueeze and Concat in front of the Reshape. All sizes but
the batch are known, so these nodes are computed here and leave no layers. So are the pads that TorchScript computes in
front of a Pad, by way of a table.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import onnx

from plinth.network.onnx.proto import INTEGERS, MAXIMUM_VALUES, OnnxNode, small_values

#: The size of the batch where the file leaves it open.
BATCH = "batch"
Size = int | str


@dataclass(frozen=True)
class SizeList:
    """A list of sizes, one without a list round it, or a table of them."""

    values: tuple[Size, ...]
    scalar: bool = False
    #: Of a table, row by row; 0: a list.
    columns: int = 0

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.values[:8]))}]"

    def integers(self, node: OnnxNode, what: str) -> tuple[int, ...]:
        """The values, none of which may be the batch."""
        numbers = tuple(value for value in self.values if isinstance(value, int))
        if len(numbers) < len(self.values) or self.columns:
            raise node.error(f"its {what} are {self}; they must be {'one list' if self.columns else 'known'}")
        return numbers


def of_constant(tensor: Any) -> SizeList | None:
    """The integers of a constant; None for other constants."""
    values = small_values(tensor) if tensor.data_type in INTEGERS else None
    return None if values is None else SizeList(tuple(values), scalar=not tensor.dims)


def axis(node: OnnxNode, number: int, rank: int) -> int:
    """An axis counted from the front.

    Raises
    ------
    UserError
        If a tensor of that rank has no such axis.
    """
    if not -rank <= number < rank:
        raise node.error(f"axis {number} does not exist; the tensor has {rank} dimensions")
    return number % rank


def _vector(node: OnnxNode, sizes: SizeList) -> tuple[Size, ...]:
    if sizes.scalar or sizes.columns:
        raise node.error(f"computes sizes from a {'scalar' if sizes.scalar else 'table'} where a list is needed; mend "
                         "the file")
    return sizes.values


def gather(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """Sizes by their places."""
    values = _vector(node, sources[0])
    places = [axis(node, place, len(values)) for place in sources[1].integers(node, "places")]
    return SizeList(tuple(values[place] for place in places), scalar=sources[1].scalar)


def slice_(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """A run of sizes, or a list or table with its rows the other way round."""
    numbers = [source.integers(node, "bounds") for source in sources[1:]]
    if any(len(number) != 1 for number in numbers) or (len(numbers) > 2 and axis(node, numbers[2][0], 1)):
        raise node.error("cuts sizes along more than one axis; mend the file")
    step = numbers[3][0] if len(numbers) > 3 else 1
    width = max(sources[0].columns, 1)
    values = sources[0].values if sources[0].columns else _vector(node, sources[0])
    rows = [values[place:place + width] for place in range(0, len(values), width)]
    if step not in (1, -1):
        raise node.error(f"cuts sizes in steps of {step}; only 1 and -1 are supported")
    kept = rows[_bound(numbers[0][0], len(rows), step):_bound(numbers[1][0], len(rows), step):step]
    return SizeList(tuple(value for row in kept for value in row), columns=sources[0].columns)


def _bound(number: int, count: int, step: int) -> int | None:
    """A bound of ONNX's Slice as Python's, where one before the first row is none."""
    return None if step < 0 and number < -count else number


def concat(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """Lists one behind the other."""
    axis(node, node.integer("axis", 0), 1)
    values = tuple(value for source in sources for value in _vector(node, source))
    if len(values) > MAXIMUM_VALUES:
        raise node.error(f"makes a list of {len(values)} sizes, more than {MAXIMUM_VALUES}")
    return SizeList(values)


def unsqueeze(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """One size as a list."""
    if not sources[0].scalar or sources[1].integers(node, "axes") not in ((0,), (-1,)):
        raise node.error("makes a table of sizes; only lists are supported")
    return SizeList(sources[0].values)


def squeeze(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """A list of one size as that size."""
    if len(sources[0].values) != 1:
        raise node.error(f"squeezes {sources[0]}, which has {len(sources[0].values)} sizes; it needs one")
    return SizeList(sources[0].values, scalar=True)


def reshape(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """Sizes as a list, or as a table."""
    values, target = sources[0].values, sources[1].integers(node, "sizes")
    if len(target) == 2 and target[0] == -1 and 0 < target[1] <= MAXIMUM_VALUES and len(values) % target[1] == 0:
        return SizeList(values, columns=target[1])
    if sources[1].scalar or target not in ((-1,), (len(values),)):
        raise node.error(f"reshapes sizes to {sources[1]}; only lists, and tables of [-1, columns], are supported")
    return SizeList(values)


def transpose(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """A table with rows and columns exchanged."""
    values, columns = sources[0].values, sources[0].columns
    if not columns or not values:
        return SizeList(_vector(node, sources[0]))
    return SizeList(tuple(value for column in range(columns) for value in values[column::columns]),
                    columns=len(values) // columns)


def filled(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """ConstantOfShape: a list of one number."""
    counts = sources[0].integers(node, "dimensions")
    value = node.attributes.get("value")
    fill = of_constant(value) if isinstance(value, onnx.TensorProto) else None
    if len(counts) > 1 or fill is None or len(fill.values) != 1 or not all(0 <= n <= MAXIMUM_VALUES for n in counts):
        raise node.error("fills a tensor with numbers; only lists of integers, for sizes and pads, are computed: leave "
                         "it out of the model")
    return SizeList(fill.values * prod(counts), scalar=not counts)


def same(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """The sizes as they are: Identity, and Cast among integers."""
    if node.integer("to", INTEGERS[0]) not in INTEGERS:
        raise node.error("makes sizes numbers that are not integers; export with fixed shapes")
    return sources[0]


def multiply(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """Products, element by element; one list may be a single size."""
    first, second = (source if source.scalar else SizeList(_vector(node, source)) for source in sources)
    count = max(len(first.values), len(second.values))
    if any(len(source.values) not in (1, count) for source in sources):
        raise node.error(f"multiplies {first} by {second}, which are not of one length")
    pairs = zip(*(source.values * (count // len(source.values)) for source in sources), strict=True) if count else ()
    return SizeList(tuple(_product(node, pair) for pair in pairs), scalar=first.scalar and second.scalar)


def product(node: OnnxNode, sources: list[SizeList]) -> SizeList:
    """The product of a list."""
    if len(sources) > 1 and sources[1].integers(node, "axes") not in ((0,), (-1,)):
        raise node.error("multiplies sizes along an axis that a list does not have")
    values = sources[0].values if sources[0].scalar else _vector(node, sources[0])
    return SizeList((_product(node, values),), scalar=not node.integer("keepdims", 1))


def _product(node: OnnxNode, values: tuple[Size, ...]) -> Size:
    numbers = [value for value in values if isinstance(value, int)]
    size = prod(numbers)
    if len(numbers) == len(values):
        if abs(size) >= 1 << 63:
            raise node.error("computes a size that no integer of ONNX holds; mend the file")
        return size
    if size != 1 or len(values) - len(numbers) > 1:
        raise node.error("multiplies the batch; the batch stays the first dimension, by itself")
    return BATCH
