"""What commands take if nothing is said: what one of them writes, the others read."""

import json
import re

import pytest
import yaml

from plinth import cli, defaults
from plinth.cli import commands


def run(capsys, *arguments: str) -> str:
    cli.main(arguments)
    return capsys.readouterr().out


def test_commands_have_the_same_defaults(capsys, tmp_path) -> None:
    out = str(tmp_path / "out")
    reports = [json.loads(run(capsys, "plan", "--json")), json.loads(run(capsys, "simulate", "--json")),
               json.loads(run(capsys, "train", "--device", "golden", "--steps", "1", "--out", out, "--json"))]
    expected = (defaults.NETWORK, f"ring-{defaults.DIES}", defaults.PLANNER, defaults.BATCH)
    assert [tuple(report[key] for key in ("network", "array", "planner", "batch")) for report in reports] == 3 * [
        expected]
    assert expected == ("digits-mlp", "ring-4", "joint", 128)


@pytest.mark.parametrize("options", [
    (), ("--machine", "hypar", "--dies", "2"), ("--machine", "fpga", "--dies", "2"), ("--format", "mixed"),
    ("--format", "mixed", "--dies", "8"), ("digits-cnn", "--dies", "2", "--winograd", "auto", "--batch", "32")],
    ids=" ".join)
def test_a_plan_made_with_few_words_is_trained_simulated_and_shown(options: tuple[str, ...], capsys, tmp_path) -> None:
    plan = str(tmp_path / "plan.yaml")
    run(capsys, "plan", *options, "--out", plan)
    words = yaml.safe_load((tmp_path / "plan.yaml").read_text())["words"]
    report = json.loads(run(capsys, "train", plan, "--device", "golden", "--steps", "1", "--out", str(tmp_path / "out"),
                            "--json"))
    assert report["failure"] is None and report["plan"]["words"] == words
    assert json.loads(run(capsys, "simulate", plan, "--json"))["injected_words"] == words
    assert json.loads(run(capsys, "step", plan, "--json"))["dies"] == report["dies"]


@pytest.mark.parametrize("options", [
    ("--machine", "hypar", "--dies", "2"), ("--format", "mixed"), ("--machine", "ndp-bench"),
    ("digits-cnn", "--winograd", "2", "--weights", "winograd", "--dies", "2", "--batch", "16", "--planner", "data"),
    ("digits-cnn", "--planner", "hypar", "--model", "published", "--batch", "16")],
    ids=" ".join)
def test_options_of_arrays_tiles_and_planners_mean_the_same(options: tuple[str, ...], capsys, tmp_path) -> None:
    """What is planned with them is what is trained with them, and what is simulated has as many words."""
    run(capsys, "plan", *options, "--out", str(tmp_path / "plan.json"))
    run(capsys, "train", *options, "--device", "golden", "--steps", "1", "--out", str(tmp_path / "out"))
    planned, trained = (json.loads((tmp_path / name).read_text()) for name in ("plan.json", "out/plan.json"))
    assert planned == trained
    assert json.loads(run(capsys, "simulate", *options, "--json"))["injected_words"] == planned["words"]


@pytest.mark.parametrize("command", ["plan", "simulate", "train", "run"])
def test_each_command_takes_what_says_a_plan(command: str) -> None:
    taken = {option for parameter in commands.cli.commands[command].params for option in parameter.opts}
    assert taken >= {"network", "--array", "--dies", "--machine", "--format", "--planner", "--model", "--batch",
                     "--winograd", "--weights", "--predict", "--shares", "--update"}


@pytest.mark.parametrize("command", ["plan", "simulate", "train"])
@pytest.mark.parametrize(("options", "reason"), [
    (("--dies", "0"), "--dies 0 cannot be"), (("--machine", "nope"), "preset 'nope' is unknown"),
    (("--array", "ring-4", "--dies", "2"), "--dies 2 does not fit array 'ring-4', which has 4; leave --dies out"),
    (("--machine", "ndp", "--format", "fixed"), "'ndp' does not compute in --format fixed, but in fp32")])
def test_what_cannot_be_is_refused_in_the_same_words(command: str, options: tuple[str, ...], reason: str, capsys
                                                     ) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([command, *options])
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1 and reason in error


@pytest.mark.parametrize("command", ["plan", "simulate", "train"])
def test_help_names_the_defaults(command: str, capsys) -> None:
    text = " ".join(run(capsys, command, "--help").split())
    for said in (f"default: {defaults.NETWORK})", f"default: the plan's, or ring-{defaults.DIES}",
                 f"default: {defaults.PLANNER}, of dies of 16-bit formats {defaults.NARROW_PLANNER}"):
        assert said in text
    assert re.search(rf"--batch INTEGER RANGE \[?default: (the plan's, or )?{defaults.BATCH}", text)


@pytest.mark.parametrize("options", [("--format", "mixed"), ("--machine", "fpga"), ("--array", "hypar-16", "--machine",
                                                                                    "hypar-demo-fixed")], ids=" ".join)
def test_dies_of_16_bits_have_a_planner_of_their_own(options: tuple[str, ...], capsys) -> None:
    report = json.loads(run(capsys, "plan", *options, "--json"))
    assert report["planner"] == defaults.NARROW_PLANNER == "data"
