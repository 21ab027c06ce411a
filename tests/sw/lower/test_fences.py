"""Routes change only where none of their traffic is under way, and form no circle before and after; plans have tiles go
by routes of their own."""

import numpy as np
import pytest
from tests.support.route_phases import DIE, DIES, DOWN, TILES, UP, Phases

from plinth.array.array import Array, ring
from plinth.array.file import array_to_yaml, load_array
from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth.lower.fences import GraphOrder, sends
from plinth.lower.program import ring_setup, route_setup
from plinth.lower.traffic import check_circles, following, phases
from plinth.lower.training import TrainingProgram, lower_training
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.partition.regions import Splits
from plinth.plan.planning import given_plan
from plinth.predict.links import Links
from plinth.simulate.routes import LinkRoutes
from plinth.update.rule import UpdateRule
from plinth_hw.isa.operations import CollectiveOperation, Engine, Traffic, TransferOperation

RING = ring(DIES, preset="ndp-tiny-routes")


def torus(**settings: object) -> Array:
    """2 x 4 dies; packets go along rows first."""
    return Array(**{"name": "crossing", "topology": "torus", "dies": 8, "dimensions": (2, 4),  # type: ignore[arg-type]
                    "preset": "ndp-tiny-routes", **settings})


def columns_first() -> tuple[tuple[int | None, ...], ...]:
    """Ports by which the other dimension goes first."""
    table = torus().route_table
    return tuple(tuple(None if die == other else table[die][die % 4 + 4 * (other // 4)] if die // 4 != other // 4
                       else table[die][other] for other in range(8)) for die in range(8))


def checked(two_phases: Phases, array: Array = RING) -> None:
    check_circles(array, list(zip(two_phases.setup, two_phases.builders, strict=True)))


def test_tiles_before_and_behind_have_their_own_routes() -> None:
    two_phases = Phases(1)
    graphs = list(zip(two_phases.setup, two_phases.builders, strict=True))
    checked(two_phases)
    tile_phases = {key: pairs for key, pairs in phases(graphs).items() if key[0] == DIE.transfer_class}
    routes = {len(sets): following(RING, graphs, sets) for _, sets in tile_phases}
    links = RING.directed()
    for count, port in ((1, UP), (2, DOWN)):
        assert {links[over][1] for over in routes[count].reshape(-1) if over >= 0} == {port}
    assert all(not sets for number, sets in phases(graphs) if number != DIE.transfer_class)


@pytest.mark.parametrize(("without", "message"), [
    ("arrivals", r"^task 'set_route\[tiles, 0\]' of die \d sets routes of tiles, but what task 'tile0\.\d+' of die \d"
                 r" sends to die \d may be under way then; let it wait"),
    ("quiet", r"^task 'set_route\[tiles, 0\]' of die 0 sets routes of tiles, but what task 'tile0\.0' of die 0 "),
    ("set", r"^task 'set_route\[tiles, 0\]' of die \d sets routes of tiles, but what task 'tile\d\.\d+' of die \d ")])
def test_a_fence_that_is_open_is_refused(without: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        checked(Phases(1, without=without))


def test_a_wait_for_some_tiles_is_not_one_for_all() -> None:
    """Of two dies' tiles a counter that has moved by one says nothing; of two of one die's the first has come."""
    def two_tiles(first: int, second: int, value: int) -> list[GraphBuilder]:
        builders = [GraphBuilder(DIE) for _ in range(3)]
        for die in (first, second):
            builders[die].add(f"tile of {die}", Engine.TRANSFER, TransferOperation.COPY, {
                "columns": 1, "rows": 1, "planes": 1, "remote": 1, "destination_die": 2, "arrival_enable": 1,
                "arrival": TILES})
        route_setup(Traffic.TILES, [0, 0, None], builders[2], [(TILES, value)])
        return builders

    for first, second, value, refused in ((0, 1, 2, False), (0, 1, 1, True), (0, 0, 2, False), (0, 0, 1, True)):
        graphs = [[builder] for builder in two_tiles(first, second, value)]
        if refused:
            with pytest.raises(UserError, match=f"what task 'tile of {first}' of die {first} sends to die 2 may be"):
                phases(graphs)
        else:
            phases(graphs)


def test_chunks_have_come_when_the_next_member_has_ended() -> None:
    """It tells, or nothing is known of them."""
    for tells in (False, True):
        builders = [ring_setup(DIE, [0, 1], die, 0) for die in range(2)]
        for builder in builders:
            place = builder.allocate("sums", 1, 64)
            builder.add("sum", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
                "source": place.pointer, "destination": place.pointer, "words": 64, "group": 0,
                "message": 1})
        builders[1].add("tell", Engine.TRANSFER, TransferOperation.COPY, {"columns": 1, "rows": 1, "planes": 1},
                        after=[builders[1].done(Engine.COLLECTIVE)] if tells else [], remote=(0, TILES))
        told = builders[0].advanced(TILES, 1)
        route_setup(Traffic.CHUNKS, [None, 1], builders[0], [told, builders[0].done(Engine.COLLECTIVE)])
        if tells:
            phases([[builder] for builder in builders])
        else:
            with pytest.raises(UserError, match="'sum' of die 0 sends to die 1"):
                phases([[builder] for builder in builders])


def test_routes_that_are_set_form_no_circle() -> None:
    """Chunks go from neighbour to neighbour; tiles that a ring whose ports do not pair is set to pass on wait for each
    other."""
    two_phases = Phases(1)
    turning = Array(name="turning", topology="links", dies=4, preset="ndp-tiny-routes", wiring=(
        *((die, 0, (die + 1) % 4, 2) for die in range(4)), (0, 1, 2, 1), (1, 1, 3, 1)))
    with pytest.raises(UserError, match=r"packets of class 3 would wait for each other for ever: die \d by port 0, "):
        checked(two_phases, turning)
    builders = [GraphBuilder(DIE) for _ in range(4)]
    route_setup(Traffic.TILES, [None, 3, 0, 0], builders[0])
    step = [GraphBuilder(DIE) for _ in range(4)]
    step[0].add("tile", Engine.TRANSFER, TransferOperation.COPY, {
        "columns": 1, "rows": 1, "planes": 1, "remote": 1, "destination_die": 1})
    with pytest.raises(UserError, match="die 0 of array 'turning' cannot set a route to die 1 by port 3: there is no "):
        check_circles(turning, list(zip(builders, step, strict=True)))


def tangled(rng: np.random.Generator, dies: int = 3, tasks: int = 7) -> list[GraphBuilder]:
    """Tasks of two engines that advance counters here, there and by tiles, and wait for whatever."""
    builders = [GraphBuilder(DIE) for _ in range(dies)]
    for _ in range(tasks):
        for die, builder in enumerate(builders):
            other, counter = int((die + rng.integers(1, dies)) % dies), int(TILES + rng.integers(2))
            waits = {int(rng.choice([TILES, TILES + 1])): 1} if rng.random() < 0.4 else {}
            if rng.random() < 0.3:
                ring_setup(DIE, [die], die, 0, builder)
                continue
            builder.add("task", Engine.TRANSFER, TransferOperation.COPY, {"columns": 1, "rows": 1, "planes": 1} | (
                {"remote": 1, "destination_die": other, "arrival_enable": 1, "arrival": counter}
                if rng.random() < 0.5 else {}), after=waits.items(),
                remote=(other, counter) if rng.random() < 0.3 else None)
    # Waits for as much as may come, most of them for less than all.
    comes = GraphOrder(builders, []).advances
    for die, builder in enumerate(builders):
        for _, _, header, _ in builder.pending:
            if header["wait_enable"]:
                most = len(comes.get((die, header["wait_counter"][0]), []))
                header["wait_value"][0] = int(rng.integers(1, max(1, most) + 1))
    return builders


class Run:
    """One of the ways in which graphs may go: events in the order in which they happen, until nothing can."""

    def __init__(self, builders: list[GraphBuilder], rng: np.random.Generator):
        self.happened: dict[tuple[str, int, int, int], int] = {}
        counters: dict[tuple[int, int], int] = {}
        #: What is to happen in turn: starts and ends of an engine's tasks, and what is under way from one to another.
        lines: dict[tuple[object, ...], list[tuple[str, int, int, int, int | None]]] = {}
        headers = {(die, place): (engine, header, body) for die, builder in enumerate(builders)
                   for place, (_, engine, header, body) in enumerate(builder.pending)}
        for (die, place), (engine, header, _) in headers.items():
            lines.setdefault(("start", die, engine), []).append(("start", die, place, die, None))
            lines.setdefault(("end", die, engine), []).append(("end", die, place, die, header["advance"]))

        def may(what: str, die: int, place: int) -> bool:
            header = headers[die, place][1]
            if what == "end":
                return ("start", die, place, die) in self.happened
            return what != "start" or all(
                counters.get((die, header["wait_counter"][number]), 0) >= header["wait_value"][number]
                for number in range(4) if header["wait_enable"] >> number & 1)

        while ready := [key for key, line in lines.items() if line and may(*line[0][:3])]:
            what, die, place, at, counter = lines[ready[rng.integers(len(ready))]].pop(0)
            self.happened[what, die, place, at] = len(self.happened)
            if counter is not None:
                counters[at, counter] = counters.get((at, counter), 0) + 1
            engine, header, body = headers[die, place]
            if what == "start" and body.get("remote"):
                to = body["destination_die"]
                lines.setdefault(("tile", die, to), []).append(("tile", die, place, to, body["arrival"]))
            if what == "end" and header.get("remote_enable"):
                to = header["remote_die"]
                lines.setdefault(("advance", die, engine, to), []).append((
                    "advance", die, place, to, header["remote_counter"]))


def test_what_is_said_to_come_before_does_in_every_run() -> None:
    """Of random graphs, each run in many ways."""
    said = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        builders = tangled(rng)
        order = GraphOrder(builders, [])
        runs = [Run(builders, rng).happened for _ in range(25)]
        for event, behind in list(order.after.items()):
            for other in behind:
                for happened in runs:
                    if other in happened:
                        assert happened.get(event, len(happened)) < happened[other]
                        said += event[0] in ("tile", "advance")
    assert said > 1000


def test_chunks_go_to_the_next_member_alone() -> None:
    """Not to the die whose counter the task advances."""
    builders = [GraphBuilder(DIE) for _ in range(3)]
    for die, builder in enumerate(builders):
        ring_setup(DIE, range(3), die, 0, builder)
        builder.add("sum", Engine.COLLECTIVE, CollectiveOperation.ALL_REDUCE, {
            "group": 0, "message": 0, "source": builder.allocate("sum", 3, 1).pointer, "words": 3},
            remote=(2, TILES) if die == 0 else None)
    order = GraphOrder(builders, sends(builders, [{} for _ in builders]))
    place = len(builders[0].pending) - 1
    behind = order.reached(("start", 0, place, 0))
    assert {event for event in behind if event[0] in ("chunks", "advance")} == {
        ("chunks", 0, place, 1), ("advance", 0, place, 2)}


def lowered(array: Array) -> TrainingProgram:
    graph = from_network(NETWORKS["digits-mlp"])
    vectors: Splits = tuple(("mp", "dp", "mp") if node.weighted else ("dp",) * 3 for node in graph.nodes)
    return lower_training(NETWORKS["digits-mlp"], given_plan(graph, array, vectors, 16), array.die_parameters(),
                          rule=UpdateRule(), steps=1, memory_words=1 << 20)


def test_plans_set_routes_of_tiles() -> None:
    array = torus(tile_routes=columns_first())
    program, plain = lowered(array), lowered(torus())
    for die, (graph, other) in enumerate(zip(program.setup, plain.setup, strict=True)):
        (task,) = graph.tasks[len(other.tasks):]
        words = np.array(task.words[10:], dtype="<u4")
        assert task.name == "set_route[tiles, 0]" and words[0] == 8 << 16 | Traffic.TILES.value << 24
        assert words[1:6].tobytes()[:8] == bytes(port or 0 for port in columns_first()[die])
    assert [graph.tasks for graph in program.step] == [graph.tasks for graph in plain.step]


def test_planner_and_simulator_know_the_routes_of_tiles() -> None:
    """A word from die 0 to die 5, a row and a column on: chunks pass by die 1, tiles by die 4."""
    array, words = torus(tile_routes=columns_first()), np.zeros((8, 8))
    words[0, 5] = 1
    groups = np.where(words.any(axis=0) | words.any(axis=1), 0, -1)
    routes, links = LinkRoutes(array), array.directed()
    for tiles, port in ((True, 2), (False, 0)):
        (group,) = routes.loads(words, groups, tiles=tiles)
        assert {links[link][1] for link in group.links if links[link][0] == 0} == {port}
    ways = {"tile": Links(array)._tile_routes, "chunk": Links(array)._routes}
    for kind, port in (("tile", 2), ("chunk", 0)):
        assert {links[link][1] for link in ways[kind][5] if link < len(links) and links[link][0] == 0} == {
            port}


def test_files_of_arrays_have_routes_of_tiles(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "own.yaml"
    array = torus(tile_routes=columns_first())
    path.write_text(array_to_yaml(array))
    assert load_array(str(path)) == array
    path.write_text(array_to_yaml(array).replace("ndp-tiny-routes", "ndp-tiny"))
    with pytest.raises(UserError, match=r"dies of preset 'ndp-tiny' have the same routes for tiles as for all else; "
                                        "leave out tile_routes, or choose one of ndp-tiny-routes, ndp-demo-routes"):
        load_array(str(path))
    one_way = tuple(tuple(None if die == other else 0 for other in range(4)) for die in range(4))
    cross = Array(name="own", topology="links", dies=4, preset="ndp-tiny-routes", wiring=(
        *((die, 0, (die + 1) % 4, 2) for die in range(4)), (0, 1, 2, 1), (1, 1, 3, 1)), tile_routes=one_way)
    path.write_text(array_to_yaml(cross))
    with pytest.raises(UserError, match=r"own\.yaml: tile_routes form a circle, .* for ever: die \d by port 0"):
        load_array(str(path))
