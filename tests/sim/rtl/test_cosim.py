"""The multi-die harness on a stand-in die: memory model, links, registers, threads, waves."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.standin import FAULTS, Standin, standin

from plinth_hw.isa.parameters import preset
from plinth_sim.rtl.cosim import CosimArray, CosimError, Waves, default_threads, ring
from plinth_sim.rtl.verilator import SimulatorError

WORDS = 4


def array(dies: int = 1, *, axi_ports: int = 1, flit_bits: int = 40, **options: Any) -> CosimArray:
    return CosimArray(preset("ndp-tiny"), dies, options.pop("memory_words", 1 << 14), top="standin",
                      verilog=standin(axi_ports, WORDS, flit_bits), **{"threads": 1, **options})


def start(dies: CosimArray, **registers: int) -> None:
    """Queue the same registers and a start on every die."""
    for die in dies.dies:
        for name, value in registers.items():
            die.write_register(Standin[name.upper()], value)
        die.write_register(Standin.CONTROL, 1)


def copy(dies: CosimArray, beats: int = 256, burst: int = 16, target: int = 1024) -> int:
    """Run the copy on every die; returns the cycles that it took on die 0."""
    start(dies, source=0, target=target, beats=beats, burst=burst)
    dies.wait(100_000)
    return dies.dies[0].read_register(Standin.TOOK)


def test_registers_are_written_and_read_in_order() -> None:
    with array() as dies:
        die = dies.dies[0]
        assert die.read_register(Standin.ID) == 0x5354414E
        die.write_register(Standin.SOURCE, 5)
        die.write_register(Standin.SOURCE, 0xFFFFFFFF)
        die.write_register(Standin.TARGET, 7)
        assert dies.read_registers(0, [Standin.SOURCE, Standin.TARGET]) == [0xFFFFFFFF, 7]


def test_register_error_is_raised() -> None:
    with array() as dies, pytest.raises(CosimError, match="register 0xfc was answered with response 2"):
        dies.dies[0].read_register(0xFC)


def test_unanswered_register_access_is_raised() -> None:
    with array() as dies, pytest.raises(CosimError, match="no answer to the access of register 0xf8"):
        dies.dies[0].read_register(Standin.DEAF)


@pytest.mark.parametrize("axi_ports", [1, 2])
@pytest.mark.parametrize("burst", [1, 16, 64])
def test_copy(axi_ports: int, burst: int) -> None:
    """With several ports every beat is cut in slices; the words come out in the same places."""
    with array(axi_ports=axi_ports) as dies:
        words = axi_ports * WORDS
        data = np.random.default_rng(1).integers(0, 2**32, 256 * words, dtype=np.uint32)
        dies.dies[0].write_memory(0, data)
        copy(dies, 256, burst)
        assert np.array_equal(dies.dies[0].read_memory(1024 * words, data.size), data + np.uint32(1))
        assert not dies.dies[0].read_memory(1024 * words + data.size, 100).any()
        assert dies.dies[0].read_register(Standin.RESPONSES) == 0


@pytest.mark.parametrize("latency", [1, 2, 50, 333])
def test_read_latency(latency: int) -> None:
    """From the cycle of the request to the cycle of its first beat."""
    with array(memory_latency=latency) as dies:
        copy(dies)
        asked, answered = dies.read_registers(0, [Standin.ASKED_AT, Standin.ANSWERED_AT])
        assert answered - asked == latency


@pytest.mark.parametrize("latency", [1, 400])
def test_write_latency(latency: int) -> None:
    with array(write_latency=1) as short, array(write_latency=latency) as dies:
        assert copy(dies) - copy(short) == latency - 1


@pytest.mark.parametrize("axi_ports", [1, 2])
@pytest.mark.parametrize("rate", [Fraction(1), Fraction(7, 3), Fraction(4), Fraction(8)])
def test_bandwidth_is_shared_by_reads_and_writes(axi_ports: int, rate: Fraction) -> None:
    """A copy of B words moves 2 B words; no port moves more than a slice a cycle each way."""
    rate = rate * axi_ports
    with array(axi_ports=axi_ports, memory_rate=rate, memory_latency=10, write_latency=10) as dies:
        expected = max(1024 * 2 * WORDS * axi_ports / rate, 1024)
        assert 0 <= copy(dies, 1024) - expected < 60


def test_outstanding_bursts_hide_the_latency() -> None:
    with array(memory_rate=Fraction(8), memory_latency=200) as many, \
            array(memory_rate=Fraction(8), memory_latency=200, outstanding=1) as single:
        assert copy(many, 1024) < 1024 + 300
        assert copy(single, 1024) > 1024 / 16 * 200


@pytest.mark.parametrize(("source", "target"), [(4096 - 16, 0), (0, 4096 - 16)])
def test_beyond_the_memory_is_a_decode_error(source: int, target: int) -> None:
    with array(memory_words=(4096 - 8) * WORDS) as dies:
        start(dies, source=source, target=target, beats=16, burst=16)
        dies.wait(10_000)
        assert dies.dies[0].read_register(Standin.RESPONSES) == 3


@pytest.mark.parametrize("fault", FAULTS)
def test_protocol_violations_stop_the_run(fault: int) -> None:
    complaint = f"die 0, AXI4 port 0, .*{FAULTS[fault]}"
    with array(outstanding=2) as dies, pytest.raises(CosimError, match=complaint):
        start(dies, source=1, target=1024, beats=200, burst=2, fault=fault)
        dies.wait(20_000)


@pytest.mark.parametrize("flit_bits", [40, 100])
@pytest.mark.parametrize("latency", [1, 2, 5, 13])
def test_link_latency(latency: int, flit_bits: int) -> None:
    with array(3, link_latency=latency, flit_bits=flit_bits) as dies:
        start(dies, flits=100, expect=100)
        dies.wait(100_000)
        for die in range(3):
            received, sent_at, received_at = dies.read_registers(
                die, [Standin.RECEIVED, Standin.SENT_AT, Standin.RECEIVED_AT])
            assert received == 100
            assert received_at - sent_at == latency


def test_credits_bound_the_rate() -> None:
    """4 credits, and a round trip of both latencies and three registers."""
    with array(2, link_latency=10) as dies:
        start(dies, flits=400, expect=400)
        dies.wait(100_000)
        assert dies.dies[0].read_register(Standin.TOOK) == pytest.approx(400 / 4 * (2 * 10 + 3), rel=0.02)


def outcome(threads: int, unrest: int = 0) -> tuple[Any, ...]:
    with array(5, threads=threads, unrest=unrest, link_latency=3, memory_rate=Fraction(7, 3)) as dies:
        for number, die in enumerate(dies.dies):
            die.write_memory(0, np.arange(1024, dtype=np.uint32) * (number + 1))
            die.write_register(Standin.BEATS, 32 * number)
            die.write_register(Standin.BURST, 1)
            die.write_register(Standin.TARGET, 1024)
        start(dies, flits=500, expect=500)
        cycles = dies.wait(100_000)
        readable = sorted(set(Standin) - {Standin.CONTROL, Standin.FAULT, Standin.DEAF})
        registers = [dies.read_registers(die, readable) for die in range(5)]
        memory = np.concatenate([die.memory for die in dies.dies])
        assert bool(unrest) <= (dies.stats()["moves"] > cycles / 100)
        return cycles, registers, [dies.finished_at(die) for die in range(5)], memory.tobytes()


def test_threads_change_nothing() -> None:
    single = outcome(1)
    assert outcome(2) == single
    assert outcome(5) == single


@pytest.mark.parametrize(("threads", "unrest"), [(2, 1), (2, 2), (3, 3), (5, 4), (5, 5)])
def test_threads_that_come_and_go_change_nothing(threads: int, unrest: int) -> None:
    """In every epoch another choice of the threads runs the dies, in another order."""
    assert outcome(threads, unrest) == outcome(1)


def test_wait_ends_with_the_last_die() -> None:
    with array(2) as dies:
        for die, beats in zip(dies.dies, (16, 512), strict=True):
            die.write_register(Standin.BEATS, beats)
            die.write_register(Standin.BURST, 16)
        start(dies)
        dies.wait(100_000)
        assert 0 < dies.finished_at(0) < dies.finished_at(1) <= dies.cycle
        assert [die.read_register(Standin.STATUS) for die in dies.dies] == [2, 2]


def test_wait_again_does_not_see_the_old_interrupt() -> None:
    with array() as dies:
        first = copy(dies)
        assert copy(dies, target=2048) == first
        assert dies.dies[0].read_memory(2048 * WORDS, 1)[0] == 1


def test_wait_stops_at_its_limit() -> None:
    with array() as dies:
        start(dies, flits=0, expect=1)
        assert dies.wait(777) == 777
        assert dies.finished_at(0) == 0


def test_wait_for_some_dies_only() -> None:
    with array(2) as dies:
        dies.dies[1].write_register(Standin.CONTROL, 1)
        assert dies.wait(10_000, dies=[1]) < 200


def test_wait_stops_after_an_error_of_one_die() -> None:
    with array(2) as dies:
        start(dies, expect=1)
        dies.dies[1].write_register(Standin.CONTROL, 2)
        assert dies.wait(100_000) < 1000
        assert [die.read_register(Standin.STATUS) for die in dies.dies] == [1, 5]


def test_memory_outside_is_refused() -> None:
    with array(memory_words=100) as dies:
        dies.dies[0].write_memory(90, np.ones(10, dtype=np.float32))
        assert dies.dies[0].read_memory(99, 1)[0] == 0x3F800000
        with pytest.raises(ValueError, match="words 90 to 101 are outside die 0's memory of 100 words"):
            dies.dies[0].read_memory(90, 11)


@pytest.mark.parametrize(("options", "complaint"), [
    ({"dies": 0}, "dies must be positive, not 0"),
    ({"link_latency": 0}, "link_latency must be positive, not 0"),
    ({"links": [(0, 2, 0, 0)]}, "names a die or port that does not exist"),
    ({"dies": 2, "links": [(0, 0, 1, 0), (0, 0, 1, 1)]}, "uses a port that is already taken"),
    ({"waves": Waves(3, 0, 1, Path("x.vcd"))}, "waves.die must be below dies = 1, not 3"),
])
def test_impossible_arrays_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        array(**options)


def test_ring_links() -> None:
    assert ring(1) == []
    assert ring(2) == [(0, 0, 1, 1), (1, 0, 0, 1), (0, 1, 1, 0), (1, 1, 0, 0)]


def test_closed_array_is_refused() -> None:
    dies = array()
    dies.close()
    with pytest.raises(ValueError, match="closed"):
        dies.run(1)


def recorded(path: Path, **options: int) -> str:
    with array(2, waves=Waves(1, 20, 60, path), **options) as dies:
        start(dies, flits=10, expect=10)
        dies.wait(10_000)
        dies.run(100)
    return path.read_text()


@pytest.mark.slow
def test_waves_hold_the_window_of_the_die(tmp_path: Path) -> None:
    """The same with threads that come and go."""
    text = recorded(tmp_path / "waves" / "die1.vcd")
    assert recorded(tmp_path / "again.vcd", threads=2, unrest=1) == text
    times = [int(time) for time in re.findall(r"^#(\d+)$", text, re.MULTILINE)]
    assert "link_out_0_flit" in text
    assert times[0] == 40
    assert times[-1] == 119


def test_bare_eval_measures() -> None:
    with array() as dies:
        assert dies.bare_eval(10_000) > 10_000
        dies.run(1000)
        assert dies.stats()["die_cycles"] == 1000


def test_threads_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLINTH_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.delenv("PLINTH_THREADS")
    assert default_threads() >= 1
    for wrong in ("0", "two", "-1", "100000"):
        monkeypatch.setenv("PLINTH_THREADS", wrong)
        with pytest.raises(SimulatorError, match=f"PLINTH_THREADS is '{wrong}'; set it to a number"):
            default_threads()
