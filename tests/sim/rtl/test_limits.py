"""Dies and ports that an array does not have: refused, or lost with an error, on co-simulated rings and golden ones."""

from typing import Any

import pytest

from plinth.array.array import ring
from plinth.driver.driver import DieError, Driver
from plinth.driver.program import Program
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth_hw.isa import registers as regs
from plinth_hw.isa.operations import CollectiveOperation, Engine, ErrorCode, TransferOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import Register
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

TINY = preset("ndp-tiny")
DIES, MEMORY_WORDS = 3, 1 << 12
MAKERS = [CosimArray, GoldenArray]


def program(group: dict[str, int] | None = None, remote: int | None = None, tile: int | None = None) -> Program:
    """Die 1 rewrites its group row, advances a counter of die ``remote``, or sends a word to die ``tile``; others wait
    for it."""
    builders = [GraphBuilder(TINY) for _ in range(DIES)]
    for number, builder in enumerate(builders):
        place = builder.allocate("place", 2, 1)
        body = {"source": place.pointer, "destination": place.part("second", place.stride, 1, 1).pointer, "columns": 1,
                "rows": 1, "planes": 1}
        builder.add("first", Engine.TRANSFER, TransferOperation.COPY, body, writes=[place])
        if number == 1 and group is not None:
            builder.add("bad", Engine.COLLECTIVE, CollectiveOperation.SET_GROUP, {
                "group": 0, "members": DIES, "index": 1, "next_die": 2, **group})
        if number == 1 and group is None:
            builder.add("bad", Engine.TRANSFER, TransferOperation.COPY, body | (
                {} if tile is None else {"remote": 1, "destination_die": tile}),
                remote=None if remote is None else (remote, 20))
        if number != 1:
            builder.add("waits", Engine.TRANSFER, TransferOperation.COPY, body, reads=[place],
                        after=[builder.advanced(21, 1)])
    return assemble([ring_setup(TINY, range(DIES), die, 0) for die in range(DIES)], builders, memory_words=MEMORY_WORDS)


def fails(make: Any, what: Program, message: str, dies: int = DIES) -> None:
    """A step on a ring, with register DIES as given, ends with an error of die 1, of which all are told."""
    devices = make(TINY, DIES, MEMORY_WORDS)
    driver = Driver(devices, what, memory_words=MEMORY_WORDS, watchdog_cycles=20_000)
    for die in devices.dies:
        die.write_register(Register.DIES, dies)
    with pytest.raises(DieError, match=message):
        driver.step(0)
    assert all(die.read_register(Register.STATUS) & 4 for die in devices.dies)
    assert driver.cycles < 20_000


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("bad", [{"group": {"next_die": DIES}}, {"group": {"members": DIES + 1}}, {"remote": DIES},
                                 {"remote": 1023}, {"tile": DIES}])
def test_dies_that_do_not_exist_are_refused(make: Any, bad: dict[str, Any]) -> None:
    fails(make, program(**bad), r"die 1: task 'bad' at word 0x\w+ stopped with BAD_DIE")


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("bad", [{"remote": 7}, {"tile": 7}])
def test_what_finds_no_route_is_lost(make: Any, bad: dict[str, Any]) -> None:
    """Register DIES does not know; such packets went round the ring for ever."""
    message = "die 1 stopped with NO_ROUTE: a packet came for die 7, to which no route leads"
    fails(make, program(**bad), message, dies=256)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("die", "port"), [(DIES, 0), (255, 1), (0, 2)])
def test_routes_to_what_does_not_exist(make: Any, die: int, port: int) -> None:
    """The first write is refused, and says so; the routes stay as they were."""
    devices = make(TINY, DIES, MEMORY_WORDS)
    Driver(devices, program(group={}), memory_words=MEMORY_WORDS, links=ring(DIES).directed())
    device = devices.dies[1]
    device.write_register(regs.ROUTES + 4 * die, port)
    assert device.read_register(Register.STATUS) & 4
    assert device.read_register(Register.ERROR_CODE) == ErrorCode.BAD_ROUTE.value
    assert device.read_register(Register.ERROR_INFO) == 0xFF | die << 16
    assert [device.read_register(regs.ROUTES + 4 * other) for other in (0, 2)] == [1, 0]
