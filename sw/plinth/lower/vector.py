"""Writes vector programs: regions, moves and instructions by name instead of by number."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plinth.driver.program import Buffer
from plinth.errors import UserError
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import (
    VECTOR_IMMEDIATES,
    VECTOR_INSTRUCTIONS,
    VECTOR_LOADS,
    VECTOR_REGIONS,
    VECTOR_STORES,
    VectorFunction,
    VectorOp,
)


@dataclass
class VectorProgram:
    """One vector task over a ``rows`` x ``columns`` space.

    Raises
    ------
    UserError
        From :meth:`body`, if the regions do not fit half of the vector scratchpad.
    """

    parameters: DieParameters
    rows: int
    columns: int
    regions: dict[str, tuple[str, int]] = field(default_factory=dict)
    lines: int = 0
    loads: list[dict[str, Any]] = field(default_factory=list)
    stores: list[dict[str, Any]] = field(default_factory=list)
    immediates: list[int] = field(default_factory=list)
    instructions: list[dict[str, Any]] = field(default_factory=list)
    reads: list[Buffer] = field(default_factory=list)
    writes: list[Buffer] = field(default_factory=list)
    _narrowed: set[str] = field(default_factory=set)

    def _region(self, name: str, shape: str = "full") -> int:
        if name not in self.regions:
            self.regions[name] = (shape, self.lines)
            self.lines += region_lines(self.parameters, self.rows, self.columns, shape)
        return list(self.regions).index(name)

    def load(self, name: str, buffer: Buffer, shape: str = "full") -> None:
        """Bring a buffer into a region, packed numbers as FP32; ``shape`` is "full", "row", "column" or "element"."""
        self.loads.append({"pointer": buffer.pointer, "stride": buffer.stride,
                           "region": self._region(name, shape), "packed": int(buffer.packed)})
        self.reads.append(buffer)
        if buffer.packed:
            self.run(VectorOp.WIDEN, name, name)

    def store(self, name: str, buffer: Buffer) -> None:
        """Write a region back; for a packed buffer it is rounded first and may only be stored again."""
        if buffer.packed and name not in self._narrowed:
            self.run(VectorOp.NARROW, name, name)
            self._narrowed.add(name)
        self.stores.append({"pointer": buffer.pointer, "stride": buffer.stride,
                            "region": self._region(name), "packed": int(buffer.packed)})
        self.writes.append(buffer)

    def run(self, op: VectorOp, dst: str, a: str, b: str | VectorFunction | None = None, *,
            shape: str = "full", immediate: float | None = None) -> None:
        """Append an instruction; ``shape`` is that of ``dst`` if it is new. Reductions into a column run
        with lanes along rows, others along the direction that needs fewer groups."""
        index = 0
        if immediate is not None:
            bits = int(np.float32(immediate).view(np.uint32))
            if bits not in self.immediates:
                self.immediates.append(bits)
            index = self.immediates.index(bits)
        number = {"op": op, "dst": self._region(dst, shape), "a": self._region(a), "immediate": index}
        if isinstance(b, VectorFunction):
            number["b"] = b.value
        elif b is not None:
            number["b"] = self._region(b)
        shapes = {self.regions[region][0] for region in (dst, a)}
        rows = 1 if shapes <= {"row", "element"} else self.rows
        columns = 1 if shapes <= {"column", "element"} else self.columns
        beat = self.parameters.beat_words
        along_rows = columns * -(-rows // beat) < rows * -(-columns // beat)
        if op in (VectorOp.SUM, VectorOp.MAXIMUM):
            along_rows = self.regions[dst][0] == "column"
        number["lanes_along_rows"] = int(along_rows)
        self.instructions.append(number)

    def clear(self, name: str, any_place: Buffer) -> None:
        """A full region of +0, whatever lies in the place, of which a word is loaded."""
        self.load("any", any_place.part(any_place.name, 0, 1, 1), "element")
        # any - any is 0 or NaN, of which neither is positive.
        self.run(VectorOp.SUB, "any", "any", "any")
        self.run(VectorOp.RELU_MASK, name, "any", "any")

    def body(self) -> dict[str, Any]:
        """The fields of a VectorBody."""
        for what, count, limit in (("regions", len(self.regions), VECTOR_REGIONS),
                                   ("loads", len(self.loads), VECTOR_LOADS),
                                   ("stores", len(self.stores), VECTOR_STORES),
                                   ("immediates", len(self.immediates), VECTOR_IMMEDIATES),
                                   ("instructions", len(self.instructions), VECTOR_INSTRUCTIONS)):
            if count > limit:
                raise ValueError(f"A vector program has at most {limit} {what}, not {count}")
        if self.lines > scratchpad_lines(self.parameters):
            raise UserError(f"a row of {self.columns} words does not fit the vector scratchpad of preset "
                            f"{self.parameters.name!r}; choose a larger preset or a narrower layer")
        return {
            "rows": self.rows, "columns": self.columns, "loads": len(self.loads),
            "stores": len(self.stores), "instructions": len(self.instructions),
            "regions": [{"line": line, "is_row": int(shape in ("row", "element")),
                         "is_column": int(shape in ("column", "element"))}
                        for shape, line in self.regions.values()],
            "load": self.loads, "store": self.stores, "immediates": self.immediates,
            "program": self.instructions,
        }


def region_lines(parameters: DieParameters, rows: int, columns: int, shape: str) -> int:
    """Scratchpad lines of a region: ``ceil(columns / banks) * rows`` of its own shape."""
    rows, columns = (1 if shape in ("row", "element") else rows), (1 if shape in ("column", "element") else columns)
    return -(-columns // parameters.beat_words) * rows


def scratchpad_lines(parameters: DieParameters) -> int:
    """Lines in one half of the vector scratchpad."""
    return parameters.vector_buffer_words // parameters.beat_words
