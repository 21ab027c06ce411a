"""Row-stationary array."""

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from plinth_hw.isa.formats import Float
from plinth_hw.matrix.row_stationary.interface import ArrayShape, Pass


class RowArray(wiring.Component):
    """R x C processing elements; see :mod:`plinth_hw.matrix.row_stationary.interface` for the layouts.

    Parameters
    ----------
    multiply_format, accumulate_format : Float
        Formats of the operands and of the sums.
    rows, columns, filter_words, feature_words, sums, feed_words : int
        Sizes, as of :class:`~plinth_hw.matrix.row_stationary.interface.ArrayShape`.

    Members
    -------
    passes : In(stream.Signature(Pass))
        Passes, in order. May be offered before anything else of the pass; one is taken ahead of the pass that
        row 0 runs. It takes 2 + max(tap_columns, interleaved_windows) cycles until row 0 has it.
    filters : In(filter_write)
        Acts in the cycle in which ``valid`` is set; no backpressure. The k-th pass since reset uses half k mod 2 in
        every row.
    filters_loaded : In(rows)
        Bit i, one pulse a pass: all lines of row i's next half were written, in this cycle or before. Rows that are
        not active take part (they need the pulse, and release), but nothing has to be written for them.
    filters_released : Out(rows)
        Bit i, one pulse a pass: row i reads no more from the half that it has used; it may be written from the
        cycle of the pulse on. Two halves are free at reset.
    features : In(feature_write)
        Acts in the cycle in which ``valid`` is set; no backpressure. All PEs whose id is ``id`` store the line
        at their ring's current place. The place is free if lines done - lines released < feature_lines.
    line_done : In(1)
        Pulse: all lines of the current place were written, in this cycle or before; writes of later cycles go
        to the next place. Lines number on from pass to pass, ``lines`` of them for each pass.
    lines_released : Out(1)
        Pulse: one line more, in order, that no row needs any longer, and that was done before. All ``lines`` of a
        pass are released in the end, used or not.
    ids : In(id_write)
        Holds for feature writes of later cycles, and not for those of this one or earlier.
    sums : In(stream.Signature(ArrayLayout(accumulate bits, columns)))
        What the sums start from, slot by slot: window, interleaved window, filter; idle slots have none.
        At most two windows are taken ahead of the one that row 0 runs.
    results : Out(sums_out)
        The finished sums, in the same order; no backpressure. A window's P valid cycles are consecutive.
    sum_room : In(1)
        There is room for the results of one more window than was reserved. Counts in the cycle of
        ``sum_reserve``; a reservation must be taken into account 8 cycles later, for then the next one may come.
    sum_reserve : Out(1)
        Pulse: the last row begins a window, whose results take the room. The first of them comes no sooner than
        14 cycles later.
    issued : Out(rows)
        Bit i: row i multiplies in this cycle, in all columns (not: idle slots, rows that are not active).
    blocked : Out(1)
        The last row could begin a window but for ``sum_room``.
    """

    def __init__(self, multiply_format: Float, accumulate_format: Float, rows: int, columns: int,
                 filter_words: int, feature_words: int, sums: int, feed_words: int) -> None:
        self.shape = shape = ArrayShape(
            multiply_format=multiply_format, accumulate_format=accumulate_format, rows=rows, columns=columns,
            filter_words=filter_words, feature_words=feature_words, sums=sums, feed_words=feed_words)
        super().__init__({
            "passes": In(stream.Signature(Pass)),
            "filters": In(shape.filter_write),
            "filters_loaded": In(rows),
            "filters_released": Out(rows),
            "features": In(shape.feature_write),
            "line_done": In(1),
            "lines_released": Out(1),
            "ids": In(shape.id_write),
            "sums": In(stream.Signature(shape.sum_words)),
            "results": Out(shape.sums_out),
            "sum_room": In(1),
            "sum_reserve": Out(1),
            "issued": Out(rows),
            "blocked": Out(1),
        })
