"""A Plan: how each layer of a network is split over an array, and what moves in a training step. Plain data.

A Plan file (YAML or JSON, version 4; :mod:`plinth.plan.plan_file`) names its network, array, batch and communication
model in full and states, beside the splits, everything that follows from them, so that it can be read without this
program; what is read back is compared with what follows, and nothing else is accepted.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from plinth.array.array import ARRAYS, Array, sized
from plinth.array.file import array_to_data
from plinth.errors import UserError, one_line
from plinth.files.documents import dump_yaml
from plinth.network.file import network_to_data
from plinth.network.network import Network
from plinth.partition import exchanges, regions
from plinth.partition.axes import CHANNELS, COPIES, ELEMENTS, SAMPLES, Region
from plinth.partition.blocks import blocks_of
from plinth.partition.cuts import Factors, Levels, Whole, levels_of, parts
from plinth.partition.exchanges import ExchangeDefinition
from plinth.partition.graph import DP, LOSS, Epilogue, Node, PlanGraph
from plinth.partition.groups import ProcessGroups
from plinth.partition.predicted import shares
from plinth.partition.regions import RingMessage
from plinth.partition.stages import stage_split
from plinth.plan.lists_file import lists_to_data, parts_to_data, region_to_data
from plinth.sharding import (
    CHUNK_WORDS,
    Gathered,
    Local,
    ReductionDefinition,
    Ring,
    Server,
    Sharded,
    Sharding,
    Sync,
)
from plinth.step.copies import check_copies, copies_of, refitted
from plinth.update.rule import PLAIN

#: Version of the plan format.
PLAN_VERSION = 4
#: Arrays of up to so many dies are listed die by die in files, larger ones by their regions only.
LISTED_DIES = 16


@dataclass(frozen=True)
class Transfer:
    """One exchange of a Plan and its words in a step."""

    exchange: ExchangeDefinition
    #: Of what goes in codes those that are expected, and between which they lie.
    words: int
    bounds: tuple[int, int]


@dataclass(frozen=True)
class Arrangement:
    """How a Winograd layer lies on dies: F(``outputs``, ``taps``), how many groups of dies split the elements of its
    tiles, and how many clusters its samples."""

    outputs: int
    taps: int
    groups: int
    clusters: int

    @property
    def transform(self) -> str:
        """The transform's numbers as tables show them."""
        return f"{self.outputs},{self.taps}"

    @property
    def arranged(self) -> str:
        """Groups x clusters as tables show them."""
        return f"{self.groups}x{self.clusters}"


@dataclass(frozen=True, kw_only=True)
class Plan(Sharded):
    """A sharding, where it comes from, and what was predicted of it.

    Parameters
    ----------
    sharding : Sharding
        Without an array it has the one of the name ``array``, if there is one of as many levels; its rule goes without
        numbers; copies of weights that it says nothing of are kept equal as suits the array's dies.
    planner, model : str
        Who chose the splits, and the communication model that it went by.
    array : str
        Name of the array.
    predicted_seconds : float or None
        Of a training step, if a prediction was made.
    definition : Network or None
        The network in full, if it is none of the zoo.

    Raises
    ------
    UserError
        As :meth:`~plinth.sharding.Sharding.check`.
    """

    sharding: Sharding
    planner: str
    model: str
    array: str
    predicted_seconds: float | None = None
    definition: Network | None = None

    def __post_init__(self) -> None:
        requested = self.sharding
        if not isinstance(requested, Sharding):
            raise UserError(f"sharding of a plan must be a Sharding, not {one_line(repr(requested), 60)}")
        where = requested.array if requested.array is not None else _named(self.array, requested.factors)
        sharding = replace(requested, array=where, rule=requested.rule.form)
        sharding.check()
        if where is not None:
            check_copies(sharding, where.die_parameters())
            sharding = replace(sharding, copies=copies_of(sharding, where.die_parameters()))
        object.__setattr__(self, "sharding", sharding)

    def resharded(self, **changes: Any) -> "Plan":
        """The plan with other fields of its sharding. If the array changes, so does its name.

        If the rule alone changes, copies are kept equal as before, rings in pieces that suit the rule, and a prediction
        stays. After any other change nothing is predicted, and copies are kept equal as suits the array's dies, unless
        ``copies`` say it.

        Raises
        ------
        UserError
            If splits, lists, batch or copies do not fit the graph and the array.
        """
        seconds = self.predicted_seconds
        if set(changes) != {"rule"}:
            changes, seconds = {"copies": ()} | changes, None
        elif self.hardware is not None:
            changes["copies"] = refitted(replace(self.sharding, **changes), self.hardware.die_parameters())
        sharding, where = replace(self.sharding, **changes), changes.get("array")
        return replace(self, sharding=sharding, predicted_seconds=seconds,
                       array=self.array if where is None else where.name)

    @property
    def network(self) -> str:
        """Name of the network."""
        return self.graph.name

    @property
    def hardware(self) -> Array | None:
        """The array in full, if it is known."""
        return self.sharding.array

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """All exchanges between layers that move something, in the order of the step."""
        counted = ((exchange, self.sharding.exchange_words(exchange)) for exchange in self.sharding.exchanges)
        return tuple(Transfer(exchange, words, self.sharding.word_bounds(exchange))
                     for exchange, words in counted if words)

    @property
    def reductions(self) -> tuple[ReductionDefinition, ...]:
        """All weight reductions, in the order of bprop; of no words where a layer's batch is whole."""
        return self.sharding.reductions

    @cached_property
    def arrangements(self) -> dict[str, Arrangement]:
        """The arrangement of each Winograd layer, by name."""
        return {node.name: Arrangement(node.tiling.outputs, max(node.tiling.kernel), parts(here.ep, self.factors),
                                       self.dies // parts(here.mp + here.op + here.ep, self.factors))
                for node, here in zip(self.graph.nodes, self.layouts, strict=True) if node.tiling is not None}

    def _number(self, layer: str) -> int:
        return next(number for number, node in enumerate(self.graph.nodes) if node.name == layer)

    @property
    def chunk_words(self) -> int:
        """Words in a chunk of its rings: its dies', if they are known."""
        if self.hardware is not None:
            return self.hardware.die_parameters().chunk_words
        return next((sync.chunk for _, sync in self.sharding.copies if isinstance(sync, Ring)), CHUNK_WORDS)

    def ring_messages(self, reduction: ReductionDefinition) -> tuple[RingMessage, ...]:
        """The rings of a reduction, if it goes round any: members, and words of all pieces together."""
        if not isinstance(reduction.sync, Ring):
            return ()
        number = self._number(reduction.layer)
        return tuple(regions.ring_messages(self.graph.nodes[number], self.layouts[number], self.factors,
                                           reduction.sync.groups, reduction.variable))

    @cached_property
    def words(self) -> int:
        """Words that all dies send in a step."""
        return (sum(transfer.words for transfer in self.transfers)
                + sum(reduction.words for reduction in self.reductions))

    @cached_property
    def saved_words(self) -> int:
        """Words that blocks of Winograd layers save in a step: those that all dies would send more if each layer
        scattered and gathered its own tiles."""
        if not any(here.ep for here in self.layouts):
            return 0
        each = exchanges.exchanges(self.graph, self.layouts, self.factors, self.hardware,
                                   blocks_of(self.graph, self.layouts, apart=True))
        return sum(self.sharding.exchange_words(exchange) for exchange in each) - sum(
            transfer.words for transfer in self.transfers)

    @cached_property
    def word_bounds(self) -> tuple[int, int]:
        """Between which words all dies send in a step: those of :attr:`words`, unless data decide."""
        least, most = (sum(transfer.bounds[end] for transfer in self.transfers)
                       + sum(reduction.word_bounds[end] for reduction in self.reductions) for end in (0, 1))
        return least, most

    def pairs(self, transfer: Transfer) -> Iterator[tuple[int, int, int]]:
        """Sender, receiver and words of a transfer, senders ascending."""
        words = self.sharding.words_between(transfer.exchange)
        for sender, receiver in zip(*np.nonzero(words), strict=True):
            yield int(sender), int(receiver), int(words[sender, receiver])

    def to_data(self, folder: Path | None = None) -> dict[str, Any]:
        """The plan as YAML or JSON holds it.

        Parameters
        ----------
        folder : Path or None
            Of the file that is to hold it, to which paths of patterns are made relative; None: paths are absolute.
        """
        listed = self.dies <= LISTED_DIES
        transfers = []
        for transfer in self.transfers:
            exchange = transfer.exchange
            entry: dict[str, Any] = {
                "layer": exchange.layer, "phase": exchange.phase, "kind": exchange.kind, "consumer": exchange.consumer,
                "words": transfer.words, "from": _region(exchange.source), "to": _region(exchange.target),
                "channels": exchange.channels, "positions": exchange.positions, **dict(exchange.extra),
                **({} if exchange.samples is None else {"rows": exchange.samples}),
                **({} if exchange.coded is None else {"coded": {
                    "rounds": exchange.coded.rounds, **({"regions": True} if exchange.coded.regions else {}),
                    "shares": list(shares(exchange.coded, exchange.phase, exchange.kind)),
                    "least": transfer.bounds[0], "most": transfer.bounds[1]}})}
            if listed:
                entry["pairs"] = [list(pair) for pair in self.pairs(transfer)]
            transfers.append(entry)
        reductions = []
        rings: dict[ProcessGroups, int] = {}
        for reduction in self.reductions:
            sync, variable, layout = reduction.sync, reduction.variable, self.layouts[self._number(reduction.layer)]
            entry = {"layer": reduction.layer, **({} if variable is None else {"variable": variable.name}),
                     "words": reduction.words,
                     **dict(zip(("least", "most"), reduction.bounds or (), strict=False)),
                     "over": _levels(reduction.over), **_sync(sync, rings), **self._touched(reduction),
                     "weights": {"input": _levels(reduction.weights[0]), "output": _levels(reduction.weights[1]),
                                 **_further(layout.weights), **({} if isinstance(sync, Server) else
                                                                _lists(layout.weights))}}
            if listed and isinstance(sync, Ring):
                entry["ring_words"] = [message.words for message in self.ring_messages(reduction)]
            reductions.append(entry)
        return {
            "version": PLAN_VERSION, "network": self.network, "fingerprint": fingerprint(self.graph),
            "definition": None if self.definition is None else network_to_data(self.definition, folder),
            "planner": self.planner, "model": self.model, "array": self.array,
            "hardware": None if self.hardware is None else array_to_data(self.hardware), "dies": self.dies,
            "levels": self.levels, "factors": list(self.factors), "batch": self.batch,
            "chunk_words": self.chunk_words, "words": self.words,
            "predicted_seconds": self.predicted_seconds,
            **({} if self.rule == PLAIN else {"update": self.rule.title}),
            **({} if self.sharding.micro_batches == 1 else {"micro_batches": self.sharding.micro_batches}),
            "layers": [{"name": node.name, "kind": node.kind, "splits": list(vector), **self._parts(number)}
                       for number, (node, vector) in enumerate(zip(self.graph.nodes, self.splits, strict=True))
                       if node.kind != LOSS],
            **({"loss": loss} if (loss := self._loss()) else {}),
            "transfers": transfers, "rings": [[list(members) for members in groups.members] for groups in rings],
            "reductions": reductions}

    def _touched(self, reduction: ReductionDefinition) -> dict[str, float]:
        """The share of the rows of a reduction's variable that samples touch, as an entry of a file, if it is said."""
        if reduction.variable is None:
            shares = [dict(self.sharding.touched).get(variable.qualified(reduction.layer))
                      for variable in self.graph.nodes[self._number(reduction.layer)].variables]
        else:
            shares = [dict(self.sharding.touched).get(reduction.variable.qualified(reduction.layer))]
        share = next((share for share in shares if share is not None), None)
        return {} if share is None else {"touched": share}

    def _loss(self) -> dict[str, Any]:
        """The entry of the loss, if its channels are split, or something of it is cut by list."""
        splits = self.splits[-1]
        return {**({"splits": list(splits)} if set(splits) - {DP} else {}), **self._parts(len(self.splits) - 1)}

    def _parts(self, number: int) -> dict[str, Any]:
        """Lists of a node, if it has any, as an entry of a file."""
        node_lists = self.lists[number] if self.lists else None
        return {"parts": lists_to_data(node_lists)} if node_lists else {}

    def to_yaml(self, folder: Path | None = None) -> str:
        """The plan as the text of a YAML file in a folder, as :meth:`to_data` has it."""
        return dump_yaml(self.to_data(folder))


#: Settings of a window, as they are where a layer has none.
_NO_WINDOW = {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0), "ceil": False}


def _epilogue(epilogue: Epilogue) -> dict[str, Any]:
    """What a fingerprint has of a layer in an epilogue; of settings besides windows those that are not 0."""
    settings = {key: getattr(epilogue.layer, key) for key in epilogue.layer.forms()}
    window = {key: settings.pop(key, value) for key, value in _NO_WINDOW.items()}
    ceil = window.pop("ceil")
    return {"kind": epilogue.kind, "size": epilogue.size, **window, "output": epilogue.output, "ceil": ceil,
            "name": epilogue.name, **{key: value for key, value in settings.items() if value}}


def _node(node: Node) -> dict[str, Any]:
    """What a fingerprint has of a node. Keys stay as they are: plans hold a hash of them."""
    sizes = {key: getattr(node, key) for key in (
        "name", "kind", "weights", "bias", "input_channels", "output_channels", "input_elements", "raw_elements",
        "map_elements", "macs", "input_positions", "output_positions")}
    tiling = {} if node.tiling is None else asdict(node.tiling)
    # Of a gather that sends everything nothing is said, as before there were others; nor of shares as measured, nor
    # that regions are not asked for, nor whether a pool is known of, which the layers say.
    tiling = {key: value for key, value in tiling.items() if value or key not in ("rounds", "shares", "regions")}
    tiling.pop("pooled", None)
    return {**sizes, "window": node.window and asdict(node.window), **({"tiling": tiling} if tiling else {}),
            "followers": [_epilogue(epilogue) for epilogue in node.epilogue], "network_inputs": node.network_inputs,
            **({"repeated": node.repeated} if node.repeated else {}),
            **({"pattern": node.pattern.digest} if node.pattern is not None else {})}


def fingerprint(graph: PlanGraph) -> str:
    """Hash of what a plan depends on: the nodes and edges of the graph."""
    nodes = [_node(node) for node in graph.nodes]
    text = json.dumps([nodes, [asdict(edge) for edge in graph.edges]])
    return hashlib.sha256(text.encode()).hexdigest()


def _sync(sync: Sync, rings: dict[ProcessGroups, int]) -> dict[str, Any]:
    """How copies are kept equal, as an entry of a file says it; sets of rings are numbered as they come."""
    if isinstance(sync, Server):
        return {"server": server_to_data(sync)}
    if isinstance(sync, Local | Gathered):
        return {sync.kind: True}
    return {"rings": rings.setdefault(sync.groups, len(rings)), "pieces": sync.pieces,
            **({"elements": True} if sync.elements else {})}


def server_to_data(server: Server) -> dict[str, Any]:
    """Servers as files have them."""
    return {"owners": list(server.owners),
            "pieces": server.pieces if isinstance(server.pieces, int) else parts_to_data(server.pieces),
            **({"interleaved": True} if server.interleaved else {})}


def _levels(cuts: Levels) -> list[int]:
    return [level + 1 for level in cuts]


def _region(region: Region) -> dict[str, Any]:
    stages = [cut for cut in region.cuts(SAMPLES) if isinstance(cut, Whole)]
    levels = levels_of(region.cuts(SAMPLES))[len(stages):]
    return {"batch": _levels(levels), "channels": _levels(levels_of(region.cuts(CHANNELS))), **_further(region),
            **({"stages": [stage_split(cut.digit) for cut in stages]} if stages else {}), **_lists(region)}


def _further(region: Region) -> dict[str, Any]:
    """Cuts of axes that few regions have."""
    return {axis: _levels(levels_of(cuts)) for axis, cuts in region.axes if axis in (ELEMENTS, COPIES)}


def _lists(region: Region) -> dict[str, Any]:
    axis_parts = region_to_data(region)
    return {"parts": axis_parts} if axis_parts else {}


def _named(name: str, factors: Factors) -> Array | None:
    """The array of a name, if it has such levels."""
    try:
        array = ARRAYS.get(name) or sized(name)
    except ValueError:
        return None
    return array if array is not None and array.factors == factors else None
