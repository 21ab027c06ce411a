"""Tasks that make Winograd tiles of maps, and maps of tiles: an image each, or a column of the tiles of all images."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plinth.machine.convolution import FeatureMap
from plinth.partition.graph import Node
from plinth.step.tasks import LineTransform, Members, TransformTiles
from plinth_hw.isa.operations import TransferOperation
from plinth_hw.isa.winograd import PLAIN_NUMBERS, TRANSFORMS, Lattice, Transform, plain_sides

ADDRESS_MASK = 0xFFFF_FFFF


def _matrix(transform: Transform, outputs: bool, scatter: bool) -> int:
    """The number of B^T or A, or of their transposes."""
    if transform.size == 1:
        return 0
    return 1 + 4 * TRANSFORMS.index((transform.outputs, transform.taps)) + outputs + 2 * (not scatter)


def matrix_numbers(node: Node) -> tuple[int, int]:
    """The numbers by which descriptors name a layer's output transforms A^T, down and across."""
    assert node.tiling is not None
    down, across = node.tiling.form.transforms
    return _matrix(down, True, False), _matrix(across, True, False)


@dataclass(frozen=True)
class _Loops:
    """Tiles of a descriptor: planes x rows of them, the first one's image, line and column."""

    planes: int
    rows: int
    image: int
    line: int
    column: int
    by_column: bool


def _loops(work: TransformTiles) -> Iterator[_Loops]:
    """Of each descriptor: rows of tiles x columns, or x images."""
    down, across = work.counts
    line, lines = work.lines or (0, down)
    for number in range(work.descriptors):
        if work.by_column:
            yield _Loops(lines, work.maps.images, 0, line, number, True)
        else:
            yield _Loops(lines, across, number, line, 0, False)


def _map_side(maps: FeatureMap, loops: _Loops, lattices: tuple[Lattice, Lattice]) -> dict[str, Any]:
    """A side of a task that is a map."""
    down, across = lattices
    row, place = maps.row_words, maps.buffer.stride
    line, column = down.first + loops.line * down.step, across.first + loops.column * across.step
    return {"pointer": maps.pointer(loops.image, 0, 0), "origin": line * row + column * place & ADDRESS_MASK,
            "plane_stride": down.step * row,
            "row_stride": maps.image_words if loops.by_column else across.step * place, "down": row, "across": place,
            "row": line, "column": column, "rows": maps.height, "columns": maps.width, "row_step": down.step,
            "column_step": 0 if loops.by_column else across.step}


def _tile_side(work: TransformTiles, loops: _Loops, columns: int) -> dict[str, Any]:
    """A side of a task that is tiles, with so many elements in a row of each."""
    tiles, (row, rows, column, wide) = work.tiles, work.elements
    down, right = (work.plane, work.column * work.plane) if work.column else (columns * work.plane, work.plane)
    lines, across = work.counts
    image = lines * across * tiles.stride
    first = tiles.address + loops.image * image + loops.column * tiles.stride
    return {"pointer": {"offset": first, "base": tiles.base},
            "origin": -(row * down + column * right) & ADDRESS_MASK, "plane_stride": across * tiles.stride,
            "row_stride": image if loops.by_column else tiles.stride, "down": down, "across": right,
            "row": -row, "column": -column, "rows": rows, "columns": wide, "row_step": 0, "column_step": 0}


def spread(members: Members, apart: int) -> dict[str, Any]:
    """What makes a copy one to several dies, each part so many words behind the one before: its places are the parts,
    which go as they are."""
    sides = plain_sides(members.count)
    assert sides is not None
    down, across = sides
    return {"down": PLAIN_NUMBERS[down], "across": PLAIN_NUMBERS[across],
            "source_down": across * apart, "source_across": apart, "source_rows": down, "source_columns": across,
            "destination_rows": down, "destination_columns": across, **_members(members)}


def _members(members: Members) -> dict[str, int]:
    return {"destination_die": members.first, "members": members.count, "member_step": members.step,
            "member_places": members.elements, "longer_members": members.longer}


def _leaving(work: TransformTiles | LineTransform) -> dict[str, int]:
    """Fields of a task for another die, or for several."""
    if work.members is not None:
        return {"remote": 1, "arrival_enable": 1, **_members(work.members)}
    return {} if work.die is None else {"destination_die": work.die, "remote": 1, "arrival_enable": 1}


def line_body(work: LineTransform) -> tuple[TransferOperation, dict[str, Any]]:
    """The operation, and the body of its descriptor: blocks are a column of a tile, or of one of each die's as rows."""
    assert work.node.tiling is not None
    way, _ = matrix_numbers(work.node)
    elements, outputs = work.sides
    source, target = work.source, work.target
    body = {
        "source": source.pointer, "destination": target.pointer, "columns": source.columns, "planes": work.columns,
        "rows": source.rows, "down": PLAIN_NUMBERS[work.blocks], "across": way, "source_down": work.members_apart,
        "source_rows": work.blocks, "destination_rows": work.blocks} | _leaving(work)
    for name, buffer, side, plane in zip(("source", "destination"), (source, target), (elements, outputs), work.planes,
                                         strict=True):
        body |= {f"{name}_plane_stride": side * plane, f"{name}_row_stride": buffer.stride, f"{name}_across": plane,
                 f"{name}_columns": side}
    return TransferOperation.TRANSFORM, body if work.members is None else body | {"member_places": outputs}


#: Fields of a body that turn into each other's where tiles lie on their sides.
_TURNED = {"planes": "rows", "down": "across"} | {
    f"{side}_{first}": f"{side}_{second}" for side in ("source", "destination")
    for first, second in (("plane_stride", "row_stride"), ("down", "across"), ("row", "column"), ("rows", "columns"),
                          ("row_step", "column_step"))}


def _on_its_side(body: dict[str, Any]) -> dict[str, Any]:
    """The same windows and tiles with rows as columns: what goes row by row goes column by column."""
    other = _TURNED | {second: first for first, second in _TURNED.items()}
    return {other.get(name, name): value for name, value in body.items()} | {"down_first": 1 - body["down_first"]}


def bodies(work: TransformTiles) -> tuple[TransferOperation, list[dict[str, Any]]]:
    """The operation, and the body of each descriptor; addresses are those of the work's buffers."""
    lattices = work.lattices
    ways = [PLAIN_NUMBERS[places] if places else _matrix(transform, work.outputs, work.scatter)
            for transform, places in zip(work.tiling.form.transforms, work.plain, strict=True)]
    bodies = []
    for loops in _loops(work):
        sides = _map_side(work.maps, loops, lattices), _tile_side(work, loops, lattices[1].size)
        body: dict[str, Any] = {
            "columns": work.tiles.columns, "planes": loops.planes, "rows": loops.rows,
            "down_first": int(not work.scatter), "down": ways[0], "across": ways[1], **_leaving(work)}
        for name, side in zip(("source", "destination"), sides if work.scatter else sides[::-1], strict=True):
            body |= {name if key == "pointer" else f"{name}_{key}": value for key, value in side.items()}
        if work.marked:
            body["marks"] = 1
        # Several dies get places in the order of the tile's rows.
        bodies.append(_on_its_side(body) if work.column and work.members is not None else body)
    return TransferOperation.TRANSFORM_ADD if work.added else TransferOperation.TRANSFORM, bodies
