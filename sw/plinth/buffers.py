"""A piece of a die's memory, as tasks and the driver name it."""

from typing import NamedTuple

#: Base register of everything whose address does not change from step to step.
STATIC_BASE = 0


class Extent(NamedTuple):
    """Words of an allocated place, from the first to the one behind the last, whichever rows lie between."""

    place: str
    address: int
    end: int


class Buffer(NamedTuple):
    """A place in die memory, or a part of one: ``rows`` x ``columns`` elements, ``stride`` words between rows.

    ``address`` counts words from the first one of its place in a step graph; in a lowered program, where places have
    addresses, from base register ``base``. Elements are words, or FP16, two to a word, where ``packed`` is set; a
    row of those starts on a word.
    """

    name: str
    address: int
    rows: int
    columns: int
    stride: int
    base: int = STATIC_BASE
    packed: bool = False
    #: The allocated place that it is a part of; empty: itself.
    whole: str = ""

    @property
    def place(self) -> str:
        """Name of the allocated place."""
        return self.whole or self.name

    @property
    def row_words(self) -> int:
        """Words of a row."""
        return -(-self.columns // 2) if self.packed else self.columns

    @property
    def end(self) -> int:
        """The first word behind it."""
        return self.address + (self.rows - 1) * self.stride + self.row_words

    @property
    def extent(self) -> Extent:
        """The range of words from the buffer's first to its last, with the name of its place."""
        return Extent(self.place, self.address, self.end)

    @property
    def words(self) -> int:
        """Words from the first to the last."""
        return self.end - self.address

    @property
    def pointer(self) -> dict[str, int]:
        """The buffer's address and base register as a descriptor names them."""
        return {"offset": self.address, "base": self.base}

    def part(self, name: str, offset: int, rows: int, columns: int, stride: int | None = None) -> "Buffer":
        """A piece of this buffer that starts ``offset`` words into it."""
        return Buffer(name, self.address + offset, rows, columns, columns if stride is None else stride,
                      self.base, self.packed, self.place)

    def lines(self, start: int, count: int) -> "Buffer":
        """Some of its rows."""
        return self.part(f"{self.name}[{start}]", start * self.stride, count, self.columns, self.stride)

    def repeated(self, count: int, apart: int) -> "Buffer":
        """One buffer over all words from this one to the last of ``count`` alike, ``apart`` words from one to the
        next."""
        return self.part(self.name, 0, 1, (count - 1) * apart + self.words)._replace(packed=False)

    def folded(self, fold: int) -> "Buffer":
        """A view of the same words with ``fold`` rows in one, if rows follow each other without gaps."""
        return self if fold == 1 else self.part(self.name, 0, self.rows // fold, fold * self.columns,
                                                fold * self.stride)
