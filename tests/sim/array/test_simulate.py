"""Array simulator: engines, waits, sharing of links and memories by hand and against small time steps."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest

from plinth_sim.array.energy import Counts, Energy
from plinth_sim.array.machine import EngineTask, Flow, SimulatedArray, SimulatedDie, SimulatedLink, Wait
from plinth_sim.array.sharing import share
from plinth_sim.array.simulate import SimulatedRun, simulate
from plinth_sim.array.trace import write


def machine(dies: int = 1, rates: tuple[float, ...] = (), *, memory: float = 100.0, vaults: int = 1,
            speeds: tuple[float, ...] = ()) -> SimulatedArray:
    return SimulatedArray(
        dies=tuple(SimulatedDie(words_per_second=memory, vaults=vaults, speed=speeds[die] if speeds else 1.0)
                   for die in range(dies)),
        links=tuple(SimulatedLink(name=f"link {number}", words_per_second=rate) for number, rate in enumerate(rates)))


def flow(name: str, words: dict[int, float], **more: object) -> Flow:
    return Flow(name=name, links=np.array(list(words), dtype=np.int64), words=np.array(list(words.values()), float),
                **more)  # type: ignore[arg-type]


def task(name: str, seconds: float, die: int = 0, engine: str = "matrix", after: tuple[str, ...] = (),
         **more: object) -> EngineTask:
    return EngineTask(name=name, die=die, engine=engine, seconds=seconds, waits=tuple(map(Wait, after)),
                      **more)  # type: ignore[arg-type]


def done(result: SimulatedRun) -> list[float]:
    return [round(float(value), 9) for value in result.dones]


def test_one_task_takes_its_time() -> None:
    result = simulate(machine(), [task("a", 2.0, latency=0.5)])
    assert result.seconds == 2.5 and result.ends[0] == 2.0
    assert result.engines[0, "matrix"].busy == 2.0 and result.engines[0, "matrix"].idle == 0.5


def test_nothing_takes_no_time() -> None:
    assert simulate(machine(), []).seconds == 0
    assert simulate(machine(), [task("a", 0.0), task("b", 0.0)]).seconds == 0


def test_an_engine_works_in_order_and_latencies_overlap() -> None:
    # b could start at once, but stands behind a, which waits for c.
    tasks = [task("a", 1.0, after=("c",)), task("b", 1.0, latency=1.0), task("c", 3.0, engine="vector")]
    result = simulate(machine(), tasks)
    assert done(result) == [4.0, 6.0, 3.0]
    time = result.engines[0, "matrix"]
    assert (time.busy, time.waiting, time.idle) == (2.0, 3.0, 1.0)
    for spent in result.engines.values():
        assert spent.busy + spent.shared + spent.waiting + spent.idle == pytest.approx(result.seconds)


def test_tasks_in_a_row_overlap_by_their_latency() -> None:
    result = simulate(machine(), [task(str(number), 2.0, latency=5.0) for number in range(10)])
    assert result.seconds == 10 * 2.0 + 5.0


def test_a_counter_lets_go_at_its_count() -> None:
    tasks = [task(f"part {number}", 1.0 + number, die=number, signals=("parts",)) for number in range(4)]
    tasks += [EngineTask(name=f"after {count}", die=4 + count, engine="vector", seconds=0.5,
                         waits=(Wait("parts", count, 0.25),)) for count in range(5)]
    assert done(simulate(machine(9), tasks))[4:] == [0.75, 1.75, 2.75, 3.75, 4.75]


def test_a_fetch_unit_is_an_engine() -> None:
    """Descriptors every 0.5 s, at most two ahead of the completion of the engine's tasks."""
    tasks: list[EngineTask] = []
    for number in range(5):
        waits = (Wait(f"task {number - 2}"),) if number >= 2 else ()
        tasks.append(EngineTask(name=f"fetch {number}", die=0, engine="fetch", seconds=0.5, waits=waits))
        tasks.append(task(f"task {number}", 1.0, after=(f"fetch {number}",)))
    dones = dict(zip((task.name for task in tasks), done(simulate(machine(), tasks)), strict=True))
    # Fetched at .5 and 1; task 0 ends at 1.5, so 2 is fetched at 2 and runs when 1 has ended, at 2.5.
    assert [dones[f"fetch {number}"] for number in range(5)] == [0.5, 1.0, 2.0, 3.0, 4.0]
    assert [dones[f"task {number}"] for number in range(5)] == [1.5, 2.5, 3.5, 4.5, 5.5]


def test_two_messages_share_a_link() -> None:
    # 10 and 30 words at 10 a second: half each until 2 s, then the second alone with 20 left.
    result = simulate(machine(rates=(10.0,)), [flow("a", {0: 10}), flow("b", {0: 30}, latency=1.0)])
    assert done(result) == [2.0, 5.0]
    assert result.link_words.tolist() == [40.0]


def test_sharing_is_max_min_fair_over_several_links() -> None:
    # Link 0 carries a, b, c: 3 each. Of link 1 b has 3, so d has 17; c is alone on link 2.
    flows = [flow("a", {0: 9}), flow("b", {0: 9, 1: 9}), flow("c", {0: 9, 2: 9}), flow("d", {1: 17})]
    result = simulate(machine(rates=(9.0, 20.0, 100.0)), flows)
    assert done(result) == [3.0, 3.0, 3.0, 1.0]


@pytest.mark.parametrize(("together", "ends"), [(0.0, [3.0, 3.0, 4.0]), (2.0, [4.0, 4.0, 4.0])])
def test_flows_that_go_together_share_as_one(together, ends) -> None:
    # Of link 0 three flows have a third each, or two of them half.
    flows = [*(flow(name, {0: 1}, together=together) for name in "ab"), flow("c", {0: 2})]
    assert done(simulate(machine(rates=(1.0,)), flows)) == ends


def test_a_message_that_comes_later_slows_the_first_down() -> None:
    flows = [flow("a", {0: 20}), flow("b", {0: 5}, waits=(Wait("start"),)), task("start", 1.0)]
    # a alone for 1 s, both at half until b has gone at 2 s, a again alone with 5 left.
    assert done(simulate(machine(rates=(10.0,)), flows)) == [2.5, 2.0, 1.0]


def test_words_on_many_links_go_at_the_pace_of_the_fullest() -> None:
    flows = [flow("ring", {0: 10, 1: 10, 2: 10}), flow("b", {1: 10})]
    result = simulate(machine(rates=(10.0, 10.0, 5.0)), flows)
    # The ring alone is bound by link 2 at 5 words a second, which leaves b half of link 1.
    assert done(result) == [2.0, 2.0]


def test_engines_share_memory() -> None:
    # 60 and 60 words a second wanted of 100: 50 each. Of 20 and 90: 20, and 80 are left.
    both = [task("a", 1.0, words=60.0), task("b", 1.0, engine="vector", words=60.0)]
    assert done(simulate(machine(), both)) == [1.2, 1.2]
    uneven = [task("a", 1.0, words=20.0), task("b", 1.0, engine="vector", words=90.0)]
    result = simulate(machine(), uneven)
    assert done(result) == [1.0, round(1 + 10 / 90, 9)]
    assert result.engines[0, "vector"].shared == pytest.approx(1 / 9) and result.engines[0, "matrix"].shared == 0


def test_memory_bounds_a_task_alone() -> None:
    assert simulate(machine(), [task("a", 1.0, words=250.0)]).seconds == 2.5


def test_a_hot_vault_limits() -> None:
    spread, hot = task("a", 1.0, words=80.0), task("a", 1.0, vaults={2: 80.0})
    assert simulate(machine(vaults=4), [spread]).seconds == 1.0
    assert simulate(machine(vaults=4), [hot]).seconds == pytest.approx(80 / 25)
    # Another task's even share of that vault: 20 words at 25 a second beside the hot one.
    both = simulate(machine(vaults=4), [hot, task("b", 1.0, engine="vector", words=80.0)])
    assert both.seconds == pytest.approx(100 / 25)


def test_a_flow_meets_the_memories_at_its_ends() -> None:
    result = simulate(machine(2, (10.0,)), [
        flow("a", {0: 20}, dies=np.array([0, 1]), die_words=np.array([20.0, 20.0])),
        task("b", 1.0, die=1, words=95.0)])
    # 10 words a second of the flow and 95 of the task want 105 of 100.
    assert done(result) == [2.0, round(95 / 90, 9)]
    assert result.memory_words.tolist() == [20.0, 115.0]


def test_a_flow_may_hold_an_engine() -> None:
    flows = [flow("a", {0: 10}, latency=3.0, die=0, engine="transfer"), flow("b", {1: 10}, die=0, engine="transfer")]
    result = simulate(machine(rates=(10.0, 10.0)), flows)
    assert done(result) == [4.0, 2.0] and result.starts.tolist() == [0.0, 1.0]


def test_a_straggler_takes_longer_and_others_wait() -> None:
    tasks = [task("a", 1.0, die=0), task("b", 1.0, die=1), task("join", 1.0, die=0, after=("a", "b"))]
    result = simulate(machine(2, speeds=(1.0, 0.25)), tasks)
    assert result.seconds == 5.0
    assert result.engines[0, "matrix"].waiting == 3.0 and result.engines[1, "matrix"].idle == 1.0


@pytest.mark.parametrize("dies", [2, 4, 8, 16])
def test_ring_all_reduce_takes_its_closed_form(dies: int) -> None:
    """Step by step, message by message: 2 (N - 1) steps of 1/N of the words, and a latency each."""
    words, rate, latency = 960.0, 10.0, 0.125
    flows = []
    for step in range(2 * (dies - 1)):
        for die in range(dies):
            waits = (Wait(f"{step - 1}.{(die - 1) % dies}"),) if step else ()
            flows.append(flow(f"{step}.{die}", {die: words / dies}, latency=latency, waits=waits))
    closed = 2 * (dies - 1) * (words / dies / rate + latency)
    assert simulate(machine(dies, (rate,) * dies), flows).seconds == pytest.approx(closed)
    whole = flow("ring", dict.fromkeys(range(dies), 2 * (dies - 1) * words / dies), latency=2 * (dies - 1) * latency)
    assert simulate(machine(dies, (rate,) * dies), [whole]).seconds == pytest.approx(closed)


@pytest.mark.parametrize("doubling", [True, False])
def test_contention_on_a_tree_takes_its_closed_form(doubling: bool) -> None:
    """Every die of the lower half of an H-tree of 8 sends to its partner in the upper half: with links that double
    towards the root all levels are full, without them the root link carries four messages."""
    rate, words = 2.0, 10.0
    rates = [rate, *(2 * rate if doubling else rate,) * 2, rate * (4 if doubling else 1)]
    links = [rates[0]] * 4 + [rates[1]] * 2 + [rates[3]]
    flows = [flow(f"{die}", {die: words, 4 + die // 2: words, 6: words}) for die in range(4)]
    assert simulate(machine(8, tuple(links)), flows).seconds == pytest.approx(words / rate * (1 if doubling else 4))


def stepped(limits: list[float], words: list[dict[int, float]], starts: list[float], capacities: list[float],
            step: float) -> list[float]:
    """Ends of activities by small steps of time, shared by bisection instead of filling."""
    left, ends, now = [1.0] * len(limits), [0.0] * len(limits), 0.0
    weights = [max(load_of.values()) for load_of in words]
    while any(share > 0 for share in left):
        active = [flow for flow in range(len(limits)) if left[flow] > 0 and starts[flow] <= now]
        paces = dict.fromkeys(active, 0.0)
        open_ = set(active)
        while open_:
            low, high = 0.0, max(limits[flow] * weights[flow] for flow in open_)

            def fits(level: float, open_=open_, paces=paces) -> bool:
                rates = {flow: min(limits[flow], level / weights[flow]) if flow in open_ else paces[flow]
                         for flow in paces}
                return all(sum(rates[flow] * words[flow].get(resource, 0.0) for flow in rates) <= capacity * (1 + 1e-12)
                           for resource, capacity in enumerate(capacities))

            if fits(high):
                paces.update({flow: limits[flow] for flow in open_})
                break
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (middle, high) if fits(middle) else (low, middle)
            paces.update({flow: min(limits[flow], low / weights[flow]) for flow in open_})
            used = [sum(paces[flow] * words[flow].get(resource, 0.0) for flow in paces)
                    for resource in range(len(capacities))]
            open_ = {flow for flow in open_ if paces[flow] < limits[flow] * (1 - 1e-9) and not any(
                used[resource] > capacities[resource] * (1 - 1e-9) for resource in words[flow])}
        now += step
        for flow, pace in paces.items():
            left[flow] -= pace * step
            if left[flow] <= 1e-9:
                left[flow], ends[flow] = 0.0, now
    return ends


@pytest.mark.parametrize("seed", range(4))
def test_random_flows_end_as_small_steps_of_time_say(seed: int) -> None:
    rng = random.Random(seed)
    rates = [rng.uniform(5, 20) for _ in range(4)]
    flows, starts = [], []
    for number in range(6):
        links = rng.sample(range(4), rng.randint(1, 3))
        starts.append(rng.choice((0.0, 0.5, 1.0)))
        flows.append(flow(f"{number}", {link: rng.uniform(2, 12) for link in links}, seconds=rng.choice((0.0, 1.5)),
                          waits=(Wait("go", 1, starts[-1]),)))
    result = simulate(machine(rates=tuple(rates)), [*flows, task("go", 0.0)])
    words = [dict(zip(flow.links.tolist(), flow.words.tolist(), strict=True)) for flow in flows]
    limits = [1 / max(flow.seconds, *(load / rates[link] for link, load in load_of.items()))
              for flow, load_of in zip(flows, words, strict=True)]
    step = 1 / 256
    expected = stepped(limits, words, starts, rates, step)
    assert np.allclose(result.ends[:-1], expected, atol=8 * step)
    # Words are conserved, and no link carries more than it can.
    assert np.allclose(result.link_words, [sum(load_of.get(link, 0.0) for load_of in words) for link in range(4)])
    assert (result.link_words <= np.array(rates) * result.seconds * (1 + 1e-9)).all()


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_feasible_and_max_min(seed: int) -> None:
    """Nobody's rate can be raised without lowering one that is not higher: each has a full resource on which it has
    the highest rate, or its limit."""
    rng = random.Random(seed)
    count, resources = rng.randint(1, 12), rng.randint(1, 6)
    words = [{resource: rng.uniform(0.1, 9) for resource in rng.sample(range(resources), rng.randint(1, resources))}
             for _ in range(count)]
    capacities = [rng.uniform(1, 9) for _ in range(resources)]
    limits = [rng.uniform(0.1, 2) for _ in range(count)]
    weights = [max(load_of.values()) for load_of in words]
    loads = [{flow: words[flow][resource] for flow in range(count) if resource in words[flow]}
             for resource in range(resources)]
    paces = share(limits, weights, loads, capacities)
    used = [sum(paces[flow] * load for flow, load in users.items()) for users in loads]
    assert all(total <= capacity * (1 + 1e-9) for total, capacity in zip(used, capacities, strict=True))
    for flow in range(count):
        rate = paces[flow] * weights[flow]
        assert paces[flow] == pytest.approx(limits[flow]) or any(
            used[resource] > capacities[resource] * (1 - 1e-9)
            and all(paces[other] * weights[other] <= rate * (1 + 1e-9) for other in loads[resource])
            for resource in words[flow])


def graph(seed: int, dies: int = 4, count: int = 200) -> tuple[SimulatedArray, list[EngineTask | Flow]]:
    rng = random.Random(seed)
    tasks: list[EngineTask | Flow] = []
    for number in range(count):
        waits = tuple(Wait(f"{other}") for other in rng.sample(range(number), min(number, rng.randint(0, 2))))
        if rng.random() < 0.3:
            links = rng.sample(range(6), 2)
            tasks.append(flow(f"{number}", {link: rng.uniform(1, 9) for link in links}, waits=waits, latency=0.01,
                              dies=np.array([rng.randrange(dies)]), die_words=np.array([rng.uniform(1, 9)])))
        else:
            tasks.append(EngineTask(name=f"{number}", die=rng.randrange(dies), engine=rng.choice(("matrix", "vector")),
                                    seconds=rng.uniform(0.1, 1), words=rng.uniform(0, 90), waits=waits, latency=0.1))
    return machine(dies, (9.0,) * 6, speeds=(1.0, 0.9, 1.0, 0.5)), tasks


@pytest.mark.parametrize("seed", range(4))
def test_the_same_input_gives_the_same_result(seed: int) -> None:
    first, second = (simulate(*graph(seed)) for _ in range(2))
    assert first.dones.tobytes() == second.dones.tobytes() and first.engines == second.engines


@pytest.mark.parametrize("seed", range(4))
def test_a_random_graph_keeps_its_order_and_its_seconds(seed: int) -> None:
    array, tasks = graph(seed)
    result = simulate(array, tasks)
    names = {task.name: number for number, task in enumerate(tasks)}
    for number, task in enumerate(tasks):
        for wait in task.waits:
            assert result.starts[number] >= result.dones[names[wait.counter]] - 1e-9
        assert result.ends[number] <= result.dones[number] <= result.seconds
    for (die, engine), time in result.engines.items():
        assert time.busy + time.shared + time.waiting + time.idle == pytest.approx(result.seconds)
        mine = [number for number, task in enumerate(tasks) if task.die == die and task.engine == engine]
        assert all(result.starts[second] >= result.ends[first] - 1e-9
                   for first, second in pairwise(mine))


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    simulate(machine(), [task(f"{number}", 1.0) for number in range(10_000)], lambda *now: told.append(now))
    assert told and told == sorted(told) and told[-1][0] <= told[-1][1] == 10_000


def test_a_cycle_is_named() -> None:
    tasks = [task("a", 1.0, engine="x", after=("b",)), task("b", 1.0, engine="y", after=("c",)),
             task("c", 1.0, engine="z", after=("a",)), task("fine", 1.0)]
    with pytest.raises(ValueError, match=r"cycle: 'a' waits for 'b' waits for 'c' waits for 'a'"):
        simulate(machine(), tasks)


def test_a_cycle_through_an_engines_order_is_named() -> None:
    tasks = [task("first", 1.0, after=("second",)), task("second", 1.0), task("fine", 1.0, engine="vector")]
    with pytest.raises(ValueError, match=r"cycle: 'first' waits for 'second' waits for 'first'"):
        simulate(machine(), tasks)


@pytest.mark.parametrize(("tasks", "needle"), [
    ([task("a", 1.0), task("a", 1.0)], "two tasks are called 'a'"),
    ([task("a", 1.0, die=3)], "'a' is for die 3; dies are 0 to 0"),
    ([task("a", -1.0)], "'a': seconds"),
    ([task("a", float("nan"))], "'a': seconds"),
    ([task("a", 1.0, words=float("inf"))], "'a': seconds"),
    ([task("a", 1.0, vaults={4: 1.0})], "vault 4 of die 0, which has 1"),
    ([flow("a", {7: 1.0})], "'a' names a link that does not exist"),
    ([flow("a", {0: -1.0})], "'a': seconds"),
    ([Flow(name="a", links=np.array([0, 0]), words=np.ones(2))], "'a' names a link twice"),
    ([Flow(name="a", links=np.array([0]), words=np.ones(2))], "names 1 links, but words for 2"),
    ([task("a", 1.0, after=("b",))], "'a' waits for 1 of 'b', which is raised 0 times"),
    ([EngineTask(name="a", die=0, engine="x", seconds=1.0, waits=(Wait("b", 1, -1.0),))], "waits -1.0 seconds"),
])
def test_bad_input_is_named(tasks, needle) -> None:
    with pytest.raises(ValueError, match=needle):
        simulate(machine(rates=(1.0,)), tasks)


@pytest.mark.parametrize(("make", "needle"), [
    (lambda: SimulatedDie(words_per_second=0), "words_per_second"),
                                              (lambda: SimulatedDie(words_per_second=1, speed=-1), "speed"),
    (lambda: SimulatedLink(name="up", words_per_second=-2), "link 'up'"),
])
def test_a_bad_machine_is_refused(make, needle) -> None:
    with pytest.raises(ValueError, match=needle):
        make()


def test_energy_is_counted() -> None:
    tasks = [task("a", 1.0, words=10.0, adds=3.0, multiplies=5.0, sram_words=7.0),
             flow("b", {0: 4.0, 1: 4.0}, dies=np.array([0]), die_words=np.array([4.0]), adds=2.0)]
    counts = simulate(machine(rates=(1.0, 1.0)), tasks).counts
    assert counts == Counts(adds=5.0, multiplies=5.0, sram_words=7.0, dram_words=14.0, link_words=8.0)
    joules = counts.joules(Energy())
    assert joules == pytest.approx({"add": 4.5e-12, "multiply": 18.5e-12, "sram": 35e-12, "dram": 8960e-12,
                                    "link": 8 * 32 * 6.78e-12})


def test_the_trace_has_a_track_an_engine_and_a_link(tmp_path) -> None:
    tasks = [task("a", 1.0), task("b", 2.0, die=1, engine="vector"), flow("x", {0: 10}), flow("y", {0: 30})]
    array = machine(2, (10.0, 1.0))
    path = tmp_path / "trace.json"
    with path.open("w") as file:
        count = write(file, array, tasks, simulate(array, tasks))
    data = json.loads(path.read_text())["traceEvents"]
    assert len(data) == count
    names = [event["args"]["name"] for event in data if event["ph"] == "M"]
    assert names == ["die 0", "die 1", "matrix", "vector", "links", "link 0"]
    spans = {(event["pid"], event["name"]): (event["ts"], event["dur"]) for event in data if event["ph"] == "X"}
    assert spans == {(0, "a"): (0, 1e6), (1, "b"): (0, 2e6), (2, "x + y"): (0, 2e6), (2, "y"): (2e6, 2e6)}
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in data:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans_ in tracks.values():
        assert all(earlier[1] <= later[0] + 1e-6 for earlier, later in pairwise(sorted(spans_)))


@pytest.mark.parametrize(("queue", "end"), [(False, 1.0), (True, 2.0)])
def test_a_queue_holds_up_what_stands_behind_a_message_that_waits(queue: bool, end: float) -> None:
    """Two messages over one ample link; the first goes on over a link that it has to share."""
    links = SimulatedLink(name="ample", words_per_second=1000, queue=queue), SimulatedLink(name="full",
                                                                                           words_per_second=100)
    flows = [flow("held", {0: 100, 1: 100}, seconds=1.0), flow("free", {0: 100}, seconds=1.0),
             flow("rival", {1: 100}, seconds=1.0)]
    assert done(simulate(SimulatedArray(dies=(), links=links), flows)) == [2.0, end, 2.0]


def test_a_queue_behind_what_holds_up_does_not_matter() -> None:
    links = SimulatedLink(name="full", words_per_second=100), SimulatedLink(name="ample", words_per_second=1000,
                                                                            queue=True)
    flows = [flow("held", {0: 100, 1: 100}, seconds=1.0), flow("free", {1: 100}, seconds=1.0),
             flow("rival", {0: 100}, seconds=1.0)]
    assert done(simulate(SimulatedArray(dies=(), links=links), flows)) == [2.0, 1.0, 2.0]


def test_queues_hold_each_other_up() -> None:
    """All stand behind the first."""
    links = [SimulatedLink(name=f"{number}", words_per_second=1000, queue=True) for number in range(2)]
    links.append(SimulatedLink(name="full", words_per_second=100))
    flows = [flow("first", {0: 100, 1: 100, 2: 100}, seconds=1.0), flow("second", {0: 100, 1: 100}, seconds=1.0),
             flow("third", {0: 100}, seconds=1.0), flow("rival", {2: 100}, seconds=1.0)]
    assert done(simulate(SimulatedArray(dies=(), links=tuple(links)), flows)) == [2.0, 2.0, 2.0, 2.0]


def test_who_enters_a_queue_waits_for_those_who_are_on_their_way_and_fill_what_is_next() -> None:
    links = [SimulatedLink(name=f"{number}", words_per_second=1000, queue=True) for number in range(2)]
    links.append(SimulatedLink(name="end", words_per_second=100))
    flows = [flow("on its way", {0: 100, 1: 100, 2: 100}, seconds=1.0), flow("enters", {1: 100, 2: 100}, seconds=1.0)]
    assert done(simulate(SimulatedArray(dies=(), links=tuple(links)), flows)) == [1.0, 2.0]


def test_who_enters_a_queue_that_does_not_fill_up_shares_the_link() -> None:
    """What is behind the link takes all that comes: packets of both take turns."""
    links = [SimulatedLink(name=f"{number}", words_per_second=1000, queue=True) for number in range(2)]
    links += [SimulatedLink(name="link", words_per_second=100), SimulatedLink(name="end", words_per_second=1000)]
    flows = [flow("on its way", {0: 100, 2: 100, 1: 100, 3: 100}, seconds=1.0),
             flow("enters", {2: 100, 1: 100, 3: 100}, seconds=1.0)]
    assert done(simulate(SimulatedArray(dies=(), links=tuple(links)), flows)) == [2.0, 2.0]


def test_messages_that_enter_before_each_other_share() -> None:
    links = [SimulatedLink(name=f"{number}", words_per_second=1000, queue=True) for number in range(2)]
    links.append(SimulatedLink(name="end", words_per_second=100))
    flows = [flow("one", {0: 100, 1: 100, 2: 100}, seconds=1.0), flow("two", {1: 100, 0: 100, 2: 100}, seconds=1.0)]
    assert done(simulate(SimulatedArray(dies=(), links=tuple(links)), flows)) == [2.0, 2.0]


def test_what_goes_through_no_queue_goes_before_nobody() -> None:
    """A reduction on the link where two tiles enter before each other: all three share it."""
    links = [SimulatedLink(name=f"{number}", words_per_second=1000, queue=True) for number in range(2)]
    links.append(SimulatedLink(name="end", words_per_second=100))
    flows = [flow("one", {0: 100, 1: 100, 2: 100}, seconds=1.0), flow("two", {1: 100, 0: 100, 2: 100}, seconds=1.0),
             flow("ring", {2: 300}, seconds=1.0)]
    assert done(simulate(SimulatedArray(dies=(), links=tuple(links)), flows)) == pytest.approx([3.0, 3.0, 5.0])


def served(rates: tuple[float, ...], turns: int) -> SimulatedArray:
    """Links, the first of which serve requests in turn."""
    return SimulatedArray(dies=(SimulatedDie(words_per_second=100.0),), links=tuple(
        SimulatedLink(name=f"link {number}", words_per_second=rate, turns=number < turns)
        for number, rate in enumerate(rates)))


def test_what_is_served_in_turn_shares_by_turns() -> None:
    flows = [flow("long", {0: 9.0}, turn=3.0), flow("short", {0: 9.0})]
    # Three quarters of the link and one: the second has 6 words left when the first is done.
    assert done(simulate(served((1.0,), 1), flows)) == [12.0, 18.0]
    # Elsewhere turns do not count.
    assert done(simulate(served((1.0,), 0), flows)) == [18.0, 18.0]


def test_who_wants_less_than_its_turns_leaves_the_rest() -> None:
    flows = [flow("slow", {0: 5.0}, turn=3.0, seconds=10.0), flow("quick", {0: 10.0})]
    assert done(simulate(served((1.0,), 1), flows)) == [10.0, 15.0]


def test_exposed_words_take_longer_where_others_have_their_share() -> None:
    # Alone 10 seconds, of which 5 are words that come a word a second; by turns it gets half of that.
    one = flow("product", {0: 5.0}, seconds=10.0, exposed=5.0)
    assert done(simulate(served((1.0,), 1), [one])) == [10.0]
    result = simulate(served((1.0,), 1), [one, flow("other", {0: 100.0})])
    assert done(result) == [15.0, 105.0]
    # Where nothing is exposed it hides behind the rest.
    hidden = flow("product", {0: 5.0}, seconds=10.0)
    assert done(simulate(served((1.0,), 1), [hidden, flow("other", {0: 100.0})])) == [10.0, 105.0]


def test_what_goes_on_takes_its_turns_before_what_stays() -> None:
    """A message reads memory by turns, however few words it has on its links; what stays gets the rest."""
    away, stays = flow("away", {0: 8.0, 1: 2.0}), flow("stays", {0: 8.0}, turn=3.0)
    # A quarter of the memory until the other is done: 8 words at 3/4, then 16/3 alone.
    assert done(simulate(served((1.0, 1.0), 1), [away, stays])) == [16.0, pytest.approx(32 / 3)]
    # Held up by another message on its link, where both have a rate of 0.16, it leaves the rest.
    other = flow("other", {1: 98.0})
    result = simulate(served((1.0, 0.2), 1), [away, stays, other])
    assert result.dones[1] == pytest.approx(8 / 0.84)
    assert result.link_words.tolist() == [16.0, 100.0]
