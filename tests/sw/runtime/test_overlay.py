"""Places that lie in one another's memory in numpy: none is written over while somebody still needs it."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import plinth
from plinth.network.layers import MeanSquaredError, Relu, Sigmoid, Sparse
from plinth.network.network import Network
from plinth.network.shape import Shape
from plinth.network.sparse.irregular import IrregularNet
from plinth.network.sparse.layers import layered
from plinth.network.sparse.pattern import SparsePattern
from plinth.network.sparse.radix_net import trained_network
from plinth.report.step import step_of_plan
from plinth.runtime import overlay
from plinth.runtime.overlay import Overlay

BATCH, STEPS = 8, 2


def irregular() -> Network:
    """Layers of other widths, so that places are of many sizes; rows and columns without entries."""
    widths = 40, 96, 24, 64, 20
    source, layers = IrregularNet(widths=widths, density=0.2, seed=2), []
    for number, rows in enumerate(widths[1:]):
        matrix = source.rows(number, np.arange(rows)).tolil()
        matrix[3], matrix[:, 5] = 0, 0
        layers += [Sparse(name=f"fc{number}", pattern=SparsePattern.of(csr_array(matrix, dtype=np.float32))),
                   (Relu, Sigmoid)[number % 2](name=f"act{number}")]
    return Network(name="irregular", input=Shape((widths[0],)), layers=(*layers, MeanSquaredError(name="loss")))


NETWORKS = {"radix": layered(trained_network(64, 5, seed=1)), "irregular": irregular()}


@pytest.mark.parametrize("dies, planner", [(1, "data"), (4, "hypergraph"), (4, "data"), (2, "random-rows")])
@pytest.mark.parametrize("name", NETWORKS)
def test_shared_memory_changes_no_bit(name: str, dies: int, planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run with memory of its own for each place; pages are small, so that more places share."""
    monkeypatch.setattr(overlay, "PAGE", 16)
    definition, draws = NETWORKS[name], np.random.default_rng(3)
    x, y = (draws.random((3 * BATCH, size), np.float32) for size in (
        definition.input.elements, definition.output.elements))
    plan = plinth.plan(definition, f"ring-{dies}", planner=planner, batch=BATCH)

    def trained() -> dict[str, np.ndarray]:
        return dict(plinth.train(plan, x, y, device="numpy", steps=STEPS, rate=0.5).parameters)

    step = step_of_plan(plan.plan)
    sharing, shared = Overlay(step, range(dies)), trained()
    monkeypatch.setattr(overlay, "_lives", lambda *_: {})
    apart, separate = Overlay(step, range(dies)), trained()
    assert not apart.shared and sharing.words() < apart.words()
    assert shared.keys() == separate.keys()
    for variable, values in shared.items():
        assert np.array_equal(values, separate[variable]), variable

