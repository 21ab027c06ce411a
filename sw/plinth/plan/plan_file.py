"""Plans in files: read as untrusted, compared with what follows from their splits, and with what they are used with."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from plinth.array.array import ARRAYS, Array, sized
from plinth.array.file import array_from_data, array_to_data
from plinth.errors import UserError, about, quoted
from plinth.files.documents import check_mapping, check_version, nearest, read_yaml
from plinth.files.forms import NAME_PATTERN, described, is_integer, kind_of
from plinth.limits import MAXIMUM_BATCH, MAXIMUM_DIES
from plinth.names import MODEL_NAMES, PLANNER_NAMES
from plinth.network.file import holds_plan, network_from_data
from plinth.network.network import Network
from plinth.network.zoo import NETWORKS
from plinth.output import json_text, write_whole
from plinth.partition.graph import DP, LOSS, MP, SPLITS, PlanGraph, from_network
from plinth.partition.groups import RING, ProcessGroups, no_partition
from plinth.partition.lists import AXES, check_lists
from plinth.partition.regions import MAXIMUM_LEVELS, Partition, Splits
from plinth.partition.rounds import meets_itself
from plinth.partition.stages import STAGE_PATTERN, check_stages, stage_digit
from plinth.plan.lists_file import lists_from_data, lists_schema, parts_from_data, parts_schema
from plinth.plan.plan import LISTED_DIES, PLAN_VERSION, Plan, fingerprint, server_to_data
from plinth.sharding import (
    MAXIMUM_CHUNK,
    MAXIMUM_PIECES,
    MOST_PIECES,
    Copies,
    Gathered,
    Local,
    Ring,
    Server,
    Sharding,
    Sync,
    Touched,
    are_micro_batches,
)
from plinth.step.copies import copies_of
from plinth.update.rule import FORMS, PLAIN, check_engines, rule_for
from plinth_hw.isa.parameters import PRESETS

#: Largest plan file that is read, in bytes.
MAXIMUM_FILE_BYTES = 1 << 24
#: Remedy in messages about files.
_AGAIN = "make the plan again with `plinth plan`"

_KEYS = ("version", "network", "fingerprint", "definition", "planner", "model", "array", "hardware", "dies", "levels",
         "factors", "batch", "chunk_words", "words", "predicted_seconds", "layers", "transfers", "rings", "reductions")
_OPTIONAL = ("loss", "update", "micro_batches")


def _command(data: Any) -> str:
    """What makes a file's plan anew, as far as the file says it; NETWORK, ARRAY and PARTS stand for files."""
    data = data if isinstance(data, dict) else {}
    words = ["plinth plan"]
    for key, option in (("network", ""), ("array", "--array "), ("planner", "--planner "), ("model", "--model "),
                        ("batch", "--batch ")):
        value = data.get(key)
        if isinstance(value, str) and re.fullmatch(NAME_PATTERN, value):
            from_file = (data.get("definition") is not None if key == "network" else
                         key == "array" and _array(value) is None)
            words.append(option + (key.upper() if from_file else value))
        elif is_integer(value, 1, MAXIMUM_BATCH):
            words.append(f"{option}{value}")
        elif key == "network":
            words.append("NETWORK")
    return f"make the plan again with `{' '.join((*words, *_options(data)))} --out FILE`"


def _array(name: str) -> Array | None:
    """The array of a name; None if there is none."""
    try:
        return ARRAYS.get(name) or sized(name)
    except ValueError:
        return None


def _options(data: Mapping[str, Any]) -> Iterator[str]:
    """Options of `plinth plan` for dies, an update and lists that those names do not say."""
    hardware, name, update = (data.get(key) for key in ("hardware", "array", "update"))
    preset = hardware.get("preset") if isinstance(hardware, dict) else None
    array = _array(name) if isinstance(name, str) else None
    if array is not None and isinstance(preset, str) and preset in PRESETS:
        if preset != array.preset:
            yield f"--machine {preset}"
        rule, usual = FORMS.get(str(update or PLAIN.title)), rule_for(PRESETS[preset])
        if rule is not None and rule != usual.form:
            yield f"--update {rule.kind}"
            if rule.wide != rule_for(PRESETS[preset], rule.kind, stochastic=rule.stochastic).wide:
                yield "--wide" if rule.wide else "--narrow"
            if rule.stochastic:
                yield "--stochastic"
    layers = data.get("layers")
    if isinstance(layers, list) and any(isinstance(layer, dict) and "parts" in layer for layer in layers):
        yield "--parts PARTS"


def _shown(value: Any) -> str:
    """A value of a file in messages."""
    return quoted(value) if isinstance(value, str) else described(value)


def is_plan(path: Path) -> bool:
    """Whether a YAML or JSON file is a plan rather than a network.

    Raises
    ------
    UserError
        If it cannot be read or is not plain YAML.
    """
    return holds_plan(read_yaml(path, MAXIMUM_FILE_BYTES))


def network_of(data: Any, where: str) -> Network:
    """The network that a plan file names: its own definition, or one of the zoo.

    Raises
    ------
    UserError
        If it is of another version, or names neither.
    """
    check_version(data, where, "a plan", PLAN_VERSION, _command(data))
    if data.get("definition") is not None:
        return network_from_data(data["definition"], f"{where}: definition", Path(where).parent)
    name = data.get("network")
    if not isinstance(name, str) or name not in NETWORKS:
        known = nearest(name[:64], NETWORKS) if isinstance(name, str) else _AGAIN
        raise UserError(f"{where}: network {_shown(name)} is not in the zoo; {known}, or give its file as NETWORK")
    return NETWORKS[name]


def check_use(plan: Plan, where: str, *, array: Array, batch: int | None = None) -> None:
    """Compare what a plan was made for with what it is used with.

    Raises
    ------
    UserError
        If it is for another array or batch; with both values.
    """
    if batch is not None and plan.batch != batch:
        raise UserError(f"{where}: the plan is for batch {plan.batch}, not {batch}; leave batch= out, or "
                        "make the plan again with `plinth plan`")
    planned, used = ({} if hardware is None else array_to_data(hardware) for hardware in (plan.hardware, array))
    if plan.hardware is None:
        raise UserError(f"{where}: the plan does not say what array {plan.array!r} is; {_AGAIN}")
    for key in ("dies", *dict.fromkeys((*planned, *used))):
        if key != "name" and planned.get(key) != used.get(key):
            raise UserError(f"{where}: the plan is for {key} {_shown(planned.get(key))} of array {plan.array!r}, not "
                            f"{_shown(used.get(key))} of array {array.name!r}; leave array=, dies=, "
                            "machine= and format= out, or make the plan again with `plinth plan`")


def plan_from_data(data: Any, graph: PlanGraph, where: str, definition: Network | None = None) -> Plan:
    """The plan that a file holds, for the network of ``graph``.

    Parameters
    ----------
    definition : Network or None
        The file's own, of which ``graph`` is, if it has been read; that reads all patterns of sparse layers.

    Raises
    ------
    UserError
        If it is of another version or another network, malformed, or states what does not follow from its splits.
    """
    check_version(data, where, "a plan", PLAN_VERSION, _command(data))
    check_mapping(data, where, "a plan", required=_KEYS, optional=_OPTIONAL)
    if data["network"] != graph.name:
        raise UserError(f"{where}: the plan is for network {_shown(data['network'])}, not {graph.name!r}; {_AGAIN}")
    if data["fingerprint"] != fingerprint(graph):
        raise UserError(f"{where}: the plan is for another network called {graph.name!r}, with other layers or shapes; "
                        f"{_AGAIN}")
    for key in ("planner", "model", "array"):
        if not isinstance(data[key], str) or not re.fullmatch(NAME_PATTERN, data[key]):
            raise UserError(f"{where}: {key} must be a name, not {described(data[key])}; {_AGAIN}")
    for key, low, high in (("levels", 0, MAXIMUM_LEVELS), ("batch", 1, MAXIMUM_BATCH),
                           ("chunk_words", 1, MAXIMUM_CHUNK)):
        if not is_integer(data[key], low, high):
            raise UserError(f"{where}: {key} must be an integer from {low} to {high}, not {described(data[key])}; "
                            f"{_AGAIN}")
    for key, known in (("planner", PLANNER_NAMES), ("model", MODEL_NAMES)):
        if data[key] not in known:
            raise UserError(f"{where}: {key} {quoted(data[key])} is unknown; {nearest(data[key], known)}; {_AGAIN}")
    factors = data["factors"]
    if not isinstance(factors, list) or len(factors) != data["levels"] or not all(
            is_integer(factor, 2, MAXIMUM_DIES) for factor in factors):
        raise UserError(f"{where}: factors must be a list of {data['levels']} integers from 2 to {MAXIMUM_DIES}, not "
                        f"{described(factors)}; {_AGAIN}")
    if data["hardware"] is None:
        raise UserError(f"{where}: hardware must be the array in full, not None; {_AGAIN}")
    hardware = array_from_data(data["hardware"], f"{where}: hardware")
    if hardware.name != data["array"]:
        raise UserError(f"{where}: the plan is for array {data['array']!r}, but hardware is {hardware.name!r}; "
                        f"{_AGAIN}")
    if list(hardware.factors) != factors:
        raise UserError(f"{where}: factors are {factors}, but array {hardware.name!r} has {list(hardware.factors)}; "
                        f"{_AGAIN}")
    words = hardware.die_parameters().chunk_words
    if data["chunk_words"] != words:
        raise UserError(f"{where}: chunk_words is {data['chunk_words']}, but dies of preset {hardware.preset!r} have "
                        f"{words}; {_AGAIN}")
    if data["definition"] is None:
        definition = None
    elif definition is None:
        definition = network_from_data(data["definition"], f"{where}: definition", Path(where).parent)
        if fingerprint(from_network(definition)) != data["fingerprint"]:
            raise UserError(f"{where}: definition is another network than that of the fingerprint; {_AGAIN}")
    splits = _splits(data, graph, where)
    micro_batches = data.get("micro_batches", 1)
    if not are_micro_batches(micro_batches, data["batch"]):
        raise UserError(f"{where}: micro_batches must be a number that divides the batch of {data['batch']}, not "
                        f"{described(micro_batches)}; {_AGAIN}")
    if micro_batches == 1:
        # Left out, it is the same.
        data = {key: value for key, value in data.items() if key != "micro_batches"}
    lists = _lists(data, graph, where)
    with about(where):
        check_stages(graph, splits, tuple(factors), lists, micro_batches)
        check_lists(graph, splits, lists, data["batch"], tuple(factors))
    copies, touched = _copies(data, graph, prod(factors), where), _touched(data, graph, where)
    seconds = data["predicted_seconds"]
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not
                                0 <= seconds < float("inf")):
        raise UserError(f"{where}: predicted_seconds must be a number of seconds, not {described(seconds)}; {_AGAIN}")
    update = data.get("update", PLAIN.title)
    if not isinstance(update, str) or update not in FORMS:
        raise UserError(f"{where}: update must be one of {', '.join(FORMS)}, not {_shown(update)}; {_AGAIN}")
    with about(where):
        check_engines(FORMS[update], hardware.die_parameters())
        plan = Plan(sharding=Sharding(graph=graph, splits=splits, batch=data["batch"], factors=tuple(factors),
                                      lists=lists, array=hardware, rule=FORMS[update], copies=copies,
                                      touched=touched, micro_batches=micro_batches),
                    planner=data["planner"], model=data["model"], array=data["array"], predicted_seconds=seconds,
                    definition=definition)
    _check_order(plan, hardware, where)
    expected = plan.to_data()
    # Lists and the network are read however they are written, and what is left out.
    written = {key: value for key, value in data.items() if key not in _OPTIONAL} | {
        key: expected[key] for key in ("definition", "layers", *_OPTIONAL) if key in expected}
    difference = _difference(written, expected, "")
    if difference:
        raise UserError(f"{where}: {difference} follows from the splits; {_AGAIN}")
    return plan


def _check_order(plan: Plan, array: Array, where: str) -> None:
    """Refuse an order of rings that is not the planners', and of which dies would hold each other up."""
    usual = copies_of(replace(plan.sharding, copies=()), array.die_parameters())
    orders = dict.fromkeys(own.groups for (_, own), (_, other) in zip(plan.sharding.copies, usual, strict=True)
                           if isinstance(own, Ring) and own != other)
    for groups in orders:
        members = meets_itself(array, groups)
        if members is not None:
            raise UserError(f"{where}: rings have an order in which two of dies {', '.join(map(str, members[:8]))}"
                            f"{', ...' * (len(members) > 8)} send to the next one over the same link of array "
                            f"{array.name!r}; order them along its links, or {_AGAIN}")


def _copies(data: Mapping[str, Any], graph: PlanGraph, dies: int, where: str) -> Copies:
    """How copies of each variable are kept equal."""
    groups, reductions = [], data["reductions"]
    entries = [entry for entry in reductions if isinstance(entry, dict)] if isinstance(reductions, list) else []
    least = int(not entries or any("rings" in entry for entry in entries))
    most = len(graph.variables if any("variable" in entry for entry in entries) else graph.nodes)
    if not isinstance(data["rings"], list) or not least <= len(data["rings"]) <= most:
        raise UserError(f"{where}: rings must be a list of {least} to {most} sets of rings; {_AGAIN}")
    for number, rings in enumerate(data["rings"]):
        what = no_partition(rings, dies)
        if what or not all(isinstance(members, list) for members in rings):
            raise UserError(f"{where}: rings[{number}] are no partition of {dies} dies into lists: "
                            f"{what or 'one is no list'}; {_AGAIN}")
        groups.append(ProcessGroups(RING, tuple(map(tuple, rings))))
    said = [(entry.get("layer"), entry.get("variable")) for entry in entries]
    names: list[tuple[str, str | None]] = []
    for node in (graph.nodes[number] for number in reversed(graph.weighted)):
        names += [(node.name, None)] if (node.name, None) in said else [
            (node.name, variable.name) for variable in node.variables]
    if not isinstance(reductions, list) or len(entries) < len(reductions) or said != names:
        raise UserError(f"{where}: reductions must be those of the {len(graph.weighted)} layers with weights, the "
                        f"last one first, each whole or variable by variable; {_AGAIN}")
    copies: list[tuple[str, Sync]] = []
    variables = {node.name: node.variables for node in graph.nodes}
    for entry in entries:
        layer, own = entry["layer"], entry.get("variable")
        place = f"{where}: the reduction of {'layer' if own is None else f'variable {own!r} of layer'} {layer!r}"
        ways = [key for key in ("rings", "server", "gathered", "local") if key in entry]
        if len(ways) > 1:
            raise UserError(f"{place} has {' and '.join(ways)}, of which each stands in the place of the others; "
                            f"{_AGAIN}")
        sync = _server(entry, place) or _plain(entry, place) or _ring(entry, place, groups, data["chunk_words"])
        copies += [(variable.qualified(layer), sync) for variable in variables[layer] if own in (None, variable.name)]
    return tuple(copies)


def _server(entry: dict[str, Any], place: str) -> Server | None:
    """The servers of an entry, if it has any: their form, as a sharding checks what it says."""
    if "server" not in entry:
        return None
    data = entry["server"]
    check_mapping(data, f"{place}: server", "a server's entry", required=("owners", "pieces"),
                  optional=("interleaved",))
    owners, pieces, interleaved = data["owners"], data["pieces"], data.get("interleaved", False)
    if not isinstance(interleaved, bool):
        raise UserError(f"{place}: interleaved must be true or false, not {_shown(interleaved)}; {_AGAIN}")
    if not isinstance(owners, list) or len(owners) > MAXIMUM_PIECES:
        raise UserError(f"{place}: owners must be a list with the die of each piece, {MAXIMUM_PIECES} at most, not "
                        f"{f'{len(owners)} of them' if isinstance(owners, list) else described(owners)}; {_AGAIN}")
    if isinstance(pieces, dict):
        pieces = tuple(tuple(part) for part in parts_from_data(pieces, f"{place}: pieces"))
    elif not is_integer(pieces, 1, MAXIMUM_PIECES):
        raise UserError(f"{place}: pieces must be an integer from 1 to {MAXIMUM_PIECES}, or lists of rows, not "
                        f"{described(pieces)}; {_AGAIN}")
    server = Server(tuple(owners), pieces, interleaved)
    # However lists are written.
    entry["server"] = server_to_data(server)
    return server


def _plain(entry: dict[str, Any], place: str) -> Gathered | Local | None:
    """What an entry says of copies that has no more to say."""
    for sync in (Gathered(), Local()):
        if sync.kind in entry:
            if entry[sync.kind] is not True:
                raise UserError(f"{place}: {sync.kind} is true or left out, not {_shown(entry[sync.kind])}; {_AGAIN}")
            return sync
    return None


def _touched(data: Mapping[str, Any], graph: PlanGraph, where: str) -> Touched:
    """The shares of rows that samples touch."""
    variables = {node.name: node.variables for node in graph.nodes}
    shares: list[tuple[str, float]] = []
    for entry in data["reductions"]:
        if "touched" in entry:
            layer, share = entry["layer"], entry["touched"]
            if isinstance(share, bool) or not isinstance(share, (int, float)):
                raise UserError(f"{where}: touched of layer {layer!r} must be a share, not {_shown(share)}; {_AGAIN}")
            shares += [(variable.qualified(layer), share) for variable in variables[layer]
                       if entry.get("variable") in (None, variable.name)]
    return tuple(shares)


def _ring(entry: dict[str, Any], place: str, groups: list[ProcessGroups], chunk: int) -> Ring:
    number: Any = entry.get("rings")
    if "rings" not in entry:
        raise UserError(f"{place} must have rings, server, gathered or local; {_AGAIN}")
    if not is_integer(number, 0, len(groups) - 1):
        raise UserError(f"{place} must name its rings, 0 to {len(groups) - 1}, not {_shown(number)}; {_AGAIN}")
    elements = entry.get("elements", False)
    if elements is False:
        # Left out, it is the same.
        entry.pop("elements", None)
    elif not isinstance(elements, bool):
        raise UserError(f"{place}: elements must be true or false, not {_shown(elements)}; {_AGAIN}")
    return Ring(groups[number], entry.get("pieces", 0), chunk, elements)


def _splits(data: Mapping[str, Any], graph: PlanGraph, where: str) -> Splits:
    """The splits of each node; the loss, which says none as a rule, splits its batch."""
    layers, levels, loss = data["layers"], data["levels"], data.get("loss")
    nodes = [node for node in graph.nodes if node.kind != LOSS]
    if not isinstance(layers, list) or len(layers) != len(nodes):
        raise UserError(f"{where}: layers must be a list of the {len(nodes)} layers that are planned, not "
                        f"{len(layers) if isinstance(layers, list) else described(layers)}; {_AGAIN}")
    vectors = []
    for node, entry in zip(nodes, layers, strict=True):
        place = f"{where}: layer {node.name!r}"
        check_mapping(entry, place, "a layer's entry", required=("name", "kind", "splits"), optional=("parts",))
        if entry["name"] != node.name:
            raise UserError(f"{place}: the plan has {described(entry['name'])} in its place; {_AGAIN}")
        if entry["kind"] != node.kind:
            raise UserError(f"{place}: kind must be {node.kind}, not {described(entry['kind'])}; {_AGAIN}")
        vectors.append(_vector(entry["splits"], levels, place))
    if loss is None:
        return (*vectors, (DP,) * levels)
    check_mapping(loss, f"{where}: loss", "an entry of the loss", required=(), optional=("splits", "parts"))
    return (*vectors, _vector(loss.get("splits", [DP] * levels), levels, f"{where}: loss"))


def _vector(vector: Any, levels: int, place: str) -> tuple[str, ...]:
    """The splits of a node."""
    if not isinstance(vector, list) or len(vector) != levels:
        raise UserError(f"{place}: splits must be a list of {levels}, one a level, not "
                        f"{len(vector) if isinstance(vector, list) else described(vector)}; {_AGAIN}")
    for split in vector:
        if split not in SPLITS and (not isinstance(split, str) or stage_digit(split) is None):
            raise UserError(f"{place}: unknown split {described(split)}; {nearest(str(split)[:40], SPLITS)}, or a "
                            "pipeline stage, as pp0")
    return tuple(vector)


def _lists(data: Mapping[str, Any], graph: PlanGraph, where: str) -> Partition:
    """The lists of each node, of which those of the loss stand for themselves."""
    layers, lists = iter(data["layers"]), []
    for node in graph.nodes:
        entry = data.get("loss") if node.kind == LOSS else next(layers)
        parts = None if entry is None else entry.get("parts")
        lists.append(None if parts is None else lists_from_data(parts, f"{where}: layer {node.name!r}: parts"))
    return tuple(lists) if any(lists) else ()


def _difference(written: Any, expected: Any, place: str) -> str:
    """Where a file differs from what follows from its splits; empty if nowhere."""
    if isinstance(expected, dict) and isinstance(written, dict) and written.keys() == expected.keys():
        pairs = [(f"{place}.{key}" if place else key, written[key], expected[key]) for key in expected]
    elif isinstance(expected, dict) and isinstance(written, dict):
        key = next(key for key in (*expected, *written) if (key in expected) != (key in written))
        return (f"{place} has {'an' if key in written else 'no'} entry {key!r}, "
                f"but {'none' if key in written else 'one'}")
    elif isinstance(expected, list) and isinstance(written, list) and len(written) == len(expected):
        pairs = [(f"{place}[{number}]", *both) for number, both in enumerate(zip(written, expected, strict=True))]
    elif isinstance(expected, list) and isinstance(written, list):
        return f"{place} has {len(written)} entries, but {len(expected)}"
    elif isinstance(expected, (dict, list)) or type(written) is not type(expected) or written != expected:
        said = kind_of if isinstance(expected, (dict, list)) or isinstance(written, (dict, list)) else described
        return f"{place} is {said(written)}, but {said(expected)}"
    else:
        return ""
    return next((text for text in (_difference(left, right, inner) for inner, left, right in pairs) if text), "")


def load_plan(path: Path, network: Network | None = None) -> Plan:
    """The plan in a YAML or JSON file, for a network or for that which the plan names; the file is untrusted.

    Raises
    ------
    UserError
        As :func:`plan_from_data`, and if the file cannot be read, is too large, or not plain YAML.
    """
    data = read_yaml(path, MAXIMUM_FILE_BYTES)
    if network is not None:
        return plan_from_data(data, from_network(network), str(path))
    definition = network_of(data, str(path))
    return plan_from_data(data, from_network(definition), str(path), definition)


def save_plan(path: Path, plan: Plan) -> None:
    """Write a plan, as JSON if the name ends in .json, else as YAML; readers see the old file or the whole new one.
    Files of patterns are named from the plan's folder on, so that both can be moved together.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    text = json_text(plan.to_data(path.parent)) + "\n" if path.suffix == ".json" else plan.to_yaml(path.parent)
    write_whole(path, lambda place: place.write_text(text, encoding="utf-8"))


def plan_schema() -> dict[str, Any]:
    """The form of plan files as JSON Schema."""
    count = {"type": "integer", "minimum": 0}
    name = {"type": "string"}
    levels = {"description": "levels, 1 the highest, in the order in which the range is cut", "type": "array",
              "items": {"type": "integer", "minimum": 1, "maximum": MAXIMUM_LEVELS}}

    def mapping(what: str, properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
        return {"description": what, "type": "object", "additionalProperties": False, "properties": properties,
                "required": [key for key in properties if key not in optional]}

    def listed(what: str, items: dict[str, Any]) -> dict[str, Any]:
        return {"description": what, "type": "array", "items": items}

    stage = {"description": "the digit of a pipeline stage", "type": "string", "pattern": f"^{STAGE_PATTERN}$"}
    region = mapping("batch and channels that a die has; first parts are one larger if a length does not divide",
                     {"batch": levels, "channels": levels, "elements": levels, "copies": levels,
                      "stages": listed("digits of the pipeline stage whose dies have it", stage),
                      "parts": lists_schema(("samples", "channels"), repeated=True)},
                     optional=("elements", "copies", "stages", "parts"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Plan",
        **mapping("How a network is split over an array, and what moves in a training step", {
            "version": {"const": PLAN_VERSION}, "network": name,
            "fingerprint": {"description": "SHA-256 of the planned graph", "type": "string"},
            "definition": {"description": "the network in full, if it is none of the zoo: `plinth schema network`",
                           "type": ["object", "null"]},
            "planner": {"enum": list(PLANNER_NAMES)}, "model": {"enum": list(MODEL_NAMES)}, "array": name,
            "hardware": {"description": "the array in full: `plinth schema array`", "type": "object"},
            "dies": {"description": "product of factors", "type": "integer", "minimum": 1, "maximum": MAXIMUM_DIES},
            "levels": {"type": "integer", "minimum": 0, "maximum": MAXIMUM_LEVELS},
            "factors": {"description": "in how many parts each level cuts the dies, level 1 first", "type": "array",
                        "items": {"type": "integer", "minimum": 2, "maximum": MAXIMUM_DIES}},
            "batch": {"type": "integer", "minimum": 1, "maximum": MAXIMUM_BATCH},
            "chunk_words": {"description": "words in a chunk of a reduction", "type": "integer", "minimum": 1},
            "words": {**count, "description": "words that all dies send in a step"},
            "predicted_seconds": {"type": ["number", "null"], "minimum": 0},
            "update": {"description": "how weights are updated; default: sgd", "enum": list(FORMS)},
            "micro_batches": {"description": "parts of the batch that follow each other; default: 1", "type": "integer",
                              "minimum": 1, "maximum": MAXIMUM_BATCH},
            "layers": listed("splits, from level 1 on; level h splits on digit h of a die's number, from the highest",
                             mapping("one layer or junction", {
                                 "name": name, "kind": name,
                                 "splits": {"type": "array", "items": {"anyOf": [{"enum": list(SPLITS)}, stage]}},
                                 "parts": lists_schema(tuple(AXES))}, optional=("parts",))),
            "loss": mapping("of the loss, whose batch every level splits unless it says splits", {
                "splits": {"type": "array", "items": {"anyOf": [{"enum": [DP, MP]}, stage]}},
                "parts": lists_schema(("samples", "inputs"))}, optional=("splits", "parts")),
            "transfers": listed("transfers between layers, in the order of the step", mapping(
                "every die sends what of its `from` lies in another die's `to`, at each of `positions`", {
                    "layer": name, "phase": {"enum": ["fprop", "bprop"]},
                    "kind": {"description": "reduce: added at the receiver in ascending die order; of a layer that "
                             "splits the elements of its tiles scatter, gather, and bias, sums of its cluster",
                             "enum": ["reduce", "copy", "scatter", "gather", "bias"]},
                    "consumer": {"type": ["string", "null"]}, "words": count, "from": region, "to": region,
                    "channels": count, "positions": count,
                    "elements": {**count, "description": "of a tile"},
                    "copies": {**count, "description": "dies that have the same, each of which sends to its own"},
                    "rows": {**count, "description": "samples, if they are not the batch's"},
                    "coded": mapping(
                        "of a gather of which dies send what a ReLU lets through, or of a scatter without zeros: words "
                        "are those expected, of a gather masks that go back with them", {
                            "rounds": {**count, "description": "in which a gather finds out what that is"},
                            "regions": {"type": "boolean", "description": "by MPT's own quantiser"},
                            "shares": listed("words of each part of strings expected, over those of elements",
                                             {"type": "number", "minimum": 0}),
                            "least": {**count, "description": "words that it takes at least"},
                            "most": {**count, "description": "at most"}}, optional=("regions",)),
                    "pairs": listed(f"[sender, receiver, words]; only up to {LISTED_DIES} dies",
                                    {"type": "array", "items": count, "minItems": 3, "maxItems": 3})},
                optional=("elements", "copies", "rows", "coded", "pairs"))),
            "rings": listed("sets of rings, each its dies in the order in which words go round: chunk c of a message "
                            "belongs to member c mod N, and its sum starts at the member behind", listed(
                                "all dies", listed("a ring", count))),
            "reductions": listed("weight reductions, in the order of bprop", mapping(
                "how copies on the dies that differ in the levels `over` are kept equal: by rings, server, gathered or "
                "local", {
                    "layer": name, "variable": {"description": "which one of the layer's; default: all of them",
                                                "type": "string"},
                    "words": {**count, "description": "words that all members send; where data decide, expected ones"},
                    "least": {**count, "description": "words that they send at least"},
                    "most": {**count, "description": "at most"}, "over": levels,
                    "server": mapping("each piece of the variable's rows is kept by its owner, who adds up gradients", {
                        "owners": listed("the die of each piece", count),
                        "pieces": {"description": "pieces of neighbouring rows, all but as long, or the rows of each",
                                   "oneOf": [{"type": "integer", "minimum": 1, "maximum": MAXIMUM_PIECES},
                                             parts_schema("a part for each piece")]},
                        "interleaved": {"description": "row r belongs to piece r mod pieces; default: false",
                                        "type": "boolean"}}, optional=("interleaved",)),
                    "gathered": {"description": "all send each other the rows of gradients that samples touch",
                                 "const": True},
                    "touched": {"description": "share of the rows that one die's samples touch in a step, as "
                                "predictions take it; default: all that they may",
                                "type": "number", "exclusiveMinimum": 0, "maximum": 1},
                    "local": {"description": "copies are never made equal", "const": True},
                    "rings": {**count, "description": "which of `rings`"},
                    "pieces": {"description": "messages in which the gradient goes: pieces of rows, at most "
                               f"{MOST_PIECES}; with `elements` one for each element of tiles and the bias",
                               "type": "integer", "minimum": 1},
                    "elements": {"description": "pieces are elements of Winograd tiles; default: false",
                                 "type": "boolean"},
                    "weights": mapping("how the weights are cut", {
                        "input": levels, "output": levels, "elements": levels,
                        "parts": lists_schema(("inputs", "outputs"), repeated=True)}, optional=("elements", "parts")),
                    "ring_words": listed(f"words of each ring's pieces together; only up to {LISTED_DIES} dies",
                                         count)},
                optional=("variable", "least", "most", "server", "gathered", "touched", "local", "rings", "pieces",
                          "elements", "ring_words"))),
        }, optional=_OPTIONAL),
    }
