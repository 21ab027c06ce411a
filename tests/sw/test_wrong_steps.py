"""Wrong steps of every kind, put into golden dies: ``plinth train`` ends with exit code 2 and says which step is
wrong."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.injection import MACHINES, RULES, Machine
from tests.support.wrong_steps import WRONG_STEPS, applies, failure, train

from plinth.train.checks import BOUNDS, Bound
from plinth.update.kinds import RMSPROP

#: Kinds that differ from others by a layer or a factor, which only the long tests try.
LONG = re.compile(r".*(fc1|fc3).*|predictions x 1.1|.* x 0.99|.* x 1.05|epsilon doubled|random rounding always up")
KINDS = [kind for kind in WRONG_STEPS if not LONG.fullmatch(kind)]


def machine_of(kind: str) -> Machine:
    """One of those that can go wrong in this way, another for each kind."""
    possible = [machine for machine in MACHINES if applies(kind, machine)]
    return possible[7 * WRONG_STEPS.index(kind) % len(possible)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_step_is_seen(kind: str, tmp_path: Path) -> None:
    machine = machine_of(kind)
    code, text = train(kind, machine, tmp_path)
    assert code == 2, f"{kind} on {machine.name} is not seen:\n{text}"
    assert failure(text) != "unknown", text


@pytest.mark.parametrize("machine", MACHINES[::5], ids=lambda machine: machine.name)
def test_a_right_run_passes(machine: Machine, tmp_path: Path) -> None:
    code, text = train(None, machine, tmp_path)
    assert code == 0, text


@pytest.mark.parametrize("kind", ["update of a layer left out", "update done twice", "update with the wrong sign",
                                  "rate x 1.5", "weights of one copy of the last step"])
@pytest.mark.parametrize("preset", ["ndp-tiny", "ndp-demo-mixed"])
def test_updates_of_small_gradients_are_bounded(kind: str, preset: str, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """By RMSProp, which makes large steps of gradients that are small and hold much rounding; the bound of updates sees
    it without those of descents and states."""
    machine = Machine(preset, replace(RULES[RMSPROP], epsilon=1e-8, decay=0.99))
    bounds, none = BOUNDS["mixed" if preset.endswith("mixed") else "fp32"], Bound(float("inf"), float("inf"))
    monkeypatch.setitem(BOUNDS, "mixed" if preset.endswith("mixed") else "fp32",
                        replace(bounds, descent=none, state=none))
    code, text = train(kind, machine, tmp_path)
    assert code == 2 and re.fullmatch(r"step \d+: update", failure(text)), text
