"""Networks with sparse layers: made of chains and of pruned networks, written and read."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from plinth.errors import UserError
from plinth.network.file import load_network, network_from_data
from plinth.network.layers import Dense, Sparse
from plinth.network.network import perceptron
from plinth.network.parameters import initial_parameters
from plinth.network.sparse import layers
from plinth.network.sparse.layers import layered, pruned_network, write_sparse
from plinth.network.sparse.pattern import PatternForm, SparsePattern
from plinth.network.sparse.pattern_file import write_patterns
from plinth.network.sparse.radix_net import challenge_network, trained_network
from plinth.network.zoo import NETWORKS


def matrix(seed: int = 0, shape: tuple[int, int] = (6, 8)) -> csr_array:
    made = csr_array(random_array(shape, density=0.4, rng=np.random.default_rng(seed), dtype=np.float32))
    made.sum_duplicates()
    return made


def test_equal_matrices_give_equal_patterns() -> None:
    first, second, other = SparsePattern.of(matrix()), SparsePattern.of(matrix()), SparsePattern.of(matrix(1))
    assert first == second and hash(first) == hash(second) and first != other
    assert SparsePattern.of(matrix(), values=False) != first
    changed = matrix()
    changed.data[0] += 1
    assert SparsePattern.of(changed) != first
    assert SparsePattern.of(changed, values=False) == SparsePattern.of(matrix(), values=False)


def test_a_pattern_of_a_file_is_that_of_its_matrix(tmp_path: Path) -> None:
    write_patterns(tmp_path / "a.npz", {"one": matrix(), "two": matrix(1)})
    read = SparsePattern.read(tmp_path / "a.npz", "two")
    assert read == SparsePattern.of(matrix(1)) and (read.matrix() != matrix(1)).nnz == 0
    assert SparsePattern.read(tmp_path / "a.npz", "two", read.digest) == read
    with pytest.raises(UserError, match="say which one"):
        SparsePattern.read(tmp_path / "a.npz")
    with pytest.raises(UserError, match="has no matrix"):
        SparsePattern.read(tmp_path / "a.npz", "three")
    with pytest.raises(UserError, match="another matrix than it was"):
        SparsePattern.read(tmp_path / "a.npz", "one", read.digest)


def test_the_path_of_a_pattern_is_true_through_symbolic_links(tmp_path: Path) -> None:
    write_patterns(tmp_path / "a" / "matrices" / "m.npz", {"one": matrix()})
    (tmp_path / "elsewhere" / "plans").mkdir(parents=True)
    (tmp_path / "a" / "plans").symlink_to(tmp_path / "elsewhere" / "plans")
    (tmp_path / "elsewhere" / "plans" / "matrices").symlink_to(tmp_path / "a" / "matrices")
    pattern = SparsePattern.read(tmp_path / "a" / "matrices" / "m.npz")
    for folder, path in (("a/plans", "../../a/matrices/m.npz"), ("a", "matrices/m.npz")):
        data = pattern.to_data(tmp_path / folder)
        assert data["file"] == path and PatternForm("connections").parse(data, tmp_path / folder) == pattern
    # Links below the file's folder are left as they are.
    linked = SparsePattern.read(tmp_path / "elsewhere" / "plans" / "matrices" / "m.npz")
    assert linked.to_data(tmp_path / "elsewhere" / "plans")["file"] == "matrices/m.npz"


def test_paths_that_plans_cannot_name_are_refused(tmp_path: Path) -> None:
    """Files of other bytes than UTF-8, as Python has them in texts."""
    folder = tmp_path / os.fsdecode(b"\xff")
    write_patterns(folder / "m.npz", {"one": matrix()})
    with pytest.raises(UserError, match=r"\\udcff/m\.npz: is no text of UTF-8, in which plans name files"):
        SparsePattern.read(folder / "m.npz")


def test_a_file_that_changes_after_it_was_opened_is_told(tmp_path: Path) -> None:
    write_patterns(tmp_path / "m.npz", {"one": matrix(7)})
    opened = SparsePattern.read(tmp_path / "m.npz")
    write_patterns(tmp_path / "m.npz", {"one": matrix(8)})
    with pytest.raises(UserError, match=r"m\.npz: 'one' has changed since it was opened; open it anew"):
        opened.matrix()


@pytest.mark.parametrize("value", [3, None, [], {}, {"matrix": "a"}, {"file": 1}, {"file": "a.npz", "more": "b"}, "",
                                   {"digest": "0" * 64}])
def test_what_is_no_pattern_is_told(value: object) -> None:
    with pytest.raises((ValueError, UserError)):
        PatternForm("connections").parse(value)


def test_more_connections_than_a_file_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MAXIMUM_CONNECTIONS", 2 * 64 * 32)
    layered(trained_network(64, 2))
    with pytest.raises(ValueError, match=r"first 3 of 9 layers .* have 6144 connections, more than 4096"):
        layered(trained_network(64, 9))


def test_a_network_is_written_and_read(tmp_path: Path) -> None:
    network = layered(trained_network(64, 3, seed=1, biases=True))
    write_sparse(tmp_path / "net.yaml", network)
    again = load_network(str(tmp_path / "net.yaml"))
    assert again == network and again.variables == network.variables
    first = initial_parameters(again, 0)
    assert np.array_equal(first["fc2.weights"], trained_network(64, 3, seed=1).matrix(1).data)


def test_layers_that_do_not_fit_are_told(tmp_path: Path) -> None:
    write_patterns(tmp_path / "a.npz", {"one": matrix()})
    data = {"version": 2, "name": "a", "input": [9], "layers": [
        {"name": "fc", "kind": "sparse", "pattern": "a.npz"}, {"name": "loss", "kind": "mean-squared-error"}]}
    with pytest.raises(UserError, match="a pattern of 8 columns, but the network's input gives 9 features"):
        network_from_data(data, "net.yaml", tmp_path)
    data["input"] = [2, 2, 2]
    with pytest.raises(UserError, match="put a flatten layer between"):
        network_from_data(data, "net.yaml", tmp_path)


def test_a_pruned_network_keeps_its_largest_weights() -> None:
    network = NETWORKS["digits-mlp"]
    parameters = initial_parameters(network, 0)
    pruned = pruned_network(network, parameters, 0.1)
    sparse = [layer for layer in pruned.layers if isinstance(layer, Sparse)]
    dense = [layer for layer in network.layers if isinstance(layer, Dense)]
    assert [layer.name for layer in sparse] == [layer.name for layer in dense]
    assert sum(layer.pattern.nonzeros for layer in sparse) == round(0.1 * sum(
        parameters[f"{layer.name}.weights"].size for layer in dense))
    least = min(np.abs(layer.pattern.matrix().data).min() for layer in sparse)
    assert sum((np.abs(parameters[f"{layer.name}.weights"]) > least).sum() for layer in dense) < sum(
        layer.pattern.nonzeros for layer in sparse)


def test_chains_that_are_no_networks_are_told() -> None:
    with pytest.raises(ValueError, match="inference"):
        layered(challenge_network(1024, 2))
    biased = replace(trained_network(64, 2), biases=[0.0, 0.5])
    with pytest.raises(ValueError, match=r"layer 1 of .* has a bias of 0\.5 that stays"):
        layered(biased)
    with pytest.raises(ValueError, match="is a convolution"):
        pruned_network(NETWORKS["lenet-c"], initial_parameters(NETWORKS["lenet-c"], 0), 0.1)
    assert perceptron("p", (4, 3)).layers
