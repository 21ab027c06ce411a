"""``plinth train`` on the RTL, a few steps on small dies: bit-exact, as many words as planned, repeatable."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.dies import LINKED, MIXED, NDP, ROWS_FIXED, ROWS_MIXED
from tests.support.reports import assert_report_exact

from plinth import cli
from plinth.files.reports import check_report
from plinth_hw.isa.parameters import PRESETS, DieParameters

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiny-dies")]

#: Fields of the report that depend on the clock on the wall.
TIMES = {"wall_seconds", "setup_seconds", "die_cycles_per_second"}


def train(out: Path, *arguments: str) -> dict[str, Any]:
    cli.main(["train", "--preset", "ndp-tiny", "--batch", "16", "--out", str(out), *arguments])
    report: dict[str, Any] = json.loads((out / "report.json").read_text())
    return report


@pytest.mark.parametrize("dies", [1, 2, 4, 8])
def test_every_weight_equals_the_golden_run(dies: int, tmp_path: Path) -> None:
    report = train(tmp_path, "--dies", str(dies), "--steps", "3")
    assert report["bit_exact"] is True
    assert report["compared_steps"] == report["steps"] == 3
    assert report["gradient_error"] < 1e-4
    assert report["injected_words"] == sum(report["injected_words_by_die"]) == report["predicted_injected_words"]
    assert report["link_words"] == sum(map(sum, report["link_words_by_port"])) >= report["injected_words"]
    assert (report["predicted_injected_words"] > 0) == (dies > 1)
    check_report(report, "report.json", "train")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("die", [NDP, MIXED], ids=["fp32", "mixed"])
def test_rmsprop(die: DieParameters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of FP32 and of gradients of FP16 products."""
    monkeypatch.setitem(PRESETS, die.name, die)
    report = train(tmp_path, "--dies", "2", "--steps", "3", "--update", "rmsprop")
    assert_report_exact(report)
    assert report["failure"] is None and report["update_rule"]["kind"] == "rmsprop"


@pytest.mark.parametrize("array", ["full-4", pytest.param("torus-2x4", marks=pytest.mark.long)])
def test_other_arrays(array: str, tmp_path: Path) -> None:
    """Rings of members that are not neighbours, and transfers between any two dies, over links with a link layer."""
    report = train(tmp_path, "digits-mlp", "--preset", LINKED.name, "--array", array, "--planner", "hypar",
                   "--steps", "2")
    assert report["array"] == array
    assert_report_exact(report)


@pytest.mark.parametrize("network", ["digits-mlp", "digits-cnn"])
@pytest.mark.parametrize(("die", "number_format"), [(ROWS_MIXED, "mixed"), (ROWS_FIXED, "fixed")])
def test_row_stationary_dies_of_narrow_operands(network: str, die: DieParameters, number_format: str, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, die.name, die)
    report = train(tmp_path, network, "--dies", "2", "--steps", "3", "--preset", die.name, "--format", number_format)
    assert report["bit_exact"] is True
    assert report["compared_steps"] == 3
    assert report["gradient_error"] < 0.1


def test_a_users_own_network_samples_and_plan(tmp_path: Path) -> None:
    network, samples, plan = (tmp_path / name for name in ("my.yaml", "my.npz", "plan.yaml"))
    network.write_text("""version: 2
name: mine
input: [2, 6, 6]
layers:
  - {name: conv, kind: convolution, channels: 4, kernel: 3, padding: 1}
  - {name: tanh, kind: tanh}
  - {name: pool, kind: mean-pool, kernel: 2, stride: 2}
  - {name: flatten, kind: flatten}
  - {name: hidden, kind: dense, outputs: 12}
  - {name: sigmoid, kind: sigmoid}
  - {name: out, kind: dense, outputs: 3}
  - {name: loss, kind: mean-squared-error}
""")
    generator = np.random.default_rng(5)
    np.savez(samples, x=generator.standard_normal((40, 2, 6, 6)), y=generator.standard_normal((40, 3)))
    array = tmp_path / "array.yaml"
    array.write_text("version: 1\nname: two\ntopology: ring\ndies: 2\npreset: ndp-tiny\n")
    cli.main(["plan", str(network), "--array", str(array), "--batch", "16", "--planner", "model", "--out", str(plan)])
    network.unlink()
    report = train(tmp_path, str(plan), "--data", str(samples), "--epochs", "1")
    assert report["steps"] == 2
    assert report["planner"] == "model"
    assert report["test_accuracy"] is None
    assert report["test_loss"] > 0
    assert_report_exact(report)


def test_equal_seeds_give_equal_reports_on_any_number_of_threads(tmp_path: Path) -> None:
    reports = [train(tmp_path, "--dies", "2", "--steps", "2", "--seed", "7", "--threads", threads)
               for threads in ("1", "2")]
    for report in reports:
        for name in TIMES:
            del report[name]
    assert reports[0] == reports[1]


def test_a_difference_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    """The golden model gets an element of every product wrong: the run ends with an error, and the report says so."""
    from plinth_sim.golden import matrix

    right = matrix.gemm

    def wrong(a: Any, b: Any, c: Any = None, **options: Any) -> Any:
        result = right(a, b, c, **options)
        result.reshape(-1).view("uint32")[-1] ^= 1 << 20
        return result

    monkeypatch.setattr(matrix, "gemm", wrong)
    with pytest.raises(SystemExit) as stop:
        train(tmp_path, "--dies", "1", "--steps", "1")
    assert stop.value.code == 2
    assert "differ from the golden model's" in capsys.readouterr().err
    assert json.loads((tmp_path / "report.json").read_text())["bit_exact"] is False


def test_ctrl_c_keeps_finished_epochs(tmp_path: Path) -> None:
    """Interrupted in the second epoch: exit code 130, one line, a checkpoint that can be resumed, no report."""
    saved = tmp_path / "w.npz"
    command = [sys.executable, "-m", "plinth.cli", "train", "--preset", "ndp-tiny", "--dies", "1", "--batch", "128",
               "--epochs", "400", "--device", "golden", "--save", str(saved), "--out", str(tmp_path / "out")]
    # Tests that run in the background of a shell ignore the signal, and so would what they start.
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while not saved.exists() and run.poll() is None:
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=600)
    assert run.returncode == 130
    assert "Traceback" not in error
    assert not (tmp_path / "out" / "report.json").exists()
    resumed = tmp_path / "resumed"
    cli.main(["train", "--preset", "ndp-tiny", "--dies", "1", "--epochs", "400", "--device", "golden",
              "--steps", "1", "--resume", str(saved), "--out", str(resumed)])
    assert json.loads((resumed / "report.json").read_text())["steps"] == 1
