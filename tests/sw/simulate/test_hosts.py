"""Hosts as machines of arrays: what work takes them, where it goes on, and the tables of docs/cluster.md."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml

from plinth import cli
from plinth.array.array import Array
from plinth.array.file import array_from_data, array_to_data, load_array
from plinth.array.host import SPARSE_RATES, HostRates
from plinth.bench import cluster
from plinth.bench import host as measured
from plinth.errors import UserError
from plinth.files.documents import parse_yaml
from plinth.machine.convolution import ConvolutionShape
from plinth.machine.host import (
    HostCycles,
    HostWork,
    convolution_work,
    machine_of,
    moved,
    nanoseconds,
    product_work,
)
from plinth.machine.sparse_products import SparseProduct, by_blocks, sparse_work
from plinth.network.sparse.layers import layered
from plinth.network.sparse.radix_net import trained_network
from plinth.network.zoo import NETWORKS
from plinth.plan.planning import predicted_seconds
from plinth.predict.host import host_task_cost
from plinth.simulate.costs import DieCosts, HostCosts
from plinth.simulate.step import Simulated, planned, simulated
from plinth.step.between import Reduce
from plinth.step.layers.sparse import SparseProducts
from plinth.step.tasks import Task

#: Rates of which each amount's time is told from all others'.
RATES = HostRates(multiply_adds_per_ns=40, product_words_per_ns=5, cached_words_per_ns=20, memory_words_per_ns=8,
                  cache_words=1000, functions_per_ns=4, call_ns=400, run_ns=8, block_multiply_adds_per_ns=16,
                  block_ns=32, entry_multiply_adds_per_ns=2, entry_ns=6, message_ns=900)


def hosts(count: int, **settings: object) -> Array:
    return Array(**{"name": "hosts", "topology": "star", "dies": count, "preset": "ndp-paper",  # type: ignore[arg-type]
                    "link_rate": Fraction(5, 16), "link_latency": 2500, "host": RATES} | settings)


def run(array: Array, network: str = "digits-mlp", planner: str = "data", batch: int = 64) -> Simulated:
    plan, step = planned(NETWORKS[network], array, planner=planner, model="exact", batch=batch)
    return simulated(plan, array, step=step)


def test_each_amount_has_its_own_rate() -> None:
    amounts = {"calls": 400.0, "runs": 8.0, "multiply_adds": 1 / 40, "product_words": 1 / 5, "cached_words": 1 / 20,
               "memory_words": 1 / 8, "functions": 1 / 4, "blocks": 32.0, "block_multiply_adds": 1 / 16,
               "entries": 6.0, "entry_multiply_adds": 1 / 2}
    assert set(amounts) == set(HostWork._fields)
    for name, each in amounts.items():
        assert nanoseconds(RATES, HostWork(**{name: 3.0})) == pytest.approx(3 * each), name


def test_work_by_hand() -> None:
    assert product_work(2, 3, 5) == HostWork(calls=1, multiply_adds=30, product_words=10 + 15 + 3 * 6)
    assert moved(1000, 1000, passes=2) == HostWork(calls=1, cached_words=2000)
    assert moved(1001, 1000, passes=2) == HostWork(calls=1, memory_words=2002)
    shape = ConvolutionShape(height=6, width=6, inputs=2, outputs=4, kernel=(3, 3))
    # 2 images of 16 positions; windows of 18 numbers: 3 runs each.
    fprop = convolution_work("fprop", shape, 2, 1e9)
    assert (fprop.multiply_adds, fprop.runs) == (32 * 18 * 4, 32 * 3)
    assert fprop.cached_words == 2 * 2 * 36 * 2 + 2 * 32 * 18
    assert convolution_work("update", shape, 2, 1e9) == product_work(32, 4, 18)
    # Windows of a batch that are too many are not kept.
    assert convolution_work("update", shape, 1 << 16, 1e9).runs == (1 << 16) * 16 * 3


def test_a_host_does_an_operation_whole() -> None:
    """Its time is the sum of its work's, however many tasks dies would have: one call an instruction, or a product."""
    one = run(hosts(1))
    costs = one.result.engines
    assert set(costs) == {(0, "matrix")}
    assert one.result.seconds == pytest.approx(costs[0, "matrix"].busy) and one.work.grouped
    # fc1 forwards, 64 x 64 to the width of the first layer.
    node = one.step.graph.nodes[0]
    wide = node.output_channels
    expected = nanoseconds(RATES, product_work(64, wide, 64))
    (task,) = [task for operation in one.step.operations for task in operation.tasks(0, 1)
               if getattr(task, "name", "").startswith("fc1.fprop")]
    assert 1e9 * HostCosts(hosts(1)).task(task).seconds == pytest.approx(expected)


def test_steps_grow_with_work_and_rates() -> None:
    base = run(hosts(1)).result.seconds
    slow = replace(RATES, multiply_adds_per_ns=4)
    assert run(hosts(1, host=slow)).result.seconds > base
    assert run(hosts(1), batch=128).result.seconds > base
    assert run(hosts(2)).result.seconds > run(hosts(2, link_rate=Fraction(3))).result.seconds
    assert run(hosts(2)).result.seconds > run(hosts(2, link_latency=1)).result.seconds


@pytest.mark.parametrize("rate", [Fraction(5, 16), Fraction(25, 8)])
def test_reductions_are_the_formula(rate: Fraction) -> None:
    """Four hosts of a quarter of the samples do what one of them would, and what members of rings do themselves; words
    and latencies are on the links meanwhile, and behind it what nothing hides."""
    array = hosts(4, link_rate=rate)
    four, one = run(array, batch=256), run(hosts(1), batch=64)
    words = [max(map(operation.words, range(4))) for operation in four.step.operations if isinstance(operation, Reduce)]
    update = sum(cluster.message(hosts(1), 1, some).own for some in words)
    rings = [cluster.message(array, 4, some) for some in words]
    busy = one.result.seconds - update + sum(ring.own for ring in rings)
    assert four.result.engines[0, "matrix"].busy == pytest.approx(busy)
    last = rings[-1]
    assert busy + last.link + last.latency <= four.result.seconds * (1 + 1e-9)
    assert four.result.seconds < busy + sum(ring.link + ring.latency for ring in rings)


def test_a_message_by_hand() -> None:
    own, link, latency = cluster.message(hosts(4), 4, 4000)
    assert own == pytest.approx(1e-9 * (11 * 0.75 * 4000 / 8 + 6 * (9 * 400 + 2 * 900)))
    assert link == pytest.approx(1e-9 * 1.5 * 4000 * 16 / 5) and latency == pytest.approx(1e-9 * 6 * 5000)
    # Alone it reads a gradient, reads and writes weights, and makes the product in its cache.
    assert cluster.message(hosts(4), 1, 4000) == (pytest.approx(1e-9 * (800 + 3 * 4000 / 8 + 3 * 4000 / 20)), 0, 0)


@pytest.mark.parametrize("planner", ["data", "hypar", "model"])
def test_larger_arrays_are_those_that_were_simulated(planner: str) -> None:
    """The formula of more ranks than an array has, on some that it has: groups that are data parallel above a plan."""
    few = run(hosts(4), "lenet-c", planner, 64)
    many = hosts(16)
    plan, _ = planned(NETWORKS["lenet-c"], many, planner="data", model="exact", batch=256)
    splits = tuple(("dp", "dp", *vector) for vector in few.plan.splits)
    plan = replace(plan, sharding=replace(plan.sharding, splits=splits, copies=()))
    assert 0.98 < cluster.larger(few, 4) / simulated(plan, many).result.seconds < 1.1
    assert cluster.larger(few, 1) == pytest.approx(few.result.seconds)


def test_what_larger_rings_add() -> None:
    """What members do themselves of each message, and latencies once: of 4 hosts 6 hops, of 16 of them 30."""
    few = run(hosts(4))
    words = [operation.words(0) for operation in few.step.operations if isinstance(operation, Reduce)]
    own = sum(cluster.message(hosts(4), 16, some).own - cluster.message(hosts(4), 4, some).own for some in words)
    assert cluster.larger(few, 4) - few.result.seconds == pytest.approx(own + 1e-9 * (30 - 6) * 5000)


def test_hosts_have_no_energy_and_dies_do() -> None:
    one = run(hosts(2))
    assert not any(one.joules.values())
    dies = hosts(2, host=None)
    assert isinstance(DieCosts(dies), DieCosts) and sum(run(dies).joules.values()) > 0


def test_a_star_has_one_switch() -> None:
    array = hosts(3)
    assert array.switches == 1 and len(array.links) == 3
    assert array.route_latencies.tolist() == [[0, 5000, 5000], [5000, 0, 5000], [5000, 5000, 0]]
    assert hosts(1).switches == 0 and not hosts(1).links and not array.circle()


GOOD = array_to_data(hosts(4))


def test_files_of_hosts_keep_their_rates() -> None:
    text = yaml.safe_dump(GOOD)
    assert array_from_data(parse_yaml(text, "a.yaml"), "a.yaml") == hosts(4)
    without = {key: value for key, value in GOOD["host"].items() if key != "message_ns"}
    assert array_from_data(GOOD | {"host": without}, "a.yaml").host == replace(RATES, message_ns=0.0)


@pytest.mark.parametrize(("change", "needle"), [
    ({"host": 3}, "host is a mapping"),
    ({"host": GOOD["host"] | {"speed": 1}}, "unknown key 'speed'"),
    ({"host": {"call_ns": 1}}, "key 'multiply_adds_per_ns' is missing"),
    ({"host": GOOD["host"] | {"call_ns": -1}}, "call_ns of a host must be a number from 0 to 1e.09, not -1"),
    ({"host": GOOD["host"] | {"multiply_adds_per_ns": 0}}, "multiply_adds_per_ns of a host must be a number from"),
    ({"host": GOOD["host"] | {"run_ns": "8"}}, "run_ns of a host must be a number .* write the number in plain digits"),
    ({"host": GOOD["host"] | {"run_ns": True}}, "run_ns of a host must be a number"),
    ({"host": GOOD["host"] | {"cache_words": float("nan")}}, "cache_words of a host must be a number"),
    ({"clock_mhz": 500}, "cycles of an array of hosts are nanoseconds; leave out clock_mhz"),
    ({"preset": "ndp-paper-mixed"}, "hosts compute in FP32"),
    ({"codes": "built"}, "hosts send words as they are; leave out codes"),
    ({"link_rate": 17}, "link_rate is 17 words a cycle"),
    ({"link_latency": 0}, "link_latency must be an integer from 1"),
    ({"dies": 2000}, "dies must be an integer from 1 to 1024"),
])
def test_hosts_that_cannot_be_are_refused_in_one_line(change: dict[str, object], needle: str) -> None:
    with pytest.raises(UserError, match=needle) as caught:
        array_from_data(GOOD | change, "a.yaml")
    assert str(caught.value).startswith("a.yaml: ") and "\n" not in str(caught.value)


# Fitting.


def _times(rates: HostRates) -> list[measured.Timed]:
    return [measured.Timed(case, nanoseconds(rates, case.work(rates.cache_words))) for case in measured.cases()]


def test_rates_of_given_times_are_found() -> None:
    """Times that follow from rates give these rates; held-out kernels have no part in that."""
    rates = replace(RATES, cache_words=float(1 << 17), message_ns=0.0)
    exact = _times(rates)
    found = measured.fitted(exact)
    for name, value in rates.to_data().items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-3), name
    assert measured.errors(found, exact, of_fitted=False)[1] < 1e-3
    bent = [replace(one, nanoseconds=one.nanoseconds * (1 if one.case.fitted else 2)) for one in exact]
    assert measured.fitted(bent) == found
    assert measured.errors(found, bent, of_fitted=False)[0] == pytest.approx(0.5, abs=1e-3)


def test_times_below_zero_are_left_out() -> None:
    """What fits best with a negative time of an amount has none of it."""
    table = np.array([[1.0, 1.0], [1.0, 2.0]])
    assert measured._least_squares(table).min() >= 0.0


def test_kernels_can_be_timed() -> None:
    few = [case for case in measured.cases() if case.name in ("add 300", "add 1000", "fprop 64 x 64 x 64",
                                                              "exponential 1000", "row of rows 256 x 128")]
    assert len(few) == 5 and all(one.nanoseconds > 0 for one in measured.timed(few))


def test_messages_between_ranks_go_to_hosts_or_links() -> None:
    between = measured.Between(nanoseconds=1500.0, words_per_ns=2.0)
    assert measured.with_messages(RATES, between, None, None) == (RATES, 64.0, 1.5)
    rates, gigabits, microseconds = measured.with_messages(RATES, between, 10.0, 5.0)
    assert (rates.message_ns, gigabits, microseconds) == (750.0, 10.0, 5.0)


# The page.


def test_the_page_has_what_is_made() -> None:
    """The command checks all; here the table of co-simulation, and a row of steps of 64 hosts."""
    page = (Path(__file__).parents[3] / "docs" / cluster.PAGE).read_text(encoding="utf-8")
    assert f"<!-- cosimulation -->\n{cluster.cosimulation_table()}\n<!-- /cosimulation -->" in page
    made = cluster.row(64, 100.0, 1, ("hypar",)).cells()
    assert f"| {' | '.join(made)} |" in page
    for name, value in cluster.rates().to_data().items():
        assert f"| `{name}` | {value:g} |" in page
    assert load_array(str(cluster.HOST)).dies == 1


def test_cosimulated_cycles_by_hand() -> None:
    # 100 cycles take 1 ms, and a hop of 1 ms as long.
    assert cluster.cosimulated(100, 1000.0, 100_000.0) == pytest.approx(50_000.0)


@pytest.mark.parametrize(("arguments", "needle"), [
    (("train", "digits-mlp", "--device", "golden"),
     "is of hosts, which run numpy and are no dies; choose --device numpy"),
    (("simulate", "digits-mlp", "--cost", "paper"),
     "is of hosts, which have rates of their own; leave out --cost paper"),
])
def test_what_hosts_are_not_is_refused(arguments: tuple[str, ...], needle: str, tmp_path: Path,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text(yaml.safe_dump(GOOD), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, "--array", str(path)])
    said = capsys.readouterr()
    assert ended.value.code == 2 and not said.out and needle in said.err and said.err.count("\n") == 1


@pytest.mark.parametrize(("arguments", "needle"), [
    (("--rate", "10"), "--rate '10' is not a rate from 1Mb to 512Gb a second"),
    (("--rate", "900Gb"), "--rate '900Gb' is not a rate"), (("--rate", "0Gb"), "--rate '0Gb' is not a rate"),
    (("--latency", "0"), "--latency"), (("--latency", "3000"), "--latency"), (("--ranks", "0"), "--ranks"),
    (("--ranks", "2000"), "--ranks"), (("--out", "host.txt"), "--out host.txt must end in .yaml or .yml"),
])
def test_hosts_that_are_not_measured(arguments: tuple[str, ...], needle: str, tmp_path: Path,
                                     monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["array", "host", "--out", "host.yaml", *arguments])
    said = capsys.readouterr()
    assert ended.value.code == 2 and needle in said.err and said.err.count("\n") == 1 and not [*tmp_path.iterdir()]


def test_the_command_writes_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    """Of times that are given."""
    rates = replace(RATES, cache_words=float(1 << 17), message_ns=0.0)
    monkeypatch.setattr(measured, "timed", lambda cases, progress: _times(rates))
    out = tmp_path / "host.yaml"
    cli.main(["array", "host", "--out", str(out), "--ranks", "64", "--rate", "100Gb", "--latency", "1"])
    array = load_array(str(out))
    assert (array.dies, array.rate, array.link_latency, array.topology) == (64, Fraction(25, 8), 500, "star")
    assert array.host is not None and array.host.multiply_adds_per_ns == pytest.approx(40, rel=1e-3)
    assert "54 kernels that played no part in the fit: off by 0.0%" in capsys.readouterr().out


def sparse_layer(direction: str, samples: int, shapes: tuple[tuple[int, int, int], ...] = ((4, 16, 32),),
                 parts: int = 1) -> SparseProduct:
    """Of 64 rows and 128 columns, or so many times as many; full blocks."""
    return SparseProduct(direction, shapes, sum(count * rows * columns for count, rows, columns in shapes), 64 * parts,
                         128 * parts, samples)


def test_sparse_products_by_hand() -> None:
    """Of 4 blocks of 16 x 32 and 64 samples: in a large cache each word costs the same, wherever it is."""
    fprop, bprop, update = (sparse_work(sparse_layer(direction, 64), 1e9) for direction in ("fprop", "bprop", "update"))
    for work, gathered, given in ((fprop, 128, 64), (bprop, 64, 128), (update, 192, 0)):
        assert (work.blocks, work.block_multiply_adds, work.entries) == (4, 2048 * 64, 0)
        assert work.runs == gathered and work.calls == 4 + 3
        assert work.cached_words == 2048 + 2 * 64 * gathered + 64 * given
    # Columns that two blocks give are added up, taken from products that lie one behind the other; so are few samples.
    twice = sparse_work(sparse_layer("bprop", 64, ((8, 16, 32),)), 1e9)
    assert twice.runs == 128 + 256 and twice.cached_words == 4096 + 64 * (2 * 128 + 3 * 256)
    assert sparse_work(sparse_layer("fprop", 8, ((64, 16, 32),), 16), 1e9).runs == 16 * (128 + 64)
    # So much is gathered at a time as TILE_WORDS holds: 48 rows of 1,024 samples are more than a third of it.
    assert sparse_work(sparse_layer("fprop", 1024), 1e9).calls == 4 + 3 * 2
    assert sparse_work(SparseProduct("fprop", (), 0, 64, 0, 8), 1e9) == HostWork()


def test_sparse_products_over_single_entries_by_hand() -> None:
    """Blocks of one row and one column each do not pay."""
    shapes = ((300, 1, 1),)
    assert not by_blocks(shapes, 300, 64, 4) and by_blocks(((4, 16, 32),), 2048, 64, 64)
    fprop, update = (sparse_work(sparse_layer(direction, 4, shapes), 1e9) for direction in ("fprop", "update"))
    assert fprop == HostWork(calls=8, entries=300, entry_multiply_adds=1200, cached_words=3 * 64 * 4)
    assert update == HostWork(calls=8 + 3, runs=600, entries=300, entry_multiply_adds=1200, cached_words=4 * 1200)


def test_sparse_layers_on_hosts_are_one_product_each() -> None:
    """Simulated and predicted: the blocks of a host's rows by the kernel that it takes; gathers are within it."""
    network, array = layered(trained_network(256, 2, seed=0)), hosts(2)
    plan, step = planned(network, array, planner="hypergraph", model="exact", batch=16)
    costs, machine = HostCosts(array), machine_of(array)
    assert isinstance(machine, HostCycles)
    for operation in step.operations:
        if not isinstance(operation, SparseProducts):
            continue
        cover = operation.weights.cover(0)
        assert cover.useful == 1
        product = SparseProduct(operation.direction, cover.shapes(), cover.nonzeros, *cover.shape, 16)
        tasks = [task for task in operation.tasks(0, 1) if isinstance(task, Task)]
        assert 1e9 * sum(costs.task(task).seconds for task in tasks) == pytest.approx(
            nanoseconds(RATES, sparse_work(product, RATES.cache_words)))
        assert {host_task_cost(machine, task)[0].interval for task in tasks if task.share is None} <= {0.0}
    simulation = simulated(plan, array, step=step)
    slow = replace(array, host=replace(RATES, block_ns=3200, entry_ns=600))
    assert simulated(plan, slow).result.seconds > simulation.result.seconds
    predicted, dearer = (predicted_seconds(plan, some) for some in (array, slow))
    assert simulation.result.seconds == pytest.approx(predicted, rel=0.2) and dearer > predicted


def test_hosts_without_rates_of_sparse_layers_refuse_them() -> None:
    rates = RATES.to_data()
    for name in SPARSE_RATES:
        del rates[name]
    array = hosts(1, host=HostRates(**rates))
    assert array_from_data(parse_yaml(yaml.safe_dump(array_to_data(array)), "a.yaml"), "a.yaml") == array
    assert run(array).result.seconds > 0
    network = layered(trained_network(64, 1, seed=0))
    with pytest.raises(UserError, match="no rates of sparse layers; measure them again with `plinth array host`"):
        simulated(planned(network, array, planner="data", model="exact", batch=4)[0], array)
    with pytest.raises(ValueError, match="all rates of sparse layers or none; block_ns is missing"):
        HostRates(**{name: rate for name, rate in RATES.to_data().items() if name != "block_ns"})
