"""Hypothesis strategies for plain data, messages of ONNX and ``.npz`` files of which pieces are wrong.

Files of arrays are put together from their pieces, so that no checksum hides what lies behind it.
"""

import copy
import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf import json_format
from hypothesis import reject
from hypothesis import strategies as st

#: What stands in for a value of a file: other types, other sizes, text that steers terminals.
VALUES = [
    None, True, False, 0, -1, 1, 2, 7, 1 << 16, (1 << 31) - 1, 10**20 - 1, -0.5, 1e308, float("inf"), float("nan"),
    "", "dp", "input", "null", "\x1b[31mred\x1b[0m", "\u202ereversed", "two\nlines", "\udc80", "x" * 5000, "1/0", "{}",
    [], [[]], {}, {"name": None}, [None], ["a", 1], [1, 2, 3], [0, 0, 1, 0]]
SCALARS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=20)
#: Kinds of numbers of which the first are read.
KINDS = ["<f4", "|u1", "<i8", ">f4", "|b1", "<f8", "<f2", "|O", "<U4", "<c8", "<f16", "|V8", "<M8[s]", "<f9", "f",
         "\x1b[31m"]
FIELDS = st.sampled_from([0, 1, 8, 9, 12, 0x7F, 0xFFFF, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of plain data."""
    pairs = []
    for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        pairs.append((data, key))
        if isinstance(value, (dict, list)):
            pairs += places(value)
    return pairs


@st.composite
def wrong(draw: st.DrawFn, good: tuple[Any, ...]) -> Any:
    """Plain data with one to three values replaced, removed, added, repeated or swapped."""
    data = copy.deepcopy(draw(st.sampled_from(good)))
    for _ in range(draw(st.integers(1, 3))):
        pairs = places(data)
        if not pairs:
            break
        holder, key = draw(st.sampled_from(pairs))
        match draw(st.integers(0, 5)):
            case 0 | 1 | 2:
                holder[key] = copy.deepcopy(draw(st.sampled_from(VALUES) | SCALARS))
            case 3:
                del holder[key]
            case 4:
                other, place = draw(st.sampled_from(pairs))
                holder[key] = copy.deepcopy(other[place])
            case _:
                if isinstance(holder, dict):
                    holder[draw(st.sampled_from(["kind", "name", "shape", "inputs", "\x1b[2J", "x" * 400]))] = (
                        copy.deepcopy(draw(st.sampled_from(VALUES))))
                else:
                    holder.insert(key, copy.deepcopy(draw(st.sampled_from(VALUES))))
    return data


@st.composite
def wrong_message(draw: st.DrawFn, good: tuple[Any, ...]) -> bytes:
    """A protobuf message with one to three fields replaced by others of their type, removed or repeated."""
    chosen = draw(st.sampled_from(good))
    data = json_format.MessageToDict(chosen)
    texts = [holder[key] for holder, key in places(data) if isinstance(holder[key], str)]
    words = st.sampled_from(["", "x", "out", "\x1b[31m", "\u202e", "two\nlines", "n" * 3000, "-1", "0", "1", "3",
                             "65537", "4294967296", "9223372036854775807", "-9223372036854775808", *texts])
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(places(data)))
        value = holder[key]
        action = draw(st.integers(0, 5))
        if action < 4 and not isinstance(value, (dict, list)):
            numbers = st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31)]) if isinstance(value, int) else st.floats()
            holder[key] = draw(words if isinstance(value, str) else st.booleans() if isinstance(value, bool)
                               else numbers)
        elif action == 4 and isinstance(holder, list):
            holder.insert(draw(st.integers(0, len(holder))), copy.deepcopy(value))
        elif action == 3 and isinstance(holder, list) and len(holder) > 1:
            other = draw(st.integers(0, len(holder) - 1))
            holder[key], holder[other] = holder[other], holder[key]
        else:
            del holder[key]
    try:
        return bytes(json_format.ParseDict(data, type(chosen)()).SerializeToString())
    except json_format.ParseError:  # text where a number belongs: no such message can be
        return reject()


@dataclass
class Piece:
    """A member of an npz file: its head and numbers, and what the zip file says of them if not the truth."""

    name: bytes
    head: bytes
    body: bytes
    deflated: bool = False
    entry: dict[int, int] = field(default_factory=dict)
    local: dict[int, int] = field(default_factory=dict)
    packed: bytes | None = None


def npy_head(kind: str, order: str, shape: str, version: int = 1, length: int | None = None) -> bytes:
    """The head of an array, as numpy writes it if its parts are right."""
    text = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}".encode("utf-8", "surrogatepass")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    count = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version & 255, 0]) + (
        struct.pack("<H", count & 0xFFFF) if version == 1 else struct.pack("<I", count & 0xFFFFFFFF)) + text


def zipped(members: list[Piece], end: dict[int, int] | None = None, tail: bytes = b"") -> bytes:
    """A zip file of pieces; fields by their place in the structures of the format."""
    body, directory = b"", b""
    for piece in members:
        data = piece.head + piece.body
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = squeeze.compress(data) + squeeze.flush() if piece.deflated else data
        packed = packed if piece.packed is None else piece.packed
        common = [8 if piece.deflated else 0, 0, 0x21, zlib.crc32(data), len(packed), len(data), len(piece.name)]
        entry = [20, 20, 0, *common, 0, 0, 0, 0, 0, len(body)]
        local = [20, 0, *common, 0]
        for fields, changes in ((entry, piece.entry), (local, piece.local)):
            for place, value in changes.items():
                fields[place % len(fields)] = value
        directory += b"PK\x01\x02" + _packed("HHHHHHIIIHHHHHII", entry) + piece.name
        body += b"PK\x03\x04" + _packed("HHHHHIIIHH", local) + piece.name + packed
    ends = [0, 0, len(members), len(members), len(directory), len(body), 0]
    for place, value in (end or {}).items():
        ends[place % len(ends)] = value
    return body + directory + b"PK\x05\x06" + _packed("HHHHIIH", ends) + tail


def _packed(form: str, values: list[int]) -> bytes:
    return b"".join(struct.pack(f"<{code}", value & (0xFFFF if code == "H" else 0xFFFFFFFF))
                    for code, value in zip(form, values, strict=True))


def array_piece(name: str, values: np.ndarray, deflated: bool = False) -> Piece:
    """A good member."""
    shape = f"({', '.join(map(str, values.shape))}{',' if values.ndim == 1 else ''})"
    return Piece(f"{name}.npy".encode(), npy_head(f"'{values.dtype.str}'", "False", shape), values.tobytes(), deflated)


@st.composite
def wrong_piece(draw: st.DrawFn, good: Piece) -> Piece:
    """A member with one or two lies: of its head, its numbers, or its place."""
    piece = Piece(good.name, good.head, good.body, draw(st.booleans()))
    for _ in range(draw(st.integers(1, 2))):
        match draw(st.integers(0, 7)):
            case 0 | 1:
                shape = draw(st.sampled_from(["()", "(0,)", "(-1,)", "(3L,)", "(1.5,)", "[4]", "4", "(None,)", "(2, 4)",
                                              f"({10**11},)", f"({10**12 - 1}, {10**12 - 1})", f"({1 << 62}, 4)",
                                              "(" * 3000 + ")" * 3000, f"({'1, ' * 40})", f"(10, {'4,' * 9000})"])
                             | st.lists(st.integers(0, 100), max_size=5).map(lambda sizes: str(tuple(sizes))))
                kind = draw(st.sampled_from(["'<f4'"] * 20 + [f"'{kind}'" for kind in KINDS] + [
                    "[('a', '<f4')]", "None", "{'a': 1}", "__import__('os')", "'<f4'" * 2000]))
                order = draw(st.sampled_from(["False"] * 5 + ["True", "1", "None"]))
                version = draw(st.sampled_from([1] * 5 + [2, 3, 0, 4, 255]))
                piece.head = npy_head(kind, order, shape, version, draw(st.none() | st.none() | FIELDS))
            case 2:
                piece.body = draw(st.binary(max_size=200)) if draw(st.booleans()) else piece.body[:-1]
            case 3:
                values = np.frombuffer(piece.body + bytes(-len(piece.body) % 4), "<f4").copy()
                if len(values):
                    place = draw(st.integers(0, len(values) - 1))
                    values[place] = draw(st.sampled_from([np.nan, np.inf, -np.inf, 3e38]))
                piece.body = values.tobytes()[:len(piece.body)]
            case 4:
                piece.entry[draw(st.integers(0, 15))] = draw(FIELDS)
            case 5:
                piece.local[draw(st.integers(0, 9))] = draw(FIELDS)
            case 6:
                piece.packed = draw(st.binary(max_size=100))
            case _:
                piece.name = draw(st.sampled_from([b"x.npy", b"y.npy", b"header.npy", b"x", b"", b"../x.npy",
                                                   b"\xff.npy", b"\x1b[31m.npy", b"x" * 300 + b".npy"]))
    return piece


@st.composite
def wrong_npz(draw: st.DrawFn, good: list[Piece]) -> bytes:
    """An npz file with one or two members that lie, or a directory that does."""
    members = list(good)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(members) - 1))
        members[place] = draw(wrong_piece(members[place]))
    if draw(st.integers(0, 9)) == 0:
        members.insert(draw(st.integers(0, len(members))), members[draw(st.integers(0, len(members) - 1))])
    end = draw(st.dictionaries(st.integers(0, 6), FIELDS, max_size=1)) if draw(st.integers(0, 3)) == 0 else None
    return zipped(members, end, draw(st.sampled_from([b"", b"", b"", b"\0", b"PK\x05\x06" + bytes(18)])))


@st.composite
def wrong_checkpoint(draw: st.DrawFn, header: dict[str, Any], arrays: list[Piece]) -> bytes:
    """A checkpoint with a header that is wrong, or with members that are."""
    if draw(st.booleans()):
        text = json.dumps(draw(wrong((header,))))
        text = draw(st.sampled_from([text, text, text, "[" * 20_000, text[:-1], f"{text}{text}", text + "\xff", ""]))
        return zipped([array_piece("header", np.frombuffer(text.encode("latin-1"), np.uint8)), *arrays])
    good = array_piece("header", np.frombuffer(json.dumps(header).encode(), np.uint8))
    return draw(wrong_npz([good, *arrays]))
