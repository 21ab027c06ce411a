"""Co-simulated dies in several processes, here threads: bits, cycles and counters of one process, and its errors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.dies import LINKED
from tests.support.lockstep import CosimTraining, assert_one_process, in_lockstep, outcome_of, small
from tests.support.standin import Standin, standin

from plinth.array.array import full
from plinth.driver.driver import DieError, Driver, RemoteDieError
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.parameters import preset
from plinth_sim.rtl.cosim import CosimArray, CosimError
from plinth_sim.rtl.remote_links import Lockstep

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

#: All four dies joined.
JOINED = full(4)
PAIR = ((0,), (1,))
HALVES = ((0, 1), (2, 3))
UNEVEN = ((0,), (1, 2), (3,))
#: Registers that a link of the stand-in die decides.
SEEN = [Standin.RECEIVED, Standin.CHECKSUM, Standin.SENT_AT, Standin.RECEIVED_AT]


def array(dies: int, lockstep: Lockstep | None, *, flit_bits: int = 40, **options: Any) -> CosimArray:
    return CosimArray(preset("ndp-tiny"), dies, 1 << 14, top="standin", verilog=standin(1, 4, flit_bits),
                      lockstep=lockstep, **{"threads": 1, **options})


@pytest.mark.parametrize("flit_bits", [40, 100])
@pytest.mark.parametrize("latencies", [(1, 1, 1, 1), (5, 5, 5, 5), (2, 13, 7, 4)])
@pytest.mark.parametrize("processes", [HALVES, UNEVEN, ((2,), (3, 0), (1,))])
def test_flits_and_credits_arrive_as_in_one_process(processes: Sequence[Sequence[int]], latencies: Sequence[int],
                                                    flit_bits: int) -> None:
    """Of links with latencies of their own, more flits than there are credits; runs of cycles that no epoch divides."""
    def work(lockstep: Lockstep | None) -> dict[int, list[int]]:
        links = [(die, 0, (die + 1) % 4, 1, latency) for die, latency in enumerate(latencies)]
        with array(4, lockstep, links=links, flit_bits=flit_bits) as dies:
            for die in dies.dies:
                die.write_register(Standin.FLITS, 100)
                die.write_register(Standin.EXPECT, 100)
                die.write_register(Standin.CONTROL, 1)
            dies.meet()
            cycles = [dies.cycle]
            for _ in range(3):
                dies.run(33)
                cycles.append(dies.cycle)
            cycles.append(dies.wait(100_000))
            seen = {die: [*dies.read_registers(die, SEEN), *cycles] for die in dies.numbers}
            dies.meet()
            return seen

    alone, parts = work(None), in_lockstep(processes, work)
    assert {die: seen for part in parts for die, seen in part.items()} == alone
    assert all(seen[0] == 100 for seen in alone.values())


def test_accesses_of_processes_come_one_after_the_other() -> None:
    """As those of one process's dies do, with the writes queued before them."""
    def read(lockstep: Lockstep | None) -> list[tuple[int, int, int]]:
        with array(4, lockstep) as dies:
            seen = []
            for turn in range(3):
                for number, die in zip(dies.numbers, dies.dies, strict=True):
                    seen += [(turn, number, die.read_register(Standin.CYCLE)) for _ in range(number + 1)]
                    for _ in range(3):
                        die.write_register(Standin.SOURCE, 1000 + number)
                dies.meet()
                dies.run(7)
            return seen

    alone = read(None)
    for processes in (HALVES, UNEVEN):
        assert sorted(seen for part in in_lockstep(processes, read) for seen in part) == sorted(alone)


def test_a_wait_of_one_process_while_the_other_meets() -> None:
    """It runs all dies, and ends with those that it is for, also behind a wait that came to its limit."""
    def work(lockstep: Lockstep | None) -> list[int]:
        with array(2, lockstep) as dies:
            waited = []
            for number, beats, limit in ((1, 160, 10_000), (0, 320, 10_000), (1, 960, 20), (0, 96, 10_000)):
                if number in dies.numbers:
                    die = dies.dies[dies.numbers.index(number)]
                    for register, value in ((Standin.TARGET, 1024), (Standin.BEATS, beats), (Standin.BURST, 16),
                                            (Standin.CONTROL, 1)):
                        die.write_register(register, value)
                    waited.append(dies.wait(limit, [number]))
                dies.meet()
            return [*waited, dies.cycle]

    alone, (first, second) = work(None), in_lockstep(PAIR, work)
    assert [second[0], first[0], second[1], first[1]] == alone[:4] and first[-1] == second[-1] == alone[-1]
    assert alone[2] == 20 < alone[3] < alone[0] < alone[1] < 1000


@pytest.mark.parametrize("training", [small(), small(LINKED, JOINED, bit_errors=3e-5)], ids=["ring", "linked"])
def test_processes_have_the_cycles_of_one(training: CosimTraining) -> None:
    """Training steps, with everything that the host reads; with a link layer faults are injected."""
    alone = training(None)
    assert all(image.any() for image in alone[0].values()) and len(alone[1]["cycles"]) == training.steps
    for processes in (HALVES, UNEVEN):
        assert_one_process(in_lockstep(processes, training), alone)


def test_injected_faults_cost_cycles() -> None:
    """Otherwise steps with faults would show nothing."""
    (_, perfect), (_, faulty) = small(LINKED, JOINED)(None), small(LINKED, JOINED, bit_errors=3e-5)(None)
    assert perfect["cycles"] < faulty["cycles"]


def test_threads_of_processes_decide_nothing() -> None:
    assert_one_process(in_lockstep(HALVES, small(steps=1, threads=2)), small(steps=1)(None))


def test_waves_of_a_die_of_the_second_process(tmp_path: Path) -> None:
    """The file of one process, bit for bit."""
    paths = [tmp_path / name for name in ("one.vcd", "two.vcd")]
    one, two = (small(steps=1, waves=(3, path)) for path in paths)
    one(None)
    in_lockstep(HALVES, two)
    assert paths[0].read_bytes() == paths[1].read_bytes() and paths[0].stat().st_size > 100_000


def bad_task(driver: Driver) -> None:
    """Die 2 gets a descriptor of no operation."""
    if 2 in driver.numbers:
        driver.rewrite(2, 0, 0, 0xFFFFFFFF)


def test_an_error_of_a_die_ends_all() -> None:
    """With its task where it lives, elsewhere as that of another process."""
    elsewhere, here = in_lockstep(HALVES, outcome_of(small(steps=1, before=bad_task)))
    assert isinstance(elsewhere, RemoteDieError), elsewhere
    assert isinstance(here, DieError) and not isinstance(here, RemoteDieError), here
    assert str(here).startswith("die 2: ") and "stopped with" in str(here)


def test_an_access_that_is_refused_ends_all() -> None:
    def work(lockstep: Lockstep) -> None:
        with array(2, lockstep) as dies:
            if lockstep.own == 1:
                dies.dies[0].read_register(0xFC)
            dies.meet()

    first, second = in_lockstep(PAIR, outcome_of(work))
    assert isinstance(second, CosimError) and "die 1: the access of register 0xfc" in str(second)
    assert isinstance(first, ConnectionError)


def test_a_broken_protocol_ends_all() -> None:
    """In the same cycle: with its fault in the process of the die, and in others as one of that process."""
    cycles = {}

    def work(lockstep: Lockstep) -> None:
        with array(2, lockstep) as dies:
            if lockstep.own == 1:
                for register, value in ((Standin.SOURCE, 1), (Standin.TARGET, 1024), (Standin.BEATS, 200),
                                        (Standin.BURST, 2), (Standin.FAULT, 2), (Standin.CONTROL, 1)):
                    dies.dies[0].write_register(register, value)
            try:
                dies.run(20_000)
            finally:
                cycles[lockstep.own] = dies.cycle

    first, second = in_lockstep(PAIR, outcome_of(work))
    assert isinstance(second, CosimError) and "die 1, AXI4 port 0, " in str(second)
    assert isinstance(first, ConnectionError), first
    assert str(first) == "a die of process 1, which has dies 1, has broken a protocol"
    assert cycles[0] == cycles[1] < 1000


def test_who_has_lost_the_others_reads_its_own_registers() -> None:
    """And nothing else any more: a diagnosis needs them."""
    def work(lockstep: Lockstep) -> list[int]:
        with array(2, lockstep) as dies:
            if lockstep.own == 1:
                raise KeyError("odd")
            with pytest.raises(ConnectionError):
                dies.run(100)
            dies.dies[0].write_register(Standin.SOURCE, 77)
            seen = [dies.dies[0].read_register(Standin.SOURCE), dies.cycle]
            for lost in (lambda: dies.wait(100), lambda: dies.run(100), dies.meet):
                with pytest.raises(ConnectionError):
                    lost()
            return seen

    (value, cycle), error = in_lockstep(PAIR, outcome_of(work))
    assert value == 77 and 0 < cycle < 30 and isinstance(error, KeyError)


@pytest.mark.parametrize(("processes", "message"), [
    (((0,), (0, 1)), "Processes must own dies 0 to 1"), (((0, 1), ()), "each process at least one")])
def test_impossible_processes_are_refused(processes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        in_lockstep(processes, lambda lockstep: array(2, lockstep))


def test_host_bridges_are_refused() -> None:
    with pytest.raises(ValueError, match="dies with host bridges must all live in one process"):
        in_lockstep(PAIR, lambda lockstep: array(2, lockstep, bridge=BridgeParameters(cycles_per_bit=4)))
