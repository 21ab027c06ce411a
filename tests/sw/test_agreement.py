"""Simulated against co-simulated steps."""

import dataclasses
import json
import pickle
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from plinth import cli
from plinth.array.array import ARRAYS, AT_LINKS
from plinth.bench import accuracy, agreement, holdouts, models, network, steps
from plinth.bench.agreement import Agreement, AgreementCase
from plinth.bench.holdouts import FirstMeasurement, HoldoutCase
from plinth.bench.page import default_page, write_tables
from plinth.bench.steps import lowered_step
from plinth.driver.program import program_digest
from plinth.errors import UserError
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import EP, from_network
from plinth.plan.planning import PLANNERS, SPLITTERS
from plinth.runtime import verilog
from plinth.update.rule import PLAIN

STEPS = [Agreement(AgreementCase("digits-mlp", ARRAYS["ring-2"], (("dp",) * 3,), ("data", "joint")), 1000, 990, 1010),
         Agreement(AgreementCase("digits-cnn", dataclasses.replace(ARRAYS["full-4"], preset="hypar-demo"),
                                 (("mp",), ("mp",)),
                                 ("model",)), 2000, 2120, 1800)]


#: By both models of the simulator.
BOTH = [models.ModelComparison(STEPS[0].step, 100, 1000.0, 950.0),
        models.ModelComparison(STEPS[1].step, 2000, 2000.0, 2040.0)]


def test_rows_and_table() -> None:
    rows = {row.name: row for row in agreement.rows(STEPS)}
    assert set(rows) == {name for name in agreement.BENCHES
                         if not name.startswith(("agreement_holdout", "agreement_mpt", "holdout_"))}
    assert rows["agreement_error_mean"].value == pytest.approx(0.035)
    assert rows["agreement_error_worst"].value == pytest.approx(0.06)
    assert rows["prediction_error_mean"].value == pytest.approx(0.055)
    assert "digits-cnn on full-4 of hypar-demo, model" in rows["prediction_error_worst"].limited_by
    text = agreement.table(STEPS)
    assert "| digits-mlp | `ndp-demo` | ring-2 | data, joint | 1,000 | 990 | -1.0 % | 1,010 | +1.0 % |" in text
    assert text.endswith("2 steps with FP32 operands, simulated: mean error 3.5 %, worst 6.0 %, predicted: mean error "
                         "5.5 %, worst 10.0 %.")


def test_both_models_stand_beside_each_other() -> None:
    assert {row.name: row.value for row in models.rows(BOTH)} == {
        "grouped_error_mean": pytest.approx(0.035), "grouped_error_worst": pytest.approx(0.05)}
    assert models.rows([]) == [] and set(models.BENCHES) == {row.name for row in models.rows(BOTH)}
    text = models.table(BOTH)
    assert "| digits-mlp | 128 | `ndp-demo` | ring-2 | data, joint | 100 | 1,000 | 950 | -5.0 % |" in text
    assert text.endswith("2 steps, in groups against task by task: mean 3.5 %, worst 5.0 % (1 data-parallel, mean "
                         "5.0 %, worst 5.0 %; 1 other, mean 2.0 %, worst 2.0 %).")


def test_both_models_simulate_the_same_step() -> None:
    """What does not go task by task is left out."""
    step = AgreementCase("digits-mlp", ARRAYS["ring-2"], (("dp",),) * 4, ("data",), 32)
    comparison = models.compare(step)
    assert comparison is not None and comparison.task_by_task == pytest.approx(agreement.simulated_cycles(step), abs=1)
    assert 0 < abs(comparison.error) < 0.2 and comparison.tasks > 20
    coded = dataclasses.replace(ARRAYS["ring-2"], preset="ndp-demo-predict", codes=AT_LINKS)
    splits = (("ep",), ("ep",), *(("dp",),) * 3)
    assert models.compare(AgreementCase("digits-cnn", coded, splits, ("mpt",), 8, tiles=(2, "winograd", 1))) is None


def test_steps_on_arrays_with_switches_are_simulated_by_both_models(monkeypatch) -> None:
    monkeypatch.setattr(models, "steps_called", lambda only, known: [])
    monkeypatch.setattr(models, "compare", lambda step: models.ModelComparison(step, 100, 100.0, 90.0))
    monkeypatch.setattr(models, "spread", lambda work, cases: list(enumerate(map(work, cases))))
    comparisons = models.measure(only="digits-mlp")
    assert {comparison.step.array.name for comparison in comparisons} == set(models.SWITCHED_ARRAYS)
    assert f"{len(comparisons)} on arrays with switches" in models.table(comparisons)


def test_a_choice_by_predictions_costs_what_its_plan_counts_more() -> None:
    """The second plan is the better one, but predicted to be the worse; of the other network there is no choice."""
    (first, second), other = STEPS, dataclasses.replace(STEPS[0], counted=800, predicted=1020)
    assert [(round(regret, 2), step) for regret, step in agreement.regrets([first, second, other])] == [
        (1.25, first), (1.0, second)]
    assert agreement.rows([first, second, other])[-1].value == 1.25


def test_operands_of_16_bits_have_a_line_of_their_own() -> None:
    narrow = Agreement(AgreementCase("digits-mlp", dataclasses.replace(ARRAYS["ring-2"], preset="hypar-demo-fixed"),
                                     (("dp",) * 3,), ("data",)), 1000, 1020, 1000)
    assert agreement.table([*STEPS, narrow]).endswith(
        "worst 10.0 %.\n\n1 steps with operands of 16 bits, simulated: mean error 2.0 %, worst 2.0 %, predicted: mean "
        "error 0.0 %, worst 0.0 %.")


def test_winograd_layers_stand_by_themselves_under_each_arrangement() -> None:
    _, tiles, array = agreement.TILED_CASES[0]
    arrangements = agreement.arrangements(("digits-cnn", tiles, array))
    assert sorted(name for names in arrangements.values() for name in names) == ["1 x 4", "2 x 2", "4 x 1", "mpt"]
    graph = from_network(with_tiles(NETWORKS["digits-cnn"], *tiles))
    for splits, (name, *_) in arrangements.items():
        if name != "mpt":
            assert {sum(split == EP for split in vector) for node, vector in zip(graph.nodes, splits, strict=True)
                    if node.tiling} == {int(name[0]).bit_length() - 1}
    splits = next(iter(arrangements))
    measured = Agreement(AgreementCase("digits-cnn", array, splits, ("1 x 4",), tiles=tiles), 1000, 950, 1200)
    rows = {row.name: row.value for row in agreement.rows([*STEPS, measured])}
    assert rows["agreement_mpt_mean"] == rows["agreement_mpt_worst"] == pytest.approx(0.05)
    assert rows["agreement_error_mean"] == pytest.approx(0.035) and rows["prediction_error_worst"] == pytest.approx(0.2)
    text = agreement.table([*STEPS, measured])
    assert "| digits-cnn, F(2), winograd weights | `ndp-demo-winograd` | ring-4 | 1 x 4 | 1,000 | 950 |" in text
    assert "1 steps with Winograd layers, simulated: mean error 5.0 %" in text
    assert measured.step.definition.layer("conv1").transform(
        measured.step.definition.shapes["conv1"].inputs) is not None


def held_out(case: HoldoutCase, counted: int, simulated: int, predicted: int,
             first: FirstMeasurement | None = None) -> Agreement:
    return Agreement(AgreementCase(case.network, case.array, (("dp",),), (case.planner,), case.batch, case, case.tiles),
                     counted, simulated, predicted, "digest", first)


def test_holdouts_stand_apart_as_first_measured_and_today() -> None:
    case = holdouts.CASES[4]
    first = FirstMeasurement((("dp",),), "digest", 1000, 900, 1200)
    agreements = [*STEPS, held_out(case, 1000, 990, 1010, first)]
    rows = {row.name: row for row in agreement.rows(agreements)}
    assert set(rows) == {name for name in agreement.BENCHES if not name.startswith(("agreement_mpt", "holdout_"))}
    assert rows["agreement_error_worst"].value == pytest.approx(0.06)
    assert rows["agreement_holdout_mean"].value == rows["agreement_holdout_worst"].value == pytest.approx(0.1)
    again = dataclasses.replace(next(case for case in holdouts.CASES if case.second), tiles=(2, "winograd"))
    rows |= {row.name: row for row in agreement.rows([held_out(again, 1000, 990, 1010, first)])
             if row.name.startswith("holdout_")}
    # Those of the second set count as they are today.
    assert {name: round(row.value, 3) for name, row in rows.items() if name.startswith("holdout_")} == {
        f"holdout_{tiles}{what}_{which}": 0.01 for tiles in ("", "tiles_") for what in ("simulated", "predicted")
        for which in ("mean", "worst")}
    # What was mended later does not count.
    assert rows["prediction_error_worst"].value == pytest.approx(0.2)
    assert rows["prediction_error_mean"].value == pytest.approx((0.01 + 0.1 + 0.2) / 3)
    text = agreement.holdout_table(agreements)
    assert ("| lenet-28 | 96 | `ndp-demo` | ring-6 | 1/8 | data | sgd | 1,000 | -10.0 % | +20.0 % | 1,000 | -1.0 % | "
            "+1.0 % |" in text)
    assert text.endswith("1 hold-outs, first measurement, simulated: mean error 10.0 %, worst 10.0 %, predicted: mean "
                         "error 20.0 %, worst 20.0 %; today, simulated: mean error 1.0 %, worst 1.0 %, predicted: mean "
                         "error 1.0 %, worst 1.0 %.")
    assert agreement.table(agreements) == agreement.table(STEPS)
    assert agreement.table(agreements[2:]) == agreement.holdout_table(STEPS) == "None was measured."


def test_what_was_first_measured_stays(tmp_path: Path) -> None:
    file, (case, other, *_) = tmp_path / "first.json", holdouts.CASES
    first, later = (FirstMeasurement((("dp", "op"),), "digest", counted, 1, 2) for counted in (5, 6))
    assert holdouts.first_measured(file) == {}
    holdouts.write_first([(case, first)], file)
    holdouts.write_first([(case, later), (other, later)], file)
    assert holdouts.first_measured(file) == {case.key: first, other.key: later}
    file.write_text('{"version": 2, "measurements": [{"case": 1}]}')
    with pytest.raises(UserError, match="not a list of first measurements"):
        holdouts.first_measured(file)
    whole = '{"case": ["a"], "splits": [["dp"]], "program": "p", "counted": 5, "simulated": 1, "predicted": 2}'
    for bad in ("{}", '""', f"[{whole}, {whole}]", "[" * 5000, *(f"[{whole.replace(*change)}]" for change in (
            ("5", '"5"'), ("5", "0"), ("5", "-1"), ("5", "NaN"), ('[["dp"]]', '["dp"]'), ('["a"]', '"a"'),
            ('"p"', "7")))):
        file.write_text(f'{{"version": 2, "measurements": {bad}}}')
        with pytest.raises(UserError, match="not a list of first measurements"):
            holdouts.first_measured(file)
    file.write_text(f'{{"version": 2, "measurements": [{whole}]}}')
    assert holdouts.first_measured(file) == {("a",): FirstMeasurement((("dp",),), "p", 5, 1, 2)}
    for other, version in (("[]", "1"), ('{"version": 3}', "3"), ('{"version": [7]}', r"\[7\]")):
        file.write_text(other)
        with pytest.raises(UserError, match=f"version {version} of a list of first measurements, of which this is 2"):
            holdouts.first_measured(file)


def test_what_was_measured_is_not_written_again(tmp_path: Path) -> None:
    file, (case, *_) = tmp_path / "first.json", holdouts.CASES
    first = FirstMeasurement((("dp", "op"),), "digest", 5, 1, 2)
    holdouts.write_first([(case, first)], file)
    before = file.stat().st_mtime_ns
    holdouts.write_first([(case, first)], file)
    assert file.stat().st_mtime_ns == before


def test_holdouts_are_others_than_the_grid() -> None:
    """Of what the grid does not have, each at least twice."""
    assert not set(holdouts.NETWORKS) & set(NETWORKS) and len({case.key for case in holdouts.CASES}) == len(
        holdouts.CASES)
    counts = Counter(value for case in holdouts.CASES for value in (
        case.network, case.batch, f"{case.array.dies} dies", case.array.preset, case.array.rate))
    for value in (*holdouts.NETWORKS, 32, 96, 200, "3 dies", "6 dies", "12 dies", "hypar-half", "ndp-tiny",
                  "ndp-bench", Fraction(1, 8)):
        assert counts[value] >= 2, value
    # Plans are chosen among.
    chosen = Counter((case.network, case.batch, case.array) for case in holdouts.CASES)
    assert all(chosen[case.network, case.batch, case.array] >= 2 for case in holdouts.CASES
               if case.rule == PLAIN and not case.second)
    # Dies of each kind by rules of each.
    rules = {(case.array.die_parameters().number_format, case.rule.kind) for case in holdouts.CASES}
    assert rules >= {(number, kind) for number in ("fp32", "fixed") for kind in ("sgd", "momentum", "adagrad")}


@pytest.mark.parametrize("case", holdouts.CASES[::5], ids=lambda case: f"{case.network}-{case.array.name}")
def test_holdouts_are_lowered_under_the_plans_of_their_first_measurement(case: HoldoutCase,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """What planners give is found here: to begin processes takes longer, which would get the same."""
    monkeypatch.setattr(agreement, "spread", lambda work, cases: [
        (place, work(asked)) for place, asked in enumerate(pickle.loads(pickle.dumps(cases)))])
    assert pickle.loads(pickle.dumps(agreement._planned)) is agreement._planned
    splits = (("dp",) * case.array.levels,) * len(from_network(holdouts.NETWORKS[case.network]).nodes)
    known = {case.key: FirstMeasurement(splits, "digest", 1, 1, 1)}
    name = f"hold-outs/{case.network}/{case.array.preset}/{case.array.name}"
    (step,) = (measured for measured in agreement._held_out(name, known | {
        other.key: known[case.key] for other in holdouts.CASES}) if measured.case == case)
    # Rows of sparse layers lie as planners give them.
    sparse = case.planner in PLANNERS and case.planner not in SPLITTERS
    assert (step.splits != splits) == bool(step.lists) == sparse
    program = lowered_step(step.definition, case.array, step.splits, case.batch, case.rule, step.lists, case.copies)
    assert len(program.step) == case.array.dies and len(program_digest(program)) == 16


def test_counts_are_kept_for_the_same_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter(range(100, 110))
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    monkeypatch.setattr(verilog, "die_digest", lambda die: "verilog")
    task = steps.CountedTasks("fc1.fprop", "matrix", 4, 20.5)
    monkeypatch.setattr(steps, "counted_step", lambda *_: steps.CountedStep(next(counts), (task,)))
    network, array = NETWORKS["digits-mlp"], ARRAYS["ring-2"]

    def kept(rate: Fraction = array.rate, split: str = "dp") -> int:
        here = dataclasses.replace(array, link_rate=rate)
        counted = steps.kept_step(network, here, lowered_step(network, here, ((split,),) * 3 + (("dp",),)))
        assert counted.tasks == (task,)
        return counted.cycles
    assert [kept(), kept(), kept(Fraction(1, 8)), kept(split="mp"), kept()] == [100, 100, 101, 102, 100]
    for path in tmp_path.rglob("*.json"):
        path.write_text("{")
    assert kept() == 103
    monkeypatch.setattr(verilog, "die_digest", lambda die: "other")
    assert kept() == 104


def test_the_page_is_written_in_place(tmp_path: Path) -> None:
    page = tmp_path / "agreement.md"
    page.write_text("before\n<!-- agreement -->\nold\n<!-- /agreement -->\nmiddle\n<!-- hold-outs -->\n"
                    "<!-- /hold-outs -->\nafter\n<!-- second-hold-outs -->\n<!-- /second-hold-outs -->\n")
    for _ in range(2):
        write_tables(page, agreement.tables(STEPS))
    assert page.read_text() == (f"before\n<!-- agreement -->\n{agreement.table(STEPS)}\n<!-- /agreement -->\nmiddle\n"
                                f"<!-- hold-outs -->\n{agreement.NONE}\n<!-- /hold-outs -->\nafter\n"
                                f"<!-- second-hold-outs -->\n{agreement.NONE}\n<!-- /second-hold-outs -->\n")
    page.write_text("nothing")
    with pytest.raises(UserError, match="has no lines <!-- agreement -->, which should stand once"):
        write_tables(page, agreement.tables(STEPS))


def test_a_page_that_is_not_there_begins_with_the_tables(tmp_path: Path) -> None:
    page = tmp_path / "build" / "agreement.md"
    write_tables(page, agreement.tables(STEPS) | {"network": "old"})
    write_tables(page, {"network": "| new |"})
    assert page.read_text() == "\n".join([
        "<!-- agreement -->", agreement.table(STEPS), "<!-- /agreement -->", "",
        "<!-- hold-outs -->", agreement.NONE, "<!-- /hold-outs -->", "",
        "<!-- second-hold-outs -->", agreement.NONE, "<!-- /second-hold-outs -->", "",
        "<!-- network -->", "| new |", "<!-- /network -->", ""])


def test_a_checkout_has_its_own_pages() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    for name, tables in ((agreement.PAGE, [*agreement.tables([]), models.TABLE, network.TABLE]),
                         (accuracy.PAGE, ["accuracy"])):
        assert default_page(name) == docs / name
        assert all(f"<!-- {table} -->" in (docs / name).read_text(encoding="utf-8") for table in tables)


def test_the_command_writes_the_page_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(agreement, "measure", lambda **options: STEPS)
    monkeypatch.setattr(models, "measure", lambda say, only: BOTH if only in ("", "digits-mlp") else [])
    cli.main(["agreement", "--only", "digits-mlp", "--out", str(tmp_path / "page.md")])
    assert capsys.readouterr().out.endswith(f"page: {tmp_path / 'page.md'}\n")
    written = (tmp_path / "page.md").read_text()
    assert agreement.table(STEPS) in written and models.table(BOTH) in written
    (tmp_path / "file").touch()
    monkeypatch.setattr(agreement, "measure", lambda **options: pytest.fail("nothing is counted, nothing written"))
    cli.main(["agreement", "--only", "models", "--out", str(tmp_path / "models.md")])
    assert (tmp_path / "models.md").read_text() == f"<!-- models -->\n{models.table(BOTH)}\n<!-- /models -->\n"
    with pytest.raises(SystemExit) as stop:
        cli.main(["agreement", "--out", str(tmp_path / "file" / "page.md")])
    assert stop.value.code == 2 and "cannot be written" in capsys.readouterr().err


def test_nothing_called_so_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["agreement", "--only", "ring-99"])
    assert stop.value.code == 2
    assert "no step's network/preset/array contains 'ring-99'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.xdist_group("demo-dies")
@pytest.mark.parametrize("only", [
    "digits-mlp/ndp-demo/ring-2", "digits-mlp/hypar-demo/ring-2",
    *(pytest.param(name, marks=pytest.mark.long) for name in (
        "digits-mlp/ndp-demo-mixed/ring-2", "digits-cnn/fpga-demo/ring-2", "digits-cnn/hypar-demo-mixed/ring-2",
        "digits-mlp/hypar-demo-fixed/ring-2"))])
def test_the_simulator_agrees_with_the_rtl(only: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["agreement", "--only", only, "--json"])
    rows = {row["name"]: row["value"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["agreement_error_mean"] < 0.06 and rows["agreement_error_worst"] < 0.08
    assert rows["prediction_error_worst"] < 0.1 and rows["ranking_regret_worst"] < 1.06
