"""Vector programs: regions, moves and instructions by name instead of by number.

A program says what is done with each row and column of a space; how many of them there are, and where its operands lie,
may be told later: :meth:`VectorProgram.at` gives the program over a piece of a die's part.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from plinth.buffers import Buffer
from plinth.errors import UserError
from plinth.step.tensors import Placed
from plinth_hw.isa.formats import factor_word, number_word
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import (
    VECTOR_IMMEDIATES,
    VECTOR_INSTRUCTIONS,
    VECTOR_LOADS,
    VECTOR_REGIONS,
    VECTOR_STORES,
    VectorFunction,
    VectorOp,
)

#: What a program moves: a place, or that of all dies, of which :meth:`VectorProgram.at` takes a die's.
Operand = Buffer | Placed


class VectorPiece(NamedTuple):
    """What one vector task does of rows x columns."""

    row: int
    rows: int
    column: int
    columns: int

    def __str__(self) -> str:
        return f"[{self.row},{self.column}]" if self.column else f"[{self.row}]"

    def of(self, buffer: Buffer) -> Buffer:
        """The piece of a buffer; of a single row all of its rows, of a single column all of its columns."""
        offset = self.column // 2 if buffer.packed else self.column
        start, count = (0, 1) if buffer.rows == 1 else (self.row, self.rows)
        if buffer.columns == 1:
            return buffer.part(buffer.name, start * buffer.stride, count, 1, buffer.stride)
        return buffer.part(buffer.name, start * buffer.stride + offset, count, self.columns, buffer.stride)


class Move(NamedTuple):
    """A load or store of a region."""

    operand: Operand
    region: str

    @property
    def packed(self) -> bool:
        """Whether numbers lie in memory two to a word."""
        return self.operand.packed


@dataclass(frozen=True)
class Instruction:
    """An operation on regions; ``b`` may be a function."""

    op: VectorOp
    dst: str
    a: str
    b: str | VectorFunction | None = None
    immediate: float | None = None


@dataclass
class VectorProgram:
    """One vector task over a ``rows`` x ``columns`` space, or, without them, what is done of any.

    Raises
    ------
    UserError
        From :meth:`body`, if the regions do not fit half of the vector scratchpad.
    """

    parameters: DieParameters
    rows: int = 0
    columns: int = 0
    #: Shape of each region by its name: "full", "row", "column" or "element".
    regions: dict[str, str] = field(default_factory=dict)
    loads: list[Move] = field(default_factory=list)
    stores: list[Move] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    #: What its tasks are said to write; None: what they store.
    written: Sequence[Buffer] | None = None
    _narrowed: set[str] = field(default_factory=set)
    #: What others have found out about it, by who; the programs that :meth:`at` gives share it.
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without what others have found out about it."""
        return self.__dict__ | {"known": {}}

    def load(self, name: str, operand: Operand, shape: str = "full") -> None:
        """Bring an operand into a region, packed numbers as FP32."""
        self.regions.setdefault(name, shape)
        self.loads.append(Move(operand, name))
        if self.loads[-1].packed:
            self.run(VectorOp.WIDEN, name, name)

    def store(self, name: str, operand: Operand) -> None:
        """Write a region back; for a packed operand it is rounded first and may only be stored again."""
        move = Move(operand, name)
        if move.packed and name not in self._narrowed:
            self.run(VectorOp.NARROW, name, name)
            self._narrowed.add(name)
        self.stores.append(move)

    def run(self, op: VectorOp, dst: str, a: str, b: str | VectorFunction | None = None, *,
            shape: str = "full", immediate: float | None = None) -> None:
        """Append an instruction; ``shape`` is that of ``dst`` if it is new."""
        self.regions.setdefault(dst, shape)
        self.instructions.append(Instruction(op, dst, a, b, immediate))

    @property
    def reads(self) -> list[Buffer]:
        """Places that it loads."""
        return [move.operand for move in self.loads if isinstance(move.operand, Buffer)]

    @property
    def writes(self) -> Sequence[Buffer]:
        """Places that it is said to write."""
        if self.written is not None:
            return self.written
        return [move.operand for move in self.stores if isinstance(move.operand, Buffer)]

    def _placed(self, die: int) -> tuple[tuple[tuple[Buffer, str], ...], ...]:
        """Where a die's operands lie, and their regions: of loads, and of stores."""
        operands: tuple[tuple[tuple[Buffer, str], ...], ...] | None = self.known.get(die)
        if operands is None:
            operands = self.known[die] = tuple(
                tuple((operand if isinstance(operand, Buffer) else operand.buffer(die), region)
                      for operand, region in moves) for moves in (self.loads, self.stores))
        return operands

    def on(self, die: int) -> Hashable:
        """What it is on a die: of equal ones the tasks are equal."""
        return (self.rows, self.columns, tuple(self.regions.items()), self._placed(die), tuple(self.instructions),
                None if self.written is None else tuple(self.written))

    def at(self, die: int, piece: VectorPiece) -> "VectorProgram":
        """The program over a piece of what a die has of its operands."""
        loads, stores = [[Move(piece.of(place), region) for place, region in moves] for moves in self._placed(die)]
        return VectorProgram(self.parameters, piece.rows, piece.columns, self.regions, loads, stores,
                             self.instructions, self.written, self._narrowed, self.known)

    def clear(self, name: str, any_place: Buffer) -> None:
        """A full region of +0, whatever lies in the place, of which a word is loaded."""
        self.load("any", any_place.part(any_place.name, 0, 1, 1), "element")
        # any - any is 0 or NaN, of which neither is positive.
        self.run(VectorOp.SUB, "any", "any", "any")
        self.run(VectorOp.RELU_MASK, name, "any", "any")

    def body(self) -> dict[str, Any]:
        """The fields of a VectorBody. Reductions into a column run with lanes along rows, other instructions along the
        direction that needs fewer groups."""
        immediates: list[int] = []
        numbers = {name: number for number, name in enumerate(self.regions)}
        beat, program = self.parameters.beat_words, []
        for instruction in self.instructions:
            index = 0
            if instruction.immediate is not None:
                word = factor_word if instruction.op is VectorOp.SCALE else number_word
                bits = word(self.parameters.memory_format, instruction.immediate)
                if bits not in immediates:
                    immediates.append(bits)
                index = immediates.index(bits)
            shapes = {self.regions[instruction.dst], self.regions[instruction.a]}
            rows = 1 if shapes <= {"row", "element"} else self.rows
            columns = 1 if shapes <= {"column", "element"} else self.columns
            along_rows = columns * -(-rows // beat) < rows * -(-columns // beat)
            if instruction.op in (VectorOp.SUM, VectorOp.MAXIMUM):
                along_rows = self.regions[instruction.dst] == "column"
            number = {"op": instruction.op, "dst": numbers[instruction.dst], "a": numbers[instruction.a],
                      "immediate": index, "lanes_along_rows": int(along_rows)}
            if instruction.b is not None:
                number["b"] = (instruction.b.value if isinstance(instruction.b, VectorFunction) else
                               numbers[instruction.b])
            program.append(number)
        for what, count, limit in (("regions", len(self.regions), VECTOR_REGIONS),
                                   ("loads", len(self.loads), VECTOR_LOADS),
                                   ("stores", len(self.stores), VECTOR_STORES),
                                   ("immediates", len(immediates), VECTOR_IMMEDIATES),
                                   ("instructions", len(program), VECTOR_INSTRUCTIONS)):
            if count > limit:
                raise ValueError(f"A vector program has at most {limit} {what}, not {count}")
        lines, places = 0, []
        for shape in self.regions.values():
            places.append({"line": lines, "is_row": int(shape in ("row", "element")),
                           "is_column": int(shape in ("column", "element"))})
            lines += region_lines(self.parameters, self.rows, self.columns, shape)
        if lines > scratchpad_lines(self.parameters):
            raise UserError(f"a row of {self.columns} words does not fit the vector scratchpad of preset "
                            f"{self.parameters.name!r}; choose a larger preset or a narrower layer")

        def moves(operand_moves: Sequence[Move]) -> list[dict[str, Any]]:
            return [{"pointer": move.operand.pointer, "stride": move.operand.stride, "region": numbers[move.region],
                     "packed": int(move.packed)} for move in operand_moves if isinstance(move.operand, Buffer)]

        return {
            "rows": self.rows, "columns": self.columns, "loads": len(self.loads), "stores": len(self.stores),
            "instructions": len(program), "regions": places, "load": moves(self.loads), "store": moves(self.stores),
            "immediates": immediates, "program": program,
        }


def region_lines(parameters: DieParameters, rows: int, columns: int, shape: str) -> int:
    """Scratchpad lines of a region: ``ceil(columns / banks) * rows`` of its own shape."""
    rows, columns = (1 if shape in ("row", "element") else rows), (1 if shape in ("column", "element") else columns)
    return -(-columns // parameters.beat_words) * rows


def scratchpad_lines(parameters: DieParameters) -> int:
    """Lines in one half of the vector scratchpad."""
    return parameters.vector_buffer_words // parameters.beat_words
