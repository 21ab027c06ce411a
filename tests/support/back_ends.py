"""One program on any array of devices by the one driver, and what it leaves in memory."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from plinth.buffers import Buffer
from plinth.driver.device import DeviceArray
from plinth.driver.driver import Driver
from plinth.driver.program import Program
from plinth_hw.isa.descriptors import RECORD_WORDS

Image = NDArray[np.unsignedinteger]


def images(array: DeviceArray, program: Program, buffers: Sequence[Buffer], seed: int, *, memory_words: int,
           steps: int, driver: Driver | None = None) -> Iterator[Image]:
    """Run ``steps`` steps on seeded data, by the array's driver if it has one, and give the whole memory after each,
    [dies, words], but for the completion records, which hold times."""
    size = program.parameters.words_of(RECORD_WORDS)
    records = slice(program.records, program.records + size * max(len(graph.tasks) for graph in program.step))
    driver = driver or Driver(array, program, memory_words=memory_words)
    rng = np.random.default_rng(seed)
    for die in range(program.dies):
        for buffer in buffers:
            values = rng.standard_normal((buffer.rows, buffer.columns)).astype(np.float32)
            driver.write_floats(die, buffer, values)
    for _ in range(steps):
        driver.step(0)
        image = np.stack([die.read_memory(0, memory_words) for die in array.dies])
        image[:, records] = 0
        yield image


def check_equal(image: Image, wanted: Image, program: Program) -> None:
    """Two images are equal.

    Raises
    ------
    AssertionError
        The message names the dies, buffers and words that differ.
    """
    texts = []
    for die, (mine, other) in enumerate(zip(image, wanted, strict=True)):
        wrong = np.flatnonzero(mine != other)
        for buffer in program.buffers.values():
            inside = wrong[(wrong >= buffer.address) & (wrong < buffer.address + buffer.words)]
            if len(inside):
                at = int(inside[0])
                texts.append(f"die {die}, buffer {buffer.name}: {len(inside)} words differ, the first at word "
                             f"{at}: {mine[at]:#010x}, not {other[at]:#010x}")
        if len(wrong) and not texts:
            texts.append(f"die {die}: {len(wrong)} words differ, the first at word {wrong[0]}")
    assert not texts, "; ".join(texts)
