"""Pipeline stages: layers of dies of their own, one group of dies behind the other.

A level of an array is either of stages or of none: there each node has the digit of its stage, written "pp0", "pp1" and
so on. Its stage as a number is read from its digits at all such levels, the highest first. Stages ascend along the
network, so that maps go from a stage to later ones and errors back.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from plinth.errors import UserError
from plinth.partition.cuts import Factors, Levels, Whole, levels_of, parts
from plinth.partition.graph import PP, PlanGraph

#: How a stage is written.
STAGE_PATTERN = f"{PP}(0|[1-9][0-9]{{0,3}})"


def stage_split(digit: int) -> str:
    """The split of a node whose stage has a digit."""
    return f"{PP}{digit}"


@lru_cache(maxsize=1 << 12)
def stage_digit(split: str) -> int | None:
    """The digit that a split says; None: it is of no stage."""
    match = re.fullmatch(STAGE_PATTERN, split)
    return int(match[1]) if match else None


@lru_cache(maxsize=1 << 14)
def stage_cuts(vector: tuple[str, ...]) -> tuple[Whole, ...]:
    """How a node's stage cuts each of its axes: all of it to the dies of one digit at each level of stages."""
    return tuple(Whole(level, digit) for level, split in enumerate(vector) if (digit := stage_digit(split)) is not None)


def stage_levels(vector: tuple[str, ...]) -> Levels:
    """Levels of stages."""
    return levels_of(stage_cuts(vector))


def stage_of(vector: tuple[str, ...], factors: Factors) -> int:
    """The number of a node's stage, from 0; 0 where there are no stages."""
    number = 0
    for cut in stage_cuts(vector):
        number = number * factors[cut.level] + cut.digit
    return number


def stage_count(vector: tuple[str, ...], factors: Factors) -> int:
    """Stages that an array has dies for, by the levels of one of its nodes."""
    return parts(stage_cuts(vector), factors)


def check_stages(graph: PlanGraph, splits: tuple[tuple[str, ...], ...], factors: Factors, lists: Sequence[object] = (),
                 micro_batches: int = 1) -> None:
    """Refuse stages that an array cannot hold, or that do not ascend, and lists beside stages or micro-batches.

    Raises
    ------
    UserError
        If a digit is beyond its level, nodes disagree about which levels are of stages, a stage has no layer, a layer
        reads one of a later stage, or has parts by list.
    """
    levels = stage_levels(splits[0])
    for node, node_lists in zip(graph.nodes, lists, strict=False):
        if node_lists is not None and (levels or micro_batches > 1):
            raise UserError(f"layer {node.name!r} has parts by list, or other owners, which no plan with pipeline "
                            "stages or micro-batches has; leave the lists out, or plan without these")
    for node, vector in zip(graph.nodes, splits, strict=True):
        for cut in stage_cuts(vector):
            if cut.digit >= factors[cut.level]:
                raise UserError(f"layer {node.name!r} is of stage {stage_split(cut.digit)!r} at level {cut.level + 1}, "
                                f"where the array has {factors[cut.level]} groups of dies: {stage_split(0)!r} to "
                                f"{stage_split(factors[cut.level] - 1)!r}")
        if stage_levels(vector) != levels:
            here, there = ([level + 1 for level in which] for which in (stage_levels(vector), levels))
            raise UserError(f"layer {node.name!r} has stages at levels {here}, but {graph.nodes[0].name!r} at {there}; "
                            "all layers have them at the same ones")
        if levels and node.pattern is not None:
            raise UserError(f"sparse layer {node.name!r} has its rows by list, and is of no pipeline stage; choose "
                            "another planner than one of stages")
    for edge in graph.edges:
        producer, consumer = (stage_of(splits[number], factors) for number in (edge.producer, edge.consumer))
        if producer > consumer:
            raise UserError(f"layer {graph.nodes[edge.consumer].name!r} of stage {consumer} reads "
                            f"{graph.nodes[edge.producer].name!r} of stage {producer}; stages ascend along the network")
    missing = set(range(stage_count(splits[0], factors))) - {stage_of(vector, factors) for vector in splits}
    if missing:
        raise UserError(f"stage {min(missing)} has no layer, so that its dies would have nothing to do; use an array "
                        "of fewer dies, or fewer stages")
