"""Devices that are profiled: golden and co-simulated dies, a die behind a serial line, numpy, and ranks of MPI."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.dies import FIXED, SERIAL

from plinth import defaults
from plinth.driver.driver import Driver
from plinth.errors import UserError
from plinth.network.layers import Dense, SoftmaxCrossEntropy, Tanh
from plinth.network.network import Network
from plinth.network.shape import Shape
from plinth.profile.batches import random_batch
from plinth.profile.cache import CacheSweep
from plinth.profile.devices import device_name, memory_limit, opened_device
from plinth.profile.die_device import DieDevice, cosim_die, golden_die, lowered, one_by_one
from plinth.profile.measure import measured
from plinth.profile.networks import SizeBounds
from plinth.profile.numpy_device import NumpyDevice
from plinth.profile.profile import Profile
from plinth.profile.ranks import RankDevice
from plinth.profile.works import MESSAGE, batch_works
from plinth.runtime.arrays import cosim_array, simulated_serial_array
from plinth.runtime.launcher import LAUNCHED
from plinth_hw.isa.parameters import preset

WORDS = 1 << 16
SMALL = SizeBounds(widths=(6, 20), batches=(4, 12), channels=(2, 2), images=(2, 3), sides=(4,), most_macs=1 << 14,
                   perceptrons=9, convolutional=6)
NETWORK = Network(name="small", input=Shape((12,)), layers=(
    Dense(name="fc1", outputs=16), Tanh(name="tanh"), Dense(name="fc2", outputs=10), SoftmaxCrossEntropy(name="loss")))


@pytest.fixture(scope="module")
def die() -> DieDevice:
    return cosim_die(FIXED, WORDS, 50.0)


@pytest.fixture(scope="module")
def profile(die: DieDevice) -> Profile:
    return measured(die, SMALL)


@pytest.mark.slow
def test_seconds_are_cycles_over_the_clock(die: DieDevice) -> None:
    found = die.batch(NETWORK, 8)
    program = lowered(NETWORK, 8, FIXED, WORDS)
    driver = Driver(cosim_array(FIXED, 1, WORDS)[0], program, memory_words=WORDS)
    program.write_batch(driver, *random_batch(NETWORK, 8))
    driver.step(0)
    records = driver.records(0)
    cycles = max(record.end for record in records) - min(record.start for record in records)
    assert found.seconds == pytest.approx(cycles / 50e6, rel=0.01)
    assert found.forward_seconds is not None and 0.2 < found.forward_seconds / found.seconds < 0.7
    assert set(found.operations) == {work.operation for work in batch_works(NETWORK, 8)}
    faster = replace(die, clock_mhz=100.0).batch(NETWORK, 8)
    assert faster.seconds == pytest.approx(found.seconds / 2)


@pytest.mark.slow
def test_a_die_that_has_run_takes_as_many_cycles_as_a_fresh_one(die: DieDevice) -> None:
    """Whatever update counters it was left with: tasks that did not wait would be done sooner."""
    fresh = cosim_die(FIXED, WORDS, 50.0).batch(NETWORK, 8)
    die.batch(Network(name="other", input=Shape((5,)), layers=(
        Dense(name="fc1", outputs=40), *NETWORK.layers[1:])), 12)
    assert die.batch(NETWORK, 8) == fresh


@pytest.mark.slow
def test_tasks_one_by_one_do_not_overlap(die: DieDevice) -> None:
    program = lowered(NETWORK, 24, FIXED, WORDS)
    spans = []
    for each in (program, one_by_one(program)):
        driver = die._loaded(each, NETWORK, 24)
        driver.step(0)
        records = driver.records(0)
        assert len(records) == len(program.step[0].tasks)
        spans.append(sorted((record.start, record.end) for record in records))
    together, alone = (sum(after < end for (_, end), (after, _) in pairwise(some)) for some in spans)
    assert together > 0 and alone == 0
    assert spans[1][-1][1] - spans[1][0][0] > spans[0][-1][1] - spans[0][0][0]


@pytest.mark.slow
def test_the_profile_of_a_die_tells_its_products_and_batches(profile: Profile) -> None:
    assert {"product fprop", "convolution update", "tanh forward", "update", "loss"} <= profile.kinds.keys()
    error = profile.batch_error(fitted=False)
    assert error is not None and error < 0.3
    assert profile.costs.flop_seconds >= 0 and profile.costs.batch_seconds >= 0
    assert "stated" in profile.conditions["clock"] and profile.conditions["preset"] == "fpga-tiny"


@pytest.mark.long
def test_a_die_behind_a_serial_line_is_profiled() -> None:
    """The die counts, whatever its line takes; transfers end where its memory does."""
    words = SERIAL.block_ram_words
    array, _ = simulated_serial_array(SERIAL, words, Fraction(4), 50_000_000)
    served = DieDevice("serial:port", SERIAL, words, array, 50.0)
    little = Network(name="little", input=Shape((4,)), layers=(
        Dense(name="out", outputs=4), SoftmaxCrossEntropy(name="loss")))
    found = served.batch(little, 4)
    assert found.seconds * 50e6 == pytest.approx(round(found.seconds * 50e6), abs=1e-3)
    assert 100 < found.seconds * 50e6 < 100_000 and served.batch(little, 4) == found
    assert set(found.operations) == {work.operation for work in batch_works(little, 4)}
    transfers = served.transfers((64, 1 << 20))
    assert [transfer.words for transfer in transfers] == [64, 64] and all(each.seconds > 0 for each in transfers)


def test_a_golden_die_is_timed_as_a_whole() -> None:
    found = golden_die(preset("fpga-tiny"), WORDS).batch(NETWORK, 4)
    assert found.seconds > 0 and found.forward_seconds is None and not found.operations


def test_batches_that_do_not_fit_are_left_out() -> None:
    little, more = (measured(golden_die(preset("fpga-tiny"), words), SMALL) for words in (9_500, WORDS))
    assert 3 <= len(little.batches) < len(more.batches) == 23
    with pytest.raises(UserError, match="golden: of 23 batches that are measured 0 fit the device's memory"):
        measured(golden_die(preset("fpga-tiny"), 1 << 10), SMALL)


def test_numpy_is_timed_by_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plinth.profile.numpy_device.STEP_SECONDS", 0.0)
    told: list[tuple[int, int]] = []
    profile = measured(NumpyDevice(), SMALL, progress=lambda done, total, what: told.append((done, total)))
    assert profile.cache is None and "product update" in profile.kinds and profile.batch_fit.needs_operations
    assert told == [(number, 3 * 23) for number in range(3 * 23)]
    assert profile.costs.message(1 << 20) > profile.costs.message(1)


def test_messages_go_between_two_ranks() -> None:
    found = RankDevice().transfers((64, 1 << 18))
    assert [(transfer.kind, transfer.words) for transfer in found] == [(MESSAGE, 64), (MESSAGE, 1 << 18)]
    assert all(0 < transfer.seconds < 1 for transfer in found)


def test_ranks_are_not_started_by_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAUNCHED[0], "2")
    with pytest.raises(UserError, match="starts two ranks itself"):
        RankDevice()


@pytest.mark.parametrize(("text", "kind", "port", "baud"), [
    ("numpy", "numpy", "", None), ("cosim", "cosim", "", None), ("serial:/dev/x", "serial", "/dev/x", None),
    ("serial:COM3@115200", "serial", "COM3", 115200)])
def test_devices_have_names(text: str, kind: str, port: str, baud: int | None) -> None:
    name = device_name(text)
    assert (name.kind, name.port) == (kind, port) and (baud is None or name.baud == baud)
    assert name.is_host == (kind == "numpy")


@pytest.mark.parametrize("text", ["nump", "", "serial:", "serial:a@b", "serial:a@0", "Numpy", "numpy,golden"])
def test_unknown_devices_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="is none of numpy, mpi, golden, cosim and serial:PORT"):
        device_name(text)


def profiles() -> Iterator[Profile]:
    made = measured(golden_die(preset("fpga-tiny"), WORDS), replace(SMALL, convolutional=2, perceptrons=6))
    for rates in ((9.0, 9.0, 1.0, 1.0), (5.0, 5.0, 5.0, 5.0)):
        yield replace(made, cache=CacheSweep((1 << 10, 1 << 11, 1 << 12, 1 << 13), rates), stated_caches={"L2": 777})


def test_the_limit_is_what_is_known_of_the_memory() -> None:
    board, (knee, flat) = preset("fpga-ulx3s"), profiles()
    assert memory_limit(knee, FIXED, WORDS, 123) == 123
    assert memory_limit(knee, FIXED, WORDS, None) == 1 << 11 and memory_limit(flat, FIXED, WORDS, None) == 777
    die = replace(knee, cache=None)
    assert memory_limit(die, FIXED, WORDS, None) == 2 * WORDS
    assert memory_limit(die, board, 1 << 30, None) == 2 * board.block_ram_words
    with pytest.raises(UserError, match="give memory="):
        memory_limit(replace(flat, stated_caches={}), FIXED, WORDS, None)


def test_a_golden_die_is_opened_with_the_memory_that_there_is() -> None:
    board = preset("fpga-ulx3s")
    with opened_device(device_name("golden"), board, 1 << 30) as device:
        assert device.conditions["memory"] == f"{board.block_ram_words} words"
    assert defaults.METRIC in defaults.METRICS


def test_a_port_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist; connect the board"), opened_device(
            device_name(f"serial:{tmp_path / 'none'}"), FIXED, WORDS):
        pass
