"""`plinth step`: what dies do in a step, as a table and as JSON, and where two steps differ."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.support.commands import run

import plinth
from plinth.array.array import ring
from plinth.errors import UserError
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan_file import load_plan, save_plan
from plinth.plan.planning import given_plan
from plinth.report.step import SAYS, step_of_plan
from plinth.sharding import Server
from plinth.step.tasks import Arrivals, Work


def plan_file(place: Path, network: str, split: str = "dp", batch: int = 16, dies: int = 2) -> Path:
    graph = from_network(NETWORKS[network])
    levels = dies.bit_length() - 1
    splits = (*((split,) * levels for _ in graph.nodes[:-1]), ("dp",) * levels)
    save_plan(place, given_plan(graph, ring(dies, preset="ndp-tiny"), splits, batch))
    text = place.read_text(encoding="utf-8").replace("planner: given", "planner: data")
    place.write_text(text, encoding="utf-8")
    return place


def test_the_report_is_the_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = plan_file(tmp_path / "plan.yaml", "digits-mlp", "mp", batch=13)
    step = step_of_plan(load_plan(path))
    code, out, err = run(capsys, "step", path, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert (report["report"], report["network"], report["dies"], report["batch"]) == ("step", "digits-mlp", 2, 13)
    assert report["digest"] == step.digest()
    assert report["place_bytes"] == {name: 4 * words for name, words in step.place_words().items()}
    assert [row["operation"] for row in report["operations"]] == [operation.name for operation in step.operations]
    # The updates' gradients stand behind the loss as well.
    assert [row["direction"] for row in report["operations"]].count("fprop") == sum(step.forwards)
    assert {(row["layer"], row["direction"]) for row in report["operations"]} == {
        ("loss", "fprop"), *((f"fc{number}", direction) for number in (1, 2, 3)
                             for direction in ("fprop", "bprop", "update"))}
    whole: dict[int, Any] = {}
    for die in range(2):
        whole[die] = json.loads(run(capsys, "step", path, "--die", die, "--json")[1])
        assert len(whole[die]["program"]) == len(list(step.tasks(die)))
    for number, operation in enumerate(step.operations):
        counts = [sum(not isinstance(item, Arrivals) for item in operation.tasks(die)) for die in range(2)]
        assert report["operations"][number]["tasks_range"] == [min(counts), max(counts)]
    # Every multiply-add of the layers, three directions but the first one's bprop, over both dies.
    layers = [node for node in step.graph.nodes if node.weighted]
    macs = [13 * node.input_channels * node.output_channels for node in layers]
    assert sum(task["macs"] for die_report in whole.values() for task in die_report["program"]
               ) == 3 * sum(macs) - macs[0]


def test_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    path = plan_file(tmp_path / "plan.yaml", "digits-cnn", batch=8)
    code, out, _ = run(capsys, "step", path)
    assert code == 0 and "conv1.fprop" in out and "all_reduce" in out and "digest" in out
    code, out, _ = run(capsys, "step", path, "--die", "1")
    assert code == 0 and "kernel 3x3" in out and "over 2 dies" in out


def test_a_plan_that_dies_cannot_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (plan_file(tmp_path / f"{name}.yaml", "digits-mlp") for name in ("one", "other"))
    plan = load_plan(second)
    save_plan(second, plan.resharded(copies=tuple((name, Server((0,), 1)) for name in plan.graph.variables)))
    code, out, err = run(capsys, "step", first, "--against", second)
    refusal = f"{second}: variable 'fc1.weights' is kept by servers"
    assert (code, out) == (2, "") and err.startswith(f"plinth: error: {refusal}")
    with pytest.raises(UserError, match=f"^{re.escape(refusal)}"):
        plinth.load_plan(second)


def test_two_steps_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (plan_file(tmp_path / f"{name}.yaml", "digits-mlp", split) for name, split in (
        ("one", "dp"), ("other", "op")))
    code, out, _ = run(capsys, "step", first, "--against", first)
    assert code == 0 and out.startswith("one step: digest ")
    code, out, _ = run(capsys, "step", first, "--against", second, "--json")
    comparison = json.loads(out)
    assert code == 1 and not comparison["equal"] and len(set(comparison["digests"])) == 2
    hows = {(entry["what"], entry["name"]): entry["how"] for entry in comparison["differences"]}
    assert hows["splits", "fc1"] == "differs" and hows["operation", "fc1.fprop"] == "differs"
    assert "second" in hows.values()
    code, out, _ = run(capsys, "step", first, "--against", second)
    assert code == 1 and "only in" in out and str(second) in out
    strange = plan_file(tmp_path / "[red]a[/].yaml", "digits-mlp", "op")
    out = run(capsys, "step", first, "--against", strange)[1]
    assert out.rstrip().endswith("[red]a[/].yaml") and f"only in {strange}"[-20:] in out.replace("\n", "")
    # A batch alone: the first die's products are of other rows.
    longer = plan_file(tmp_path / "longer.yaml", "digits-mlp", "dp", batch=18)
    comparison = json.loads(run(capsys, "step", first, "--against", longer, "--die", "0", "--json")[1])
    hows = {(entry["what"], entry["name"]): entry["how"] for entry in comparison["differences"]}
    assert hows["setting", "batch"] == "differs" and hows["task", "fc1.fprop[0]"] == "differs"


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = plan_file(tmp_path / "plan.yaml", "digits-mlp")
    other = plan_file(tmp_path / "other.yaml", "digits-cnn")
    lines = {
        ("step", path, "--against", other): "plans of networks 'digits-mlp' and 'digits-cnn' do not fit each "
                                            "other: variable 'fc1.weights' is of shape [64, 128] in the first, of "
                                            "shape [80, 384] in the second; give two of one network",
        ("step", path, "--die", "2"): f"--die 2 is none of the dies of {path}; give one from 0 to 1",
        ("step", path, "--die", "-1"): f"--die -1 is none of the dies of {path}; give one from 0 to 1",
        ("step", path, "--die", "2000", "--against", path): f"--die 2000 is none of the dies of {path}; give one",
        ("step", "digits-mlp"): "digits-mlp: cannot be read",
        ("step",): "PLAN",
        ("step", path, "--against", tmp_path / "none.yaml"): "cannot be read"}
    for arguments, words in lines.items():
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, "") and words in err and err.count("\n") == 1, err


def test_every_kind_of_work_is_said() -> None:
    assert set(SAYS) == set(get_args(Work))
