"""The proof that routes of a plan change only where none of their traffic is under way.

A die's router waits until it holds none of the traffic whose routes a SET_ROUTE task changes; that the rest of the
network holds none is the plan's to order (docs/network.md). So of each task that sends such traffic, on any die, it
must follow from the counters that all it sends has arrived before any die sets its routes, or that it starts after all
have: task by task of those that set.

What follows is what must have happened whatever else has: starts and ends of an engine's tasks are in program order; a
task starts after whatever advance must be among those that it waits for; a tile has arrived, or an advance, when its
counter moves; chunks have when the next member of the ring has ended the same message. Graphs of all dies that run at
the same time are looked at together, and those before and behind are apart: the host awaits them.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from plinth.errors import UserError
from plinth.lower.builder import GraphBuilder
from plinth_hw.isa.descriptors import WAITS
from plinth_hw.isa.operations import CollectiveOperation, Engine, Traffic, TransferOperation


class Send(NamedTuple):
    """Packets of a task: the task's place on its die, their class, and where they go."""

    die: int
    place: int
    traffic_class: int
    to: int


class RouteSetting(NamedTuple):
    """A task that sets routes: its place on its die, of which kind, and destinations with their ports."""

    die: int
    place: int
    traffic: Traffic
    ports: tuple[tuple[int, int], ...]


#: Something that happens: what, on which die, of which task, and of arrivals at which die.
Event = tuple[str, int, int, int]


def settings(graphs: Sequence[GraphBuilder]) -> list[RouteSetting]:
    """The tasks of dies' graphs that set routes."""
    return [RouteSetting(die, place, Traffic(body["traffic"]), tuple(
                (body["first_die"] + number, port) for number, port in enumerate(body["ports"][:body["dies"]])))
            for die, graph in enumerate(graphs) for place, (_, engine, header, body) in enumerate(graph.pending)
            if engine is Engine.COLLECTIVE and header["operation"] == CollectiveOperation.SET_ROUTE.value]


def sends(graphs: Sequence[GraphBuilder], nexts: Sequence[dict[int, int]]) -> list[Send]:
    """List all packets that tasks of all dies' graphs send to other dies; ``nexts`` as
    :meth:`~plinth.lower.builder.GraphBuilder.sends`, for each die."""
    return [Send(die, *sent) for die, graph in enumerate(graphs) for sent in graph.sends(nexts[die])]


class GraphOrder:
    """What comes before what in graphs of all dies that run at the same time."""

    def __init__(self, graphs: Sequence[GraphBuilder], sent: Sequence[Send]):
        self.graphs = graphs
        self.after: dict[Event, list[Event]] = defaultdict(list)
        self.before: dict[Event, list[Event]] = defaultdict(list)
        #: What advances a counter of a die, each with what it is in order with.
        self.advances: dict[tuple[int, int], list[tuple[Event, Hashable]]] = defaultdict(list)
        for die, graph in enumerate(graphs):
            self._tasks(die, graph)
        self._chunks(sent)
        waits = [(("start", die, place, die), header["wait_counter"][number], header["wait_value"][number])
                 for die, graph in enumerate(graphs) for place, (_, _, header, _) in enumerate(graph.pending)
                 for number in range(WAITS) if header["wait_enable"] >> number & 1]
        # What follows from one wait may leave less for another to be met by.
        while sum(self._wait(*wait) for wait in waits):
            pass

    def _edge(self, earlier: Event, later: Event) -> bool:
        """``earlier`` comes before ``later``; whether that is new."""
        if later in self.after[earlier]:
            return False
        self.after[earlier].append(later)
        self.before[later].append(earlier)
        return True

    def _tasks(self, die: int, graph: GraphBuilder) -> None:
        last: dict[Engine, int] = {}
        for place, (_, engine, header, body) in enumerate(graph.pending):
            start, end = ("start", die, place, die), ("end", die, place, die)
            self._edge(start, end)
            if engine in last:
                self._edge(("start", die, last[engine], die), start)
                self._edge(("end", die, last[engine], die), end)
            last[engine] = place
            if header.get("advance_enable"):
                self.advances[die, header["advance"]].append((end, ("end", engine)))
            if header.get("remote_enable"):
                there = header["remote_die"]
                self._edge(end, ("advance", die, place, there))
                self.advances[there, header["remote_counter"]].append((
                    ("advance", die, place, there), ("advance", die, engine)))
            if engine is Engine.TRANSFER and body.get("arrival_enable"):
                for there in tile_dies(header, body, die):
                    arrival = ("tile", die, place, there)
                    self._edge(start, arrival)
                    self.advances[there, body["arrival"]].append((arrival, ("tile", die)))

    def _chunks(self, sent: Iterable[Send]) -> None:
        """Of each message, the end of the next member's part."""
        chunks: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        numbers: dict[tuple[int, int], tuple[int, int, int]] = {}
        for die, graph in enumerate(self.graphs):
            for place, (_, engine, header, body) in enumerate(graph.pending):
                if engine is Engine.COLLECTIVE and header["operation"] < CollectiveOperation.SET_GROUP.value:
                    group, message = body["group"], body["message"]
                    key = die, group, message
                    numbers[die, place] = group, message, len(chunks[key])
                    chunks[key].append(place)
        for send in sent:
            if (send.die, send.place) in numbers and send.traffic_class:
                group, message, number = numbers[send.die, send.place]
                if number < len(places := chunks.get((send.to, group, message), [])):
                    there = "chunks", send.die, send.place, send.to
                    self._edge(("start", send.die, send.place, send.die), there)
                    self._edge(there, ("end", send.to, places[number], send.to))

    def _wait(self, start: Event, counter: int, value: int) -> bool:
        """A task starts after each advance without which its counter could not be as far: by those that do not come
        after its start, nor behind that advance in an order of their own. Whether anything new follows."""
        late = self.reached(start)
        some = [advance for advance in self.advances.get((start[1], counter), []) if advance[0] not in late]
        behind, new = Counter(order for _, order in some), False
        for event, order in some:
            if len(some) - behind[order] < value:
                new |= self._edge(event, start)
            behind[order] -= 1
        return new

    def arrival(self, send: Send, kind: Traffic) -> Event:
        """The event that what a task has sent to a die has arrived there."""
        return {Traffic.CONTROL: "advance", Traffic.CHUNKS: "chunks", Traffic.TILES: "tile"}[kind], *send[:2], send.to

    def reached(self, event: Event, back: bool = False) -> set[Event]:
        """The events that follow from an event or, with ``back``, that it follows from."""
        edges, events, fresh = self.before if back else self.after, {event}, [event]
        while fresh:
            for other in edges.get(fresh.pop(), ()):
                if other not in events:
                    events.add(other)
                    fresh.append(other)
        return events


def tile_dies(header: Mapping[str, Any], body: Mapping[str, Any], die: int) -> list[int]:
    """The dies at which a transfer's tiles advance a counter."""
    if not body.get("remote"):
        return [die]
    members = body.get("members", 0) if header["operation"] >= TransferOperation.TRANSFORM.value else 0
    return [body["destination_die"] + number * body.get("member_step", 0) for number in range(max(1, members))]


def fenced(graphs: Sequence[GraphBuilder], sent: Sequence[Send], kind_of: Mapping[int, Traffic]
           ) -> dict[Send, frozenset[RouteSetting]]:
    """The routes that are set before each thing that is sent, of its own kind of traffic.

    Parameters
    ----------
    graphs : sequence of GraphBuilder
        Of all dies, at the same time.
    sent : sequence of Send
        What they send.
    kind_of : dict of int to Traffic
        By class.

    Raises
    ------
    UserError
        If something may be under way while its routes are set.
    """
    if not (sets := settings(graphs)):
        return dict.fromkeys(sent, frozenset[RouteSetting]())
    order = GraphOrder(graphs, sent)
    before: dict[Send, list[RouteSetting]] = {send: [] for send in sent}
    for setting in sets:
        some = [send for send in sent if kind_of[send.traffic_class] is setting.traffic]
        here = setting.die, setting.place, setting.die
        past, future = order.reached(("start", *here), back=True), order.reached(("end", *here))
        for send in some:
            if ("start", send.die, send.place, send.die) in future:
                before[send].append(setting)
            elif order.arrival(send, setting.traffic) not in past:
                setter, sender = (graphs[task.die].pending[task.place][0] for task in (setting, send))
                raise UserError(f"task {setter!r} of die {setting.die} sets routes of {setting.traffic.name.lower()}, "
                                f"but what task {sender!r} of die {send.die} sends to die {send.to} may be under way "
                                "then; let it wait until that has arrived, or that for it, by counters")
    return {send: frozenset(some) for send, some in before.items()}
