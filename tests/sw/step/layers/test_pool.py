"""Work of pools as groups of equal tasks, against the tasks themselves."""

from collections import Counter
from itertools import groupby

import pytest

from plinth.buffers import Buffer
from plinth.machine.convolution import FeatureMap
from plinth.network.layers import MaxPool, MeanPool, Shape
from plinth.step.layers import pool_programs
from plinth.step.layers.pool import _pooled
from plinth_hw.isa.parameters import preset

TINY = preset("ndp-tiny")


@pytest.mark.parametrize("kind", [MaxPool, MeanPool])
@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), [
    ((1, 1), (1, 1), (0, 0), (1, 6)), ((1, 1), (1, 1), (0, 0), (1, 1)), ((2, 2), (2, 2), (0, 0), (6, 6)),
    ((3, 3), (1, 1), (1, 1), (5, 7)), ((3, 5), (2, 1), (1, 2), (6, 6)), ((5, 1), (1, 2), (0, 0), (5, 7))])
@pytest.mark.parametrize("backward", [False, True])
def test_equal_tasks_of_a_pool_are_counted_a_phase_at_a_time(
        kind: type, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], side: tuple[int, int],
        backward: bool) -> None:
    """A phase reads and writes the same maps: tasks that are equal but of two phases, as those down and across a map of
    one row are, stay two groups, as the later waits for the earlier."""
    layer = kind(name="pool", inputs=("x",), kernel=kernel, stride=stride, padding=padding)
    _, rows, columns = layer.output([Shape((4, *side))])
    sizes = [side, (rows, side[1]), (rows, columns)]
    sizes += sizes[::-1] if backward else []
    maps = [FeatureMap(Buffer(str(number), 0, 3 * height * width, 4, 4, packed=False), height, width)
            for number, (height, width) in enumerate(sizes)]

    programs = (pool_programs.backward if backward else pool_programs.forward)(layer, TINY, *maps)
    phases = [((sorted({int(buffer.place) for buffer in program.reads})),
               sorted({int(move.operand.place) for move in program.stores}),  # type: ignore[union-attr]
               (program.rows, program.columns, tuple(program.instructions))) for _, program in programs]
    wanted = [(maps_of, Counter(shape for *_, shape in tasks))
              for maps_of, tasks in groupby(phases, lambda phase: (phase[0], phase[1]))]

    groups = _pooled(TINY, layer, backward, 3, tuple((4, False, size) for size in sizes))
    counted: list[tuple[tuple[list[int], list[int]], Counter]] = []
    for maps_of, of_phase in groupby(groups, lambda group: (group[4], group[5])):
        counted.append((maps_of, Counter()))
        for program, tall, wide, count, *_ in of_phase:
            shape = tall, wide, tuple(program.instructions)
            assert shape not in counted[-1][1], "equal tasks are one group"
            counted[-1][1][shape] = count
    assert counted == wanted
