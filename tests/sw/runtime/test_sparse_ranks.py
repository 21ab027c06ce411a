"""Sparse layers over MPI: bits of one process, and between ranks no words but those of the hypergraph."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from tests.support.ranks import commands, in_ranks

import plinth
from plinth.network.layers import MeanSquaredError, Relu, Sigmoid, Sparse
from plinth.network.network import Network
from plinth.network.parameters import FirstParameters, initial_parameters
from plinth.network.shape import Shape
from plinth.network.sparse.irregular import IrregularNet
from plinth.network.sparse.layers import layered, write_sparse
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.sparse.radix_net import trained_network
from plinth.runtime.mpi import MpiTransport
from plinth.runtime.mpi_messages import MpiMessages
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.runtime.processes import split_dies
from plinth.step import pattern_weights
from plinth.step.build import step_of
from plinth.train.checks import against_float64
from plinth.train.float64 import float64_predictor
from plinth.update.rule import UpdateRule
from plinth_hw.isa.parameters import preset

DIES, BATCH, STEPS = 4, 8, 2


def irregular() -> Network:
    """Rows and columns without entries, and a row of all: dies have other numbers of rows and needs."""
    widths = 40, 32, 24, 20
    source, layers = IrregularNet(widths=widths, density=0.2, seed=2), []
    for number, rows in enumerate(widths[1:]):
        matrix = source.rows(number, np.arange(rows)).tolil()
        if number == 1:
            matrix[3], matrix[:, 5], matrix[7] = 0, 0, 0.25
        pattern = csr_array(matrix, dtype=np.float32)
        pattern.sum_duplicates()
        layers += [Sparse(name=f"fc{number}", pattern=SparsePattern.of(pattern)),
                   (Relu, Sigmoid)[number % 2](name=f"act{number}")]
    return Network(name="irregular", input=Shape((widths[0],)), layers=(*layers, MeanSquaredError(name="loss")))


class Planned(NamedTuple):
    """What the ranks are given, and the weights of one process by network and device."""

    folder: Path
    patterns: Mapping[str, list[csr_array]]
    owners: Mapping[str, list[NDArray[np.int64]]]
    weights: Mapping[tuple[str, str], Mapping[str, NDArray[np.float32]]]


NETWORKS = {"radix": layered(trained_network(64, 3, seed=1)), "irregular": irregular()}


def hypergraph_words(patterns: list[csr_array], owners: list[NDArray[np.int64]], ranks: NDArray[np.int64]
                     ) -> dict[tuple[int, int], int]:
    """By brute force the words of a sample that go from rank to rank: of each column that a die needs and another one
    owns the activation, and its error back."""
    words: dict[tuple[int, int], int] = {}
    for pattern, owner, reader in zip(patterns[1:], owners, owners[1:], strict=False):
        dense = pattern.toarray() != 0
        for column, home in enumerate(owner):
            for die in set(reader[dense[:, column]].tolist()):
                pair = int(ranks[home]), int(ranks[die])
                for key in (pair, pair[::-1]) if pair[0] != pair[1] else ():
                    words[key] = words.get(key, 0) + 1
    return words


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Plans and samples in files, and what one process trains by them."""
    folder, draws = tmp_path_factory.mktemp("planned"), np.random.default_rng(3)
    owners: dict[str, list[NDArray[np.int64]]] = {}
    patterns: dict[str, list[csr_array]] = {}
    weights: dict[tuple[str, str], Mapping[str, NDArray[np.float32]]] = {}
    for name, network in NETWORKS.items():
        write_sparse(folder / f"{name}.yaml", network)
        plan = plinth.plan(folder / f"{name}.yaml", f"ring-{DIES}", planner="hypergraph", batch=BATCH)
        plan.save(folder / f"{name}.plan.yaml")
        patterns[name] = [layer.pattern.matrix() for layer in network.layers if isinstance(layer, Sparse)]
        x, y = (draws.random((5 * BATCH, size)) for size in (patterns[name][0].shape[1], patterns[name][-1].shape[0]))
        np.savez(folder / f"{name}.data.npz", x=x, y=y)
        owners[name] = []
        for pattern, lists in zip(patterns[name], plan.plan.sharding.lists, strict=False):
            assert lists is not None and lists.outputs is not None
            owner = np.full(pattern.shape[0], -1)
            for die, part in enumerate(lists.outputs):
                for first, end in part:
                    owner[first:end] = die
            owners[name].append(owner)
        for device in ("golden", "numpy"):
            weights[name, device] = plinth.train(plan, x, y, device=device, steps=STEPS, rate=0.5).parameters
    relu = replace(NETWORKS["radix"], layers=tuple(
        Relu(name=layer.name) if isinstance(layer, Sigmoid) else layer for layer in NETWORKS["radix"].layers))
    write_sparse(folder / "relu.yaml", relu)
    plinth.plan(folder / "relu.yaml", "ring-2", planner="hypergraph", batch=BATCH).save(folder / "relu.plan.yaml")
    return Planned(folder, patterns, owners, weights)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_have_the_bits_of_one_process_and_send_the_words_of_the_hypergraph(ranks: int, planned: Planned,
                                                                                 tmp_path: Path) -> None:
    """Of three ranks one has two of the four dies."""
    processes = np.repeat(np.arange(ranks), [len(dies) for dies in split_dies(DIES, ranks)])
    cases = list(planned.weights)
    outcomes = commands(ranks, [[(
        "run", str(planned.folder / f"{name}.plan.yaml"), "--data", str(planned.folder / f"{name}.data.npz"), "--steps",
        str(STEPS), "--rate", "0.5", "--device", device, "--out", str(tmp_path / "out"), "--save",
        str(tmp_path / f"{name}.{device}.npz"), "--json",
        # Without checks numpy predicts samples of the test, which are no step's words.
        *(("--check", "0") if device == "numpy" else ()))] * ranks for name, device in cases])
    for (name, device), outcome in zip(cases, outcomes, strict=True):
        assert [code for code, _, _ in outcome] == [0] * ranks, outcome
        pairs = json.loads(outcome[0][1])["between_ranks"]
        words = hypergraph_words(planned.patterns[name], planned.owners[name], processes)
        assert {(pair["from_rank"], pair["to_rank"]): pair["sent_words"] for pair in pairs} == {
            pair: STEPS * BATCH * count for pair, count in words.items()}
        assert all(pair["sent_words"] == pair["predicted_sent_words"] for pair in pairs)
        assert all(pair["messages"] == pair["predicted_messages"] > 0 for pair in pairs)
        with np.load(tmp_path / f"{name}.{device}.npz") as saved:
            for variable, values in planned.weights[name, device].items():
                assert np.array_equal(saved[variable], values), (name, device, variable)


def test_what_is_wrong_is_said_once_and_nothing_is_written(planned: Planned, tmp_path: Path) -> None:
    """Besides, a run of which no step is compared has the weights of one that is."""
    plans = {name: tmp_path / name / "plan.yaml" for name in ("unordered", "other", "gone")}
    for name, path in plans.items():
        path.parent.mkdir()
        shutil.copy(planned.folder / "radix.npz", path.parent / "radix.npz")
        path.write_text((planned.folder / "radix.plan.yaml").read_text())
        with np.load(path.parent / "radix.npz") as file:
            arrays = dict(file)
        if name == "unordered":
            arrays["fc1.indices"][:2] = arrays["fc1.indices"][1::-1]
        else:
            arrays["fc1.values"][0] += 1
        np.savez(path.parent / "radix.npz", **arrays)
    (plans["gone"].parent / "radix.npz").unlink()
    data = ("--data", str(planned.folder / "radix.data.npz"), "--device", "numpy", "--steps", str(STEPS))
    right = ("run", str(planned.folder / "radix.plan.yaml"), *data, "--check", "0", "--rate", "0.5", "--json",
             "--save", str(tmp_path / "w.npz"), "--out", str(tmp_path / "right"))
    said = {"unordered": "'fc1' has columns in row 0 that do not ascend",
            "other": "'fc1' is another matrix than it was", "gone": "cannot be read"}
    wrong = {f"{plans[name].parent / 'radix.npz'}: {text}": (str(plans[name]), *data) for name, text in said.items()}
    wrong["rank 0: step 1: weights not finite; give a smaller --rate"] = (
        str(planned.folder / "relu.plan.yaml"), *data[:-1], "1", "--check", "0", "--rate", "3e38")
    out = ("--save", str(tmp_path / "bad.npz"), "--out", str(tmp_path / "out"))
    outcomes = commands(2, [[right] * 2, *([("run", *arguments, *out)] * 2 for arguments in wrong.values())])
    assert [code for code, _, _ in outcomes[0]] == [0, 0], outcomes[0]
    assert json.loads(outcomes[0][0][1])["checked_steps"] == 0
    with np.load(tmp_path / "w.npz") as saved:
        for variable, values in planned.weights["radix", "numpy"].items():
            assert np.array_equal(saved[variable], values), variable
    for message, ranks in zip(wrong, outcomes[1:], strict=True):
        lines = [line for _, _, err in ranks for line in err.splitlines()
                 if not line.startswith(("setting up ", "ranks on ", "step ", "writing "))]
        assert len(lines) == 1 and lines[0].startswith(f"plinth: error: {message}"), (message, lines)
        assert ranks[0][0] == 2, ranks
    assert not (tmp_path / "bad.npz").exists()


def predicted(messages: MpiMessages | None) -> list[NDArray[np.float32]]:
    """What the irregular network predicts in numpy before and after a step: of two batches and a piece of one."""
    network = NETWORKS["irregular"]
    plan = plinth.plan(network, f"ring-{DIES}", planner="hypergraph", batch=BATCH).plan
    executor = NumpyExecutor(step_of(replace(plan.sharding, rule=UpdateRule(rate=0.5)), preset("ndp-demo")), messages)
    executor.view.load(executor, initial_parameters(network, 0))
    draws = np.random.default_rng(4)
    samples, targets = draws.random((2 * BATCH + 3, 40)), draws.random((BATCH, 20))
    before = np.concatenate(list(executor.predictions(samples)))
    executor.view.write_batch(executor, samples[:BATCH], targets)
    executor.step()
    return [before, np.concatenate(list(executor.predictions(samples)))]


def predicted_in_a_rank(transport: MpiTransport) -> list[NDArray[np.float32]]:
    return predicted(MpiMessages(transport))


def test_predictions_are_those_of_float64_and_the_same_on_ranks() -> None:
    """Fprop alone, between steps: what comes backwards is not waited for."""
    network, alone = NETWORKS["irregular"], predicted(None)
    samples = np.random.default_rng(4).random((2 * BATCH + 3, 40))
    wanted = np.concatenate(list(float64_predictor(network)(initial_parameters(network, 0), samples)))
    assert np.abs(alone[0] - wanted).max() < 1e-6 and np.abs(alone[1] - wanted).max() > 1e-4
    for found in in_ranks([(0, 1, 2), (3,)], predicted_in_a_rank):
        assert all(map(np.array_equal, found, alone))


class Held(NamedTuple):
    """What a rank has of a step."""

    #: Dies whose entries were asked for, to give them their weights.
    asked: set[int]
    #: Words of the weights of all its dies, and of all their memory.
    weights: int
    words: int


def held(messages: MpiMessages | None) -> Held:
    """Make an executor of a RadiX-Net on four dies, with its first weights."""
    network, asked = layered(trained_network(256, 6, seed=1)), set[int]()
    plan = plinth.plan(network, f"ring-{DIES}", planner="hypergraph", batch=BATCH).plan
    entries_of = pattern_weights._entries

    def noted(key: pattern_weights._PartKey) -> NDArray[np.int32]:
        asked.add(key.die)
        return entries_of(key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern_weights, "_entries", noted)
        executor = NumpyExecutor(step_of(plan.sharding, preset("ndp-demo")), messages)
        executor.view.load(executor, FirstParameters(network, 0))
    weights = sum(layer.buffers[die].columns for layer in executor.view.weights.values() for die in executor.numbers)
    arrays = [place if place.base is None else place.base for memory in executor._step.memories.values()
              for place in memory._places.values()]
    return Held(asked, weights, sum(array.size for array in {id(array): array for array in arrays}.values()))


def held_in_a_rank(transport: MpiTransport) -> Held:
    return held(MpiMessages(transport))


def test_a_rank_holds_weights_of_its_own_rows_alone() -> None:
    """One rank has a die, the other one three: entries of other dies are not even looked up."""
    alone = held(None)
    assert alone.asked == set(range(DIES)) and alone.weights == 6 * 256 * 32
    one, others = in_ranks([(0,), (1, 2, 3)], held_in_a_rank)
    assert (one.asked, others.asked) == ({0}, {1, 2, 3})
    assert one.weights == alone.weights // DIES and one.weights + others.weights == alone.weights
    assert one.words == alone.words // DIES and one.words + others.words == alone.words


def test_checks_that_compare_no_step_read_no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each rank would hold those of all layers, in both of what the checks consist of."""
    monkeypatch.setattr(SparsePattern, "matrix", lambda self: pytest.fail("read"))
    against_float64(NETWORKS["radix"], UpdateRule(), preset("ndp-demo").number_format)
