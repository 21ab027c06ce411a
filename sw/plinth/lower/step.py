"""What every part of a training step's lowering needs: the builders of all dies, their places, and what moves.

Places have the same addresses on all dies, so that a die knows where its tiles go. Nothing is written twice in a step,
and a step starts once all dies have ended the one before; so a tile never meets what still is to be read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from plinth.driver.program import STATIC_BASE, Buffer
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.places import Part, Tensor
from plinth.lower.stages import POOLS, Stage
from plinth.lower.vector import VectorProgram
from plinth.plan.cost import cuts
from plinth.plan.partition import Exchange
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import Engine, TransferOperation, VectorOp, VectorOperation

#: Loads of a vector program that sums.
_SUMMED = 4


@dataclass(frozen=True)
class Piece:
    """What one vector task does of rows x columns."""

    row: int
    rows: int
    column: int
    columns: int

    def __str__(self) -> str:
        return f"[{self.row},{self.column}]" if self.column else f"[{self.row}]"

    def of(self, buffer: Buffer) -> Buffer:
        """The piece of a buffer; of a single row all of its rows."""
        offset = self.column // 2 if buffer.packed else self.column
        start, count = (0, 1) if buffer.rows == 1 else (self.row, self.rows)
        return buffer.part(f"{buffer.name}{self}", start * buffer.stride + offset, count, self.columns, buffer.stride)


@dataclass
class StepBuilder:
    """The step graphs of all dies under construction."""

    parameters: DieParameters
    dies: int
    #: Matrix operands have 16 bits.
    narrow: bool
    builders: list[GraphBuilder] = field(default_factory=list)
    _counter: int = len(Engine)
    _held: list[tuple[int, int, str, VectorProgram]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.builders = [GraphBuilder(self.parameters) for _ in range(self.dies)]
        for builder in self.builders:
            builder.allocate("join", 1, 2)

    def place(self, name: str, sizes: Sequence[tuple[int, int]], *, packed: bool = False, base: int = STATIC_BASE,
              copies: int = 1) -> list[Buffer]:
        """On each die a dense place of rows x columns, all at the same address."""
        widths = [-(-columns // 2) if packed else columns for _, columns in sizes]
        words = max(1, *(rows * width for (rows, _), width in zip(sizes, widths, strict=True)))
        found = []
        for builder, (rows, columns), width in zip(self.builders, sizes, widths, strict=True):
            whole = builder.allocate(name, 1, words, base=base, copies=copies)
            buffer = Buffer(name, whole.address, rows, columns, max(1, width), base, packed)
            builder.buffers[name] = buffer
            found.append(buffer)
        return found

    def tensor(self, name: str, parts: Sequence[Part], samples: int, channels: int, *, packed: bool = False,
               base: int = STATIC_BASE, copies: int = 1) -> Tensor:
        """A tensor of which each die has a part."""
        return Tensor(samples, parts[0].positions, channels, parts, self.place(
            name, [(part.rows, part.channels) for part in parts], packed=packed, base=base, copies=copies))

    def like(self, name: str, other: Tensor, *, packed: bool = False) -> Tensor:
        """A tensor with the parts of another."""
        return self.tensor(name, other.parts, other.samples, other.channels, packed=packed)

    def exchange(self, name: str, source: Tensor, targets: Sequence[Tensor], slots: Sequence[int], *,
                 own: bool) -> None:
        """Every die sends what of its part of ``source`` lies in other dies' parts of a target.

        Parameters
        ----------
        targets : sequence of Tensor
            Places, one a slot.
        slots : sequence of int
            For each die, the slot that its words go to.
        own : bool
            Whether what a die keeps is copied as well.

        Raises
        ------
        UserError
            If there are more exchanges than counters.
        """
        counter = self._next_counter()
        tiles = [0] * self.dies
        for turn in range(0 if own else 1, self.dies):
            for die in range(self.dies):
                other = (die + turn) % self.dies
                target = targets[slots[die]]
                inner = source.parts[die].meet(target.parts[other])
                if inner is None:
                    continue
                tiles[other] += turn != 0
                self._copy(f"{name}[{other}]" if turn else f"{name}.own", die,
                           source.parts[die].view(source.buffers[die], inner), other,
                           target.parts[other].view(target.buffers[other], inner), counter)
        for die, count in enumerate(tiles):
            if count:
                self.builders[die].expect([target.buffers[die] for target in targets if target.parts[die].words],
                                          counter, count)

    def _next_counter(self) -> int:
        """A counter that nothing else uses, the same on all dies."""
        if self._counter >= self.parameters.counters:
            raise UserError(f"the plan needs more than the {self.parameters.counters} update counters of preset "
                            f"{self.parameters.name!r} for its transfers; choose a plan with fewer transfers")
        self._counter += 1
        return self._counter - 1

    def barrier(self, name: str, engine: Engine) -> list[tuple[int, int]]:
        """For each die the wait for all tasks of an engine so far, on all other dies. Sends no words."""
        counter = self._next_counter()
        for die, builder in enumerate(self.builders):
            place = builder.buffers["join"]
            for other in (other for other in range(self.dies) if other != die):
                builder.add(f"{name}.barrier[{other}]", Engine.TRANSFER, TransferOperation.COPY, {
                    "source": place.pointer, "destination": place.part("join", 1, 1, 1).pointer, "columns": 1,
                    "rows": 1, "planes": 1}, after=[builder.done(engine)], remote=(other, counter))
        return [builder.advanced(counter, self.dies - 1) for builder in self.builders]

    def _copy(self, name: str, die: int, source: Buffer, other: int, target: Buffer, counter: int) -> None:
        body = {"source": source.pointer, "destination": target.pointer, "columns": source.columns,
                "rows": source.rows, "planes": 1, "source_row_stride": source.stride,
                "destination_row_stride": target.stride}
        if other != die:
            body |= {"destination_die": other, "remote": 1, "arrival_enable": 1, "arrival": counter}
        self.builders[die].add(name, Engine.TRANSFER, TransferOperation.COPY, body, reads=[source],
                               writes=[target] if other == die else [])

    def strips(self, rows: int, columns: int, regions: int, row_regions: int = 0, *,
               column_regions: int | None = None, pieces: int = cuts.STRIPS) -> Iterator[Piece]:
        """The pieces in which a vector program does rows x columns: about ``pieces`` strips of rows, or as many more as
        the scratchpad asks for its full, row and column regions. Where not even a row fits, columns are cut as well,
        columns inner; but not with ``column_regions``, which say that the program looks at whole rows.

        Raises
        ------
        UserError
            If a row that must be whole does not fit the scratchpad.
        """
        width = columns
        step = cuts.row_step(self.parameters, rows, columns, regions, row_regions, pieces, column_regions or 0)
        if step < 1:
            if column_regions is not None:
                raise UserError(f"a loss over {columns} values does not fit the vector scratchpad of preset "
                                f"{self.parameters.name!r}; choose a larger preset or a narrower layer")
            width = cuts.column_step(self.parameters, rows, columns, regions, row_regions)
            step = cuts.row_step(self.parameters, rows, width, regions, row_regions, pieces)
        for start in range(0, rows, step):
            for first in range(0, columns, width):
                yield Piece(start, min(step, rows - start), first, min(width, columns - first))

    def vector(self, die: int, name: str, program: VectorProgram) -> None:
        """Append a vector task."""
        self.builders[die].add(name, Engine.VECTOR, VectorOperation.PROGRAM, program.body(), reads=program.reads,
                               writes=program.writes)

    def zero(self, builder: GraphBuilder, name: str, place: Buffer) -> None:
        """Vector tasks that fill a dense place with +0, whatever lies there."""
        size = cuts.zero_step(self.parameters)
        for start in range(0, place.rows * place.columns, size):
            columns = min(size, place.rows * place.columns - start)
            program = VectorProgram(self.parameters, 1, columns)
            program.clear("z", self.builders[0].buffers["join"])
            program.store("z", place.part(f"{place.name}[{start}]", start, 1, columns))
            builder.add(f"{name}[{start}]", Engine.VECTOR, VectorOperation.PROGRAM, program.body(),
                        reads=program.reads, writes=program.writes)

    def hold(self, die: int, strip: int, name: str, program: VectorProgram) -> None:
        """A vector task for :meth:`release`."""
        self._held.append((strip, die, name, program))

    def release(self) -> None:
        """Append what was held, strip by strip, so that a strip goes all its way before the next one starts."""
        held, self._held = self._held, []
        for _, die, name, program in sorted(held, key=lambda one: one[0]):
            self.vector(die, name, program)

    def stage_strips(self, stage: Stage, samples: int) -> list[tuple[int, int]]:
        """First sample and number of samples of the strips of a stage: of whole images where pools follow."""
        if not any(isinstance(follower.layer, POOLS) for follower in stage.followers):
            return [(0, samples)] if samples else []
        return list(image_strips(samples, stage.node.raw_elements // stage.node.output_channels))

    def summed(self, name: str, sources: list[list[Buffer]], target: Tensor, keep: int) -> list[list[Buffer]]:
        """On each die, add sources in their order into ``target`` until ``keep`` are left; the sums come first."""
        found = []
        for die, buffers in enumerate(sources):
            rest = list(buffers)
            while len(rest) > keep and target.parts[die].words:
                first, rest = rest[:_SUMMED], rest[_SUMMED:]
                place = target.buffers[die]
                for piece in self.strips(place.rows, place.columns, len(first)):
                    program = VectorProgram(self.parameters, piece.rows, piece.columns)
                    add_sources(program, [piece.of(buffer) for buffer in first])
                    program.store("z", piece.of(place))
                    self.vector(die, f"{name}{piece}", program)
                rest.insert(0, place)
            found.append(rest)
        return found


def image_strips(images: int, positions: int) -> Iterator[tuple[int, int]]:
    """First image and number of images of the strips in which maps of so many positions are worked on."""
    step = cuts.image_step(images, positions)
    for start in range(0, images, step):
        yield start, min(step, images - start)


def transfer_name(exchange: Exchange) -> str:
    """How the tasks of an exchange are called, up to the receiver's number in brackets."""
    what = {("fprop", "reduce"): "reduce", ("fprop", "copy"): "copy", ("bprop", "reduce"): "reduce",
            ("bprop", "copy"): "spread"}[exchange.phase, exchange.kind]
    return f"{exchange.layer}.{what}" + (f".{exchange.consumer}" if exchange.consumer else "")


def rows_of(buffer: Buffer, start: int, count: int) -> Buffer:
    """Some rows of a buffer."""
    return buffer.part(f"{buffer.name}[{start}]", start * buffer.stride, count, buffer.columns, buffer.stride)


def folded(buffer: Buffer, fold: int) -> Buffer:
    """A dense buffer with ``fold`` rows in one."""
    if fold == 1:
        return buffer
    return buffer.part(buffer.name, 0, buffer.rows // fold, fold * buffer.columns)


def add_sources(program: VectorProgram, sources: Sequence[Buffer]) -> None:
    """Region "z": the sources added in their order; those after the first share a region."""
    program.load("z", sources[0])
    for number, source in enumerate(sources[1:], start=1):
        program.load(f"p{number}", source)
    for number in range(1, len(sources)):
        program.run(VectorOp.ADD, "z", "z", f"p{number}")
