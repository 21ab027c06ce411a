"""Rows about tables: what they compute of what ranks and dies tell, on small models and made-up texts."""

import json
from typing import Any, cast

import numpy as np
import pytest

from plinth.array.array import ring
from plinth.bench import die_tables, tables
from plinth.bench.language_model import (
    ALL_REDUCE,
    GATHERED,
    HYBRID,
    SERVERS_ONLY,
    WAYS,
    ModelSizes,
    TableSizes,
    batches,
)
from plinth.bench.rows import BENCHES
from plinth.cli.names import BENCH_NAMES
from plinth.names import GATHERED_ROWS, SERVERS
from plinth.workers.clocks import VirtualRun

SMALL = ModelSizes({"table": TableSizes(rows=60, width=4, context=3)}, hidden=8, classes=12, batch=16)
SMALL_TRANSLATION = ModelSizes({"source": TableSizes(rows=40, width=4, context=5), "target": TableSizes(
    rows=60, width=4, context=2)}, hidden=8, classes=12, batch=16)


def made_up(sizes: ModelSizes) -> tuple[Any, Any]:
    """Frequent words come often, and the word behind follows from the last one."""
    rows = np.concatenate([[table.rows] * table.context for table in sizes.tables.values()])
    x = np.exp(np.random.default_rng(3).random((2000, len(rows))) * np.log(rows)).astype(np.int64)
    return x, x[:, -1] * 7 % sizes.classes


@pytest.fixture(autouse=True)
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MODELS", {"language": tables.TextModel(SMALL, made_up),
                                           "translation": tables.TextModel(SMALL_TRANSLATION, made_up)})
    monkeypatch.setattr(tables, "NARROW", 4)


def test_rows_have_names() -> None:
    assert set(tables.BENCHES) | set(die_tables.BENCHES) <= set(BENCH_NAMES) & set(BENCHES)


def test_ranks_print_what_they_find_of_each_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
                                                  ) -> None:
    for name, what in {"_words_of_ways": "words", "_curves": "curves", "_times_of_ways": "times"}.items():
        monkeypatch.setattr(tables, name, lambda model, what=what: {what: len(model.sizes.tables)})
        tables.print_found(what)
        assert json.loads(capsys.readouterr().out) == {"language": {what: 1}, "translation": {what: 2}}


def test_samples_are_of_the_texts_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "labelled", lambda *asked: (np.zeros((1, 3), np.float32), asked))
    x, asked = tables.text(SMALL)
    assert asked == ("asv", (60, 3, 12)) and x.dtype == np.int64
    monkeypatch.setattr(tables, "translated", lambda *asked: asked)
    assert tables.translation(SMALL_TRANSLATION) == ("kjv", "asv", (40, 60), (5, 2), 12)


@pytest.mark.parametrize("name", ["language", "translation"])
def test_words_of_ways_on_one_rank(name: str) -> None:
    model = tables.MODELS[name]
    found = tables._words_of_ways(model)
    assert set(found["ways"]) == set(WAYS)
    losses = [way["last_loss"] for way in found["ways"].values()]
    assert losses == losses[:1] * len(losses)
    for way in found["ways"].values():
        assert way["values"] == way["formula"] == 0
        assert way["tables"] == {table: {"values": 0, "formula": 0} for table in model.sizes.tables}
    samples, column = batches(*made_up(model.sizes), model.sizes, 0, 1), 0
    words = np.array([next(samples)[0] for _ in range(tables.COUNTED)])
    for table, sizes in model.sizes.tables.items():
        own = words[:, :, column:column + sizes.context].reshape(tables.COUNTED, -1)
        distinct = sum(len(set(step.tolist())) for step in own)
        assert found["touched"][table] == pytest.approx(distinct / (tables.COUNTED * sizes.rows))
        column += sizes.context


def test_alphas_are_means_over_workers() -> None:
    class Told:
        def told(self, own: dict[str, float]) -> list[dict[str, float]]:
            return [own, {name: share / 2 for name, share in own.items()}]

    class Touching:
        workers, tables = Told(), ("source", "target")

        def touched(self) -> dict[str, float]:
            return {"source": 0.5, "target": 0.25}

    assert tables._alphas(cast("Any", Touching())) == {"source": 0.375, "target": 0.1875}


def test_curves_of_all_ways_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CURVE_STEPS", 30)
    monkeypatch.setattr(tables, "CURVE_BATCH", 16)
    alone = tables._of_models(tables._curves)
    assert set(alone["translation"]["touched"]) == {"source", "target"}
    for model in alone.values():
        losses = model["losses"]
        assert set(losses) == set(WAYS) and all(len(curve) == 30 for curve in losses.values())
        assert np.mean(losses[HYBRID][-5:]) < 0.9 * np.mean(losses[HYBRID][:5])

    def told(ranks: int, what: str) -> Any:
        assert what == "curves"
        return {name: {**model, "losses": {way: [loss * (1.01 if (name, ranks, way) == ("translation", 4, GATHERED)
                                                         else 1) for loss in losses]
                                           for way, losses in model["losses"].items()}}
                for name, model in alone.items()}

    monkeypatch.setattr(tables, "_told", told)
    row, = tables.curves_of_ways()
    assert row.value == pytest.approx(0.01) and row.detail["translation, 4 ranks, gathered"] == row.value
    assert row.detail["translation, 2 ranks, gathered"] == row.detail["language, 4 ranks, gathered"] == 0
    assert row.detail["touched"]["translation, 1 ranks"] == alone["translation"]["touched"]
    for model in row.detail["perplexities"].values():
        assert model["29"] < model["0"]


def test_a_perplexity_that_does_not_fall_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CURVE_STEPS", 20)
    assert tables._perplexities("some", np.linspace(2, 1, 20))["0"] == pytest.approx(np.exp(2))
    with pytest.raises(AssertionError, match="the perplexity of the some model does not fall"):
        tables._perplexities("some", np.linspace(1, 2, 20))


def test_the_worst_ratio_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(ranks: int, what: str) -> Any:
        assert what == "words"
        return {name: {"touched": {}, "ways": {way: {
            "values": 200 if (name, ranks, way) == ("translation", 4, GATHERED) else 100, "formula": 100, "indices": 1,
            "tables": {"source": {"values": 50, "formula": 25}}} for way in WAYS}} for name in tables.MODELS}

    monkeypatch.setattr(tables, "_told", told)
    row, = tables.words_over_formula()
    assert row.value == 2 and row.limited_by.startswith("translation, 4 ranks, gathered")
    assert row.detail["indices_over_values"] == 0.01 and len(row.detail) == 2 * 2 * len(WAYS) + 3
    assert row.detail["tables"]["language, 2 ranks, rings, source"] == 2 and len(row.detail["tables"]) == 16


def test_owners_of_rows_in_turn_are_even() -> None:
    row, = tables.fullest_owner()
    ranges = [value for name, value in row.detail.items() if "ranges" in name]
    assert len(ranges) == 2 and 1 <= row.value < min(ranges)


def test_where_two_ways_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2 a words against 2, and 4 a against 2.
    assert die_tables.crossing({1.0: 2.0, 0.25: 0.5}, 2.0) == 1
    assert die_tables.crossing({0.25: 1.0, 1.0: 4.0}, 2.0) == 0.5
    monkeypatch.setattr(tables, "_told", lambda ranks, what: {SERVERS: 1.0, GATHERED_ROWS: 2 / ranks})
    monkeypatch.setattr(tables, "die_crossings", lambda dies: {SERVERS: 0.98, GATHERED_ROWS: 0.51})
    row, = tables.crossover_error()
    assert row.value == pytest.approx(0.02) and row.limited_by.startswith("4 dies, servers")
    assert len(row.detail["errors"]) == 6


@pytest.mark.slow
def test_dies_cross_where_the_formulas_say() -> None:
    assert die_tables.die_crossings(2) == pytest.approx({SERVERS: 1.0, GATHERED_ROWS: 1.0}, abs=1e-9)


def test_ratios_of_times_are_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are those of the language model; the translation model's ratios stand in the details."""
    found: dict[str, Any] = {
        "language": {"seconds": {HYBRID: [1.0, 2.0, 4.0], SERVERS_ONLY: [2.0, 4.0, 8.0], ALL_REDUCE: [3.0, 6.0, 16.0],
                                 GATHERED: [1.5, 2.5, 4.0]},
                     "fullest": {HYBRID: 5, SERVERS_ONLY: 7, ALL_REDUCE: 50, GATHERED: 9}, "touched": {"table": 0.1}},
        "translation": {"seconds": {HYBRID: [1.0] * 3, SERVERS_ONLY: [2.0] * 3, ALL_REDUCE: [8.0] * 3,
                                    GATHERED: [4.0] * 3},
                        "fullest": {HYBRID: 5, SERVERS_ONLY: 7, ALL_REDUCE: 50, GATHERED: 9},
                        "touched": {"source": 0.3, "target": 0.2}}}
    monkeypatch.setattr(tables, "_told", lambda ranks, what: found)
    dense, pure = tables.hybrid_times()
    assert dense.value == 3 and pure.value == pytest.approx(0.8) and pure.unit.endswith(GATHERED)
    assert set(pure.detail["ranks"]) == {"1", "2", "4"}
    beside = pure.detail["ranks"]["4"]["translation"]
    assert (beside["dense_over_hybrid"], beside["hybrid_over_best_pure"], beside["best_pure"]) == (8, 0.5, SERVERS_ONLY)
    assert beside["tables"]["target"] == {"rows": 60, "width": 4, "context": 2, "touched": 0.2}
    found["translation"]["fullest"][HYBRID] = 8
    with pytest.raises(AssertionError, match=r"translation model: hybrid's fullest rank sends more words than another"):
        tables.hybrid_times()


def test_times_of_ways_on_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TURNS", 2)
    monkeypatch.setattr(tables, "TIMED", 2)
    found = tables._times_of_ways(tables.MODELS["translation"])
    assert {way: len(turns) for way, turns in found["seconds"].items()} == dict.fromkeys(WAYS, 2)
    assert set(found["fullest"].values()) == {0}
    assert all(0 < share < 1 for share in found["touched"].values()) and set(found["touched"]) == {"source", "target"}


def test_gaps_of_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but one in ten searches have at most the gap; on one rank the search itself runs."""
    monkeypatch.setattr(tables, "_told", lambda ranks, what: {"gaps": [1.5, *[1.0] * 8, 1.2]})
    row, = tables.partition_search_gap()
    assert row.value == 1.2
    for name, value in {"SWEPT": (1, 2, 3, 8), "SWEEP_TURNS": 1, "SEARCHES": 1, "SEARCH_STEPS": 4}.items():
        monkeypatch.setattr(tables, name, value)
    found = tables._piece_gaps()
    assert len(found["choices"]) == len(found["gaps"]) == 1 and 1 <= found["choices"][0] <= 8 and found["gaps"][0] >= 1


def test_older_values_cost_steps_and_save_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "STALE_SIZES", SMALL)
    monkeypatch.setattr(tables, "STALE_STEPS", 200)
    row, = tables.staleness_gain()
    assert set(row.detail) == {str(spells) for spells in tables.SPELLS}
    for draw in row.detail.values():
        assert draw["k = 0"]["time"] <= 1 and draw["k = 0"]["updates"] <= 800 and draw["k = 0"]["most_stale"] == 3
        assert draw["k = 4"]["time"] < draw["k = 1"]["time"] < 1 and draw["k = 4"]["updates"] > 600
        assert 3 < draw["k = 1"]["most_stale"] <= 3 * 3 < draw["k = 4"]["most_stale"] <= 3 * 9
    assert row.value == pytest.approx(sum(draw["k = 4"]["time"] for draw in row.detail.values()) / 3)

    monkeypatch.setattr(tables, "virtual_run", lambda workers, steps, bound, *how: VirtualRun(
        [1.0] * 400, [2.0 if bound else 1.0] * 400, [0] * 400))
    with pytest.raises(AssertionError, match=r"k = 1: steps together end at a loss of 1\.0000, these reach 2\.0000"):
        tables.staleness_gain()


def test_lines_of_the_loops() -> None:
    row, = tables.api_lines()
    assert row.value == max(row.detail.values()) <= 5


def small_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(die_tables, "ring", lambda dies: ring(dies, preset="ndp-tiny"))


@pytest.mark.slow
def test_rows_that_come_again_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    small_dies(monkeypatch)
    monkeypatch.setattr(die_tables, "DIE_BATCH", 16)
    numbers = np.random.default_rng(2).zipf(1.5, (200, 4)) % die_tables.DIE_WORDS
    monkeypatch.setattr(die_tables, "labelled", lambda text, shape: (numbers.astype(np.float32), numbers[:, 0] % 16))
    row, = die_tables.repeated_rows()
    again, each = row.detail["words_that_come_again"], row.detail["cycles_each"]
    assert again["each once"] == again["after 64"] == 0 and again["one"] == 63 and 0 < again["text"] < 63
    assert 1 < row.value < row.detail["cycles"]["one"] / row.detail["cycles"]["each once"] and each["one"] > 50


@pytest.mark.slow
def test_rows_on_dies_are_words_of_whole_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    small_dies(monkeypatch)
    monkeypatch.setattr(die_tables, "DIE_STEPS", 2)
    monkeypatch.setattr(die_tables, "DIE_BATCH", 8)
    monkeypatch.setattr(die_tables, "DIE_WORDS", 32)
    numbers = np.random.default_rng(2).zipf(1.5, (200, 4)) % 32
    monkeypatch.setattr(die_tables, "labelled", lambda text, shape: (numbers.astype(np.float32), numbers[:, 0]))
    words, gain = die_tables.hybrid_on_dies()
    assert words.value == 1 and words.detail["servers"]["steps"] == 2
    assert gain.value == pytest.approx(1, abs=0.3) and gain.detail["words_over_all_reduce"] < 1
