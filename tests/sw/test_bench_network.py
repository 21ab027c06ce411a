"""Traffic by itself: what is sent, and what the simulator makes of it beside co-simulated dies."""

import numpy as np
import pytest

from plinth.array.array import ARRAYS, ring
from plinth.bench import network, workers
from plinth.bench.network import PATTERNS, WORDS, CountedCycles, TrafficCase
from plinth.driver.driver import Driver
from plinth.lower.training import lower_step
from plinth.runtime.arrays import golden_array

MEMORY_WORDS = 1 << 18


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_die_has_what_others_send_it(pattern: str) -> None:
    array = ring(6, preset="ndp-tiny")
    step = network.step_of_case(TrafficCase(pattern, array))
    program = lower_step(step, 1, MEMORY_WORDS)
    driver = Driver(golden_array(step.parameters, 6, MEMORY_WORDS), program, memory_words=MEMORY_WORDS)
    for die in range(6):
        driver.write(die, program.buffers["sent"], np.full((1, WORDS), die + 1, dtype=np.uint32))
        driver.write(die, program.buffers["received"], np.zeros((1, 6 * WORDS), dtype=np.uint32))
    driver.step(0)
    for die in range(6):
        received = driver.read(die, program.buffers["received"]).reshape(6, WORDS).view(np.uint32)
        sends = np.array([die in PATTERNS[pattern](other, 6) for other in range(6)])
        assert (received == np.where(sends, np.arange(1, 7), 0)[:, None]).all()


def test_cases_have_traffic_and_are_simulated() -> None:
    """Tiles are scattered to who has their elements, all to all, and rings are those of all layers."""
    cases = network.cases()
    assert len(cases) == len(set(cases)) == 2 * len(PATTERNS) + 3 * (3 + 4)
    for case in cases[::5]:
        step = network.step_of_case(case)
        assert any(list(operation.tasks(0)) for operation in step.operations[:-1])
    small = TrafficCase("everyone to die 0", ring(4, preset="ndp-tiny"))
    # What comes to a die goes by its receive path, a flit a cycle.
    assert 3 * WORDS < network.simulated(small) < 1.2 * 3 * WORDS


def test_table_and_rows() -> None:
    counted = [CountedCycles(TrafficCase("everyone to die 0", ARRAYS["ring-8"]), 1000, 990),
               CountedCycles(TrafficCase(network.RINGS, ARRAYS["ring-8"], 1), 2000, 2120)]
    assert network.table(counted).endswith(
        "| rings of all gradients, 2 x 4 | `ndp-demo` | ring-8 | 2,000 | 2,120 | +6.0 % |\n\n"
        "2 cases: mean error 3.5 %, worst 6.0 %.")
    assert [(row.name, round(row.value, 3)) for row in network.rows(counted)] == [
        ("network_error_mean", 0.035), ("network_error_worst", 0.06)]
    assert network.rows(counted)[1].limited_by == "rings of all gradients, 2 x 4 on ring-8" and not network.rows([])


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
@pytest.mark.parametrize(("pattern", "error"), [("everyone to die 0", 0.05), ("die 0 to everyone", 0.05),
                                                ("everyone to everyone, the next first", 0.1)])
def test_hot_spots_on_rtl(pattern: str, error: float) -> None:
    assert abs(network.compare(TrafficCase(pattern, ring(8, preset="ndp-tiny"))).error) < error


def test_workers_have_rings_of_full_links_and_narrow_ones_inside_clusters() -> None:
    array = workers.workers(4, 2, "ndp-demo-winograd")
    assert array.ports == 4 and len(array.links) == 8 + 2 * 4 and not array.circle()
    narrow = {(link.a, link.b) for link in array.links if link.rate == workers.NARROW}
    assert narrow == {(0, 2), (0, 4), (2, 6), (4, 6), (1, 3), (1, 5), (3, 7), (5, 7)}
    assert all(link.rate == workers.FULL for link in array.links if (link.a + 1) % 8 == link.b)
    assert len([link for link in workers.workers(8, 1, "ndp-demo-winograd").links
                if link.rate == workers.NARROW]) == 2 * 6 + 4


def test_speedup_is_that_of_the_counted_steps() -> None:
    (row,) = workers.mpt_speedup_rtl(lambda network, array, splits: 300 if set(splits[0]) == {"dp"} else 200)
    assert row.value == 1.5 and row.detail["mpt"]["splits"].startswith("ep/ep/ep ep/ep/ep")
    assert row.detail["speedup_error"] == pytest.approx(row.detail["speedups"]["data"]["predicted"] / 1.5 - 1)
    # Kernels are fewer words than tiles, and are transformed; direct convolution of few samples is quicker still.
    predicted = [row.detail[name]["predicted"] for name in (
        "mpt", "data, direct convolution", "data", "data, tiles trained")]
    assert predicted == sorted(predicted)
