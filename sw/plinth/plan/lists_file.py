"""Lists of parts in files: of a Plan's layers, and of its transfers.

An axis is told by the sizes of parts that follow each other, or by the indices of each, a number or [first, last]::

    samples: {sizes: [10, 0, 6]}
    inputs: {lists: [[0, 2, [4, 9]], [1, 3], []]}
    owners: [2, 0, 1]

Lists of more than :data:`MOST_LISTED` ranges are packed: of each part, in base64, the zlib stream of two 32-bit numbers
a range, little-endian: how many indices are left out before it, and how many it has. Where a Plan repeats what follows
from such lists it has a digest of each part.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plinth.errors import UserError
from plinth.files.documents import check_mapping, read_yaml
from plinth.files.forms import described, is_integer
from plinth.partition.axes import Region
from plinth.partition.cuts import Indices, Listed, Runs, compact, ranges_of
from plinth.partition.graph import PlanGraph
from plinth.partition.lists import AXES
from plinth.partition.regions import MAXIMUM_LEVELS, Lists

#: Largest number of an index.
_LARGEST = 1 << 31
#: Largest file, in bytes.
_LARGEST_FILE = 1 << 24
#: Ranges of an axis up to which files have them as numbers, and most of a part that are packed.
MOST_LISTED, _MOST_PACKED = 1 << 10, 1 << 23
#: Most parts, or owners: as many as dies.
_MOST = 1 << MAXIMUM_LEVELS


def lists_from_data(data: Any, where: str) -> Lists:
    """Lists of a layer as a file has them, of the right kinds; what they say is for
    :func:`plinth.partition.lists.check_lists`.

    Raises
    ------
    UserError
        If they are malformed.
    """
    check_mapping(data, where, "an entry of parts", required=(), optional=(*AXES, "owners"))
    owners = data.get("owners")
    if owners is not None:
        _check_list(owners, f"{where}: owners", "a list with a die for each seat")
        if not all(is_integer(die, 0, _LARGEST) for die in owners):
            raise UserError(f"{where}: owners must be numbers of dies, not {described(owners)}; give each die one seat")
    return Lists(**{axis: parts_from_data(data[axis], f"{where}: {axis}") for axis in AXES
                    if data.get(axis) is not None},
                 owners=None if owners is None else tuple(owners))


def load_lists(path: Path, graph: PlanGraph) -> dict[str, Lists]:
    """Lists of some layers, by name, from a YAML file, which is untrusted.

    Raises
    ------
    UserError
        If the file cannot be read, names no layer, or is malformed.
    """
    return layers_from_data(read_yaml(path, _LARGEST_FILE), graph, str(path))


def layers_from_data(data: Any, graph: PlanGraph, where: str) -> dict[str, Lists]:
    """Lists of some layers, by name, as a file has them.

    Raises
    ------
    UserError
        If they name what is no layer, or are malformed.
    """
    check_mapping(data, where, "a file of parts", required=(), optional=tuple(node.name for node in graph.nodes))
    return {name: lists_from_data(entry, f"{where}: layer {name!r}") for name, entry in data.items()}


def _check_list(data: Any, where: str, what: str) -> None:
    if not isinstance(data, list) or len(data) > _MOST:
        raise UserError(f"{where} must be {what}, {_MOST} at most, not "
                        f"{f'{len(data)} of them' if isinstance(data, list) else described(data)}")


def parts_from_data(data: Any, where: str) -> tuple[Indices | Runs, ...]:
    """The parts of an axis as a file has them, of the right kinds.

    Raises
    ------
    UserError
        If they are malformed.
    """
    check_mapping(data, where, "a list of parts", required=(), optional=("sizes", "lists", "packed"))
    if len(data) != 1:
        raise UserError(f"{where}: give either sizes or lists, or packed lists")
    if "sizes" in data:
        sizes = data["sizes"]
        _check_list(sizes, f"{where}: sizes", "a list with the length of each part")
        if not all(is_integer(size, 0, _LARGEST) for size in sizes):
            raise UserError(f"{where}: sizes must be integers from 0 on, not {described(sizes)}; give each part's "
                            "length")
        return ranges_of(sizes)
    if "packed" in data:
        _check_list(data["packed"], f"{where}: packed", "a list with the text of each part")
        return tuple(_unpacked(part, f"{where}: part {number}") for number, part in enumerate(data["packed"]))
    _check_list(data["lists"], f"{where}: lists", "a list with the indices of each part")
    return tuple(_indices(part, f"{where}: part {number}") for number, part in enumerate(data["lists"]))


def _packed(part: Indices | Runs) -> str:
    """The ranges of a part, ascending and apart, as text."""
    ranges = np.array([*part], np.int64).reshape(-1, 2)
    gaps = ranges[:, 0] - np.concatenate([[0], ranges[:-1, 1]])
    words = np.stack([gaps, ranges[:, 1] - ranges[:, 0]], axis=1).astype("<u4")
    return base64.b64encode(zlib.compress(words.tobytes(), 9)).decode()


def _unpacked(text: Any, where: str) -> Indices | Runs:
    """The ranges of a part that is packed."""
    wrong = UserError(f"{where} must be the packed ranges of a part, as `plinth plan` writes them, not "
                      f"{described(text)}; make the plan again, or give lists")
    if not isinstance(text, str):
        raise wrong
    stream = zlib.decompressobj()
    try:
        words = stream.decompress(base64.b64decode(text, validate=True), 8 * _MOST_PACKED)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise wrong from error
    if not stream.eof or stream.unused_data or len(words) % 8:
        raise wrong
    gaps, counts = np.frombuffer(words, "<u4").astype(np.int64).reshape(-1, 2).T
    ends = np.cumsum(gaps + counts)
    if not (counts.all() and gaps[1:].all()) or (len(ends) and ends[-1] >= _LARGEST):
        raise wrong
    return compact(np.stack([ends - counts, ends], axis=1))


def _indices(part: Any, where: str) -> Indices:
    """The indices of a part as ascending ranges; what stands in it twice stays so."""
    if not isinstance(part, list):
        raise UserError(f"{where} must be a list of indices or [first, last], not {described(part)}")
    ranges = []
    for item in part:
        first, last = item if isinstance(item, list) and len(item) == 2 else (item, item)
        if not is_integer(first, -_LARGEST, _LARGEST) or not is_integer(last, -_LARGEST, _LARGEST) or last < first:
            raise UserError(f"{where}: an index is an integer or [first, last], not {described(item)}")
        ranges.append((first, last + 1))
    runs: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if runs and runs[-1][1] == first:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((first, end))
    return tuple(runs)


def parts_to_data(parts: Sequence[Indices | Runs]) -> dict[str, Any]:
    """The parts of an axis as files have them."""
    sizes = _sizes(parts)
    if sizes is not None:
        return {"sizes": sizes}
    if sum(map(len, parts)) > MOST_LISTED:
        return {"packed": [_packed(part) for part in parts]}
    return {"lists": [[first if end == first + 1 else [first, end - 1] for first, end in part] for part in parts]}


def _sizes(parts: Sequence[Indices | Runs]) -> list[int] | None:
    """Their lengths, if they follow each other."""
    sizes = [sum(end - first for first, end in part) for part in parts]
    return sizes if tuple(parts) == ranges_of(sizes) else None


def _repeated(parts: Sequence[Indices | Runs]) -> dict[str, Any]:
    """The parts of an axis, in any order, where a file has them once more: of many ranges their digests."""
    if sum(map(len, parts)) > MOST_LISTED:
        return {"digests": [(part if isinstance(part, Runs) else Runs(np.array(part))).digest for part in parts]}
    return parts_to_data(parts)


def _entry(axes: Mapping[str, dict[str, Any]], owners: tuple[int, ...] | None) -> dict[str, Any]:
    return {**axes, **({} if owners is None else {"owners": list(owners)})}


def lists_to_data(lists: Lists) -> dict[str, Any]:
    """Lists as files have them."""
    return _entry({axis: parts_to_data(parts) for axis in AXES if (parts := getattr(lists, axis)) is not None},
                  lists.owners)


def region_to_data(region: Region) -> dict[str, Any]:
    """Convert a region's lists and owners to what a file holds; levels are not among them."""
    firsts = {axis: cuts[0] for axis, cuts in region.axes if cuts}
    return _entry({axis: _repeated(first.parts) for axis, first in firsts.items() if isinstance(first, Listed)},
                  region.owners)


def lists_schema(axes: Sequence[str], *, repeated: bool = False) -> dict[str, Any]:
    """Their form as JSON Schema; ``repeated``: where a file has them once more."""
    count = {"type": "integer", "minimum": 0}
    axis = parts_schema("a part for each combination of the digits at the first levels that cut the axis")
    if repeated:
        axis["oneOf"].append({"type": "object", "additionalProperties": False, "required": ["digests"], "properties": {
            "digests": {"description": "SHA-256 of the ranges of each part, of many", "type": "array",
                        "items": {"type": "string"}}}})
    return {"description": "axes cut by list, and which die has the part of which seat; left out: evenly, by number",
            "type": "object", "additionalProperties": False, "properties": {
                **dict.fromkeys(axes, axis),
                "owners": {"description": "for each seat its die", "type": "array", "items": count}}}


def parts_schema(what: str) -> dict[str, Any]:
    """The form of an axis's parts as JSON Schema."""
    count = {"type": "integer", "minimum": 0}
    return {"description": what, "oneOf": [
        {"type": "object", "additionalProperties": False, "required": ["sizes"], "properties": {
            "sizes": {"description": "lengths of parts that follow each other", "type": "array", "items": count}}},
        {"type": "object", "additionalProperties": False, "required": ["lists"], "properties": {"lists": {
            "description": "indices of each part, numbers or [first, last]; each in one part", "type": "array",
            "items": {"type": "array", "items": {"oneOf": [
                count, {"type": "array", "items": count, "minItems": 2, "maxItems": 2}]}}}}},
        {"type": "object", "additionalProperties": False, "required": ["packed"], "properties": {"packed": {
            "description": "ranges of each part, of many: base64 of zlib of 32-bit words, indices left out and indices "
                           "that follow, a pair a range", "type": "array", "items": {"type": "string"}}}}]}
