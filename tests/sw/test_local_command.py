"""`plinth train --local` and ``plinth.train_locally``: reports, pictures, checkpoints, and what is refused."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.dies import SERIAL
from tests.support.local import WIDTHS, dataset, network
from tests.support.ranks import commands

import plinth
from plinth import cli
from plinth.driver.driver import Driver
from plinth.driver.line import LineError
from plinth.files.reports import check_report
from plinth.local.kernels import DeviceKernel
from plinth.local.sets import Answer, LocalSet
from plinth.network.file import network_to_yaml
from plinth_hw.isa.parameters import PRESETS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with network and samples."""
    data = dataset(300)
    (tmp_path / "small.yaml").write_text(network_to_yaml(network()))
    np.savez(tmp_path / "sums.npz", x=data.train_x, y=data.train_y)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(capsys: Any, *arguments: str) -> dict[str, Any]:
    cli.main(["train", "small.yaml", "--data", "sums.npz", "--batch", "20", "--epochs", "10", "--out", "out",
              "--json", *arguments])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def refused(capsys: Any, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "small.yaml", "--data", "sums.npz", "--batch", "20", "--out", "out", *arguments])
    lines: list[str] = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2 and lines[-1].startswith("plinth: error: "), lines
    assert [line for line in lines[:-1] if not line.startswith(("note: ", "kernel "))] == []
    return lines[-1]


def test_a_run_says_what_happened(folder: Path, capsys: Any) -> None:
    report = train(capsys, "--local", "1/2", "--kernels", "2*numpy,golden:fpga-tiny/2", "--clock", "virtual", "--push",
                   "4", "--save", "w.npz")
    check_report(report, "report", "local")
    assert report == json.loads((folder / "out" / "report.json").read_text())
    assert (folder / "out" / "report.png").read_bytes().startswith(b"\x89PNG")
    assert report["layer_widths"] == list(WIDTHS) and report["push"] == 4 and report["ended"] == "batches"
    assert [kernel["kernel"] for kernel in report["kernels"]] == ["numpy", "numpy", "golden:fpga-tiny/2"]
    assert all(kernel["layer_widths"] == [12, 8, 4, 4] and kernel["merged_sets"] > 0 for kernel in report["kernels"])
    assert report["merged_batches"] == sum(kernel["merged_batches"] for kernel in report["kernels"]) >= 120
    assert report["curve"][-1]["exchanged_words"] <= sum(
        kernel["set_words"] + kernel["answer_words"] for kernel in report["kernels"])
    assert [baseline["dropped_share"] for baseline in report["synchronous"]] == [0.0, 0.5]
    cli.main(["eval", "w.npz", "--network", "small.yaml", "--data", "sums.npz", "--json"])
    assert json.loads(capsys.readouterr().out)["test_accuracy"] == report["test_accuracy"]


def test_what_was_saved_of_projected_and_scaled_samples_is_evaluated(folder: Path, capsys: Any) -> None:
    report = train(capsys, "--local", "5,8,4,4", "--kernels", "numpy,golden:fpga-tiny", "--clock", "virtual", "--push",
                   "4", "--scale", "0.5", "--no-baseline", "--save", "w.npz")
    assert report["projection"]["size"] == 5
    cli.main(["eval", "w.npz", "--network", "small.yaml", "--data", "sums.npz", "--projection", "w.projection.npz",
              "--json"])
    assert json.loads(capsys.readouterr().out)["test_accuracy"] == report["test_accuracy"]
    with pytest.raises(SystemExit):
        cli.main(["eval", "w.npz", "--network", "digits-mlp", "--projection", "w.projection.npz"])
    assert "projects samples of 12 features, and network 'digits-mlp' reads 64" in capsys.readouterr().err


def test_layers_that_stay_whole_are_trained_and_compared_with_a_baseline(folder: Path, capsys: Any) -> None:
    """A residual block: its layers are added up, and no share of their units is left out."""
    (folder / "small.yaml").write_text("""
version: 2
name: residual
input: [12]
layers:
- {name: fc1, kind: dense, outputs: 8}
- {name: tanh1, kind: tanh}
- {name: fc2, kind: dense, outputs: 8}
- {name: sum, kind: add, inputs: [tanh1, fc2]}
- {name: fc3, kind: dense, outputs: 6}
- {name: tanh3, kind: tanh}
- {name: out, kind: dense, outputs: 4}
- {name: loss, kind: softmax-cross-entropy}
""")
    report = train(capsys, "--local", "1/2", "--kernels", "numpy", "--clock", "virtual", "--push", "4")
    assert report["kernels"][0]["layer_widths"] == [12, 8, 8, 3, 4] and len(report["synchronous"]) == 2


def test_an_interruption_saves_and_trains_no_baseline(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
                                                      ) -> None:
    from plinth.local.coordinator import Coordinator

    take = Coordinator._take

    def interrupted(self: Coordinator, kernel: int, content: Any) -> bool:
        if self.merged == 5:
            raise KeyboardInterrupt
        return take(self, kernel, content)

    monkeypatch.setattr(Coordinator, "_take", interrupted)
    with pytest.raises(SystemExit) as stop:
        train(capsys, "--local", "1/2", "--clock", "virtual", "--push", "2", "--save", "w.npz")
    report = json.loads((folder / "out" / "report.json").read_text())
    assert stop.value.code == 130 and report["ended"] == "interrupted" and not report["synchronous"]
    assert (folder / "w.npz").exists()


def test_an_interrupted_baseline_costs_nothing_else(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
                                                    ) -> None:
    from plinth.local import job

    baselines = job._baselines

    def interrupted(*arguments: Any) -> Iterator[Any]:
        yield next(iter(baselines(*arguments)))
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "_baselines", interrupted)
    report = train(capsys, "--local", "1/2", "--clock", "virtual", "--push", "2", "--epochs", "2", "--save", "w.npz")
    assert report["ended"] == "batches" and len(report["synchronous"]) == 1 and (folder / "w.npz").exists()


def test_a_checkpoint_that_cannot_be_written_does_not_cost_the_report(folder: Path, capsys: Any,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    from plinth.train import checkpoint

    def full(*_: Any) -> None:
        raise plinth.Error("w.npz: cannot be written (No space left on device); choose another place")

    monkeypatch.setattr(checkpoint, "save", full)
    assert "No space left" in refused(capsys, "--local", "1/2", "--clock", "virtual", "--push", "2", "--epochs", "2",
                                      "--no-baseline", "--save", "w.npz")
    assert json.loads((folder / "out" / "report.json").read_text())["ended"] == "batches"


def test_a_virtual_clock_repeats_all_but_the_host_s_times(folder: Path, capsys: Any) -> None:
    reports = [train(capsys, "--local", "12,8,4,4", "--clock", "virtual", "--no-baseline") for _ in range(2)]
    for report in reports:
        assert report["corrected_push"] is not None and report["push"] >= 5
        for name in ("wall_seconds", "setup_seconds"):
            del report[name]
        for kernel in report["kernels"]:
            del kernel["seconds"]
    assert reports[0] == reports[1]


def test_python_trains_as_the_command(folder: Path, capsys: Any) -> None:
    report = train(capsys, "--local", "1/2", "--clock", "virtual", "--no-baseline", "--push", "3", "--seed", "5")
    told: list[str] = []
    run = plinth.train_locally("small.yaml", "sums.npz", local="1/2", clock="virtual", push=3, seed=5, batch=20,
                               epochs=10, progress=lambda done, total, text: told.append(text))
    assert run.report["curve"] == report["curve"] and run.accuracy == report["test_accuracy"]
    assert set(run.parameters) == set(network().variables) and "3 kernels" not in repr(run)
    assert "by local networks on 2 kernels" in repr(run) and any("sets: numpy" in text for text in told)
    assert run._repr_html_().count("data:image/png") == 1


def test_a_run_ends_by_accuracy(folder: Path, capsys: Any) -> None:
    report = train(capsys, "--local", "1/1", "--clock", "virtual", "--no-baseline", "--push", "2", "--accuracy", "0.5",
                   "--epochs", "100")
    assert report["ended"] == "accuracy" and report["test_accuracy"] >= 0.5


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden dies fail at once."""
    trained = DeviceKernel.train

    def failing(self: DeviceKernel, given: LocalSet) -> Answer:
        if isinstance(self._opened().executor, Driver):
            raise LineError("the line is cut")
        return trained(self, given)

    monkeypatch.setattr(DeviceKernel, "train", failing)


@pytest.mark.usefixtures("cut")
def test_kernels_that_are_all_lost_leave_a_report(folder: Path, capsys: Any) -> None:
    error = refused(capsys, "--local", "1/2", "--kernels", "golden:fpga-tiny", "--push", "2")
    assert "all kernels were lost: kernel 0 (golden:fpga-tiny) is left out after 0 sets: the line is cut" in error
    report = json.loads((folder / "out" / "report.json").read_text())
    assert report["ended"] == "lost" and report["kernels"][0]["lost"] and report["test_accuracy"] is None


@pytest.mark.usefixtures("cut")
def test_a_kernel_that_is_lost_is_named_and_others_go_on(folder: Path, capsys: Any) -> None:
    report = train(capsys, "--local", "1/2", "--kernels", "golden:fpga-tiny,numpy", "--push", "2")
    assert report["ended"] == "batches" and report["kernels"][1]["merged_sets"] > 50
    assert report["incidents"] == ["kernel 0 (golden:fpga-tiny) is left out after 0 sets: the line is cut"]


@pytest.mark.parametrize(("arguments", "said"), [
    (("--clock", "real"), "--clock is of local networks; give --local as well"),
    (("--local", "1/2", "--dies", "2"), "--dies is not of training by local networks"),
    (("--local", "1/2", "--device", "golden"), "--device is not of training by local networks"),
    (("--local", "0/2"), "--local 0/2: a share of the units must be above 0"),
    (("--local", "half"), "give widths with commas between, such as 12,16,8,4"),
    (("--local", "12,32,8,4"), "local widths of layer 'fc1' must be from 1 to 16, not 32"),
    (("--local", "12,8,4"), "must be as many as its own, which are 12, 16, 8, 4, not 3 widths"),
    (("--local", "1/2", "--kernels", "0*numpy"), "asks for no kernel"),
    (("--local", "1/2", "--kernels", "gpu"), "there is no kernel 'gpu'"),
    (("--local", "1/2", "--push", "0"), "give a number of batches from 1, or one of corrected, printed, measured"),
    (("--local", "1/2", "--batch", "300"), "a batch of 300 is larger than the 240 training samples"),
    (("--local", "1/2", "--kernels", "golden:ndp-tiny,golden:hypar-tiny", "--update", "rmsprop", "--kernels",
      "golden:fpga-tiny"), "where no engine has update 'rmsprop'"),
    (("--local", "1/2", "--rate", "1e38"), "no loss is finite where n_push is tuned"),
    (("--local", "1/2", "--kernels", "numpy/99999999999"), "too slow a one"),
    (("--local", "12,16,8,4", "--kernels", "golden:little"), "what fits is --local 12,"),
    (("--local", "1/2", "--save", "out/report.json"), "report.json"),
    (("--local", "1/2", "--push", "2", "--kernels", "numpy,serial:fpga-tiny:/nowhere"),
     "kernel 1 (serial:fpga-tiny:/nowhere) does not start: /nowhere: ")], ids=" ".join)
def test_what_cannot_be_is_refused_in_a_line(arguments: tuple[str, ...], said: str, folder: Path, capsys: Any,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    # Whose memory takes a part of the network alone.
    monkeypatch.setitem(PRESETS, "little", replace(SERIAL, name="little", block_ram_words=38 << 8))
    assert said in refused(capsys, *arguments)
    assert not (folder / "out" / "report.json").exists()


@pytest.mark.parametrize(("settings", "said"), [
    ({"local": 3}, "local must be widths"), ({"local": (12, 8, 4.5, 4)}, "must be from 1 to 8, not 4.5"),
    ({"kernels": 3}, "kernels must be a text"), ({"push": 0}, "push must be an integer from 1"),
    ({"merge": "mean"}, "merge must be one of"), ({"clock": "wall"}, "clock must be one of"),
    ({"accuracy": 2}, "accuracy must be a finite number from 0 to 1"),
    ({"profiles": "p.json"}, "profiles must be a list"),
    ({"patience": 0}, "patience must be a finite number from 0.001"), ({"update": "adam"}, "update must be one of")])
def test_arguments_are_refused_in_a_line(settings: dict[str, Any], said: str, folder: Path) -> None:
    with pytest.raises(plinth.Error) as error:
        plinth.train_locally("small.yaml", "sums.npz", **settings)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_ranks_have_the_kernels(folder: Path) -> None:
    """Three ranks, two of which have three kernels; then ranks with different seeds, and one whose port is missing."""
    def case(*arguments: str) -> list[str]:
        return ["run", str(folder / "small.yaml"), "--data", str(folder / "sums.npz"), "--batch", "20", "--epochs",
                "10", "--local", "1/2", "--push", "2", "--kernels", "2*numpy,golden:fpga-tiny", "--no-baseline",
                "--out", str(folder / "ranks"), "--json", *arguments]

    missing = case("--kernels", "2*numpy,serial:fpga-tiny:/nowhere,numpy")
    good, odd, absent = commands(3, [[case()] * 3, [case(), case("--seed", "3"), case()], [missing] * 3])
    assert [code for code, _, _ in good] == [0, 0, 0], good
    report = json.loads(good[0][1])
    assert report["ended"] == "batches" and sum(kernel["merged_sets"] for kernel in report["kernels"]) >= 60
    assert sum(kernel["merged_sets"] > 0 for kernel in report["kernels"]) >= 2 and not report["incidents"]
    assert [code for code, _, _ in odd] == [2, 2, 2]
    assert sum("processes have different settings" in error for _, _, error in odd) == 1
    assert [code for code, _, _ in absent] == [2, 0, 0]
    assert "error: kernel 2 (serial:fpga-tiny:/nowhere) does not start: /nowhere: " in absent[0][2]


@pytest.mark.long
def test_two_dies_in_rtl_and_a_host_train_the_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To 95 %, with the golden model's bits after every set."""
    monkeypatch.chdir(tmp_path)
    run = plinth.train_locally("digits-tanh", local="1/2", kernels="2*fpga-demo,1*numpy", clock="virtual", push=10,
                               accuracy=0.95)
    first, second, host = run.report["kernels"]
    assert run.accuracy is not None and run.accuracy >= 0.95 and run.report["ended"] == "accuracy"
    assert first["bit_exact"] is second["bit_exact"] is True and host["bit_exact"] is None
    assert min(first["merged_sets"], second["merged_sets"], host["merged_sets"]) > 1
