"""MPT's numbers computed anew: what is counted, and no status that claims more, or less, than the numbers show."""

from functools import lru_cache

import pytest

from plinth.model.winograd import with_tiles
from plinth.model.zoo import NETWORKS
from plinth.partition.graph import EP
from plinth.reproduce.mpt.cases import CNNS, LAYERS, MPT, SYSTEMS, array, layer, plan_of, simulated
from plinth.reproduce.paper import Row, Status

#: What is counted, in seconds; the others are simulated.
COUNTED = ("setup", "networks", "systems", "1", "7", "prediction", "gpu", "formulas")


@lru_cache(maxsize=1)
def rows() -> dict[str, Row]:
    return {row.entry.id: row for table in MPT.computed(COUNTED) for row in table.rows if row.entry}


def test_statuses_are_those_of_the_numbers() -> None:
    for row in rows().values():
        assert row.entry is not None
        if row.entry.status == Status.NOT_ATTEMPTED:
            assert row.ours is None
        else:
            assert row.same is row.entry.status.same and row.status == row.entry.status, row


def test_what_comes_out() -> None:
    found = rows()
    for id_ in ("table1.FractalNet.params", "table1.Wide ResNet.of3x3", "fig1.compute_reduction", "f43_mult_reduction",
                "formula.mpt_tiles.words", "formula.mpt_weight.words", "formula.dp_weight.words"):
        assert found[f"mpt.{id_}"].status == Status.INDEPENDENT
    # Nothing of prediction is built, nothing of GPUs was measured.
    assert all(found[id_].ours is None for id_ in found if id_.startswith(("mpt.pred", "mpt.zeroskip", "mpt.fig18")))


def test_systems_are_what_their_names_say() -> None:
    for name in ("mpt-early", "mpt-late-1"):
        network = layer(name)
        for system in SYSTEMS:
            plan = plan_of(network, system)
            node = next(node for node in plan.graph.nodes if node.name == "conv")
            splits = plan.splits[plan.graph.nodes.index(node)]
            assert plan.dies == array().dies == 256
            assert (node.tiling is None) == (system == "d_dp")
            assert (node.free, splits.count(EP)) == {
                "d_dp": (False, 0), "w_dp": (False, 0), "w_mp": (True, 4),
                "w_mp*": (True, 0 if name == "mpt-early" else 4)}[system]
    assert {*LAYERS, *CNNS} <= set(NETWORKS)
    assert with_tiles(layer("mpt-late-2", 5), 2, "winograd").layer("conv").winograd == 2


@pytest.mark.parametrize("key, names", [("15", LAYERS), ("17", CNNS)])
def test_systems_are_drawn(key: str, names: tuple[str, ...], tmp_path) -> None:
    made = MPT.draft(key)
    for place, system in enumerate(SYSTEMS):
        if (key, system) != ("17", "w_dp"):
            for name in (*names, "mean"):
                made.add(system, name, 1.0 + place, {"energy": 2.0})
    path, = MPT.draw(tmp_path, [made.done()])
    assert path.name == f"figure-{key}.png" and path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_late_layers_gain_most() -> None:
    """Figure 15's order: MPT loses on the early layer, and gains the more the later a layer is."""
    gains = [simulated(name, "w_dp").seconds / simulated(name, "w_mp").seconds for name in LAYERS]
    early, mid_1, late_1, mid_2, late_2 = gains
    assert early < 1 < min(mid_1, mid_2) and max(mid_1, mid_2) < min(late_1, late_2)
