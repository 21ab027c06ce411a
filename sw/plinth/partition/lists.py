"""What must hold of axes that are cut by list."""

from collections.abc import Iterator

from plinth.errors import UserError
from plinth.partition.cuts import Factors, Indices, Levels, Runs, parts
from plinth.partition.graph import DP, MP, OP, Node, PlanGraph
from plinth.partition.groups import no_partition
from plinth.partition.regions import Lists, Partition, Splits, list_levels

#: The split whose levels cut each axis.
AXES = {"samples": DP, "inputs": MP, "outputs": OP}


def check_lists(graph: PlanGraph, splits: Splits, lists: Partition, batch: int, factors: Factors) -> None:
    """Refuse lists that do not tell each index of an axis once, or not for the levels that split it; and owners that
    are no partition of the dies.

    Raises
    ------
    UserError
        With the layer, the axis, what is wrong there, and the remedy.
    """
    if lists and len(lists) != len(graph.nodes):
        raise UserError(f"network {graph.name!r} has {len(graph.nodes)} nodes, but lists are given for {len(lists)}")
    dies = parts(tuple(range(len(factors))), factors)
    for number, node_lists in enumerate(lists):
        if node_lists is None:
            continue
        node = graph.nodes[number]
        for axis, size, levels, axis_parts in _axes(node, splits[number], node_lists, batch):
            _check_axis(f"layer {node.name!r}: {axis}", size, levels, axis_parts, factors)
        if node_lists.owners is not None:
            wrong = no_partition(node_lists.owners, dies)
            if wrong:
                raise UserError(f"layer {node.name!r}: owners are no partition of {dies} dies: {wrong}; give each die "
                                "one seat")


def axis_size(node: Node, axis: str, batch: int) -> int:
    """Elements of an axis of a node."""
    return {"samples": batch, "inputs": node.input_channels, "outputs": node.output_channels}[axis]


def _axes(node: Node, vector: tuple[str, ...], node_lists: Lists, batch: int
          ) -> Iterator[tuple[str, int, Levels, tuple[Indices | Runs, ...]]]:
    """Axes that are cut by list: name, elements, the levels that split them, and the list."""
    for axis, split in AXES.items():
        axis_parts = getattr(node_lists, axis)
        if axis_parts is not None:
            yield (axis, axis_size(node, axis, batch),
                   tuple(level for level, level_split in enumerate(vector) if level_split == split), axis_parts)


def _check_axis(where: str, size: int, levels: Levels, axis_parts: tuple[Indices | Runs, ...], factors: Factors
                ) -> None:
    """A list of one axis."""
    if list_levels(len(axis_parts), levels, factors) is None:
        known = [parts(levels[:depth], factors) for depth in range(1, len(levels) + 1)]
        wanted = f"give {' or '.join(map(str, known))}, as the splits cut it" if known else (
            "no level splits this axis: leave the list out")
        raise UserError(f"{where}: the list has {len(axis_parts)} parts; {wanted}")
    check_parts(where, size, axis_parts)


def check_parts(where: str, size: int, axis_parts: tuple[Indices | Runs, ...]) -> None:
    """Refuse parts that do not tell each index of an axis once.

    Raises
    ------
    UserError
        With the index, its parts, and the remedy.
    """
    runs = sorted((first, end, number) for number, part in enumerate(axis_parts) for first, end in part)
    last, before = 0, -1
    for first, end, number in runs:
        if first < 0 or end > size:
            raise UserError(f"{where}: index {first if first < 0 else max(first, size)} of part {number} is out of "
                            f"range; indices go from 0 to {size - 1}")
        if first < last:
            both = f"twice in part {number}" if number == before else f"in parts {before} and {number}"
            raise UserError(f"{where}: index {first} is {both}; give each index to one part")
        if first > last:
            raise UserError(f"{where}: index {last} is in no part; give each index to one part")
        last, before = end, number
    if last < size:
        raise UserError(f"{where}: index {last} is in no part; give each index to one part")
