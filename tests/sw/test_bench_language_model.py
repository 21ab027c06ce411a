"""Language models with several tables: gradients against differences of the loss, and whichever way copies are kept
equal, the curve of one device and words that are counted row by row."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from tests.support.worker_threads import in_threads

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
from plinth.train.texts import TEXTS, text
from plinth.workers.group import Single

#: Two tables of other rows, widths and contexts.
SIZES = ModelSizes({"source": TableSizes(rows=24, width=4, context=3),
                    "target": TableSizes(rows=16, width=3, context=2)}, hidden=8, classes=8, batch=16)
STEPS = 6


def samples_of(sizes: ModelSizes) -> tuple[Any, Any]:
    """Frequent words come often, and the word that is told follows from the last one of each table."""
    generator = np.random.default_rng(4)
    tables = [np.minimum(generator.zipf(1.5, (400, table.context)), table.rows) - 1 for table in sizes.tables.values()]
    return np.concatenate(tables, axis=1), sum(table[:, -1] for table in tables) % sizes.classes


def test_each_table_has_its_columns() -> None:
    rows, indices = SIZES.lookups(np.array([[7, 7, 2, 2, 0], [9, 2, 7, 5, 5]]))
    assert {name: own.tolist() for name, own in rows.items()} == {"source": [2, 7, 9], "target": [0, 2, 5]}
    assert indices["source"].tolist() == [[1, 1, 0], [2, 0, 1]] and indices["target"].tolist() == [[1, 0], [2, 2]]
    # Samples with another number of columns than all tables together.
    x, y = samples_of(SIZES)
    for columns in (x[:, :-1], np.concatenate([x, x[:, -1:]], axis=1)):
        with pytest.raises(ValueError, match="matmul"):
            LanguageModel(SIZES, Single(), HYBRID).step(columns, y)


@pytest.mark.skipif(not all(find_spec(f"pythonbible_{name}") for name in TEXTS), reason="extra 'text' is not installed")
def test_tables_have_a_row_for_each_word_of_their_text() -> None:
    assert len(text("asv").words) == LANGUAGE.tables["table"].rows == TRANSLATION.tables["target"].rows
    assert len(text("kjv").words) == TRANSLATION.tables["source"].rows


def test_widths_of_all_tables_change() -> None:
    narrow = TRANSLATION.of_width(64)
    assert [(table.rows, table.width, table.context) for table in narrow.tables.values()] == [
        (12_679, 64, 12), (12_471, 64, 3)]
    assert narrow.batch == TRANSLATION.batch and LANGUAGE.of_width(512) == LANGUAGE


def test_gradients_are_differences_of_the_loss() -> None:
    """In double precision, of every number; words come again in a sample, and in both tables."""
    sizes = ModelSizes({"source": TableSizes(rows=6, width=3, context=3),
                        "target": TableSizes(rows=5, width=2, context=2)}, hidden=4, classes=3, batch=4)
    x = np.array([[1, 1, 4, 1, 0], [5, 2, 2, 3, 3], [4, 0, 1, 1, 2], [2, 5, 5, 0, 0]])
    rows, indices = sizes.lookups(x)
    y = np.array([2, 0, 1, 2])
    tables, variables = first_values(sizes)
    known: dict[str, Any] = {name: values[rows[name]].astype(np.float64) for name, values in tables.items()}
    dense: dict[str, Any] = {name: values.astype(np.float64) for name, values in variables.items()}
    loss, of_rows, of_dense = gradients_of(known, indices, y, dense, 0.5)
    assert loss > 0 and set(of_rows) == {"source", "target"} and set(of_dense) == set(dense)
    for values, gradient in [*((known[name], of_rows[name]) for name in known),
                             *((dense[name], of_dense[name]) for name in dense)]:
        differences = np.zeros_like(values)
        for place in np.ndindex(*values.shape):
            before, losses = values[place], []
            for step in (1e-5, -1e-5):
                values[place] = before + step
                losses.append(gradients_of(known, indices, y, dense, 0.5)[0])
            values[place] = before
            differences[place] = (losses[0] - losses[1]) / 2e-5
        assert np.abs(differences).max() > 1e-3
        np.testing.assert_allclose(gradient, 0.5 * differences, atol=1e-9)


def trained(workers: Any, way: str, sizes: ModelSizes) -> tuple[list[float], dict[str, int], dict[str, float]]:
    """A worker's losses, words of values that it has sent for each table, and shares of rows that it has touched."""
    model = LanguageModel(sizes, workers, way)
    samples = batches(*samples_of(sizes), sizes, workers.own, workers.size)
    losses = [model.step(*next(samples)) for _ in range(STEPS)]
    return losses, {name: model.exchange.traffic[name].network.values for name in sizes.tables}, model.touched()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [2, 4])
def test_workers_have_the_curve_of_one_device_and_words_row_by_row(count: int, way: str) -> None:
    own = ModelSizes(SIZES.tables, SIZES.hidden, SIZES.classes, SIZES.batch // count)
    alone, nothing, _ = trained(Single(), way, SIZES)
    found = in_threads(count, lambda workers: trained(workers, way, own))
    assert alone[-1] < alone[0] and set(nothing.values()) == {0}
    np.testing.assert_allclose(np.mean([losses for losses, _, _ in found], axis=0), alone, rtol=1e-5)
    wanted, touched = dict.fromkeys(SIZES.tables, 0), []
    for worker in range(count):
        samples = batches(*samples_of(own), own, worker, count)
        each = dict.fromkeys(SIZES.tables, 0)
        for _ in range(STEPS):
            x, _ = next(samples)
            for name, words in (("source", x[:, :3]), ("target", x[:, 3:])):
                rows, width = set(words.reshape(-1).tolist()), SIZES.tables[name].width
                each[name] += len(rows)
                # Row r is the server's r mod N: values come from it, gradients go to it.
                wanted[name] += {HYBRID: 2, SERVERS_ONLY: 2, GATHERED: 0, ALL_REDUCE: 0}[way] * width * sum(
                    row % count != worker for row in rows) + (way == GATHERED) * (count - 1) * width * len(rows)
        touched.append({name: number / (STEPS * SIZES.tables[name].rows) for name, number in each.items()})
    if way == ALL_REDUCE:
        wanted = {name: STEPS * 2 * (count - 1) * table.rows * table.width for name, table in SIZES.tables.items()}
    assert {name: sum(sent[name] for _, sent, _ in found) for name in SIZES.tables} == wanted
    assert [shares for _, _, shares in found] == touched
