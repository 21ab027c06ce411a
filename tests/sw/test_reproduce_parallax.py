"""Parallax computed anew: elements, messages, the simulated cluster, and statuses that come out."""

from collections.abc import Iterator

import pytest

from plinth.reproduce.paper import Judgement, Table
from plinth.reproduce.parallax import cluster, figures, messages, pictures
from plinth.reproduce.parallax.cluster import LINK, Rates, Way, step_seconds, throughput
from plinth.reproduce.parallax.figures import PARALLAX
from plinth.reproduce.parallax.image_models import inception_v3, resnet50
from plinth.reproduce.parallax.models import (
    BATCH,
    WORKERS,
    SparseModel,
    SparseTable,
    constructed,
    distinct,
    draws_of,
    language_model,
    translation,
)

MODEL = SparseModel("toy", 1e6, (SparseTable(1000, 100, 250, spread=True),), 10, 1000, 4e5)


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    return PARALLAX.computed()


def test_numbers_come_out_as_the_file_says(tables: list[Table]) -> None:
    """And what it says is not reproduced does not come out."""
    for row in (row for table in tables for row in table.rows if row.entry is not None):
        assert row.status == row.entry.status, row.entry.id
        if row.entry.status == Judgement.NOT_REPRODUCED:
            assert row.same is False, row.entry.id
        assert (row.ours is None) == (row.entry.status == Judgement.NOT_ATTEMPTED), row.entry.id


def test_image_models_have_the_elements_that_frameworks_count() -> None:
    """Of torchvision's models, Inception-v3 without its auxiliary classifier."""
    assert (resnet50(), inception_v3()) == (25_557_032, 23_834_568)


def test_distinct_words_are_those_of_draws() -> None:
    assert distinct(50, 1) == pytest.approx(1) and distinct(50, 1e9) == pytest.approx(50)
    assert distinct(3, 2) == pytest.approx(3 - sum((1 - share) ** 2 for share in (6 / 11, 3 / 11, 2 / 11)))
    assert distinct(1000, draws_of(1000, 400)) == pytest.approx(400)
    table = SparseTable(10, 4, 5, spread=True)
    assert table.touched() == 5 and table.words(2) == 4 * 7.5


def test_models_are_as_large_as_described() -> None:
    lm = language_model(1000)
    assert lm.dense == 4 * 2048 * (512 + 512 + 1) + 2048 * 512 and 0.017 < lm.alpha < 0.019
    assert lm.touched < lm.merged < WORKERS * lm.touched
    nmt = translation(94.1e6, 0.65, 1000)
    assert nmt.alpha == pytest.approx(0.65) and nmt.merged < nmt.sparse
    assert [constructed(length, 0.04, 1).alpha for length in (1, 120)] == [pytest.approx(0.04 + 0.96 / 120), 1]
    assert constructed(3, 0.04, 1).instances == 3 * BATCH


@pytest.mark.parametrize("machines", [2, 4])
def test_messages_are_counted_where_they_cross_machines(machines: int) -> None:
    """Two workers a machine: a ring crosses each border once a round, either way."""
    workers = 2 * machines
    ring = messages.machine_words(messages.ring(workers, 80.0), machines, 2)
    assert ring == [pytest.approx(2 * 2 * (workers - 1) * 80 / workers)] * machines
    gathered = messages.machine_words(messages.gathered(workers, 10.0), machines, 2)
    assert gathered == [2 * (workers - 1) * 10] * machines
    # A server on the first machine, asked by all: its own two workers are no messages.
    served = messages.machine_words(messages.served(range(workers), [0], 10.0), machines, 2)
    assert served == [2 * 10 * (workers - 2), *[2 * 10 * 2] * (machines - 1)]


def test_steps_are_those_of_links_by_hand() -> None:
    """All links alike and in use at once: words over their rate, behind products."""
    machines, own = 4, MODEL.seconds
    members = machines * WORKERS
    ring = 2 * 1e6 * (members - 1) / members
    gather = (members - 1) * MODEL.touched
    assert step_seconds(MODEL, Way.AR, machines) == pytest.approx(own + (ring + gather) / LINK)
    rows = 2 * WORKERS * (1e6 + MODEL.touched) * 3 / 4
    assert step_seconds(MODEL, Way.NAIVE, machines) == pytest.approx(own + rows / LINK)
    merged = 2 * (1e6 + MODEL.merged) * 3 / 4
    assert step_seconds(MODEL, Way.OPTIMISED, machines) == pytest.approx(own + merged / LINK)
    pushed = MODEL.merged * 3 / 4
    assert step_seconds(MODEL, Way.HYBRID, machines) == pytest.approx(own + (2 * pushed + ring) / LINK)
    assert step_seconds(MODEL, Way.RINGS, machines) == pytest.approx(own + 1.1 * ring / LINK)
    # One machine has nobody to send to.
    assert [step_seconds(MODEL, way, 1) for way in Way] == [pytest.approx(own)] * len(Way)


def test_a_large_variable_of_one_server_waits_for_that_server() -> None:
    """Server 0 has its share of the others, and the largest one whole; three machines pull from it."""
    share = (1e6 - 4e5 + MODEL.merged) / 4
    assert step_seconds(MODEL, Way.OPTIMISED, 4, whole=True) == pytest.approx(
        MODEL.seconds + 2 * 3 * (share + 4e5) / LINK)


def test_rates_hold_up_servers_and_gathers_alone() -> None:
    slow = Rates(summed=1e6, gathered=2e6)
    naive = step_seconds(MODEL, Way.NAIVE, 4, slow)
    # Of pushed rows each server adds up its quarter, of its own machine's too.
    pulled = WORKERS * (1e6 + MODEL.touched) * 3 / 4 / LINK
    assert naive == pytest.approx(MODEL.seconds + pulled + WORKERS * MODEL.touched / 1e6)
    gather = (4 * WORKERS - 1) * MODEL.touched
    assert step_seconds(MODEL, Way.AR, 4, slow) == pytest.approx(MODEL.seconds + gather / 2e6)
    assert step_seconds(MODEL, Way.RINGS, 4, slow) == step_seconds(MODEL, Way.RINGS, 4)


def test_fitted_rates_give_what_they_were_fitted_to() -> None:
    found = cluster.fitted_rates(MODEL, 2000, 3000)
    assert throughput(MODEL, Way.NAIVE, rates=found) == pytest.approx(2000)
    assert throughput(MODEL, Way.AR, rates=found) == pytest.approx(3000)


def test_formulas_that_are_not_the_counts_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = messages.gathered

    def doubled(workers: int, words: float) -> Iterator[messages.CountedMessage]:
        yield from gathered(workers, 2 * words)

    monkeypatch.setattr(figures.messages, "gathered", doubled)
    table, = PARALLAX.computed(["table3"])
    wrong = [row.what for row in table.rows if str(row.ours).startswith("not ")]
    assert wrong == ["sparse, AR, one variable", "sparse, AR, m variables", "sparse, AR over PS, m variables"]


def test_the_sweep_says_which_way_is_shortest(tables: list[Table]) -> None:
    table, = (table for table in tables if table.key == "table6")
    seconds = table.points["seconds"]
    for place in range(len(table.points["alphas"])):
        least = min(seconds[way][place] for way in Way)
        assert least in (seconds[Way.HYBRID][place], seconds[Way.OPTIMISED][place])
    # Gathered rows cost more than whole tables from some alpha on; merged rows never do.
    assert seconds[Way.AR][0] < seconds[Way.RINGS][0] and seconds[Way.AR][-1] > seconds[Way.RINGS][-1]


def test_pictures_are_drawn(tables: list[Table], tmp_path) -> None:
    drawn = pictures.draw(tmp_path, tables)
    assert [path.name for path in drawn] == ["pieces.png", "ways.png", "our-pieces.png", "alpha.png"]
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in drawn)
    assert pictures.draw(tmp_path, [table for table in tables if table.key == "setup"]) == []
