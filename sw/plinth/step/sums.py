"""Sums of what several dies send, a few summands at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from plinth.partition.graph import Node
from plinth.step.operations import Space, Sweep
from plinth.step.slots import Slots, Summands
from plinth.step.tasks import Task, Vector
from plinth.step.tensors import Placed, Tensor, folded
from plinth.step.vector import VectorProgram
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.vector_body import VECTOR_LOADS, VectorOp


def add_sources(program: VectorProgram, sources: Sequence[Placed]) -> None:
    """Region "z": the sources added in their order."""
    program.load("z", sources[0])
    for number, source in enumerate(sources[1:], start=1):
        program.load(f"p{number}", source)
    for number in range(1, len(sources)):
        program.run(VectorOp.ADD, "z", "z", f"p{number}")


#: Partial sums of other dies, or a sum of some of them, that are left to the program that goes on with them.
LEFT = 3


def additions(sources: int, left: int) -> int:
    """Times that some of the sources are added, until so many are left."""
    return max(0, -(-(sources - left) // (VECTOR_LOADS - 1)))


#: Times that sources are added, up to which the pieces of each are in as many groups as a program's alone.
FEW = 8


@dataclass(frozen=True)
class Sum:
    """Sources added in their order into ``target``, as many at a time as a task loads, until ``keep`` are left; over
    rows of ``space``, else of the target, ``fold`` positions as one."""

    name: str
    node: Node
    parameters: DieParameters
    sources: Sequence[Placed]
    target: Tensor
    keep: int
    space: Space | None = None
    fold: int = 1

    @property
    def adds(self) -> int:
        """Times that sources are added: first as many as are loaded, then one less beside the sum so far."""
        return additions(len(self.sources), self.keep)

    @property
    def left(self) -> list[Placed]:
        """The operands that remain behind the adds: the sum, and sources that are not added."""
        added = self.adds * (VECTOR_LOADS - 1) + 1
        return [self.target, *self.sources[added:]] if self.adds else list(self.sources)

    def sweep(self, number: int) -> Sweep:
        """The vector work of one of the times that sources are added."""
        each = VECTOR_LOADS - 1
        begin, end = number * each + (number > 0), (number + 1) * each + 1
        target = folded(self.target, self.fold)
        sources = ([target] if number else []) + list(self.sources[begin:end])
        program = VectorProgram(self.parameters)
        add_sources(program, sources)
        program.store("z", target)
        return Sweep(self.name, self.node, self.parameters, program, program, self.space or self.target, len(sources),
                     fold=self.fold)

    def tasks(self, die: int, most: int | None = None) -> Iterator[Task]:
        """The tasks of a die, and what arrives, in program order; pieces in at most ``most`` groups."""
        adds = self.adds
        if most is None or adds <= most or not isinstance(self.sources, (Slots, Summands)):
            # Strips of each of a few times follow those of the time before.
            inner = None if most is None else max(1, FEW * most // max(FEW, adds))
            for number in range(adds):
                yield from self.sweep(number).tasks(die, inner)
            return
        held = self.sources.buffers(die)
        target, each = self.target.buffer(die), -(-adds // most)
        for task in self.sweep(1).tasks(die, 1):
            # Of a single piece each sum waits for the one before.
            work = replace(cast("Vector", task.work), serial=task.count == 1)
            for start in range(0, adds, each):
                yield Task(f"{self.name}[{start}]", Engine.VECTOR, work, (*held, target), (target,),
                           min(each, adds - start) * task.count, self.node)
