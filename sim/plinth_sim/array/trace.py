"""A simulated step as a trace in Chrome's JSON form, which Perfetto and chrome://tracing open.

Each die is a process with a track an engine; the links are one process with a track each. Where messages share a
link, its track is cut where one starts or ends, and each piece names all of them. Flows without an engine stand on
the links only. Times are in microseconds.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import IO, Any

from plinth_sim.array.machine import Activity, Flow, SimulatedArray
from plinth_sim.array.simulate import SimulatedRun

MICROSECONDS = 1e6


def events(machine: SimulatedArray, activities: Sequence[Activity], result: SimulatedRun) -> Iterator[dict[str, Any]]:
    """The trace's events, tracks first."""
    tracks = {key: number for number, key in enumerate(sorted(result.engines))}
    dies, links = len(machine.dies), range(len(machine.links))
    used = sorted({int(link) for activity in activities if isinstance(activity, Flow) for link in activity.links
                   if not machine.links[link].within})
    for die in sorted({die for die, _ in tracks}):
        yield {"ph": "M", "name": "process_name", "pid": die, "tid": 0, "args": {"name": f"die {die}"}}
    for (die, engine), track in tracks.items():
        yield {"ph": "M", "name": "thread_name", "pid": die, "tid": track, "args": {"name": engine}}
    if used:
        yield {"ph": "M", "name": "process_name", "pid": dies, "tid": 0, "args": {"name": "links"}}
    for link in used:
        yield {"ph": "M", "name": "thread_name", "pid": dies, "tid": link, "args": {"name": machine.links[link].name}}
    on: list[list[tuple[float, float, str]]] = [[] for _ in links]
    for activity, start, end in zip(activities, result.starts.tolist(), result.ends.tolist(), strict=True):
        if activity.die is not None and activity.engine:
            yield _piece(activity.name, activity.die, tracks[activity.die, activity.engine], start, end)
        if isinstance(activity, Flow):
            for link in activity.links.tolist():
                on[link].append((start, end, activity.name))
    for link in used:
        for start, end, name in _pieces(on[link]):
            yield _piece(name, dies, link, start, end)


def _piece(name: str, process: int, track: int, start: float, end: float) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": process, "tid": track, "ts": start * MICROSECONDS,
            "dur": (end - start) * MICROSECONDS}


def _pieces(spans: list[tuple[float, float, str]]) -> Iterator[tuple[float, float, str]]:
    """Spans that may overlap, cut where one starts or ends, with the names of all that are under way."""
    edges = sorted({time for start, end, _ in spans for time in (start, end)})
    waiting = sorted(spans, reverse=True)
    active: list[tuple[float, float, str]] = []
    for low, high in pairwise(edges):
        active = [span for span in active if span[1] > low]
        while waiting and waiting[-1][0] <= low:
            span = waiting.pop()
            if span[1] > low:
                active.append(span)
        if active:
            yield low, high, " + ".join(sorted(name for _, _, name in active))


def write(file: IO[str], machine: SimulatedArray, activities: Sequence[Activity], result: SimulatedRun) -> int:
    """Write the trace, one event a line; returns how many."""
    count = 0
    file.write('{"displayTimeUnit": "ms", "traceEvents": [')
    for event in events(machine, activities, result):
        file.write(",\n" if count else "\n")
        file.write(json.dumps(event))
        count += 1
    file.write("\n]}\n")
    return count
