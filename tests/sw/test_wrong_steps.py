"""Wrong steps of every kind, put into golden dies: ``plinth train`` ends with exit code 2 and says which step is
wrong."""

import re
from pathlib import Path

import pytest
from tests.support.wrong_steps import MACHINES, WRONG_STEPS, Machine, applies, failure, train

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
