"""The coordinator: at most one set outstanding, merges by the history, ends, and kernels that are left out."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.support.local import AskedKernel, training, unchanged

from plinth.local.coordinator import Coordinator, CoordinatorRun, Ending
from plinth.local.links import Letter, ThreadLinks, VirtualLinks
from plinth.local.sets import Answer, LocalSet
from plinth.network.parameters import initial_parameters


def run_of(kernels: list[Any], *, batches: int = 24, push: int = 2, virtual: bool = True, seconds: list[float] | None
           = None, settings: dict[str, Any] | None = None, **given: Any) -> tuple[CoordinatorRun, Any]:
    whole = training(",".join(["numpy"] * len(kernels)), **(settings or {}))
    links = VirtualLinks(kernels, lambda kernel, *_: (seconds or [1.0] * len(kernels))[kernel]) if virtual else (
        ThreadLinks(kernels))
    coordinator = whole.coordinator(links, push=push, ending=Ending(batches=batches, accuracy=given.pop(
        "accuracy", None)), **given)
    return coordinator.run(), whole


class TestMerges:
    def test_a_set_is_of_the_units_that_its_weights_have(self) -> None:
        kernels = [AskedKernel(), AskedKernel()]
        run, whole = run_of(kernels)
        first = initial_parameters(whole.network, whole.seed)
        for kernel, plan in zip(kernels, whole.kernels, strict=True):
            for given in kernel.given:
                parts = plan.local.parts(given.units)
                assert all(np.allclose(given.weights[name], part.cut(first[name]) * part.factor, rtol=1e-6)
                           for name, part in parts.items())
        assert run.ended == "batches" and all(np.array_equal(run.parameters[name], first[name]) for name in first)

    def test_differences_come_to_the_units_of_their_own_set(self) -> None:
        """Kernels of different speeds: answers come long after other sets were sent."""
        kernels = [AskedKernel(lambda given: unchanged(given, 1.0)) for _ in range(3)]
        run, whole = run_of(kernels, batches=40, seconds=[1.0, 1.7, 7.3], settings={"merge": "add"})
        wanted = {name: values.astype(np.float64) for name, values in initial_parameters(
            whole.network, whole.seed).items()}
        for kernel, record, plan in zip(kernels, run.kernels, whole.kernels, strict=True):
            for given in kernel.given[:record.merged]:
                for name, part in plan.local.parts(given.units).items():
                    wanted[name][part.place] += 1 / part.factor
        assert all(np.allclose(run.parameters[name], wanted[name], rtol=1e-5) for name in wanted)

    def test_numbers_words_and_staleness_are_counted(self) -> None:
        run, whole = run_of([AskedKernel(), AskedKernel()], batches=24, seconds=[1.0, 4.0])
        fast, slow = run.kernels
        assert fast.merged + slow.merged == 12 and fast.batches == 2 * fast.merged
        assert fast.sent == fast.merged or fast.sent == fast.merged + 1
        # In the four seconds of a set of the slow one the fast one answers four times, of which the last one is merged
        # behind it or before.
        assert set(slow.staleness[:-1]) <= {3, 4} and set(fast.staleness) <= {0, 1}
        local = whole.kernels[0].local
        assert fast.words_sent == fast.sent * (local.words + 8 + 4) and fast.words_received == fast.merged * local.words
        assert [point.seconds for point in run.curve] == sorted(point.seconds for point in run.curve)
        assert run.curve[-1].merged == 12 and run.curve[-1].batches == 24

    def test_one_set_a_kernel_is_outstanding(self) -> None:
        outstanding: Counter[int] = Counter()
        most: Counter[int] = Counter()
        lock = threading.Lock()

        class Links(ThreadLinks):
            def send(self, kernel: int, given: LocalSet) -> None:
                with lock:
                    outstanding[kernel] += 1
                    most[kernel] = max(most[kernel], outstanding[kernel])
                super().send(kernel, given)

            def next(self, seconds: float) -> Letter | None:
                letter = super().next(seconds)
                if letter is not None:
                    with lock:
                        outstanding[letter[0]] -= 1
                return letter

        whole = training("3*numpy")
        run = whole.coordinator(Links([AskedKernel() for _ in range(3)]), push=1, ending=Ending(batches=60)).run()
        assert set(most.values()) == {1} and sum(record.merged for record in run.kernels) == 60

    def test_kernels_go_on_at_their_own_pace(self) -> None:
        """A kernel that waits for the others' answers alone is held up by none of them."""
        done = threading.Event()

        def slow(given: LocalSet) -> Answer:
            assert done.wait(60)
            return unchanged(given)

        fast = AskedKernel()

        def counted(given: LocalSet) -> Answer:
            if given.number == 9:
                done.set()
            return unchanged(given)

        fast._answer = counted
        run, _ = run_of([fast, AskedKernel(slow)], batches=40, virtual=False)
        assert run.kernels[0].merged >= 10 and run.kernels[1].staleness[0] >= 9


class TestKernelsOfATraining:
    def test_each_has_batches_units_and_a_pace_of_its_own(self) -> None:
        """What kernels of one training are given, and how long they take on the clock."""
        whole = training("3*numpy")
        batches = [whole.kernel(number)._batches.next()[0] for number in range(3)]
        assert not any(np.array_equal(batches[0], other) for other in batches[1:])
        assert np.array_equal(batches[1], whole.kernel(1)._batches.next()[0])
        kernels = [AskedKernel() for _ in range(3)]
        run = whole.coordinator(whole.virtual_links(kernels), push=1, ending=Ending(batches=6)).run()
        first = [kernel.given[0].units["fc1"].tolist() for kernel in kernels]
        assert first[0] != first[1] != first[2] and run.ended == "batches"

    def test_a_slower_kernel_rests_in_real_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rests: list[float] = []
        monkeypatch.setattr("plinth.local.links.time.sleep", rests.append)
        for slower in (1.0, 5.0):
            whole = training("numpy")
            whole.coordinator(ThreadLinks([AskedKernel()], [slower]), push=1, ending=Ending(batches=1)).run()
        assert rests[0] == 0 < rests[1]

    def test_slower_dies_take_longer_by_their_cycles(self) -> None:
        """Seconds of a set on the clock: twice two messages, and four times the cycles."""
        fast, slow = training("fpga-tiny,fpga-tiny/4").kernels
        given = LocalSet(number=0, units={}, weights={}, batches=3)
        answer = Answer(number=0, differences={}, seconds=0.5, counted={"cycles": 7})
        messages = 2 * fast.costs.message(0)
        assert fast.set_seconds(given, answer, 8) == messages + 0.5
        assert slow.set_seconds(given, answer, 8) == pytest.approx(messages + 2.0)
        assert slow.computing_seconds(8) == 4 * fast.computing_seconds(8) > 0
        golden, = training("golden:fpga-tiny").kernels
        # What planners predict of a die is near what it counts.
        run = training("fpga-tiny").run_virtually(push=4, ending=Ending(batches=4))
        counted = run.kernels[0].counted["cycles"] / 4
        predicted = golden.computing_seconds(8) * float(golden.step.array.clock_mhz) * 1e6
        assert 0.8 < predicted / counted < 1.25


class TestEnds:
    def test_by_accuracy_or_by_number_whichever_comes_first(self) -> None:
        accuracies = iter([0.3, 0.5, 0.9, 0.4])

        def validate(_: Any) -> tuple[float, float]:
            return 1.0, next(accuracies)

        run, _ = run_of([AskedKernel()], batches=400, accuracy=0.8, validate=validate, validate_every=2)
        assert run.ended == "accuracy" and run.kernels[0].merged == 6
        run, _ = run_of([AskedKernel()], batches=10, accuracy=0.8, validate=lambda _: (1.0, 0.5), validate_every=2)
        assert run.ended == "batches" and run.kernels[0].merged == 5
        # The last merge is always validated.
        assert [point.merged for point in run.curve] == [2, 4, 5]

    def test_an_interruption_leaves_what_was_merged(self) -> None:
        def interrupted(now: Coordinator) -> None:
            if now.merged == 3:
                raise KeyboardInterrupt

        whole = training("2*numpy")
        run = whole.coordinator(whole.virtual_links(), push=1, ending=Ending(batches=40)).run(interrupted)
        assert run.ended == "interrupted" and run.curve[-1].merged == 3


def ends(given: LocalSet) -> Answer:
    raise ValueError("smoke")


def twice(given: LocalSet) -> Answer:
    return Answer(number=given.number - 1, differences=unchanged(given).differences)


def odd(given: LocalSet) -> Answer:
    answer = unchanged(given)
    answer.differences["fc2.bias"][1] = np.nan
    return answer


def other(given: LocalSet) -> Answer:
    return Answer(number=given.number, differences={name: values[:1] for name, values in given.weights.items()})


def fewer(given: LocalSet) -> Answer:
    return Answer(number=given.number, differences={"fc1.bias": given.weights["fc1.bias"]})


def whole_numbers(given: LocalSet) -> Answer:
    return Answer(number=given.number, differences={name: np.zeros(values.shape, np.int64)
                                                    for name, values in given.weights.items()})


FAULTS: dict[Callable[[LocalSet], Answer], str] = {
    ends: "smoke", twice: "has answered set 1, which it was not asked for any more",
    odd: "has answered set 2 with 'fc2.bias' that is not finite",
    other: "has answered set 2 with other variables, or of other shapes, than it was sent",
    fewer: "has answered set 2 with other variables", whole_numbers: "has answered set 2 with 'fc1.weights'"}


class TestKernelsThatFail:
    @pytest.mark.parametrize("virtual", [True, False])
    @pytest.mark.parametrize("fault", list(FAULTS), ids=lambda fault: fault.__name__)
    def test_are_left_out_and_training_goes_on(self, fault: Callable[[LocalSet], Answer], virtual: bool) -> None:
        def answer(given: LocalSet) -> Answer:
            return fault(given) if given.number == 2 else unchanged(given)

        run, whole = run_of([AskedKernel(), AskedKernel(answer)], virtual=virtual, batches=40)
        good, bad = run.kernels
        assert run.ended == "batches" and good.merged == 18 and bad.merged == 2 and not good.lost
        assert FAULTS[fault] in bad.lost and bad.dropped == (0 if fault is ends else 1)
        assert bad.bit_exact is None and not bad.different
        (event,) = run.events
        assert event.startswith("kernel 1 (numpy) is left out after 2 sets: ") and "\n" not in event
        first = initial_parameters(whole.network, whole.seed)
        assert all(np.array_equal(run.parameters[name], first[name]) for name in first)

    def test_one_that_hangs_is_left_out_and_its_late_answer_dropped(self) -> None:
        release = threading.Event()

        def hang(given: LocalSet) -> Answer:
            assert release.wait(60)
            return unchanged(given, 5.0)

        def good(given: LocalSet) -> Answer:
            time.sleep(0.05)
            if given.number == 60:
                release.set()
            return unchanged(given)

        run, whole = run_of([AskedKernel(good), AskedKernel(hang)], virtual=False, batches=160, patience_seconds=1.0)
        assert run.kernels[1].lost == "has not answered set 0 for 1 s" and run.kernels[1].dropped == 1
        assert len(run.events) == 2 and "which was left out: has answered set 0" in run.events[1]
        first = initial_parameters(whole.network, whole.seed)
        assert all(np.array_equal(run.parameters[name], first[name]) for name in first)

    def test_the_last_one_ends_training_with_the_best_weights(self) -> None:
        accuracies = iter([0.2, 0.9, 0.4, 0.5])

        def answer(given: LocalSet) -> Answer:
            return ends(given) if given.number == 3 else unchanged(given, 1.0)

        run, whole = run_of([AskedKernel(answer)], validate=lambda _: (1.0, next(accuracies)), validate_every=1)
        assert run.ended == "lost" and [point.accuracy for point in run.curve] == [0.2, 0.9, 0.4]
        first = initial_parameters(whole.network, whole.seed)
        # Behind two of the three merges, each of which added one to all that is whole.
        assert np.allclose(run.parameters["fc3.bias"], first["fc3.bias"] + 2)

    def test_weights_of_a_lost_kernel_are_held_by_nobody(self) -> None:
        """Differences are divided by those who are left."""
        def answer(given: LocalSet) -> Answer:
            return ends(given) if given.number == 1 else unchanged(given)

        run, whole = run_of([AskedKernel(lambda given: unchanged(given, 1.0)), AskedKernel(answer)], batches=8,
                            seconds=[10.0, 1.0], settings={"merge": "divide"})
        first = initial_parameters(whole.network, whole.seed)
        assert run.kernels[1].lost and run.kernels[0].merged == 3
        assert np.allclose(run.parameters["fc3.bias"], first["fc3.bias"] + 3)


class TestRepeatable:
    @pytest.mark.parametrize("kernels", ["2*numpy,1*numpy/3", "golden:fpga-tiny,numpy"])
    def test_bits_follow_from_the_seed_on_a_virtual_clock(self, kernels: str) -> None:
        runs = [training(kernels).run_virtually(push=2, ending=Ending(batches=36)) for _ in range(2)]
        assert all(np.array_equal(runs[0].parameters[name], runs[1].parameters[name]) for name in runs[0].parameters)
        assert runs[0].curve == runs[1].curve and len(runs[0].curve) > 3
        slow = training(kernels.replace("/3", "/900").replace("tiny,numpy", "tiny,numpy/900")).run_virtually(
            push=2, ending=Ending(batches=36))
        assert not np.array_equal(slow.parameters["fc1.weights"], runs[0].parameters["fc1.weights"])

    def test_co_simulated_kernels_have_the_bits_of_golden_ones(self) -> None:
        """One kernel, whose order no clock decides, and two with times that cycles give, twice."""
        first, second = (training(kernels).run_virtually(push=2, ending=Ending(batches=8))
                         for kernels in ("fpga-tiny", "golden:fpga-tiny"))
        assert all(np.array_equal(first.parameters[name], second.parameters[name]) for name in first.parameters)
        assert first.seconds != second.seconds
        assert first.kernels[0].bit_exact is True and second.kernels[0].bit_exact is None
        runs = [training("2*fpga-tiny").run_virtually(push=1, ending=Ending(batches=8)) for _ in range(2)]
        assert all(np.array_equal(runs[0].parameters[name], runs[1].parameters[name]) for name in runs[0].parameters)

    def test_training_learns(self) -> None:
        run = training("3*numpy", widths=(12, 8, 8, 4)).run_virtually(push=4, ending=Ending(batches=600))
        accuracies = [point.accuracy or 0.0 for point in run.curve]
        assert accuracies[-1] > 0.85 > accuracies[0]


def test_points_are_in_order() -> None:
    run, _ = run_of([AskedKernel()], batches=40, validate_every=3)
    assert all(a.merged < b.merged and a.words < b.words for a, b in pairwise(run.curve))
