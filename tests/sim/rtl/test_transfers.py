"""Tiles between co-simulated dies of rings, tori and full arrays, against the golden model."""

from typing import Any

import numpy as np
import pytest
from tests.support.dies import SENDING, TRANSFORMING
from tests.support.tiles import RandomTiles

from plinth.array.array import ARRAYS, Array, ring
from plinth.driver.driver import DieError, Driver
from plinth_hw.isa.descriptors import RECORD_WORDS
from plinth_hw.isa.operations import Engine, ErrorCode, TransferOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.registers import Register
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS = 1 << 14


def compare(tiles: RandomTiles, array: Array, seed: int, **options: Any) -> None:
    """Two steps on both models: all memory is equal but for the records."""
    program = tiles.finish(MEMORY_WORDS)
    records = slice(program.records, program.records + RECORD_WORDS * max(len(graph.tasks) for graph in program.step))
    links = array.directed()
    with CosimArray(tiles.parameters, array.dies, MEMORY_WORDS, **{"links": links, **options}) as rtl:
        golden = GoldenArray(tiles.parameters, array.dies, MEMORY_WORDS)
        both = [(model, Driver(model, program, memory_words=MEMORY_WORDS, links=links)) for model in (rtl, golden)]
        for model, _ in both:
            tiles.fill(model, seed)
        for step in range(2):
            images = []
            for model, driver in both:
                driver.step(0)
                image = np.stack([die.read_memory(0, MEMORY_WORDS) for die in model.dies])
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
    tiles = RandomTiles(SENDING, array.dies, seed)
    for number in range(40):
        tiles.transfer(f"t{number}")
    compare(tiles, array, seed, **options)


@pytest.mark.parametrize("seed", range(3))
def test_random_transforms(seed: int) -> None:
    """Windows to tiles and tiles to maps between all dies, among other tiles."""
    array = ARRAYS["full-4"]
    tiles = RandomTiles(TRANSFORMING, array.dies, seed)
    for number in range(30):
        (tiles.transform if number % 3 else tiles.transfer)(f"t{number}")
    compare(tiles, array, seed)


@pytest.mark.parametrize("seed", range(4))
def test_random_tiles_whose_places_go_to_several_dies(seed: int) -> None:
    array = ARRAYS["full-4"]
    tiles = RandomTiles(TRANSFORMING, array.dies, seed)
    for number in range(30):
        (tiles.spread, tiles.transform, tiles.spread, tiles.transfer)[number % 4](f"t{number}")
    compare(tiles, array, seed)


def test_links_of_different_latency() -> None:
    array = ring(4)
    tiles = RandomTiles(SENDING, 4, 5)
    for number in range(30):
        tiles.transfer(f"t{number}")
    compare(tiles, array, 5, links=[(*link, 1 + 17 * place % 60) for place, link in enumerate(array.directed())])


def crossing(array: Array, words: int, operation: TransferOperation, die: DieParameters = SENDING, **changes: Any
             ) -> RandomTiles:
    """Every die sends a long tile to every other at once, each to a place of its own."""
    tiles = RandomTiles(die, array.dies, 0)
    sources = [builder.allocate("long", 1, words) for builder in tiles.builders]
    places = [[builder.allocate(f"from{other}", 1, words) for other in range(array.dies)]
              for builder in tiles.builders]
    for hop in range(array.dies - 1, 0, -1):
        for die, builder in enumerate(tiles.builders):
            other = (die + hop) % array.dies
            builder.add(f"to{other}", Engine.TRANSFER, operation, {
                "source": sources[die].pointer, "destination": places[other][die].pointer, "columns": words, "rows": 1,
                "planes": 1, "remote": 1, "destination_die": other, "arrival_enable": 1, "arrival": 8 + die,
                **changes}, reads=[sources[die]])
    for die, builder in enumerate(tiles.builders):
        for other in range(array.dies):
            if other != die:
                builder.expect([places[die][other]], 8 + other, 1)
        tiles.pool[die] += [place for other, place in enumerate(places[die]) if other != die]
    return tiles


@pytest.mark.parametrize(("name", "operation"), [
    ("ring-4", TransferOperation.COPY), ("ring-4", TransferOperation.ADD), ("full-4", TransferOperation.ADD),
    ("torus-2x4", TransferOperation.COPY)])
def test_long_tiles_cross_the_array_at_once(name: str, operation: TransferOperation) -> None:
    """Far more words than the routers hold, to every other die, the farthest first."""
    array = ARRAYS[name]
    compare(crossing(array, 700, operation), array, 3)


@pytest.mark.parametrize("make", [CosimArray, GoldenArray])
@pytest.mark.parametrize(("changes", "message"), [
    ({"columns": 0}, r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_OPERAND"),
    ({"gather": 1, "scatter": 1}, r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_OPERAND"),
    ({"arrival": 64}, r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_OPERAND"),
    ({"destination_die": 4}, r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_DIE"),
    ({"source": {"offset": MEMORY_WORDS, "base": 0}}, r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_ADDRESS"),
    ({"destination": {"offset": MEMORY_WORDS - 3, "base": 0}},
     r"die (\d) stopped with BAD_PACKET: a tile from another die goes beyond its memory; see 'to\1' of die "),
    ({"remote": 0, "destination": {"offset": MEMORY_WORDS - 3, "base": 0}},
     r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_ADDRESS"),
])
def test_bad_transfers_are_named(make: Any, changes: dict[str, Any], message: str) -> None:
    """By the die that runs them, or by the die whose memory they miss; the others stop too."""
    stops(make, crossing(ARRAYS["full-4"], 50, TransferOperation.COPY, **changes), message)


@pytest.mark.parametrize("make", [CosimArray, GoldenArray])
@pytest.mark.parametrize(("changes", "message"), [
    ({"down": 5}, r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_OPERAND"),
    # Members that have too few places, too many, none each, or are not remote; that do not exist.
    *(({"members": members, "member_places": places, "longer_members": longer, "remote": remote},
       r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_OPERAND")
      for members, places, longer, remote in ((2, 1, 1, 1), (4, 1, 1, 1), (2, 0, 2, 1), (2, 2, 0, 0), (63, 63, 0, 1))),
    ({"members": 2, "member_places": 2, "member_step": 1020},
     r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_DIE"),
    ({"source_origin": MEMORY_WORDS}, r"die \d: task 'to\d' at word 0x\w+ stopped with BAD_ADDRESS"),
    ({"destination_across": MEMORY_WORDS},
     r"die (\d) stopped with BAD_PACKET: a tile from another die goes beyond its memory; see 'to\1' of die "),
])
def test_bad_transforms_are_named(make: Any, changes: dict[str, Any], message: str) -> None:
    """Two places across become four."""
    fields = {"columns": 8, "across": 2, "source_rows": 1, "source_columns": 2, "source_across": 8,
              "destination_rows": 1, "destination_columns": 4, "destination_across": 8}
    tiles = crossing(ARRAYS["full-4"], 50, TransferOperation.TRANSFORM, TRANSFORMING, **(fields | changes))
    stops(make, tiles, message)


def stops(make: Any, tiles: RandomTiles, message: str) -> None:
    """All dies stop, and the error says why."""
    array = ARRAYS["full-4"]
    program = tiles.finish(MEMORY_WORDS)
    devices = make(tiles.parameters, 4, MEMORY_WORDS, **({"links": array.directed()} if make is CosimArray else {}))
    driver = Driver(devices, program, memory_words=MEMORY_WORDS, watchdog_cycles=20_000, links=array.directed())
    with pytest.raises(DieError, match=message):
        driver.step(0)
    assert all(die.read_register(Register.STATUS) & 4 for die in devices.dies)


def test_every_die_hears_of_an_error() -> None:
    """One die stops; the others, also those that it has no link to, report it as another die's."""
    array = ARRAYS["torus-2x4"]
    tiles = RandomTiles(SENDING, array.dies, 0)
    tiles.builders[5].add("bad", Engine.TRANSFER, TransferOperation.COPY, {
        "source": {"offset": 0, "base": 0}, "destination": {"offset": 64, "base": 0}, "columns": 0, "rows": 1,
        "planes": 1})
    for die in (0, 1, 2, 3, 4, 6, 7):
        # A wait for what never comes.
        tiles.builders[die].expect([tiles.pool[die][0]], 40, 1)
    program = tiles.finish(MEMORY_WORDS)
    with CosimArray(tiles.parameters, array.dies, MEMORY_WORDS, links=array.directed()) as rtl:
        driver = Driver(rtl, program, memory_words=MEMORY_WORDS, links=array.directed())
        with pytest.raises(DieError, match=r"die 5: task 'bad' at word 0x[0-9a-f]+ stopped with BAD_OPERAND"):
            driver.step(0)
        for number, device in enumerate(rtl.dies):
            if number != 5:
                assert device.read_register(Register.ERROR_CODE) == ErrorCode.REMOTE.value
                assert device.read_register(Register.ERROR_INFO) >> 16 == 5


def test_a_link_without_latency_is_refused() -> None:
    with pytest.raises(ValueError, match=r"link \(0, 0, 1, 1, 0\) must have a positive latency"):
        CosimArray(SENDING, 2, 64, links=[(0, 0, 1, 1, 0)])
