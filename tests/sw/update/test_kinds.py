"""Rules are whole: each is known by name, its numbers are a rule's, and its vector program does what its law says."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import plinth.update
from plinth.buffers import Buffer
from plinth.runtime.memory import Memory
from plinth.runtime.programs import Scratch, program_kernel
from plinth.step.updates import update_program
from plinth.update.kinds import KINDS, LAWS
from plinth.update.law import NUMBERS
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

ROWS, COLUMNS = 3, 40


def test_every_file_of_a_rule_is_known() -> None:
    rooms = {path.stem for path in Path(plinth.update.__path__[0]).glob("*.py")}
    assert rooms - {"__init__", "law", "kinds", "rule", "numbers"} == {kind.replace("-", "_") for kind in KINDS}


def test_numbers_are_fields_of_a_rule() -> None:
    defaults = {field.name: field.default for field in fields(UpdateRule)}
    assert {name: number.default for name, number in NUMBERS.items()}.items() <= defaults.items()
    assert {name for law in LAWS.values() for name in law.numbers} == set(NUMBERS)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_rule_says_of_numbers_is_of_its_own(kind: str) -> None:
    law = LAWS[kind]
    assert set(law.defaults) | set(law.powers) <= {"rate", *law.numbers} and law.keeps in ("", *law.numbers)
    assert UpdateRule(kind, **law.defaults).numbers.keys() == set(law.numbers)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("momentum", 1.0, "momentum must be from 0 to below 1, not 1.0"),
    ("decay", -0.1, "decay must be from 0 to below 1, not -0.1"), ("decay", float("nan"), "not nan"),
    ("epsilon", 0.0, "epsilon must be above 0 and finite, not 0.0"), ("epsilon", float("inf"), "not inf")])
def test_numbers_out_of_range_are_refused(name: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UpdateRule("sgd", **{name: value})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if LAWS[kind].stateful])
def test_programs_do_what_laws_say(kind: str) -> None:
    """Step after step, by FP32 of numpy; among the elements are gradients and states of 0."""
    rng, rule = np.random.default_rng(3), UpdateRule(kind, rate=0.05, momentum=0.7, epsilon=1e-3, decay=0.8)
    size = ROWS * COLUMNS
    places = [SimpleNamespace(name="all", words=3 * size)]
    apart = SimpleNamespace(shared={}, shared_words=0, separate=places, written=lambda _: True, behind=lambda *_: 0)
    memory = Memory(SimpleNamespace(places=places), apart, 0)  # type: ignore[arg-type]
    weights, gradients, state = (
        Buffer("all", number * size, ROWS, COLUMNS, COLUMNS) for number in range(3))
    w, g, s = memory.place("all").reshape(3, size)
    w[:] = rng.standard_normal(size)
    ought_w, ought_s = w.astype(np.float64), np.zeros(size)
    for _ in range(4):
        g[:] = rng.standard_normal(size) * 10.0**rng.integers(-6, 2, size)
        g[::7] = 0
        with np.errstate(divide="ignore"):
            program_kernel(memory, update_program(preset("ndp-tiny"), rule, ROWS, weights, gradients, state),
                           Scratch())()
        ought_w = rule.apply(ought_w, g, ought_s)
        ought_s = rule.next_state(g, ought_s)
        np.testing.assert_allclose(s, ought_s, rtol=1e-5)
        np.testing.assert_allclose(w, ought_w, rtol=1e-5, atol=1e-5)


def test_names_and_defaults_load_no_numpy() -> None:
    code = "import sys, plinth.update.kinds; print([name for name in ('numpy', 'plinth_hw') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
