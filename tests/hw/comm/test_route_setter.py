"""SET_ROUTE tasks: what is written, when, and what is refused."""

import pytest
from tests.support.amaranth_sim import simulate
from tests.support.refusal import refused

from plinth_hw.comm.route_setter import RouteSetter
from plinth_hw.isa.operations import Engine, ErrorCode, Traffic
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.update_bodies import ROUTES_SET

PARAMETERS = preset("ndp-tiny-routes", ports=4)
DIES = 40
GOOD = {"first_die": 5, "dies": 3, "traffic": Traffic.TILES, "ports": [3, 0, 2]}
TILES = 1 << Traffic.TILES.value


def run(fields, quiet=lambda cycle: 7):
    """Writes (cycle, traffic, destination, port), the error and the cycle of ``done``."""
    setter, writes, end = RouteSetter(PARAMETERS), [], []

    async def bench(ctx):
        ctx.set(setter.dies, DIES)
        ctx.set(setter.body, fields)
        ctx.set(setter.start, 1)
        for cycle in range(100):
            ctx.set(setter.quiet, quiet(cycle))
            if ctx.get(setter.write.valid):
                writes.append((cycle, ctx.get(setter.write.traffic), ctx.get(setter.write.destination),
                               ctx.get(setter.write.port)))
            if ctx.get(setter.done):
                end.extend((ctx.get(setter.error), cycle))
                ctx.set(setter.start, 0)
            await ctx.tick()

    simulate(setter, bench, limit_cycles=200)
    assert len(end) == 2, "a task ends once"
    return writes, *end


def test_routes_are_written_once_the_traffic_is_quiet():
    wanted = [(TILES, 5, 3), (TILES, 6, 0), (TILES, 7, 2)]
    writes, error, cycle = run(GOOD)
    assert ([write[1:] for write in writes], error, cycle) == (wanted, ErrorCode.NONE, 2 + 2 * 3)
    writes, error, cycle = run(GOOD, lambda cycle: 7 if cycle >= 30 else 7 & ~TILES)
    assert ([write[1:] for write in writes], error) == (wanted, ErrorCode.NONE) and writes[0][0] >= 30
    assert run(GOOD, lambda cycle: TILES)[2] == 2 + 2 * 3, "it waits for traffic of its own kind alone"


def test_all_places():
    ports = [number % 4 for number in range(ROUTES_SET)]
    for kind in Traffic:
        writes, error, _ = run({"first_die": 20, "dies": ROUTES_SET, "traffic": kind, "ports": ports})
        assert [write[1:] for write in writes] == [(1 << kind.value, 20 + n, port) for n, port in enumerate(ports)]
        assert error is ErrorCode.NONE


@pytest.mark.parametrize(("changes", "code"), [
    ({"dies": 0}, ErrorCode.BAD_OPERAND), ({"dies": ROUTES_SET + 1}, ErrorCode.BAD_OPERAND),
    ({"dies": 31, "first_die": 39}, ErrorCode.BAD_OPERAND),
    ({"first_die": DIES - 2}, ErrorCode.BAD_ROUTE), ({"first_die": 1023}, ErrorCode.BAD_ROUTE),
    ({"ports": [0, 0, 4]}, ErrorCode.BAD_ROUTE), ({"ports": [255, 0, 0]}, ErrorCode.BAD_ROUTE)])
def test_what_is_refused_writes_nothing(changes, code):
    writes, error, _ = run(GOOD | changes)
    assert not writes and error is code


@pytest.mark.parametrize("late", range(3))
def test_traffic_that_comes_between_writes_is_an_error(late):
    first = 1 + 3 + 1
    writes, error, _ = run(GOOD, lambda cycle: 7 & ~TILES if cycle == first + late else 7)
    assert len(writes) == 3 and error is ErrorCode.BAD_ROUTE


def test_dies_that_set_routes_have_a_collective_engine():
    with refused(ValueError, "sets_routes is of dies with engine COLLECTIVE"):
        preset("ndp-tiny-routes", engines=frozenset({Engine.TRANSFER}))
