"""Numbers of update rules: defaults that train, and those that a number format does not hold."""

import json
import re
from pathlib import Path

import pytest

from plinth import cli
from plinth.errors import UserError
from plinth.step.step import loss_scale
from plinth.update.kinds import ADAGRAD, ADAGRAD_PRINTED, RMSPROP, SGD
from plinth.update.numbers import check_numbers
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset


def check(name: str, rule: UpdateRule) -> None:
    parameters = preset(name)
    check_numbers(rule, loss_scale(parameters.multiply_format), parameters.memory_format)


@pytest.mark.parametrize(("name", "kind", "number"), [
    *((name, kind, number) for name in ("ndp-demo", "ndp-demo-mixed", "fpga-demo") for kind, number in (
        (SGD, "rate"), (ADAGRAD, "rate"), (ADAGRAD, "epsilon"), (ADAGRAD_PRINTED, "rate"),
        (ADAGRAD_PRINTED, "epsilon"))),
    *((name, RMSPROP, number) for name in ("ndp-demo", "ndp-demo-mixed") for number in ("rate", "epsilon"))])
def test_the_range_that_a_message_gives_is_held(name: str, kind: str, number: str) -> None:
    for value, side in ((1e-300, "below"), (1e300, "above")):
        start = re.escape(f"{number} {value:g} of update '{kind}' is {side}")
        with pytest.raises(UserError, match=f"^{start}") as error:
            check(name, UpdateRule(kind, **{number: value}))
        for end in re.findall(r"from (\S+) to (\S+)$", str(error.value))[0]:
            check(name, UpdateRule(kind, **{number: float(end)}))


def test_an_epsilon_that_is_not_read_is_not_refused() -> None:
    check("fpga-demo", UpdateRule(SGD, epsilon=1e-300))


@pytest.mark.parametrize(("machine", "kind"), [("ndp", ADAGRAD_PRINTED), ("fpga", ADAGRAD_PRINTED), ("ndp", RMSPROP)])
def test_rules_train_with_their_defaults(machine: str, kind: str, tmp_path: Path) -> None:
    cli.main(["train", "--device", "golden", "--dies", "1", "--machine", machine, "--update", kind, "--steps", "30",
              "--out", str(tmp_path)])
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["failure"] is None and report["steps"] == 30
    assert report["test_accuracy"] > 0.9


def test_a_number_that_is_0_in_the_format_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", "--device", "golden", "--dies", "1", "--update", "adagrad", "--epsilon", "1e-300", "--out",
                  str(tmp_path)])
    assert ended.value.code == 2
    assert capsys.readouterr().err.strip() == ("plinth: error: epsilon 1e-300 of update 'adagrad' is below what FP32 "
                                               "holds; give --epsilon from 1.2e-38 to 3.4e+38")
