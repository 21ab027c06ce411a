"""Rows and dense gradients between workers: sums in the order of workers, bit by bit, whichever way; words as Table 3
says; and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.worker_threads import in_threads

from plinth.errors import UserError
from plinth.names import AUTO_COPIES, GATHERED_ROWS, RINGS, SERVERS
from plinth.partition.row_costs import (
    NetworkRates,
    VariableLoad,
    best_way,
    machine_words,
    model_alpha,
    owner_words,
    seconds_of_ways,
    words_of_ways,
)
from plinth.workers.group import Single
from plinth.workers.machines import Machines
from plinth.workers.runner import SynchronousExchange, TableSettings, reasons, ways_of

ROWS, WIDTH, STEPS, RATE = 23, 4, 3, np.float32(0.1)
MACHINES = [((0,),), ((0,), (1,)), ((0,), (1,), (2,), (3,)), ((0, 1), (2, 3)), ((0, 3, 1), (2, 4)), ((1, 2), (0,))]


def touched(worker: int, step: int, name: str = "t") -> tuple[Any, Any]:
    """Rows that a worker touches in a step, now and then none, and their gradients."""
    generator = np.random.default_rng([step, worker, len(name)])
    rows = np.unique(generator.integers(0, ROWS, 6)) if (step + worker) % 4 != 3 else np.zeros(0, np.int64)
    return rows, generator.standard_normal((len(rows), WIDTH)).astype(np.float32)


def dense(worker: int, step: int) -> list[Any]:
    generator = np.random.default_rng([step, worker, 7])
    return [generator.standard_normal(shape).astype(np.float32) for shape in ((7,), (5, 3))]


def first_table() -> Any:
    return np.random.default_rng(1).standard_normal((ROWS, WIDTH)).astype(np.float32)


def expected(machines: Machines, merged: bool) -> list[Any]:
    """The table before each step, and behind the last: sums of workers, of each machine first if they are merged."""
    tables = [first_table()]
    for step in range(STEPS):
        total = np.zeros((ROWS, WIDTH), np.float32)
        for machine in machines.members:
            own = np.zeros((ROWS, WIDTH), np.float32) if merged else total
            for worker in machine:
                rows, gradients = touched(worker, step)
                own[rows] += gradients
            if merged:
                total += own
        tables.append(tables[-1] - RATE * total)
    return tables


def train(machines: Machines, way: str, pieces: int, tables: list[Any]) -> list[Any]:
    """What each worker has behind the last step: rows that it owns, and the dense sums of each step; words that it has
    sent."""
    def work(workers: Any) -> Any:
        table = first_table()
        exchange = SynchronousExchange(workers, machines, [TableSettings("t", (ROWS, WIDTH), pieces)], [7, 15],
                                       {"t": way}, {"t": lambda rows: table[rows]})
        sums = []
        for step in range(STEPS):
            rows, gradients = touched(workers.own, step)
            # Who looks nothing up may leave out asking.
            if len(rows):
                values = exchange.pull({"t": rows})["t"]
                assert (values is None) == (way != SERVERS)
                if values is not None:
                    np.testing.assert_array_equal(values, tables[step][rows])
            parts, aggregated = exchange.aggregate(dense(workers.own, step), {"t": (rows, gradients)})
            numbers, total = aggregated["t"]
            table[numbers] -= RATE * total
            sums.append([part.copy() for part in parts])
        own = exchange.tables["t"].owned()
        return own, table[own], sums, exchange.sent()

    if machines.members == ((0,),):
        return [work(Single())]
    return in_threads(sum(map(len, machines.members)), work)


@pytest.mark.parametrize("pieces", [1, 3, 7])
@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("members", MACHINES)
def test_servers_add_in_the_order_of_workers(members: Any, local: bool, pieces: int) -> None:
    machines = Machines(members, local)
    tables = expected(machines, machines.merged)
    trained, last = np.full((ROWS, WIDTH), np.nan, np.float32), set()
    for own, values, _, _ in train(machines, SERVERS, pieces, tables):
        assert not last & set(own.tolist())
        last |= set(own.tolist())
        trained[own] = values
    np.testing.assert_array_equal(trained, tables[-1])


@pytest.mark.parametrize("members", [members for members in MACHINES if all(len(machine) == 1 for machine in members)])
def test_gathered_rows_are_those_of_servers(members: Any) -> None:
    machines = Machines(members)
    tables = expected(machines, False)
    for own, values, _, _ in train(machines, GATHERED_ROWS, 1, tables):
        assert own.tolist() == list(range(ROWS))
        np.testing.assert_array_equal(values, tables[-1])


@pytest.mark.parametrize("members", MACHINES)
def test_rings_sum_the_whole_gradient(members: Any) -> None:
    machines = Machines(members)
    tables = expected(machines, False)
    outcomes = train(machines, RINGS, 1, tables)
    for _, values, sums, _ in outcomes:
        np.testing.assert_allclose(values, tables[-1], atol=1e-6)
        np.testing.assert_array_equal(values, outcomes[0][1])
        for step, parts in enumerate(sums):
            workers = range(sum(map(len, members)))
            for number, part in enumerate(parts):
                np.testing.assert_allclose(part, sum(dense(worker, step)[number].astype(float) for worker in workers),
                                           rtol=1e-5, atol=1e-6)
                np.testing.assert_array_equal(part, outcomes[0][2][step][number])


@pytest.mark.parametrize("way", [SERVERS, GATHERED_ROWS, RINGS])
@pytest.mark.parametrize("members", [*MACHINES[1:3], ((0, 1), (2, 3)), ((0, 1, 2), (3, 4, 5), (6, 7, 8))])
@pytest.mark.parametrize("local", [True, False])
def test_words_are_those_of_the_formulas(members: Any, local: bool, way: str) -> None:
    """Of a table of which each worker touches every row, so that alpha is 1, cut evenly; row numbers apart."""
    machines, count = Machines(members, local), sum(map(len, members))
    each = len(members[0])
    rows, width = 12 * count, 8

    def work(workers: Any) -> Any:
        table = np.zeros((rows, width), np.float32)
        exchange = SynchronousExchange(workers, machines, [TableSettings("t", (rows, width), len(members))], [],
                                       {"t": way}, {"t": lambda numbers: table[numbers]})
        exchange.pull({"t": np.arange(rows)})
        exchange.aggregate([], {"t": (np.arange(rows), table)})
        return exchange.sent()["values"]

    sent = in_threads(count, work)
    wanted = machine_words(way, VariableLoad(rows * width, 1.0), len(members), each,
                           merged=local if way == SERVERS else False)
    assert [sum(sent[worker] for worker in machine) for machine in members] == [wanted] * len(members)


def test_formulas_are_those_of_table_3() -> None:
    """Which counts words that are sent and received, of one worker a machine."""
    for machines in (1, 2, 8):
        for share in (None, 0.02):
            load, alpha = VariableLoad(1000, share), 1.0 if share is None else share
            assert 2 * machine_words(SERVERS, load, machines) == pytest.approx(
                4 * alpha * 1000 * (machines - 1) / machines)
            assert 2 * owner_words(load, machines) == pytest.approx(2 * alpha * 1000 * (machines - 1))
        assert 2 * machine_words(RINGS, VariableLoad(1000), machines) == pytest.approx(
            4 * 1000 * (machines - 1) / machines)
        assert 2 * machine_words(GATHERED_ROWS, VariableLoad(1000, 0.02), machines) == pytest.approx(
            2 * 0.02 * 1000 * (machines - 1))
    # Merged, a machine is as one worker.
    assert machine_words(SERVERS, VariableLoad(1000, 0.1), 4, 6) == machine_words(SERVERS, VariableLoad(1000, 0.1), 4)
    assert machine_words(SERVERS, VariableLoad(1000, 0.1), 4, 6, merged=False) == 6 * machine_words(
        SERVERS, VariableLoad(1000, 0.1), 4)


def test_the_paper_weighs_alpha_by_elements() -> None:
    assert model_alpha([VariableLoad(9_400_000), VariableLoad(813_300_000, 0.0087)]) == pytest.approx(0.02, abs=1e-3)
    assert model_alpha([VariableLoad(10)]) == model_alpha([]) == 1.0


def test_the_way_of_the_fewest_words_is_chosen() -> None:
    assert best_way(VariableLoad(100), 4) == RINGS
    assert best_way(VariableLoad(100, 0.1), 8) == SERVERS
    # Of two machines gathered rows and servers send as much, and all-reduce of rows that all touch as well.
    assert best_way(VariableLoad(100, 0.1), 2) == GATHERED_ROWS
    assert best_way(VariableLoad(100, 1.0), 2) == best_way(VariableLoad(100, 0.5), 4, dense_from=0.5) == RINGS


def test_rows_that_are_gathered_are_not_merged() -> None:
    """Of two machines of two workers servers send half of what gathered rows do, and the choice knows it."""
    machines, share = Machines(((0, 1), (2, 3))), 0.25

    def work(workers: Any, way: str) -> int:
        table, own = np.zeros((64, 4), np.float32), np.arange(16) + 16 * workers.own
        exchange = SynchronousExchange(workers, machines, [TableSettings("t", (64, 4), 2)], [], {"t": way},
                                       {"t": lambda numbers: table[numbers]})
        exchange.pull({"t": own})
        exchange.aggregate([], {"t": (own, table[own])})
        return exchange.sent()["values"]

    predicted = words_of_ways(VariableLoad(256, share), 2, 2)
    for way, words in predicted.items():
        assert sum(in_threads(4, lambda workers, way=way: work(workers, way))) == 2 * words
    assert ways_of([TableSettings("t", (64, 4))], machines, "auto", share) == {"t": SERVERS}
    assert min(predicted, key=lambda way: predicted[way]) == SERVERS


def test_on_one_machine_words_between_workers_decide() -> None:
    """Whatever its network carries, which nothing crosses."""
    table, members = TableSettings("t", (40_000, 16)), ((0, 1, 2, 3),)
    for machines in (Machines(members), Machines(members, rates=NetworkRates(1e9, 1e-3))):
        assert ways_of([table], machines, "auto") == ways_of([table], machines, "auto", 0.001) == {"t": SERVERS}
        assert ways_of([table], machines, "auto", 1.0) == {"t": RINGS}


def test_where_rates_are_known_the_least_time_is_chosen() -> None:
    """Of small tables messages in turn decide, of large ones words; and no way of all tables takes less time."""
    members = ((0,), (1,), (2,), (3,))
    rates = NetworkRates(1e6, 1e-3)
    machines = Machines(members, rates=rates)
    sizes = {"small": (100, 10), "large": (100_000, 100), "often": (100, 30)}
    tables = [TableSettings(name, shape) for name, shape in sizes.items()]
    shares = {"small": 0.1, "large": 0.01, "often": 1.0}
    ways = ways_of(tables, machines, "auto", shares)
    assert ways == {"small": GATHERED_ROWS, "large": SERVERS, "often": SERVERS}
    assert ways_of(tables, Machines(members), "auto", shares) == {"small": SERVERS, "large": SERVERS, "often": RINGS}

    def seconds(chosen: dict[str, str]) -> float:
        return sum(seconds_of_ways(VariableLoad(rows * width, shares[name]), rates, 4)[chosen[name]]
                   for name, (rows, width) in sizes.items())

    assert all(seconds(ways) <= seconds(dict.fromkeys(sizes, way)) for way in (RINGS, GATHERED_ROWS, SERVERS))
    # 2 x 0.1 x 1000 x 3 / 4 words and three messages; a ring's six.
    assert seconds_of_ways(VariableLoad(1000, 0.1), rates, 4) == pytest.approx(
        {RINGS: 0.0015 + 0.006, GATHERED_ROWS: 0.0003 + 0.001, SERVERS: 0.00015 + 0.003})
    line, *_ = reasons(tables, machines, ways, shares)
    assert line == ("small (10.00% of rows touched): gathered, 300 words that a machine sends in a step in 1.3 ms; "
                    "1,500 in 7.5 ms by rings, 150 in 3.15 ms by servers")


def test_a_line_says_why_a_table_goes_its_way() -> None:
    """With the words of each way, by Table 3, for machines of several workers, merged or not."""
    tables = [TableSettings("t", (100, 10)), TableSettings("u", (50, 4))]
    machines = Machines(((0, 1), (2, 3), (4, 5), (6, 7)))
    ways = ways_of(tables, machines, "auto", {"t": 0.1})
    merged, unknown = reasons(tables, machines, ways, {"t": 0.1})
    assert merged == ("t (10.00% of rows touched): servers, at most 300 words that a machine sends in a step; 1,750 by "
                      "rings, 1,200 by gathered")
    assert unknown == "u: servers; give touched for the words of each way"
    each = Machines(machines.members, local=False)
    assert reasons(tables[:1], each, {"t": GATHERED_ROWS}, 0.1) == (
        "t (10.00% of rows touched): gathered, 1,200 words that a machine sends in a step; 1,750 by rings, 300 by "
        "servers",)
    assert reasons(tables[:1], Machines(((0,),)), {"t": RINGS}, 0.1) == (
        "t: rings, as nothing moves between machines",)


def test_tables_may_come_in_another_order_to_each_worker() -> None:
    machines = Machines(((0,), (1,), (2,)))

    def work(workers: Any) -> Any:
        tables = {name: first_table() for name in ("t", "other")}
        settings = [TableSettings(name, (ROWS, WIDTH), 3) for name in tables]
        exchange = SynchronousExchange(workers, machines, settings, [], dict.fromkeys(tables, SERVERS), {
            name: (lambda rows, name=name: tables[name][rows]) for name in tables})
        for step in range(5):
            order = list(tables)[::(-1) ** (step + workers.own)]
            gradients = {name: touched(workers.own, step, name) for name in order}
            # One worker asks for both tables at once, another for one behind the other.
            asked = [order] if (step + workers.own) % 3 == 0 else [[name] for name in order]
            for names in asked:
                pulled = exchange.pull({name: gradients[name][0] for name in names})
                for name, values in pulled.items():
                    np.testing.assert_array_equal(values, tables[name][gradients[name][0]])
            exchange.aggregate([], gradients)
        return exchange.sent()["messages"]

    assert in_threads(3, work) == [5 * 2 * 3 * 2] * 3


def refused(act: Callable[[SynchronousExchange], object]) -> str:
    exchange = SynchronousExchange(Single(), Machines(((0,),)), [TableSettings("t", (ROWS, WIDTH), 2)], [3],
                                   {"t": SERVERS}, {"t": lambda rows: np.zeros((len(rows), WIDTH), np.float32)})
    with pytest.raises(UserError) as error:
        act(exchange)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_cannot_be_is_refused() -> None:
    rows, zeros, nan = np.array([1, 3]), np.zeros((2, WIDTH), np.float32), np.full((2, WIDTH), np.nan, np.float32)
    one = [np.zeros(3, np.float32)]

    def twice(exchange: SynchronousExchange) -> None:
        exchange.pull({"t": rows})
        exchange.pull({"t": rows})

    def other(exchange: SynchronousExchange) -> None:
        exchange.pull({"t": rows})
        exchange.aggregate(one, {"t": (rows + 1, zeros)})

    assert refused(twice) == "table 't' is looked up twice in a step; look up all of its rows at once"
    assert "gradients are of other rows than those that the step has looked up" in refused(other)
    assert "the gradient of table 't' of worker 0 is not finite; give a smaller rate" in refused(
        lambda exchange: exchange.aggregate(one, {"t": (rows, nan)}))
    assert "a dense gradient of worker 0 is not finite" in refused(
        lambda exchange: exchange.aggregate([np.full(3, np.inf, np.float32)], {"t": (rows, zeros)}))


@pytest.mark.parametrize(("ways", "message"), [
    ("server", "copies of table 't' are kept equal by one of auto, rings, gathered, servers, not 'server'"),
    ({"u": RINGS}, "the model has no table 'u'; it has t")])
def test_ways_that_are_none_are_refused(ways: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        ways_of([TableSettings("t", (3, 4))], Machines(((0,), (1,))), ways)
    assert str(error.value) == message


def test_ways_of_tables() -> None:
    """Of a table of which nothing is known few rows are touched; a worker that is alone has it whole."""
    tables = [TableSettings("t", (3, 4)), TableSettings("u", (30, 4)), TableSettings("v", (30, 4))]
    pair = Machines(((0,), (1,)))
    asked, shares = {"v": GATHERED_ROWS}, {"u": 0.9}
    assert ways_of(tables, pair, asked, shares) == {"t": SERVERS, "u": GATHERED_ROWS, "v": GATHERED_ROWS}
    assert ways_of(tables, pair, AUTO_COPIES, shares, 0.9) == {"t": SERVERS, "u": RINGS, "v": SERVERS}
    assert set(ways_of(tables, Machines(((0,), (1,), (2,))), AUTO_COPIES, 0.9).values()) == {SERVERS}
    assert set(ways_of(tables, Machines(((0,),)), AUTO_COPIES).values()) == {RINGS}
    with pytest.raises(UserError, match="the model has no table 'w'; it has t, u, v"):
        ways_of(tables, pair, AUTO_COPIES, {"w": 0.1})
