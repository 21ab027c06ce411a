"""Puts the graphs of every die into one program for the driver, behind the places that they work on."""

from collections.abc import Iterable, Sequence

from plinth.driver.program import DieGraph, Program
from plinth.lower.builder import GraphBuilder, require_memory
from plinth_hw.isa.descriptors import DESCRIPTOR_WORDS, RECORD_WORDS
from plinth_hw.isa.operations import CollectiveOperation, Engine, Traffic
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.update_bodies import ROUTES_SET


def ring_setup(parameters: DieParameters, members: Sequence[int], die: int, group: int,
               builder: GraphBuilder | None = None) -> GraphBuilder:
    """The graph that tells a die its place in a ring of dies; with ``builder``, one that tells of others before."""
    builder = builder or GraphBuilder(parameters)
    builder.add(f"set_group[{group}]", Engine.COLLECTIVE, CollectiveOperation.SET_GROUP,
                group_body(members, die, group))
    return builder


def group_body(members: Sequence[int], die: int, row: int) -> dict[str, int]:
    """The body of a task that gives a row of a die's group table to a ring of dies."""
    index = members.index(die)
    return {"group": row, "members": len(members), "index": index, "next_die": members[(index + 1) % len(members)]}


def route_setup(traffic: Traffic, ports: Sequence[int | None], builder: GraphBuilder,
                after: Iterable[tuple[int, int]] = ()) -> None:
    """Tasks by which a die sends packets of a kind to each die by the port given for it; None is itself. ``after``:
    counters and values that all of them wait for."""
    waits = list(after)
    for first in range(0, len(ports), ROUTES_SET):
        some = [port or 0 for port in ports[first:first + ROUTES_SET]]
        builder.add(f"set_route[{traffic.name.lower()}, {first}]", Engine.COLLECTIVE, CollectiveOperation.SET_ROUTE, {
            "first_die": first, "dies": len(some), "traffic": traffic, "ports": some}, after=waits)


def assemble(setup: Sequence[GraphBuilder], step: Sequence[GraphBuilder], *, memory_words: int,
             gradient_scale: float = 1.0) -> Program:
    """Put the graphs of every die behind its buffers: records, set-up graph (unless there is none), step graph.

    Places have the same addresses on all dies; every task of the step leaves a completion record.

    Raises
    ------
    UserError
        If they do not fit the die's memory.
    """
    builder = step[0]
    parameters = builder.parameters
    record, descriptor = (parameters.words_of(units) for units in (RECORD_WORDS, DESCRIPTOR_WORDS))
    line = max(descriptor, parameters.beat_words)

    def aligned(address: int) -> int:
        return -(-address // line) * line

    # Before tasks are packed, which cannot name places far beyond a die's memory.
    fullest = max(step, key=lambda graph: graph.end)
    require_memory(parameters, fullest.end, memory_words, fullest.sizes)
    setup_tasks = [graph.finish(record=False) for graph in setup]
    step_tasks = [graph.finish(record=True) for graph in step]
    most_setup, most_step = (max(map(len, tasks), default=0) for tasks in (setup_tasks, step_tasks))
    records = aligned(max(graph.end for graph in step))
    first = aligned(records + record * most_step)
    second = aligned(first + descriptor * most_setup)
    end = second + descriptor * most_step
    require_memory(parameters, end, memory_words, fullest.sizes | {"tasks and records": end - fullest.end})
    return Program(
        parameters=parameters,
        setup=[DieGraph("setup", first, tuple(tasks), graph.advances, descriptor)
               for graph, tasks in zip(setup, setup_tasks, strict=True)],
        step=[DieGraph("step", second, tuple(tasks), graph.advances, descriptor)
              for graph, tasks in zip(step, step_tasks, strict=True)],
        buffers=builder.buffers, moving=builder.moving, gradient_scale=gradient_scale, records=records,
        memory_words=end)
