"""How tasks are cut: lowering cuts them so, and predictions walk through the same pieces."""

from collections.abc import Iterator

from plinth.errors import UserError
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


def groups(count: int, most: int | None) -> Iterator[range]:
    """Neighbouring pieces, in at most so many groups."""
    size = 1 if most is None else max(1, -(-count // most))
    for start in range(0, count, size):
        yield range(start, min(start + size, count))


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


def image_strips(images: int, positions: int) -> Iterator[tuple[int, int]]:
    """First image and number of images of the strips in which maps of so many positions are worked on."""
    step = image_step(images, positions)
    for start in range(0, images, step):
        yield start, min(step, images - start)


def pieces(parameters: DieParameters, rows: int, columns: int, regions: int, row_regions: int, count: int,
           column_regions: int | None, *, whole: bool = True) -> tuple[int, int]:
    """Rows and columns of the pieces in which a vector program does rows x columns: about ``count`` strips of rows, or
    as many more as the scratchpad asks for its full, row and column regions. Where not even a row fits, columns are cut
    as well; but not with ``column_regions``, which say that the program looks at whole rows.

    Parameters
    ----------
    whole : bool
        Whether a row that must be whole has to fit; else it is a piece as it is.

    Raises
    ------
    UserError
        If a row that must be whole does not fit the scratchpad.
    """
    width = columns
    step = row_step(parameters, rows, columns, regions, row_regions, count, column_regions or 0)
    if step < 1:
        if column_regions is not None and not whole:
            return 1, width
        if column_regions is not None:
            raise UserError(f"a row of {columns} values, which a loss or a sparse layer takes whole, does not fit the "
                            f"vector scratchpad of preset {parameters.name!r}; choose a larger preset, a narrower loss "
                            "or, of a sparse layer, a smaller batch")
        width = column_step(parameters, rows, columns, regions, row_regions)
        step = row_step(parameters, rows, width, regions, row_regions, count)
    return step, width
