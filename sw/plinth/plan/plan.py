"""A Plan: how each layer of a network is split over an array, and what moves in a training step. Plain data.

A Plan file (YAML or JSON, version 2) states, beside the splits, everything that follows from them, so that it can be
read without this program; what is read back is compared with what follows, and nothing else is accepted.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from plinth.errors import UserError
from plinth.model.files import check_mapping, check_version, dump_yaml, nearest, read_yaml
from plinth.model.layers import NAME_PATTERN, described, is_integer
from plinth.output import json_text, write_whole
from plinth.partition import regions
from plinth.partition.cuts import Factors, Levels, bounds, halves
from plinth.partition.graph import LOSS, SPLITS, PlanGraph
from plinth.partition.regions import MAXIMUM_LEVELS, Exchange, Layout, Region, Ring, Splits

#: Version of the plan format.
PLAN_VERSION = 2
#: Most dies of a plan: a die number has 10 bits.
MAXIMUM_DIES = 1 << MAXIMUM_LEVELS
#: Largest batch.
MAXIMUM_BATCH = 1 << 20
#: Arrays of up to so many dies are listed die by die in files, larger ones by their regions only.
LISTED_DIES = 16
#: Largest plan file that is read, in bytes.
MAXIMUM_FILE_BYTES = 1 << 24
#: Words in a chunk of a reduction if nothing else is said.
CHUNK_WORDS = 64


@dataclass(frozen=True)
class Transfer:
    """One exchange of a Plan and its words in a step."""

    exchange: Exchange
    words: int


@dataclass(frozen=True)
class Reduction:
    """The gradient of one layer, weights then bias, summed over rings of dies that differ in the levels ``over``.

    Chunk c of ``chunk_words`` words (the last may be short) belongs to member c mod N of the ring and its sum starts
    at the member after the owner.
    """

    layer: str
    over: Levels
    #: Levels at which the weights' input and output channels are cut.
    weights: tuple[Levels, Levels]
    #: Words that all members of all rings send together.
    words: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A network split over the dies of an array.

    Raises
    ------
    UserError
        If a split does not fit its layer, or a size is out of range.
    """

    graph: PlanGraph
    planner: str
    #: The communication model that the planner went by.
    model: str
    array: str
    batch: int
    chunk_words: int
    #: For each node of the graph, for each level.
    splits: Splits
    #: Of the array; left out: every level halves.
    factors: Factors = ()
    #: Predicted time of a training step, if a prediction was made.
    predicted_seconds: float | None = None

    def __post_init__(self) -> None:
        levels = regions.check_splits(self.graph, self.splits)
        object.__setattr__(self, "factors", self.factors or halves(levels))
        if len(self.factors) != levels or not all(is_integer(factor, 2, MAXIMUM_DIES) for factor in self.factors) or (
                self.dies > MAXIMUM_DIES):
            raise UserError(f"an array of {levels} levels needs as many factors from 2 on, of at most {MAXIMUM_DIES} "
                            f"dies together, not {described(list(self.factors))}")
        if not is_integer(self.batch, 1, MAXIMUM_BATCH):
            raise UserError(f"a batch must be an integer from 1 to {MAXIMUM_BATCH}, not {described(self.batch)}")

    @property
    def network(self) -> str:
        """Name of the network."""
        return self.graph.name

    @property
    def levels(self) -> int:
        """Levels of the array."""
        return len(self.splits[0])

    @property
    def dies(self) -> int:
        """Dies of the array."""
        return prod(self.factors)

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """Regions of each node."""
        return regions.layouts(self.graph, self.splits)

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """All exchanges between layers that move something, in the order of the step."""
        found = ((one, regions.exchange_words(one, self.batch, self.factors))
                 for one in regions.exchanges(self.graph, self.layouts))
        return tuple(Transfer(one, words) for one, words in found if words)

    @cached_property
    def reductions(self) -> tuple[Reduction, ...]:
        """All weight reductions, in the order of bprop; of no words where a layer's batch is whole."""
        return tuple(Reduction(node.name, here.dp, (here.mp, here.op), regions.ring_words(node, here, self.factors))
                     for node, here in reversed(list(zip(self.graph.nodes, self.layouts, strict=True)))
                     if node.weighted)

    def rings(self, reduction: Reduction) -> tuple[Ring, ...]:
        """The rings of a reduction: members and words of the message."""
        number = next(number for number, node in enumerate(self.graph.nodes) if node.name == reduction.layer)
        return tuple(regions.node_rings(self.graph.nodes[number], self.layouts[number], self.factors))

    @cached_property
    def words(self) -> int:
        """Words that all dies send in a step."""
        return sum(one.words for one in self.transfers) + sum(one.words for one in self.reductions)

    @cached_property
    def memory_bytes(self) -> int:
        """Bytes that the fullest die needs: weights and their gradients; inputs, sums and maps, and the errors of
        each."""
        words = np.zeros(self.dies, dtype=np.int64)
        for node, here in zip(self.graph.nodes, self.layouts, strict=True):
            if node.weighted:
                words += 2 * sum(regions.weight_words(node, here, self.factors))
            read = (Region(here.input.batch, ()), 1) if node.gathers else (here.input, node.input_channels)
            for region, channels, elements in ((*read, node.input_elements),
                                               (here.output, node.output_channels, node.raw_elements)):
                (low, high), (first, last) = (bounds(self.batch, region.batch, self.factors),
                                              bounds(channels, region.channels, self.factors))
                words += 2 * (high - low) * (last - first) * (elements // channels)
        return 4 * int(words.max())

    def pairs(self, transfer: Transfer) -> Iterator[tuple[int, int, int]]:
        """Sender, receiver and words of a transfer, senders ascending."""
        words = regions.words(transfer.exchange, self.batch, self.factors)
        for sender, receiver in zip(*np.nonzero(words), strict=True):
            yield int(sender), int(receiver), int(words[sender, receiver])

    def to_data(self) -> dict[str, Any]:
        """The plan as YAML or JSON holds it."""
        listed = self.dies <= LISTED_DIES
        transfers = []
        for one in self.transfers:
            exchange = one.exchange
            entry: dict[str, Any] = {
                "layer": exchange.layer, "phase": exchange.phase, "kind": exchange.kind, "consumer": exchange.consumer,
                "words": one.words, "from": _region(exchange.source), "to": _region(exchange.target),
                "channels": exchange.channels, "positions": exchange.positions}
            if listed:
                entry["pairs"] = [list(pair) for pair in self.pairs(one)]
            transfers.append(entry)
        reductions = []
        for reduction in self.reductions:
            entry = {"layer": reduction.layer, "words": reduction.words, "over": _levels(reduction.over),
                     "weights": {"input": _levels(reduction.weights[0]), "output": _levels(reduction.weights[1])}}
            if listed:
                entry["rings"] = [{"members": list(ring.members), "words": ring.words}
                                  for ring in self.rings(reduction)]
            reductions.append(entry)
        return {
            "version": PLAN_VERSION, "network": self.network, "fingerprint": fingerprint(self.graph),
            "planner": self.planner, "model": self.model, "array": self.array, "dies": self.dies,
            "levels": self.levels, "batch": self.batch, "chunk_words": self.chunk_words, "words": self.words,
            "predicted_seconds": self.predicted_seconds,
            "layers": [{"name": node.name, "kind": node.kind, "splits": list(vector)}
                       for node, vector in zip(self.graph.nodes, self.splits, strict=True) if node.kind != LOSS],
            "transfers": transfers, "reductions": reductions}

    def to_yaml(self) -> str:
        """The plan as the text of a YAML file."""
        return dump_yaml(self.to_data())


def fingerprint(graph: PlanGraph) -> str:
    """Hash of what a plan depends on: the nodes and edges of the graph."""
    text = json.dumps([[asdict(node) for node in graph.nodes], [asdict(edge) for edge in graph.edges]])
    return hashlib.sha256(text.encode()).hexdigest()


def _levels(cuts: Levels) -> list[int]:
    return [level + 1 for level in cuts]


def _region(region: Region) -> dict[str, list[int]]:
    return {"batch": _levels(region.batch), "channels": _levels(region.channels)}


#: Remedy in messages about files.
_AGAIN = "make the plan again with `plinth plan`"

_KEYS = ("version", "network", "fingerprint", "planner", "model", "array", "dies", "levels", "batch", "chunk_words",
         "words", "predicted_seconds", "layers", "transfers", "reductions")


def plan_from_data(data: Any, graph: PlanGraph, where: str) -> Plan:
    """The plan that a file holds, for the network of ``graph``.

    Raises
    ------
    UserError
        If it is of another version or another network, malformed, or states what does not follow from its splits.
    """
    check_version(data, where, "a plan", PLAN_VERSION, _AGAIN)
    check_mapping(data, where, "a plan", required=_KEYS)
    if data["network"] != graph.name:
        raise UserError(f"{where}: the plan is for network {described(data['network'])}, not {graph.name!r}; {_AGAIN}")
    if data["fingerprint"] != fingerprint(graph):
        raise UserError(f"{where}: the plan is for another network called {graph.name!r}, with other layers or shapes; "
                        f"{_AGAIN}")
    for key in ("planner", "model", "array"):
        if not isinstance(data[key], str) or not re.fullmatch(NAME_PATTERN, data[key]):
            raise UserError(f"{where}: {key} must be a name, not {described(data[key])}; {_AGAIN}")
    for key, low, high in (("levels", 0, MAXIMUM_LEVELS), ("batch", 1, MAXIMUM_BATCH), ("chunk_words", 1, 1 << 16)):
        if not is_integer(data[key], low, high):
            raise UserError(f"{where}: {key} must be an integer from {low} to {high}, not {described(data[key])}; "
                            f"{_AGAIN}")
    seconds = data["predicted_seconds"]
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not
                                0 <= seconds < float("inf")):
        raise UserError(f"{where}: predicted_seconds must be a number of seconds, not {described(seconds)}; {_AGAIN}")
    plan = Plan(graph=graph, planner=data["planner"], model=data["model"], array=data["array"], batch=data["batch"],
                chunk_words=data["chunk_words"], predicted_seconds=seconds,
                splits=_splits(data["layers"], graph, data["levels"], where))
    difference = _difference(data, plan.to_data(), "")
    if difference:
        raise UserError(f"{where}: {difference} follows from the splits; {_AGAIN}")
    return plan


def _splits(layers: Any, graph: PlanGraph, levels: int, where: str) -> Splits:
    """The splits of each node."""
    nodes = [node for node in graph.nodes if node.kind != LOSS]
    if not isinstance(layers, list) or len(layers) != len(nodes):
        raise UserError(f"{where}: layers must be a list of the {len(nodes)} layers that are planned, not "
                        f"{len(layers) if isinstance(layers, list) else described(layers)}; {_AGAIN}")
    found = []
    for node, entry in zip(nodes, layers, strict=True):
        place = f"{where}: layer {node.name!r}"
        check_mapping(entry, place, "a layer's entry", required=("name", "kind", "splits"))
        if entry["name"] != node.name:
            raise UserError(f"{place}: the plan has {described(entry['name'])} in its place; {_AGAIN}")
        vector = entry["splits"]
        if not isinstance(vector, list) or len(vector) != levels:
            raise UserError(f"{place}: splits must be a list of {levels}, one a level, not "
                            f"{len(vector) if isinstance(vector, list) else described(vector)}; {_AGAIN}")
        for split in vector:
            if split not in SPLITS:
                raise UserError(f"{place}: unknown split {described(split)}; {nearest(str(split)[:40], SPLITS)}")
        found.append(tuple(vector))
    return (*found, (SPLITS[0],) * levels)


def _difference(found: Any, expected: Any, place: str) -> str:
    """Where a file differs from what follows from its splits; empty if nowhere."""
    if isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        pairs = [(f"{place}.{key}" if place else key, found[key], expected[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        pairs = [(f"{place}[{number}]", *both) for number, both in enumerate(zip(found, expected, strict=True))]
    elif isinstance(expected, list) and isinstance(found, list):
        return f"{place} has {len(found)} entries, but {len(expected)}"
    elif isinstance(expected, (dict, list)) or type(found) is not type(expected) or found != expected:
        wanted = f"a {type(expected).__name__}" if isinstance(expected, (dict, list)) else described(expected)
        return f"{place} is {described(found)}, but {wanted}"
    else:
        return ""
    return next((text for text in (_difference(one, two, inner) for inner, one, two in pairs) if text), "")


def load_plan(path: Path, graph: PlanGraph) -> Plan:
    """The plan in a YAML or JSON file, for the network of ``graph``; the file is untrusted.

    Raises
    ------
    UserError
        As :func:`plan_from_data`, and if the file cannot be read, is too large, or not plain YAML.
    """
    return plan_from_data(read_yaml(path, MAXIMUM_FILE_BYTES), graph, str(path))


def save_plan(path: Path, plan: Plan) -> None:
    """Write a plan, as JSON if the name ends in .json, else as YAML; readers see the old file or the whole new one.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    text = json_text(plan.to_data()) + "\n" if path.suffix == ".json" else plan.to_yaml()
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))


def plan_schema() -> dict[str, Any]:
    """The form of plan files as JSON Schema."""
    count = {"type": "integer", "minimum": 0}
    name = {"type": "string"}
    levels = {"description": "levels, 1 the highest, in the order in which the range is halved", "type": "array",
              "items": {"type": "integer", "minimum": 1, "maximum": MAXIMUM_LEVELS}}

    def mapping(what: str, properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
        return {"description": what, "type": "object", "additionalProperties": False, "properties": properties,
                "required": [key for key in properties if key not in optional]}

    def listed(what: str, items: dict[str, Any]) -> dict[str, Any]:
        return {"description": what, "type": "array", "items": items}

    region = mapping("which part of batch and channels a die has; lower halves are one larger if a length is odd",
                     {"batch": levels, "channels": levels})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Plan",
        **mapping("How a network is split over an array, and what moves in a training step", {
            "version": {"const": PLAN_VERSION}, "network": name,
            "fingerprint": {"description": "SHA-256 of the planned graph", "type": "string"},
            "planner": name, "model": name, "array": name,
            "dies": {"description": "2 to the power of levels", "type": "integer", "minimum": 1,
                     "maximum": MAXIMUM_DIES},
            "levels": {"type": "integer", "minimum": 0, "maximum": MAXIMUM_LEVELS},
            "batch": {"type": "integer", "minimum": 1, "maximum": MAXIMUM_BATCH},
            "chunk_words": {"description": "words in a chunk of a reduction", "type": "integer", "minimum": 1},
            "words": {**count, "description": "words that all dies send in a step"},
            "predicted_seconds": {"type": ["number", "null"], "minimum": 0},
            "layers": listed("splits, from level 1 on; level h splits on bit h of a die's number, from the highest",
                             mapping("one layer or junction", {
                                 "name": name, "kind": name,
                                 "splits": {"type": "array", "items": {"enum": list(SPLITS)}}})),
            "transfers": listed("transfers between layers, in the order of the step", mapping(
                "every die sends what of its `from` lies in another die's `to`, at each of `positions`", {
                    "layer": name, "phase": {"enum": ["fprop", "bprop"]},
                    "kind": {"description": "reduce: added at the receiver in ascending die order",
                             "enum": ["reduce", "copy"]},
                    "consumer": {"type": ["string", "null"]}, "words": count, "from": region, "to": region,
                    "channels": count, "positions": count,
                    "pairs": listed(f"[sender, receiver, words]; only up to {LISTED_DIES} dies",
                                    {"type": "array", "items": count, "minItems": 3, "maxItems": 3})},
                optional=("pairs",))),
            "reductions": listed("weight reductions, in the order of bprop", mapping(
                "rings of the dies that differ in the bits of the levels `over`", {
                    "layer": name, "words": {**count, "description": "words that all members send"}, "over": levels,
                    "weights": mapping("how the weights are halved", {"input": levels, "output": levels}),
                    "rings": listed(f"members in ring order, and words of the message; only up to {LISTED_DIES} dies",
                                    mapping("one ring", {"members": {"type": "array", "items": count},
                                                         "words": count}))},
                optional=("rings",)))}),
    }
