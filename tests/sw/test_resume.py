"""Checkpoints: written at the end of every run, also within an epoch, with all that decides the run; and going on."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plinth import cli
from plinth.network.file import network_to_yaml
from plinth.network.network import perceptron
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.train import checkpoint
from plinth.train.session import Session, StepResult
from plinth.train.settings import network_digest, tiles_of

#: Steps of an epoch of the 32 samples to train with.
STEPS = 4
NETWORK = perceptron("small", (4, 6, 3))


def write(folder: Path) -> list[str]:
    """A network and samples for it; the command that trains them."""
    (folder / "net.yaml").write_text(network_to_yaml(NETWORK))
    generator = np.random.default_rng(0)
    np.savez(folder / "my.npz", x=generator.random((40, 4)), y=np.arange(40) % 3)
    return ["train", str(folder / "net.yaml"), "--data", str(folder / "my.npz"), "--device", "golden", "--out",
            str(folder / "out")]


FIRST = ("--batch", "8", "--dies", "2", "--epochs", "3")


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, output on one line, errors."""
    code = 0
    try:
        cli.main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, error = capsys.readouterr()
    return code, " ".join(out.split()), error


def equal(left: str, right: str) -> bool:
    """Whether two checkpoints have the same bits and header."""
    with np.load(left) as first, np.load(right) as second:
        return first.files == second.files and all(np.array_equal(first[name], second[name]) for name in first.files)


@pytest.fixture(autouse=True)
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all else of these runs."""
    monkeypatch.setattr("plinth.report.picture.draw", lambda *_: None)


@pytest.mark.parametrize("rule", [
    (), ("--update", "momentum", "--momentum", "0.5"), ("--update", "adagrad", "--epsilon", "0.001", "--rate", "0.02"),
    ("--update", "rmsprop", "--decay", "0.8", "--epsilon", "0.001"),
    ("--machine", "fpga", "--update", "momentum", "--wide"),
    ("--machine", "fpga", "--update", "momentum", "--stochastic", "--seed", "4")],
    ids=lambda rule: "-".join(word.lstrip("-") for word in rule) or "sgd")
def test_a_run_that_ends_within_an_epoch_goes_on_with_the_next_batch(rule: tuple[str, ...], tmp_path: Path,
                                                                     capsys: pytest.CaptureFixture[str]) -> None:
    """To the bits of a run that never stopped, with nothing said again."""
    job, (whole, part, rest) = write(tmp_path), [str(tmp_path / f"{name}.npz") for name in ("whole", "part", "rest")]
    code, _, error = run([*job, *FIRST, *rule, "--save", whole], capsys)
    assert code == 0, error
    assert run([*job, *FIRST, *rule, "--save", part, "--steps", str(STEPS + 3)], capsys)[0] == 0
    header = checkpoint.load_header(Path(part))
    assert (header.epoch, header.step) == (1, 3)
    code, out, error = run([*job, "--resume", part, "--save", rest], capsys)
    assert code == 0 and "note" not in error + out
    assert equal(whole, rest)
    assert json.loads((tmp_path / "out" / "report.json").read_text())["steps"] == STEPS + 1


@pytest.mark.parametrize("last", [0, 2, STEPS - 1, STEPS])
def test_an_interrupted_run_keeps_the_last_step(last: int, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    job, (whole, part) = write(tmp_path), [str(tmp_path / f"{name}.npz") for name in ("whole", "part")]
    epoch = Session.epoch

    def interrupted(self: Session, *arguments: Any) -> Iterator[StepResult]:
        for result in epoch(self, *arguments):
            yield result
            if result.epoch * STEPS + result.step == last:
                self._load(np.zeros((1, 8), np.int64))
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Session, "epoch", interrupted)
        assert run([*job, *FIRST, "--save", part], capsys)[0] == 130
    header = checkpoint.load_header(Path(part))
    assert (header.epoch, header.step) == divmod(last + 1, STEPS)
    for arguments in (["--resume", part, "--save", part], [*FIRST, "--save", whole]):
        assert run([*job, *arguments], capsys)[0] == 0
    assert equal(whole, part)


def test_weights_of_a_failed_step_are_not_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plinth.train.checks.Checks.step", lambda self, *_: self.fail("step 1: wrong"))
    code, _, error = run([*write(tmp_path), *FIRST, "--save", str(tmp_path / "w.npz"), "--steps", "1"], capsys)
    assert code == 2 and "step 1: wrong" in error and not (tmp_path / "w.npz").exists()


@pytest.fixture
def saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A checkpoint after one epoch and a step."""
    path = str(tmp_path / "w.npz")
    assert run([*write(tmp_path), *FIRST, "--save", path, "--steps", str(STEPS + 1)], capsys)[0] == 0
    return path


@pytest.mark.parametrize(("options", "before", "now"), [
    (("--batch", "4"), "--batch 8", "--batch 4"),
    (("--rate", "0.1", "--seed", "3"), "--seed 0, --rate 0.15", "--seed 3, --rate 0.1"),
    (("--update", "momentum"), "--update sgd", "--update momentum, --momentum 0.9"),
    (("--update", "rmsprop", "--decay", "0.8"), "--update sgd, --rate 0.15",
     "--update rmsprop, --rate 0.003, --epsilon 1e-08, --decay 0.8"),
    (("--format", "mixed"), "--format fp32", "--format mixed"),
    (("--machine", "fpga", "--update", "sgd", "--stochastic"), "rounding to nearest, --format fp32",
     "--stochastic, --format fixed"),
    (("--scale", "2"), "--scale 1", "--scale 2"),
])
def test_other_settings_are_refused_or_said(options: tuple[str, ...], before: str, now: str, saved: str, tmp_path: Path,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*write(tmp_path), "--resume", saved, *options]
    code, _, error = run(arguments, capsys)
    assert code == 2 and error.count("\n") == 1 and f"{saved}: was trained with {before}, not {now}; go on as" in error
    code, _, error = run([*arguments, "--change", "--steps", "1"], capsys)
    assert code == 0 and f"note: {saved} was trained with {before}; training goes on with {now}" in error
    assert ("begins anew" in error) == ("--batch" in options or "--seed" in options)


def test_other_samples_and_layers_are_other_settings(saved: str, tmp_path: Path,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    job = write(tmp_path)
    np.savez(tmp_path / "other.npz", x=np.full((40, 4), 0.5), y=np.arange(40) % 3)
    code, _, error = run([*job, "--resume", saved, "--data", str(tmp_path / "other.npz")], capsys)
    assert code == 2 and "was trained with --data my.npz (SHA-256 " in error and "not --data other.npz (SHA" in error
    (tmp_path / "net.yaml").write_text(network_to_yaml(NETWORK).replace("kind: relu", "kind: tanh"))
    code, _, error = run([*job, "--resume", saved], capsys)
    assert code == 2 and "was trained with a network of definition " in error


def test_tiles_are_no_part_of_a_network_but_a_setting() -> None:
    plain = NETWORKS["digits-cnn"]
    tiles = with_tiles(plain, 2, "winograd")
    assert network_digest(plain) == network_digest(tiles) != network_digest(NETWORKS["digits-mlp"])
    assert not tiles_of(plain) and "conv" in tiles_of(tiles) and tiles_of(tiles) != tiles_of(with_tiles(plain, 2, None))


def test_where_a_run_goes_on_may_differ(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights are those of any number of dies; that sums are rounded otherwise is said."""
    code, _, error = run([*write(tmp_path), "--resume", saved, "--array", "full-4", "--steps", "1"], capsys)
    assert code == 0 and "on 2 x ndp-demo as ring-2, planner joint; training goes on on 4 x ndp-demo as full-4" in error


def test_a_run_goes_on_with_the_model_that_its_planner_went_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]
                                                               ) -> None:
    """Another model may split the network in another way, whose sums are in another order."""
    saved, out = str(tmp_path / "run.npz"), tmp_path / "out"
    train = ["train", "--device", "golden", "--out", str(out), "--steps", "1"]
    run([*train, "digits-cnn", "--planner", "hypar", "--model", "published", "--batch", "16", "--save", saved], capsys)
    before = (out / "plan.json").read_text()
    code, _, error = run([*train, "--resume", saved], capsys)
    assert code == 0 and "note" not in error and (out / "plan.json").read_text() == before
    code, _, error = run([*train, "--resume", saved, "--model", "exact"], capsys)
    assert code == 0 and "planner hypar, model published; training goes on on 4 x ndp-demo" in error
    altered(saved, {"model": "other"})
    assert run([*train, "--resume", saved], capsys)[0] == 0
    altered(saved, {"model": 3})
    assert "model must be a text, not 3" in run([*train, "--resume", saved], capsys)[2]


def flat_arrays(saved: str) -> dict[str, Any]:
    """Of a checkpoint as versions 1 and 2 held them, header included."""
    with np.load(saved) as file:
        held = {name: file[name] for name in file.files}
    arrays = {layer + behind: np.concatenate([held[f"{layer}.{name}{behind}"].ravel() for name in ("weights", "bias")])
              for layer in ("fc1", "fc2") for behind in ("", ":state") if f"{layer}.weights{behind}" in held}
    return {"header": held["header"], **arrays}


def test_the_first_version_is_read(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = flat_arrays(saved)
    header = {"version": 1, "network": "small", "epoch": 1, "seed": 0, "layers": ["fc1", "fc2"]}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(saved, **arrays)
    code, _, error = run([*write(tmp_path), *FIRST, "--resume", saved], capsys)
    assert code == 0 and f"note: {saved} does not say batch, update, format and samples" in error
    code, _, error = run([*write(tmp_path), *FIRST, "--resume", saved, "--seed", "1"], capsys)
    assert code == 2 and "was trained with --seed 0, not --seed 1" in error


def test_the_second_version_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its arrays are flat; what they are is the same, states included."""
    path, old = tmp_path / "w.npz", tmp_path / "old.npz"
    assert run([*write(tmp_path), *FIRST, "--update", "momentum", "--steps", "1", "--save", str(path)], capsys)[0] == 0
    arrays = flat_arrays(str(path))
    header = json.loads(arrays["header"].tobytes()) | {"version": 2}
    np.savez(old, **arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    new, converted = (checkpoint.load(file, NETWORK) for file in (path, old))
    assert converted.parameters.keys() == converted.kept.keys() == NETWORK.variables.keys()
    for name, values in new.parameters.items():
        np.testing.assert_array_equal(converted.parameters[name], values)
        np.testing.assert_array_equal(converted.kept[name]["state"], new.kept[name]["state"])
    assert replace(converted, parameters={}, kept={}) == replace(new, parameters={}, kept={})


@pytest.mark.parametrize(("change", "message"), [
    ({"step": -1}, "step must be an integer from 0"), ({"generators": [0]}, "generators must be a list of integers"),
    ({"state_scale": -1.0}, "state_scale must be a number above 0"),
    ({"step": 99}, "has done 99 steps of an epoch of 4"),
    ({"settings": {"batch": 8}}, "key 'epochs' is missing"), ({"settings": None}, "is a mapping"),
    ({"batch": "8"}, "batch must be an integer from 1 to 1048576, not the text '8'"),
    ({"number_format": "fp8"}, "number_format must be one of fp32, mixed, fixed"),
    ({"scale": {"inputs": 0, "targets": 1}}, "a scale must be above 0"), ({"tiles": 3}, "tiles must be a text"),
    ({"rule": {"kind": "lars"}}, "key 'rate' is missing"), ({"tile_options": {"batch": "4"}}, "unknown key 'batch'"),
    ({"tile_options": {"winograd": "9"}}, "'9' is not one of 'off', 'auto', '2', '4'"),
])
def test_headers_are_read_as_untrusted(change: dict[str, Any], message: str, saved: str, tmp_path: Path,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(saved) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes())
    place = header if change.keys() & {"settings", "step", "generators", "state_scale"} else header["settings"]
    place.update(change)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(saved, **arrays)
    code, _, error = run([*write(tmp_path), "--resume", saved], capsys)
    assert code == 2 and error.count("\n") == 1 and message in error


def test_headers_from_before_a_number_there_was_are_read(saved: str, tmp_path: Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    """Without the decay, which came with RMSProp; with one out of its range they are refused."""
    with np.load(saved) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes())
    for decay, message in (({}, ""), ({"decay": 2.0}, f"{saved}: decay must be from 0 to below 1, not 2.0")):
        header["settings"]["rule"] = {key: value for key, value in header["settings"]["rule"].items()
                                      if key != "decay"} | decay
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        np.savez(saved, **arrays)
        code, _, error = run([*write(tmp_path), "--resume", saved, "--steps", "1"], capsys)
        assert code == (2 if message else 0) and message in error and (not message or error.count("\n") == 1)


def altered(path: str, settings: dict[str, Any], **arrays: Any) -> None:
    """Change settings of a checkpoint, rules' and others, and arrays."""
    with np.load(path) as file:
        stored = {name: file[name] for name in file.files}
    header = json.loads(stored["header"].tobytes())
    for name, value in settings.items():
        (header["settings"]["rule"] if name in header["settings"]["rule"] else header["settings"])[name] = value
    np.savez(path, **stored | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)} | arrays)


@pytest.mark.parametrize(("settings", "options", "message"), [
    ({"tile_options": {"winograd": "evil"}}, (),
     "its setting --winograd cannot be: 'evil' is not one of 'off', 'auto', '2', '4'; give a file that"),
    ({"tile_options": {"predict": "9"}}, (), "its setting --predict cannot be: '9' is not one of"),
    ({"dies": 4000, "array": "ring-4000"}, (), "training goes on with its --dies 4000: --dies 4000 cannot be"),
    ({"batch": 65536}, (), "training goes on with its --batch 65536: a batch of 65536 is larger than the 32 training"),
    ({"momentum": 0.5}, ("--batch", "4000"), ""),
    ({"wide": True}, (), "holds no state of update 'sgd wide'"),
    ({"kind": "momentum"}, (), "holds no state of update 'momentum', by which it was trained; go back to an earlier"),
])
def test_settings_of_a_checkpoint_are_blamed_on_it(settings: dict[str, Any], options: tuple[str, ...], message: str,
                                                   saved: str, tmp_path: Path,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    altered(saved, settings)
    code, _, error = run([*write(tmp_path), "--resume", saved, *options], capsys)
    assert code == 2 and error.count("\n") == 1
    assert f"plinth: error: {saved}: {message}" in error if message else saved not in error, error


@pytest.mark.parametrize("options", [(), ("--change",)])
def test_wide_weights_that_dies_do_not_have_are_the_checkpoints(options: tuple[str, ...], tmp_path: Path,
                                                                capsys: pytest.CaptureFixture[str]) -> None:
    job, path = write(tmp_path), str(tmp_path / "w.npz")
    assert run([*job, *FIRST, "--machine", "fpga", "--wide", "--steps", "1", "--save", path], capsys)[0] == 0
    code, _, error = run([*job, "--resume", path, "--format", "fp32", *options], capsys)
    assert code == 2 and error.count("\n") == 1
    assert f"{path}: training goes on with its --wide: dies of preset 'ndp-demo' compute in fp32" in error
    assert "give --narrow, or choose dies of fixed point, such as preset fpga-demo" in error
    code, _, error = run([*job, "--resume", path, "--format", "fp32", "--wide"], capsys)
    assert code == 2 and "training goes on with" not in error
    code, _, error = run([*job, "--resume", path, "--stochastic"], capsys)
    assert code == 2 and f"{path}: training goes on with its --wide: --stochastic rounds what has 16 bits" in error


def test_wide_weights_take_the_place_of_random_rounding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which the checkpoint gave and nobody typed."""
    job, path = write(tmp_path), str(tmp_path / "s.npz")
    assert run([*job, *FIRST, "--machine", "fpga", "--stochastic", "--update", "sgd", "--steps", "1", "--save", path],
               capsys)[0] == 0
    code, _, error = run([*job, "--resume", path, "--wide"], capsys)
    assert code == 2 and "give --change to go on with what is new" in error
    assert run([*job, "--resume", path, "--wide", "--change", "--steps", "1"], capsys)[0] == 0
    rule = json.loads((tmp_path / "out" / "report.json").read_text())["update_rule"]
    assert (rule["kind"], rule["wide"], rule["stochastic"]) == ("sgd", True, False)
    code, _, error = run([*job, "--resume", path, "--wide", "--stochastic", "--change"], capsys)
    assert code == 2 and "error: --stochastic rounds what has 16 bits" in error


def test_the_word_network_is_no_option(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Messages about it are not the checkpoint's."""
    altered(saved, {"data": "none", "network": "digits-mlp"})
    code, _, error = run(["train", "--device", "golden", "--out", str(tmp_path / "o"), "--resume", saved, "--memory",
                          "1", "--batch", "64"], capsys)
    assert code == 2 and "training goes on with its network" not in error, error


def test_what_only_evaluates_needs_no_state(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    altered(saved, {"kind": "momentum"})
    assert run(["eval", saved, "--network", str(tmp_path / "net.yaml"), "--data", str(tmp_path / "my.npz")],
               capsys)[0] == 0


def test_weights_and_states_beyond_all_training_are_the_checkpoints(tmp_path: Path,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    """No rate would help."""
    job, path = write(tmp_path), str(tmp_path / "w.npz")
    for name in ("fc1.weights", "fc1.weights:state"):
        assert run([*job, *FIRST, "--update", "momentum", "--steps", "1", "--save", path], capsys)[0] == 0
        with np.load(path) as file:
            values = np.array(file[name])
        values.flat[3] = 3e38
        altered(path, {}, **{name: values})
        code, _, error = run([*job, "--resume", path], capsys)
        assert code == 2 and error.count("\n") == 1 and "1 of 24 beyond the -1.15292e+18 to 1.15292e+18" in error
        assert "go back to an earlier checkpoint" in error and "--rate" not in error


def test_states_go_on_in_another_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Momentum of errors that are not scaled goes on where they are scaled by 1,024."""
    job, path = write(tmp_path), str(tmp_path / "w.npz")
    rule = ("--update", "momentum", "--steps", "1")
    assert run([*job, *FIRST, *rule, "--save", path], capsys)[0] == 0
    other = str(tmp_path / "v.npz")
    for number_format in ("fp32", "mixed"):
        assert run([*job, *FIRST, *rule, "--save", other if number_format == "mixed" else str(tmp_path / "u.npz"),
                    "--resume", path, "--change", "--format", number_format], capsys)[0] == 0
    plain, scaled = (checkpoint.load(Path(name), NETWORK) for name in (str(tmp_path / "u.npz"), other))
    for name in ("fc1.weights", "fc1.bias", "fc2.weights", "fc2.bias"):
        np.testing.assert_allclose(1024 * plain.kept[name]["state"], scaled.kept[name]["state"], rtol=0.05, atol=1e-1)


@pytest.mark.parametrize("options", [
    ("--batch", "4000"), ("--data", "missing.npz"), ("--dies", "0"), ("--resume", "missing.npz"),
    ("--device", "serial:/missing"), ("--memory", "1", "--batch", "32", "--array", "missing.yaml")])
def test_a_run_that_cannot_begin_leaves_all_of_an_earlier_one(options: tuple[str, ...], tmp_path: Path,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("report.json", "report.png", "plan.json", "mine.txt"):
        (out / name).write_text("earlier")
    assert run([*write(tmp_path), *options], capsys)[0] == 2
    assert len([path for path in out.iterdir() if path.read_text() == "earlier"]) == 4


def test_the_plan_of_an_earlier_run_can_be_trained_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, plan = write(tmp_path), tmp_path / "out" / "plan.json"
    assert run([*job, *FIRST, "--steps", "1"], capsys)[0] == 0
    before = plan.read_bytes()
    assert run([*job, "--plan", str(plan), "--steps", "1"], capsys)[0] == 0
    assert run(["train", str(plan), *job[2:], "--steps", "1"], capsys)[0] == 0
    assert plan.read_bytes() == before
