"""Which reductions go at once, by which blocks, and when all dies meet."""

import random
from collections import Counter

import pytest

from plinth.array.array import Array, full, ring, torus
from plinth.network.network import perceptron
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.partition.rounds import ring_links
from plinth.plan.planning import given_plan
from plinth.predict.time import StepTime
from plinth.sharding import Sharding
from plinth.simulate.step import simulated
from plinth.step.between import Barrier, Reduce, Regroup
from plinth.step.build import step_of
from plinth.step.tasks import GroupRow, Reduction, Task
from plinth_hw.isa.parameters import preset
from plinth_sim.array.machine import EngineTask as DieTask

PARAMETERS = preset("ndp-demo")


@pytest.mark.parametrize("array", [ring(4), ring(8), torus(2, 4), torus(4, 4), ring(6)], ids=lambda array: array.name)
def test_a_class_never_has_words_of_two_members_on_a_link(array: Array) -> None:
    """Between two meetings of all dies, each block's messages go over any link from one member only."""
    rng, met, several = random.Random(array.name), 0, 0
    graph = from_network(NETWORKS["lenet-c"])
    for _ in range(12):
        splits = tuple(tuple(rng.choice(graph.choices(number)) for _ in array.factors)
                       for number in range(len(graph.nodes)))
        step = step_of(Sharding(graph=graph, splits=splits, batch=64, factors=array.factors, array=array), PARAMETERS)
        users: dict[tuple[int, int], set[tuple[int, ...]]] = {}
        asked: dict[tuple[str, int], int] = {}
        for operation in step.operations:
            if isinstance(operation, Barrier):
                met += 1
                users = {}
            if not isinstance(operation, Reduce):
                continue
            several += operation.going is not None
            links = ring_links(array, operation.rings)
            for number, members in enumerate(operation.rings.members):
                message = operation.messages[number]
                if message is None or operation.rings.size == 1:
                    continue
                for link in links[number]:
                    users.setdefault((message % PARAMETERS.reduce_blocks, link), set()).add(members)
            assert all(len(some) == 1 for some in users.values())
            for die in range(step.dies):
                for task in operation.tasks(die):
                    assert isinstance(task, Task) and isinstance(task.work, Reduction)
                    assert task.work.ring == operation.rings.of(die)
                    asked[operation.name, die] = asked.get((operation.name, die), 0) + 1
        # Every die sums, or updates, each piece of what it has of each layer once.
        assert set(asked.values()) == {1}
        for number in graph.weighted:
            node = graph.nodes[number]
            has = {die for die in range(step.dies) if step.weights[node.name].slice(die).words}
            assert {die for name, die in asked if name.split(".")[0] == node.name} == has
    assert met
    # On the others no more rounds than blocks.
    assert bool(several) == (array.name == "ring-8")


def test_rings_that_do_not_meet_go_as_one_reduction() -> None:
    array = ring(4)
    graph = from_network(NETWORKS["lenet-c"])
    step = step_of(Sharding(graph=graph, splits=(("dp", "dp"),) * len(graph.nodes), batch=64, factors=array.factors,
                            array=array), PARAMETERS)
    assert not any(isinstance(operation, Barrier) for operation in step.operations)
    assert all(operation.going is None for operation in step.operations if isinstance(operation, Reduce))


def test_the_prediction_waits_for_the_rings_whose_turn_is_first() -> None:
    """Four rings of two, two blocks: dies 2 and 3 are not as dies 0 and 1, and add after them."""
    graph, array = from_network(perceptron("even", (64, 256, 256, 64))), ring(8)
    splits = (("dp", "mp", "mp"),) * len(graph.nodes)
    time = StepTime(graph, 64, array)
    step = time.schedule.built(splits)
    assert [operation.going for operation in step.operations if isinstance(operation, Reduce)][:2] == [(0, 1), (2, 3)]
    assert [list(dies) for dies in step.classes()] == [[2, 3, 6, 7], [0, 1, 4, 5]]
    alone = StepTime(graph, 64, full(8)).schedule.step(splits)
    predicted = time.schedule.step(splits)
    assert predicted.collective > alone.collective and predicted.cycles > alone.cycles


@pytest.mark.parametrize("rows", [1, 2, 3, 16])
def test_rows_of_the_group_table_have_the_rings_whose_messages_come(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings take turns in the last row where there are more than rows: it is given to one right before its message,
    unless that has it."""
    array, graph = ring(8), from_network(perceptron("deep", (8,) * 9))
    vectors = (("dp", "mp", "mp"), ("dp", "dp", "mp"), ("dp", "dp", "mp"), ("dp", "mp", "dp"), ("dp", "dp", "dp"))
    splits = tuple(vectors[number % 5] if number < 8 else ("dp",) * 3 for number in range(len(graph.nodes)))
    monkeypatch.setattr("plinth.step.step.GROUPS", rows)
    plan = given_plan(graph, array, splits, 64)
    step = step_of(plan.sharding, PARAMETERS)
    assert len(step.groups) == 4 and any(isinstance(operation, Reduce) and operation.going
                                         for operation in step.operations)
    row_writes = 0
    for die in range(step.dies):
        table: dict[int, tuple[int, ...]] = {row: step.groups[row].of(die) for row in range(step.fixed_groups)}
        works = [getattr(item, "work", None) for item in step.tasks(die)]
        for work, after in zip(works, [*works[1:], None], strict=True):
            if isinstance(work, GroupRow):
                assert work.row == step.fixed_groups == rows - 1 and table.get(work.row) != work.ring
                assert isinstance(after, Reduction) and (after.row, after.ring) == (work.row, work.ring)
                table[work.row] = work.ring
                row_writes += 1
            elif isinstance(work, Reduction):
                assert table[work.row] == work.ring
    assert bool(row_writes) == (rows < 4)
    # Dies of a class have them at the same operations; in groups of tasks the simulator asks one die of each class.
    for operation in (operation for operation in step.operations if isinstance(operation, Reduce | Regroup)):
        for dies in step.classes():
            assert len({len(list(operation.tasks(int(die)))) for die in dies}) == 1, operation
    own = [sum(isinstance(getattr(item, "work", None), GroupRow) for item in step.tasks(die)) for die in range(8)]
    in_groups = Counter(activity.die for activity in simulated(plan, array, most_tasks=0).work.activities
                        if isinstance(activity, DieTask) and activity.name.startswith("set_group"))
    assert [in_groups[die] for die in range(8)] == own
    # Predictions and the simulator have them; they end in the order of the engine's tasks.
    cycles = StepTime(graph, 64, array).cycles(splits)
    ends = [activity for activity in simulated(plan, array).work.activities
            if activity.name.startswith("set_group") and "@" in activity.name
            and activity.signals and activity.signals[0].endswith("done")]
    assert len(ends) == row_writes
    assert sum(any(wait.counter == activity.signals[0] for wait in activity.waits)
               for activity in ends) >= row_writes - step.dies
    monkeypatch.setattr("plinth.step.step.GROUPS", 16)
    assert StepTime(graph, 64, array).cycles(splits) <= cycles
