"""Papers as data: every number has a row with a status, and a status cannot claim what the numbers do not show."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from rich.console import Console

from plinth.cli import names
from plinth.errors import UserError
from plinth.reproduce import tables
from plinth.reproduce.paper import FOLDER, Draft, Judgement, Paper, PaperEntry, PaperRow, paper, tally

#: Ids and values that must have a row, by paper; and the list that they were copied from, where it exists.
COPY = Path(__file__).with_name("published.yaml")
TARGETS = Path(__file__).resolve().parents[3] / "shared" / "targets.yaml"
NUMBERS = yaml.safe_load(COPY.read_text(encoding="utf-8"))


def entries(name: str) -> list[PaperEntry]:
    article = paper(name)
    return [entry for key in article.tables for entry in article.entries(key)]


def listed(name: str) -> list[dict[str, object]]:
    """Numbers of a paper: of the copy, and of the list itself where it exists."""
    lists = [NUMBERS[name]]
    if TARGETS.exists():
        section = next(iter(NUMBERS[name])).partition(".")[0]
        targets = yaml.safe_load(TARGETS.read_text(encoding="utf-8"))[section]["entries"]
        lists.append({entry["id"]: entry["value"] for entry in targets})
    return lists


def test_papers_of_the_command_are_those_with_a_file() -> None:
    assert sorted(names.PAPERS) == sorted(path.stem for path in FOLDER.glob("*.yaml"))
    assert set(NUMBERS) == set(names.PAPERS)


@pytest.mark.parametrize("name", names.PAPERS)
def test_every_published_number_has_a_row(name) -> None:
    rows = {entry.id: entry for entry in entries(name)}
    for numbers in listed(name):
        assert [id_ for id_ in numbers
                if not any(row == id_ or row.startswith(f"{id_}.") for row in rows)] == []
        for id_, value in numbers.items():
            if id_ in rows and not isinstance(value, str):
                assert rows[id_].value == value, id_


@pytest.mark.parametrize("name", names.PAPERS)
def test_the_copy_of_the_numbers_is_whole(name) -> None:
    first, *others = listed(name)
    assert all(first == other for other in others)


@pytest.mark.parametrize("name", names.PAPERS)
def test_entries_are_sound(name) -> None:
    article = paper(name)
    rows = entries(name)
    assert len({entry.id for entry in rows}) == len(rows)
    for key in article.tables:
        table_entries = article.entries(key)
        assert len({(entry.series, entry.what) for entry in table_entries}) == len(table_entries)
        assert callable(article.computing(key))
    for entry in rows:
        assert entry.confidence in article.data["confidence"]
        assert not entry.series or entry.series in article.data["series"]
        assert entry.reason or entry.status == Judgement.INDEPENDENT, entry.id
        # Labels of few digits are within half of their last one.
        digits = len(str(entry.value).partition(".")[2]) if isinstance(entry.value, float) else 0
        rounded = not isinstance(entry.value, str) and entry.within * entry.value <= 0.5 * 10.0 ** -digits
        assert 0 < entry.within <= 0.05 or rounded, entry.id
    used = {entry.get("reason") for head in article.data["tables"] for entry in head["entries"]}
    assert set(article.data["reasons"]) <= used


TOY = """
name: Toy
paper: A toy
conditions: none
confidence: {exact: legible, read-from-garbled: guessed}
fitted: []
series: {bars: Bars}
reasons: {fit: a constant was fitted to it, lost: it has no source}
tables:
- key: '1'
  title: bars
  where: Figure 1
  unit: s
  by: numbers.bars
  within: 0.02
  entries:
  - {id: toy.a, series: bars, what: a, value: 2.0, confidence: exact, status: independent}
  - {id: toy.b, series: bars, what: b, value: 4.0, confidence: read-from-garbled, status: selected on, reason: fit,
     within: 0.05}
  - {id: toy.c, series: bars, what: c, value: 5.0, confidence: exact, status: independent}
  - {id: toy.d, series: bars, what: d, value: '>10', confidence: exact, status: not reproduced, reason: '[it] stays',
     claim: 'd | is [more] than ten (I)'}
  - {id: toy.e, series: bars, what: e, value: 1, confidence: exact, status: not attempted, reason: lost,
     claim: e is 1 (II)}
"""


def bars(draft: Draft) -> None:
    draft.further = {"twice": "twice"}
    for what, ours in (("a", 2.03), ("b", 4.0), ("c", 5.2), ("d", 9.0), ("more", 1.0)):
        draft.add("bars", what, ours, {"twice": 2 * ours}, note="measured" if what == "a" else "")
    draft.add("bars", "beside", None, {"twice": 3.0})
    draft.notes.append("a toy")


@pytest.fixture
def toy(tmp_path, monkeypatch) -> Paper:
    """A second paper: a file, and one function."""
    (tmp_path / "toy.yaml").write_text(TOY, encoding="utf-8")
    package, module = ModuleType("plinth.reproduce.toy"), ModuleType("plinth.reproduce.toy.numbers")
    package.__path__ = []
    module.bars = bars
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return Paper("toy", tmp_path)


def test_a_paper_is_a_file_and_functions(toy, tmp_path) -> None:
    told: list[tuple[str, int, int]] = []
    table, = toy.computed(progress=lambda *event: told.append(event))
    assert told == [(table.key, 0, values) for values in range(len(told))] and len(told) == 7
    assert [(row.what, row.status) for row in table.rows] == [
        ("a", "independent"), ("b", "selected on"), ("c", "not reproduced"), ("d", "not reproduced"), ("more", None),
        ("beside", None), ("e", "not attempted")]
    assert {row.what: row.same for row in table.rows} == {
        "a": True, "b": True, "c": False, "d": False, "more": None, "beside": None, "e": None}
    data = toy.report([table])
    assert data["entries_by_status"] == tally([table]) == {
        "independent": {"entries": 1, "reasons": {}},
        "selected on": {"entries": 1, "reasons": {"a constant was fitted to it": 1}},
        "better": {"entries": 0, "reasons": {}},
        "not reproduced": {"entries": 2, "reasons": {"no longer within 2.0%; it was: independent": 1, "[it] stays": 1}},
        "not attempted": {"entries": 1, "reasons": {"it has no source": 1}}}
    first, second, *_ = data["tables"][0]["rows"]
    assert (first["within"], second["within"]) == (0.02, 0.05)
    assert data["claims_by_verdict"] == {"holds": 0, "fails": 1, "not attempted": 1}
    assert [(row["claim"], row["verdict"]) for row in data["tables"][0]["rows"]] == [
        *[(None, None)] * 3, ("d | is [more] than ten (I)", "fails"), *[(None, None)] * 2,
        ("e is 1 (II)", "not attempted")]
    assert (first["id"], first["status"], first["reason"], first["note"], first["twice"]) == (
        "toy.a", "independent", "", "measured", 4.06)
    assert toy.draw(tmp_path, [table]) == []


def test_statuses_have_colours_of_their_own_and_are_counted(toy) -> None:
    console = Console(width=80, force_terminal=True, color_system="standard")
    with console.capture() as captured:
        tables.show(console, toy, toy.computed())
    styled = captured.get()
    text = re.sub(r"\x1b\[[0-9;]*m", "", styled)
    for short, colour in (("indep.", 32), ("selected", 36), ("not repr.", 31), ("not tried", 33)):
        assert f"\x1b[{colour}m{short}" in styled, short
    assert "~4" in text and "5 published values" in text
    assert [line.split()[:2] for line in text.splitlines() if line[:5].strip().isdigit()] == [
        ["1", "independent"], ["1", "selected"], ["0", "better"], ["2", "not"], ["1", "not"]]
    assert "[it] stays" in text
    assert "5 %" in text and "unless a row says otherwise" in text
    assert "Claims in words: 0 hold, 1 fail, 1 not attempted" in text
    assert "\x1b[31mfails" in styled and "d | is [more] than ten (I) -- paper >10, ours 9: [it] stays" in text


def test_a_table_whose_rows_have_no_distance_of_their_own_shows_none(toy, tmp_path) -> None:
    (tmp_path / "toy.yaml").write_text(TOY.replace("     within: 0.05}", "     note: none}"), encoding="utf-8")
    table, = Paper("toy", tmp_path).computed()
    text = "\n".join(tables.section(toy, table))
    assert "the same: within 2 % of the paper\n" in text and "within |" not in text


def test_tables_on_a_page(toy, tmp_path, monkeypatch) -> None:
    text = tables.markdown(toy, toy.computed())
    assert "| a | 2 | 2.03 | 1.015 | 4.06 |  | independent | exact | 1 | `toy.a` |" in text.splitlines()
    assert "| b | 4 | 4 | 1.000 | 8 | 5 % | selected on | read-from-garbled | 2 | `toy.b` |" in text.splitlines()
    assert "- the same: within 2 % of the paper, unless a row says otherwise (column 'within')" in text.splitlines()
    assert "0 hold, 1 fail, 1 not attempted. The verdict follows from the values." in text.splitlines()
    assert "| d \\| is [more] than ten (I) | fails | >10 | 9 | [it] stays | `toy.d` |" in text.splitlines()
    assert "| **selected on** | **1** | |" in text.splitlines()
    assert "| | 1 | it has no source |" in text.splitlines()


def test_tables_of_a_report_are_those_that_it_was_made_of(toy, tmp_path, monkeypatch) -> None:
    """As values; what an entry says is the file's of today."""
    computed = toy.computed()
    report = json.loads(json.dumps(toy.report(computed)))
    assert tables.markdown(toy, toy.kept(report)) == tables.markdown(toy, computed)
    (tmp_path / "toy.yaml").write_text(TOY.replace("a constant was fitted to it", "by hand"), encoding="utf-8")
    now = Paper("toy", tmp_path)
    assert {row.what: row.reason for row in now.kept(report)[0].rows}["b"] == "by hand"
    page, kept = tmp_path / "page.md", tmp_path / "report.json"
    kept.write_text(json.dumps(report), encoding="utf-8")
    page.write_text("before\n<!-- toy -->\nold\n<!-- /toy -->\nbehind\n", encoding="utf-8")
    monkeypatch.setattr(tables, "PAPERS", ("toy",))
    monkeypatch.setattr(tables, "paper", lambda name: toy)
    monkeypatch.setattr(toy, "computed", lambda: pytest.fail("it is kept"))
    assert tables.main([str(page), "--report", str(kept)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text == f"before\n<!-- toy -->\n{tables.markdown(toy, computed)}<!-- /toy -->\nbehind\n"


def test_an_unknown_table_is_one_line(toy) -> None:
    with pytest.raises(UserError, match="figure 7 of Toy is not reproduced; choose one of 1"):
        toy.computed(["7"])


def row(value: float | str, ours: float | str | None, within: float = 0.01, status: str = "independent") -> PaperRow:
    entry = PaperEntry(id="x", series="", what="x", value=value, confidence="exact", status=Judgement(status),
                       reason="",
                       note="", within=within)
    return PaperRow(series="", what="x", ours=ours, entry=entry)


@pytest.mark.parametrize(("value", "ours", "ratio", "same"), [
    (2.0, 1.0, 0.5, False), (2.0, 2.019, 1.0095, True), (2.0, 2.021, 1.0105, False), ("0011", "0111", 0.75, False),
    ("00 11", "00 11", 1, True), ("usually", "usually: 3/4", None, True), ("usually", "rarely: 1/4", None, False),
    (">10", 10.0, None, False), (">10", 10.1, None, True), ("<1", 1.0, None, False), ("<1", 0.9, None, True),
    (0, 0.0, None, True), (0, 0.1, None, False),
    (1.0, None, None, None), ("3@5", "3@6", None, False), (3, "three", None, False),
])
def test_what_counts_as_the_same(value, ours, ratio, same) -> None:
    paper_row = row(value, ours)
    assert paper_row.same is same and paper_row.ratio == pytest.approx(ratio)
    if same is not None:
        assert (paper_row.status == Judgement.INDEPENDENT) is same
    assert PaperRow(series="", what="x", ours=ours).same is None


@pytest.mark.parametrize(("value", "ours", "higher", "status"), [
    (2.0, 1.0, False, "better"), (2.0, 1.99, False, "not reproduced"), (2.0, 3.0, False, "not reproduced"),
    (2.0, 3.0, True, "better"), (2.0, 1.0, True, "not reproduced"), ("<2", 1.0, False, "not reproduced"),
    (2.0, None, False, "not reproduced"), ("a", "b", False, "not reproduced")])
def test_better_is_beyond_the_same_on_the_side_that_the_entry_says(value, ours, higher, status) -> None:
    entry = PaperEntry(id="x", series="", what="x", value=value, confidence="exact", status=Judgement.BETTER,
                       reason="why", note="", within=0.01, higher=higher)
    found = PaperRow(series="", what="x", ours=ours, entry=entry)
    assert found.status == status
    assert found.reason == ("why" if status == "better" else "no longer better; it was: better")
    assert not Judgement.BETTER.same


def test_the_better_side_is_the_table_s_unless_an_entry_has_its_own(tmp_path) -> None:
    (tmp_path / "toy.yaml").write_text(TOY.replace("  within: 0.02", "  better: higher\n  seconds: 5").replace(
        "id: toy.b,", "id: toy.b, better: lower,"), encoding="utf-8")
    toy = Paper("toy", tmp_path)
    assert [entry.higher for entry in toy.entries("1")] == [True, False, True, True, True]
    assert toy.seconds() == toy.seconds(["1"]) == 5


def test_an_unknown_status_is_an_error() -> None:
    with pytest.raises(ValueError, match="'good'"):
        row(1.0, 1.0, status="good")
