"""Rows of other dies behind a die's own ones: which exchanges have them, and what goes on before they come."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from tests.support.numpy_ranks import NumpyTraining, in_threads

import plinth
from plinth.network.layers import Dense, MeanSquaredError, Sigmoid, SoftmaxCrossEntropy, Sparse
from plinth.network.network import Network
from plinth.network.parameters import initial_parameters
from plinth.network.shape import Shape
from plinth.network.sparse.irregular import IrregularNet
from plinth.network.sparse.layers import layered
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.sparse.radix_net import trained_network
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.runtime.overlay import Overlay
from plinth.runtime.sparse_kernels import BlockKernels, CsrProducts
from plinth.step.between import Exchange
from plinth.step.layers.sparse import SparseProducts
from plinth.step.operations import Clear
from plinth.step.pairs import between_processes, joined_messages_between, words_between
from plinth.step.step import Step
from plinth.step.tasks import UPDATE
from plinth.update.rule import UpdateRule

Floats = NDArray[np.float32]


def chain(widths: tuple[int, ...], *, classes: bool = False) -> Network:
    source, layers = IrregularNet(widths=widths, density=0.2, seed=2), []
    for number, rows in enumerate(widths[1:]):
        pattern = csr_array(source.rows(number, np.arange(rows)))
        pattern.sum_duplicates()
        layers += [Sparse(name=f"fc{number}", pattern=SparsePattern.of(pattern)), Sigmoid(name=f"act{number}")]
    if classes:
        layers += [Dense(name="out", outputs=5), SoftmaxCrossEntropy(name="loss")]
    else:
        layers.append(MeanSquaredError(name="loss"))
    return Network(name="chain", input=Shape((widths[0],)), layers=tuple(layers))


#: Over single entries, and over blocks of which some are on one die.
NETWORKS = {"entries": chain((40, 32, 24, 20)), "blocks": layered(trained_network(1024, 2, seed=1))}


def training(name: str, dies: int, planner: str = "hypergraph") -> NumpyTraining:
    plan = plinth.plan(NETWORKS[name], f"ring-{dies}", planner=planner, batch=16).plan
    return NumpyTraining(NETWORKS[name], plan, "ndp-demo", UpdateRule(rate=0.5))


@pytest.mark.parametrize(("name", "planner", "ranks"), [
    ("entries", "hypergraph", [0, 1, 1, 0]), ("entries", "random-rows", [0, 1, 2, 1]), ("entries", "data", [1, 0]),
    ("blocks", "hypergraph", [0, 1]), ("blocks", "random-rows", [1, 0])])
def test_ranks_have_the_bits_of_one_process(name: str, planner: str, ranks: list[int]) -> None:
    """Halos hold NaN until rows come, some of them late; words and messages are those of the step."""
    case = training(name, len(ranks), planner)
    (_, alone), (outcomes, post) = case.on(None), in_threads(case, ranks)
    for _, read in outcomes:
        assert read["losses"] == alone["losses"] and np.isfinite(read["losses"]).all()
        for variable, values in alone["parameters"].items():
            assert np.array_equal(read["parameters"][variable], values)
    processes = [np.flatnonzero(np.equal(ranks, rank)).tolist() for rank in range(max(ranks) + 1)]
    words, messages = (between_processes(words_between(case.step), processes),
                       joined_messages_between(case.step, processes))
    for pair in np.argwhere(words):
        assert post.words[tuple(pair)] == case.steps * words[tuple(pair)] > 0
        assert post.messages[tuple(pair)] == case.steps * messages[tuple(pair)]


class WaitsError(Exception):
    """Something is waited for that never comes."""


class Silent:
    """The other of two ranks, of which nothing ever comes.

    Parameters
    ----------
    own : int
    """

    def __init__(self, own: int) -> None:
        self.ranks, self.own, self.size, self.neighbours = [0, 1], own, 2, 2
        #: Words of each message that was sent.
        self.sent: list[int] = []

    def told(self, value: Any) -> list[Any]:
        return [value] * 2

    def incoming(self, rank: int, tag: int, words: int, place: Floats | None = None) -> "_End":
        return _End(self, np.empty(words, np.float32) if place is None else place)

    def outgoing(self, rank: int, tag: int, words: int) -> "_End":
        return _End(self, np.empty(words, np.float32))

    def all_reduce(self, ranks: object, words: int) -> None:
        pass

    expected = 0

    def begin(self, messages: Sequence[int] | None = None) -> None:
        pass

    def wait(self, done: Callable[[], bool]) -> None:
        raise WaitsError


class _End:
    def __init__(self, silent: Silent, words: Floats) -> None:
        self.words, self._silent = words, silent

    def arrived(self) -> bool:
        return False

    def send(self) -> None:
        self._silent.sent.append(len(self.words))


@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize(("name", "kind"), [("entries", CsrProducts), ("blocks", BlockKernels)])
def test_own_columns_are_multiplied_before_others_come(name: str, kind: type, own: int) -> None:
    """What stands in the second layer's outputs when the other's rows are waited for: sums over own columns; over
    blocks those of outputs that need no others."""
    case, messages = training(name, 2), Silent(own)
    executor = NumpyExecutor(case.step, messages)  # type: ignore[arg-type]
    executor.view.load(executor, initial_parameters(case.network, 0))
    samples = np.random.default_rng(1).random((16, case.network.input.elements))
    executor.view.write_batch(executor, samples, np.zeros((16, case.network.output.elements)))
    with pytest.raises(WaitsError):
        executor.predict()
    (exchange,) = [operation for operation in case.step.operations if isinstance(operation, Exchange)
                   and operation.targets[0].name == second(case.step).x.side.tensor.name]
    assert messages.sent == [16 * len(exchange.lists.meeting(own, 1 - own)[0])]  # type: ignore[union-attr]
    product, memory = second(case.step), executor._step.memories[own]
    assert isinstance(executor._step._kernels._sparse[product.node.name, own]._products, kind)
    weights, cover = product.weights, product.weights.cover(own)
    matrix = csr_array((cover.unpack(memory.view(weights.matrix(own))[0]), weights.local(own).indices,
                        weights.local(own).indptr), shape=cover.shape).toarray()
    rows, places = exchange.lists.meeting(own, own)  # type: ignore[union-attr]
    x = np.zeros((cover.shape[1], 16))
    x[places] = memory.view(exchange.source.buffer(own))[rows]
    z = memory.view(product.z.side.tensor.buffer(own))
    others = np.delete(matrix, places, axis=1)
    alone = ~others.any(axis=1) if kind is BlockKernels else np.ones(len(z), np.bool_)
    assert alone.mean() > 0.4 and others.any() and np.abs(matrix @ x).max() > 0.1
    assert np.allclose(z[alone], (matrix @ x)[alone], atol=1e-5)


def second(step: Step) -> SparseProducts:
    """The second layer's fprop."""
    return [operation for operation in step.operations if isinstance(operation, SparseProducts)][1]


def test_errors_go_before_gradients() -> None:
    """In numpy; each operation is done once, and errors of the first layer, which go nowhere, stay behind."""
    step = training("entries", 2).step
    ordered = Overlay(step, [0]).operations
    assert sorted(map(id, ordered)) == sorted(map(id, step.operations)) and ordered != step.operations
    names = [operation.name for operation in ordered]
    for layer in ("fc2", "fc1"):
        sent = next(name for name in names if ".reduce." in name and name.endswith(layer))
        order = [f"{layer}.bprop", sent, f"{layer}.update_grad", f"{layer}.all_reduce"]
        assert [name for name in names if name in order] == order
    gradients = [operation.name for operation in step.operations
                 if isinstance(operation, SparseProducts) and operation.direction == UPDATE]
    assert names.index("fc2.update_grad") < names.index("fc1.bprop") and len(gradients) == 3


def test_which_exchanges_have_halos() -> None:
    """Those of rows that sparse layers alone read, of all samples; none of batches that are split, or of dense layers.
    """
    step = training("entries", 4).step
    overlay = Overlay(step, [1, 2])
    assert [halo.exchange.node for halo in overlay.halos.values()] == [0, 1]
    for halo in overlay.halos.values():
        assert sorted(halo.dies) == [1, 2]
        for die, there in halo.dies.items():
            assert overlay.behind(halo.exchange.source.name, die) == there.halo.words > 0
            assert there.source.end == there.halo.address and there.halo.end == there.rows.end
            assert overlay.behind(halo.exchange.targets[0].name, die) == 0
            numbers = np.sort(there.numbers[~there.own])
            assert np.array_equal(numbers, np.arange(there.source.rows, there.rows.rows))
    assert not Overlay(training("entries", 2, "data").step, [0, 1]).halos
    dense = chain((40, 32, 24), classes=True)
    plan = plinth.plan(dense, "ring-4", planner="hypergraph", batch=16).plan
    both = NumpyTraining(dense, plan, "ndp-demo").step
    assert len(Overlay(both, range(4)).halos) == 1


@pytest.mark.parametrize("what", ["target", "source"])
def test_places_that_others_use_have_no_halos(what: str) -> None:
    """A target that more than products touch, a map that is written behind the exchange."""
    step = training("entries", 2).step
    exchange = next(iter(Overlay(step, [0]).halos.values())).exchange
    place = exchange.source if what == "source" else exchange.targets[0]
    step.operations.append(Clear("late", None, step.parameters, place, step.any))
    assert [halo.exchange.node for halo in Overlay(step, [0]).halos.values()] == [1]
    step.operations.pop()
    step.maps["read"] = [exchange.targets[0]]
    assert [halo.exchange.node for halo in Overlay(step, [0]).halos.values()] == [1]
