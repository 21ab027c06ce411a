"""How tasks are cut: lowering cuts them so, and predictions walk through the same pieces."""

from plinth_hw.isa.parameters import SYSTOLIC, DieParameters

#: Strips that a die's part is cut into, unless the scratchpad asks for more or they get short.
STRIPS = 8
#: Groups of a row from which on the sum of columns takes no more cycles a row.
SUMMED_GROUPS = 4
#: Rows behind a slice of an embedding whose rows are split, about as many as adds to them are under way at a time.
SPARE_ROWS = 16
#: Strips that images are cut into at least, if there are as many, and positions of a strip of more.
IMAGE_STRIPS = 4
STRIP_POSITIONS = 512


def row_step(parameters: DieParameters, rows: int, columns: int, regions: int, row_regions: int,
             pieces: int = STRIPS, column_regions: int = 0) -> int:
    """Rows of a strip of a vector program over rows x columns: of about ``pieces`` strips, or as many more as the
    scratchpad asks for its full, row and column regions; 0 if not even a row fits."""
    line = -(-columns // parameters.beat_words)
    lines = parameters.vector_buffer_words // parameters.beat_words
    most = (lines - row_regions * line) // (regions * line + column_regions)
    return max(0, min(most, max(2 * parameters.rows, -(-rows // pieces))))


def column_step(parameters: DieParameters, rows: int, columns: int, regions: int, row_regions: int) -> int:
    """Columns of a piece of rows of which not even one fits the scratchpad: whole beats, so many that the rows of a
    short strip fit."""
    lines = parameters.vector_buffer_words // parameters.beat_words
    beats = max(1, lines // (regions * min(rows, 2 * parameters.rows) + row_regions))
    return min(columns, beats * parameters.beat_words)


def zero_step(parameters: DieParameters) -> int:
    """Words that a vector task fills with zeros: what fits its scratchpad beside a word, and its fields."""
    lines = parameters.vector_buffer_words // parameters.beat_words - 1
    return min(lines, (1 << 16) // parameters.beat_words - 1) * parameters.beat_words


def sample_step(parameters: DieParameters) -> int:
    """Samples of a strip of a fully connected layer: two of an array's rows, or four of a row-stationary one's
    columns."""
    return 2 * parameters.rows if parameters.machine == SYSTOLIC else 4 * parameters.columns


def image_step(images: int, positions: int) -> int:
    """Images of a strip, in maps of so many positions."""
    return max(1, min(STRIP_POSITIONS // positions, -(-images // IMAGE_STRIPS)))


def folding(parameters: DieParameters, positions: int, channels: int) -> int:
    """Positions that column sums take as one row, so that a row has groups enough: a divisor of them."""
    for fold in range(1, positions + 1):
        if positions % fold == 0 and -(-fold * channels // parameters.beat_words) >= SUMMED_GROUPS:
            return fold
    return 1
