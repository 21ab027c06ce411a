"""Compare the numbers that a paper prints, held as data, with what is computed anew.

A paper is a YAML file of this folder and a package of the same name, ``_`` for ``-``. The file has, under ``tables``,
for each number or statement of the paper its entry: ``id``, ``series`` and ``what`` (under which the computing function
gives our value), ``value``, ``confidence`` (how it was read), ``status``, ``reason``; a table says where its entries
stand in the paper, in which unit, within which distance ours counts as the same, by which function of the package they
are computed, how many ``seconds`` that takes if it takes long, and the tables whose results it ``needs``.
A value is a number, a text, or a bound (``>10``, ``<1``). An entry may have the ``claim`` in words of which it is the
measure, with its place in the paper: its verdict follows from the value and ours. Entries that are nothing but the
measure of a claim have the series ``claims``.

The status says what agreement is worth:

independent
    Computed, and the same; nothing was chosen by it.
selected on
    Computed, and the same; but a reading or a constant was chosen by it, or taken from it, so that it shows nothing.
better
    Computed, and not the same, but beyond it on the better side: lower, or higher where the entry says
    ``better: higher``. The paper's number did not come out.
not reproduced
    Computed, and not the same.
not attempted
    Not computed.

All but the first need a reason. A value that ceases to come out is shown as not reproduced, whatever the file says.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from plinth.errors import UserError
from plinth.files.documents import read_yaml
from plinth.files.reports import report

#: A number, a statement, or nothing.
Value = float | str | None
#: Told of the table that is being computed, the tables before it, and the values that it has.
Progress = Callable[[str, int, int], None]
#: Where the papers' files are.
FOLDER = Path(__file__).parent
#: Names of all papers.
PAPERS = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
#: Series of entries that measure claims in words, which pictures leave out.
CLAIMS = "claims"
#: Distance from the paper's value within which ours is the same, unless a table or an entry has its own.
WITHIN = 0.01


class Judgement(StrEnum):
    """What agreement with a value of the paper is worth."""

    INDEPENDENT = "independent"
    SELECTED_ON = "selected on"
    BETTER = "better"
    NOT_REPRODUCED = "not reproduced"
    NOT_ATTEMPTED = "not attempted"

    @property
    def same(self) -> bool:
        """Whether ours is the paper's."""
        return self in (Judgement.INDEPENDENT, Judgement.SELECTED_ON)


class Verdict(StrEnum):
    """Whether a claim in words is true of what is computed."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_ATTEMPTED = "not attempted"


@dataclass(frozen=True, kw_only=True)
class PaperEntry:
    """A number or statement of the paper."""

    id: str
    series: str
    what: str
    value: float | str
    confidence: str
    status: Judgement
    reason: str
    note: str
    within: float
    #: The claim in words that the value stands for, and its place; empty if there is none.
    claim: str = ""
    #: Whether more is better, where something is: of the status "better".
    higher: bool = False


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """A number or statement of the paper beside ours; or ours alone, without an entry."""

    series: str
    what: str
    ours: Value
    entry: PaperEntry | None = None
    notes: Sequence[str] = ()
    #: What the table's further columns show, by their keys.
    further: Mapping[str, Value] = field(default_factory=dict)

    @property
    def paper(self) -> Value:
        """The value that the paper states."""
        return None if self.entry is None else self.entry.value

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's; of splits, the share of equal ones."""
        paper, ours = self.paper, self.ours
        if isinstance(paper, str) and isinstance(ours, str):
            if len(paper) != len(ours) or set(paper) - set("01 "):
                return None
            pairs = [(published, computed) for published, computed in zip(paper, ours, strict=True) if published != " "]
            return sum(published == computed for published, computed in pairs) / len(pairs)
        if isinstance(paper, str) or isinstance(ours, str) or not paper or ours is None:
            return None
        return ours / paper

    @property
    def same(self) -> bool | None:
        """Whether ours is the paper's: as near as the entry asks, or beyond its bound (``>10``, ``<1``), or a text that
        begins with the paper's; None if one of them is missing."""
        paper, ours = self.paper, self.ours
        if self.entry is None or paper is None or ours is None:
            return None
        if isinstance(paper, str) and isinstance(ours, str):
            return ours.startswith(paper)
        if isinstance(paper, str):
            sign, bound = paper[:1], paper[1:]
            return (sign == ">" and float(ours) > float(bound)) or (sign == "<" and float(ours) < float(bound))
        return not isinstance(ours, str) and abs(ours - paper) <= self.entry.within * abs(paper)

    @property
    def better(self) -> bool:
        """Whether ours is a number that is not the same as the paper's, and on the better side of it."""
        paper, ours = self.paper, self.ours
        if self.entry is None or self.same is not False or isinstance(paper, str) or isinstance(ours, str):
            return False
        assert paper is not None and ours is not None
        return ours > paper if self.entry.higher else ours < paper

    @property
    def status(self) -> Judgement | None:
        """The status of the row's entry: as the data say, unless a value that came out, or was better, no longer is;
        None without an entry."""
        if self.entry is None:
            return None
        stated = self.entry.status
        lost = (stated.same and not self.same) or (stated == Judgement.BETTER and not self.better)
        return Judgement.NOT_REPRODUCED if lost else stated

    @property
    def reason(self) -> str:
        """Why the status is what it is."""
        if self.entry is None:
            return ""
        if self.status != self.entry.status:
            no_longer = "better" if self.entry.status == Judgement.BETTER else f"within {self.entry.within:.1%}"
            return f"no longer {no_longer}; it was: {self.entry.status}"
        return self.entry.reason

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the entry's claim; None without one."""
        if self.entry is None or not self.entry.claim:
            return None
        if self.same is None:
            return Verdict.NOT_ATTEMPTED
        return Verdict.HOLDS if self.same else Verdict.FAILS

    @property
    def footnotes(self) -> list[str]:
        """The reason and the notes of the row, one a footnote."""
        entry = self.entry.note if self.entry else ""
        return list(dict.fromkeys(text for text in (self.reason, entry, *self.notes) if text))


@dataclass(frozen=True, kw_only=True)
class Table:
    """A figure, table or section of the paper: rows to compare, and all points for its picture."""

    key: str
    title: str
    where: str
    unit: str
    within: float
    rows: Sequence[PaperRow]
    notes: Sequence[str]
    #: Headings of the rows' further columns, by their keys.
    further: Mapping[str, str] = field(default_factory=dict)
    points: Mapping[str, Any] = field(default_factory=dict)

    @property
    def claims(self) -> list[PaperRow]:
        """Rows that measure claims in words."""
        return [row for row in self.rows if row.verdict is not None]

    @property
    def heading(self) -> str:
        """With "Figure", if it is one."""
        return f"Figure {self.key}: {self.title}" if self.key.isdigit() else f"{self.title[0].upper()}{self.title[1:]}"

    def to_data(self) -> dict[str, Any]:
        """The table as reports hold it."""
        rows = []
        for row in self.rows:
            entry = row.entry
            columns: dict[str, Any] = {
                "id": entry.id if entry else None, "series": row.series, "what": row.what, "paper": row.paper,
                "ours": row.ours, "ratio": row.ratio, "confidence": entry.confidence if entry else None,
                "status": row.status, "within": entry.within if entry else None,
                "claim": (entry.claim or None) if entry else None, "verdict": row.verdict, "reason": row.reason,
                "note": "; ".join(text for text in row.footnotes if text != row.reason), "notes": list(row.notes)}
            rows.append(columns | {key: row.further.get(key) for key in self.further})
        return {"table": self.key, "title": self.title, "where": self.where, "unit": self.unit, "within": self.within,
                "further": dict(self.further), "rows": rows, "notes": list(self.notes), "points": dict(self.points)}


class Draft:
    """A table under construction: the computing function adds our values to it; ``progress`` is told their number."""

    def __init__(self, head: Mapping[str, Any], entries: Iterable[PaperEntry],
                 progress: Callable[[int], None] = lambda values: None) -> None:
        self.head, self.progress = head, progress
        self.entries = {(entry.series, entry.what): entry for entry in entries}
        self.rows: list[PaperRow] = []
        self.notes: list[str] = list(head.get("notes", ()))
        self.further: Mapping[str, str] = {}
        self.points: dict[str, Any] = {}

    def paper(self, series: str, what: str) -> Any:
        """The paper's value."""
        return self.entries[series, what].value

    def add(self, series: str, what: str, ours: Value, further: Mapping[str, Value] | None = None, *,
            note: str = "") -> None:
        """Add our value, of an entry or beside them."""
        self.rows.append(PaperRow(series=series, what=what, ours=ours, entry=self.entries.get((series, what)),
                                  notes=(note,) if note else (), further=dict(further or {})))
        self.progress(len(self.rows))

    def done(self) -> Table:
        """The table; entries that were not computed stand behind those of their series that were, measures of claims
        behind all."""
        computed = {(row.series, row.what) for row in self.rows}
        rows = self.rows + [PaperRow(series=entry.series, what=entry.what, ours=None, entry=entry)
                            for place, entry in self.entries.items() if place not in computed]
        rows.sort(key=lambda row: row.series == CLAIMS)
        head = self.head
        return Table(key=head["key"], title=head["title"], where=head["where"], unit=head["unit"],
                     within=head.get("within", WITHIN), rows=rows, notes=self.notes, further=self.further,
                     points=self.points)


class Paper:
    """A paper's data, and how its tables are computed."""

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        self.name = name
        self.data: dict[str, Any] = read_yaml(folder / f"{name}.yaml")
        self._package = f"plinth.reproduce.{name.replace('-', '_')}"

    @cached_property
    def tables(self) -> dict[str, Mapping[str, Any]]:
        """The tables of the paper's data file, by key."""
        return {head["key"]: head for head in self.data["tables"]}

    def seconds(self, keys: Sequence[str] = ()) -> float:
        """What tables take about, all if none is named: what the file says, of those that take long, and of those whose
        results they need, each once."""
        wanted = set(keys or self.tables) & set(self.tables)
        wanted |= {needed for key in wanted for needed in self.tables[key].get("needs", ())}
        return sum(self.tables[key].get("seconds", 0) for key in wanted)

    def entries(self, key: str) -> list[PaperEntry]:
        """Entries of a table."""
        head = self.tables[key]
        return [self._entry(head, entry) for entry in head["entries"]]

    def _entry(self, head: Mapping[str, Any], entry: Mapping[str, Any]) -> PaperEntry:
        reason = entry.get("reason", "")
        return PaperEntry(id=entry["id"], series=entry.get("series", ""), what=entry["what"], value=entry["value"],
                          confidence=entry["confidence"], status=Judgement(entry["status"]),
                          reason=self.data["reasons"].get(reason, reason), note=entry.get("note", ""),
                          within=entry.get("within", head.get("within", WITHIN)), claim=entry.get("claim", ""),
                          higher=entry.get("better", head.get("better")) == "higher")

    def draft(self, key: str, progress: Callable[[int], None] = lambda values: None) -> Draft:
        """A table, nothing computed yet."""
        return Draft(self.tables[key], self.entries(key), progress)

    def computing(self, key: str) -> Callable[[Draft], None]:
        """The function that computes a table."""
        module, _, name = self.tables[key]["by"].rpartition(".")
        function: Callable[[Draft], None] = getattr(import_module(f"{self._package}.{module}"), name)
        return function

    def computed(self, keys: Sequence[str] = (), progress: Progress = lambda key, tables, values: None) -> list[Table]:
        """Tables by key; all if none is named.

        Raises
        ------
        UserError
            If a table is not among them.
        """
        for key in keys:
            if key not in self.tables:
                raise UserError(f"figure {key} of {self.data['name']} is not reproduced; choose one of "
                                f"{', '.join(self.tables)}")
        tables = []
        for done, key in enumerate(dict.fromkeys(keys or self.tables)):
            draft = self.draft(key, partial(progress, key, done))
            draft.progress(0)
            self.computing(key)(draft)
            tables.append(draft.done())
        return tables

    def kept(self, report: Mapping[str, Any]) -> list[Table]:
        """Tables as :meth:`report` had them, our values beside the entries of the file as it is now."""
        tables = []
        for data in report["tables"]:
            draft = self.draft(data["table"])
            draft.further, draft.notes, draft.points = data["further"], data["notes"], data["points"]
            for row in data["rows"]:
                # Entries that were not computed get their rows again; others may have further columns alone.
                if row["ours"] is not None or row["id"] is None or any(row[key] is not None for key in draft.further):
                    draft.add(row["series"], row["what"], row["ours"], {key: row[key] for key in draft.further},
                              note="; ".join(row["notes"]))
            tables.append(draft.done())
        return tables

    def draw(self, folder: Path, tables: Sequence[Table]) -> list[Path]:
        """Pictures of those tables that are figures, if the paper's package draws any; returns the files.

        Raises
        ------
        UserError
            If a file cannot be written.
        """
        name = f"{self._package}.pictures"
        if find_spec(name) is None:
            return []
        paths: list[Path] = import_module(name).draw(folder, tables)
        return paths

    def report(self, tables: Sequence[Table]) -> dict[str, Any]:
        """What ``plinth reproduce NAME --json`` prints, as :mod:`plinth.files.reports` says."""
        return report("reproduce", {
            "citation": self.data["paper"], "conditions": self.data["conditions"],
            "confidences": self.data["confidence"], "fitted": self.data["fitted"],
            "tables": [table.to_data() for table in tables], "entries_by_status": tally(tables),
            "claims_by_verdict": verdicts(tables)})


@lru_cache
def paper(name: str) -> Paper:
    """A paper by name."""
    return Paper(name)


def tally(tables: Iterable[Table]) -> dict[str, dict[str, Any]]:
    """Count the entries by status, and by reason."""
    counts: dict[str, dict[str, Any]] = {status.value: {"entries": 0, "reasons": {}} for status in Judgement}
    for row in (row for table in tables for row in table.rows):
        if row.status is not None:
            count = counts[row.status]
            count["entries"] += 1
            if row.reason:
                count["reasons"][row.reason] = count["reasons"].get(row.reason, 0) + 1
    return counts


def verdicts(tables: Iterable[Table]) -> dict[str, int]:
    """Count the claims by verdict, in words."""
    all_verdicts = [row.verdict for table in tables for row in table.claims]
    return {verdict.value: all_verdicts.count(verdict) for verdict in Verdict}
