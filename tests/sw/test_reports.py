"""Reports: real ones have the form of their schemas, every field has one name, and others are refused in one line."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jschon
import pytest
from click.testing import CliRunner
from tests.support.lookups import language_model
from tests.support.reports import blank

import plinth
from plinth import cli
from plinth.api.objects import network
from plinth.array.array import ring
from plinth.bench import accuracy
from plinth.bench.row import BenchRow, keep_rows, kept_rows, rows_report
from plinth.cli import names
from plinth.cli.commands import cli as group
from plinth.errors import UserError
from plinth.files.fields import FIELDS, fault, used
from plinth.files.reports import REPORT_VERSION, REPORTS, check_report, read_report, report_schema
from plinth.profile.networks import DIE
from plinth.report import fields, figures
from plinth.report.simulation import simulation_report
from plinth.report.step import compared, step_of_plan
from plinth.reproduce import tables
from plinth.reproduce.paper import paper
from plinth.simulate import step

DOCS = Path(__file__).resolve().parents[2] / "docs"
jschon.create_catalog("2020-12")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:rfc3986")


def _reports(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Reports of every kind as commands make them."""
    plan = plinth.plan("digits-mlp", "ring-2", batch=16)
    other = plinth.plan("digits-mlp", "ring-2", planner="model", batch=16)
    yield "plan", plan.to_dict()
    yield "plan", plinth.plan(language_model(), "ring-2", planner="parallax", batch=16, touched=0.1,
                              copies="servers").to_dict()
    yield "plan", plinth.plan(language_model(), "ring-2", planner="parallax", batch=16).to_dict()
    little = ring(2, memory_bytes=4096)
    yield "plan", plinth.plan("digits-cnn", little, planner="data", batch=16).to_dict()
    yield "simulate", plan.simulate().to_dict()
    yield "simulate", plan.simulate(cost="paper", slow={1: 2.0}).to_dict()
    tiled = plinth.network("digits-cnn", winograd=2, weights="winograd")
    tiled_plan = plinth.plan(tiled, plinth.array(dies=4, machine="ndp-demo-winograd"), planner="mpt", batch=8)
    yield "simulate", json.loads(json.dumps(simulation_report(step.simulated(tiled_plan.plan, tiled_plan.array))))
    yield "step", plan.step().to_dict()
    yield "step", plan.step(1).to_dict()
    steps = [(planned.plan, step_of_plan(planned.plan)) for planned in (plan, other)]
    yield "step-comparison", compared(steps[0], steps[1])
    yield "train", plan.train(steps=1).to_dict()
    yield "train", plan.train(steps=1, device="numpy").to_dict()
    yield "profile", plinth.profile("golden", "digits-mlp", machine="fpga-tiny", batch=4, watts=2.0).to_dict()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plinth.profile.devices.HOST", replace(DIE, convolutional=6))
        patch.setattr("plinth.profile.cache.MOST_BYTES", 1 << 16)
        yield "profile", plinth.profile("numpy").to_dict()
    fixed = plinth.array(dies=2, machine="fpga", format="fixed")
    yield "train", plinth.train(array=fixed, steps=1, batch=16, update="adagrad").to_dict()
    yield "local", plinth.train_locally(local=(32, 64, 32, 10), kernels="numpy,golden:fpga-demo", epochs=2, batch=200,
                                        push=1, clock="virtual", baseline=True).to_dict()
    yield "bench", rows_report([BenchRow("one", 1.0, "ratio", "nothing", {"any": 1}, None).to_data()])
    hypar = paper("hypar")
    yield "reproduce", json.loads(json.dumps(hypar.report(hypar.computed(["5"]))))
    plinth.train(steps=1, device="numpy", save=folder / "w.npz")
    for arguments in (["eval", str(folder / "w.npz")], ["list"], ["doctor"]):
        yield arguments[0], json.loads(CliRunner().invoke(group, [*arguments, "--json"]).stdout)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accuracy, "measure", lambda *_: [accuracy.SeedAccuracies("fp32", (0.9, 0.95))])
        printed = CliRunner().invoke(group, ["accuracy", "--only", "fp32", "--seeds", "2", "--json"])
        yield "accuracy", json.loads(printed.stdout)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, dict[str, Any]]]:
    return list(_reports(tmp_path_factory.mktemp("reports")))


def _keys(value: Any, form: dict[str, Any]) -> Iterator[str]:
    """Fields of a report, those within them as well; keys of mappings by name are none."""
    if "$ref" in form:
        form = FIELDS[form["$ref"].removeprefix("#/$defs/")].form
    if isinstance(value, list):
        for nested in value:
            yield from _keys(nested, form.get("items", {}))
    elif isinstance(value, dict):
        for key, nested in value.items():
            if "properties" in form:
                yield key
            yield from _keys(nested, form.get("properties", {}).get(key, form.get("additionalProperties") or {}))


def test_real_reports_have_the_form_of_their_schemas(reports: list[tuple[str, dict[str, Any]]]) -> None:
    assert {kind for kind, _ in reports} == set(REPORTS)
    for kind, report in reports:
        assert list(report)[:2] == ["report", "version"] and report["report"] == kind
        outcome = jschon.JSONSchema(report_schema(kind)).evaluate(jschon.JSON(report))
        assert outcome.valid, (kind, outcome.output("basic")["errors"][:4])
        assert check_report(report, "here", kind) is report


def test_every_field_of_a_report_is_on_the_page(reports: list[tuple[str, dict[str, Any]]]) -> None:
    page = (DOCS / "reports.md").read_text(encoding="utf-8")
    seen = {key for kind, report in reports for key in _keys(report, REPORTS[kind].form)}
    assert seen <= FIELDS.keys()
    assert {name for name in seen if f"\n| `{name}` | " not in page} == set()
    # Those of runs on the RTL, of ranks, of blocks of Winograd layers and of pipelines: a name no report has would be
    # for nothing.
    ranks = {"between_ranks", "from_rank", "to_rank", "sent_words", "predicted_sent_words", "messages",
             "predicted_messages"}
    assert FIELDS.keys() - seen == {"start_cycle", "end_cycle", "saved_words", "micro_batches"} | ranks


def test_the_page_is_of_today(tmp_path: Path) -> None:
    page = tmp_path / "reports.md"
    page.write_bytes((DOCS / "reports.md").read_bytes())
    assert fields.main([str(page)]) == 0
    assert page.read_bytes() == (DOCS / "reports.md").read_bytes(), "run python -m plinth.report.fields docs/reports.md"
    with pytest.raises(UserError, match=r"say docs/reports\.md"):
        fields.main([])


def test_a_report_names_only_fields_that_there_are() -> None:
    assert set(names.REPORT_NAMES) == set(REPORTS)
    for form in REPORTS.values():
        listed = f"{form.fields} {form.optional}".split()
        assert len(set(listed)) == len(listed) and set(listed) <= FIELDS.keys()
    inner = {name for field in FIELDS.values() for name in used(field.form)}
    assert inner <= FIELDS.keys()
    assert len({field.what for field in FIELDS.values()}) == len(FIELDS), "two names for one quantity"


@pytest.mark.parametrize("kind", REPORTS)
def test_schemas_are_printed(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["schema", f"report-{kind}"])
    schema = json.loads(capsys.readouterr().out)
    assert schema["$defs"]["report"]["const"] == kind and schema["$defs"]["version"]["const"] == REPORT_VERSION
    assert jschon.JSONSchema(schema).validate().valid
    assert jschon.JSONSchema(schema).evaluate(jschon.JSON(blank(kind))).valid


@pytest.mark.parametrize(("change", "needle"), [
    ({"steps": "3"}, "steps is a text, not of type integer"), ({"steps": -1}, "steps is -1, out of range"),
    ({"steps": True}, "steps is true, not of type integer"), ({"test_accuracy": 1.5}, "test_accuracy is 1.5, out of"),
    ({"injected_words_bounds": [1]}, "injected_words_bounds has 1 entries"),
    ({"scale": {"inputs": 1}}, "scale has no 'targets'"), ({"total_bytes": 1}, "'total_bytes' is no field"),
    ({"scale": {"inputs": 1, "targets": 1, "x": 1}}, "'x' is no field of scale"),
    ({"layers": [{"layer": "a", "kind": "b", "splits": [3]}]}, "splits is 3, not of type string")])
def test_faults_are_found_as_the_schema_finds_them(change: dict[str, Any], needle: str) -> None:
    wrong = blank("train", **change)
    assert not jschon.JSONSchema(report_schema("train")).evaluate(jschon.JSON(wrong)).valid
    with pytest.raises(UserError, match=needle):
        check_report(wrong, "r.json", "train")
    assert fault(blank("train"), REPORTS["train"].form) == ""
    short = {key: value for key, value in blank("train").items() if key != "batch"}
    assert fault(short, REPORTS["train"].form) == "there is no 'batch'"


@pytest.mark.parametrize(("kind", "wanted", "needle"), [
    ("eval", "doctor", "an eval report, where a doctor report is wanted; make one with `plinth doctor --json`"),
    ("list", "eval", "a list report, where an eval report is wanted; make one with `plinth eval CHECKPOINT --json`"),
    ("doctor", "list", "a doctor report, where a list report is wanted; make one with `plinth list --json`"),
    ("train", "accuracy", "a train report, where an accuracy report is wanted; make one with `plinth accuracy")])
def test_a_report_of_another_kind_is_refused(kind: str, wanted: str, needle: str) -> None:
    with pytest.raises(UserError, match=f"^r\\.json: {needle}"):
        check_report(blank(kind), "r.json", wanted)


def _refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "") and err.count("\n") == 1, err
    return err.strip().removeprefix("plinth: error: ")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A report in files of both endings, and a plan."""
    paths = {"json": tmp_path / "r.json", "yaml": tmp_path / "r.yaml", "plan": tmp_path / "p.yaml"}
    for ending in ("json", "yaml"):
        paths[ending].write_text(json.dumps(blank("simulate")))
    plinth.plan("digits-mlp", "ring-2", batch=16).save(paths["plan"])
    return paths


def test_a_report_in_place_of_a_checkpoint(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("json", "yaml"):
        place = files[ending]
        for command in (("eval", place), ("train", "--resume", place)):
            assert _refused(capsys, *command) == f"{place}: a simulate report, where a checkpoint is wanted; give a " \
                                                 "file that `plinth train --save` wrote"
    assert f"{files['plan']}: a plan, where a checkpoint is wanted; " in _refused(capsys, "eval", files["plan"])


@pytest.mark.parametrize("command", [("plan",), ("train",), ("simulate",)])
def test_a_report_in_place_of_a_network(command: tuple[str, ...], files: dict[str, Path],
                                        capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("json", "yaml"):
        error = _refused(capsys, *command, files[ending])
        assert error.startswith(f"{files[ending]}: a simulate report, where a network is wanted; "), error


@pytest.mark.parametrize("command", [
    ("simulate", "--plan"), ("train", "--plan"), ("step",), ("step", "PLAN", "--against")])
def test_a_report_in_place_of_a_plan(command: tuple[str, ...], files: dict[str, Path],
                                     capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("json", "yaml"):
        words = [files["plan"] if word == "PLAN" else word for word in command]
        error = _refused(capsys, *words, files[ending])
        assert error.startswith(f"{files[ending]}: a simulate report, where a plan is wanted; make the plan again with")


def test_a_report_in_place_of_an_array(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert _refused(capsys, "plan", "--array", files["yaml"]) == (
        f"{files['yaml']}: a simulate report, where an array is wanted; write the file as `plinth schema array` says")


OLD = blank("train") | {"version": 1}


@pytest.mark.parametrize(("train", "bench", "needle"), [
    (blank("bench"), blank("bench"), "train.json: a bench report, where a train report is wanted; make one with "
     "`plinth train`"),
    (blank("train"), blank("train"), "bench.json: a train report, where a bench report is wanted; make one with "
     "`plinth bench`"),
    (OLD, blank("bench"), "train.json: version 1 of a train report, where version 2 is wanted; make one with"),
    (OLD | {"version": True}, blank("bench"), "train.json: version true of a train report"),
    (OLD | {"version": "2"}, blank("bench"), "train.json: version the text '2' of a train report, where version 2 is "
     "wanted; make one with `plinth train`"),
    (blank("train"), [{"name": "x"}], "bench.json: a list, where a bench report is wanted"),
    ({"network": "net"}, blank("bench"), "train.json: a mapping that says no kind of report, where a train report is"),
    ({"fingerprint": "f", "layers": []}, blank("bench"), "train.json: a plan, where a train report is wanted"),
    ({"input": [4], "layers": []}, blank("bench"), "train.json: a network, where a train report is wanted"),
    ({"topology": "ring", "dies": 4}, blank("bench"), "train.json: an array, where a train report is wanted"),
    (blank("train", steps=None), blank("bench"), "train.json: a train report in which steps is nothing, not of type")])
def test_figures_are_made_of_the_right_reports(train: Any, bench: Any, needle: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- figures -->\n<!-- /figures -->\n")
    for name, data in (("train.json", train), ("bench.json", bench)):
        (tmp_path / name).write_text(json.dumps(data))
    with pytest.raises(UserError) as refused:
        figures.main([str(page), str(page), str(tmp_path / "train.json"), str(tmp_path / "bench.json")])
    assert needle in str(refused.value) and "\n" not in str(refused.value)


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    for text, needle in ((b"{", r"not valid JSON \(line 1: "), (b"\xff", "not valid JSON .no UTF-8 at byte 0"),
                         (b"[" * 100_000, "not valid JSON"), (b"[" + b"1" * 5000 + b"]", "not valid JSON")):
        (tmp_path / "bench.json").write_bytes(text)
        with pytest.raises(UserError, match=needle):
            kept_rows(tmp_path / "bench.json")


def test_rows_are_kept_among_those_of_a_bench_report_only(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    path, rows = tmp_path / "bench.json", [BenchRow(name, 1.0, "ratio", "", {}, None) for name in ("a", "b")]
    keep_rows(path, rows)
    keep_rows(path, [BenchRow("a", 2.0, "ratio", "", {}, None)])
    assert {name: row["value"] for name, row in kept_rows(path).items()} == {"a": 2.0, "b": 1.0}
    assert check_report(json.loads(path.read_text()), "", "bench")
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    for data, refusal in (([row.to_data() for row in rows], "a list, where a bench report is wanted"),
                          (blank("bench") | {"version": 1}, "version 1 of a bench report, where version 2"),
                          (blank("plan"), "a plan report, where a bench report is wanted")):
        text = json.dumps(data)
        path.write_text(text)
        error = _refused(capsys, "bench", "--only", "gemm_utilisation")
        assert error.startswith(f"{path}: {refusal}") and error.endswith("; move it away, and another is written")
        with pytest.raises(UserError):
            keep_rows(path, rows)
        assert path.read_text() == text


def test_a_papers_page_is_made_of_its_own_reports(tmp_path: Path) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "kept.json"
    page.write_text("<!-- hypar -->\n<!-- /hypar -->\n")
    kept.write_text(json.dumps(blank("train")))
    with pytest.raises(UserError, match="a train report, where a reproduce report is wanted; make one with"):
        tables.main([str(page), "--paper", "hypar", "--report", str(kept)])


def test_networks_are_found_by_name_all_the_same() -> None:
    with pytest.raises(UserError, match=r"network 'none\.json' is unknown"):
        network("none.json")


@pytest.mark.parametrize("levels", [33, 500, 100_000])
def test_reports_that_are_nested_too_deep_are_a_line(levels: int, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("[" * levels + "]" * levels)
    with pytest.raises(UserError, match=r"report\.json: (nested deeper than 32; make it flatter|not valid JSON)"):
        read_report(path, "train")


def test_figures_want_a_run_that_counted(reports: list[tuple[str, dict[str, Any]]]) -> None:
    train_report = next(report for kind, report in reports if kind == "train")
    with pytest.raises(UserError, match="has counted neither words nor cycles; give the report of `make train`"):
        figures.training_lines(train_report | {"injected_words": None})
