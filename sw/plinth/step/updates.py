"""Updates of weights that keep vectors beside them: each die updates what it owns of a message (:mod:`.owned`).

Of a fixed-point die the optimiser engine does it, as :mod:`plinth_sim.golden.optimiser` says; of others the vector
engine, chunk by chunk, by the rule's own program (:mod:`plinth.update`), each operation rounded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from plinth.buffers import Buffer
from plinth.partition.graph import Node
from plinth.step import granularity
from plinth.step.owned import Kept, Owned, OwnedChunks
from plinth.step.tasks import Optimisation, Task, Vector
from plinth.step.tensors import Placed
from plinth.step.vector import VectorProgram
from plinth.step.weights import WeightPiece, Weights
from plinth.update.rule import STATE, UpdateRule
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import VectorFunction, VectorOp

#: Full regions of a vector program: weights, state, gradient, and what is made of them.
REGIONS = 4


@dataclass(frozen=True)
class StateUpdate:
    """What dies own of a piece of a layer's weights, updated by the sum of its gradients.

    Parameters
    ----------
    rule : UpdateRule
        For gradients as they are in memory.
    gradients : Weights
        Where a die's own chunks hold sums of gradients.
    owned : Owned
        Which weights are whose.
    kept : mapping of name to Kept
        Vectors beside the weights.
    generator : Placed or None
        State of a die's generator of random bits.
    """

    node: Node
    parameters: DieParameters
    rule: UpdateRule
    weights: Weights
    gradients: Weights
    owned: Owned
    kept: Mapping[str, Kept]
    generator: Placed | None
    piece: WeightPiece
    #: Numbers of the rings whose update it is.
    going: frozenset[int]

    @property
    def name(self) -> str:
        """The name of the operation's tasks."""
        return f"{self.node.name}.update" + (f"[{self.piece.number}]" if self.piece.of > 1 else "")

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        for block, weights, gradients, kept in self.rows(die):
            if isinstance(self.parameters.memory_format, Fixed):
                yield self._optimisation(die, block, weights, gradients, kept)
            else:
                yield from self._programs(block, weights, gradients, kept[STATE], most)

    def rows(self, die: int) -> Iterator[tuple[OwnedChunks, Buffer, Buffer, Mapping[str, Buffer]]]:
        """What a die owns of the piece, block by block: rows of weights, of gradients, and of what is kept beside."""
        if self.owned.rings.group(die) not in self.going:
            return
        for piece, block in self.owned.blocks(die):
            if piece == self.piece:
                kept = {name: block.beside(vector.buffer(die)) for name, vector in self.kept.items()}
                weights, gradients = (block.of(tensor.buffer(die)) for tensor in (self.weights, self.gradients))
                yield block, weights, gradients, kept

    def _optimisation(self, die: int, block: OwnedChunks, weights: Buffer, gradients: Buffer, kept: Mapping[str, Buffer]
                      ) -> Task:
        generator = None if self.generator is None else self.generator.buffer(die)
        work = Optimisation(gradients, weights, kept, generator)
        changed = (weights, *kept.values(), *(() if generator is None else (generator,)))
        return Task(f"{self.name}[{block.first}]", Engine.OPTIMISER, work, (gradients, *changed), changed, 1, self.node)

    def _programs(self, block: OwnedChunks, weights: Buffer, gradients: Buffer, state: Buffer, most: int | None
                  ) -> Iterator[Task]:
        step = update_rows(self.parameters, block.rows, block.columns)
        for pieces in granularity.groups(-(-block.rows // step), most):
            start, end = pieces.start * step, min(pieces.stop * step, block.rows)
            w, g, s = (buffer.lines(start, end - start) for buffer in (weights, gradients, state))
            rows = min(step, end - start)
            yield Task(f"{self.name}[{block.first + start * block.stride}]", Engine.VECTOR,
                       Vector(update_program(self.parameters, self.rule, rows, w, g, s), rows, block.columns),
                       (w, g, s), (w, s), len(pieces), self.node)


def update_rows(parameters: DieParameters, rows: int, columns: int) -> int:
    """Rows of a task of the vector engine that updates rows x columns weights."""
    return granularity.row_step(parameters, rows, columns, REGIONS, 0)


def update_program(parameters: DieParameters, rule: UpdateRule, rows: int, weights: Buffer, gradients: Buffer,
                   state: Buffer) -> VectorProgram:
    """The update of the first ``rows`` rows of some weights."""
    program = VectorProgram(parameters, rows, weights.columns)
    w, g, s = (buffer.lines(0, rows) for buffer in (weights, gradients, state))
    for name, buffer in (("w", w), ("s", s), ("g", g)):
        program.load(name, buffer)
    rule.law.program(_Operations(program), rule)
    program.run(VectorOp.SUB, "w", "w", "q")
    program.store("s", s)
    program.store("w", w)
    return program


@dataclass(frozen=True)
class _Operations:
    """A vector program as rules write it."""

    program: VectorProgram

    def add(self, to: str, a: str, b: str) -> None:
        self.program.run(VectorOp.ADD, to, a, b)

    def subtract(self, to: str, a: str, b: str) -> None:
        self.program.run(VectorOp.SUB, to, a, b)

    def multiply(self, to: str, a: str, b: str) -> None:
        self.program.run(VectorOp.MUL, to, a, b)

    def shift(self, to: str, a: str, number: float) -> None:
        self.program.run(VectorOp.ADD_IMMEDIATE, to, a, immediate=number)

    def scale(self, to: str, a: str, number: float) -> None:
        self.program.run(VectorOp.SCALE, to, a, immediate=number)

    def reciprocal(self, to: str, a: str) -> None:
        self.program.run(VectorOp.FUNCTION, to, a, VectorFunction.RECIPROCAL)

    def inverse_root(self, to: str, a: str) -> None:
        self.program.run(VectorOp.FUNCTION, to, a, VectorFunction.INVERSE_ROOT)
