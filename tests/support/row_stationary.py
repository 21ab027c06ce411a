"""Random tasks of a row-stationary machine."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support.systolic import numbers

from plinth.machine.mappings import Loops, Work, costs
from plinth_hw.isa.formats import word_type
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.row_stationary import ADDRESS_MASK, derived, needs
from plinth_sim.golden.matrix import storage, stored

#: Words from which on maps, filters and sums lie.
X, W, C = 0, 24000, 48000


def memory(rng: np.random.Generator, kind: str, die: DieParameters, words: int) -> NDArray[np.unsignedinteger]:
    """Numbers of a kind: operands of the die below C, stored sums from there on."""
    fmt, word = die.multiply_format, word_type(die.memory_format)
    return np.concatenate([numbers(rng, kind, (C * die.packing,), storage(fmt)).view(word),
                           numbers(rng, kind, (words - C,), stored(fmt)).view(word)])


def _steps(sizes: list[tuple[str, int]], inner: int, rng: np.random.Generator) -> tuple[dict[str, int], int]:
    """Steps of dimensions that are stored the last one fastest, and the words of all."""
    steps, words = {}, inner
    for name, size in reversed(sizes):
        steps[name] = words
        words = words * size + int(rng.integers(0, 3))
    return steps, words


def random_body(rng: np.random.Generator, die: DieParameters) -> Any:
    """A task with a bit of everything that fits the machine; its operands lie in words 0 to 65535 of base 0, as in
    :func:`memory`."""
    while True:
        def number(low: int, high: int) -> int:
            return int(rng.integers(low, high + 1))

        run = number(2, 4) if rng.random() < 0.3 else 1
        tap_channels = 1 if run > 1 else number(1, 3)
        body = SimpleNamespace(
            images=number(1, 2), rows=number(1, die.columns), windows=run * number(1, 6), window_run=run,
            filters=number(1, 9), filter_step=number(1, min(8, die.psum_words)), filter_groups=number(1, 2),
            kernel_rows=number(1, die.rows + 2), kernel_columns=number(1, 4), channels=number(1, 6),
            tap_channels=tap_channels, set_rows=number(1, die.rows), sets=number(1, 2), tap_columns=number(1, 3),
            interleaved_windows=number(1, 3), row_origin=number(-3, 2), row_stride=number(1, 2),
            column_origin=number(-3, 2), column_stride=1 if run > 1 else number(1, 3), row_dilation=number(1, 2),
            column_dilation=number(1, 2), map_rows=number(1, 9), map_columns=number(1, 9), accumulate=number(0, 1))
        last = (body.windows - 1) % run
        body.windows -= number(0, min(last, body.windows - 1))
        body.__dict__.update(_places(body, die, rng))
        body.__dict__.update(derived(body, die))
        if all(need <= most for need, most in needs(body, die).values()):
            return body


def _places(body: Any, die: DieParameters, rng: np.random.Generator) -> dict[str, Any]:
    """Pointers and steps of operands that lie anyhow: in any order, forwards or backwards."""
    sizes = [("x_image", body.images), ("x_row", body.map_rows), ("x_column", body.map_columns)]
    channel = ("x_channel", body.channels)
    if body.tap_channels > 1:
        x, x_words = _steps([*sizes, channel], 1, rng)
    else:
        rng.shuffle(sizes := [*sizes, channel])
        x, x_words = _steps(sizes, body.window_run, rng)
    sizes = [("w_row", body.kernel_rows), ("w_column", body.kernel_columns), ("w_channel", body.channels),
             ("w_filter", body.filters)]
    rng.shuffle(sizes)
    w, w_words = _steps(sizes, 1, rng)
    first = 0
    for name, size in sizes:
        if rng.random() < 0.3:
            first += (size - 1) * w[name]
            w[name] = -w[name] & ADDRESS_MASK
    columns = -(-body.windows // body.window_run)
    c, c_words = _steps([("c_image", body.images), ("c_row", body.rows), ("c_column", columns),
                         ("c_run", body.window_run)], body.filters, rng)
    assert x_words <= W - X and w_words <= C - W and c_words <= (1 << 16) - C
    pointers = {name: SimpleNamespace(offset=at, base=0) for name, at in (
        ("x", X), ("w", W - (-first // die.packing)), ("c", C))}
    return pointers | x | w | c


def task_work(die: DieParameters, body: Any) -> Work:
    """What a task of the machine takes; ``body`` has the fields of ``RowStationaryBody`` as attributes."""
    loops = Loops(
        filters=body.filters, channels=body.channels, kernel_rows=body.kernel_rows, kernel_columns=body.kernel_columns,
        row_stride=body.row_stride, column_stride=body.column_stride, row_dilation=body.row_dilation,
        column_dilation=body.column_dilation, adjacent_filters=body.w_filter == 1)
    row, around, read, written = map(float, costs(die, loops, body, body.images, body.rows, body.windows,
                                                  body.window_run))
    return Work(row + around, row, read, written)
