"""`plinth sparse`, and what the other commands make of its networks."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import plinth
from plinth import cli
from plinth.network.file import load_network
from plinth.network.parameters import initial_parameters
from plinth.network.sparse import layers
from plinth.network.sparse.layers import layered
from plinth.network.sparse.radix_net import trained_network
from plinth.network.sparse.tsv import write_network
from plinth.partition.hypergraph import partitioner
from plinth.report.traffic import traffic_axes


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path / "build"))
    return tmp_path


def samples(path: Path, inputs: int, outputs: int, count: int = 32) -> None:
    draws = np.random.default_rng(0)
    np.savez(path, x=draws.random((count, inputs), np.float32), y=draws.random((count, outputs), np.float32))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which a command is refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        cli.main([*arguments])
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("planning ")]
    assert end.value.code == 2 and len(lines) == 1 and lines[0].startswith("plinth: error: ")
    return lines[0]


def test_a_radix_net_is_made_planned_trained_and_simulated(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    cli.main(["sparse", "radix-net", "--neurons", "64", "--layers", "3", "--out", "net.yaml"])
    assert "6,336 parameters" in capsys.readouterr().out
    samples(here / "d.npz", 64, 64)
    cli.main(["plan", "net.yaml", "--planner", "hypergraph", "--batch", "8", "--out", "plan.yaml",
              "--picture", "p.png"])
    assert (here / "p.png").read_bytes().startswith(b"\x89PNG")
    cli.main(["train", "plan.yaml", "--data", "d.npz", "--device", "golden", "--steps", "2"])
    report = json.loads((here / "build" / "train" / "report.json").read_text())
    assert report["failure"] is None and report["planner"] == "hypergraph"
    capsys.readouterr()
    cli.main(["simulate", "plan.yaml", "--json"])
    simulated = json.loads(capsys.readouterr().out)
    assert simulated["injected_words"] * 2 == report["predicted_injected_words"]


def test_a_plan_is_moved_together_with_its_folder(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "old" / "plans").mkdir(parents=True)
    cli.main(["sparse", "radix-net", "--neurons", "64", "--layers", "2", "--out", "old/net.yaml"])
    for plan in ("old/plan.yaml", "old/plans/plan.json"):
        cli.main(["plan", "old/net.yaml", "--array", "ring-2", "--batch", "8", "--planner", "hypergraph",
                  "--out", plan])
    samples(here / "d.npz", 64, 64)
    cli.main(["train", "old/plan.yaml", "--data", "d.npz", "--device", "golden", "--steps", "1", "--out", "old/run"])
    (here / "old").rename(here / "new")
    for plan in ("plan.yaml", "plans/plan.json", "run/plan.json"):
        assert str(here) not in (here / "new" / plan).read_text()
        cli.main(["simulate", f"new/{plan}"])
    # Another matrix is refused, and a file that is not there.
    cli.main(["sparse", "radix-net", "--neurons", "64", "--layers", "2", "--seed", "1", "--out", "new/net.yaml"])
    for told in ("new/net.npz: 'fc1' is another matrix than it was", "new/net.npz: cannot be read"):
        assert told in refused(capsys, "simulate", "new/plan.yaml")
        (here / "new" / "net.npz").unlink(missing_ok=True)


def test_dies_of_the_heat_map_are_whole_numbers() -> None:
    result = plinth.plan(layered(trained_network(64, 2)), "ring-4", planner="random-rows", batch=8)
    bars, heat = Figure().subplots(1, 2)
    traffic_axes(result.plan, bars, heat)
    for axis in (heat.xaxis, heat.yaxis):
        assert all(tick == round(tick) for tick in axis.get_majorticklocs())


def test_irregular_and_pruned_networks_are_made(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    cli.main(["sparse", "irregular", "--widths", "20,16,10", "--density", "0.3", "--out", "a.yaml"])
    cli.main(["sparse", "prune", "digits-mlp", "--share", "0.2", "--out", "b.yaml"])
    for name in ("a", "b"):
        capsys.readouterr()
        cli.main(["plan", f"{name}.yaml", "--planner", "random-rows", "--batch", "8", "--json"])
        assert json.loads(capsys.readouterr().out)["planner"] == "random-rows"


def test_a_trained_network_is_pruned(here: Path) -> None:
    cli.main(["train", "digits-mlp", "--device", "numpy", "--steps", "1", "--rate", "0.5", "--save", "trained.npz"])
    cli.main(["sparse", "prune", "digits-mlp", "--weights", "trained.npz", "--share", "0.2", "--out", "p.yaml"])
    first = initial_parameters(load_network("p.yaml"), 0)
    with np.load("trained.npz") as trained:
        weights = trained["fc1.weights"].ravel()
        assert trained["fc1.bias"].any() and not first["fc1.bias"].any()
    kept = np.sort(np.abs(first["fc1.weights"]))
    assert np.array_equal(kept, np.sort(np.abs(weights))[-len(kept):])


def test_the_graph_challenges_text_is_read(capsys: pytest.CaptureFixture[str], here: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    write_network(here / "text", trained_network(64, 2, seed=1))
    read = ["sparse", "read", "text", "--neurons", "64", "--layers", "2", "--out", "net.yaml"]
    cli.main(read)
    printed = capsys.readouterr()
    assert "4,224 parameters" in printed.out and "note" not in printed.err
    cut = here / "text" / "n64-l2.tsv"
    cut.write_text("".join(cut.read_text().splitlines(keepends=True)[:2000]))
    cli.main(read)
    assert "n64-l2.tsv has 2,000 connections, other layers up to 2,048" in capsys.readouterr().err
    monkeypatch.setattr(layers, "MAXIMUM_CONNECTIONS", 3000)
    assert "have 4048 connections, more than 3000; take fewer layers" in refused(capsys, *read)


@pytest.mark.parametrize("arguments, told", [
    (["radix-net", "--neurons", "100", "--out", "n.yaml"], "neurons"),
    (["radix-net", "--out", "n.txt"], "must end in .yaml"),
    (["irregular", "--widths", "20", "--out", "n.yaml"], "--widths"),
    (["irregular", "--widths", "10000,30000", "--density", "1", "--out", "n.yaml"], "300000000 entries, more than"),
    (["radix-net", "--neurons", "8388608", "--layers", "1", "--out", "n.yaml"], "268435456 entries, more than"),
    (["irregular", "--widths", "20,x", "--out", "n.yaml"], "--widths"),
    (["irregular", "--widths", "20,10", "--density", "0.001", "--out", "n.yaml"], "density"),
    (["prune", "lenet-c", "--out", "n.yaml"], "is a convolution"),
    (["prune", "digits-mlp", "--share", "0", "--out", "n.yaml"], "share"),
    (["prune", "nothing", "--out", "n.yaml"], "is unknown"),
    (["read", ".", "--neurons", "64", "--layers", "2", "--out", "n.yaml"], "n64-l1.tsv"),
])
def test_what_cannot_be_made_is_told_in_a_line(capsys: pytest.CaptureFixture[str], here: Path, arguments: list[str],
                                               told: str) -> None:
    assert told in refused(capsys, "sparse", *arguments)
    assert not list(here.glob("n.*"))


@pytest.mark.parametrize("line, told", [
    ("65\t1\t0.5", "line 101: input 65 is out of range; give one from 1 to 64"),
    ("1\t65\t0.5", "line 101: output 65 is out of range"),
    ("1\t0.5", "line 101: must be a row, a column and a number"),
    ("neuron", "line 101: must be a row, a column and a number"),
    ("1\t1\tinf", "line 101: must be a row, a column and a number"),
    ("1\t1\t0.5", "has an entry already"),
])
def test_wrong_text_is_told_and_nothing_written(capsys: pytest.CaptureFixture[str], here: Path, line: str, told: str
                                                ) -> None:
    write_network(here / "text", trained_network(64, 1, seed=1))
    file = here / "text" / "n64-l1.tsv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:100], line, *lines[100:]]))
    error = refused(capsys, "sparse", "read", "text", "--neurons", "64", "--layers", "1", "--out", "n.yaml")
    assert "n64-l1.tsv, line " in error and told in error and not list(here.glob("n.*"))


@pytest.mark.parametrize("row, told", [
    ([1, 0], "'fc1' has columns in row 0 that do not ascend, or one twice"),
    ([1, 1], "'fc1' has columns in row 0 that do not ascend, or one twice"),
    ([1, 64], "'fc1' has column 64 in row 0; give columns from 0 to 63"),
])
@pytest.mark.parametrize("planned", [False, True])
def test_wrong_patterns_are_told_and_nothing_written(capsys: pytest.CaptureFixture[str], here: Path, row: list[int],
                                                     told: str, planned: bool) -> None:
    cli.main(["sparse", "radix-net", "--neurons", "64", "--layers", "1", "--out", "net.yaml"])
    if planned:
        cli.main(["plan", "net.yaml", "--array", "ring-2", "--batch", "8", "--out", "plan.yaml"])
    with np.load("net.npz") as file:
        arrays = dict(file)
    arrays["fc1.indices"][:2] = row
    np.savez("net.npz", **arrays)
    arguments = ["simulate", "plan.yaml"] if planned else ["plan", "net.yaml", "--array", "ring-2", "--out", "new.yaml"]
    assert told in refused(capsys, *arguments) and not (here / "new.yaml").exists()


@pytest.mark.parametrize("planner", ["hypergraph", "random-rows"])
def test_planners_do_without_mt_kahypar(here: Path, planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioner, "find_spec", lambda name: None)
    cli.main(["sparse", "irregular", "--widths", "20,16,10", "--density", "0.3", "--out", "a.yaml"])
    cli.main(["plan", "a.yaml", "--array", "ring-2", "--batch", "8", "--planner", planner, "--out", "plan.yaml"])
    assert plinth.load_plan("plan.yaml").plan.planner == planner


def test_a_checkpoint_of_the_same_name_is_kept(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    np.savez(here / "n.npz", x=np.zeros(3))
    before = (here / "n.npz").read_bytes()
    assert "n.npz: is there and holds no patterns" in refused(
        capsys, "sparse", "irregular", "--widths", "20,10", "--density", "0.3", "--out", "n.yaml")
    assert (here / "n.npz").read_bytes() == before and not (here / "n.yaml").exists()
    for widths in ("20,10", "20,12"):  # patterns of its own are replaced
        cli.main(["sparse", "irregular", "--widths", widths, "--density", "0.3", "--out", "m.yaml"])


@pytest.mark.parametrize("planner", ["hypergraph", "random-rows"])
def test_dense_networks_have_no_hypergraph(capsys: pytest.CaptureFixture[str], planner: str) -> None:
    assert "has no sparse layer" in refused(capsys, "plan", "digits-mlp", "--planner", planner)


@pytest.mark.parametrize("planner", ["hypergraph", "random-rows"])
def test_more_dies_than_rows_are_told(capsys: pytest.CaptureFixture[str], here: Path, planner: str) -> None:
    cli.main(["sparse", "irregular", "--widths", "20,3", "--density", "0.5", "--out", "a.yaml"])
    error = refused(capsys, "plan", "a.yaml", "--planner", planner)
    assert "has 3 rows, fewer than the 4 dies" in error and planner in error
    # Others, the default among them, plan without it.
    cli.main(["plan", "a.yaml", "--batch", "8", "--json"])
    assert json.loads(capsys.readouterr().out)["planner"] == "joint"


def test_joint_is_never_longer_than_hypergraph(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    cli.main(["sparse", "radix-net", "--neurons", "128", "--layers", "3", "--out", "net.yaml"])
    seconds = {}
    for planner in ("joint", "hypergraph", "data", "model"):
        capsys.readouterr()
        cli.main(["plan", "net.yaml", "--planner", planner, "--batch", "16", "--json"])
        seconds[planner] = json.loads(capsys.readouterr().out)["predicted_seconds"]
    assert seconds["joint"] == min(seconds.values())
