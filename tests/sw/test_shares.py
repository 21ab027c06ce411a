"""Training steps on golden arrays that each own some of four dies: the bits are those of one array."""

import numpy as np
import pytest
from tests.support.shares import Owners, Training, in_processes, in_threads

WHOLE = ((0, 1, 2, 3),)


def assert_equal(found: list, wanted: dict) -> None:
    together = {die: image for share in found for die, image in share.items()}
    assert sorted(together) == sorted(wanted)
    for die, image in wanted.items():
        assert image.any()
        assert np.array_equal(together[die], image), f"die {die}"


@pytest.mark.parametrize("owners", [((0, 1), (2, 3)), ((0,), (1, 3), (2,))])
@pytest.mark.parametrize("training", [
    Training("digits-mlp", "data", "ndp-demo"), Training("digits-mlp", "data", "ndp-demo-mixed"),
    Training("digits-mlp", "data", "fpga-demo"), Training("digits-mlp", "model", "ndp-demo"),
    Training("digits-cnn", "one-weird-trick", "ndp-demo"),
    pytest.param(Training("digits-cnn", "one-weird-trick", "hypar-demo"), marks=pytest.mark.slow)])
def test_dies_of_several_threads(training: Training, owners: Owners) -> None:
    """Reductions over rings, partial sums, maps and errors between shares."""
    assert_equal(in_threads(owners, training), training(WHOLE[0], None))


@pytest.mark.slow
def test_dies_of_several_processes() -> None:
    training = Training("digits-cnn", "one-weird-trick", "ndp-demo")
    assert_equal(in_processes(((0, 3), (1, 2)), training), training(WHOLE[0], None))


@pytest.mark.slow
def test_a_process_that_ends_is_named() -> None:
    """Those that live on end with an error: whose dies are missing and what waits for them, or who has told of it."""
    gone, *messages = in_processes(((0, 3), (1,), (2,)), Training("digits-mlp", "model", "ndp-demo", ends=1))
    assert gone is None
    told = [message for message in messages if "was stopped by an error of die " in message]
    lost = [message for message in messages if message.startswith("dies 0, 3 lost: their process has ended; ")]
    assert lost
    assert len(told) + len(lost) == len(messages)
    assert all("other dies live in other processes" in message for message in lost)
