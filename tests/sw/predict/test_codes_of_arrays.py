"""Arrays whose dies code tiles beside what their preset does: as they are built, or, a model, as fast as links."""

from dataclasses import replace
from fractions import Fraction

import pytest

from plinth.array.array import ARRAYS, AT_LINKS, BUILT, Array, clusters, ring, sized
from plinth.array.file import array_from_data, array_to_data
from plinth.bench.workers import late_layers
from plinth.errors import UserError
from plinth.lower.training import check_array
from plinth.machine.die import machine
from plinth.network.winograd import with_tiles
from plinth.partition.exchanges import tile_exchange
from plinth.partition.graph import EP, from_network
from plinth.partition.predicted import SKIPPED
from plinth.partition.regions import layout, tile_levels
from plinth.plan.planners.mpt import communication, grouped, in_groups
from plinth.plan.planning import given_plan
from plinth.predict.time import StepTime
from plinth.predict.work import work_cost
from plinth.sharding import Sharding
from plinth.simulate.step import Simulated, simulated
from plinth.step.build import step_of
from plinth.step.tasks import CodePart, Decode, Encode, Predict
from plinth.step.tile_operations import Gather, Scatter
from plinth_hw.isa.parameters import PRESETS


def step(codes: str | None, rounds: int, narrow: Fraction = Fraction(1, 8)) -> Simulated:
    """Of 8 groups, which have no whole columns, and 2 clusters with narrow links that much is sent on."""
    array = replace(clusters(8, 2, codes), narrow_rate=narrow)
    graph = from_network(with_tiles(late_layers(32, 8), 2, "winograd", rounds))
    return simulated(given_plan(graph, array, grouped(graph, array, array.group_levels), 64), array)


def test_names_and_files_say_them() -> None:
    assert ARRAYS["mpt-256-ideal"] == replace(clusters(16, 16, AT_LINKS), name="mpt-256-ideal")
    for end, codes in (("", None), ("-ideal", AT_LINKS), ("-codes", BUILT)):
        array = sized(f"mpt-4x8{end}")
        assert array == clusters(4, 8, codes) and array_from_data(array_to_data(array), "x") == array
        assert array.die_parameters().codes == (codes is not None)
    assert sized("torus-4x8-ideal") is None and sized("ring-4-codes") is None
    assert not PRESETS["ndp-paper"].codes


@pytest.mark.parametrize(("settings", "why"), [
    ({"preset": "ndp-demo", "codes": BUILT}, "dies of preset 'ndp-demo' cannot code: codes are of dies with"),
    ({"preset": "ndp-paper", "codes": "much"}, "codes must be built or at-links, not the text 'much'")])
def test_dies_that_cannot_code(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Array(name="x", topology="ring", dies=2, **settings)


def test_codes_that_keep_up_with_links_take_words_a_flit_a_cycle() -> None:
    array = clusters(4, 4, AT_LINKS)
    graph = from_network(with_tiles(late_layers(32, 8), 2, "winograd", 1))
    step = step_of(Sharding(graph=graph, splits=grouped(graph, array, array.group_levels), batch=64,
                            factors=array.factors, array=array), array.die_parameters())
    parameters, seen = array.die_parameters(), set()
    die = machine(parameters)
    for work in (task.work for task in step.tasks(0) if isinstance(getattr(task, "work", None),
                                                                  (Encode, Decode, Predict))):
        cost = work_cost(die, work, AT_LINKS)
        if not isinstance(work, Encode):
            assert not (cost.latency or cost.interval or cost.reads or cost.writes or cost.flits)
            continue
        words = work.runs.rows * work.runs.columns
        string = work.runs.rows + work.part.share * words
        assert isinstance(work.part, CodePart)
        seen.add(work.part.number)
        assert (cost.latency * parameters.flit_words, cost.reads, cost.writes,
                cost.flits * parameters.flit_words) == pytest.approx(
            (string, words, 0, string) if work.part.number == 0 else (string, 0, words, string))
        assert cost.latency < work_cost(die, work).latency
    assert seen == {0, 1}
    # Behind a ReLU three exchanges leave out words on the way; the images' scatter sends all.
    assert {operation.share for operation in step.operations if type(operation) in (Scatter, Gather)} == {
        1.0, *(share[2] for share in SKIPPED.values())}


def test_slow_links_are_what_prediction_is_for() -> None:
    """Where words decide a step is the shorter, the more are left out; and stages as they are built cost more time."""
    plain, model, built = step(None, 0), step(AT_LINKS, 1), step(BUILT, 1)
    assert model.result.seconds < built.result.seconds
    assert model.result.seconds < 0.9 * plain.result.seconds
    assert model.plan.words == built.plan.words < plain.plan.words
    assert model.result.counts.dram_words < built.result.counts.dram_words
    assert "modelled to keep up with links" in model.source and "modelled" not in built.source + plain.source


def test_what_has_no_codes_is_refused_with_the_way_out() -> None:
    with pytest.raises(UserError, match=r"preset 'ndp-paper' have no codes; choose .* an array that has, such as "
                                        "mpt-256-ideal, or predict=0"):
        step(None, 1)
    with pytest.raises(UserError, match="array 'ring-2' has codes: at-links, a model that no die follows"):
        check_array(replace(ring(2, preset="ndp-demo-winograd"), codes=AT_LINKS))
    check_array(replace(ring(2, preset="ndp-demo-winograd"), codes=BUILT))


def test_the_planner_counts_the_words_that_are_expected() -> None:
    """Layers behind a ReLU gather and scatter less; the first one, behind the images, only gathers less."""
    array = clusters(8, 2, AT_LINKS)
    times = [StepTime(from_network(with_tiles(late_layers(32, 8), 2, "winograd", *some)), 64, array)
             for some in ((0,), (1,), (1, (0.0,) * 5))]
    vector = in_groups(array, array.group_levels)
    assert EP in vector
    first, second = ([communication(time, number, vector) - time.ring(number, vector) for time in times]
                     for number in (0, 1))
    for all_of_it, measured, nothing in (first, second):
        assert nothing < measured < all_of_it
    # Of as many channels in as out, masks of one of four exchanges go, and sums of the bias's gradient, no tiles.
    node = times[0].graph.nodes[1]
    sums = times[0].links.exchanges(tile_exchange(node, layout(True, vector, vector, True, tile_levels(vector, vector)),
                                                  "bprop", "bias", times[0].factors).flow(64))[0]
    assert second[2] - sums == pytest.approx((second[0] - sums) / 32 / 4, rel=0.01)
