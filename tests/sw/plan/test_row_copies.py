"""How copies of tables are kept equal, as planner ``parallax`` and ``--copies`` choose."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.lookups import frequent_words, language_model, random_tables

import plinth
from plinth import cli
from plinth.array.array import ring
from plinth.cli.planning import _touched
from plinth.errors import UserError
from plinth.names import AUTO_COPIES, GATHERED_ROWS, RINGS, SERVERS
from plinth.network.file import network_to_yaml
from plinth.network.layers import Embedding
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan
from plinth.plan.planning import data_parallel, plan_network, predicted_seconds
from plinth.plan.row_copies import CopyChoice, chosen_copies, named_shares, touched_shares
from plinth.sharding import Copies, Gathered, Ring, Server, Sharding
from plinth.step.copies import copies_of
from plinth_hw.isa.parameters import preset


def ways(plan: Plan) -> dict[str, str]:
    return {name: sync.kind for name, sync in plan.sharding.copies if name.endswith("table.weights")}


@pytest.mark.parametrize("seed", range(6))
def test_no_way_of_all_tables_makes_a_shorter_step(seed: int) -> None:
    """Nor for one table alone, the others as chosen."""
    generator = np.random.default_rng(seed)
    network, array = random_tables(generator), ring(4, preset="ndp-tiny")
    share = float(generator.choice([0.02, 0.3, 1.0]))
    best = plan_network(network, array, planner="parallax", batch=16, touched=share)
    for way in (RINGS, GATHERED_ROWS, SERVERS):
        other = plan_network(network, array, planner="data", batch=16, touched=share, copies=CopyChoice(way)).plan
        assert best.outcome.predicted_seconds <= predicted_seconds(other, array) * (1 + 1e-9)
    tables = [node for node in best.plan.graph.nodes if node.gathers]
    assert len(best.notes) == len(tables) and all(f"{node.name}.weights (" in note for node, note in zip(
        tables, best.notes, strict=True))


def choose(choice: CopyChoice, times: dict[str, float], share: float | None = 0.1) -> tuple[str, list[str]]:
    """With a table whose steps take as long as is said by its way."""
    plan, notes = data_parallel(language_model(), dies=4, batch=8), []

    def seconds(copies: Copies) -> float:
        sync = dict(copies)["table.weights"]
        # Fewer pieces take longer.
        return times[sync.kind] * (8 - len(sync.owners) if isinstance(sync, Server) else 4) / 4

    sharding = Sharding(graph=plan.graph, splits=plan.splits, batch=8, array=ring(4), touched=(
        () if share is None else (("table.weights", share),)))
    copies = chosen_copies(sharding, preset("ndp-demo"), seconds, choice, notes)
    return dict(copies)["table.weights"].kind, notes


def test_the_shortest_step_wins_and_is_said() -> None:
    assert choose(CopyChoice(), {"ring": 3e-6, "gathered": 2e-6, "server": 1e-6}) == ("server", [
        "table.weights (10.00% of rows touched): servers, a step of 1 µs; 3 µs by rings, 2 µs by gathered; "
        "in 4 pieces, as it is 1.5 µs in 2; a die sends 480 words by rings, 96 words by gathered, 48 words by servers "
        "(Table 3)"])
    assert choose(CopyChoice(), {"ring": 1e-6, "gathered": 2e-6, "server": 3e-6}, None) == ("ring", [
        "table.weights (any number of rows touched): rings, a step of 1 µs; 2 µs by gathered, 3 µs by servers"])


@pytest.mark.parametrize(("rows", "width", "share"), [(100, 16, 0.05), (240, 8, 0.01), (2000, 64, 0.02)])
def test_tables_are_in_the_number_of_pieces_of_the_shortest_step(rows: int, width: int, share: float) -> None:
    """Of all numbers up to that of dies, or in one beside it that takes hardly more, which the search does not try."""
    network, array = language_model(rows=rows, width=width), ring(4, preset="ndp-tiny")
    planned = plan_network(network, array, planner="parallax", batch=16, touched=share,
                           copies=CopyChoice(AUTO_COPIES))
    sharding = planned.plan.sharding
    taken = dict(sharding.copies)["table.weights"]
    assert isinstance(taken, Server)
    times = {}
    for pieces in range(1, 5):
        server = Server(tuple(range(pieces)), pieces, interleaved=True)
        copies = tuple((name, server if name == "table.weights" else sync) for name, sync in sharding.copies)
        times[pieces] = predicted_seconds(replace(planned.plan, sharding=replace(sharding, copies=copies)), array)
    assert times[len(taken.owners)] < 1.01 * min(times.values())
    assert abs(len(taken.owners) - min(times, key=times.__getitem__)) <= 1 < len(taken.owners)
    (note,) = planned.notes
    assert f"; in {taken.pieces} pieces, as it is " in note


def test_tables_are_looked_at_until_none_alone_makes_a_shorter_step() -> None:
    """The first one's best way depends on the second one's, which is looked at later."""
    network = random_tables(np.random.default_rng(0))
    plan = data_parallel(network, dies=4, batch=16)
    names = [f"{node.name}.weights" for node in plan.graph.nodes if node.gathers]
    assert len(names) == 2
    times = {("ring", "ring"): 5.0, ("gathered", "gathered"): 6.0, ("server", "server"): 7.0, ("ring", "gathered"): 4.0,
             ("server", "gathered"): 3.0}

    def seconds(copies: Copies) -> float:
        said = dict(copies)
        return times.get((said[names[0]].kind, said[names[1]].kind), 9.0)

    sharding = Sharding(graph=plan.graph, splits=plan.splits, batch=16, array=ring(4))
    notes: list[str] = []
    copies = dict(chosen_copies(sharding, preset("ndp-demo"), seconds, CopyChoice(), notes))
    assert [copies[name].kind for name in names] == ["server", "gathered"]
    assert not any("has to be" in note for note in notes)


@pytest.mark.parametrize(("tolerance", "kind"), [(0.0, "server"), (0.01, "server"), (0.03, "gathered"), (0.2, "ring")])
def test_ties_go_to_the_way_that_comes_first(tolerance: float, kind: str) -> None:
    chosen, (note,) = choose(CopyChoice(tolerance=tolerance), {"ring": 1.1, "gathered": 1.0, "server": 0.98})
    assert chosen == kind
    # A longer step is not taken without a word.
    assert (f"; one has to be {tolerance:.2%} shorter" in note) == (kind != "server")


def test_tolerance_and_threshold_are_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the library and of the command alike: from a share on, or unless it is much better, a table goes round rings.
    """
    monkeypatch.chdir(tmp_path)
    network, array = language_model(rows=2000, width=16), ring(4, preset="ndp-tiny")
    Path("words.yaml").write_text(network_to_yaml(network))
    Path("tiny.yaml").write_text("{version: 1, name: tiny, topology: ring, dies: 4, preset: ndp-tiny}\n")
    for settings, way in ({}, "server"), ({"tolerance": 0.9}, "ring"), ({"dense_from": 0.02}, "ring"), (
            {"dense_from": 0.03, "tolerance": 0.05}, "server"):
        plan = plinth.plan(network, array, planner="parallax", batch=16, touched=0.02, **settings)
        assert ways(plan.plan) == {"table.weights": way}
        flags = [text for name, value in settings.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        cli.main(["plan", "words.yaml", "--array", "tiny.yaml", "--planner", "parallax", "--batch", "16", "--touched",
                  "0.02", *flags])
        assert f"copies  {way}{' x4' * (way == 'server')} " in capsys.readouterr().out


@pytest.mark.parametrize(("settings", "message"), [
    ({"tolerance": 2}, "tolerance must be a finite number from 0 to 1, not 2"),
    ({"dense_from": -0.5}, "dense_from must be a finite number from 0 to 1, not -0.5"),
    ({"tolerance": 0.1}, "tolerance= decides between ways, of which copies=rings leaves one; choose copies=auto, or "),
    ({"dense_from": 0.1, "touched": 0.5}, "dense_from= leaves tables to rings, and with copies=rings all are; choose"),
    ({"dense_from": 0.1, "planner": "parallax"}, "dense_from= is compared with the share of rows that samples touch")])
def test_settings_that_decide_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        plinth.plan(language_model(), ring(2), **{"planner": "data", "batch": 8} | settings)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_tables_that_are_touched_often_are_dense() -> None:
    times = {"ring": 3.0, "gathered": 2.0, "server": 1.0}
    assert choose(CopyChoice(dense_from=0.5), times, 0.4)[0] == "server"
    kind, (note,) = choose(CopyChoice(dense_from=0.5), times, 0.5)
    assert kind == "ring"
    assert note == "table.weights (50.00% of rows touched): rings, as from 50.00% on it is taken for dense"
    with pytest.raises(UserError, match=r"'table\.weights' cannot be kept equal by servers, as .* taken for dense"):
        choose(CopyChoice(SERVERS, dense_from=0.5), times, 0.5)


def test_layers_that_are_split_by_more_than_the_batch_have_no_servers() -> None:
    with pytest.raises(UserError, match=r"by servers, as a level splits its layer by more than the batch; choose "
                                        r"planner=parallax, planner=data or copies=auto"):
        plinth.plan(language_model(rows=8, width=8), ring(2), planner="model", batch=8, copies=SERVERS)


def test_a_share_is_given_once() -> None:
    with pytest.raises(UserError, match=r"--touched 'table=0\.2': layer 'table' has one already; give one"):
        _touched(("table=0.1", "table=0.2"), language_model())
    with pytest.raises(UserError, match=r"--touched '0\.2': a share of all tables has one already; give one"):
        _touched(("0.1", "0.2"), language_model())


@pytest.mark.parametrize(("way", "sync"), [(SERVERS, Server), (GATHERED_ROWS, Gathered), (RINGS, Ring)])
def test_one_way_for_all_tables(way: str, sync: type) -> None:
    plan = plinth.plan(language_model(rows=9), ring(2), planner="data", batch=8, copies=way)
    assert isinstance(dict(plan.plan.sharding.copies)["table.weights"], sync)
    assert plan.totals.injected_words == plan.plan.words
    assert isinstance(dict(plan.plan.sharding.copies)["out.weights"], Ring)


def test_fewer_rows_than_dies() -> None:
    plan = plan_network(language_model(rows=3), ring(4), planner="parallax", batch=8, copies=CopyChoice(SERVERS)).plan
    assert dict(plan.sharding.copies)["table.weights"] == Server((0, 1, 2), 3, interleaved=True)


def test_one_die_has_its_table() -> None:
    (note,) = plan_network(language_model(), ring(1), planner="parallax", batch=8).notes
    assert note.startswith("table.weights (any number of rows touched): rings, ")


def test_rows_are_measured_as_dies_touch_them() -> None:
    """Of batches of 6 samples on two dies, three each; the last batch has four."""
    sharding = data_parallel(language_model(rows=10, words=2), dies=2, batch=6).sharding
    numbers = np.array([[0, 0]] * 3 + [[1, 2], [3, 1], [4, 4]] + [[5, 6], [7, 8], [9, 0]] + [[3, 3]])
    assert touched_shares(sharding, numbers) == (("table.weights", pytest.approx((1 + 4 + 6 + 1) / 4 / 10)),)
    data = frequent_words(language_model(rows=200, words=4), 512, np.random.default_rng(0))
    plan = plinth.plan(language_model(rows=200, words=4), ring(4), planner="parallax", batch=64, touched=data.train_x)
    ((_, share),) = plan.plan.sharding.touched
    counts = [len(np.unique(data.train_x[first:first + 16])) for first in range(0, 512, 16)]
    assert share == pytest.approx(np.mean(counts) / 200)


@pytest.mark.parametrize(("shares", "message"), [
    ({"tabel": 0.1}, "network 'words' has no embedding 'tabel', of whose rows samples touch a share; did you mean"),
    ({"table": 2}, "that samples touch must be above 0 and at most 1, not 2"),
    (-1, "that samples touch must be above 0 and at most 1, not -1"),
    ("many", "touched must be a share, shares by layer, or row numbers [samples, numbers], not the text 'many'"),
    ([[0.5]], "touched must be a share, shares by layer, or row numbers [samples, numbers], not [[0.5]]"),
    (True, "touched must be a share, shares by layer, or row numbers [samples, numbers], not true")])
def test_shares_that_are_none_are_refused(shares: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        plinth.plan(language_model(), ring(2), planner="data", batch=8, touched=shares)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_networks_without_tables_are_refused() -> None:
    for options, message in (({"copies": SERVERS}, "no table whose rows could be kept equal by servers; choose c"),
                             ({"touched": 0.1}, "no embedding, of whose rows samples could touch a share; leave")):
        with pytest.raises(UserError, match=message):
            plinth.plan("digits-mlp", ring(2), **options)
    assert plinth.plan("digits-mlp", ring(2), copies=AUTO_COPIES).planned.notes == ()
    assert named_shares(from_network(language_model()), 0.25) == (("table.weights", 0.25),)


def test_the_command_measures_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = language_model(rows=2000, words=3)
    Path("words.yaml").write_text(network_to_yaml(network))
    data = frequent_words(network, 300, np.random.default_rng(1))
    np.savez("words.npz", x=data.train_x, y=data.train_y)
    cli.main(["plan", "words.yaml", "--planner", "parallax", "--dies", "4", "--batch", "32", "--touched", "words.npz",
              "--out", "plan.yaml"])
    captured = capsys.readouterr()
    plan = plinth.load_plan("plan.yaml").plan
    ((name, share),) = plan.sharding.touched
    assert name == "table.weights" and 0.001 < share < 0.02
    assert f"note: table.weights ({share:.2%} of rows touched): " in captured.err
    assert "copies  server x" in captured.out and plan.planner == "parallax"


def test_what_samples_touch_is_said_of_tables_and_of_the_model(capsys: pytest.CaptureFixture[str], tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Weighed by elements, as Table 1 of Parallax has it; and why each table goes its way, on a line of its own."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    network = next(network for network in iter(lambda: random_tables(generator), None)
                   if sum(isinstance(layer, Embedding) for layer in network.layers) == 2)
    Path("tables.yaml").write_text(network_to_yaml(network))
    shares = {"table": 0.25, "other": 0.5}
    result = plinth.plan(network, ring(2), planner="parallax", batch=8, touched=shares)
    variables = result.plan.graph.variables
    elements = {name: np.prod(variable.shape) for name, variable in variables.items()}
    alpha = sum(count * shares.get(name.split(".")[0], 1) for name, count in elements.items()) / sum(elements.values())
    assert 0.25 < alpha < 1 and result.plan.sharding.alpha == pytest.approx(alpha)
    report = result.to_dict()
    assert report["alpha"] == pytest.approx(alpha) and report["notes"] == list(result.notes)
    assert report["touched_share"] == {"table.weights": 0.25, "other.weights": 0.5}
    cli.main(["plan", "tables.yaml", "--array", "ring-2", "--planner", "parallax", "--batch", "8", "--touched",
              "table=0.25", "--touched", "other=0.5"])
    captured = capsys.readouterr()
    assert (f"samples of a die touch 25.00% of the rows of table.weights, 50.00% of the rows of other.weights; "
            f"{alpha:.2%} of the model's elements (alpha)") in " ".join(captured.out.split())
    assert [line.split(" (")[0] for line in captured.err.splitlines()] == [
        "note: table.weights", "note: other.weights"]
    assert plinth.plan(network, ring(2), planner="data", batch=8, touched={"table": 0.25}).plan.sharding.alpha is None
    assert "alpha" not in plinth.plan(network, ring(2), planner="data", batch=8).to_dict()


@pytest.mark.parametrize(("options", "message"), [
    (["--touched", "x"], "--touched 'x' is no share, layer and share as table=0.03, or one .npz file of samples"),
    (["--touched", "0.1", "--touched", "table=0.1"], "--touched is one share of all tables, or one of each"),
    (["--touched", "tables=0.1"], "network 'words' has no embedding 'tables', of whose rows samples touch a share"),
    (["--touched", "none.npz"], "none.npz: "),
    (["--tolerance", "0.1", "--planner", "data"], "--tolerance decides between ways, of which --copies rings leaves "),
    (["--dense-from", "0.1", "--copies", "auto"], "--dense-from is compared with the share of rows that samples touch; "
     "give --touched too"),
    (["--dense-from", "1.5"], "1.5 is not in the range 0<=x<=1"),
    (["--copies", "server"], "'server' is not one of")])
def test_the_command_refuses_in_one_line(options: list[str], message: str, tmp_path: Path,
                                         capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.yaml").write_text(network_to_yaml(language_model()))
    with pytest.raises(SystemExit) as stop:
        cli.main(["plan", "words.yaml", *options])
    error = capsys.readouterr().err
    assert stop.value.code == 2 and message in error and error.count("\n") == 1


def test_copies_of_other_variables_are_rings() -> None:
    sharding = data_parallel(language_model(), dies=2, batch=4).sharding
    assert all(isinstance(sync, Ring) for _, sync in copies_of(sharding, preset("ndp-demo")))
