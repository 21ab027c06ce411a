"""Reader of numpy's ``.npz`` archives that takes nothing for granted which a file claims.

What a file declares is compared with its own bytes and with limits before anything is made of it, in three steps, each
of which goes by those before only::

    directory   the members: stored or deflated, inside the file, none over another, of sizes their bytes can give
    form        the head of a member: real numbers of a shape, which give the member's size to the byte
    values      as many bytes as declared, with the checksum that the directory states

A zip file and a member's head are read here, by their layout, and not by libraries made for files one trusts: these
accept far more (scripts as heads, encryption, nine ways to pack), fail in as many ways, and make room for whatever a
head claims.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError, quoted
from plinth.files.documents import opened, refuse_document

#: Largest file, and most bytes of its members unpacked: what a zip file of 32-bit sizes can hold by every reader.
MAXIMUM_BYTES = (1 << 31) - 1
#: Most members: of 4,096 layers two variables each, with up to three vectors beside, and a header.
MAXIMUM_MEMBERS = 4096 * 2 * (1 + 3) + 1
#: A file's members may unpack to so many bytes, or to so many times its own size.
FREE_BYTES, MAXIMUM_RATIO = 1 << 26, 128
#: Most bytes that deflate can make of one.
DEFLATE_RATIO = 1032
#: Longest head of a member, and most dimensions.
MAXIMUM_HEAD, MAXIMUM_DIMENSIONS = 1 << 12, 32
#: Bytes that are read and unpacked at a time.
CHUNK = 1 << 20

_STORED, _DEFLATED = 0, 8
#: Flags that change nothing for a reader: effort of the packer, sizes repeated behind the data, names in UTF-8.
_HARMLESS_FLAGS = 0x080E
_END = struct.Struct("<4s4H2IH")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")

_HEAD_PAIR = r"'(descr|fortran_order|shape)'\s*:\s*('[^'\\]{1,16}'|True|False|\([0-9, ]*\))"
_HEAD = re.compile(rf"\{{\s*{_HEAD_PAIR}\s*,\s*{_HEAD_PAIR}\s*,\s*{_HEAD_PAIR}\s*,?\s*\}}\s*")
_SIZES = re.compile(r"\((?:[0-9]{1,12}, *)*(?:[0-9]{1,12})?\)")
#: Booleans, integers and floating point numbers of up to 8 bytes, of either byte order.
_NUMBERS = re.compile(r"[|<>=]?(b1|[iu][1248]|f[248])")


@dataclass(frozen=True)
class Member:
    """A member of the zip archive: where its data lie, and how many bytes they are, packed and unpacked."""

    name: str
    start: int
    packed: int
    size: int
    deflated: bool
    checksum: int


@dataclass(frozen=True)
class MemberForm:
    """The number type and shape that the header of a member declares; ``str()`` gives them for messages."""

    member: Member
    #: In the machine's byte order.
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    swapped: bool
    columns_first: bool
    #: Bytes before the numbers.
    head: int

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


class ArrayFile:
    """An open ``.npz`` archive: the names, number types and shapes of its arrays, and their values.

    Parameters
    ----------
    file : binary file
    size : int
        Its bytes.
    where, what, remedy : str
        Its name, what it ought to be, and where a good one comes from, for messages.

    Raises
    ------
    UserError
        If the file is no zip file as described above.
    """

    def __init__(self, file: IO[bytes], size: int, where: str, what: str, remedy: str) -> None:
        self._file, self._size = file, size
        self.where, self.what, self.remedy = where, what, remedy
        self._members = {member.name: member for member in self._directory()}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays that the file holds."""
        return tuple(self._members)

    def error(self, problem: str) -> UserError:
        """Make the error that the archive is damaged, or of another kind than wanted, by what was found."""
        return UserError(f"{self.where}: damaged or not {self.what} ({problem}); {self.remedy}")

    def form(self, name: str) -> MemberForm:
        """Read the header of an array: its number type and shape.

        Raises
        ------
        UserError
            If there is none, or it is no array of real numbers that fills its member.
        """
        if name not in self._members:
            raise UserError(f"{self.where}: has no array {quoted(name)}; {self.remedy}")
        member = self._members[name]
        data = _Data(self, member)
        magic = data.take(8)
        if magic[:6] != b"\x93NUMPY" or magic[6] not in (1, 2, 3):
            raise self.error(f"{quoted(name)} is no array of versions 1 to 3")
        wide = magic[6] > 1
        length = int.from_bytes(data.take(4 if wide else 2), "little")
        head = len(magic) + (4 if wide else 2) + length
        text = data.take(length).decode("latin-1") if length <= MAXIMUM_HEAD else ""
        match = _HEAD.fullmatch(text)
        pairs = {} if match is None else dict(zip(match.groups()[::2], match.groups()[1::2], strict=True))
        kind, order, sizes = (pairs.get(key, "") for key in ("descr", "fortran_order", "shape"))
        if kind[:1] != "'" or order[:1] not in ("T", "F") or sizes[:1] != "(":
            raise self.error(f"{quoted(name)} has a head that no array of plain numbers has")
        if not _NUMBERS.fullmatch(kind[1:-1]):
            raise self.error(f"{quoted(name)} holds {quoted(kind[1:-1])}, no plain real numbers of up to 8 bytes")
        dtype = np.dtype(kind[1:-1])
        shape = tuple(map(int, re.findall(r"\d+", sizes)))
        if not _SIZES.fullmatch(sizes) or len(shape) > MAXIMUM_DIMENSIONS:
            raise self.error(f"{quoted(name)} has no shape that is read")
        if prod(shape) * dtype.itemsize != member.size - head:
            raise self.error(f"{quoted(name)} claims {list(shape)} of {dtype}, but has {member.size - head} bytes")
        return MemberForm(member, dtype.newbyteorder("="), shape, not dtype.isnative, order == "True", head)

    def read(self, form: MemberForm) -> NDArray[Any]:
        """Unpack the values of an array whose header has been read by :meth:`form`.

        Raises
        ------
        UserError
            If they do not unpack to what the file declares, or there is no room for them.
        """
        member, data = form.member, _Data(self, form.member)
        data.take(form.head)
        try:
            values = np.empty(prod(form.shape), form.dtype)
        except MemoryError as error:
            raise UserError(f"{self.where}: {quoted(member.name)} takes {member.size} bytes, more than are free; give "
                            "less") from error
        into = values.view(np.uint8)
        for start in range(0, len(into), CHUNK):
            part = data.take(min(CHUNK, len(into) - start))
            into[start:start + len(part)] = np.frombuffer(part, np.uint8)
        data.finish()
        if form.swapped:
            values.byteswap(inplace=True)
        if form.dtype.kind == "b" and into.max(initial=0) > 1:
            raise self.error(f"{quoted(member.name)} has truth values other than 0 and 1")
        return values.reshape(form.shape[::-1]).transpose() if form.columns_first else values.reshape(form.shape)

    def bytes_at(self, start: int, count: int) -> bytes:
        """Read ``count`` bytes of the archive from offset ``start`` on.

        Raises
        ------
        UserError
            If the file has none there.
        """
        if start < 0 or start + count > self._size:
            raise self.error("it is cut short")
        self._file.seek(start)
        content = self._file.read(count)
        if len(content) != count:
            raise self.error("it is cut short")
        return content

    def _directory(self) -> list[Member]:
        """Read the central directory at the end of the archive; the members that are arrays."""
        end = max(0, self._size - _END.size)
        mark, disk, start_disk, here, count, length, start, comment = _END.unpack(self.bytes_at(end, _END.size))
        if mark != b"PK\x05\x06" or disk or start_disk or comment or here != count:
            raise self.error("it does not end in the directory of one zip file")
        if count > MAXIMUM_MEMBERS or length > (_ENTRY.size + 256) * count or start + length > end:
            raise self.error("its directory does not fit")
        listed, place, members = self.bytes_at(start, length), 0, []
        for _ in range(count):
            if place + _ENTRY.size > length:
                raise self.error("its directory is cut short")
            (mark, _, _, flags, method, _, _, checksum, packed, size, name_length, extra_length, comment_length, disk,
             _, _, local) = _ENTRY.unpack_from(listed, place)
            name = listed[place + _ENTRY.size:place + _ENTRY.size + name_length]
            place += _ENTRY.size + name_length + extra_length + comment_length
            if mark != b"PK\x01\x02" or place > length or disk:
                raise self.error("its directory is damaged")
            members.append((local, self._member(name, flags, method, checksum, packed, size, local)))
        self._check_room([(local, member) for local, member in members], start)
        return [member for _, member in members if member.name]

    def _member(self, name: bytes, flags: int, method: int, checksum: int, packed: int, size: int,
                local: int) -> Member:
        """A member as the directory and the header before its data state it; without a name if it is no array."""
        shown = quoted(name.decode("latin-1"))
        if flags & ~_HARMLESS_FLAGS or method not in (_STORED, _DEFLATED):
            raise self.error(f"{shown} is encrypted or packed in a way that is not read (flags {flags:#x}, method "
                             f"{method})")
        mark, _, _, _, _, _, _, _, _, name_length, extra_length = _LOCAL.unpack(self.bytes_at(local, _LOCAL.size))
        start = local + _LOCAL.size + name_length + extra_length
        if mark != b"PK\x03\x04" or self.bytes_at(local + _LOCAL.size, name_length) != name:
            raise self.error(f"{shown} does not lie where the directory says")
        if (size != packed) if method == _STORED else (size > DEFLATE_RATIO * (packed + 1)):
            raise self.error(f"{shown} claims {size} bytes, which {packed} cannot give")
        array = name.endswith(b".npy")
        try:
            return Member(name.decode()[:-4] if array else "", start, packed, size, method == _DEFLATED, checksum)
        except UnicodeDecodeError as error:
            raise self.error("its directory has a name that is no UTF-8") from error

    def _check_room(self, members: list[tuple[int, Member]], end: int) -> None:
        """Compare where members lie with each other, and what they unpack to with limits."""
        names = [member.name for _, member in members if member.name]
        if len(set(names)) < len(names):
            raise self.error("two members have one name")
        places = [place for local, member in sorted(members, key=lambda located: located[0])
                  for place in (local, member.start + member.packed)] + [end]
        if any(left > right for left, right in pairwise(places)):
            raise self.error("members lie over each other or beyond their end")
        unpacked = sum(member.size for _, member in members)
        if unpacked > min(MAXIMUM_BYTES, max(FREE_BYTES, MAXIMUM_RATIO * self._size)):
            raise UserError(f"{self.where}: unpacks from {self._size} to {unpacked} bytes, more than "
                            f"{MAXIMUM_RATIO} times as many or than {MAXIMUM_BYTES}; save fewer, or with numpy.savez, "
                            "which does not pack")


class _Data:
    """The unpacked bytes of a member, from the first on; never more than are asked for are made."""

    def __init__(self, file: ArrayFile, member: Member) -> None:
        self.file, self.member = file, member
        self.read = self.given = self.checksum = 0
        self.inflate = zlib.decompressobj(-zlib.MAX_WBITS) if member.deflated else None

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        if self.given + count > self.member.size:
            raise self._error("ends too early")
        parts: list[bytes] = []
        while count:
            part = self._some(count)
            if not part:
                raise self._error("ends too early")
            parts.append(part)
            count -= len(part)
            self.given += len(part)
            self.checksum = zlib.crc32(part, self.checksum)
        return b"".join(parts)

    def finish(self) -> None:
        """Compare length and checksum of what was unpacked with those that the directory states."""
        if self.given != self.member.size or self._some(1):
            raise self._error("is longer than declared")
        if self.checksum != self.member.checksum:
            raise self._error("does not have its checksum")

    def _some(self, most: int) -> bytes:
        """Up to ``most`` unpacked bytes, at least one unless the data have ended."""
        if self.inflate is None:
            return self._packed(most)
        while not self.inflate.eof:
            packed = self.inflate.unconsumed_tail or self._packed(CHUNK)
            try:
                unpacked = self.inflate.decompress(packed, most)
            except zlib.error as error:
                raise self._error("does not unpack") from error
            if unpacked or not packed:
                return unpacked
        return b""

    def _packed(self, most: int) -> bytes:
        count = min(most, self.member.packed - self.read)
        packed = self.file.bytes_at(self.member.start + self.read, count)
        self.read += count
        return packed

    def _error(self, problem: str) -> UserError:
        return self.file.error(f"{quoted(self.member.name)} {problem}")


@contextmanager
def array_file(path: Path, what: str, remedy: str) -> Iterator[ArrayFile]:
    """Open an ``.npz`` archive for reading, until the context ends.

    Parameters
    ----------
    what, remedy : str
        What the file ought to be, and where a good one comes from, for messages.

    Raises
    ------
    UserError
        If it cannot be read, is too large, or no zip file of members as described above.
    """
    with opened(path, MAXIMUM_BYTES) as (file, size):
        try:
            archive = ArrayFile(file, size, str(path), what, remedy)
        except UserError:
            refuse_document(path, what, remedy)
            raise
        yield archive
