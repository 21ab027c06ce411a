"""Vector programs in numpy, over whole parts of dies at once."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plinth.errors import UserError
from plinth.runtime.memory import Floats, Kernel, Memory
from plinth.step.vector import Instruction, VectorProgram
from plinth_hw.isa.vector_body import VectorFunction, VectorOp

#: Of operations with two sources, and with a source and an immediate.
_TWO: Mapping[VectorOp, Callable[..., Any]] = {VectorOp.ADD: np.add, VectorOp.SUB: np.subtract,
                                               VectorOp.MUL: np.multiply, VectorOp.MAX: np.maximum}
_IMMEDIATE: Mapping[VectorOp, Callable[..., Any]] = {VectorOp.ADD_IMMEDIATE: np.add, VectorOp.SCALE: np.multiply}
_FUNCTIONS: Mapping[VectorFunction, Callable[..., object]] = {
    VectorFunction.EXPONENTIAL: np.exp, VectorFunction.RECIPROCAL: np.reciprocal, VectorFunction.TANH: np.tanh,
    VectorFunction.INVERSE_ROOT: lambda a, out: np.reciprocal(np.sqrt(a, out=out), out=out)}


def _shape(shape: str, rows: int, columns: int) -> tuple[int, int]:
    return {"full": (rows, columns), "row": (1, columns), "column": (rows, 1), "element": (1, 1)}[shape]


def _instruction(instruction: Instruction, a: Floats, b: Floats | None, out: Floats, axis: int) -> Kernel:
    """An instruction on regions that have places; ``axis`` is what a reduction takes away."""
    op = instruction.op
    if op in _TWO:
        return lambda: _TWO[op](a, b, out=out)
    if op in _IMMEDIATE:
        number = np.float32(instruction.immediate)
        return lambda: _IMMEDIATE[op](a, number, out=out)
    if op is VectorOp.RELU:
        return lambda: np.maximum(a, np.float32(0), out=out)
    if op is VectorOp.RELU_MASK:
        assert b is not None
        return lambda: np.multiply(a, b > 0, out=out)
    if op is VectorOp.COPY:
        return lambda: np.copyto(out, a)
    if op is VectorOp.FUNCTION:
        function = _FUNCTIONS[instruction.b]  # type: ignore[index]
        return lambda: function(a, out=out)
    if op is VectorOp.SUM:
        return lambda: np.add.reduce(a, axis=axis, out=out, keepdims=True)
    if op is VectorOp.MAXIMUM:
        return lambda: np.maximum.reduce(a, axis=axis, out=out, keepdims=True)
    raise UserError(f"numpy has no {op.name.lower()} of numbers of 16 bits; choose dies of format=fp32")


#: Words of a region up to which scratch memory is shared.
SCRATCH_WORDS = 1 << 19


class Scratch:
    """Memory for regions that are kept only while a program runs: all programs of a process use the same, as one runs
    at a time."""

    def __init__(self) -> None:
        self._regions: list[Floats] = []

    def region(self, number: int, shape: tuple[int, int]) -> Floats:
        """The region of a number within its program; one that is too large to be shared has memory of its own."""
        words = shape[0] * shape[1]
        if words > SCRATCH_WORDS:
            return np.empty(shape, np.float32)
        while len(self._regions) <= number:
            self._regions.append(np.empty(SCRATCH_WORDS, np.float32))
        return self._regions[number][:words].reshape(shape)


def program_kernel(memory: Memory, program: VectorProgram, scratch: Scratch) -> Kernel:
    """What a program does over its rows and columns, made ready.

    Raises
    ------
    UserError
        If it reads or writes numbers of 16 bits.
    """
    if any(move.packed for move in (*program.loads, *program.stores)):
        raise UserError("numpy computes in FP32 alone; choose dies of format=fp32")
    shapes = {name: _shape(shape, program.rows, program.columns) for name, shape in program.regions.items()}
    loads = {move.region: memory.view(move.operand).reshape(shapes[move.region])  # type: ignore[arg-type]
             for move in program.loads}
    stores = {move.region: memory.view(move.operand).reshape(shapes[move.region])  # type: ignore[arg-type]
              for move in program.stores}
    regions, runs = dict(loads), []
    kept = 0
    for instruction in program.instructions:
        a = regions[instruction.a]
        b = regions[instruction.b] if isinstance(instruction.b, str) else None
        out = stores.get(instruction.dst)
        if out is None or not _alone(out, loads, instruction.dst):
            # What is only kept between instructions, or would be written over what others still read.
            held = regions.get(instruction.dst)
            if held is not None and instruction.dst not in loads:
                out = held
            else:
                out, kept = scratch.region(kept, shapes[instruction.dst]), kept + 1
        runs.append(_instruction(instruction, a, b, out, 0 if program.regions[instruction.dst] == "row" else 1))
        regions[instruction.dst] = out
    for name, target in stores.items():
        if regions[name] is not target:
            runs.append(_copy(regions[name], target))

    def run() -> None:
        for kernel in runs:
            kernel()

    return run


def _copy(source: Floats, target: Floats) -> Kernel:
    return lambda: np.copyto(target, source)


def _alone(out: Floats, loads: Mapping[str, Floats], region: str) -> bool:
    """Whether no other region's operand lies where a region is stored."""
    return not any(np.may_share_memory(out, held) for name, held in loads.items() if name != region)
