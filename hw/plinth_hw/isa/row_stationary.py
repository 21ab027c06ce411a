"""Fields of a row-stationary body that follow from others, and what a task needs of the machine.

Plain integers, for software, golden model and tests. ``body`` has the fields of
:class:`~plinth_hw.isa.matrix_bodies.RowStationaryBody` as attributes.
"""

from typing import Any

from plinth_hw.isa.parameters import DieParameters

ADDRESS_MASK = 0xFFFF_FFFF
#: Fields that count something.
COUNTS = ("images", "rows", "windows", "window_run", "filters", "filter_step", "filter_groups", "kernel_rows",
          "kernel_columns", "channels", "tap_channels", "set_rows", "sets", "tap_columns", "interleaved_windows",
          "map_rows", "map_columns")


def signed(step: int) -> int:
    """A step modulo 2^32, the one nearest to 0."""
    return (step + (1 << 31) & ADDRESS_MASK) - (1 << 31)


def derived(body: Any, die: DieParameters) -> dict[str, int]:
    """Fields that follow from others, of a body without 0 in :data:`COUNTS`."""
    columns = -(-body.windows // body.window_run)
    stream_columns = (columns - 1) * body.column_stride + (body.tap_columns - 1) * body.column_dilation + 1
    id_rows = (body.rows - 1) * body.row_stride + (body.set_rows - 1) * body.row_dilation + 1
    run = body.tap_channels * body.window_run
    steps = {
        "x_origin": body.row_origin * signed(body.x_row) + body.column_origin * signed(body.x_column),
        "x_set": body.tap_channels * body.x_channel,
        "x_block": body.sets * body.tap_channels * body.x_channel,
        "x_fold": body.set_rows * body.row_dilation * body.x_row,
        "x_segment": body.tap_columns * body.column_dilation * body.x_column,
        "w_set": body.tap_channels * body.w_channel,
        "w_block": body.sets * body.tap_channels * body.w_channel,
        "w_fold": body.set_rows * body.w_row,
        "w_segment": body.tap_columns * body.w_column,
        "w_group": body.filter_step * body.w_filter,
    }
    return {name: value & ADDRESS_MASK for name, value in steps.items()} | {
        "window_step": body.column_stride * body.tap_channels if body.window_run == 1 else 1,
        "tap_step": body.column_dilation * run,
        "stream_columns": stream_columns,
        "stream_lines": -(-stream_columns * run // die.feed_words),
        "id_rows": id_rows,
        "ids": body.sets * body.images * id_rows,
        "blocks": -(-body.channels // (body.sets * body.tap_channels)),
        "folds": -(-body.kernel_rows // body.set_rows),
        "segments": -(-body.kernel_columns // body.tap_columns),
    }


def needs(body: Any, die: DieParameters) -> dict[str, tuple[int, int]]:
    """What a task takes of the machine and what there is, by name. The ifmap scratchpad takes more to run without
    a pause: see docs/row_mapping.md."""
    step = -(-body.filter_step // die.feed_words) * die.feed_words
    padded = -(-body.windows // body.interleaved_windows) * body.interleaved_windows
    span = ((body.interleaved_windows - 1) * body.window_step + (body.tap_columns - 1) * body.tap_step
            + body.tap_channels)
    return {
        "array columns": (body.images * body.rows, die.columns),
        "array rows": (body.sets * body.set_rows, die.rows),
        "words of a PE's filter scratchpad": (body.tap_columns * body.tap_channels * step, die.filter_words),
        "psums of a PE": (body.filter_step * body.interleaved_windows, die.psum_words),
        "words of a PE's ifmap scratchpad": (span + 2 * die.feed_words, die.ifmap_words),
        "words of the ifmap buffer": (-(-body.ids * body.stream_lines * die.feed_words // die.packing),
                                        die.operand_buffer_words),
        "words of a bank of psums": (body.filter_groups * padded * body.filter_step, die.bank_words),
    }
