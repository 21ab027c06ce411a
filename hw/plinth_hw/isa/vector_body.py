"""Body of vector tasks: regions, moves and instructions of a program."""

from plinth_hw.isa.descriptors import Pointer
from plinth_hw.isa.layout import Code, Repeat, Struct, unsigned


class VectorOp(Code, bits=5):
    """Instructions of the vector engine. ``a``, ``b`` and ``dst`` are regions; see docs/vector.md."""

    #: dst = a + b
    ADD = 0
    #: dst = a - b
    SUB = 1
    #: dst = a * b
    MUL = 2
    #: dst = max(a, b); a NaN in either gives NaN, max(-0, +0) = +0
    MAX = 3
    #: dst = a > 0 ? a : +0 (NaN stays NaN)
    RELU = 4
    #: dst = b > 0 ? a : +0 (backward of ReLU: a is the error, b the forward output)
    RELU_MASK = 5
    #: dst = a + immediate
    ADD_IMMEDIATE = 6
    #: dst = a * immediate
    SCALE = 7
    #: dst = a
    COPY = 8
    #: reduction over the dimension that dst lacks, ascending: dst = ((x0 + x1) + x2) + ...
    SUM = 9
    #: reduction over the dimension that dst lacks
    MAXIMUM = 10
    #: dst = function(a), function table number ``b``
    FUNCTION = 11
    #: dst = FP32 -> FP16 (the low half of the word); of FP32 dies only
    NARROW = 12
    #: dst = FP16 -> FP32; of FP32 dies only
    WIDEN = 13


class VectorFunction(Code, bits=3):
    """Tables of the function unit."""

    #: e to the power of x.
    EXPONENTIAL = 0
    #: 1 / x.
    RECIPROCAL = 1
    #: Hyperbolic tangent.
    TANH = 2
    #: 1 / (1 + e to the power of -x); of fixed-point dies only.
    SIGMOID = 3
    #: 1 / square root of x; of FP32 dies only.
    INVERSE_ROOT = 4


#: Regions of a vector program.
VECTOR_REGIONS = 8
#: Loads, stores, immediates and instructions that fit in a vector body.
VECTOR_LOADS = 4
VECTOR_STORES = 3
VECTOR_IMMEDIATES = 4
VECTOR_INSTRUCTIONS = 21


class VectorRegion(Struct):
    """Where a region lies in the scratchpad half, and its shape within the task's rows x columns."""

    #: First line (a line is one word in every bank).
    line: unsigned(16)
    #: 1 x columns instead of rows x columns.
    is_row: unsigned(1)
    #: rows x 1 instead of rows x columns.
    is_column: unsigned(1)
    reserved: unsigned(14)


class VectorMove(Struct):
    """One load or store of a region. ``stride`` words between rows in memory; a column region is
    contiguous in memory; with ``packed`` memory holds numbers of 16 bits, two to a word, and the region the 16 bits
    in the low half of each word."""

    #: First word.
    pointer: Pointer
    #: Words between rows in memory.
    stride: unsigned(32)
    # word 2
    #: Region that is loaded or stored.
    region: unsigned(4)
    #: Numbers of 16 bits in memory, two to a word.
    packed: unsigned(1)
    reserved: unsigned(27)


class VectorInstruction(Struct):
    """One word. The iteration space is the larger of the operands' shapes in each dimension; an
    operand that lacks a dimension is broadcast, a destination that lacks it is reduced into."""

    #: What is done.
    op: VectorOp
    #: Destination region.
    dst: unsigned(3)
    #: First source region.
    a: unsigned(3)
    #: second region, or function table number
    b: unsigned(3)
    #: Number of the immediate.
    immediate: unsigned(2)
    #: 0: lanes run along columns; 1: lanes run along rows
    lanes_along_rows: unsigned(1)
    reserved: unsigned(15)


class VectorBody(Struct):
    """A vector task over ``rows`` x ``columns``: regions, moves, constants and the program."""

    #: Rows of a full region.
    rows: unsigned(16)
    #: Columns of a full region.
    columns: unsigned(16)
    # word 1
    #: How many of the loads are used.
    loads: unsigned(4)
    #: How many of the stores are used.
    stores: unsigned(4)
    #: How many of the instructions are used.
    instructions: unsigned(8)
    reserved: unsigned(16)
    #: Places and shapes of the regions, a word each.
    regions: Repeat(VectorRegion, VECTOR_REGIONS)
    #: Loads, three words each.
    load: Repeat(VectorMove, VECTOR_LOADS)
    #: Stores, three words each.
    store: Repeat(VectorMove, VECTOR_STORES)
    #: FP32 constants.
    immediates: Repeat(unsigned(32), VECTOR_IMMEDIATES)
    #: Instructions, a word each.
    program: Repeat(VectorInstruction, VECTOR_INSTRUCTIONS)
