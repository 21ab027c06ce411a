"""Updates in predicted and simulated steps: formulas against the optimiser engine, rules against each other, and plans
that say their rule."""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.support.engine_bench import body_words
from tests.support.updates import halves, squares
from tests.support.verilated_engine import VerilatedEngine

from plinth import cli
from plinth.array.array import ring
from plinth.machine.memory import MEMORY_LATENCY
from plinth.machine.optimiser import optimiser_formula
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.planners.simple import data
from plinth.plan.planning import plan_network
from plinth.predict.time import StepTime
from plinth.predict.updates import message_words, update_cycles
from plinth.sharding import Sharding
from plinth.simulate.step import simulated
from plinth.step.build import step_of
from plinth.step.tasks import Phase, Vector
from plinth.step.updates import StateUpdate
from plinth.update.kinds import ADAGRAD, MOMENTUM
from plinth.update.rule import FORMS, PLAIN, UpdateRule, rule_for
from plinth_hw.isa.operations import OptimiserOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.update_bodies import OptimiserBody
from plinth_hw.optimiser.engine import OptimiserEngine
from plinth_sim.golden.collective import owners

MLP, WIDE = NETWORKS["digits-mlp"], FORMS["adagrad wide"]
#: Words of a vector of the engine's memory, and where the first lies.
SLOT, FIRST = 4096, 1024


@cache
def engine(parameters: DieParameters) -> VerilatedEngine:
    return VerilatedEngine(OptimiserEngine(parameters), parameters, OptimiserBody, ["read"], ["write"])


def counted(parameters: DieParameters, rule: UpdateRule, rows: int, columns: int) -> int:
    """Cycles of an update behind an equal one, beside those of its body."""
    rng, beat = np.random.default_rng(1), parameters.beat_words
    memory = squares(rng, halves(rng, FIRST + 6 * SLOT))
    names = "gradient", "state", "state_low", "weights", "weights_low", "generator"
    stride = -(-columns // beat) * beat
    body: dict[str, Any] = {
        "columns": columns, "rows": rows, "stride": stride, "state_stride": stride, "rate": 1 | 4 << 16,
        "decay": 7 | 3 << 16, "epsilon": 1 << 20, "wide_weights": int(rule.wide), "wide_state": int(rule.wide),
        "stochastic": int(rule.stochastic),
        **{name: {"offset": FIRST + SLOT * slot, "base": 0} for slot, name in enumerate(names)}}
    operation = {"sgd": OptimiserOperation.SGD, "momentum": OptimiserOperation.MOMENTUM,
                 "adagrad": OptimiserOperation.ADAGRAD}[rule.kind]
    once, twice = (engine(parameters).run(
        [(operation.value, body_words(OptimiserBody, body))] * count, [0] * 16, memory.copy(),
        latency=MEMORY_LATENCY).cycles for count in (1, 2))
    return twice - once


@pytest.mark.parametrize("name", ["fpga-demo", "fpga-tiny"])
def test_the_optimisers_formula_is_the_engine(name: str) -> None:
    """Over rules, and rows from a beat to many blocks. What a die's crossbar takes for a block's write is not in this
    memory: short rows with many vectors are faster."""
    parameters = preset(name)
    for rule in (FORMS[title] for title in ("sgd", "momentum", "adagrad wide", "sgd wide", "momentum stochastic")):
        for rows, columns in ((1, 8), (1, 64), (8, 64), (1, 4096), (9, 100), (64, 10), (32, 64)):
            cost = optimiser_formula(parameters, rows, columns, len(rule.vectors), stochastic=rule.stochastic)
            cycles = counted(parameters, rule, rows, columns)
            assert cycles == pytest.approx(cost.interval, rel=0.15 if columns == 10 else 0.03, abs=40), (rule, rows)
            beats = rows * -(-columns // parameters.beat_words) + rule.stochastic / (2 + len(rule.vectors))
            assert cost.reads == pytest.approx((2 + len(rule.vectors)) * beats * parameters.beat_words)


@pytest.mark.parametrize("members", [1, 2, 3, 8])
def test_messages_move_what_owners_and_others_read_and_write(members: int) -> None:
    words = 64 * 24
    own = int((owners(words, members, 64) == 0).sum())
    assert message_words(Phase.UPDATE, words, members) == (words + own, words)
    assert message_words(Phase.SUM, words, members) == (words, own)
    assert message_words(Phase.GATHER, words, members) == (own, words - own)


@pytest.mark.parametrize(("name", "dies"), [("fpga-demo", 4), ("fpga-demo", 1), ("fpga-ulx3s", 1), ("ndp-demo", 2),
                                            ("hypar-demo", 3)])
def test_simulated_and_predicted_steps_of_a_rule_agree(name: str, dies: int) -> None:
    """Task by task, in groups, and as planners see them; and a rule that moves more takes longer."""
    array = ring(dies, preset=name)
    rules = [FORMS[title] for title in (("sgd", "adagrad", "adagrad wide") if rule_for(array.die_parameters()).wide
                                        else ("sgd", "momentum"))]
    seconds = []
    for rule in rules:
        plan = plan_network(MLP, array, planner="data", batch=64, rule=rule).plan
        assert plan.rule == rule and plan.predicted_seconds is not None
        step = simulated(plan, array)
        assert step.result.seconds == pytest.approx(plan.predicted_seconds, rel=0.08)
        groups = simulated(plan, array, most_tasks=0)
        assert len(groups.work.activities) < len(step.work.activities)
        assert groups.result.seconds == pytest.approx(plan.predicted_seconds, rel=0.2)
        seconds.append(plan.predicted_seconds)
    assert seconds == sorted(seconds) and seconds[-1] > 1.03 * seconds[0]


def test_a_fixed_point_step_is_predicted_as_it_was_counted() -> None:
    """As `docs/agreement.md` has it: what the update takes is a quarter of this step. Counts of today are compared by
    `plinth agreement`."""
    array = ring(4, preset="fpga-demo")
    plan = plan_network(MLP, array, planner="data", batch=128, rule=WIDE).plan
    hertz = float(array.clock_mhz) * 1e6
    assert plan.predicted_seconds is not None
    for seconds in (plan.predicted_seconds, simulated(plan, array).result.seconds):
        assert seconds * hertz == pytest.approx(42_465, rel=0.05)


def test_tasks_of_an_update_are_grouped_on_the_vector_engine() -> None:
    """Groups stand for as many tasks, and touch all their words."""
    graph, array = from_network(MLP), ring(2)
    step = step_of(Sharding(graph=graph, splits=data(graph, 1), batch=16, factors=array.factors, array=array,
                            rule=UpdateRule(MOMENTUM)), array.die_parameters())
    updates = [operation for operation in step.operations if isinstance(operation, StateUpdate)]
    assert updates
    for update in updates:
        each, few = list(update.tasks(1)), next(update.tasks(1, 1))
        assert all(isinstance(task.work, Vector) for task in each)
        assert sum(task.count for task in update.tasks(1, 1)) == len(each)
        assert few.writes[0].address == each[0].writes[0].address
        assert few.writes[0].end == each[few.count - 1].writes[0].end


@pytest.mark.parametrize(("name", "title"), [("fpga-demo", "adagrad wide"), ("fpga-demo", "momentum stochastic"),
                                             ("ndp-demo", "momentum"), ("hypar-demo", "adagrad"),
                                             ("ndp-demo", "rmsprop")])
def test_estimates_know_what_an_update_takes(name: str, title: str) -> None:
    """At least what it makes the walk longer, where other engines work beside it."""
    graph, array = from_network(MLP), ring(1, preset=name)
    splits = data(graph, 0)
    time, plain = StepTime(graph, 64, array, rule=FORMS[title]), StepTime(graph, 64, array)
    longer = time.cycles(splits) - plain.cycles(splits)
    words = sum(node.weights + node.bias for node in graph.nodes if node.weighted)
    assert 0 < longer < 1.3 * update_cycles(time.machine, FORMS[title], words)
    assert time.estimate(splits) > plain.estimate(splits)


def test_plain_descent_costs_no_task_where_messages_do_it() -> None:
    machine = StepTime(from_network(MLP), 64, ring(2)).machine
    assert update_cycles(machine, PLAIN, 1000) == 0
    lone = StepTime(from_network(MLP), 64, ring(1, preset="fpga-ulx3s"))
    assert update_cycles(lone.machine, PLAIN, 1000) > 1000


def run(capsys: Any, *arguments: str) -> Any:
    cli.main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_plans_say_their_rule_and_are_used_with_it(capsys: Any, tmp_path: Any) -> None:
    """By default that of the array's dies."""
    fixed, file = tmp_path / "array.yaml", tmp_path / "plan.yaml"
    fixed.write_text("version: 1\nname: two\ntopology: ring\ndies: 2\npreset: fpga-demo\n")
    usual = run(capsys, "plan", "digits-mlp", "--array", str(fixed), "--planner", "data", "--batch", "64")
    narrow = run(capsys, "plan", "digits-mlp", "--array", str(fixed), "--planner", "data", "--batch", "64",
                 "--update", "momentum", "--out", str(file))
    assert usual["predicted_seconds"] > narrow["predicted_seconds"] and "update: momentum" in file.read_text()
    simulated_too = run(capsys, "simulate", str(file))
    assert simulated_too["seconds"] == pytest.approx(narrow["predicted_seconds"], rel=0.08)
    assert simulated_too["per_die"][0]["engine_seconds"]["optimiser"]["busy"] > 0
    out = str(tmp_path / "out")
    for options, kind, seconds in (((), MOMENTUM, narrow["predicted_seconds"]),
                                   (("--update", ADAGRAD), ADAGRAD, usual["predicted_seconds"])):
        report = run(capsys, "train", str(file), "--device", "golden", "--steps", "1", "--out", out, *options)
        assert report["update_rule"]["kind"] == kind
        assert report["predicted_cycles_per_step"] == pytest.approx(
            seconds * float(ring(2).clock_mhz) * 1e6)


@pytest.mark.parametrize(("arguments", "needle"), [
    (("plan", "digits-mlp", "--array", "ring-2", "--wide"), "compute in fp32, without wide weights"),
    (("simulate", "digits-mlp", "--array", "ring-2", "--stochastic"), "without stochastic rounding"),
    (("simulate", "PLAN", "--update", "sgd"), "--update, --wide and --stochastic are said by the plan"),
    (("simulate", "EDITED"), "update must be one of sgd, "),
    (("plan", "digits-mlp", "--machine", "fpga", "--update", "rmsprop"), "where no engine has update 'rmsprop'"),
    (("simulate", "digits-mlp", "--machine", "fpga", "--update", "rmsprop"), "where no engine has update 'rmsprop'"),
    (("simulate", "OTHER"), "without wide weights")])
def test_rules_that_cannot_be_are_refused_in_one_line(arguments: tuple[str, ...], needle: str, capsys: Any,
                                                      tmp_path: Any) -> None:
    plan = plan_network(MLP, ring(2), planner="data", batch=16, rule=UpdateRule(MOMENTUM)).plan
    for name, update in (("PLAN", "momentum"), ("EDITED", "lars"), ("OTHER", "momentum wide")):
        (tmp_path / f"{name}.yaml").write_text(plan.to_yaml().replace("update: momentum", f"update: {update}"))
    with pytest.raises(SystemExit) as stop:
        cli.main([str(tmp_path / f"{argument}.yaml") if argument.isupper() else argument for argument in arguments])
    error = capsys.readouterr().err
    assert stop.value.code == 2 and needle in error and error.count("\n") == 1


def test_a_plan_is_the_same_whatever_the_rules_numbers() -> None:
    plan = plan_network(MLP, ring(2), planner="data", batch=16, rule=UpdateRule(MOMENTUM, rate=0.3)).plan
    assert plan.rule == UpdateRule(MOMENTUM) and plan.resharded(rule=PLAIN).to_data().get("update") is None
