"""Deep3 computed anew: local networks that reductions leave, equations, runs, and statuses that come out."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plinth.errors import UserError
from plinth.local.coordinator import Point
from plinth.profile.costs import KernelCosts
from plinth.reproduce import tables
from plinth.reproduce.deep3 import equations, figures, pictures, runs, times
from plinth.reproduce.deep3.cases import (
    APPLICATIONS,
    BATCH,
    PLATFORMS,
    Application,
    multiply_adds,
    network,
    parameters,
    training_words,
    widest,
)
from plinth.reproduce.deep3.figures import DEEP3
from plinth.reproduce.paper import CLAIMS, Judgement, PaperRow, Table, Verdict
from plinth.train.data import digits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproduce.md"
#: What is computed, what has times of this host beside it, and what is trained.
COMPUTED, TIMED, TRAINED = ("equations", "circuitry", "memories", "setup"), ("table3", "times"), ("iterations", "5")
#: Of a host whose units cost a hundred multiply-adds.
COSTS = KernelCosts(flop_seconds=1e-9, act_seconds=1e-7, err_seconds=1e-7, net_seconds=0.0, word_seconds=0.0)
TOY = Application(name="toy", widths=(40, 20, 10, 4), samples=100)
VISUAL, SENSING, AUDIO = APPLICATIONS


@pytest.fixture(scope="module")
def computed() -> list[Table]:
    """Tables without times of this host and without training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(times, "batch_seconds", lambda of: float(of.macs))
        patch.setattr(times, "projection_seconds", lambda samples, features, inputs: 1.0)
        patch.setattr(times, "host_costs", lambda: COSTS)
        return DEEP3.computed((*COMPUTED, *TIMED))


def table(computed: list[Table], key: str) -> Table:
    return next(each for each in computed if each.key == key)


def row(of: Table, series: str, what: str) -> PaperRow:
    return next(each for each in of.rows if (each.series, each.what) == (series, what))


def check_statuses(computed: list[Table]) -> None:
    for each in (each for one in computed for each in one.rows if each.entry is not None):
        assert each.entry is not None
        assert each.status == each.entry.status, each
        assert (each.ours is None) == (each.status == Judgement.NOT_ATTEMPTED), each
        assert each.status != Judgement.NOT_REPRODUCED or each.same is False, each


def test_every_table_is_compared() -> None:
    assert set(DEEP3.tables) == {*COMPUTED, *TIMED, *TRAINED}
    assert DEEP3.seconds() == DEEP3.seconds(("times", *TRAINED)) <= 240


def test_statuses_are_those_of_the_numbers(computed: list[Table]) -> None:
    check_statuses(computed)


@pytest.mark.long
def test_statuses_are_those_of_times_and_runs() -> None:
    check_statuses(DEEP3.computed((*TIMED, *TRAINED)))


def test_slips_of_the_tables_are_shown(computed: list[Table]) -> None:
    """Quotients that are truncated to a digit; sums; the claims that the paper's own numbers contradict."""
    speeds, circuitry = table(computed, "times"), table(computed, "circuitry")
    for series, what, quotient, shown in (("Visual", "P3", 3.6 / 1.3, 2.7), ("Visual", "P2", 5.7 / 1.7, 3.3),
                                          ("Smart-Sensing", "P3", 9.2 / 2.1, 4.3)):
        found = row(speeds, series, f"{what}, training")
        assert found.ours == shown == found.paper and round(quotient, 1) == pytest.approx(shown + 0.1)
    assert figures._truncated(3.9 / 1.3) == 3.0
    assert row(table(computed, "table3"), "Audio", "P2, overall").ours == pytest.approx(18.3 + 4.9)
    claims = {each.what: each.verdict for one in (speeds, circuitry) for each in one.rows if each.series == CLAIMS}
    assert claims == {"training, least to most": Verdict.FAILS, "FPGA over others, Visual": Verdict.HOLDS,
                      "FPGA over others, Smart-Sensing": Verdict.HOLDS, "FPGA over others, Audio": Verdict.FAILS}
    assert row(speeds, CLAIMS, "training, least to most").ours == "2.5-10.2"


def test_times_have_those_of_this_host_beside_them(computed: list[Table]) -> None:
    """Measured, and by Table 2, of a whole batch and of execution with l inputs."""
    found = row(table(computed, "times"), "Audio", "P1, time per iteration")
    whole, local = figures.read_networks(AUDIO, PLATFORMS[0])
    assert found.further["here"] == found.further["products"] == whole.macs / local.macs
    assert found.further["profile"] == COSTS.batch(whole, BATCH) / COSTS.batch(local, BATCH)
    inputs = round(figures.read_widths(AUDIO, PLATFORMS[0]).inputs)
    executed = row(table(computed, "times"), "Audio", "P1, execution").further["profile"]
    assert executed == COSTS.forward(whole, BATCH) / COSTS.forward(network((inputs, *AUDIO.widths[1:])), BATCH)


def test_a_message_has_the_weights_of_a_local_network(computed: list[Table]) -> None:
    found = row(table(computed, "times"), "message", "Audio, P2").ours
    assert found == pytest.approx(128_600 / 5.1 * 16 / 1e9 * 1e3, rel=0.01)


def test_multiply_adds_are_those_of_the_networks() -> None:
    assert [application.multiply_adds for application in APPLICATIONS] == [502_700, 18_384_500, 128_600]
    for widths in ((40, 20, 10, 4), (7, 3)):
        assert network(widths).macs == multiply_adds(widths) and network(widths).parameters == parameters(widths)
    assert [layer.kind for layer in network((7, 3, 2)).layers][1] == "tanh"


@pytest.mark.parametrize("application", [*APPLICATIONS, TOY])
@pytest.mark.parametrize("reduction", [1.5, 4.0, 30.0])
def test_shares_and_inputs_give_the_reduction_that_they_were_asked_for(application, reduction) -> None:
    share, both = application.hidden_share(reduction), application.common_share(reduction)
    assert application.reduction(application.scaled_hidden(share)) == pytest.approx(reduction)
    assert application.reduction(application.common(both)) == pytest.approx(reduction)
    assert 0 < share < both < 1
    inputs = application.inputs_of(reduction)
    # The layers behind the first one may have more multiply-adds alone.
    assert (inputs is None) == (multiply_adds(application.widths[1:]) >= application.multiply_adds / reduction)
    if inputs is not None:
        assert application.reduction((inputs, *application.widths[1:])) == pytest.approx(reduction)
        # With these inputs the whole hidden layers are left, and no share has a smaller reduction.
        assert application.hidden_share(reduction, inputs) == pytest.approx(1)
        assert application.hidden_share(reduction / 1.01, inputs) is None


def test_local_networks_are_read_from_execution_and_reduction() -> None:
    """Every cell of Table 4 has one: fewer inputs than features, not all hidden units."""
    for application, platform in figures.cells():
        inputs, share = figures.read_widths(application, platform)
        whole, local = figures.read_networks(application, platform)
        assert 0 < inputs < application.widths[0] and 0 < share < 1
        assert whole.macs / local.macs == pytest.approx(
            figures.printed(application, platform, "circuitry_reduction"), rel=0.01)
    inputs, share = figures.read_widths(AUDIO, PLATFORMS[0])
    assert inputs == pytest.approx((128_600 / 5.9 - 200 * 26) / 200)
    assert share == pytest.approx(128_600 / 6.2 / (200 * (inputs + 26)))


def test_training_keeps_what_is_counted_by_hand() -> None:
    # 40 x 20 + 20 x 10 + 10 x 4 weights and 34 biases, three times; 100 samples of 40, and 34 units twice.
    assert training_words(TOY.widths) == 3 * (1040 + 34) + 100 * (40 + 2 * 34)


@pytest.mark.parametrize("words", [training_words, parameters])
@pytest.mark.parametrize("limit", [1, 300, 5000, 9000, 10**6])
def test_the_widest_layers_that_fit_are_found(words: Callable[[Sequence[float]], float], limit: int) -> None:
    steps, fitting = 40, None
    for step in range(1, steps + 1):
        widths = tuple(max(1, int(step * width / steps)) for width in TOY.widths[:-1]) + TOY.widths[-1:]
        fitting = widths if words(widths) <= limit else fitting
    assert widest(TOY.common, words, limit, steps) == fitting


@pytest.mark.parametrize(("name", "what", "wrong"), [
    ("printed_push", "equation 2", lambda computing, message: 4.0),
    ("UpdateRule", "equation 1", lambda **numbers: RULE(**numbers | ({} if "epsilon" in numbers else {"rate": 1.0}))),
    ("UpdateRule", "Adagrad, section 7", lambda **numbers: RULE(**numbers | {"kind": "adagrad"} if "epsilon" in numbers
                                                                else numbers)),
    ("_COSTS", "Table 2, T_FP", replace(equations._COSTS, act_seconds=4.0)),
    ("_COSTS", "Table 2, T_BP", replace(equations._COSTS, err_seconds=4.0)),
    ("_COSTS", "Table 2, T_comm", replace(equations._COSTS, net_seconds=4.0)),
    ("fit", "equation 3", lambda x: replace(FIT(x), beta=0.01))])
def test_a_function_that_is_not_the_equation_is_said(name, what, wrong, monkeypatch) -> None:
    monkeypatch.setattr(equations, name, wrong)
    found, = DEEP3.computed(["equations"])
    assert [each.what for each in found.rows if str(each.ours).startswith("not ")] == [what]


RULE, FIT = equations.UpdateRule, equations.fit


def test_the_cost_of_a_unit_is_found_again() -> None:
    pairs = [figures.read_networks(application, PLATFORMS[0]) for application in APPLICATIONS]
    assert times.fitted_unit(pairs, [times.reduction(*pair, 700.0) for pair in pairs]) == pytest.approx(700, rel=1e-3)
    whole, local = network((4, 3, 2)), network((2, 1, 2))
    # A batch is three times the multiply-adds, and units, of each sample: 18 and 9, 4 and 5.
    assert times.reduction(whole, local, 6.0) == pytest.approx((3 * 18 + 6 * 9) / (3 * 4 + 6 * 5))


def test_times_of_this_host_are_measured() -> None:
    assert 0 < times.batch_seconds(network((4, 3, 2))) < float("inf")
    assert 0 < times.projection_seconds(200, 20, 5) < float("inf")


STAND = runs.Stand(data="digits", prepare=runs.as_they_are, hidden=(48,), rate=0.05, accuracy=0.8, batches=60, seeds=2)


def test_runs_end_at_the_accuracy() -> None:
    steps, batches = runs.baseline_steps(STAND, STAND.samples(), 0.0), runs.local_steps(STAND, STAND.samples(), 40, 0.5)
    assert all(step is not None and 0 < step < STAND.batches for step in [*steps, *batches])
    assert len(steps) == len(batches) == 2
    # Each of four kernels answers after ten batches.
    assert all(step is not None and step * runs.KERNELS % runs.PUSH == 0 for step in batches)


def test_batches_are_of_each_kernel(monkeypatch) -> None:
    """To the first validation that finds the accuracy."""
    curve = [Point(merged=count, batches=10 * count, words=0, seconds=0.0, loss=1.0, accuracy=0.2 * count)
             for count in (1, 2, 4, 5)]
    monkeypatch.setattr(runs, "trained_locally", lambda *given, **settings: curve)
    assert runs.local_steps(STAND, STAND.samples(), 64, 0.5) == [10.0, 10.0]


def test_an_accuracy_that_is_not_reached_is_none() -> None:
    stand = replace(STAND, accuracy=1.1, batches=5, seeds=1)
    assert runs.baseline_steps(stand, stand.samples(), 0.5) == runs.local_steps(stand, stand.samples(), 64, 0.5) == [
        None]


def test_samples_are_pooled_and_projected() -> None:
    images = np.arange(2 * 784, dtype=np.float32).reshape(2, 784)
    pooled = runs.pooled(replace(digits(), train_x=images, test_x=images[:1]))
    assert pooled.train_x.shape == (2, 196) and pooled.test_x.shape == (1, 196)
    # Pixels 0, 1, 28 and 29.
    assert pooled.train_x[0, 0] == 14.5 and pooled.train_x[0, 1] == 16.5
    projected = runs.projected(digits(), 20)
    assert projected.train_x.shape == (1437, 20) and projected.test_x.shape == (360, 20)


def test_ratios_of_steps_are_bounds_where_a_run_ended_too_early() -> None:
    assert figures._over([20.0, 40.0], [10, 20], 100) == 2.0 and figures._over([None, 20.0], [10, 30], 100) == ">5"
    assert figures._over([20.0], [None], 100) is None
    assert figures._deviation([20.0, 60.0], [10, 20]) == pytest.approx(2**-0.5)
    assert figures._deviation([20.0], [10]) is None and figures._deviation([20.0, None], [10, 10]) is None


def test_iterations_are_of_the_same_cells(monkeypatch) -> None:
    """Of as large a part of our features, or as many inputs where features are several times fewer."""
    asked: list[tuple[int, float]] = []

    def local(stand, dataset, inputs, share) -> list[float | None]:
        asked.append((inputs, share))
        return [90.0]

    data = digits()
    data = replace(data, train_x=np.zeros((1437, 600), np.float32))
    monkeypatch.setattr(runs, "named", lambda name: data)
    monkeypatch.setattr(runs, "STANDS", {name: replace(stand, prepare=runs.as_they_are)
                                         for name, stand in runs.STANDS.items()})
    monkeypatch.setattr(runs, "baseline_steps", lambda stand, dataset, dropped: [60 if dropped else 30])
    monkeypatch.setattr(runs, "local_steps", local)
    found, = DEEP3.computed(["iterations"])
    check_statuses([found])
    assert [each.further["plain"] for each in found.rows] == [3.0] * 9
    assert [each.further["dropout"] for each in found.rows] == [1.5] * 9
    wanted = [figures.read_widths(*cell) for cell in figures.cells()]
    assert [share for _, share in asked] == [share for _, share in wanted]
    assert [inputs for inputs, _ in asked] == [
        *(round(3 * inputs) for inputs, _ in wanted[:3]), *(round(inputs) for inputs, _ in wanted[3:6]),
        *(round(inputs * 600 / 617) for inputs, _ in wanted[6:])]


def test_data_that_are_not_installed_are_a_note(monkeypatch) -> None:
    def missing(name: str) -> None:
        raise UserError(f"data set {name!r} comes with a package")

    monkeypatch.setattr(runs, "named", missing)
    found, = DEEP3.computed(["iterations"])
    check_statuses([found])
    assert len(found.rows) == 9 and sum("nothing of ours: data set" in note for note in found.notes) == 3


@pytest.fixture
def scaled(monkeypatch) -> Iterator[None]:
    """Runs of Figure 5 that take a second over the kernels, and ten steps, more with dropout."""
    monkeypatch.setattr(runs, "scaled_locally", lambda link, kernels: (1 / kernels, 40.0 * kernels))
    monkeypatch.setattr(runs, "scaled_steps", lambda batch, dropped, seeds=1: 100.0 if dropped else 10.0)
    yield


def test_the_curve_is_over_one_kernel(scaled, tmp_path) -> None:
    found, = DEEP3.computed(["5"])
    for link in runs.LINKS:
        assert [row(found, link, f"{kernels} kernel{'s' * (kernels > 1)}").ours for kernels in runs.COUNTS] == list(
            runs.COUNTS)
        assert row(found, CLAIMS, f"speed-up of 16 kernels, {link}").ours == 16
        assert found.points[link]["together"][0] == 1
    assert row(found, CLAIMS, "batches of one kernel over steps with dropout").ours == pytest.approx(0.4)
    assert row(found, "setup", "parameters").ours == pytest.approx(62.4e6, rel=0.01)
    drawn = pictures.draw(tmp_path, [found])
    assert [path.name for path in drawn] == ["figure-5.png"] and drawn[0].read_bytes()[:4] == b"\x89PNG"
    kept = DEEP3.kept(json.loads(json.dumps(DEEP3.report([found]))))
    assert tables.section(DEEP3, kept[0]) == tables.section(DEEP3, found)


def test_synchronous_time_is_that_of_the_best_batch(scaled) -> None:
    """Ten steps of 100 samples, of two kernels each with half of them and two messages of half the gradients."""
    link, costs = next(iter(runs.LINKS.items()))
    whole, _ = runs._scaled()
    assert runs.scaled_together(link, 1) == pytest.approx(10 * costs.batch(whole, 100))
    assert runs.scaled_together(link, 2) == pytest.approx(
        10 * (costs.batch(whole, 50) + 2 * costs.message(whole.parameters // 2)))


def test_kernels_learn_the_digits_sooner_than_one() -> None:
    one, four = (runs.scaled_locally("1 Gb/s", kernels, 1) for kernels in (1, 4))
    assert four[0] < one[0] < float("inf") and one[1] < four[1]
    assert runs.scaled_steps(BATCH, 0.0, 1) < runs.MOST_STEPS


def on_the_page() -> str:
    parts = tables.parts(PAGE.read_text(encoding="utf-8"), "deep3")
    assert parts is not None
    return parts[1]


def test_tables_of_the_page_are_current(computed: list[Table]) -> None:
    """But for those with times of a host, or with runs, whose last digits are a machine's."""
    text = on_the_page()
    for key in COMPUTED:
        assert "\n".join(tables.section(DEEP3, table(computed, key))) in text, key


def test_the_page_has_every_entry() -> None:
    """With the status of the file, its reason, and as many as there are of each."""
    text = on_the_page()
    lines = {line.rsplit("| ", 2)[-1].strip(" |`"): line for line in text.splitlines() if line.endswith("` |")}
    entries = [entry for key in DEEP3.tables for entry in DEEP3.entries(key)]
    assert set(lines) == {entry.id for entry in entries}
    for entry in entries:
        assert f"| {entry.status} |" in lines[entry.id] and entry.reason in text, entry.id
    for status in Judgement:
        assert f"| **{status}** | **{sum(entry.status == status for entry in entries)}** | |" in text
