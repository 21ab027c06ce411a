"""One forward, one backward: what each stage does in which order."""

import pytest

from plinth.step.interleaving import StagePass, of_stage, one_forward_one_backward


def test_two_stages_and_four_micro_batches() -> None:
    """By hand."""
    def told(stage: int) -> str:
        return " ".join(f"{'F' if each.forward else 'B'}{each.micro_batch}" for each in of_stage(stage, 2, 4))

    assert told(0) == "F0 F1 B0 F2 B1 F3 B2 B3"
    assert told(1) == "F0 B0 F1 B1 F2 B2 F3 B3"


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("micro_batches", [1, 2, 3, 8])
def test_all_goes_in_order_and_few_maps_are_kept(stages: int, micro_batches: int) -> None:
    order = list(one_forward_one_backward(stages, micro_batches))
    assert len(order) == len(set(order)) == 2 * stages * micro_batches
    place = {each: number for number, each in enumerate(order)}
    for stage, number, forward in order:
        here = place[StagePass(stage, number, forward)]
        if forward:
            assert stage == 0 or place[StagePass(stage - 1, number, True)] < here
        else:
            assert place[StagePass(stage, number, True)] < here
            assert stage == stages - 1 or place[StagePass(stage + 1, number, False)] < here
    for stage in range(stages):
        mine = [each for each in order if each.stage == stage]
        assert mine == list(of_stage(stage, stages, micro_batches))
        for direction in (True, False):
            numbers = [each.micro_batch for each in mine if each.forward is direction]
            assert numbers == sorted(numbers)
        kept = most = 0
        for each in mine:
            kept += 1 if each.forward else -1
            most = max(most, kept)
        assert most == min(stages - stage, micro_batches)
