"""The one declaration of tasks that scheduler, engines, driver and golden model share: which body each operation has.

:mod:`~plinth_hw.isa.descriptors` has what all descriptors begin with, :mod:`~plinth_hw.isa.operations` engines and
operations, and a file of each kind its bodies.
"""

from plinth_hw.isa.descriptors import BODY_WORDS, HEADER_WORDS, RECORD_WORDS, Pointer, Record, TaskHeader
from plinth_hw.isa.layout import WORD_BITS, Code, Struct, offsets
from plinth_hw.isa.matrix_bodies import MatrixBody, RowStationaryBody
from plinth_hw.isa.operations import (
    CollectiveOperation,
    MatrixOperation,
    OptimiserOperation,
    TransferOperation,
    VectorOperation,
)
from plinth_hw.isa.transfer_bodies import CodeBody, TransferBody, TransformBody
from plinth_hw.isa.update_bodies import CollectiveBody, OptimiserBody, RouteBody
from plinth_hw.isa.vector_body import VectorBody

#: Body layout of each operation.
BODIES: dict[Code, type[Struct]] = {
    MatrixOperation.GEMM: MatrixBody,
    MatrixOperation.CONVOLUTION: MatrixBody,
    MatrixOperation.ROW_STATIONARY: RowStationaryBody,
    **dict.fromkeys(VectorOperation, VectorBody),
    **dict.fromkeys(CollectiveOperation, CollectiveBody),
    CollectiveOperation.SET_ROUTE: RouteBody,
    **dict.fromkeys((TransferOperation.COPY, TransferOperation.ADD), TransferBody),
    **dict.fromkeys((TransferOperation.TRANSFORM, TransferOperation.TRANSFORM_ADD), TransformBody),
    **dict.fromkeys((TransferOperation.ENCODE, TransferOperation.DECODE, TransferOperation.PREDICT), CodeBody),
    **dict.fromkeys(OptimiserOperation, OptimiserBody),
}


def pointer_words(body: type[Struct]) -> tuple[int, ...]:
    """Which words of a body are pointers."""
    return tuple(offset // WORD_BITS for offset in offsets(body, Pointer))


def field_word(body: type[Struct], name: str) -> int:
    """Which word of a body a field begins in."""
    return body.FIELDS[name].offset // WORD_BITS


for _layout, _words in ((TaskHeader, HEADER_WORDS), (MatrixBody, 27), (RowStationaryBody, 41),
                        (VectorBody, BODY_WORDS), (CollectiveBody, 8), (RouteBody, 8), (TransferBody, 11),
                        (TransformBody, 23), (CodeBody, 28), (OptimiserBody, 14), (Record, RECORD_WORDS)):
    assert WORD_BITS * _words == _layout.BITS, (_layout, _layout.BITS)
