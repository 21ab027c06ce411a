"""The row about a busy machine, on a short job."""

import pytest

from plinth.bench import busy
from plinth.errors import UserError


def test_share_is_the_median_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = {False: iter([100.0, 100.0, 200.0, 50.0] * 2), True: iter([30.0, 100.0, 80.0] * 2)}
    monkeypatch.setattr(busy, "_run", lambda arguments, *, beside_loops: {
        "die_cycles_per_second": next(speeds[beside_loops]), "processors": 0.5 if beside_loops else 2.0})
    (row,) = busy.busy_machine_share()
    assert row.value == pytest.approx(0.5)
    assert [pair["share"] for pair in row.detail["pairs"]] == pytest.approx([0.3, 0.5, 1.6])
    assert [pair["share_of_processors"] for pair in row.detail["pairs_of_one_thread"]] == [0.25] * 3


def test_loops_run_and_end() -> None:
    with busy.busy_loops() as loops:
        assert loops
        assert all(loop.poll() is None for loop in loops)
    assert all(loop.poll() is not None for loop in loops)


@pytest.mark.slow
@pytest.mark.xdist_group("tiny-dies")
def test_the_command_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "JOB", ("train", "digits-mlp", "--dies", "2", "--machine", "ndp-tiny", "--batch", "8"))
    rates = busy._run(("--steps", "1"), beside_loops=False)
    assert rates["die_cycles_per_second"] > 100
    assert rates["processors"] > 0
    with pytest.raises(UserError, match="--batch"):
        busy._run(("--batch", "5000"), beside_loops=False)
