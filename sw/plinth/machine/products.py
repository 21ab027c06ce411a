"""Products as tasks of the die's matrix engine."""

from typing import Any, NamedTuple

from plinth.buffers import Buffer
from plinth.machine.convolution import Body, ConvolutionShape, FeatureMap
from plinth.machine.row_stationary import RowStationary
from plinth.machine.systolic import Systolic
from plinth_hw.isa.operations import MatrixOperation
from plinth_hw.isa.parameters import ROW_STATIONARY, SYSTOLIC, DieParameters

#: What makes the tasks of each machine.
MAKERS: dict[str, type[Systolic] | type[RowStationary]] = {SYSTOLIC: Systolic, ROW_STATIONARY: RowStationary}


class MatrixTasks(NamedTuple):
    """Tasks of a product: groups of bodies; those of a group write different words, a group adds to those before."""

    operation: MatrixOperation
    groups: list[list[Body]]


def matrix_tasks(parameters: DieParameters, layer: str, direction: str, shape: ConvolutionShape | None,
                 a: Buffer | FeatureMap, b: Buffer | FeatureMap, c: Buffer | FeatureMap) -> MatrixTasks:
    """Tasks of a product; operands as :class:`plinth.step.tasks.Multiplication` has them.

    Raises
    ------
    UserError
        If the layer has no mapping onto the machine, or is larger than a task's fields.
    """
    maker = MAKERS[parameters.machine](parameters, layer)
    operation = maker.operation(shape is None)
    if shape is None:
        assert isinstance(a, Buffer) and isinstance(b, Buffer) and isinstance(c, Buffer)
        dense = {"fprop": maker.dense_forward, "bprop": maker.dense_input_gradient,
                 "update": maker.dense_weight_gradient}[direction]
        return MatrixTasks(operation, dense(a, b, c))
    convolve: Any = {"fprop": maker.forward, "bprop": maker.input_gradient, "update": maker.weight_gradient}[direction]
    return MatrixTasks(operation, convolve(shape, a, b, c))
