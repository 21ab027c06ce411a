"""``import plinth``: as the command line computes, from arrays in memory, and what is refused before any work."""

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plinth
from plinth import cli, defaults
from plinth.array.array import ring
from plinth.cli.commands import cli as commands
from plinth.cli.flags import FLAGS, SWITCHES, with_flags
from plinth.errors import UserError
from plinth.network.layers import Relu, Shape
from plinth.network.network import Network, perceptron
from plinth.update.rule import UpdateRule

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
PNG = 'src="data:image/png;base64,iVBORw0KGgo'
#: Fields of reports that depend on the clock on the wall.
TIMES = ("wall_seconds", "setup_seconds")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    cli.main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in TIMES}


def same_weights(result: plinth.TrainingResult, checkpoint: Path) -> bool:
    with np.load(checkpoint) as held:
        return bool(result.parameters) and all(np.array_equal(values.view(np.uint32), held[name].view(np.uint32))
                                               for name, values in result.parameters.items())


SETTINGS: list[tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]] = [
    ((), {}, {}),
    (("--dies", "2", "--machine", "fpga", "--batch", "64", "--seed", "3"), {"dies": 2, "machine": "fpga"},
     {"batch": 64, "seed": 3}),
    (("--array", "full-4", "--planner", "model", "--update", "momentum", "--rate", "0.05"), {"array": "full-4"},
     {"planner": "model", "update": "momentum", "rate": 0.05}),
    (("--planner", "hypar", "--model", "published"), {}, {"planner": "hypar", "model": "published"})]


@pytest.mark.parametrize(("words", "array", "options"), SETTINGS, ids=[" ".join(words) for words, *_ in SETTINGS])
def test_training_is_that_of_the_command(words: tuple[str, ...], array: dict[str, Any], options: dict[str, Any], capsys,
                                         tmp_path) -> None:
    saved = tmp_path / "w.npz"
    report = run(capsys, "train", *words, "--device", "golden", "--steps", "3", "--save", str(saved), "--out",
                 str(tmp_path / "out"))
    training = plinth.train(array=plinth.array(**array), steps=3, **options)
    assert without_times(training.to_dict()) == without_times(report)
    assert same_weights(training, saved) and training.losses == report["losses"]
    assert training.accuracy == report["test_accuracy"] and training.parameters["fc1.weights"].shape == (64, 128)


def test_plans_and_steps_are_those_of_the_commands(capsys, tmp_path) -> None:
    plan = plinth.plan("digits-cnn", "torus-2x2", batch=32)
    assert plan.to_dict() == run(capsys, "plan", "digits-cnn", "--array", "torus-2x2", "--batch", "32")
    assert plinth.plan().to_dict() == run(capsys, "plan")
    assert plinth.simulate().to_dict() == run(capsys, "simulate")
    plan.save(tmp_path / "plan.yaml")
    again = plinth.load_plan(tmp_path / "plan.yaml")
    assert again.to_dict() == plan.to_dict() and again.plan.to_data() == plan.plan.to_data()
    simulated = run(capsys, "simulate", str(tmp_path / "plan.yaml"), "--slow", "1=2")
    for simulation in (plan.simulate(slow={1: 2}), plinth.simulate(tmp_path / "plan.yaml", slow={1: 2.0})):
        assert simulation.to_dict() == simulated and simulation.seconds == simulated["seconds"]
    assert plan.step().to_dict() == run(capsys, "step", str(tmp_path / "plan.yaml"))
    assert plan.step(2).to_dict() == run(capsys, "step", str(tmp_path / "plan.yaml"), "--die", "2")
    trained = run(capsys, "train", str(tmp_path / "plan.yaml"), "--device", "golden", "--steps", "1", "--out",
                  str(tmp_path / "out"))
    for network in (plan, tmp_path / "plan.yaml"):
        assert without_times(plinth.train(network, steps=1).to_dict()) == without_times(trained)


@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_arrays_in_memory_are_as_those_of_a_file(kind: str, tmp_path) -> None:
    generator = np.random.default_rng(0)
    network = perceptron("small", (4, 6, 3))
    if kind == "targets":
        (tmp_path / "net.yaml").write_text("{version: 2, name: small, input: [4], layers: [{name: fc1, kind: dense, "
                                           "outputs: 3}, {name: loss, kind: mean-squared-error}]}")
        network = plinth.network(tmp_path / "net.yaml")
    x = generator.random((40, 4))
    y = np.arange(40) % 3 if kind == "classes" else generator.random((40, 3))
    np.savez(tmp_path / "my.npz", x=x, y=y)
    options: dict[str, Any] = {"batch": 8, "epochs": 1, "scale": "auto", "array": plinth.array(dies=2)}
    trainings = [plinth.train(network, *samples, save=tmp_path / name, **options) for name, samples in (
        ("file.npz", (tmp_path / "my.npz",)), ("arrays.npz", (x, y)), ("lists.npz", (x.tolist(), y.tolist())),
        ("big.npz", (x.astype(">f8"), y)))]
    assert len({json.dumps(without_times(training.to_dict())) for training in trainings}) == 1
    assert all(same_weights(trainings[0], tmp_path / name) for name in ("arrays.npz", "lists.npz", "big.npz"))
    assert (trainings[0].accuracy is None) == (kind == "targets")


X, Y = np.zeros((20, 64)), np.zeros(20, int)


@pytest.mark.parametrize(("call", "reason"), [
    (lambda: plinth.network(3), "network must be a name, a path, or an object of the library, not 3"),
    (lambda: plinth.network("nope"), "digits-mlp"),
    (lambda: plinth.network(winograd=3), "winograd must be one of 'off', 'auto', 2, 4, '2', '4', not 3"),
    (lambda: plinth.network(winograd=2), "say winograd=off, or auto, and weights=spatial"),
    (lambda: plinth.network("digits-cnn", shares="0.5"), "shares must be numbers from 0 to 1, not '0.5'"),
    (lambda: plinth.array("nope"), "array 'nope' is unknown"),
    (lambda: plinth.array(dies=0), "dies must be an integer from 1 to 1024, not 0"),
    (lambda: plinth.array(dies=True), "dies must be an integer from 1 to 1024, not True"),
    (lambda: plinth.array(dies=int), "dies must be an integer from 1 to 1024, not <class 'int'>"),
    (lambda: plinth.array(dies=np.arange(3)), "dies must be an integer from 1 to 1024, not array([0, 1, 2])"),
    (lambda: plinth.array("ring-4", dies=2), "dies=2 does not fit array 'ring-4', which has 4; leave dies= out"),
    (lambda: plinth.array(machine="ndp", format="fixed"), "'ndp' does not compute in format=fixed, but in fp32"),
    (lambda: plinth.plan(batch=0), "batch must be an integer from 1 to"),
    (lambda: plinth.plan(planner="best"), "planner must be one of 'data', 'model'"),
    (lambda: plinth.plan(planner=["data"]), "planner must be one of"),
    (lambda: plinth.plan(model="paper"), "model must be one of 'exact', 'published', not 'paper'"),
    (lambda: plinth.plan(update="sdg"), "update must be one of 'sgd'"),
    (lambda: plinth.plan(wide=1), "wide must be True or False, not 1"),
    (lambda: plinth.plan(wide=True, stochastic=True), "give wide=False, or leave stochastic= out"),
    (lambda: plinth.plan(progress=3), "progress must be a callable"),
    (lambda: plinth.plan(lists=3), "lists must be a path, not 3"),
    (lambda: plinth.plan(lists={"fc9": {}}), "unknown key 'fc9'"),
    (lambda: plinth.plan().save("plan.txt"), "path plan.txt must end in .yaml or .json"),
    (lambda: plinth.plan().plan.sharding.check_fits(5), "a sharding is compared with a Sharding, such as"),
    (lambda: plinth.plan().plan.resharded(array=5), "array of a sharding must be a Array, not 5"),
    (lambda: plinth.plan().plan.resharded(splits="dp"), "splits of a sharding must be a tuple, not 'dp'"),
    (lambda: plinth.plan().plan.resharded(rule=None), "rule of a sharding must be a UpdateRule, not None"),
    (lambda: plinth.array().path(0, 9), "array 'ring-4' has dies 0 to 3, not 9"),
    (lambda: plinth.array().path(None, 1), "array 'ring-4' has dies 0 to 3, not None"),
    (lambda: plinth.network().layer("rleu1"), "network 'digits-mlp' has no layer 'rleu1'; did you mean 'relu1'?"),
    (lambda: plinth.network().output_shape(None), "network 'digits-mlp' has no layer None; known are fc1, relu1"),
    (lambda: plinth.network().consumers(["fc1"]), "network 'digits-mlp' has no layer ['fc1']; "),
    (lambda: plinth.network("digits-cnn", shares=np.array("x")), "shares must be numbers from 0 to 1, not array('x'"),
    (lambda: plinth.plan().step(4), "die must be an integer from 0 to 3, not 4"),
    (lambda: plinth.load_plan("nowhere.yaml"), "nowhere.yaml: cannot be read"),
    (lambda: plinth.load_plan(b"x"), "path must be a path"),
    (lambda: plinth.load_plan("a\0b"), r"path must be a path, not 'a\x00b'"),
    (lambda: plinth.simulate(cost="free"), "cost must be one of 'die', 'paper', not 'free'"),
    (lambda: plinth.simulate(slow={0: 0}), "a factor of slow must be a finite number from 0.001 to 100000, not 0"),
    (lambda: plinth.simulate(slow=[1]), "slow must be a mapping of dies to factors, not [1]"),
    (lambda: plinth.simulate(slow={9: 2}), "die 9 cannot be slow"),
    (lambda: plinth.simulate(plinth.plan(), planner="data"), "planner= and a plan both say"),
    (lambda: plinth.simulate(plinth.plan(), wide=False), "wide= and a plan both say"),
    (lambda: plinth.train(plinth.plan(), planner="data"), "planner= and a plan both say"),
    (lambda: plinth.train(plinth.plan(), model="exact"), "model= and a plan both say"),
    (lambda: plinth.train(plinth.plan(), batch=64), "the plan is for batch 128, not 64; leave batch= out"),
    (lambda: plinth.train(plinth.plan(), array="ring-2"), "the plan is for dies 4 of array 'ring-4', not 2"),
    (lambda: plinth.train(device="board"), "device must be one of 'golden', 'numpy', 'cosim', not 'board'"),
    (lambda: plinth.train(x=X), "x and y must be given together"),
    (lambda: plinth.train(y=Y), "x and y must be given together"),
    (lambda: plinth.train(x=X[:, :3], y=Y), "x must be real numbers of shape [samples, 64]"),
    (lambda: plinth.train(x=X, y=Y[:3]), "x has 20 samples and y 3"),
    (lambda: plinth.train(x=X, y=Y + 0.5), "y must be class numbers from 0 to 9, one a sample, not float64 [20]"),
    (lambda: plinth.train(x=X, y=Y + 10), "y must be class numbers from 0 to 9, one a sample, not from 10 to 10"),
    (lambda: plinth.train(x=X * np.nan, y=Y), "x has values that are not finite"),
    (lambda: plinth.train(x=X.astype(complex), y=Y), "x must be an array of real numbers of up to 8 bytes, not of co"),
    (lambda: plinth.train(x=[[1], [1, 2]], y=[0, 1]), "x must be an array of real numbers"),
    (lambda: plinth.train(x=np.ma.masked_less(X, 1), y=Y), "x is a masked array"),
    (lambda: plinth.train(x="nowhere"), "nowhere: is neither a file nor a data set"),
    (lambda: plinth.train(batch=4000), "larger than the 1437 training samples; give a smaller batch="),
    (lambda: plinth.train(rate=float("nan")), "rate must be a finite number, not nan"),
    (lambda: plinth.train(rate=-1), "rate must be above 0 and finite"),
    (lambda: plinth.train(momentum=0.5), "update 'sgd' has no momentum=; leave it out"),
    (lambda: plinth.train(device="numpy", memory_mib=64), "memory_mib= is that of dies, and device=numpy has none"),
    (lambda: plinth.train(threads=2), "which device=golden does not run"),
    (lambda: plinth.train(scale=0), "scale=0: a scale must be above 0 and finite"),
    (lambda: plinth.train(scale="big"), "scale='big' is neither auto nor a factor"),
    (lambda: plinth.train(seed=-1), "seed must be an integer from 0 to"),
    (lambda: plinth.train(save="/"), "save=/ is a folder; give the name of a file"),
    (lambda: plinth.train(steps=1, save="/proc/none/w.npz"), "w.npz: cannot be written"),
    (lambda: plinth.train(memory_mib=1, batch=1437, array="ring-1"), "memory_mib= at least"),
    (lambda: plinth.verilog("ndp-huge"), "preset 'ndp-huge' is unknown"),
    (lambda: plinth.verilog(None), "preset must be a name")])
def test_what_nothing_can_mean_is_refused_in_one_line(call: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plinth.train.session.Session.epoch", lambda *_: pytest.fail("work has begun"))
    with pytest.raises(plinth.Error) as refused:
        call()
    assert reason in str(refused.value) and "\n" not in str(refused.value) and "--" not in str(refused.value)


@pytest.mark.parametrize(("call", "reason"), [
    (lambda: Network(name="n", input=None, layers=(Relu(name="r"),)), "input must be [features] or"),
    (lambda: Network(name="n", input=Shape((4,)), layers=("fc1",)), "layers must be a tuple of layers, not ('fc1',)"),
    (lambda: Network(name="n", input=Shape((4,)), layers=None), "layers must be a tuple of layers, not None"),
    (lambda: Relu(name="r", inputs="fc1"), "inputs of layer 'r' must be a list, not the text 'fc1'"),
    (lambda: Relu(name="r", shape=5), "shape of layer 'r' must be a list, not 5"),
    (lambda: perceptron("n", 5), "a perceptron needs a tuple of at least two widths, not 5"),
    (lambda: ring(2, preset=["ndp-demo"]), "preset must be a name, not ['ndp-demo']"),
    (lambda: replace(ring(2), clock_mhz=1.5), "clock_mhz must be a Fraction, not 1.5"),
    (lambda: replace(ring(2), speeds=("x", "y")), "speeds must be Fractions, not ['x', 'y']"),
    (lambda: replace(ring(2), routes=(1, 2)), "routes must be 2 rows of 2 ports, a row a die"),
    (lambda: UpdateRule(rate=None), "rate must be above 0 and finite, not None"),
    (lambda: UpdateRule("momentum", momentum="x"), "momentum must be from 0 to below 1, not x")])
def test_what_is_built_of_the_wrong_types_is_refused_in_one_line(call: Any, reason: str) -> None:
    """Networks, layers, arrays and rules that a program makes itself."""
    with pytest.raises(ValueError, match=re.escape(reason)) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_arguments_of_messages_have_flags() -> None:
    """Of every argument of the library that is a flag of a command, and of no others but those of commands alone."""
    parameters = [parameter for name in ("plan", "simulate", "train", "step", "profile")
                  for parameter in commands.commands[name].params]
    words = {word for parameter in parameters for word in (*parameter.opts, *parameter.secondary_opts)
             if word.startswith("--")}
    assert words - {*FLAGS.values(), *SWITCHES.values()} == {"--picture", "--json", "--trace", "--against", "--preset",
                                                            "--network"}
    assert {*FLAGS.values(), *SWITCHES.values()} <= words | {"--reduce"}
    functions = (plinth.plan, plinth.simulate, plinth.train, plinth.train_locally, plinth.network, plinth.array,
                 plinth.profile, plinth.PlanResult.step)
    taken = {name for function in functions for name in inspect.signature(function).parameters}
    assert set(FLAGS) - taken == {"plan", "out", "bitstream", "resume", "change", "waves"}


@pytest.mark.parametrize(("said", "shown"), [
    ("leave batch= out", "leave --batch out"),
    ("dies=, machine= and format= out; x", "--dies, --machine and --format out; x"),
    ("choose format=fp32, or memory_mib= at least 3 (scale=auto)",
     "choose --format fp32, or --memory at least 3 (--scale auto)"), ("a smaller rate=", "a smaller --rate"),
    ("give wide=False, or leave stochastic= out", "give --narrow, or leave --stochastic out"),
    ("with stochastic=True, not wide=True", "with --stochastic, not --wide"),
    ("device=serial:PORT", "--device serial:PORT"),
    ("`plinth.plan(batch=3)`; batch=3", "`plinth.plan(batch=3)`; --batch 3"),
    ("file 'batch=3', a_batch=, no=3, scale='big'", "file 'batch=3', a_batch=, no=3, --scale 'big'")])
def test_the_command_line_names_flags(said: str, shown: str) -> None:
    assert with_flags(said) == with_flags(shown) == shown


def _texts(source: str) -> Iterator[str]:
    """Texts of a module but its docstrings, without what stands between backticks."""
    tree = ast.parse(source)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body
                  and isinstance(node.body[0], ast.Expr)}
    joined = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values)
        elif isinstance(node, ast.Constant) and id(node) not in docstrings | joined:
            text = str(node.value)
        yield "".join(text.split("`")[::2])


#: Modules of the library that speak of commands: they make their command lines, or show what commands print.
_OF_COMMANDS = {"doctor.py", "files/reports.py", "partition/hypergraph/annealing.py", "plan/plan_file.py",
                "report/step.py"}


def test_messages_of_the_library_name_no_flags() -> None:
    rooms, naming = Path(plinth.__file__).parent, set()
    for path in rooms.rglob("*.py"):
        module = path.relative_to(rooms)
        if module.parts[0] not in ("bench", "cli", "reproduce") and any(
                re.search(r"(?<![\w-])--[a-z{0]", text) for text in _texts(path.read_text())):
            naming.add(str(module))
    assert naming == _OF_COMMANDS


def test_names_are_loaded_when_they_are_used() -> None:
    assert set(plinth.__all__) <= set(dir(plinth)) and plinth.Error is UserError
    for name in plinth.__all__:
        assert callable(getattr(plinth, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        plinth.nothing  # noqa: B018


@pytest.mark.parametrize("first", ["", "import plinth.plan.planning", "import plinth.simulate.step",
                                   "from plinth.plan import planning", "from plinth import plan, simulate"])
def test_rooms_with_the_name_of_a_function_are_both(first: str) -> None:
    """Whichever is imported first."""
    code = f"""{first}
import plinth, plinth.plan.planning as planning, plinth.simulate.step, inspect
assert plinth.plan("digits-mlp", "ring-1").plan.dies == 1 and plinth.plan.planning is planning
assert "planner" in inspect.signature(plinth.plan).parameters and callable(plinth.simulate)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_results_are_shown(tmp_path) -> None:
    plan = plinth.plan(array="ring-2", batch=32)
    pages = [(plan, "fc1"), (plan.simulate(), "matrix"), (plan.train(steps=2), "training loss")]
    for result, word in pages:
        text = result._repr_html_()
        assert text.count("<table>") >= 1 and PNG in text and word in text
        assert "\n" not in repr(result) and repr(result).startswith("<") and "digits-mlp" in repr(result)
    for step in (plan.step(), plan.step(1)):
        assert "<table>" in step._repr_html_() and step.digest and "digits-mlp" in repr(step)
    assert plan.step().operations and plan.step(1).tasks
    assert plan.totals.predicted_seconds <= plan.baselines["data"].predicted_seconds
    assert {name: list(splits) for name, splits in plan.splits.items()} == {
        layer["name"]: layer["splits"] for layer in plan.plan.to_data()["layers"]}
    plan.simulate().save_trace(tmp_path / "step.json")
    assert json.loads((tmp_path / "step.json").read_text())["traceEvents"]


def test_a_page_holds_names_as_text() -> None:
    network = perceptron("a.b", (4, 3))
    assert "<b>plan of a.b on" in plinth.plan(network, "ring-1")._repr_html_()
    from plinth.api import html

    assert html.table([("<script>", "&")]).count("&lt;script&gt;") == 1


def test_progress_is_told(capsys) -> None:
    told: list[tuple[float, float, str]] = []
    plinth.train(array="ring-1", steps=3, progress=lambda *event: told.append(event))
    assert [event[:2] for event in told if "loss" in event[2]] == [(1, 3), (2, 3), (3, 3)]
    told.clear()
    plinth.plan(array="ring-2", progress=lambda *event: told.append(event))
    assert told and told[-1][0] >= len(told) > 1
    capsys.readouterr()
    plinth.train(array="ring-1", steps=1, progress=None)
    assert capsys.readouterr() == ("", "")
    plinth.train(array="ring-1", steps=1, progress=True)
    assert "step 1 of 1" in capsys.readouterr().err


def test_a_wrong_step_is_an_error_with_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plinth.train.checks.Checks.step", lambda self, *_: self.fail("step 1: wrong"))
    with pytest.raises(plinth.TrainingError, match="step 1: wrong") as failed:
        plinth.train(array="ring-1", steps=2)
    assert failed.value.result.report["failure"] == str(failed.value) and len(failed.value.result.losses) == 1


def test_nothing_is_written(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    plinth.train(array="ring-1", steps=1)
    assert not any(tmp_path.iterdir())


def test_arrays_take_dies_that_can() -> None:
    """As the command line does."""
    network = plinth.network("digits-cnn", winograd=2)
    assert plinth.plan(network, "ring-2", planner="data").array.preset == "ndp-demo-winograd"


def test_a_notebook_keeps_its_own_pictures() -> None:
    import matplotlib

    before = matplotlib.get_backend()
    plinth.plan(array="ring-1")._repr_html_()
    assert matplotlib.get_backend() == before


def test_the_page_names_what_there_is() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{name}" in text or f".{name}" in text for name in plinth.__all__)
    assert f"`{defaults.NETWORK}`" in text and f"batch {defaults.BATCH}" in text


def test_the_example_of_the_page_runs() -> None:
    code, = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.splitlines()) <= 10
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["run"].accuracy > 0.8 and PNG in names["run"]._repr_html_()
