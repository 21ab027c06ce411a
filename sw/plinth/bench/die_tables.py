"""Rows about tables whose rows move one by one between co-simulated dies."""

from collections.abc import Callable
from typing import Any

import numpy as np

from plinth.api.planning import plan as plan_of
from plinth.api.training import train
from plinth.array.array import ring
from plinth.bench.row import BenchRow
from plinth.names import GATHERED_ROWS, RINGS, SERVERS
from plinth.network.layers import Dense, Embedding, Shape, SoftmaxCrossEntropy, Tanh
from plinth.network.network import Network
from plinth.train.datasets import labelled

#: The text; a language model on dies: words, width of their rows, context, samples of a step, and steps.
TEXT = "asv"
DIE_WORDS, DIE_WIDTH, DIE_CONTEXT, DIE_BATCH, DIE_STEPS = 512, 32, 4, 64, 50


def crossing(words: dict[float, float], whole: float) -> float:
    """The share at which words, a straight line through two shares, are those of the whole table."""
    (low, first), (high, last) = sorted(words.items())
    return low + (whole - first) * (high - low) / (last - first)


def die_crossings(dies: int) -> dict[str, float]:
    """The shares of touched rows at which ways move as many words as an all-reduce of the table, on co-simulated dies:
    counted words of a network with a small table, of which each die's one sample
    names each row, or a quarter of the rows four times."""
    rows, width = 32, 8
    network = Network(name="crossing", input=Shape((rows,)), layers=(
        Embedding(name="table", rows=rows, width=width), Dense(name="out", outputs=2),
        SoftmaxCrossEntropy(name="loss")))
    array, found = ring(dies, preset="ndp-tiny"), {}
    y = np.zeros(2 * dies, np.int64)

    def words(way: str, share: float) -> float:
        generator, count = np.random.default_rng(5), round(share * rows)
        x = np.array([np.resize(generator.choice(rows, count, replace=False), rows) for _ in range(2 * dies)])
        plan = plan_of(network, array, planner="data", batch=dies, copies=way)
        report = train(plan, x, y, device="cosim", steps=1, rate=0.01).report
        if report["injected_words"] != report["predicted_injected_words"]:
            raise AssertionError(f"{way}: {report['injected_words']} words were counted, "
                                 f"{report['predicted_injected_words']} planned")
        return float(report["injected_words"])

    whole = words(RINGS, 1.0)
    for way in (SERVERS, GATHERED_ROWS):
        found[way] = crossing({share: words(way, share) for share in (0.25, 1.0)}, whole)
    return found


def _on_dies(way: str) -> dict[str, Any]:
    """A language model of 512 words on four co-simulated demo dies, 50 steps on the text."""
    network = Network(name="language", input=Shape((DIE_CONTEXT,)), layers=(
        Embedding(name="table", rows=DIE_WORDS, width=DIE_WIDTH), Dense(name="hidden", outputs=64), Tanh(name="tanh"),
        Dense(name="out", outputs=DIE_WORDS), SoftmaxCrossEntropy(name="loss")))
    x, y = labelled(TEXT, (DIE_WORDS, DIE_CONTEXT, DIE_WORDS))
    some = np.random.default_rng(0).integers(0, len(x), DIE_BATCH * DIE_STEPS * 5 // 4)
    numbers = x[some].astype(np.int64)
    plan = plan_of(network, ring(4), planner="data", batch=DIE_BATCH, copies=way, touched=numbers)
    report = train(plan, numbers, y[some], device="cosim", epochs=1, rate=0.5).report
    if not report["bit_exact"]:
        raise AssertionError(f"steps by {way} differ from the golden model's")
    (layer,) = (layer for layer in report["layers"] if layer["layer"] == "table")
    ((_, share),) = plan.plan.sharding.touched
    return {"injected_words": report["injected_words"], "planned_words": report["predicted_injected_words"],
            "table_words": layer["reduction"]["injected_words"], "steps": report["steps"], "touched": share,
            "cycles_a_step": report["cycles"] / report["steps"], "first_loss": report["losses"][0],
            "last_loss": report["losses"][-1]}


def hybrid_on_dies() -> list[BenchRow]:
    """50 bit-exact steps: words counted over those that the plan and the samples call for; words of the table over
    those of its all-reduce, and that over the share of rows that dies touch, which is the formula's."""
    found = {way: _on_dies(way) for way in (SERVERS, RINGS, GATHERED_ROWS)}
    own, whole = found[SERVERS], found[RINGS]
    # What does not go round rings as the table does is the same in every step.
    of_table = whole["steps"] * whole["table_words"]
    gain = (own["injected_words"] - (whole["injected_words"] - of_table)) / of_table
    return [BenchRow("hybrid_words_on_dies", own["injected_words"] / own["planned_words"], "words counted / planned",
                     "nothing: dies send the rows that samples name", {"dies": 4, "batch": DIE_BATCH, **found}),
            BenchRow("rows_on_dies_gain", gain / own["touched"], "share of words of all-reduce / share of rows",
                     "which of the rows that its samples name a die owns is chance",
                     {"words_over_all_reduce": gain, "touched": own["touched"]})]


def repeated_rows() -> list[BenchRow]:
    """Cycles of a step on one die whose samples are of a text, over one in which each word comes once: errors of equal
    words are added to one row. Beside it words that come again after 64, and one word alone."""
    network = Network(name="lookups", input=Shape((DIE_CONTEXT,)), layers=(
        Embedding(name="table", rows=DIE_WORDS, width=DIE_WIDTH), Dense(name="out", outputs=16),
        SoftmaxCrossEntropy(name="loss")))
    plan = plan_of(network, ring(1), planner="data", batch=DIE_BATCH)
    generator = np.random.default_rng(0)
    x, y = labelled(TEXT, (DIE_WORDS, DIE_CONTEXT, 16))
    some = generator.integers(0, len(x), 2 * DIE_BATCH)
    lookups = DIE_BATCH * DIE_CONTEXT
    cases = {"text": x[some].astype(np.int64).reshape(-1)[:lookups],
             "each once": generator.permutation(DIE_WORDS)[:lookups], "after 64": np.arange(lookups) % 64,
             "one": np.zeros(lookups, np.int64)}
    cycles = {}
    for name, numbers in cases.items():
        samples = np.tile(numbers.reshape(DIE_BATCH, DIE_CONTEXT), (2, 1))
        cycles[name] = int(train(plan, samples, y[some], device="cosim", steps=1, rate=0.1).report["cycles"])
    again = {name: lookups - len(np.unique(numbers)) for name, numbers in cases.items()}
    return [BenchRow("repeated_rows", cycles["text"] / cycles["each once"], "cycles / cycles of each word once",
                     "an add waits for the one before it to the same row", {
                         "cycles": cycles, "words_that_come_again": again, "cycles_each": {
                             name: (cycles[name] - cycles["each once"]) / count for name, count in again.items()
                             if count}})]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {
    "hybrid_on_dies": hybrid_on_dies, "repeated_rows": repeated_rows}
