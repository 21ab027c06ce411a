"""Simulated against co-simulated steps."""

import dataclasses
import json
from pathlib import Path

import pytest

from plinth import cli
from plinth.bench import agreement
from plinth.bench.agreement import Agreement, Step
from plinth.errors import UserError
from plinth.model.array import ARRAYS

STEPS = [Agreement(Step("digits-mlp", ARRAYS["ring-2"], (("dp",) * 3,), ("data", "joint")), 1000, 990, 1010),
         Agreement(Step("digits-cnn", dataclasses.replace(ARRAYS["full-4"], preset="hypar-demo"), (("mp",), ("mp",)),
                        ("model",)), 2000, 2120, 1800)]


def test_rows_and_table() -> None:
    found = {row.name: row for row in agreement.rows(STEPS)}
    assert set(found) == set(agreement.BENCHES)
    assert found["agreement_error_mean"].value == pytest.approx(0.035)
    assert found["agreement_error_worst"].value == pytest.approx(0.06)
    assert found["prediction_error_mean"].value == pytest.approx(0.055)
    assert "digits-cnn on full-4 of hypar-demo, model" in found["prediction_error_worst"].limited_by
    text = agreement.table(STEPS)
    assert "| digits-mlp | `ndp-demo` | ring-2 | data, joint | 1,000 | 990 | -1.0 % | 1,010 | +1.0 % |" in text
    assert text.endswith("2 steps with FP32 operands, simulated: mean error 3.5 %, worst 6.0 %, predicted: mean error "
                         "5.5 %, worst 10.0 %.")


def test_a_choice_by_predictions_costs_what_its_plan_counts_more() -> None:
    """The second plan is the better one, but predicted to be the worse; of the other network there is no choice."""
    (first, second), other = STEPS, dataclasses.replace(STEPS[0], counted=800, predicted=1020)
    assert [(round(regret, 2), one) for regret, one in agreement.regrets([first, second, other])] == [
        (1.25, first), (1.0, second)]
    assert agreement.rows([first, second, other])[-1].value == 1.25


def test_operands_of_16_bits_have_a_line_of_their_own() -> None:
    narrow = Agreement(Step("digits-mlp", dataclasses.replace(ARRAYS["ring-2"], preset="hypar-demo-fixed"),
                            (("dp",) * 3,), ("data",)), 1000, 1020, 1000)
    assert agreement.table([*STEPS, narrow]).endswith(
        "worst 10.0 %.\n\n1 steps with operands of 16 bits, simulated: mean error 2.0 %, worst 2.0 %, predicted: mean "
        "error 0.0 %, worst 0.0 %.")


def test_the_page_is_written_in_place(tmp_path: Path) -> None:
    page = tmp_path / "agreement.md"
    page.write_text(f"before\n{agreement.BEGIN}\nold\n{agreement.END}\nafter\n")
    agreement.write_page(STEPS, page)
    agreement.write_page(STEPS, page)
    assert page.read_text() == f"before\n{agreement.BEGIN}\n{agreement.table(STEPS)}\n{agreement.END}\nafter\n"
    page.write_text("nothing")
    with pytest.raises(UserError, match="there is no place for the table between"):
        agreement.write_page(STEPS, page)


def test_nothing_called_so_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["agreement", "--only", "ring-3"])
    assert stop.value.code == 2
    assert "no step's network/preset/array contains 'ring-3'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.xdist_group("demo-dies")
@pytest.mark.parametrize("only", [
    "digits-mlp/ndp-demo/ring-2", "digits-mlp/hypar-demo/ring-2",
    *(pytest.param(name, marks=pytest.mark.long) for name in (
        "digits-mlp/ndp-demo-mixed/ring-2", "digits-cnn/ndp-demo-fixed/ring-2", "digits-cnn/hypar-demo-mixed/ring-2",
        "digits-mlp/hypar-demo-fixed/ring-2"))])
def test_the_simulator_agrees_with_the_rtl(only: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["agreement", "--only", only, "--json"])
    found = {row["name"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert found["agreement_error_mean"] < 0.06 and found["agreement_error_worst"] < 0.08
    assert found["prediction_error_worst"] < 0.1 and found["ranking_regret_worst"] < 1.06
