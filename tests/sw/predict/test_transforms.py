"""What tasks that make tiles of maps, or maps of tiles, cost: as counted, and what they wait on."""

from dataclasses import replace

import pytest

from plinth.array.array import ring
from plinth.machine.record import WorkCost
from plinth.network.layers import Convolution, Dense, Flatten, Relu, Shape, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.partition.graph import from_network
from plinth.plan.planners.mpt import grouped
from plinth.plan.planning import given_plan
from plinth.predict.transforms import transform_cost
from plinth.simulate.step import simulated
from plinth.step.build import step_of
from plinth.step.tasks import TransformTiles
from plinth_sim.array.machine import Flow

#: Samples, and places of a side of their maps.
BATCH, SIDE = 16, 8
DIE = "ndp-demo-winograd"


def _graph(channels, outputs):
    size = {"kernel": (3, 3), "padding": (1, 1), "winograd": outputs, "weights": "winograd"}
    return from_network(Network(name="one", input=Shape((channels, SIDE, SIDE)), layers=(
        Convolution(name="before", channels=channels, kernel=(1, 1), bias=False),
        Convolution(name="c", channels=channels, bias=False, **size), Relu(name="r"), Flatten(name="f"),
        Dense(name="d", outputs=4), SoftmaxCrossEntropy(name="loss"))))


def _plan(channels, outputs, dies):
    array, graph = ring(dies, preset=DIE), _graph(channels, outputs)
    return given_plan(graph, array, grouped(graph, array, array.levels), BATCH), array


def _costs(channels, outputs, dies=1) -> list[tuple[TransformTiles, WorkCost]]:
    """Of a die's tasks: scatter and gather of a step, in its order."""
    plan, array = _plan(channels, outputs, dies)
    parameters = array.die_parameters()
    step = step_of(replace(plan.sharding, array=array), parameters)
    works = [item.work for operation in step.operations for item in operation.tasks(0) if hasattr(item, "work")]
    return [(work, transform_cost(parameters, work)) for work in works if isinstance(work, TransformTiles)]


@pytest.mark.parametrize(("channels", "outputs", "counted"), [
    (8, 2, (17693, 17408, 17408)), (12, 2, (33949, 33568, 33662)), (16, 2, (34077, 33792, 33792)),
    (20, 2, (50333, 49952, 50048)), (12, 4, (19417, 19112, 19192)), (16, 4, (19561, 19336, 19336)),
    # These played no part.
    (10, 2, (33886, 33555, 33603)), (20, 4, (28633, 28328, 28408)), (4, 2, (9143, 8984, 8984))])
def test_cycles_are_those_counted(channels, outputs, counted) -> None:
    """All descriptors of tiles, of maps, and of tiles of errors: a block that is not full takes as long as a full one
    beside it."""
    for (work, cost), cycles in zip(_costs(channels, outputs)[:3], counted, strict=True):
        assert work.descriptors * cost.latency == pytest.approx(cycles, rel=0.05)


def test_to_add_takes_no_longer_than_to_store() -> None:
    *_, stored, _, added = _costs(12, 2)
    assert added[0].added and not stored[0].added
    assert added[1].latency == pytest.approx(stored[1].latency, rel=0.02)
    assert added[1].writes > stored[1].writes / 2


def test_links_wait_for_the_first_flit_of_a_scatter() -> None:
    """Also where they take longer than the engine: nothing hides the time until then, of any descriptor."""
    plan, array = _plan(16, 2, 8)
    work, cost = next(costed_task for costed_task in _costs(16, 2, 8) if costed_task[0].members is not None)
    simulation = simulated(plan, array)
    names = [activity.name for activity in simulation.work.activities]
    begun = [place for place, name in enumerate(names) if name.startswith("c.scatter") and name.endswith("@0 begin")]
    cycle = 1 / (float(array.clock_mhz) * 1e6)
    assert len(begun) == work.descriptors
    links = 10 * cost.flits / 8 / float(array.die_parameters().link_rate)
    for place in begun:
        sent = names.index(names[place].removesuffix(" begin"))
        assert simulation.result.starts[sent] >= simulation.result.starts[place] + cost.begin * cycle * (1 - 1e-9)
        assert simulation.result.ends[sent] - simulation.result.starts[sent] >= links * cycle * (1 - 1e-9)
        assert links > cost.interval - cost.begin


@pytest.mark.parametrize(("dies", "stands"), [(8, False), (6, True)])
def test_what_goes_to_several_dies_in_turn_shares_links_as_an_equal(dies, stands) -> None:
    """It stands in no queue behind a link; what goes to one die does, as tiles of six do, whose parts are uneven."""
    simulation = simulated(*_plan(16, 2, dies))
    queues = {place for place, link in enumerate(simulation.work.machine.links) if link.queue}
    tiles = [bool(queues & set(activity.links.tolist())) for activity in simulation.work.activities
             if isinstance(activity, Flow) and activity.engine == "transfer" and len(activity.links) > 3]
    assert set(tiles) == {stands}
