"""Golden dies that speak through a transport: order of adds, errors, silence; dies started and awaited one by one."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from tests.support.graphs import random_program, tangled
from tests.support.shares import Processes, in_threads, memories
from tests.support.tiles import RandomTiles

from plinth.driver.driver import DieError, Driver
from plinth.driver.program import Program
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth.runtime.transports import QueueTransport
from plinth_hw.isa.operations import CollectiveOperation, Engine, ErrorCode, TransferOperation
from plinth_hw.isa.parameters import preset
from plinth_hw.isa.registers import Register
from plinth_sim.golden.array import GoldenArray
from plinth_sim.golden.device import SCHEDULER
from plinth_sim.golden.transfer import Rows
from plinth_sim.golden.transport import Advance, Failure, Message, Met, PeerLostError, Tile, Transport

TINY = preset("ndp-tiny")
MEMORY_WORDS = 1 << 14
#: Sums of these depend on their order.
SUMMANDS = (1e8, 1.0, -1e8, 3.0)
#: What drivers tell each other when their dies have ended.
END = ("end of a run", None)


def whole(array: GoldenArray, program: Program) -> dict[int, np.ndarray]:
    """Memories after two steps."""
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    for _ in range(2):
        driver.step(0)
    return memories(array, program)


def fill(array: GoldenArray, words: int) -> None:
    for number, die in zip(array.numbers, array.dies, strict=True):
        die.write_memory(0, np.random.default_rng(number).standard_normal(words, dtype=np.float32).view(np.uint32))


def test_the_driver_refuses_what_registers_cannot_hold() -> None:
    program, _ = random_program(TINY, 2, 1, 4, 1 << 14)
    with pytest.raises(UserError, match=r"die 0 .* MEMORY_WORDS must be from 0 to 4294967295 \(32 bits\)"):
        Driver(GoldenArray(TINY, 2, MEMORY_WORDS), program, memory_words=1 << 32)
    slow = replace(program, parameters=replace(TINY, link_rate=Fraction(1, 256)))
    with pytest.raises(UserError, match=r"link_rate cannot be 1/256: .*; choose another link_rate"):
        Driver(GoldenArray(TINY, 2, MEMORY_WORDS), slow, memory_words=MEMORY_WORDS)


@pytest.mark.parametrize(("links", "message"), [
    (((0, 0, 1, 1), (1, 0, 2, 1)), r"link \(1, 0, 2, 1\) names die 2, but the array has dies 0 to 1; correct"),
    (((0, 0, 1, 1), (-1, 0, 0, 1)), r"link \(-1, 0, 0, 1\) names die -1, but"),
    (((0, 0, 1, 1), (1, 2, 0, 1)), r"link \(1, 2, 0, 1\) uses port 2 of die 1, but its router has ports 0 to 1"),
    (((0, 0, 1, 1),), "no links lead from die 1 to die 0; join all dies by links")])
def test_the_driver_refuses_links_to_what_there_is_not(links: Sequence[tuple[int, ...]], message: str) -> None:
    program, _ = random_program(TINY, 2, 1, 4, 1 << 14)
    with pytest.raises(UserError, match=message):
        Driver(GoldenArray(TINY, 2, MEMORY_WORDS), program, memory_words=MEMORY_WORDS, links=links)


@pytest.mark.parametrize(("operation", "body", "remote", "field"), [
    (TransferOperation.COPY, {"columns": 1, "rows": 1, "planes": 1}, (2, 9), "remote_die"),
    (TransferOperation.COPY, {"columns": 1, "rows": 1, "planes": 1, "remote": 1, "destination_die": 2}, None,
     "destination_die"),
    (CollectiveOperation.SET_GROUP, {"members": 2, "index": 1, "next_die": 2}, None, "next_die")])
def test_tasks_that_name_dies_beyond_the_array_are_not_lowered(operation: Any, body: dict[str, int],
                                                               remote: tuple[int, int] | None, field: str) -> None:
    builder = GraphBuilder(TINY)
    engine = Engine.COLLECTIVE if operation is CollectiveOperation.SET_GROUP else Engine.TRANSFER
    builder.add("good", engine, operation, {**body, **dict.fromkeys(set(body) & {field}, 1)},
                remote=None if remote is None else (1, 9))
    builder.check_dies(1, 2)
    builder.add("bad", engine, operation, body, remote=remote)
    builder.check_dies(1, 3)
    with pytest.raises(UserError, match=f"task 'bad' of die 1 has die 2 as its {field}, but the array has dies 0 to 1"):
        builder.check_dies(1, 2)


def test_tasks_whose_numbers_do_not_fit_are_named() -> None:
    builder = GraphBuilder(TINY)
    far = builder.allocate("far", 1, 4)._replace(address=1 << 28)
    builder.add("move", Engine.TRANSFER, TransferOperation.COPY, {
        "source": far.pointer, "destination": far.pointer, "columns": 1, "rows": 1, "planes": 1})
    with pytest.raises(UserError, match=r"task 'move' does not fit its descriptor: .*source\.offset must be "):
        builder.finish(record=True)


@pytest.mark.parametrize("processes", [((0, 1), (2, 3)), ((2,), (1, 3), (0,))])
@pytest.mark.parametrize(("die", "seed"), [("ndp-tiny", 1), ("ndp-tiny", 2), ("hypar-tiny", 3), ("ndp-demo-mixed", 4)])
def test_random_graphs_of_several_arrays(die: str, seed: int, processes: Processes) -> None:
    """All engines, rings over all dies, advances of counters of the next die."""
    parameters = preset(die)
    program, _ = random_program(parameters, 4, seed, 40, 1 << 15)
    program = tangled(program, seed)

    def run(transport: Transport | None) -> dict[int, np.ndarray]:
        array = GoldenArray(parameters, 4, 1 << 15, transport=transport)
        fill(array, program.records)
        return whole(array, program)

    wanted = run(None)
    for images in in_threads(processes, run):
        for number, image in images.items():
            assert np.array_equal(image, wanted[number])


@pytest.mark.parametrize("seed", range(4))
def test_random_tiles_of_several_arrays(seed: int) -> None:
    """Stored, added, gathered and scattered, in the order of grants."""
    parameters = preset("ndp-tiny", engines=frozenset({Engine.TRANSFER}))
    tiles = RandomTiles(parameters, 4, seed)
    for number in range(60):
        tiles.transfer(f"t{number}")
    program = tiles.finish(MEMORY_WORDS)
    lists = np.random.default_rng(seed).integers(0, 14, tiles.lists[0].words).astype(np.uint32)

    def run(transport: Transport | None) -> dict[int, np.ndarray]:
        array = GoldenArray(parameters, 4, MEMORY_WORDS, transport=transport)
        fill(array, tiles.lists[0].address)
        for die in array.dies:
            die.write_memory(tiles.lists[0].address, lists)
        return whole(array, program)

    wanted = run(None)
    for images in in_threads(((0, 2), (1, 3)), run):
        for number, image in images.items():
            assert np.array_equal(image, wanted[number])


def adders(late: int | None = None) -> Program:
    """Dies 1 to 3 each add a number to a word of die 0, which copies the sum behind it once all have come.

    Die ``late`` starts when another die has told it that it may.
    """
    builders = [GraphBuilder(TINY) for _ in range(4)]
    for die, builder in enumerate(builders):
        own, total, copy = (builder.allocate(name, 1, 1) for name in ("own", "total", "copy"))
        if die:
            builder.add("add", Engine.TRANSFER, TransferOperation.ADD, {
                "source": own.pointer, "destination": total.pointer, "columns": 1, "rows": 1, "planes": 1,
                "remote": 1, "arrival_enable": 1, "arrival": 8}, reads=[own],
                after=[builder.advanced(9, 1)] if die == late else [])
        else:
            builder.expect([total], 8, 3)
            builder.add("copy", Engine.TRANSFER, TransferOperation.COPY, {
                "source": total.pointer, "destination": copy.pointer, "columns": 1, "rows": 1, "planes": 1},
                reads=[total], writes=[copy])
    if late is not None:
        other = builders[3 if late < 3 else 2]
        other.add("go", Engine.TRANSFER, TransferOperation.COPY, {
            "source": other.buffers["own"].pointer, "destination": other.buffers["copy"].pointer, "columns": 1,
            "rows": 1, "planes": 1}, remote=(late, 9))
    return assemble([ring_setup(TINY, range(4), die, 0) for die in range(4)], builders, memory_words=MEMORY_WORDS)


def total_of(program: Program, array: GoldenArray) -> float:
    """What die 0 has copied."""
    return float(array.dies[0].read_memory(program.buffers["copy"].address, 1).view(np.float32)[0])


def ordered_sum() -> float:
    total = np.float32(SUMMANDS[0])
    for value in SUMMANDS[1:]:
        total += np.float32(value)
    return float(total)


def put_summands(program: Program, array: GoldenArray) -> None:
    for number, die in zip(array.numbers, array.dies, strict=True):
        where = program.buffers["own" if number else "total"].address
        die.write_memory(where, np.array([SUMMANDS[number]], dtype=np.float32).view(np.uint32))


@pytest.mark.parametrize("late", [None, 1, 2, 3])
def test_adds_of_one_array_apply_in_die_order(late: int | None) -> None:
    program = adders(late)
    array = GoldenArray(TINY, 4, MEMORY_WORDS)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    put_summands(program, array)
    driver.step(0)
    assert total_of(program, array) == ordered_sum()


class Given:
    """A transport on which given messages come; the others are at every meeting, and say the same, unless they are
    ``absent``. Each other die has a process of its own."""

    def __init__(self, dies: Sequence[int] = (0,)) -> None:
        self.processes, self.own = (dies, *((die,) for die in range(4) if die not in dies)), 0
        self.messages: list[Message] = []
        self.sent: list[Message] = []
        self.absent = False

    def send(self, message: Message) -> None:
        self.sent.append(message)
        if isinstance(message, Met) and not self.absent:
            self.messages.append(Met(message.destination, message.source, message.told))

    def receive(self, seconds: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None


def alone(program: Program) -> tuple[Driver, Given]:
    """A driver of die 0, and what comes from the other three."""
    transport = Given()
    array = GoldenArray(TINY, 4, MEMORY_WORDS, transport=transport, patience_seconds=0.01)
    return Driver(array, program, memory_words=MEMORY_WORDS), transport


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_adds_of_other_arrays_apply_in_die_order(order: tuple[int, ...]) -> None:
    """Whichever came first; what a sender sends later waits behind its add."""
    program = adders()
    where = program.buffers["total"].address
    summands = {die: np.array([[SUMMANDS[die]]], np.float32).view(np.uint32) for die in order}
    tiles = {die: Tile(die, 0, Rows(np.array([where]), summands[die], True), 8) for die in order}
    after = Tile(2, 0, Rows(np.array([where + 1]), np.array([[7]], np.uint32), False), None)
    messages: list[Message] = []
    for die in order:
        messages += [tiles[die], after] if die == 2 else [tiles[die]]
    driver, transport = alone(program)
    put_summands(program, driver.array)
    transport.messages += messages
    driver.step(0)
    assert total_of(program, driver.array) == ordered_sum()


@pytest.mark.parametrize("transport", [None, QueueTransport(((0, 1, 2, 3),), 0)])
def test_adds_that_nobody_waits_for_apply_in_die_order(transport: Transport | None) -> None:
    program = adders()
    tasks = program.step[0].tasks
    hasty = replace(tasks[0], words=(*tasks[0].words[:3], tasks[0].words[3] & ~0xF, *tasks[0].words[4:]))
    assert hasty != tasks[0]
    program = replace(program, step=[replace(program.step[0], tasks=(hasty,)), *program.step[1:]])
    array = GoldenArray(TINY, 4, MEMORY_WORDS, transport=transport)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    put_summands(program, array)
    driver.step(0)
    total = array.dies[0].read_memory(program.buffers["total"].address, 1).view(np.float32)[0]
    assert float(total) == ordered_sum()


def test_silence_of_other_dies_is_a_time_out() -> None:
    """An array does not listen for ever, and tells the others that it has given up."""
    driver, transport = alone(adders())
    transport.messages.append(Advance(1, 0, 20))
    with pytest.raises(DieError, match=r"die 0: task 'copy' .* stopped with TIMEOUT; transfer engine of die 0 \(copy\) "
                                       r"waits for counter 8 to reach 3, it is 0; other dies live in other processes"):
        driver.step(0)
    assert sorted(message.destination for message in transport.sent if isinstance(message, Failure)) == [1, 2, 3]


def test_own_dies_are_told_though_others_are_gone() -> None:
    """Those of higher numbers, too."""
    class Going(Given):
        gone = False

        def send(self, message: Message) -> None:
            if self.gone:
                raise PeerLostError([message.destination])
            super().send(message)

    program, transport = adders(), Going((0, 3))
    array = GoldenArray(TINY, 4, MEMORY_WORDS, transport=transport, patience_seconds=0.01)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    transport.gone = True
    words = np.array(program.step[0].tasks[0].words, dtype=np.uint32)
    words[0] |= 0xF
    driver.device(0).write_memory(program.step[0].address, words)
    with pytest.raises(DieError):
        driver.step(0)
    codes = [die.registers[Register.ERROR_CODE] for die in array.dies]
    assert codes == [ErrorCode.BAD_ENGINE.value, ErrorCode.REMOTE.value]


def test_only_dies_that_wait_give_up_though_others_are_gone() -> None:
    """Die 0 waits for other processes; die 3 has done all it has to do when they are gone."""
    class Ending(Given):
        ended, heard = False, 0

        def receive(self, seconds: float) -> Message | None:
            self.heard += self.ended
            if self.heard > 1:
                raise PeerLostError([1, 2])
            return super().receive(seconds)

    program, transport = adders(), Ending((0, 3))
    array = GoldenArray(TINY, 4, MEMORY_WORDS, transport=transport, patience_seconds=0.01)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    for die in (0, 3):
        driver.start(die, 0)
    transport.ended = True
    with pytest.raises(PeerLostError):
        array.wait(0)
    codes = [die.registers[Register.ERROR_CODE] for die in array.dies]
    assert codes == [ErrorCode.TIMEOUT.value, ErrorCode.REMOTE.value]


def test_other_dies_that_do_not_end_are_named() -> None:
    """All dies of other processes are told that the one of this process has given up."""
    driver, transport = alone(adders())
    transport.messages += [Advance(die, 0, 8) for die in (1, 2, 3)]
    transport.messages.append(Met(2, 0, END))
    transport.absent = True
    with pytest.raises(DieError, match=r"dies 1, 3 did not come to where all processes meet within 0\.01 s"):
        driver.step(0)
    assert [message for message in transport.sent if isinstance(message, Failure)] == [
        Failure(0, die) for die in (1, 2, 3)]


def test_processes_meet_by_their_first_dies() -> None:
    """Each other process is told once, from the first die of the one to the first of the other; all hear what each
    has said, in the order of processes, and what comes before someone else has come is delivered."""
    class Meeting(Given):
        def send(self, message: Message) -> None:
            self.sent.append(message)

    transport = Meeting((2, 1))
    transport.processes, transport.own = ((3,), (2, 1), (5, 0), (4,)), 1
    array = GoldenArray(TINY, 6, MEMORY_WORDS, transport=transport, patience_seconds=0.01)
    added = Tile(3, 1, Rows(np.array([40]), np.array([[3]], np.float32).view(np.uint32), True), None)
    transport.messages += [Met(0, 1, "first"), Advance(3, 2, 7), added, Met(4, 1, None), Advance(4, 1, 7), Met(3, 1, 5),
                           Advance(0, 1, 8)]
    assert array.meet("own") == [5, "own", "first", None]
    assert transport.sent == [Met(1, 3, "own"), Met(1, 0, "own"), Met(1, 4, "own")]
    assert [die.number for die in array.dies] == [1, 2]
    assert array.dies[0].read_memory(40, 1).view(np.float32) == 3, "though nobody waits for it"
    assert [die.counters[7] for die in array.dies] == [0, 1], "what is sent behind a meeting waits"
    array.wait(0)
    assert [(die.counters[7], die.counters[8]) for die in array.dies] == [(1, 1), (1, 0)]
    transport.messages += [Met(4, 1, 1), Met(0, 1, 2)]
    with pytest.raises(TimeoutError, match=r"^dies 3 did not come"):
        array.meet()
    assert [message for message in transport.sent if isinstance(message, Failure)] == [
        Failure(1, die) for die in (0, 3, 4, 5)]
    assert [tuple(die.registers[register] for register in (
        Register.ERROR_CODE, Register.ERROR_TASK, Register.ERROR_INFO)) for die in array.dies] == [
        (ErrorCode.TIMEOUT.value, 0, SCHEDULER)] * 2


def test_what_belongs_to_the_next_step_waits_for_it() -> None:
    """Other processes may be ahead: neither a die that still runs nor who reads its memory sees that."""
    program = adders()
    driver, transport = alone(program)
    total, copy = (program.buffers[name].address for name in ("total", "copy"))
    number = [np.array([[value]], np.float32).view(np.uint32) for value in (1, 2, 3)]
    for step in range(3):
        transport.messages.append(Tile(1, 0, Rows(np.array([total]), number[step], False), 8))
        transport.messages.append(Met(1, 0, END))
    for _ in range(3):
        for die in (2, 3):
            transport.messages += [Advance(die, 0, 8), Met(die, 0, END)]
    transport.absent = True
    for step in range(3):
        driver.step(0)
        for address in (total, copy):
            assert driver.device(0).read_memory(address, 1).tolist() == number[step][0].tolist()


def test_an_error_is_told_to_dies_of_other_arrays() -> None:
    """The array whose die has failed names the task, the other the die."""
    program = adders()
    words = list(program.step[2].tasks[0].words)

    def run(transport: Transport) -> str:
        array = GoldenArray(TINY, 4, MEMORY_WORDS, transport=transport)
        driver = Driver(array, program, memory_words=MEMORY_WORDS)
        if 2 in array.numbers:
            words[0] |= 0xF
            driver.device(2).write_memory(program.step[2].address, np.array(words, dtype=np.uint32))
        with pytest.raises(DieError) as error:
            driver.step(0)
        return str(error.value)

    told, cause = in_threads(((0, 1), (2, 3)), run)
    assert cause.startswith("die 2: task 'add' at word ")
    assert cause.endswith("stopped with BAD_ENGINE")
    assert told == "die 0 was stopped by an error of die 2, whose process says more"


def test_a_tile_beyond_the_memory_of_another_arrays_die() -> None:
    driver, transport = alone(adders())
    transport.messages.append(Tile(1, 0, Rows(np.array([MEMORY_WORDS]), np.zeros((1, 1), np.uint32), False), None))
    with pytest.raises(DieError, match="die 0 stopped with BAD_PACKET: a tile from another die goes beyond its memory"):
        driver.step(0)


def test_collectives_end_in_program_order() -> None:
    """Die 0 is in two rings; that of its second task is ready first, and must not count as its first."""
    builders = [GraphBuilder(TINY) for _ in range(3)]
    setup = [ring_setup(TINY, [0, 1], die, 0, ring_setup(TINY, [0, 2], die, 1) if die == 0 else None)
             if die < 2 else ring_setup(TINY, [0, 2], 2, 1) for die in range(3)]
    for die, builder in enumerate(builders):
        places = [builder.allocate(name, 1, 8) for name in ("first", "second", "sum", "other", "seen")]
        for group, (place, target) in enumerate(((places[0], places[2]), (places[1], places[3]))):
            if die in (0, group + 1):
                builder.add(f"reduce{group}", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
                    "source": place.pointer, "destination": target.pointer, "words": 8, "group": group,
                    "message": group}, reads=[place], writes=[target],
                    after=[builder.advanced(9, 1)] if die == 1 else [])
        if die == 0:
            builder.add("look", Engine.TRANSFER, TransferOperation.COPY, {
                "source": places[2].pointer, "destination": places[4].pointer, "columns": 8, "rows": 1, "planes": 1},
                reads=[places[2]], writes=[places[4]])
        if die == 2:
            # Its ring's sum is done before die 1 may start.
            builder.add("go", Engine.TRANSFER, TransferOperation.COPY, {
                "source": places[3].pointer, "destination": places[4].pointer, "columns": 8, "rows": 1, "planes": 1},
                reads=[places[3]], writes=[places[4]], remote=(1, 9))
    program = assemble(setup, builders, memory_words=MEMORY_WORDS)
    array = GoldenArray(preset("ndp-tiny", reduce_blocks=2), 3, MEMORY_WORDS)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    for die in array.dies:
        die.write_memory(program.buffers["first"].address, np.ones(8, np.float32).view(np.uint32))
    driver.step(0)
    assert array.dies[0].read_memory(program.buffers["seen"].address, 8).view(np.float32).tolist() == [2.0] * 8


def test_dies_are_started_and_awaited_one_by_one() -> None:
    program = adders()
    array = GoldenArray(TINY, 4, MEMORY_WORDS)
    driver = Driver(array, program, memory_words=MEMORY_WORDS)
    put_summands(program, array)
    for die in (3, 2, 0):
        driver.start(die, 0)
    driver.wait(2)
    assert not array.dies[0].done
    with pytest.raises(ValueError, match="die 2 was not started"):
        driver.wait(2)
    with pytest.raises(ValueError, match="die 3 runs graph 'step', which nobody has awaited"):
        driver.start(3, 0)
    driver.start(1, 0)
    driver.wait()
    assert total_of(program, array) == ordered_sum()
    # Dies 1 to 3 may be a step ahead of die 0.
    for die in (1, 2, 3):
        driver.start(die, 0)
    driver.wait()
    assert total_of(program, array) == ordered_sum()
    driver.start(0, 0)
    driver.wait(0)
    assert total_of(program, array) != ordered_sum()


def test_a_die_that_was_never_started_is_waited_for_in_vain() -> None:
    array = GoldenArray(TINY, 4, MEMORY_WORDS)
    driver = Driver(array, adders(), memory_words=MEMORY_WORDS)
    for die in (0, 1, 2):
        driver.start(die, 0)
    with pytest.raises(DieError, match=r"waits for counter 8 to reach 3, it is 2"):
        driver.wait(0)


@pytest.mark.parametrize(("processes", "together"), [(((0, 1, 2, 3),), True), (((0, 1), (2, 3)), False)])
def test_dies_of_one_process_are_in_step(processes: Processes, together: bool) -> None:
    assert GoldenArray(TINY, 4, MEMORY_WORDS, transport=QueueTransport(processes, 0)).in_step is together


@pytest.mark.parametrize("processes", [((0,), (1, 2)), ((0,), (1, 2, 3), (3,)), ((0, 1, 2, 3), ()), ((0, 1, 2, 4),)])
def test_bad_shares_are_refused(processes: Processes) -> None:
    with pytest.raises(ValueError, match="Processes must own dies 0 to 3, each die once and each process at least"):
        GoldenArray(TINY, 4, MEMORY_WORDS, transport=QueueTransport(processes, 0))


def test_a_driver_knows_the_dies_of_its_process() -> None:
    driver, _ = alone(adders())
    with pytest.raises(ValueError, match=r"die 3 is none of this process's, which are \[0\]"):
        driver.start(3, 0)
