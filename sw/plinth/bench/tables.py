"""Rows about tables whose rows move one by one: words on ranks, step times of language models, virtual time, and the
loop that users change."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import ndiff
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.bench.die_tables import TEXT, crossing, die_crossings
from plinth.bench.language_model import (
    ALL_REDUCE,
    GATHERED,
    HYBRID,
    LANGUAGE,
    SERVERS_ONLY,
    TRANSLATION,
    WAYS,
    LanguageModel,
    ModelSizes,
    TableSizes,
    batches,
    first_values,
    gradients_of,
)
from plinth.bench.row import BenchRow
from plinth.errors import UserError
from plinth.names import GATHERED_ROWS, RINGS, SERVERS
from plinth.output import json_text
from plinth.partition.pieces import fitted, search, searched
from plinth.partition.row_costs import VariableLoad, machine_words
from plinth.runtime.launcher import printed
from plinth.train.datasets import labelled, translated
from plinth.workers.channel import Rows
from plinth.workers.clocks import VirtualRun, virtual_run
from plinth.workers.group import Group, joined
from plinth.workers.machines import Machines
from plinth.workers.runner import SynchronousExchange, TableSettings
from plinth_hw.installation import checkout

#: The text that the one of the dies is a translation of.
TRANSLATED_TEXT = "kjv"
#: Width of tables where words are counted and losses compared.
NARROW = 64
#: Ranks; steps whose words are counted; turns of steps that are timed, and steps of each.
RANKS, COUNTED, TURNS, TIMED = (2, 4), 40, 9, 12
#: Steps of a curve, and samples of each, of all ranks together.
CURVE_STEPS, CURVE_BATCH = 200, 64
#: Workers among whom the fullest owner is looked for, their batches, and the steps.
OWNERS, OWNER_STEPS = (4, 8), 100
#: The crossover: rows and width of a table, and shares of touched rows on either side.
CROSSED = (1024, 8)
#: Numbers of pieces of the sweep and its turns; fresh searches; steps of a measurement, the first half of which does
#: not count; and the share by which a step has to be slower to end a walk.
SWEPT, SWEEP_TURNS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64), 5
SEARCHES, SEARCH_STEPS, SEARCH_TOLERANCE = 10, 24, 0.1
#: The language model in virtual time: steps of a worker, the share of which is slow, by how much; updates of which a
#: loss is the mean; and seeds of which steps these are.
STALE_SIZES = ModelSizes({"table": TableSizes(rows=2000, width=16, context=4)}, hidden=32, classes=256, batch=32)
STALE_STEPS, SPELL_SHARE, SPELL_FACTOR, STALE_MEAN, SPELLS = 400, 0.1, 5.0, 200, (11, 12, 13)


def text(sizes: ModelSizes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Windows of the text, and the words behind them."""
    (table,) = sizes.tables.values()
    x, y = labelled(TEXT, (table.rows, table.context, sizes.classes))
    return x.astype(np.int64, copy=False), y


def translation(sizes: ModelSizes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Windows of the other text and of the text, and the words of the text that they tell."""
    source, target = sizes.tables.values()
    return translated(TRANSLATED_TEXT, TEXT, (source.rows, target.rows), (source.context, target.context),
                      sizes.classes)


@dataclass(frozen=True)
class TextModel:
    """A language model that rows measure, and its samples.

    Parameters
    ----------
    sizes : ModelSizes
    samples : callable
        Of sizes the samples ``[samples, columns]`` and ``[samples]``.
    """

    sizes: ModelSizes
    samples: Callable[[ModelSizes], tuple[NDArray[np.int64], NDArray[np.int64]]]


#: The models by name.
MODELS = {"language": TextModel(LANGUAGE, text), "translation": TextModel(TRANSLATION, translation)}


def _of_models(measure: Callable[[TextModel], Any]) -> dict[str, Any]:
    """What a function measures of each model."""
    return {name: measure(model) for name, model in MODELS.items()}


def _alphas(model: LanguageModel) -> dict[str, float]:
    """Alpha of each table: the share of its rows that a worker touches in a step, the mean over steps so far and over
    workers. Collective."""
    told = model.workers.told(model.touched())
    return {name: float(np.mean([touched[name] for touched in told])) for name in model.tables}


def _told(ranks: int, what: str) -> Any:
    """What the first of some ranks finds of a function of this module."""
    program = f"from plinth.bench.tables import print_found; print_found({what!r})"
    return json.loads(printed(ranks, ["-c", program]))


def print_found(what: str) -> None:
    """Run a rank's part of a row; the first one prints what all have found. Collective."""
    measures: dict[str, Callable[[], Any]] = {
        "words": partial(_of_models, _words_of_ways), "curves": partial(_of_models, _curves),
        "times": partial(_of_models, _times_of_ways), "crossings": _crossings, "pieces": _piece_gaps}
    found = measures[what]()
    if joined().own == 0:
        print(json_text(found))


# Words.


def _total(told: Sequence[dict[str, int]], name: str) -> int:
    return sum(sent[name] for sent in told)


def _words_of_ways(measured: TextModel) -> dict[str, Any]:
    """The share of rows of each table that a worker touches in a step; and of each way the words that all workers send
    in some steps, of values and of row numbers, and those of the formulas with these shares: of all variables, and of
    each table."""
    sizes = measured.sizes.of_width(NARROW)
    x, y = measured.samples(sizes)
    shares: dict[str, float] = {}
    found: dict[str, Any] = {}
    for way in WAYS:
        workers = joined()
        model = LanguageModel(sizes, workers, way)
        samples = batches(x, y, sizes, workers.own, workers.size)
        losses = [model.step(*next(samples)) for _ in range(COUNTED)]
        shares, steps = _alphas(model), COUNTED * workers.size
        told = workers.told((model.exchange.sent(), losses, {
            name: model.exchange.traffic[name].network.values for name in sizes.tables}))
        sent = [own for own, _, _ in told]
        way_of_tables = {HYBRID: SERVERS, SERVERS_ONLY: SERVERS, ALL_REDUCE: RINGS, GATHERED: GATHERED_ROWS}[way]
        tables = {name: {"values": sum(values[name] for _, _, values in told), "formula": steps * machine_words(
            way_of_tables, VariableLoad(table.size, shares[name]), workers.size)}
                  for name, table in model.tables.items()}
        dense = steps * sum(machine_words(SERVERS if way == SERVERS_ONLY else RINGS, VariableLoad(values.size),
                                          workers.size) for values in model.dense.values())
        found[way] = {"values": _total(sent, "values"),
                      "formula": dense + sum(table["formula"] for table in tables.values()),
                      "indices": _total(sent, "indices"), "messages": _total(sent, "messages"), "tables": tables,
                      "fullest": max(own["values"] + own["indices"] for own in sent),
                      "last_loss": float(np.mean([own[-1] for _, own, _ in told]))}
    return {"touched": shares, "ways": found}


def words_over_formula() -> list[BenchRow]:
    """Words of values that all ranks send in 40 steps, over Table 3's with the shares of rows that they touch: the
    language model and the translation model with tables of rows of 64, batch 64 a rank; every way, on 2 and 4 ranks
    (one sends nothing). Beside it those of each table alone."""
    cases = {str(ranks): _told(ranks, "words") for ranks in RANKS}
    counted = {f"{name}, {ranks} ranks, {way}": case for ranks, models in cases.items()
               for name, model in models.items() for way, case in model["ways"].items()}
    ratios = {name: case["values"] / case["formula"] for name, case in counted.items()}
    worst = max(ratios, key=lambda name: abs(ratios[name] - 1))
    indices = max(case["indices"] / case["values"] for name, case in counted.items() if name.endswith(f", {HYBRID}"))
    return [BenchRow("sparse_words_over_formula", ratios[worst], "words of values / Table 3", f"{worst}: which rows a "
                     "rank owns of those that it touches is chance", {
                         **ratios, "tables": {f"{name}, {table}": words["values"] / words["formula"]
                                              for name, case in counted.items()
                                              for table, words in case["tables"].items()},
                         "indices_over_values": indices, "cases": cases})]


def _curves(measured: TextModel) -> dict[str, Any]:
    """The share of rows of each table that a worker touches in a step; and losses of each way, step by step, of one
    batch that all ranks share."""
    workers = joined()
    sizes = replace(measured.sizes.of_width(NARROW), batch=CURVE_BATCH // workers.size)
    x, y = measured.samples(sizes)
    shares: dict[str, float] = {}
    losses = {}
    for way in WAYS:
        workers = joined()
        model = LanguageModel(sizes, workers, way)
        samples = batches(x, y, sizes, workers.own, workers.size)
        told = workers.told([model.step(*next(samples)) for _ in range(CURVE_STEPS)])
        shares, losses[way] = _alphas(model), np.mean(told, axis=0).tolist()
    return {"touched": shares, "losses": losses}


def _perplexities(name: str, losses: NDArray[np.float64]) -> dict[str, float]:
    """The perplexity of a model at some steps of a curve, each over the ten steps up to it.

    Raises
    ------
    AssertionError
        If it does not fall from the first of these steps to the last one.
    """
    last = CURVE_STEPS - 1
    found = {str(step): float(np.exp(losses[max(0, step - 9):step + 1].mean()))
             for step in [*range(0, CURVE_STEPS, max(1, CURVE_STEPS // 5)), last]}
    if not found[str(last)] < found["0"]:
        raise AssertionError(f"the perplexity of the {name} model does not fall: {found}")
    return found


def curves_of_ways() -> list[BenchRow]:
    """The largest distance between losses of the language model and of the translation model, step by step, of every
    way on 1, 2 and 4 ranks and those of one device, in parts of these: 200 steps of 64 samples in all."""
    cases = {"1": _of_models(_curves), **{str(ranks): _told(ranks, "curves") for ranks in RANKS}}
    alone = {name: np.array(case["losses"][HYBRID]) for name, case in cases["1"].items()}
    apart = {f"{name}, {ranks} ranks, {way}": float(np.abs(np.array(losses) / alone[name] - 1).max())
             for ranks, models in cases.items() for name, case in models.items()
             for way, losses in case["losses"].items()}
    return [BenchRow("curves_of_ways", max(apart.values()), "|loss / loss of one device - 1|",
                     "sums in another order, which FP32 rounds", {
                         **apart, "touched": {f"{name}, {ranks} ranks": case["touched"]
                                              for ranks, models in cases.items() for name, case in models.items()},
                         "perplexities": {name: _perplexities(name, losses) for name, losses in alone.items()}})]


def _fullest(owner: Callable[[Rows, int], Rows], x: NDArray[np.int64], workers: int, batch: int) -> float:
    generator, words = np.random.default_rng(0), np.zeros(workers, np.int64)
    for _ in range(OWNER_STEPS):
        chosen = generator.integers(0, len(x), batch * workers)
        for worker in range(workers):
            owners = owner(np.unique(x[chosen[worker::workers]]), workers)
            words += np.bincount(owners[owners != worker], minlength=workers)
    return float(words.max() / words.mean())


def fullest_owner() -> list[BenchRow]:
    """Rows that the fullest owner gives others in 100 steps, over the mean owner's: rows in turn, r mod N; beside it
    ranges of rows, whose words are numbered by frequency."""
    language = MODELS["language"]
    sizes, rows_of_table = language.sizes, language.sizes.tables["table"].rows
    x, _ = language.samples(sizes)
    ways: dict[str, Callable[[Rows, int], Rows]] = {
        "in turn": lambda rows, workers: rows % workers,
        "ranges": lambda rows, workers: rows * workers // rows_of_table}
    found = {f"{workers} owners, {name}": _fullest(owner, x, workers, sizes.batch) for workers in OWNERS
             for name, owner in ways.items()}
    return [BenchRow("fullest_owner", max(value for name, value in found.items() if name.endswith("in turn")),
                     "words of the fullest owner / mean", "which of the most frequent words are whose",
                     {"text": TEXT, "words": rows_of_table, "batch": sizes.batch, **found})]


# The crossover.


def _moved(workers: Group, way: str, rows: Sequence[Rows]) -> float:
    """Words of values that all workers send for a table, a step, of which each touches some rows in each step."""
    table = np.zeros(CROSSED, np.float32)
    exchange = SynchronousExchange(workers, Machines(tuple((worker,) for worker in range(workers.size))),
                                   [TableSettings("table", CROSSED, workers.size)], [], {"table": way},
                                   {"table": table.__getitem__})
    for some in rows:
        exchange.pull({"table": some})
        exchange.aggregate([], {"table": (some, np.zeros((len(some), CROSSED[1]), np.float32))})
    told = workers.told(exchange.sent()["values"])
    return sum(told) / len(rows)


def _crossings() -> dict[str, float]:
    """The shares of touched rows at which ways move as many words as an all-reduce of the table."""
    found = {}
    for way in (SERVERS, GATHERED_ROWS):
        words = {}
        for share in (0.25, 1.0):
            workers = joined()
            generator = np.random.default_rng([workers.own, 3])
            count = round(share * CROSSED[0])
            rows = [np.sort(generator.choice(CROSSED[0], count, replace=False)) for _ in range(20)]
            words[share] = _moved(workers, way, rows)
        workers = joined()
        whole = _moved(workers, RINGS, [np.arange(CROSSED[0])])
        found[way] = crossing(words, whole)
    return found


def crossover_error() -> list[BenchRow]:
    """Shares of touched rows at which servers, and gathered rows, move as many words of values as an all-reduce of the
    table, measured on 2 and 4 ranks and 4 co-simulated dies, less those of Table 3: 1 and 2 / N."""
    measured = {f"{ranks} ranks": _told(ranks, "crossings") for ranks in RANKS} | {"4 dies": die_crossings(4)}
    errors = {f"{where}, {way}": share - (1.0 if way == SERVERS else 2 / int(where.split()[0]))
              for where, ways in measured.items() for way, share in ways.items()}
    worst = max(errors, key=lambda name: abs(errors[name]))
    return [BenchRow("ps_ar_crossover_error", abs(errors[worst]), "share of rows",
                     f"{worst}: which of the rows that it touches a rank owns is chance",
                     {"measured": measured, "errors": errors})]


# Step times.


def _times_of_ways(measured: TextModel) -> dict[str, Any]:
    """Seconds of a step of each way, turn by turn, all ways in a turn one behind the other; words of the fullest rank
    a step; and the share of rows of each table that a worker touches in one."""
    sizes = measured.sizes
    x, y = measured.samples(sizes)
    models: dict[str, tuple[LanguageModel, Iterator[Any]]] = {}
    for way in WAYS:
        workers = joined()
        models[way] = LanguageModel(sizes, workers, way), batches(x, y, sizes, workers.own, workers.size)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(TURNS + 1):
        for way, (model, samples) in models.items():
            model.workers.told(None)
            started = time.perf_counter()
            for _ in range(TIMED):
                model.step(*next(samples))
            model.workers.told(None)
            if turn:
                seconds[way].append((time.perf_counter() - started) / TIMED)
    fullest = {way: max(sum(sent[name] for name in ("values", "indices")) for sent in model.workers.told(
        model.exchange.sent())) / ((TURNS + 1) * TIMED) for way, (model, _) in models.items()}
    return {"seconds": seconds, "fullest": fullest, "touched": _alphas(models[HYBRID][0])}


def _times_of_model(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Times of a model's ways beside each other: medians, and ratios as medians of pairs.

    Raises
    ------
    AssertionError
        If hybrid's fullest rank sends more words than another way's.
    """
    seconds, fullest = found["seconds"], found["fullest"]
    if fullest[HYBRID] > min(fullest.values()) * 1.000001:
        raise AssertionError(f"{name} model: hybrid's fullest rank sends more words than another way's: {fullest}")

    def ratio(way: str, other: str) -> float:
        return median(one / two for one, two in zip(seconds[way], seconds[other], strict=True))

    best = min((way for way in WAYS if way != HYBRID), key=lambda way: median(seconds[way]))
    sizes = MODELS[name].sizes
    return {"median_seconds": {way: median(turns) for way, turns in seconds.items()}, "fullest_words": fullest,
            "dense_over_hybrid": ratio(ALL_REDUCE, HYBRID), "hybrid_over_best_pure": ratio(HYBRID, best),
            "best_pure": best, "batch": sizes.batch, "tables": {
                table: {**asdict(shape), "touched": found["touched"][table]} for table, shape in sizes.tables.items()}}


def hybrid_times() -> list[BenchRow]:
    """Steps of the language model on four ranks, of one BLAS thread each: table of 12,471 rows of 512 numbers, batch 64
    a rank. All-reduce of the whole table over hybrid; hybrid over the best of the pure ways; medians of pairs. Those of
    the translation model, with a table of 12,679 rows beside it, and those on one rank and two are in the details."""
    times = {str(ranks): {name: _times_of_model(name, found) for name, found in _told(ranks, "times").items()}
             for ranks in (1, *RANKS)}
    detail, language = {"turns": TURNS, "ranks": times}, times["4"]["language"]
    return [BenchRow("dense_over_hybrid", language["dense_over_hybrid"], "seconds of a step / hybrid's",
                     "sums of the whole table, all of whose rows move", detail),
            BenchRow("hybrid_over_best_pure", language["hybrid_over_best_pure"],
                     f"seconds of a step / those of {language['best_pure']}",
                     "a question, an answer and a push where gathered rows go in one message", detail)]


# Pieces.


def _piece_gaps() -> dict[str, Any]:
    """Seconds of a step by the number of pieces of the table, medians of turns over all numbers; and what fresh
    searches find."""
    language = MODELS["language"]
    sizes = language.sizes.of_width(NARROW)
    x, y = language.samples(sizes)

    def measure(pieces: int) -> float:
        workers = joined()
        model = LanguageModel(sizes, workers, HYBRID, pieces=pieces)
        samples = batches(x, y, sizes, workers.own, workers.size)
        for step in range(SEARCH_STEPS):
            if step == SEARCH_STEPS // 2:
                workers.told(None)
                started = time.perf_counter()
            model.step(*next(samples))
        return float(max(workers.told((time.perf_counter() - started) / (SEARCH_STEPS - SEARCH_STEPS // 2))))

    first = joined().size
    turns: dict[int, list[float]] = {pieces: [] for pieces in SWEPT}
    for _ in range(SWEEP_TURNS):
        for pieces, seconds in turns.items():
            seconds.append(measure(pieces))
    swept = {pieces: median(seconds) for pieces, seconds in turns.items()}
    choices = [searched(measure, search(first, max(SWEPT), tolerance=SEARCH_TOLERANCE, repeats=3)).pieces
               for _ in range(SEARCHES)]
    fit = fitted(swept)
    # Numbers that were not swept lie between two that were.
    gaps = [float(np.interp(pieces, list(swept), list(swept.values()))) / min(swept.values()) for pieces in choices]
    return {"swept": {str(pieces): seconds for pieces, seconds in swept.items()}, "choices": choices, "gaps": gaps,
            "fit": [fit.constant, fit.shared, fit.each]}


def partition_search_gap() -> list[BenchRow]:
    """Step time at the number of pieces that a fresh search finds over the shortest of a sweep from 1 to 64 pieces, of
    nine in ten searches: the language model with rows of 64 on four ranks."""
    found = _told(4, "pieces")
    gaps = sorted(found["gaps"])
    return [BenchRow("partition_search_gap", gaps[int(0.9 * len(gaps)) - 1], "seconds of a step / the shortest's",
                     "times vary by more than numbers of pieces near the best one do", found)]


# Staleness.


def _staleness(bound: int, spells: int, x: NDArray[np.int64], y: NDArray[np.int64]) -> VirtualRun:
    """The language model in virtual time on four workers, whose steps take 1, and now and then 5."""
    sizes = STALE_SIZES
    tables, dense = first_values(sizes)
    workers, rate = 4, np.float32(0.5)
    # Whose values are older may need more steps.
    steps = STALE_STEPS * 5 // 4 if bound else STALE_STEPS
    samples = [list(islice(batches(x, y, sizes, worker, workers), steps)) for worker in range(workers)]
    slow = np.random.default_rng(spells).random((steps, workers)).T < SPELL_SHARE

    def pull(worker: int, step: int) -> tuple[dict[str, Rows], dict[str, Rows], dict[str, Any], dict[str, Any]]:
        rows, indices = sizes.lookups(samples[worker][step][0])
        return rows, indices, {name: table[rows[name]] for name, table in tables.items()}, {
            name: values.copy() for name, values in dense.items()}

    def compute(worker: int, step: int, pulled: tuple[dict[str, Rows], dict[str, Rows], dict[str, Any], dict[str, Any]]
                ) -> tuple[float, Callable[[], object]]:
        rows, indices, known, own = pulled
        loss, of_rows, gradients = gradients_of(known, indices, samples[worker][step][1], own, 1 / workers)

        def update() -> None:
            for name, gradient in of_rows.items():
                tables[name][rows[name]] -= rate * gradient
            for name, gradient in gradients.items():
                dense[name] -= rate * gradient

        return loss, update

    return virtual_run(workers, steps, bound, lambda worker, step: SPELL_FACTOR if slow[worker, step] else 1.0,
                       pull, compute)


def _gains(spells: int, x: NDArray[np.int64], y: NDArray[np.int64]) -> dict[str, Any]:
    """Of each bound the virtual time to the loss that steps together end with, over that of theirs."""
    runs = {bound: _staleness(bound, spells, x, y) for bound in (0, 1, 4)}
    smooth = {bound: np.convolve(run.losses, np.ones(STALE_MEAN) / STALE_MEAN, "valid") for bound, run in runs.items()}
    goal = float(smooth[0][-1])
    for bound, losses in smooth.items():
        if losses.min() > goal:
            raise AssertionError(f"k = {bound}: steps together end at a loss of {goal:.4f}, these reach "
                                 f"{losses.min():.4f}")
    return {f"k = {bound}": {
        "time": float(run.seconds[STALE_MEAN - 1 + int(np.argmax(smooth[bound] <= goal))] / runs[0].seconds[-1]),
        "updates": STALE_MEAN + int(np.argmax(smooth[bound] <= goal)), "most_stale": max(run.staleness)}
            for bound, run in runs.items()}


def staleness_gain() -> list[BenchRow]:
    """Virtual time in which four workers, at most four steps ahead of each other, reach the loss that they end with in
    step, over that which they then take: one step in ten takes five times as long. The mean of three draws of which."""
    x, y = MODELS["language"].samples(STALE_SIZES)
    draws = {str(spells): _gains(spells, x, y) for spells in SPELLS}
    value = sum(draw["k = 4"]["time"] for draw in draws.values()) / len(draws)
    return [BenchRow("staleness_gain", value, "virtual time / that of steps together",
                     "updates by older values, beside the slow steps themselves", draws)]


# The loop.


def api_lines() -> list[BenchRow]:
    """Lines that the three calls add to the loop of the docs for one device, of a network and of a PyTorch module: the
    more."""
    root = checkout()
    if root is None:
        raise UserError("the loops stand in docs/workers.md of a checkout; run this row there")
    loops = (root / "docs" / "workers.md").read_text(encoding="utf-8").split("```python\n")[1:]
    code = [loop.partition("```")[0].splitlines() for loop in loops]
    added = [sum(line.startswith("+ ") for line in ndiff([line.strip() for line in one], [
        line.strip() for line in several])) for one, several in zip(code[::2], code[1::2], strict=True)]
    return [BenchRow("api_lines", float(max(added)), "lines", "nothing", {"network": added[0], "module": added[1]})]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "sparse_words_over_formula": words_over_formula, "curves_of_ways": curves_of_ways, "fullest_owner": fullest_owner,
    "ps_ar_crossover_error": crossover_error,
    "partition_search_gap": partition_search_gap, "staleness_gain": staleness_gain,
    "hybrid_times": hybrid_times, "api_lines": api_lines}
