"""Every kind of wrong step on every machine by every rule; samples and dies that are missing from larger batches; wrong
gradients of networks that know their samples."""

from pathlib import Path

import pytest
from tests.support.injection import FLOATS, MACHINES, Machine
from tests.support.wrong_steps import WRONG_STEPS, applies, train

pytestmark = pytest.mark.long


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_wrong_steps_are_seen(machine: Machine, tmp_path: Path) -> None:
    unseen = [kind for kind in WRONG_STEPS if applies(kind, machine) and train(kind, machine, tmp_path)[0] != 2]
    assert not unseen


@pytest.mark.parametrize("batch", [8, 128])
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_samples_and_biases_are_missed_in_other_batches(machine: Machine, batch: int, tmp_path: Path) -> None:
    assert train(None, machine, tmp_path, batch=batch)[0] == 0
    unseen = [kind for kind in WRONG_STEPS if ("sample" in kind or "bias gradient" in kind)
              and train(kind, machine, tmp_path, batch=batch)[0] != 2]
    assert not unseen


@pytest.mark.parametrize("machine", [machine for machine in MACHINES if machine.preset in FLOATS],
                         ids=lambda machine: machine.name)
def test_wrong_gradients_are_seen_late_in_a_run(machine: Machine, tmp_path: Path) -> None:
    """In a run that goes on from where 600 right steps have led."""
    saved = tmp_path / "w.npz"
    assert train(None, machine, tmp_path, steps=600, more=["--epochs", "40", "--save", str(saved)])[0] == 0
    go_on = ["--epochs", "60", "--resume", str(saved)]
    assert train(None, machine, tmp_path, more=go_on)[0] == 0
    unseen = [kind for kind in WRONG_STEPS if "gradient of" in kind and "bias" not in kind and "x 0.9" not in kind
              and train(kind, machine, tmp_path, more=go_on)[0] != 2]
    assert not unseen
