"""Links of an array on co-simulated dies: rates of their own give the same words in the cycles that each link takes,
and what the circle checker refuses stands still."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.support.tiles import RandomTiles

from plinth.array.array import Array
from plinth.driver.driver import DieError, Driver
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble
from plinth.lower.traffic import traffic
from plinth_hw.isa import registers as regs
from plinth_hw.isa.limits import rate_word
from plinth_hw.isa.operations import Engine, TransferOperation
from plinth_hw.isa.parameters import DieParameters
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

MEMORY_WORDS, WORDS = 1 << 14, 2048
FULL, NARROW = Fraction(1, 2), Fraction(1, 8)
#: A ring of full links, and narrow ones between opposite dies.
ARRAY = Array(name="crossed", topology="links", dies=4, preset="ndp-tiny", link_rate=FULL,
              wiring=(*((die, 0, (die + 1) % 4, 1) for die in range(4)), (0, 2, 2, 2), (1, 2, 3, 2)),
              wiring_rates=(None,) * 4 + (NARROW,) * 2)


def parameters(array: Array = ARRAY) -> DieParameters:
    return replace(array.die_parameters(), engines=frozenset({Engine.TRANSFER}), chunk_words=16)


def sent(array: Array) -> int:
    """Cycles until a tile of die 0 is at die 2, while die 1 sends one as long to die 3; words are those of the golden
    model."""
    die = parameters(array)
    builders = [GraphBuilder(die) for _ in range(4)]
    for number, builder in enumerate(builders):
        source, target = builder.allocate("source", 1, WORDS), builder.allocate("target", 1, WORDS)
        if number < 2:
            builder.add("tile", Engine.TRANSFER, TransferOperation.COPY, {
                "source": source.pointer, "destination": target.pointer, "columns": WORDS, "rows": 1, "planes": 1,
                "remote": 1, "destination_die": number + 2, "arrival_enable": 1, "arrival": len(Engine)},
                reads=[source])
        else:
            builder.expect([target], len(Engine), 1)
        builder.add("after", Engine.TRANSFER, TransferOperation.COPY, {
            "source": target.pointer, "destination": source.pointer, "columns": 1, "rows": 1, "planes": 1},
            reads=[target], writes=[source])
    program = assemble([], builders, memory_words=MEMORY_WORDS)
    with CosimArray(die, 4, MEMORY_WORDS, links=array.timed()) as rtl:
        drivers = [Driver(model, program, memory_words=MEMORY_WORDS, links=array)
                   for model in (rtl, GoldenArray(die, 4, MEMORY_WORDS))]
        for driver in drivers:
            for number in range(4):
                driver.write(number, source, np.arange(WORDS, dtype=np.uint32).reshape(1, WORDS) + number)
            driver.step(0)
            assert (driver.read(2, target) == np.arange(WORDS, dtype=np.uint32)).all()
        return drivers[0].records(2)[0].start - drivers[0].records(0)[0].start


def test_a_tile_takes_what_its_links_take() -> None:
    """Over a narrow link of its own a quarter of a full one's rate; by way of die 1 over full ones, of which two tiles
    share the second, twice as fast."""
    ways = tuple(tuple(None if die == other else 1 if (other - die) % 4 == 3 else 0 for other in range(4))
                 for die in range(4))
    narrow, full = sent(ARRAY), sent(replace(ARRAY, routes=ways))
    assert WORDS / NARROW <= narrow < 1.02 * WORDS / NARROW
    assert 1.5 * WORDS / FULL <= full < 1.1 * 2 * WORDS / FULL


def test_a_tile_takes_the_latency_of_its_link() -> None:
    latency = 100
    assert sent(replace(ARRAY, wiring_latencies=(*(None,) * 4, latency, latency))) - sent(ARRAY) == (
        latency - ARRAY.link_latency)


def test_random_tiles_are_the_same_at_any_rates() -> None:
    tiles = RandomTiles(parameters(), 4, 3)
    for number in range(30):
        tiles.transfer(f"t{number}")
    program, images = tiles.finish(MEMORY_WORDS), []
    with CosimArray(parameters(), 4, MEMORY_WORDS, links=ARRAY.directed()) as rtl:
        for model in (rtl, GoldenArray(parameters(), 4, MEMORY_WORDS)):
            driver = Driver(model, program, memory_words=MEMORY_WORDS, links=ARRAY)
            assert model.dies[1].read_register(regs.LINK_RATES + 8) == rate_word(NARROW)
            tiles.fill(model, 3)
            driver.step(0)
            images.append(np.stack([die.read_memory(0, program.records) for die in model.dies]))
    assert (images[0] == images[1]).all()


def test_dies_of_one_rate_refuse_an_array_of_several() -> None:
    tiles = RandomTiles(replace(parameters(), port_rates=False), 4, 3)
    tiles.transfer("t")
    program = tiles.finish(MEMORY_WORDS)
    with pytest.raises(UserError, match="port_rates of preset 'ndp-tiny' must be set where link 2 of die 0"):
        Driver(GoldenArray(tiles.parameters, 4, MEMORY_WORDS), program, memory_words=MEMORY_WORDS, links=ARRAY)


@pytest.mark.parametrize("port", [1, 2])
def test_a_circle_stands_still_and_a_ring_of_paired_ports_does_not(port: int) -> None:
    """Six dies, each sends by port 0 to the die three further on."""
    array = Array(name="six", topology="links", dies=6, preset="ndp-tiny",
                  wiring=tuple((die, 0, (die + 1) % 6, port) for die in range(6)))
    builders = [GraphBuilder(parameters()) for _ in range(6)]
    for die, builder in enumerate(builders):
        source, target = builder.allocate("source", 1, WORDS), builder.allocate("target", 1, WORDS)
        builder.add("tile", Engine.TRANSFER, TransferOperation.COPY, {
            "source": source.pointer, "destination": target.pointer, "columns": WORDS, "rows": 1, "planes": 1,
            "remote": 1, "destination_die": (die + 3) % 6, "arrival_enable": 1, "arrival": len(Engine)},
            reads=[source])
        builder.expect([target], len(Engine), 1)
        builder.add("after", Engine.TRANSFER, TransferOperation.COPY, {
            "source": target.pointer, "destination": source.pointer, "columns": 1, "rows": 1, "planes": 1},
            reads=[target], writes=[source])
    ((_, pairs),) = traffic([[builder] for builder in builders]).items()
    program = assemble([], builders, memory_words=MEMORY_WORDS)
    with CosimArray(parameters(), 6, MEMORY_WORDS, links=array.directed()) as rtl:
        driver = Driver(rtl, program, memory_words=MEMORY_WORDS, watchdog_cycles=5_000, links=array.directed())
        if array.circle(pairs):
            assert port == 2
            with pytest.raises(DieError, match="stopped with TIMEOUT"):
                driver.step(0)
        else:
            assert port == 1 and driver.step(0) < 20 * WORDS
