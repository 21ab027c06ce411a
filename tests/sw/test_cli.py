"""The command line: the golden device trains, and what is wrong ends in one line and exit code 2."""

import json

import click
import numpy as np
import pytest
from tests.support.commands import run

from plinth.api.choices import preset_of
from plinth.cli import commands, names
from plinth.defaults import FORMATS
from plinth.files.reports import check_report
from plinth.network.file import load_network
from plinth.network.layers import Dense, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.zoo import NETWORKS
from plinth.train import checkpoint
from plinth_hw.terminal.options import Name


def golden(tmp_path, *more: str) -> list[str]:
    return ["train", "--device", "golden", "--dies", "2", "--out", str(tmp_path), "--json", *more]


def test_equal_seeds_give_equal_reports_but_for_times(tmp_path, capsys) -> None:
    reports = []
    for place in ("one", "two"):
        code, out, _ = run(capsys, *golden(tmp_path / place, "--steps", "4", "--seed", "7"))
        assert code == 0
        report = json.loads(out)
        assert report == json.loads((tmp_path / place / "report.json").read_text())
        for key in ("wall_seconds", "setup_seconds"):
            report.pop(key)
        reports.append(report)
    assert reports[0] == reports[1]
    assert reports[0]["gradient_error"] < 1e-4
    assert reports[0]["steps"] == 4


def test_a_resumed_run_ends_where_an_unbroken_one_does(tmp_path, capsys) -> None:
    whole, part, rest = (str(tmp_path / f"{name}.npz") for name in ("whole", "part", "rest"))
    assert run(capsys, *golden(tmp_path, "--epochs", "2", "--save", whole))[0] == 0
    assert run(capsys, *golden(tmp_path, "--epochs", "1", "--save", part))[0] == 0
    assert run(capsys, *golden(tmp_path, "--epochs", "2", "--resume", part, "--save", rest))[0] == 0
    with np.load(whole) as unbroken, np.load(rest) as resumed:
        for name in NETWORKS["digits-mlp"].variables:
            assert np.array_equal(unbroken[name].view(np.uint32), resumed[name].view(np.uint32))
    code, out, _ = run(capsys, "eval", whole, "--json")
    assert code == 0
    assert json.loads(out)["epochs_done"] == 2


@pytest.mark.parametrize(("arguments", "needle"), [
    (["train", "nope"], "digits-mlp"),
    (["train", "--dies", "3000"], "--dies 3000 cannot be: dies must be an integer from 1 to 1024"),
    (["train", "--dies", "0"], "--dies 0 cannot be: dies must be an integer from 1"),
    (["train", "--frobnicate"], "--frobnicate"),
    (["train", "--format", "fp8"], "fp32"),
    (["train", "--rate", "nan"], "'--rate': 'nan' is not a finite number; see plinth train --help"),
    (["train", "--rate", "inf"], "'--rate': 'inf' is not a finite number"),
    (["train", "--preset", "nope"], "ndp-demo"),
    (["train", "--preset", "ndp-demo", "--format", "mixed"], "does not compute"),
    (["train", "--machine", "hypar-demo", "--format", "mixed"], "'hypar-demo' does not compute in --format mixed"),
    (["train", "--preset", "fpga-demo", "--format", "mixed"], "does not compute in --format mixed, but in fixed"),
    (["train", "--machine", "ndp", "--format", "fixed"], "'ndp' does not compute in --format fixed, but in fp32"),
    (["train", "--waves", "here"], "die=0,from=1000,to=2000"),
    (["train", "--waves", "die=9,from=1,to=2"], "'die' must be below 4, and 'from' below 'to'"),
    (["train", "--machine", "fpga", "--device", "golden", "--wide", "--stochastic"],
     "rounds what has 16 bits, and wide weights and states have 32; give --narrow, or leave --stochastic out"),
    (["plan", "digits-mlp", "--wide", "--stochastic"], "rounds what has 16 bits, and wide weights and states have 32"),
    (["simulate", "digits-mlp", "--wide", "--stochastic"], "rounds what has 16 bits, and wide weights"),
    (["train", "--batch", "4000", "--device", "golden"], "smaller --batch"),
    (["train", "--memory", "1", "--dies", "1", "--batch", "1437", "--device", "golden"], "--memory at least"),
    (["train", "--out", "/proc/none", "--device", "golden"], "/proc/none/report.json: cannot be written"),
    (["train", "--steps", "1", "--save", "/proc/none/w.npz", "--device", "golden"], "w.npz: cannot be written"),
    (["plan", "lenet-c", "--out", "/proc/none/plan.yaml"], "/proc/none/plan.yaml: cannot be written"),
    (["simulate", "lenet-c", "--trace", "/proc/none/step.json"], "/proc/none/step.json: cannot be written"),
    (["train", "--resume", "nowhere.npz", "--device", "golden"], "cannot be read"),
    (["eval", "nowhere.npz"], "cannot be read"),
    (["eval", "nowhere.npz", "--winograd", "3"], "'3' is not one of 'off', 'auto', '2', '4'"),
    (["eval", "nowhere.npz", "--winograd", "2"], "no layer of network 'digits-mlp' has a Winograd transform of 2"),
    (["convert", "nowhere.npz", "there/", "--network", "digits-cnn"],
     "'TARGET': 'there/' is a folder, a pipe or a device; give the name of a file"),
    (["convert", "nowhere.npz", "/proc", "--network", "digits-cnn"], "'/proc' is a folder"),
    (["convert", "nowhere.npz", "/dev/null", "--network", "digits-cnn"], "'/dev/null' is a folder, a pipe or a dev"),
    (["train", "--save", "there/", "--device", "golden"], "'--save': 'there/' is a folder"),
    (["plan", "lenet-c", "--out", "there.yaml/"], "'--out': 'there.yaml/' is a folder"),
    (["plan", "lenet-c", "--picture", "."], "'--picture': '.' is a folder"),
    (["simulate", "lenet-c", "--trace", "there/.."], "'--trace': 'there/..' is a folder"),
    (["simulate", "lenet-c", "--picture", ""], "'--picture': '' is a folder"),
    (["frobnicate"], "frobnicate"),
    (["plan", "lenet-c", "--batch", "\u0663"], "'\u0663' is not a number in the digits 0 to 9; see plinth plan --help"),
    (["train", "--rate", "1_0"], "'--rate': '1_0' is not a number in the digits 0 to 9"),
    (["train", "--dies", "\u0663"], "'--dies': '\u0663' is not a number in the digits 0 to 9"),
    (["train", "--scale", "\u0663"], "is neither auto nor a factor"),
    (["train", "--waves", "die=\u0660,from=1,to=2"], "is not of the form `die=0,from=1000,to=2000`"),
    (["train", "--device", "serial:x@\u0661\u0661"], "is none of cosim, golden, numpy and serial:PORT[@BAUD]"),
    (["train", "--device", "serial:x@1\u0661"], "is none of cosim, golden, numpy and serial:PORT[@BAUD]"),
    (["plan", "lenet-c", "--shares", "0.\u0661"], "are not numbers from 0 to 1"),
    (["plan", "lenet-c", "--array", "ring-1\u0661"], "is unknown"),
    (["simulate", "lenet-c", "--slow", "\u0663=2"], "is not a die, once, and a factor"),
])
def test_bad_input_gives_one_line_and_code_two(capsys, tmp_path, monkeypatch, arguments, needle) -> None:
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert needle in err
    assert err.startswith("plinth: error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_no_option_takes_a_number_that_is_not_finite(text: str, capsys) -> None:
    """Comparisons with bounds let NaN pass."""
    tried = [(name, option.opts[0]) for name, command in commands.cli.commands.items() for option in command.params
             if isinstance(option.type, click.FloatRange)]
    assert ("train", "--kinks") in tried
    for command, option in tried:
        code, _, err = run(capsys, command, option, text)
        assert code == 2 and err.count("\n") == 1 and f"Invalid value for '{option}'" in err


def _empty() -> list[list[str]]:
    """Each command with nothing in the place of each file, folder and name that it takes."""
    command_lines = []
    for name, command in commands.cli.commands.items():
        arguments = {argument.name: argument.type.choices[0] if isinstance(argument.type, click.Choice)
                     else "digits-mlp"
                     for argument in command.params if isinstance(argument, click.Argument)}
        for parameter in command.params:
            if isinstance(parameter.type, (click.Path, Name)):
                places = dict(arguments)
                if isinstance(parameter, click.Argument):
                    places[parameter.name] = ""
                    command_lines.append([name, *places.values()])
                else:
                    command_lines.append([name, *places.values(), parameter.opts[0], ""])
    return command_lines


@pytest.mark.parametrize("arguments", _empty(), ids=" ".join)
def test_an_empty_text_names_nothing(arguments: list[str], capsys, tmp_path, monkeypatch) -> None:
    """As of a shell's variable that is not set."""
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    monkeypatch.chdir(tmp_path)
    for name in ("report.json", "plan.json"):
        (tmp_path / name).write_text("mine")
    code, _, err = run(capsys, *arguments)
    assert code == 2 and err.count("\n") == 1
    assert "'' names nothing" in err or "'' is a folder, a pipe or a device; give the name of a file" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "report.json"]


def test_every_path_of_a_command_is_one_of_our_types() -> None:
    """Click's own take an empty text for the working folder, NaN for a number, and digits of any script."""
    for name, command in commands.cli.commands.items():
        for parameter in command.params:
            kind = type(parameter.type)
            assert kind not in (click.Path, click.FloatRange, click.IntRange, type(click.INT), type(click.FLOAT)), (
                name, parameter.name)


def test_a_checkpoint_of_tiles_is_evaluated_as_it_was_trained(tmp_path, capsys) -> None:
    """The options that the refusal names read it; what `plinth convert` makes of it is another function."""
    path, other = str(tmp_path / "w.npz"), str(tmp_path / "made" / "v.npz")
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "few.npz", x=generator.random((40, 1, 8, 8), dtype=np.float32),
             y=generator.integers(0, 10, 40))
    few = ["--data", str(tmp_path / "few.npz")]
    tiles = ["--winograd", "2", "--weights", "winograd"]
    assert run(capsys, *golden(tmp_path, *tiles, *few, "--epochs", "1", "--batch", "16", "--save", path),
               "digits-cnn")[0] == 0
    report = json.loads((tmp_path / "report.json").read_text())
    code, _, err = run(capsys, "eval", path, "--network", "digits-cnn")
    assert code == 2 and "; say --winograd 2 --weights winograd, as it was trained (`plinth convert` makes" in err
    code, out, _ = run(capsys, "eval", path, "--network", "digits-cnn", *tiles, *few, "--json")
    assert code == 0
    assert json.loads(out)["test_loss"] == report["test_loss"]
    code, out, _ = run(capsys, "convert", path, other, "--network", "digits-cnn")
    assert code == 0 and out.startswith("note: this is another function: ") and out.endswith(f"checkpoint: {other}\n")
    code, out, _ = run(capsys, "eval", other, "--network", "digits-cnn", *few, "--json")
    assert code == 0 and json.loads(out)["test_loss"] != report["test_loss"]


@pytest.mark.parametrize("link", [False, True])
def test_a_checkpoint_is_not_converted_into_itself(tmp_path, capsys, link: bool) -> None:
    network = load_network("digits-cnn")
    path, target = tmp_path / "w.npz", tmp_path / "v.npz"
    checkpoint.save(path, network, checkpoint.Checkpoint(initial_parameters(network, 0), 1, 0))
    if link:
        target.symlink_to(path)
    before = path.read_bytes()
    code, _, err = run(capsys, "convert", str(path), str(target if link else path), "--network", "digits-cnn",
                       "--winograd", "2", "--weights", "winograd")
    assert code == 2 and err.count("\n") == 1
    assert "is the file of SOURCE, which would be lost; choose another place" in err
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x93NUMPY"])
def test_a_damaged_checkpoint_is_named(capsys, tmp_path, content: bytes) -> None:
    path = tmp_path / "w.npz"
    path.write_bytes(content)
    code, _, err = run(capsys, "eval", str(path))
    assert code == 2
    assert str(path) in err
    assert err.count("\n") == 1


def test_a_checkpoint_with_pickled_objects_is_refused(capsys, tmp_path) -> None:
    path = tmp_path / "w.npz"
    header = json.dumps({"version": 1, "network": "digits-mlp", "epoch": 1, "seed": 0,
                         "layers": ["fc1", "fc2", "fc3"]})
    np.savez(path, header=np.frombuffer(header.encode(), dtype=np.uint8), fc1=np.array([{}], dtype=object))
    code, _, err = run(capsys, "eval", str(path))
    assert code == 2
    assert "damaged or not a checkpoint" in err


def test_a_failed_run_leaves_no_report_of_an_earlier_one(capsys, tmp_path) -> None:
    assert run(capsys, *golden(tmp_path, "--steps", "1"))[0] == 0
    assert (tmp_path / "report.json").exists()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plinth.train.session.Session.epoch", interrupted)
        code, _, err = run(capsys, *golden(tmp_path, "--steps", "1"))
    assert code == 130
    assert "interrupted" in err
    assert not (tmp_path / "report.json").exists()


def test_a_checkpoint_holds_layers_of_any_name(tmp_path) -> None:
    names = ("header", "file", "allow_pickle")
    network = Network(name="odd", input=Shape((2,)), layers=(
        *(Dense(name=name, outputs=3) for name in names), SoftmaxCrossEntropy(name="loss")))
    parameters = initial_parameters(network, 0)
    checkpoint.save(tmp_path / "w.npz", network, checkpoint.Checkpoint(parameters, 1, 0))
    loaded = checkpoint.load(tmp_path / "w.npz", network)
    assert loaded.parameters.keys() == parameters.keys()
    assert all(np.array_equal(loaded.parameters[name], values) for name, values in parameters.items())


def test_list_names_networks_arrays_and_presets(capsys) -> None:
    code, out, _ = run(capsys, "list", "--json")
    report = check_report(json.loads(out), "list", "list")
    assert code == 0
    assert {row["name"]: row["parameters"] for row in report["networks"]}["digits-mlp"] == 17_226
    assert {"hypar-16", "torus-16", "ring-4", "full-4"} <= {row["name"] for row in report["arrays"]}
    assert "ndp-demo" in {row["name"] for row in report["presets"]}
    code, out, _ = run(capsys, "list")
    assert all(row["name"] in out for what in ("networks", "arrays", "presets") for row in report[what])
    assert "\u2026" not in out


@pytest.mark.parametrize("what", ["network", "array"])
def test_schema_prints_json_schema(capsys, what: str) -> None:
    code, out, _ = run(capsys, "schema", what)
    assert code == 0
    assert json.loads(out)["properties"]["version"]


def test_a_layer_that_cannot_be_lowered_is_named(capsys, tmp_path) -> None:
    (tmp_path / "net.yaml").write_text("version: 2\nname: net\ninput: [64]\nlayers:\n"
                                       "- {name: early, kind: relu}\n"
                                       "- {name: two, kind: dense, outputs: 10}\n"
                                       "- {name: loss, kind: softmax-cross-entropy}\n")
    code, _, err = run(capsys, "train", str(tmp_path / "net.yaml"), "--device", "golden", "--out", str(tmp_path))
    assert code == 2
    assert "layer 'early' (relu) stands before the first layer with weights" in err
    assert "such a network can be planned but not lowered" in err


def test_a_format_alone_is_that_of_the_machine_of_its_name() -> None:
    assert [preset_of(None, name) for name in FORMATS] == ["ndp-demo", "ndp-demo-mixed", "fpga-demo"]


def test_every_bench_can_be_asked_for_by_name() -> None:
    from plinth.bench.rows import BENCHES

    assert set(names.BENCH_NAMES) == set(BENCHES)


@pytest.mark.parametrize(("options", "reason"), [
    (("--update", "sgd", "--momentum", "0.5"), "update 'sgd' has no --momentum; leave it out"),
    (("--update", "momentum", "--epsilon", "0.5"), "update 'momentum' has no --epsilon; leave it out"),
    (("--change",), "without --resume there is none; leave it out"),
    (("--threads", "2"), "which --device golden does not run; leave one of them out"),
    (("--scale", "1,5"), "y are classes, which are not scaled, by 5 neither; give --scale one factor, of samples")])
def test_an_option_of_which_nothing_would_come_is_refused(options: tuple[str, ...], reason: str, tmp_path, capsys
                                                          ) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, x=np.ones((256, 64), np.float32), y=np.zeros(256, np.int64))
    code, _, err = run(capsys, "train", "--device", "golden", "--dies", "1", "--steps", "1", "--data", str(data),
                       "--out", str(tmp_path), *options)
    assert code == 2 and err.count("\n") == 1 and reason in err
