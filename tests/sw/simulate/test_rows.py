"""What a step spends on each layer in each direction: rows add up to what is told of the whole step."""

from fractions import Fraction
from io import StringIO

import pytest
from rich.console import Console

import plinth
from plinth.array.array import ARRAYS, Array, ring
from plinth.network.layers import Add, Affine, Dense, Embedding, Relu, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planners.mpt import grouped
from plinth.plan.planning import given_plan
from plinth.report.simulation import LAYER_WORK, layer_work_rows, show_simulation, simulation_report
from plinth.simulate import step
from plinth.simulate.costs import DieCosts
from plinth.simulate.phases import layer as layer_of
from plinth.simulate.rows import LayerRow, layer_rows
from plinth.simulate.step import Simulated, simulated
from plinth.step.build import step_of
from plinth.step.layers.products import Products
from plinth.step.tasks import DIRECTIONS, Arrivals
from plinth.update.rule import FORMS
from plinth_sim.array.machine import Flow


def planned(name: str, array: Array, planner: str, batch: int = 16, rule: str = "sgd") -> Plan:
    return step.planned(NETWORKS[name], array, planner=planner, model="exact", batch=batch, rule=FORMS[rule])[0]


def tiled(network: Network, preset: str, level: int) -> Plan:
    array = ring(4, preset=preset)
    graph = from_network(network)
    return given_plan(graph, array, grouped(graph, array, level), 8)


#: Task by task and in groups; every kind of operation.
STEPS = {
    "data": lambda: simulated(planned("digits-mlp", ring(4), "data"), ring(4)),
    "model": lambda: simulated(planned("digits-cnn", ring(3), "model"), ring(3)),
    "alone": lambda: simulated(planned("digits-cnn", ring(1), "data"), ring(1)),
    "momentum": lambda: simulated(planned("digits-mlp", ring(2), "data", rule="momentum"), ring(2)),
    "optimiser": lambda: simulated(planned("digits-mlp", ring(2, preset="fpga-demo"), "data", rule="adagrad wide"),
                                   ring(2, preset="fpga-demo")),
    "slow": lambda: simulated(planned("digits-mlp", ring(4), "model"), ring(4), slow={2: 3.0}),
    "tiles": lambda: simulated((plan := tiled(with_tiles(NETWORKS["digits-cnn"], 2, "winograd"), "ndp-demo-winograd",
                                              1)), plan.hardware),
    "coded": lambda: simulated((plan := tiled(with_tiles(NETWORKS["digits-cnn"], 2, "winograd", 2), "ndp-demo-predict",
                                              2)), plan.hardware),
    "groups": lambda: simulated(planned("lenet-c", ARRAYS["hypar-16"], "hypar", 256), ARRAYS["hypar-16"]),
    "paper": lambda: simulated(planned("digits-cnn", ring(4), "model"), ring(4), cost="paper"),
    "waiting": lambda: simulated(planned("digits-cnn", ring(4), "data"), ring(4), overlap=False)}


@pytest.fixture(scope="module")
def steps() -> dict[str, Simulated]:
    return {name: make() for name, make in STEPS.items()}


@pytest.mark.parametrize("name", STEPS)
def test_rows_add_up_to_the_report(name: str, steps: dict[str, Simulated]) -> None:
    simulation = steps[name]
    report, rows = simulation_report(simulation), layer_rows(simulation)
    assert sum(row.injected_words for row in rows) == report["injected_words"] == simulation.plan.words
    for key in ("cycles", "dram_words", "energy_joules"):
        assert sum(getattr(row, key) for row in rows) == pytest.approx(report[key], rel=1e-9), key
    assert report["cycles"] == pytest.approx(report["seconds"] * float(simulation.array.clock_mhz) * 1e6)
    busy = sum(spent["busy"] for die in report["per_die"] for spent in die["engine_seconds"].values())
    assert sum(row.busy_cycles for row in rows) == pytest.approx(busy * simulation.hertz, rel=1e-9)
    assert busy > 0 and all(min(row.cycles, row.busy_cycles, row.dram_words, row.energy_joules) >= 0 for row in rows)


@pytest.mark.parametrize("name", [name for name in STEPS if name != "paper"])
def test_rows_are_those_of_the_network(name: str, steps: dict[str, Simulated]) -> None:
    simulation = steps[name]
    nodes, keys = simulation.plan.graph.nodes, [(row.layer, row.direction) for row in layer_rows(simulation)]
    assert keys == sorted(set(keys), key=lambda key: (
        [node.name for node in nodes].index(key[0]), DIRECTIONS.index(key[1])))
    for number, node in enumerate(nodes):
        here = {direction for named, direction in keys if named == node.name}
        assert ("update" in here) == node.weighted and "fprop" in here, node.name
        assert number == 0 or node is nodes[-1] or "bprop" in here, node.name


SCALED = Network(name="scaled", input=Shape((5,)), layers=(
    Embedding(name="words", rows=20, width=4), Dense(name="a", outputs=4), Affine(name="a.b"), Relu(name="a.b.relu"),
    Dense(name="a.b.update", outputs=4), Add(name="add", inputs=("a.b.update", "a.b.relu")),
    Dense(name="fc", outputs=3), SoftmaxCrossEntropy(name="loss")))


@pytest.mark.parametrize("rule", ["sgd", "momentum"])
def test_operations_belong_to_the_node_of_their_tasks(rule: str, steps: dict[str, Simulated]) -> None:
    """Whatever nodes are called: their names may hold dots, and those of other nodes' operations."""
    graph, array = from_network(SCALED), ring(4)
    plans = [given_plan(graph, array, tuple(("dp", split if node.kind in ("dense", "embedding") else "dp")
                                            for node in graph.nodes), 8, FORMS[rule]) for split in ("dp", "op", "mp")]
    plans += [simulation.plan for simulation in steps.values() if rule == "sgd"]
    for plan in plans:
        assert plan.hardware is not None
        step = step_of(plan.sharding, plan.hardware.die_parameters())
        for operation in step.operations:
            nodes = {task.node.name for task in operation.tasks(0, 4) if not isinstance(task, Arrivals) and task.node}
            assert nodes <= {layer_of(step, operation)}, operation.name


def test_a_row_has_the_words_of_its_transfers_and_its_products_time() -> None:
    """Alone a die sends nothing, and a layer's matrix tasks are in the row of their direction."""
    plan = planned("digits-mlp", ring(2), "model")
    rows = {(row.layer, row.direction): row for row in layer_rows(simulated(plan, ring(2)))}
    for (layer, direction), row in rows.items():
        words = sum(transfer.words for transfer in plan.transfers
                    if (transfer.exchange.layer, transfer.exchange.phase) == (layer, direction))
        words += sum(reduction.words for reduction in plan.reductions
                     if direction == "update" and reduction.layer == layer)
        assert row.injected_words == words
    simulation = simulated(planned("digits-mlp", ring(1), "data"), ring(1))
    alone = {(row.layer, row.direction): row for row in layer_rows(simulation)}
    assert not any(row.injected_words for row in alone.values())
    for number, (inputs, outputs) in enumerate(((64, 128), (128, 64), (64, 10)), 1):
        least = 16 * inputs * outputs / 64
        assert all(alone[f"fc{number}", way].busy_cycles >= least for way in ("fprop", "update"))
    assert alone["fc2", "bprop"].busy_cycles >= 16 * 128 * 64 / 64
    # Nothing needs the error of the network's input.
    assert alone["fc1", "bprop"].busy_cycles < alone["fc1", "fprop"].busy_cycles


def test_a_reduction_that_nothing_hides_is_on_the_critical_path() -> None:
    """Over slow links all of the step's end is an update; a reduction that hides costs no cycles of the path."""
    slow = Array(name="slow", topology="ring", dies=4, preset="ndp-demo", link_rate=Fraction(1, 64))
    shares = []
    for array in (ring(4), slow):
        simulation = simulated(planned("digits-mlp", array, "data", 64), array)
        rows = layer_rows(simulation)
        shares.append(sum(row.cycles for row in rows if row.direction == "update") / simulation.cycles)
    assert shares[0] < 0.6 < 0.9 < shares[1]


@pytest.mark.parametrize("name", ["data", "coded"])
def test_progress_counts_tasks_of_dies(name: str, steps: dict[str, Simulated]) -> None:
    """All descriptors of all dies' programs, however many activities simulate one."""
    simulation = steps[name]
    assert not simulation.work.grouped
    step = step_of(simulation.plan.sharding, simulation.array.die_parameters())
    costs = DieCosts(simulation.array)
    count = sum(costs.work(task.work).descriptors for die in range(simulation.plan.dies) for task in step.tasks(die)
                if not isinstance(task, Arrivals))
    assert sum(simulation.work.tasks) == simulation_report(simulation)["tasks"] == count < len(
        simulation.work.activities)
    assert set(simulation.work.tasks) == {0, 1}


def test_progress_of_groups_counts_what_groups_stand_for(steps: dict[str, Simulated]) -> None:
    told: list[tuple[int, int]] = []
    array = ARRAYS["hypar-16"]
    plan = planned("vgg-a", array, "hypar", 256)
    simulation = simulated(plan, array, progress=lambda *now: told.append(now))
    assert simulation.work.grouped and told == sorted(told)
    assert {total for _, total in told} == {sum(simulation.work.tasks)} and told[-1][0] <= told[-1][1]
    step = step_of(plan.sharding, array.die_parameters())
    products = sum(task.count for operation in step.operations if isinstance(operation, Products)
                   for die in range(plan.dies) for task in operation.tasks(die))
    assert sum(tasks for tasks, activity in zip(simulation.work.tasks, simulation.work.activities, strict=True)
               if activity.engine == "matrix") == products
    assert all(tasks == len(activity.dies) for tasks, activity in
               zip(simulation.work.tasks, simulation.work.activities, strict=True) if isinstance(activity, Flow))


def test_results_of_the_library_have_rows() -> None:
    simulation = plinth.simulate("digits-mlp", "ring-2", batch=16)
    assert all(isinstance(row, LayerRow) for row in simulation.layer_work)
    assert [vars(row) for row in simulation.layer_work] == simulation.to_dict()["layer_work"]
    assert sum(row.cycles for row in simulation.layer_work) == pytest.approx(
        simulation.seconds * simulation.simulated.hertz)
    page = simulation._repr_html_()
    assert all("<th" in page and f">{head}<" in page for head in LAYER_WORK)
    assert f">{simulation.layer_work[0].cycles:,.0f}<" in page


@pytest.mark.parametrize("name", ["model", "groups"])
def test_the_table_has_a_line_a_row_and_their_sum(name: str, steps: dict[str, Simulated]) -> None:
    simulation = steps[name]
    console = Console(width=80, record=True, file=StringIO())
    show_simulation(console, simulation)
    lines = console.export_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("layers; cycles"))
    shown = layer_work_rows(simulation)
    for row, line in zip(shown, lines[begin + 2:], strict=False):
        assert line.split() == " ".join(row).split() and len(line) <= 80
    rows = layer_rows(simulation)
    assert shown[-1][:4] == ["all", "", f"{simulation.cycles:,.0f}", f"{simulation.plan.words:,}"] and (
        len(shown) == len(rows) + 1)
    assert [row[0] for row in shown[:-1] if row[0]] == list(dict.fromkeys(row.layer for row in rows))
