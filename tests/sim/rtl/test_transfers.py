"""Tiles between co-simulated dies of rings, tori and full arrays, against the golden model."""

from typing import Any

import numpy as np
import pytest
from tests.support.tiles import RandomTiles

from plinth.driver.driver import Driver
from plinth.model.array import ARRAYS, Array, ring
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.tasks import RECORD_WORDS, Engine
from plinth_sim.golden.device import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS = 1 << 14
ONLY = frozenset({Engine.TRANSFER})


def parameters(array: Array) -> Any:
    """A die with small buffers, and the links that the array needs."""
    return preset("ndp-tiny", engines=ONLY, chunk_words=16, flit_words=2, ports=max(2, array.ports))


def compare(tiles: RandomTiles, array: Array, seed: int, **options: Any) -> None:
    """Two steps on both models: all memory is equal but for the records."""
    program = tiles.finish(MEMORY_WORDS)
    records = slice(program.records, program.records + RECORD_WORDS * max(len(one.tasks) for one in program.step))
    links = array.directed()
    with CosimArray(tiles.parameters, array.dies, MEMORY_WORDS, **{"links": links, **options}) as rtl:
        golden = GoldenArray(tiles.parameters, array.dies, MEMORY_WORDS)
        both = [(one, Driver(one, program, memory_words=MEMORY_WORDS, links=links)) for one in (rtl, golden)]
        for one, _ in both:
            tiles.fill(one, seed)
        for step in range(2):
            images = []
            for one, driver in both:
                driver.step(0)
                image = np.stack([die.read_memory(0, MEMORY_WORDS) for die in one.dies])
                image[:, records] = 0
                images.append(image)
            wrong = np.argwhere(images[0] != images[1])
            assert not len(wrong), f"step {step}: {len(wrong)} words differ, the first on die, word {wrong[0]}"


@pytest.mark.parametrize(("name", "seed", "options"), [
    *(("ring-2", seed, {}) for seed in range(4)), ("ring-2", 9, {"memory_latency": 200, "write_latency": 150}),
    *(("ring-4", seed, {}) for seed in range(4)), ("ring-4", 9, {"link_latency": 40}),
    *(("full-4", seed, {}) for seed in range(3)), *(("torus-2x4", seed, {}) for seed in range(3))])
def test_random_tiles(name: str, seed: int, options: dict[str, Any]) -> None:
    """Store, add, gather and scatter between all dies; what may follow waits for counters that tiles advance."""
    array = ARRAYS[name]
    tiles = RandomTiles(parameters(array), array.dies, seed)
    for number in range(40):
        tiles.transfer(f"t{number}")
    compare(tiles, array, seed, **options)


def test_links_of_different_latency() -> None:
    array = ring(4)
    tiles = RandomTiles(parameters(array), 4, 5)
    for number in range(30):
        tiles.transfer(f"t{number}")
    compare(tiles, array, 5, links=[(*link, 1 + 17 * place % 60) for place, link in enumerate(array.directed())])
