"""Bodies of matrix tasks: products and convolutions, of systolic and of row-stationary engines."""

from plinth_hw.isa.descriptors import Pointer
from plinth_hw.isa.layout import Struct, signed, unsigned


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
