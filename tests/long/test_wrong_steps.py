"""Every kind of wrong step on every machine by every rule; samples and dies that are missing from larger batches."""

from pathlib import Path

import pytest
from tests.support.wrong_steps import MACHINES, WRONG_STEPS, Machine, applies, train

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
