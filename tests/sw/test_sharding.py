"""What a sharding says of each variable's copies: by a ring, by servers, or not at all; and what is refused."""

import io
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from plinth.array.array import ring
from plinth.errors import UserError
from plinth.network.layers import Convolution, Dense, Embedding, Flatten, Shape, SoftmaxCrossEntropy, Tanh
from plinth.network.network import Network, perceptron
from plinth.network.winograd import with_tiles
from plinth.partition.cuts import ranges_of, runs_of
from plinth.partition.graph import from_network
from plinth.partition.groups import RING, ProcessGroups
from plinth.plan.plan import Plan
from plinth.plan.planning import plan_network
from plinth.report.plan import copies_row, plan_png, plan_report, show_plan
from plinth.runtime.numpy_executor import NumpyExecutor
from plinth.sharding import Copies, Gathered, Local, Ring, Server, Sharding, Sync
from plinth.step.build import step_of
from plinth.step.copies import copies_of, refitted
from plinth.update.rule import FORMS
from plinth_hw.isa.parameters import preset

#: A table of 10 rows, a matrix of 10 rows that has no bias, and one of 9 with a bias.
NETWORK = Network(name="embedded", input=Shape((2,)), layers=(
    Embedding(name="words", rows=10, width=5), Dense(name="hidden", outputs=9, bias=False), Tanh(name="curve"),
    Dense(name="out", outputs=4), SoftmaxCrossEntropy(name="loss")))
GRAPH = from_network(NETWORK)
VARIABLES = GRAPH.variables
TARGET = preset("ndp-tiny")
ALL = ProcessGroups(RING, ((0, 1),))
TOGETHER, WHOLE = Ring(ALL, 1, 64), "words.weights"


def sharding(copies: Copies = (), dies: int = 2) -> Sharding:
    array = ring(dies, preset="ndp-tiny")
    return Sharding(graph=GRAPH, splits=(("dp",) * array.levels,) * len(GRAPH.nodes), batch=4, factors=array.factors,
                    array=array, copies=copies)


def said(**changes: Sync | Any) -> Copies:
    """Everything in rings, but for some variables, whose dots are ``_``."""
    usual = dict(copies_of(sharding(), TARGET))
    return tuple((usual | {name.replace("_", "."): sync for name, sync in changes.items()}).items())


def one_line(copies: Copies) -> str:
    with pytest.raises(UserError) as error:
        sharding(copies).check()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_copies_are_said_of_variables() -> None:
    assert [name for name, _ in copies_of(sharding(), TARGET)] == [
        "hidden.weights", "out.bias", "out.weights", "words.weights"]
    layout = sharding(said(words_weights=Server((0, 1, 0), 3)))
    layout.check()
    assert layout.syncs(0) == (Server((0, 1, 0), 3),) and layout.syncs(2) == (TOGETHER, TOGETHER)
    assert layout.syncs(3) == () and sharding().syncs(0) == ()
    # Who owns rows sums their gradients alone.
    assert layout.groups(RING, 2) == ALL and layout.groups(RING, 0).members == ((0,), (1,))
    gathered = sharding(said(words_weights=Gathered()))
    assert gathered.groups(RING, 0).members == ((0,), (1,)) and gathered.replicas(0) == ALL


def test_equal_shardings_have_equal_hashes_in_any_order_and_process() -> None:
    copies = said(words_weights=Server((0, 1), (((0, 4), (6, 8)), ((4, 6), (8, 10)))), hidden_weights=Local())
    first, second = sharding(copies), sharding(tuple(reversed(copies)))
    assert first == second and hash(first) == hash(second) and len({
        first, second, pickle.loads(pickle.dumps(first))}) == 1
    others = [said(words_weights=Server((1, 0), 2)), said(words_weights=Server((0, 1), 2)), said(), said(
        words_weights=Local()), said(words_weights=replace(TOGETHER, chunk=32)), ()]
    assert len({first, *map(sharding, others)}) == 7


def test_servers_own_rows_in_turn() -> None:
    """Of three pieces, of which one die owns two."""
    server = Server((0, 1, 0), 3, interleaved=True)
    assert server.rows(7) == (((0, 1), (3, 4), (6, 7)), ((1, 2), (4, 5)), ((2, 3), (5, 6)))
    assert server.owned_rows(7, 3) == (((0, 1), (2, 4), (5, 7)), ((1, 2), (4, 5)), ())
    sharding(said(words_weights=replace(server, owners=(0, 1, 0)))).check()


def test_words_of_rows_that_move() -> None:
    """Of a table of 10 rows of 4 on two dies, each with two samples of one word; and of a dense variable."""
    words = {(reduction.layer, reduction.variable and reduction.variable.name): (reduction.words, reduction.bounds)
             for reduction in sharding(said(words_weights=Server((0, 1), 2))).reductions}
    width, places = VARIABLES["words.weights"].shape[1], GRAPH.nodes[0].input_elements
    most = min(5, 2 * places)
    assert words["words", "weights"] == (2 * 2 * most * width, (2 * 2 * width, 2 * 2 * most * width))
    gathered = next(reduction for reduction in sharding(said(words_weights=Gathered())).reductions
                    if reduction.layer == "words")
    assert gathered.word_bounds == (2 * width, 2 * min(10, 2 * places) * width)
    dense = next(reduction for reduction in sharding(said(out_weights=Server((0, 1), 2))).reductions
                 if reduction.layer == "out" and reduction.variable and reduction.variable.name == "weights")
    assert dense.words == 2 * VARIABLES["out.weights"].elements and dense.word_bounds == (dense.words, dense.words)
    few = replace(sharding(said(words_weights=Server((0, 1), 2))), touched=(("words.weights", 0.21),))
    few.check()
    assert next(reduction.words for reduction in few.reductions if reduction.layer == "words") == 2 * 2 * 2 * width


@pytest.mark.parametrize(("touched", "message"), [
    ((("word.weights", 0.1),), "has no variable 'word.weights', whose rows samples touch; did you mean 'words.weig"),
    ((("out.weights", 0.1),), "variable 'out.weights' has a dense gradient: samples touch all of it; leave it out"),
    ((("words.weights", 0.0),), "variable 'words.weights' that samples touch must be above 0 and at most 1, not 0.0"),
    ((("words.weights", 1.5),), "that samples touch must be above 0 and at most 1, not 1.5"),
    ((("words.weights", True),), "that samples touch must be above 0 and at most 1, not true"),
    ((("words.weights", float("nan")),), "that samples touch must be above 0 and at most 1, not nan")])
def test_shares_that_are_none_are_refused(touched: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        replace(sharding(), touched=touched).check()
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("sync", [Server((0, 1), 2), Gathered()])
def test_rows_move_where_the_batch_is_split_alone(sync: Sync) -> None:
    layout = sharding(said(words_weights=sync))
    with pytest.raises(UserError, match="so that every level must split the batch of layer 'words'; give it splits 'd"):
        replace(layout, splits=(("mp",), *layout.splits[1:])).check()


def test_servers_own_rows_evenly_or_by_list() -> None:
    assert Server((0, 1, 0), 3).rows(10) == ranges_of((4, 3, 3))
    by_remainder = tuple(runs_of(range(first, 10, 3)) for first in range(3))
    assert Server((0, 1, 0), by_remainder).rows(10) == by_remainder
    sharding(said(words_weights=Server((0, 1, 0), by_remainder))).check()
    # Ten rows are ten pieces at most, whoever owns them.
    sharding(said(words_weights=Server((1,) * 10, 10))).check()


@pytest.mark.parametrize(("changes", "message"), [
    ({"words_bias": TOGETHER}, "network 'embedded' has no variable 'words.bias', whose copies could be kept "
                               "equal; did you mean 'words.weights'?"),
    ({"words_weights": "ring"}, "copies of variable 'words.weights' are kept equal by a Ring or a Server, or are Ga"),
    ({"words_weights": None}, "copies of variable 'words.weights' are kept equal by a Ring or a Server, or are Gather"),
    ({"out_weights": Gathered()}, "variable 'out.weights' has a dense gradient, of which no rows can be gathered; giv"),
    ({"hidden_weights": Ring(ProcessGroups(RING, ((0,), (1,))), 1, 64)}, "rings of layer 'hidden' are not those of"),
    ({"out_bias": Ring(ALL, 5, 64)}, "the gradient of layer 'out' goes in 1 to 4 pieces, not 5; make the plan again"),
    ({"words_weights": Ring(ALL, 2, 64)}, "the gradient of layer 'words' goes in 1 piece, not 2"),
    ({"out_bias": Ring(ALL, 1, 64, True)}, "layer 'out' has no Winograd tiles that are trained"),
    ({"out_bias": Ring(ALL, 1, 0)}, "a chunk of the gradient of layer 'out' has 1 to 65536 words, not 0"),
    ({"words_weights": Server((0, 1), 3)}, "the servers of variable 'words.weights' have 3 pieces, but 2 owners; give"),
    ({"words_weights": Server((), 0)}, "the servers of variable 'words.weights': 10 rows are cut in 1 to 10 pieces,"),
    ({"words_weights": Server((0,) * 11, 11)}, "10 rows are cut in 1 to 10 pieces, not 11"),
    ({"words_weights": Server((0,), True)}, "10 rows are cut in 1 to 10 pieces, not true"),
    ({"out_bias": Server((0,) * 5, 5)}, "the servers of variable 'out.bias': 4 rows are cut in 1 to 4 pieces, not 5"),
    ({"words_weights": Server((), ())}, "rows: index 0 is in no part; give each index to one part"),
    ({"words_weights": Server((0, 1, 2), 3)}, "the owner of piece 2 is a die from 0 to 1, not 2"),
    ({"words_weights": Server((0, -1), 2)}, "the owner of piece 1 is a die from 0 to 1, not -1"),
    ({"words_weights": Server((0, 1), ranges_of((5, 4)))}, "rows: index 9 is in no part; give each index to one part"),
    ({"words_weights": Server((0, 1), ranges_of((5, 6)))}, "rows: index 10 of part 1 is out of range"),
    ({"words_weights": Server((0, 1), (((0, 6),), ((5, 10),)))}, "rows: index 5 is in parts 0 and 1"),
    ({"words_weights": Server((0, 1, 1), ranges_of((5, 0, 5)))}, "piece 1 has no rows; leave it out"),
    ({"words_weights": Server([0], 1)}, "the servers of variable 'words.weights': owners must be a tuple with the die"),
    ({"words_weights": Server((0,), (None,))}, "piece 0 must be a tuple of ranges (first row, one past the last), not"),
    ({"words_weights": Server((0,), ((0, 10),))}, "piece 0 must be a tuple of ranges (first row, one past the last)"),
    ({"words_weights": Server((0, 0), (((0, 10),), ((10, 10),)))}, "piece 1 must be a tuple of ranges (first row, one"),
    ({"words_weights": Server((0,), (((0, 10.0),),))}, "piece 0 must be a tuple of ranges (first row, one past the la"),
    ({"words_weights": Server((0,), (((5, 10), (0, 5)),))}, "ranges of piece 0 must ascend with gaps between them"),
    ({"words_weights": Server((0,), (((0, 5), (5, 10)),))}, "ranges of piece 0 must ascend with gaps between them"),
    ({"out_bias": Ring(((0, 1),), 1, 64)}, "rings of layer 'out' must be ProcessGroups of kind 'ring', not [[0, 1]]"),
    ({"out_bias": Ring(ProcessGroups("sum", ((0, 1),)), 1, 64)}, "rings of layer 'out' must be ProcessGroups of kind"),
])
def test_what_cannot_be_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    assert message in one_line(said(**changes))


@pytest.mark.parametrize("copies", [
    None, 3, "ring", {WHOLE: TOGETHER}, (TOGETHER,), ((WHOLE, TOGETHER, 1),), ((None, TOGETHER),), ((3, TOGETHER),
                                                                                                  (WHOLE, TOGETHER))])
def test_copies_are_pairs_of_name_and_value(copies: Any) -> None:
    assert one_line(copies).startswith(
        "copies must be pairs of a variable's name and a Ring, a Server, Gathered or Local, not ")


def test_every_variable_is_said_once() -> None:
    assert one_line(said()[1:]).startswith("how copies of variable 'hidden.weights' are kept equal is said 0 times; ")
    assert one_line((*said(), ("out.bias", Local()))).startswith("how copies of variable 'out.bias' are kept equal is "
                                                                 "said 2 times; say it once of each variable")


@pytest.mark.parametrize(("changes", "message"), [
    ({"hidden_weights": Server((0, 1), 2)}, "variable 'hidden.weights' is kept by servers, as dies keep tables of "
                                            "embeddings alone; give it a ring, or make the plan again with `plinth"),
    ({"out_bias": Local()}, "variable 'out.bias' is local, but 2 dies have copies of the same, which dies keep equal"),
    ({"out_bias": Ring(ProcessGroups(RING, ((1, 0),)), 1, 64)}, "variable 'out.bias' has another ring than "
                                                                         "'out.weights', and dies send what a layer"),
    ({"hidden_weights": Ring(ALL, 1, 32)}, "the gradient of layer 'hidden' goes in chunks of 32 words, but dies of "
                                           "preset 'ndp-tiny' have 64; make the plan again with `plinth plan`")])
def test_dies_refuse_what_they_cannot_keep_equal(changes: dict[str, Any], message: str) -> None:
    layout = sharding(said(**changes))
    layout.check()
    with pytest.raises(UserError) as error:
        step_of(layout, TARGET)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_plan_for_dies_of_other_chunks_is_refused() -> None:
    with pytest.raises(UserError, match="layer 'words' goes in chunks of 32 words, but dies of preset 'ndp-tiny' have"):
        Plan(sharding=sharding(said(words_weights=Ring(ALL, 1, 32))), planner="data", model="exact", array="ring-2")


def test_a_step_is_the_same_whether_its_rings_are_said_or_not() -> None:
    assert step_of(sharding(said()), TARGET).digest() == step_of(sharding(), TARGET).digest()


def test_local_variables_of_one_die_are_trained_by_it() -> None:
    """As rings of one member, whose kind is called so, by digest; numpy runs them."""
    alone = sharding(dies=1)
    copies = copies_of(alone, TARGET)
    assert {sync.kind for _, sync in copies} == {"local"} and {sync.kind for _, sync in said()} == {"ring"}
    local = replace(alone, copies=tuple((name, Local()) for name, _ in copies))
    local.check()
    step = step_of(local, TARGET)
    assert step.digest() == step_of(alone, TARGET).digest()
    assert NumpyExecutor(step).wait() == 0


def test_a_local_variable_of_one_die_goes_with_the_layers_ring() -> None:
    """Whatever its pieces: Winograd elements are updated one by one."""
    graph = from_network(with_tiles(Network(name="one", input=Shape((16, 8, 8)), layers=(
        Convolution(name="conv", channels=16, kernel=(3, 3), padding=(1, 1)), Flatten(name="flat"),
        Dense(name="out", outputs=3), SoftmaxCrossEntropy(name="loss"))), 4, "winograd"))
    target = preset("ndp-demo-winograd")
    alone = Sharding(graph=graph, splits=((),) * len(graph.nodes), batch=4, array=ring(1, preset=target.name))
    copies = dict(copies_of(alone, target))
    pieces = copies["conv.weights"]
    assert isinstance(pieces, Ring) and pieces.elements
    mixed = replace(alone, copies=tuple((copies | {"conv.bias": Local(), "out.weights": Local()}).items()))
    assert step_of(mixed, target).digest() == step_of(alone, target).digest()


def test_other_dies_keep_what_rings_do_not() -> None:
    layout = sharding(said(words_weights=Server((0, 1), 2), out_bias=Ring(ALL, 3, 32)))
    copies = dict(refitted(layout, TARGET))
    assert copies["words.weights"] == Server((0, 1), 2) and copies["out.bias"] == copies["out.weights"] == TOGETHER
    assert list(copies) == sorted(copies) and refitted(sharding(), TARGET) == sharding(said()).copies


def test_rings_keep_their_order_on_other_dies() -> None:
    """Two orders in a layer, which dies refuse, are not made one."""
    turned = Ring(ProcessGroups(RING, ((1, 0),)), 1, 64)
    layout = sharding(said(hidden_weights=turned, out_bias=turned))
    copies = refitted(layout, TARGET)
    assert copies == layout.copies
    with pytest.raises(UserError, match=r"variable 'out\.bias' has another ring than 'out\.weights'"):
        step_of(replace(layout, copies=copies), TARGET)


def test_a_rule_alone_leaves_copies_as_they_are() -> None:
    """On any array: of known dies with pieces that suit the rule."""
    for array, name in ((ring(2, preset="ndp-tiny"), "ring-2"), (None, "unknown")):
        plan = Plan(sharding=replace(sharding(said(words_weights=Server((0, 1), 2))), array=array), planner="data",
                    model="exact", array=name)
        assert (plan.hardware is None) == (array is None)
        assert plan.resharded(rule=FORMS["momentum"]).sharding.copies == plan.sharding.copies
        assert Server((0, 1), 2) not in dict(plan.resharded(batch=8).sharding.copies).values()


def test_two_shardings_that_do_not_fit_each_other_are_refused() -> None:
    layout = sharding()
    layout.check_fits(replace(layout, batch=8, copies=said()))
    # Another name is the same network.
    layout.check_fits(replace(layout, graph=replace(GRAPH, name="copy")))
    other = from_network(perceptron("other", (2, 9, 4)))
    for first, second, message in (
            (layout, replace(layout, graph=other),
             "networks 'embedded' and 'other' do not fit each other: variable "
             "'words.weights' is of shape [10, 5] in the first, missing in the second"),
            (replace(layout, graph=other), layout,
             "variable 'fc1.weights' is of shape [2, 9] in the first, missing in the"),
            (layout, replace(layout, graph=replace(GRAPH, nodes=(replace(GRAPH.nodes[0], macs=1), *GRAPH.nodes[1:]))),
             "networks 'embedded' and 'embedded' do not fit each other: their layers differ; give two of one network")):
        with pytest.raises(UserError) as error:
            first.check_fits(second)
        assert message in str(error.value) and "\n" not in str(error.value)


def test_plans_show_how_copies_are_kept_equal() -> None:
    """By variable in JSON, by layer in the table, in the page's row and in the picture."""
    planned = plan_network(NETWORK, ring(2, preset="ndp-tiny"), planner="data", batch=4)
    served = replace(planned.plan, sharding=replace(planned.plan.sharding, copies=said(
        words_weights=Server((0, 1), 2), out_bias=Local())))
    shown = replace(planned, plan=served)
    assert [row["copies"] for row in plan_report(shown)["layers"]] == [
        {"weights": "server"}, {"weights": "ring"}, {"weights": "ring", "bias": "local"}]
    assert [row.get("pieces") for row in plan_report(shown)["layers"]] == [{"weights": 2}, None, None]
    assert copies_row(planned) == ["copies", "ring", "ring", "ring"]
    assert copies_row(shown) == ["copies", "server x2", "ring", "ring+local"]
    console = Console(width=80, record=True, file=io.StringIO())
    show_plan(console, shown)
    assert "copies  server x2  ring    ring+local" in console.export_text()
    pictures = [np.frombuffer(plan_png(plan), np.uint8).tobytes() for plan in (planned, shown)]
    assert pictures[0] != pictures[1]
