"""Task descriptors: the one declaration that scheduler, engines, driver and golden model share.

A task is one descriptor of :data:`DESCRIPTOR_WORDS` units of 32 bits in die memory, aligned to its own size:
:class:`TaskHeader` (8 units), then the body of its engine (56 units). All addresses, strides and lengths count words of
memory (``DieParameters.word_bits``: 32 or 16 bits) unless a name says otherwise; a row of packed elements starts on a
word boundary. Source: MPT section VI.A (task graph, update counters).
"""

from plinth_hw.isa.layout import WORD_BITS, Code, Repeat, Struct, offsets, signed, unsigned

#: Words in a descriptor (256 bytes).
DESCRIPTOR_WORDS = 64
#: Words of the header; the body follows.
HEADER_WORDS = 8
#: Words of the body.
BODY_WORDS = DESCRIPTOR_WORDS - HEADER_WORDS
#: Waits a task can name.
WAITS = 4
#: Words of a completion record.
RECORD_WORDS = 8


class Engine(Code, bits=4):
    """Engines of a die; the value is also the index of the engine's status registers."""

    #: Systolic or row-stationary matrix engine.
    MATRIX = 0
    #: Vector engine.
    VECTOR = 1
    #: Ring-reduce collective engine.
    COLLECTIVE = 2
    #: Strided or indexed tiles from this die's memory to any die's.
    TRANSFER = 3
    #: Updates of weights that keep state, or more than 16 bits, of fixed-point dies.
    OPTIMISER = 4


class MatrixOperation(Code, bits=4):
    #: ``C = op(A) op(B)`` or, with ``accumulate``, ``C = C + op(A) op(B)``.
    GEMM = 0
    #: The same, where A is the matrix of the windows of a feature map, read from the map itself.
    CONVOLUTION = 1
    #: Rows of windows of a feature map times rows of filters; the one operation of row-stationary dies, and of those
    #: only.
    ROW_STATIONARY = 2


class VectorOperation(Code, bits=4):
    #: Load regions, run the program, store regions.
    PROGRAM = 0


class CollectiveOperation(Code, bits=4):
    #: Reduce-scatter, update by the owner, all-gather.
    ALL_REDUCE = 0
    #: Reduce-scatter and update only: the owner's chunks of ``destination`` are written.
    REDUCE_SCATTER = 1
    #: Owners' chunks of ``source`` go to every member's ``destination``.
    ALL_GATHER = 2
    #: Rewrite one row of the group table: members, own index, next hop.
    SET_GROUP = 3
    #: Routes of a kind of traffic become others, once none of it is in the router; of dies that set routes.
    SET_ROUTE = 4


class TransferOperation(Code, bits=4):
    #: Words of the source tile are stored in the destination tile.
    COPY = 0
    #: They are added to what lies there.
    ADD = 1
    #: Blocks of the source are transformed on their way, and stored; of dies that have transforms.
    TRANSFORM = 2
    #: The same, and added.
    TRANSFORM_ADD = 3
    #: Runs of the source become strings of bits at the destination; of dies that have codes.
    ENCODE = 4
    #: Strings become runs.
    DECODE = 5
    #: Fills of tile elements give masks of those that must still come.
    PREDICT = 6


class OptimiserOperation(Code, bits=4):
    """Rules of update, with g the gradient, w a weight and s its state; see :mod:`plinth_sim.golden.optimiser`."""

    #: ``w - rate g``
    SGD = 0
    #: ``s = decay s + g``, ``w - rate s``
    MOMENTUM = 1
    #: ``s = s + g^2``, ``w - rate g / sqrt(s + epsilon)``
    ADAGRAD = 2
    #: ``s = s + g^2``, ``w - rate g / (s + epsilon)``: as Deep3 prints it.
    ADAGRAD_PRINTED = 3


class UpdateOperation(Code, bits=4):
    """What the owner of a reduced chunk does with the sum."""

    #: The sum itself is the result.
    NONE = 0
    #: ``w - (rate * sum)``, two roundings.
    SGD = 1


class Pointer(Struct):
    """Address in die memory: ``BASE[base] + offset`` words."""

    #: Words beyond the base.
    offset: unsigned(28)
    #: Base register.
    base: unsigned(4)


class TaskHeader(Struct):
    """First 8 words of every descriptor."""

    # word 0
    #: Engine that runs the task.
    engine: Engine
    #: Operation of that engine.
    operation: unsigned(4)
    #: Write a completion record.
    record: unsigned(1)
    #: Last task of the graph: the die is done when all tasks up to this one have completed.
    last: unsigned(1)
    #: Advance counter ``advance`` by one on completion.
    advance_enable: unsigned(1)
    #: Send an advance of ``remote_counter`` to die ``remote_die`` on completion.
    remote_enable: unsigned(1)
    reserved0: unsigned(4)
    #: Counter that completion advances.
    advance: unsigned(8)
    reserved1: unsigned(8)
    # word 1
    #: Die whose counter completion advances.
    remote_die: unsigned(10)
    reserved2: unsigned(6)
    #: Counter there.
    remote_counter: unsigned(8)
    reserved3: unsigned(8)
    # word 2
    #: Counters that the task waits for, 8 bits each.
    wait_counter: Repeat(unsigned(8), WAITS)
    # word 3
    #: Which of the waits count.
    wait_enable: unsigned(WAITS)
    reserved4: unsigned(12)
    #: Free for software (echoed in the completion record).
    tag: unsigned(16)
    # words 4 to 7
    #: The task may start when counter - (COUNTER_BASES[counter] + value) >= 0 modulo 2^32, as signed.
    wait_value: Repeat(unsigned(32), WAITS)


class MatrixBody(Struct):
    """GEMM operands. ``A`` is stored row-major ``[M, K]``, or ``[K, M]`` with ``transpose_a``;
    ``B`` is stored ``[K, N]``, or ``[N, K]`` with ``transpose_b``; ``C`` is ``[M, N]`` in the
    accumulator's format. Strides are words between rows as stored.

    What follows word 9 counts for CONVOLUTION only. There a row of A as stored is the window at a position
    of a grid of images x ``grid_rows`` x ``grid_columns`` positions, walked columns first; its elements are
    those of a kernel row's first run, second run, ..., then the next kernel row's. Elements outside the map
    are +0 and not read. Rows of C follow the same grid, but with ``transpose_a``. Steps, ``a_origin``
    included, are words modulo 2^32 and may be negative; see docs/matrix.md."""

    #: First row of A.
    a: Pointer
    #: Words from one stored row of A to the next.
    a_stride: unsigned(32)
    #: First row of B.
    b: Pointer
    #: Words from one stored row of B to the next.
    b_stride: unsigned(32)
    #: First row of C.
    c: Pointer
    #: Words from one row of C to the next.
    c_stride: unsigned(32)
    #: Rows of C.
    m: unsigned(32)
    #: Columns of C.
    n: unsigned(32)
    #: Terms of each sum.
    k: unsigned(32)
    # word 9
    #: A is stored [K, M].
    transpose_a: unsigned(1)
    #: B is stored [N, K].
    transpose_b: unsigned(1)
    #: Sums start from C instead of +0.
    accumulate: unsigned(1)
    reserved0: unsigned(5)
    #: log2 of the interleaved outputs per PE along M; along N it is interleave / this.
    interleave_m_log2: unsigned(4)
    reserved1: unsigned(20)
    # word 10
    #: From ``a`` to the window of the first position, whose first element may lie outside the map.
    a_origin: unsigned(32)
    #: From the window of the last position of a grid row to that of the first one of the next
    #: (``a_stride``: to that of the next position).
    a_row_step: unsigned(32)
    #: The same from the last position of an image to the first one of the next.
    a_image_step: unsigned(32)
    # word 13
    #: Positions of a grid row.
    grid_columns: unsigned(16)
    #: Rows of a grid image.
    grid_rows: unsigned(16)
    # word 14
    #: Elements of a window that are neighbours in memory.
    a_run: unsigned(16)
    #: Such runs of a kernel row.
    a_runs: unsigned(16)
    #: From a run to the next one of its kernel row.
    a_run_step: unsigned(32)
    #: From the last run of a kernel row to the first one of the next.
    a_kernel_step: unsigned(32)
    # word 17
    #: Row of the map at which the windows of the first grid row begin.
    window_row: signed(16)
    #: Map rows from a grid row to the next.
    window_row_step: unsigned(16)
    # word 18
    #: Rows of the map.
    map_rows: unsigned(16)
    reserved2: unsigned(16)
    # word 19
    #: Element of a map row at which the windows of the first grid column begin.
    window_column: signed(24)
    reserved3: unsigned(8)
    #: Elements of a map row from a grid column to the next.
    window_column_step: unsigned(24)
    reserved4: unsigned(8)
    #: Elements of a map row.
    map_columns: unsigned(24)
    reserved5: unsigned(8)
    # word 22
    #: Elements of a stored row of B that are neighbours in memory; 0: all.
    b_run: unsigned(16)
    #: Such runs of a kernel row.
    b_runs: unsigned(16)
    #: From a run to the next one of its kernel row.
    b_run_step: unsigned(32)
    #: From the last run of a kernel row to the first one of the next.
    b_kernel_step: unsigned(32)
    #: From the row of C of the last position of a grid row to that of the first one of the next.
    c_row_step: unsigned(32)
    #: The same from the last position of an image to the first one of the next.
    c_image_step: unsigned(32)


class RowStationaryBody(Struct):
    """Rows of sums ``out[o, w, f]``, o = (image, y) in an array column each: over blocks of channels, folds of kernel
    rows, segments of kernel columns, sets, rows of a set, taps (s, c), ascending, ``X * W`` is added to a sum. Steps
    are modulo 2^32 and may be negative: those of map and filters in operands, narrow ones two to a word, those of sums
    in words; see docs/row_mapping.md.

    From ``x_origin`` on fields follow from those above; they save the engine multiplications."""

    #: Map: element (image, row, column, channel) lies at the sum of its steps.
    x: Pointer
    #: First word of the filters.
    w: Pointer
    #: First word of the sums.
    c: Pointer
    #: From an image of the map to the next.
    x_image: unsigned(32)
    #: From a row of the map to the next.
    x_row: unsigned(32)
    #: From a column of the map to the next.
    x_column: unsigned(32)
    #: From a channel of the map to the next; 1 if ``tap_channels`` is above 1.
    x_channel: unsigned(32)
    #: From a kernel row to the next.
    w_row: unsigned(32)
    #: From a kernel column to the next.
    w_column: unsigned(32)
    #: From a channel of the filters to the next.
    w_channel: unsigned(32)
    #: From a filter to the next.
    w_filter: unsigned(32)
    #: From the sums of an image to those of the next.
    c_image: unsigned(32)
    #: From the sums of a row y to those of the next.
    c_row: unsigned(32)
    #: From the sums of a window column v to those of the next.
    c_column: unsigned(32)
    #: From the sums of a window of a column to those of the next.
    c_run: unsigned(32)
    # word 15
    #: Images.
    images: unsigned(16)
    #: Rows y of sums of an image; images x rows take an array column each.
    rows: unsigned(16)
    # word 16
    #: Windows of a row.
    windows: unsigned(16)
    #: Neighbouring operands of the map that are windows of the same column; window = (v, u), u below this.
    window_run: unsigned(16)
    # word 17
    #: Filters.
    filters: unsigned(16)
    #: Filters that a PE interleaves.
    filter_step: unsigned(8)
    #: Groups of ``filter_step`` filters that run for each load of the map's rows.
    filter_groups: unsigned(8)
    # word 18
    #: Rows of a filter.
    kernel_rows: unsigned(16)
    #: Columns of a filter.
    kernel_columns: unsigned(16)
    # word 19
    #: Channels that a sum runs over.
    channels: unsigned(24)
    #: Channels of a kernel column in a PE.
    tap_channels: unsigned(8)
    # word 20
    #: Kernel rows of a set of array rows.
    set_rows: unsigned(8)
    #: Sets of array rows, ``tap_channels`` channels each.
    sets: unsigned(8)
    #: Kernel columns in a PE.
    tap_columns: unsigned(8)
    #: Windows that a PE interleaves.
    interleaved_windows: unsigned(8)
    # word 21
    #: Row of the map that kernel row 0 meets for y = 0.
    row_origin: signed(16)
    #: Rows of the map from a y to the next.
    row_stride: unsigned(16)
    # word 22
    #: Column of the map that kernel column 0 meets for v = 0.
    column_origin: signed(24)
    #: Columns of the map from a v to the next.
    column_stride: unsigned(8)
    # word 23
    #: Rows of the map from a kernel row to the next.
    row_dilation: unsigned(16)
    #: Columns of the map from a kernel column to the next.
    column_dilation: unsigned(16)
    # word 24
    #: Rows of the map; rows outside are +0 and not read.
    map_rows: unsigned(16)
    #: Columns of the map; columns outside are +0 and not read.
    map_columns: unsigned(16)
    # word 25
    #: Sums start from C instead of +0.
    accumulate: unsigned(1)
    reserved0: unsigned(31)
    #: row_origin x_row + column_origin x_column
    x_origin: unsigned(32)
    #: tap_channels x_channel
    x_set: unsigned(32)
    #: sets x_set
    x_block: unsigned(32)
    #: set_rows row_dilation x_row
    x_fold: unsigned(32)
    #: tap_columns column_dilation x_column
    x_segment: unsigned(32)
    #: tap_channels w_channel
    w_set: unsigned(32)
    #: sets w_set
    w_block: unsigned(32)
    #: set_rows w_row
    w_fold: unsigned(32)
    #: tap_columns w_column
    w_segment: unsigned(32)
    #: filter_step w_filter
    w_group: unsigned(32)
    # word 36
    #: Words of a row's stream from a window to the next: column_stride tap_channels, or 1 if window_run is above 1.
    window_step: unsigned(16)
    #: Words of a row's stream from a kernel column to the next: column_dilation tap_channels window_run.
    tap_step: unsigned(16)
    # word 37
    #: Columns of the map in a stream: (ceil(windows / window_run) - 1) column_stride + (tap_columns - 1)
    #: column_dilation + 1
    stream_columns: unsigned(16)
    #: Lines of a stream: its words in units of the die's feed_words, rounded up.
    stream_lines: unsigned(16)
    # word 38
    #: Rows of the map under a set: (rows - 1) row_stride + (set_rows - 1) row_dilation + 1
    id_rows: unsigned(16)
    #: Streams of a load: sets images id_rows
    ids: unsigned(16)
    # word 39
    #: ceil(channels / (sets tap_channels))
    blocks: unsigned(16)
    #: ceil(kernel_rows / set_rows)
    folds: unsigned(16)
    # word 40
    #: ceil(kernel_columns / tap_columns)
    segments: unsigned(16)
    reserved1: unsigned(16)


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


class CollectiveBody(Struct):
    """``source``, ``destination`` are beat-aligned; the message has ``words`` words, cut in chunks of
    the die's chunk size; chunk c belongs to member c mod N. For SGD ``destination`` holds the weights
    and receives the updated ones."""

    #: First word of this die's part of the message.
    source: Pointer
    #: First word of the result; with SGD also of the weights.
    destination: Pointer
    #: Length of the message.
    words: unsigned(32)
    # word 3
    #: Row of the group table.
    group: unsigned(4)
    #: What the owner does with a sum.
    update: UpdateOperation
    reserved0: unsigned(8)
    #: Message number, equal on all members; number mod reduce blocks picks the reduce block.
    message: unsigned(8)
    reserved1: unsigned(8)
    #: learning rate: FP32 bits, or a Factor on dies of fixed-point memory
    rate: unsigned(32)
    #: reserved for optimiser state vectors
    state: Repeat(unsigned(32), 2)
    # word 7, SET_GROUP only
    #: Die that this one sends to.
    next_die: unsigned(10)
    #: Members of the ring.
    members: unsigned(10)
    #: This die's place in the ring, from 0.
    index: unsigned(10)
    reserved2: unsigned(2)


class Traffic(Code, bits=2):
    """Kinds of traffic that have routes of their own, on dies that set routes."""

    #: Advances.
    CONTROL = 0
    #: Chunks of collectives, of all reduce blocks.
    CHUNKS = 1
    #: Tiles.
    TILES = 2


#: Routes that a task sets at most.
ROUTES_SET = 20


class RouteBody(Struct):
    """Packets of ``traffic`` to the dies from ``first_die`` on, ``dies`` of them, leave by ``ports``."""

    # words 0 and 1 are pointers of other collective tasks
    reserved0: unsigned(32)
    reserved1: unsigned(32)
    # word 2
    #: First destination.
    first_die: unsigned(10)
    reserved2: unsigned(6)
    #: Destinations, from 1 to 20.
    dies: unsigned(5)
    reserved3: unsigned(3)
    #: Whose routes these are.
    traffic: Traffic
    reserved4: unsigned(6)
    #: Port towards each destination.
    ports: Repeat(unsigned(8), ROUTES_SET)


class OptimiserBody(Struct):
    """``rows`` x ``columns`` weights are updated. All vectors are beat-aligned, and so are their rows: those of weights
    and gradient ``stride`` words apart, those of low halves and states ``state_stride``. What is not used of them is
    neither read nor written. Vectors must not overlap, nor their rows."""

    # word 0
    #: Weights have low halves.
    wide_weights: unsigned(1)
    #: States have low halves.
    wide_state: unsigned(1)
    #: What is not wide is rounded at random.
    stochastic: unsigned(1)
    reserved: unsigned(29)
    #: First gradient.
    gradient: Pointer
    #: First state; with ``wide_state`` the high half.
    state: Pointer
    #: First low half of a state.
    state_low: Pointer
    #: First weight; with ``wide_weights`` the high half.
    weights: Pointer
    #: First low half of a weight.
    weights_low: Pointer
    #: State of the generator of random bits, 32 bits, two words; with ``stochastic`` read first and written last.
    generator: Pointer
    #: Words of a row.
    columns: unsigned(32)
    #: Rows.
    rows: unsigned(32)
    #: Words from row to row of weights and gradient.
    stride: unsigned(32)
    #: Words from row to row of low halves and states.
    state_stride: unsigned(32)
    #: Learning rate, a Factor.
    rate: unsigned(32)
    #: What momentum keeps of the state, a Factor.
    decay: unsigned(32)
    #: What Adagrad adds to the state, in units of 2^-28; not 0.
    epsilon: unsigned(32)


class TransferBody(Struct):
    """``planes`` x ``rows`` x ``columns`` words of this die's memory go to this or another die's; columns are
    contiguous on both sides. Both addresses are formed with this die's base registers. In a side that is
    indexed (one at most), row r of a plane begins at the plane's address plus ``index[r]`` times the row stride."""

    #: First word read.
    source: Pointer
    #: First word written.
    destination: Pointer
    #: Contiguous words.
    columns: unsigned(32)
    #: Rows of a plane.
    rows: unsigned(32)
    #: Planes.
    planes: unsigned(32)
    #: Words from row to row of the source.
    source_row_stride: unsigned(32)
    #: Words from plane to plane of the source.
    source_plane_stride: unsigned(32)
    #: Words from row to row of the destination.
    destination_row_stride: unsigned(32)
    #: Words from plane to plane of the destination.
    destination_plane_stride: unsigned(32)
    # word 9
    #: Die that the destination tile lies on, with ``remote``.
    destination_die: unsigned(10)
    #: The destination lies on ``destination_die``; else on this die.
    remote: unsigned(1)
    #: Source rows are indexed.
    gather: unsigned(1)
    #: Destination rows are indexed.
    scatter: unsigned(1)
    #: Advance ``arrival`` on the destination's die once the tile is in its memory.
    arrival_enable: unsigned(1)
    reserved0: unsigned(2)
    #: Counter of the destination's die.
    arrival: unsigned(8)
    reserved1: unsigned(8)
    # word 10
    #: First word of the list of row numbers, in this die's memory.
    index: Pointer


class TransformBody(TransferBody):
    """``planes`` x ``rows`` tiles, down x across, of ``columns`` channels, transformed (:mod:`plinth_hw.isa.winograd`):
    X = M d M'^T of the places d of a window at the source, stored in or added to places at the destination. Strides of
    rows and planes lead from a tile to the next across and down, on both sides; nothing is indexed. A place of
    the source that lies outside the map is +0 and not read, one of the destination is not written. Places of a tile do
    not overlap at the destination.

    With ``marks``, of dies that have codes, a result of 0 tells whether it has a cause: it is -0 if its window has
    anything but +0 at a place that it has a coefficient for (-0 is something), else +0."""

    #: From ``source`` to the first place of the first window, modulo 2^32, which may lie outside the map.
    source_origin: unsigned(32)
    #: Words from a place of the source to the one below, and to the right.
    source_down: unsigned(32)
    source_across: unsigned(32)
    #: The same of the destination.
    destination_origin: unsigned(32)
    destination_down: unsigned(32)
    destination_across: unsigned(32)
    # word 17
    #: Row and column of the source's map at which the first window begins.
    source_row: signed(16)
    source_column: signed(16)
    #: Rows and columns of that map.
    source_rows: unsigned(16)
    source_columns: unsigned(16)
    #: The same of the destination's.
    destination_row: signed(16)
    destination_column: signed(16)
    destination_rows: unsigned(16)
    destination_columns: unsigned(16)
    # word 21
    #: Rows and columns from a tile to the next, in the maps.
    source_row_step: unsigned(4)
    source_column_step: unsigned(4)
    destination_row_step: unsigned(4)
    destination_column_step: unsigned(4)
    #: Numbers of M and M', of :data:`~plinth_hw.isa.winograd.MATRICES`.
    down: unsigned(4)
    across: unsigned(4)
    #: M goes first, else M'.
    down_first: unsigned(1)
    reserved2: unsigned(6)
    #: Results of 0 are -0 if they have a cause.
    marks: unsigned(1)
    # word 22
    #: Not 0, and ``remote``: places of a tile go, row by row, to so many dies, ``destination_die`` first,
    #: ``member_step`` dies from one to the next, each ``member_places`` of them, of the first ``longer_members`` one
    #: more: all places together. Those of a die lie ``destination_across`` words apart from the first place on;
    #: ``arrival`` advances on each. Words are counted that go to other dies than the task's own.
    members: unsigned(6)
    member_places: unsigned(6)
    longer_members: unsigned(6)
    member_step: unsigned(10)
    reserved3: unsigned(4)


class CodeBody(TransformBody):
    """``rows`` runs of ``columns`` words are coded, or decoded (:mod:`plinth_hw.isa.codes`), in one plane; nothing is
    indexed. ENCODE makes a string of each run of ``source``, at ``destination``; DECODE runs, at ``destination``, of
    strings at ``codes``. A string has a place of as many words as its row's stride: its length in words, then those.
    Of a next part masks say which words are coded, ``source`` has, decoding, the runs as they are known, and
    ``destination`` may be the same place. An error BAD_CODE ends the task: the place has no room, or a string's length
    is not what the run's words take.

    With ``skips`` strings are skip code, of no level. ENCODE codes the words that ``given`` masks name, or those other
    than +0. DECODE reads masks that were not ``sent``, and stores those that were, if they are ``given`` a place, at
    ``mask`` of the destination's die; words that they do not name become +0. Masks of a string that name words behind
    the run's last are BAD_CODE. With ``maps`` as well, and masks that are ``sent`` and not ``given``, ENCODE leaves out
    all words: masks of this die's runs for itself.

    With ``regions`` a first part has their codes, at the scale ``first``, and a next one the words that masks name, as
    they are. PREDICT then reads fills of that scale, and names all elements of tiles of which a neuron may live.

    PREDICT tells of ``rows`` tiles of ``columns`` channels, a multiple of the words that the engine moves a cycle,
    which elements neurons need that may be above 0 (:mod:`plinth_sim.golden.prediction`). ``source`` has fills of the
    first element, by ``source_row_stride`` from tile to tile and ``source_plane_stride`` from element to element, row
    by row of a tile; ``down`` and ``across`` are numbers of A^T, or of 1; ``codes`` has what is added to each
    channel's neurons, ``first`` is the level. ``destination_rows`` and ``destination_columns``, unless the first is 0,
    are the sides of maps whose tiles lie row by row, map after map: neurons outside are dead. At ``destination`` it
    makes masks, ``destination_row_stride`` from element to element, of the tiles' channels one behind the other."""

    #: DECODE: first string. PREDICT: what is added.
    codes: Pointer
    #: From a string's place to the next: its room.
    codes_row_stride: unsigned(32)
    #: Of a next part, and of ``given`` masks: first word of the first run's mask.
    mask: Pointer
    #: From a run's mask to the next.
    mask_row_stride: unsigned(32)
    # word 27
    #: Level, or log2 of the scale, of the first part, or of the fills.
    first: signed(8)
    #: Of a next part: level to which its words are known; to which they are sent.
    known: signed(8)
    lower: signed(8)
    #: It is a next part.
    follows: unsigned(1)
    #: To exact words, instead of to a lower level.
    exact: unsigned(1)
    #: Skip code, instead of the block code; no next part.
    skips: unsigned(1)
    #: With it: strings have masks; masks have a place at ``mask``. One of the two at least.
    sent: unsigned(1)
    given: unsigned(1)
    #: ENCODE, with ``sent``, not ``given``: strings are masks alone.
    maps: unsigned(1)
    #: Codes of regions, of so many bits and 3, instead of the block code; 0: not. A next part is to exact words.
    regions: unsigned(2)


#: Operations of each engine.
OPERATIONS = {
    Engine.MATRIX: MatrixOperation,
    Engine.VECTOR: VectorOperation,
    Engine.COLLECTIVE: CollectiveOperation,
    Engine.TRANSFER: TransferOperation,
    Engine.OPTIMISER: OptimiserOperation,
}
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


class Record(Struct):
    """Completion record, one for each finished task that asks for one."""

    #: Task address in words.
    task: unsigned(32)
    #: The header's tag.
    tag: unsigned(16)
    #: Engine that ran the task.
    engine: Engine
    reserved: unsigned(12)
    #: Low 32 bits of the die's cycle counter when the task started.
    start: unsigned(32)
    #: The same when it had completed.
    end: unsigned(32)
    #: Cycles in which the engine stood still for this task.
    stall_cycles: unsigned(32)
    #: Words that the task moved.
    payload_words: unsigned(32)
    #: Useful multiply-adds.
    useful_macs: unsigned(64)


class ErrorCode(Code, bits=8):
    """Why a die stopped (register ERROR_CODE)."""

    #: No error.
    NONE = 0
    #: Engine number not present on this die.
    BAD_ENGINE = 1
    #: Operation unknown to the engine.
    BAD_OPERATION = 2
    #: A field has a value that the engine cannot run (zero size, region outside the scratchpad...).
    BAD_OPERAND = 3
    #: A memory access beyond MEMORY_WORDS.
    BAD_ADDRESS = 4
    #: A wait names a counter that does not exist.
    BAD_COUNTER = 5
    #: No task started, completed or moved for WATCHDOG cycles while tasks were waiting.
    TIMEOUT = 6
    #: Another die reported an error (ERROR_INFO: its number).
    REMOTE = 7
    #: The memory answered with an error.
    MEMORY = 8
    #: A transfer, remote advance or ring names a die that the array does not have (register DIES).
    BAD_DIE = 9
    #: A tile that another die sent goes beyond MEMORY_WORDS here.
    BAD_PACKET = 10
    #: A write to ROUTES names a die that the array does not have, or a port that this die does not have (ERROR_INFO:
    #: the die); a SET_ROUTE task does so, or a packet of its traffic came while it changed routes.
    BAD_ROUTE = 11
    #: A packet came for a die to which no route leads on from here (ERROR_INFO: its number); it was thrown away.
    NO_ROUTE = 12
    #: The link of a port (ERROR_INFO) went down though flits had gone over it: the other end began anew, or did not
    #: acknowledge what was sent again and again.
    LINK = 13
    #: The string of a run has no room in its place, or is not as long as the run's words take.
    BAD_CODE = 14


for _layout, _words in ((TaskHeader, HEADER_WORDS), (MatrixBody, 27), (RowStationaryBody, 41),
                        (VectorBody, BODY_WORDS), (CollectiveBody, 8), (RouteBody, 8), (TransferBody, 11),
                        (TransformBody, 23), (CodeBody, 28), (OptimiserBody, 14), (Record, RECORD_WORDS)):
    assert WORD_BITS * _words == _layout.BITS, (_layout, _layout.BITS)
