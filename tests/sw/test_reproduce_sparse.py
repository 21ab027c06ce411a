"""The paper on sparse partitions computed anew: cells of Table 1 on small networks, what is kept, and the page."""

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from math import comb
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from plinth.cli.commands import run
from plinth.errors import UserError
from plinth.network.sparse.radix_net import RadixNet
from plinth.partition.hypergraph.partition import partition
from plinth.reproduce import pictures as shared_pictures
from plinth.reproduce import tables
from plinth.reproduce.paper import Judgement, Table
from plinth.reproduce.sparse_dnn import cases, figures, partitions, pictures
from plinth.reproduce.sparse_dnn.cases import SPARSE_DNN, Cell, SentAmounts, cell
from plinth.reproduce.sparse_dnn.formulas import least_words, random_messages, random_words
from plinth.reproduce.sparse_dnn.scaling import ScalingPoint
from plinth_hw.installation import cache_root

NETWORK = RadixNet(neurons=256, layers=9)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproduce.md"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Iterator[Path]:
    """A cache of the test's own."""
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "cache"))
    cell.cache_clear()
    yield cache_root()
    cell.cache_clear()


@pytest.fixture
def made(monkeypatch) -> list[tuple[int, str]]:
    """Partitions that are made, not read: parts and way."""
    made: list[tuple[int, str]] = []

    def counted(patterns, parts, how, **options):
        made.append((parts, how))
        return partition(patterns, parts, how, **options)

    monkeypatch.setattr(partitions, "partition", counted)
    return made


def counted(network: RadixNet, parts: int, how: str) -> tuple[list[int], list[int]]:
    """Words and messages that each processor sends, as the algorithm does: by the sets of columns of each pair."""
    found = partition(list(partitions.patterns(network)), parts, how)
    words, messages = [0] * parts, [0] * parts
    for pattern, (columns, rows) in zip(partitions.patterns(network), pairwise((found.inputs, *found.layers)),
                                        strict=True):
        sets = {(int(columns[column]), int(rows[row]), int(column)) for row, column in zip(*pattern.nonzero(),
                                                                                           strict=True)
                if columns[column] != rows[row]}
        for sender, receiver, _ in sets:
            words[sender] += 1
            words[receiver] += 1
        for sender, receiver in {pair[:2] for pair in sets}:
            messages[sender] += 1
            messages[receiver] += 1
    return words, messages


@pytest.mark.parametrize(("how", "of"), [("structured", "h"), ("random", "r")])
def test_a_cell_is_what_the_algorithm_sends(how, of) -> None:
    words, messages = counted(NETWORK, 8, how)
    sent: SentAmounts = getattr(cell(256, 8, 9), of)
    assert (sent.vol_avg, sent.vol_max) == (np.mean(words), max(words))
    assert (sent.msg_avg, sent.msg_max) == (np.mean(messages), max(messages))
    assert sent.imb == sent.imb_layer == 1 and 0 < sent.later_vol_avg < sent.vol_avg


def test_words_of_rows_at_random_are_those_of_the_formula() -> None:
    """Which draws each row's owner for itself; without putting back, as even numbers ask for, it is 1 % more."""
    r, chance = cell(1024, 32, 6).r, 1 - comb(992, 32) / comb(1024, 32)
    without_putting_back = 2 * 1024 * 6 * 31 / 32 * chance
    assert r.vol_avg == pytest.approx(without_putting_back, rel=0.004)
    assert random_words(1024, 6, 32) == pytest.approx(without_putting_back / 1.009, rel=0.0001)
    assert r.msg_avg == pytest.approx(random_messages(1024, 6, 32), rel=0.001)


def test_the_paper_prints_what_the_formula_gives() -> None:
    """Of messages in the rounding of its labels; of words 3 % less, at every number of processors."""
    table, = SPARSE_DNN.computed(["n65536"])
    for row in table.rows:
        if row.series == "R_vol_avg":
            assert row.ratio == pytest.approx(1 / 0.9687, rel=0.001)
        if row.series == "R_msg_avg":
            assert round(float(row.ours or 0)) == row.paper or row.ratio == pytest.approx(1, abs=0.01)


def test_no_partition_with_even_rows_sends_less_than_the_bound() -> None:
    for parts in (32, 64):
        assert cell(256, parts, 4).h.vol_avg >= least_words(256, 4, parts) > 0
    assert least_words(1024, 120, 32) == 0
    assert least_words(1024, 120, 512) == pytest.approx(15 * 1024 * 120 * 2 / 512)


def test_a_partition_is_made_once(made) -> None:
    first = partitions.kept(NETWORK, 8, "structured")
    assert partitions.kept(NETWORK, 8, "structured") == first == partition(list(partitions.patterns(NETWORK)), 8,
                                                                          "structured")
    assert made == [(8, "structured")]
    for other in ((RadixNet(neurons=256, layers=8), 8, "structured", 0), (NETWORK, 4, "structured", 0),
                  (NETWORK, 8, "random", 0), (NETWORK, 8, "random", 1)):
        partitions.kept(*other)
    assert len(made) == 5
    # Permutations of another seed are other patterns.
    partitions.kept(RadixNet(neurons=256, layers=9, seed=1), 8, "structured")
    assert len(made) == 6


def test_an_interrupted_table_goes_on_where_it_stopped(made, monkeypatch, cache) -> None:
    whole = partitions.partition

    def interrupted(patterns, parts, how, **options):
        if len(made) == 3:
            raise KeyboardInterrupt
        return whole(patterns, parts, how, **options)

    with monkeypatch.context() as patch:
        patch.setattr(partitions, "partition", interrupted)
        with pytest.raises(KeyboardInterrupt):
            small_table(monkeypatch)
    assert made == [(4, "structured"), (4, "random"), (8, "structured")]
    assert len(list((cache / "partitions").glob(f"*/{partitions.FILE}"))) == 3
    assert not list((cache / "partitions").glob("*.part-*"))
    cell.cache_clear()
    small_table(monkeypatch)
    assert made[3:] == [(8, "random")]


#: A table of N = 256 in a process of its own, which ends as if by the system while it makes the fourth partition.
KILLED = """
import os, signal, pytest
from plinth.reproduce.sparse_dnn import partitions
from tests.sw.test_reproduce_sparse import small_table
whole, made = partitions.partition, []
def killed(patterns, parts, how, **options):
    made.append(how)
    found = whole(patterns, parts, how, **options)
    if len(made) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return found
partitions.partition = killed
small_table(pytest.MonkeyPatch())
"""


def test_a_table_that_was_killed_half_way_takes_what_is_there(made, monkeypatch, cache) -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED], cwd=PAGE.parents[1], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert ran.returncode == -9, ran.stderr
    assert len(list((cache / "partitions").glob(f"*/{partitions.FILE}"))) == 3
    assert len(list((cache / "partitions").glob("*.part-*"))) == 1
    table = small_table(monkeypatch)
    assert made == [(8, "random")] and len(table.rows) > 10
    assert not list((cache / "partitions").glob("*.part-*"))


def test_a_damaged_partition_is_made_again(made, caplog, cache) -> None:
    first = partitions.kept(NETWORK, 8, "structured")
    file, = cache.glob(f"partitions/*/{partitions.FILE}")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert partitions.kept(NETWORK, 8, "structured") == first
    assert made == [(8, "structured")] * 2 and "was damaged; building it again" in caplog.text
    file.unlink()
    assert partitions.kept(NETWORK, 8, "structured") == first and len(made) == 3


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "file"))
    with pytest.raises(UserError, match="set PLINTH_BUILD to another one"):
        partitions.kept(NETWORK, 8, "random")


def small_table(monkeypatch, processors: tuple[int, ...] = (4, 8)) -> Table:
    """Table 1 of N = 256 and nine layers in the place of N = 1,024."""
    monkeypatch.setattr(figures, "PROCESSORS", processors)
    monkeypatch.setattr(figures, "LAYERS", NETWORK.layers)
    monkeypatch.setattr(figures, "cell", lambda neurons, parts: cell(256, parts, NETWORK.layers))
    draft = SPARSE_DNN.draft("n1024")
    figures.partitioned(draft)
    return draft.done()


def test_a_table_has_ratios_amounts_and_what_is_expected(monkeypatch) -> None:
    table = small_table(monkeypatch)
    row = next(row for row in table.rows if (row.series, row.what) == ("ratio_vol_avg", "P = 8"))
    found = cell(256, 8, 9)
    assert row.ours == found.h.vol_avg / found.r.vol_avg < 1
    assert row.further == {"h": found.h.vol_avg / 1e3, "r": found.r.vol_avg / 1e3,
                           "formula": random_words(1024, 9, 8) / 1e3, "least": 0}
    assert "layer 1 counts as any other, in both directions" in table.notes[-1]


def amounts(neurons: int, parts: int, share: float) -> Cell:
    """A cell whose H sends a share of what R sends, as much as rows at random send."""
    words = random_words(neurons, 120, parts)
    r, h = (SentAmounts(words * of, words * of, 1234.5678 * of, 1234.5678 * of, 1.0, 1.0, words * of, 1234.5678 * of)
            for of in (1, share))
    return Cell(h, r, 1.25, ("layer 3: its rows allow an imbalance of 1.250 at best, not 1.010; it has 1.250",) * 2)


def test_where_even_rows_do_not_allow_what_is_asked(monkeypatch) -> None:
    """Of N = 1,024 and P = 512 even rows need 15 words a column of the 31.5 of R: .53 in print is nearly that."""
    monkeypatch.setattr(figures, "cell", lambda neurons, parts: amounts(neurons, parts, 0.5))
    draft = SPARSE_DNN.draft("n1024")
    figures.partitioned(draft)
    bound = {(row.series, row.what): note for row in draft.rows for note in row.notes if "even rows" in note}
    assert list(bound) == [("ratio_vol_max", "P = 512")]
    ratio = least_words(1024, 120, 512) / random_words(1024, 120, 512)
    assert f"{ratio:.3f} of R's: {ratio / 0.53:.3f} of the paper's ratio is the least there is" in bound[
        "ratio_vol_max", "P = 512"] and 0.92 > ratio / 0.53 > 0.91
    row = next(row for row in draft.rows if (row.series, row.what) == ("H_imb_layer", "P = 32"))
    assert row.ours == 1 and row.entry is None
    assert "P = 32: rows of 2 layers do not allow 1.01; layer 3: its rows allow an imbalance of 1.250" in str(
        draft.notes)


def test_table_3_has_our_seconds_beside_the_papers(monkeypatch) -> None:
    monkeypatch.setattr(figures, "cell", lambda neurons, parts: amounts(neurons, parts, 0.5))
    table, = SPARSE_DNN.computed(["partitioning"])
    seconds = {row.what: (row.paper, row.ours, row.further.get("here")) for row in table.rows}
    assert len(seconds) == 20 and seconds["N = 4,096, P = 32"] == (10.93, None, 1.25)
    assert seconds["N = 65,536, P = 32"] == (344.79, None, None)
    again, = SPARSE_DNN.kept(SPARSE_DNN.report([table]))
    assert again.to_data() == table.to_data()


def test_terminal_tables_have_80_columns(monkeypatch) -> None:
    monkeypatch.setattr(figures, "cell", lambda neurons, parts: amounts(neurons, parts, 0.123456))
    for by in ("simulated", "measured"):
        monkeypatch.setattr(figures, by, lambda neurons, layers, ranks, how, samples, seed: ScalingPoint(
            0.123456 * (1 + (how == "random")), 0.234567 * (1 + (how == "random")), 0.05, 0.01, 0.123456))
    shown = io.StringIO()
    tables.show(Console(file=shown, width=80), SPARSE_DNN, SPARSE_DNN.computed())
    assert max(map(len, shown.getvalue().splitlines())) <= 80


def test_what_is_better_says_so_and_what_no_longer_is_turns(monkeypatch) -> None:
    """Statuses are of what the file states and of the numbers."""
    def states(share: float) -> dict[str, str]:
        worse = {"vol_avg": share, "vol_max": share, "msg_avg": share, "msg_max": share, "imb": 1.0, "imb_layer": 1.0,
                 "later_vol_avg": share, "later_msg_avg": share}
        found = Cell(SentAmounts(**worse), SentAmounts(*[1.0] * 8), 1)
        monkeypatch.setattr(figures, "cell", lambda neurons, parts: found)
        draft = SPARSE_DNN.draft("n1024")
        figures.partitioned(draft)
        return {row.entry.id.removeprefix("spdnn.table1.N1024."): f"{row.status}: {row.reason}"
                for row in draft.done().rows if row.entry and row.series == "ratio_vol_avg"}

    assert states(0.05)["P32.ratio_vol_avg"].startswith("better: fewer words by the partition alone")
    assert states(0.34)["P32.ratio_vol_avg"] == "not reproduced: no longer better; it was: better"
    assert states(0.5)["P32.ratio_vol_avg"] == "not reproduced: no longer better; it was: better"


def test_ranges_are_of_all_processors(monkeypatch) -> None:
    monkeypatch.setattr(figures, "PROCESSORS", (4, 8))
    monkeypatch.setattr(figures, "cell", lambda neurons, parts: cell(256, parts, NETWORK.layers))
    draft = SPARSE_DNN.draft("text")
    figures.ranges(draft)
    ours = {(row.series, row.what): row.ours for row in draft.rows}
    saved = [100 * (1 - cell(256, parts, 9).ratio("vol_avg")) for parts in (4, 8)]
    assert ours["n1024", "average volume, least"] == min(saved) < max(saved) == ours["n4096", "average volume, most"]


def test_the_formula_counts_what_the_sets_do() -> None:
    table, = SPARSE_DNN.computed(["setup"])
    row = next(row for row in table.rows if row.what == "volume of a layer")
    assert row.status == Judgement.INDEPENDENT
    by_lambda, by_sets = row.notes[0].split(" words by lambda, ")
    assert by_lambda == by_sets.split()[0] != "0"


@pytest.mark.parametrize("columns", [1, 3])
def test_titles_fit_their_pictures(columns: int) -> None:
    drawing, _ = shared_pictures.picture("Communication of partitions (H) over that of rows dealt out at random (R), "
                                         "120 layers", 1.2 + 3.9 * columns, 6.6, 2, columns)
    drawing.canvas.draw()
    box = drawing._suptitle.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= drawing.bbox.width


def test_pictures_are_of_tables_with_ratios(monkeypatch, tmp_path) -> None:
    table = small_table(monkeypatch, (32, 64))
    paths = pictures.draw(tmp_path, [table])
    assert [path.name for path in paths] == ["ratios.png", "scaling.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert pictures.draw(tmp_path, SPARSE_DNN.computed(["n65536", "times"])) == []


def test_the_command(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(cases, "LAYERS", 9)
    run(["reproduce", "sparse-dnn", "--figure", "n65536", "--figure", "times", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert "Table 1, N = 65,536" in out and "not tried = not attempted" in out
    with pytest.raises(UserError, match="figure 1 of sparse-dnn is not reproduced; choose one of n1024, n4096"):
        run(["reproduce", "sparse-dnn", "--figure", "1"])


def test_what_takes_long_says_so() -> None:
    assert SPARSE_DNN.seconds(["setup"]) == 0 < SPARSE_DNN.seconds(["n1024"]) < SPARSE_DNN.seconds()
    # Their cells are the same, partitioned once.
    cells, ranks = SPARSE_DNN.seconds(["partitioning"]), SPARSE_DNN.seconds(["scaling"])
    assert cells == SPARSE_DNN.seconds(["text", "n1024"]) and cells + ranks == SPARSE_DNN.seconds()


def on_the_page() -> str:
    """The tables of the page."""
    parts = tables.parts(PAGE.read_text(encoding="utf-8"), "sparse-dnn")
    assert parts is not None
    return parts[1]


@pytest.mark.parametrize("keys", [("n65536", "setup", "times"),
                                  pytest.param(("n1024", "n4096", "n16384", "text"), marks=pytest.mark.long)])
def test_tables_of_the_page_are_current(keys) -> None:
    text = on_the_page()
    for table in SPARSE_DNN.computed(keys):
        assert "\n".join(tables.section(SPARSE_DNN, table)) in text, table.key
        for row in table.rows:
            assert row.entry is None or row.status == row.entry.status, row
            assert row.entry is None or (row.ours is None) == (row.status == Judgement.NOT_ATTEMPTED), row
            assert row.status != Judgement.NOT_REPRODUCED or not row.same, row


def test_the_page_has_every_entry() -> None:
    """With the status of the file, its reason, and as many as there are of each."""
    text = on_the_page()
    lines = {line.rsplit("| ", 2)[-1].strip(" |`"): line for line in text.splitlines() if line.endswith("` |")}
    entries = [entry for key in SPARSE_DNN.tables for entry in SPARSE_DNN.entries(key)]
    assert set(lines) == {entry.id for entry in entries}
    for entry in entries:
        assert f"| {entry.status} |" in lines[entry.id] and entry.reason in text, entry.id
    for status in Judgement:
        assert f"| **{status}** | **{sum(entry.status == status for entry in entries)}** | |" in text
