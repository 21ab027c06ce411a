"""Fields of reports: one name for each quantity, whatever the report, with its unit at the end of the name.

A name is made of what is told and its unit: ``injected_words``, ``busy_cycles``, ``energy_joules``. ``predicted_`` and
``needed_`` stand before it, ``_by_die`` and the like behind it where it is told of each of some. A quantity is that of
what its report, or the row that it stands in, is of: a step, a run, a die, a link.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from plinth.files.forms import kind_of

#: A JSON Schema, or the part of one that describes a value.
Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
#: Not below 0, nor above 1.
_AMOUNT: Schema = {"type": "number", "minimum": 0}
_SHARE: Schema = _AMOUNT | {"maximum": 1}
_REAL: Schema = {"type": "number"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_RANGE: Schema = {"type": "array", "items": _AMOUNT, "minItems": 2, "maxItems": 2}


def _or_none(form: Schema) -> Schema:
    """The schema of a value that may also be null: there is none, or no finite one."""
    return form | {"type": [form["type"], "null"]}


def _list(form: Schema) -> Schema:
    return {"type": "array", "items": form}


def _by(form: Schema) -> Schema:
    """The schema of a mapping whose keys are names of layers, dies or the like, not of fields."""
    return {"type": "object", "additionalProperties": form}


def row(required: str, optional: str = "") -> Schema:
    """The schema of an object whose keys are names of :data:`FIELDS`, given as lists separated by blanks."""
    return {"type": "object", "additionalProperties": False, "required": required.split(),
            "properties": {name: {"$ref": f"#/$defs/{name}"} for name in f"{required} {optional}".split()}}


class Field(NamedTuple):
    """A field of reports: what its value says, and the JSON Schema of the value."""

    what: str
    form: Schema


#: All fields of all reports by name, related ones together.
FIELDS: dict[str, Field] = {
    # What a report is of.
    "report": Field("kind of the report", _TEXT),
    "version": Field("version of reports", _COUNT),
    "network": Field("the network's name", _TEXT),
    "parameters": Field("parameters of the network", _COUNT),
    "macs_per_sample": Field("multiply-adds of a sample's fprop", _COUNT),
    "notes": Field("what was made of a network's file that its reader may not expect", _TEXTS),
    "array": Field("the array's name", _TEXT),
    "preset": Field("preset of its dies", _TEXT),
    "dies": Field("number of dies", _COUNT),
    "word_bytes": Field("bytes of a word of the dies' memory", _COUNT),
    "batch": Field("samples of a step", _COUNT),
    "planner": Field("who chose the splits", _TEXT),
    "model": Field("how the planner counted words: exact or published", _TEXT),
    "update": Field("how weights are updated, in words", _TEXT),
    "device": Field("what ran it: cosim, golden, numpy or serial", _TEXT),
    "seed": Field("seed of weights and of the order of samples", _COUNT),
    "commit": Field("commit that was measured; null: unknown", _or_none(_TEXT)),
    "cycles_from": Field("where the cycles of tasks come from", _TEXT),
    # Splits.
    "levels": Field("levels of the array", _COUNT),
    "factors": Field("in how many parts each level cuts the dies, level 1 first", _list(_COUNT)),
    "layers": Field("layers and junctions, a row each, in the network's order",
                    _list(row("layer kind splits", "copies transfers reduction matrix_cycles"))),
    "layer": Field("name of a layer, with what follows it", _TEXT),
    "kind": Field("kind of a layer, transfer or operation", _TEXT),
    "splits": Field("a split a level, level 1 first", _TEXTS),
    "copies": Field("how copies of each variable of a layer are kept equal: `ring` or `server`; `local`: nothing is "
                    "made equal, as where one die alone has it", _by(_TEXT)),
    "direction": Field("fprop, bprop or update (weight gradient, its reduction, the weights' update)",
                       {"enum": ["fprop", "bprop", "update"]}),
    "winograd": Field("Winograd layers by name: F(outputs, taps), groups and clusters of dies",
                      _by(row("outputs taps groups clusters"))),
    "outputs": Field("outputs of a Winograd tile's side", _COUNT),
    "taps": Field("taps of a kernel's side", _COUNT),
    "groups": Field("groups of dies, which split the elements of tiles", _COUNT),
    "clusters": Field("clusters of dies, which split samples", _COUNT),
    "plan": Field("the plan, as `plinth schema plan` says", {"type": "object"}),
    # Time.
    "seconds": Field("time of the step", _AMOUNT),
    "cycles": Field("cycles of the step or run; in `layer_work` those on the step's critical path", _AMOUNT),
    "cycles_per_step": Field("cycles of a step, the mean of the run", _or_none(_AMOUNT)),
    "predicted_seconds": Field("time of a step as planners predict it", _AMOUNT),
    "predicted_cycles": Field("cycles of a step as planners predict it", _AMOUNT),
    "predicted_cycles_per_step": Field("the same, in the report of a run", _or_none(_AMOUNT)),
    "predicted_cycles_by_part": Field(
        "`compute`, `transfers` and `exposed_reductions` add up to the step; `reductions`: hidden ones as well",
        _by(_AMOUNT)),
    "busy_cycles": Field("cycles for which engines work; a simulated one as fast as it goes alone", _AMOUNT),
    "stall_input_cycles": Field("cycles for which an engine waits for operands", _COUNT),
    "stall_output_cycles": Field("cycles for which an engine waits for room", _COUNT),
    "stall_memory_cycles": Field("cycles for which an engine waits for memory", _COUNT),
    "matrix_cycles": Field("cycles of a layer's matrix tasks in the last step, of the die with most", _or_none(_COUNT)),
    "start_cycle": Field("when a task began, from the first one's start on", _COUNT),
    "end_cycle": Field("when it ended", _COUNT),
    "wall_seconds": Field("time of the run's steps on the host", _AMOUNT),
    "setup_seconds": Field("time before the first step on the host", _AMOUNT),
    "die_cycles_per_second": Field("simulated cycles a second, all dies together", _or_none(_AMOUNT)),
    "engine_seconds": Field("of each engine of a die: seconds of the step `busy`, `shared` (what sharing memory or "
                            "links made it longer), `waiting` (for other tasks) and `idle` (behind its last)",
                            _by(_by(_AMOUNT))),
    # What moves.
    "injected_words": Field("words that dies send to other dies, each counted once; as the plan says, or, in a run, as "
                            "the dies count (null: they do not)", _or_none(_AMOUNT)),
    "injected_words_by_die": Field("the same of each die", _list(_COUNT)),
    "predicted_injected_words": Field("the same as the plan says: of a step, or of a run's steps", _AMOUNT),
    "injected_words_bounds": Field("least and most that it can be, where data decide", _RANGE),
    "saved_words": Field("words a step that blocks of Winograd layers save", _COUNT),
    "link_words": Field("words on links, counted on each link of their ways", _or_none(_AMOUNT)),
    "link_words_by_port": Field("of each die, those that leave by each of its ports", _list(_list(_COUNT))),
    "dram_words": Field("words that memories read and write", _AMOUNT),
    "sram_words": Field("words that the engines' buffers read and write, as energy counts them", _AMOUNT),
    "payload_words": Field("words that an engine's tasks moved", _COUNT),
    "transfers": Field("transfers of a layer in a step", _list(row(
        "direction kind consumer predicted_injected_words injected_words_bounds injected_words"))),
    "reduction": Field("reduction of a layer's gradient; null: it has no weights",
                       _or_none(row("predicted_injected_words injected_words"))),
    "consumer": Field("layer that reads what is sent; null: the sender itself", _or_none(_TEXT)),
    "links": Field("links between dies, a row each", _list(row("link words_per_second link_words utilisation"))),
    "link": Field("name of a link", _TEXT),
    "words_per_second": Field("what a link can carry", _AMOUNT),
    "utilisation": Field("share of that that it carries", _AMOUNT),
    # Work and energy.
    "macs": Field("multiply-adds of a task", _COUNT),
    "macs_range": Field("least and most of a die's multiply-adds", _RANGE),
    "useful_macs": Field("multiply-adds whose operands are not padding", _COUNT),
    "issued_macs": Field("multiply-adds with padding and unused edges of the array", _COUNT),
    "matrix_utilisation": Field("useful multiply-adds / (PEs x cycles)", _or_none(_SHARE)),
    "adds": Field("additions, as energy counts them", _AMOUNT),
    "multiplies": Field("multiplications, as energy counts them", _AMOUNT),
    "energy_joules": Field("energy", _AMOUNT),
    "energy_joules_by_kind": Field("energy of `add`, `multiply`, `sram`, `dram` and `link`", _by(_AMOUNT)),
    # Memory of a die.
    "memory_bytes": Field("memory of a die, as in an array's file", _COUNT),
    "needed_memory_bytes": Field("memory that a step needs of every die", _COUNT),
    "fits_memory": Field("whether a die has that", _FLAG),
    "place_bytes": Field("places of a die's memory by name", _by(_COUNT)),
    # Simulated steps.
    "cost": Field("costs of the dies: die or paper", _TEXT),
    "simulated": Field("`task by task` or `in groups of tasks`", _TEXT),
    "grouped_because": Field("why in groups", _TEXT),
    "slow": Field("dies whose tasks take longer, and how many times", _by(_AMOUNT)),
    "tasks": Field("tasks, of all dies", _COUNT),
    "events": Field("events of the simulation", _COUNT),
    "layer_work": Field("what the step spends on each layer in each direction; rows add up to the report's own fields",
                        _list(row("layer direction cycles busy_cycles injected_words dram_words energy_joules"))),
    "per_die": Field("dies, a row each", _list(row("die speed dram_words engine_seconds"))),
    "die": Field("number of a die", _COUNT),
    "speed": Field("speed of a die, 1 without stragglers", _AMOUNT),
    # Plans compared.
    "baselines": Field("what other planners' plans cost", _by(row("predicted_injected_words predicted_seconds"))),
    # Training runs.
    "epochs": Field("epochs that were asked for", _COUNT),
    "steps": Field("steps that were done", _COUNT),
    "update_rule": Field("the update's kind and numbers", row("kind rate momentum epsilon decay wide stochastic")),
    "rate": Field("learning rate", _AMOUNT),
    "momentum": Field("what momentum keeps of its state", _AMOUNT),
    "epsilon": Field("what Adagrad adds to its sum of squares, and RMSProp to the root of its mean", _AMOUNT),
    "decay": Field("what RMSProp keeps of its mean of squares in a step", _AMOUNT),
    "wide": Field("whether weights and states of fixed-point dies have 32 bits", _FLAG),
    "stochastic": Field("whether they are rounded at random", _FLAG),
    "scale": Field("factors on samples and targets", row("inputs targets")),
    "inputs": Field("factor on samples", _AMOUNT),
    "targets": Field("factor on targets", _AMOUNT),
    "losses": Field("loss of each step's batch", _list(_or_none(_REAL))),
    "last_loss": Field("the last of them", _or_none(_REAL)),
    "test_loss": Field("loss of the samples kept for testing", _or_none(_REAL)),
    "test_accuracy": Field("share of them that is right; null: no classes", _or_none(_SHARE)),
    "train_loss": Field("loss of the samples for training", _or_none(_REAL)),
    "train_accuracy": Field("share of the samples for training that is right; null: no classes", _or_none(_SHARE)),
    "epochs_done": Field("whole epochs that a checkpoint was trained for", _COUNT),
    "epoch_steps": Field("steps of a further epoch that it was trained for", _COUNT),
    "bit_exact": Field("whether every weight of every die equals the golden model's after each step; null: not "
                       "compared", _or_none(_FLAG)),
    "compared_steps": Field("steps after which they were compared", _COUNT),
    "failure": Field("why the run ended early; null: it did not", _or_none(_TEXT)),
    **{f"{name}_error": Field(f"largest error of {what} against float64", _or_none(_AMOUNT)) for name, what in (
        ("prediction", "predictions"), ("loss", "the loss"), ("gradient", "a gradient"), ("update", "an update"),
        ("descent", "an update, against the rule"), ("state", "an update's state"))},
    "errors": Field("each error over its factor: largest, median, and what is allowed", _by(
        row("largest largest_allowed", "median median_allowed"))),
    "largest": Field("largest of all steps", _or_none(_AMOUNT)),
    "median": Field("median of all steps", _or_none(_AMOUNT)),
    "mean": Field("mean of all steps", _or_none(_AMOUNT)),
    "largest_allowed": Field("bound of the largest", _AMOUNT),
    "median_allowed": Field("bound of the median", _AMOUNT),
    "unsaturated_steps": Field("16-bit steps without saturation, which have closer bounds; null: other formats",
                               _or_none(row("judged errors"))),
    "judged": Field("how many there are", _COUNT),
    "verdict_steps": Field("steps from which on medians are bounded", _COUNT),
    "kinks": Field("kinks at which roundings of the dies decide", _COUNT),
    "kink_share": Field("their share of a step's kinks", row("largest mean largest_allowed")),
    "kink_difference": Field("by how much a gradient differs on the other side", row("largest mean")),
    "gather_thresholds": Field("bit-plane thresholds of predicted gathers, by layer", _by({"type": "integer"})),
    "saturations": Field("saturated numbers of each die since they were cleared; null: no fixed point",
                         _or_none(_list(_by(_COUNT)))),
    "engine_counters": Field("counters of each engine, all dies together", _by(row(
        "tasks busy_cycles stall_input_cycles stall_output_cycles stall_memory_cycles payload_words useful_macs "
        "issued_macs"))),
    "timeline": Field("tasks of the last step on die 0", _list(row("task engine start_cycle end_cycle"))),
    "verilog_sha256": Field("digest of the dies' Verilog; null: no RTL", _or_none(_TEXT)),
    # Steps as data.
    "digest": Field("SHA-256 of a step", _TEXT),
    "operations": Field("operations in the order of every die's program", _list(row(
        "operation layer direction kind engine_names tasks_range macs_range"))),
    "operation": Field("name of an operation", _TEXT),
    "engine_names": Field("engines that do its tasks", _TEXTS),
    "tasks_range": Field("least and most of a die's tasks", _RANGE),
    "program": Field("tasks of a die in their order", _list(row("task engine does reads writes macs"))),
    "task": Field("name of a task", _TEXT),
    "engine": Field("its engine; null: something arrives", _or_none(_TEXT)),
    "does": Field("what it does, in words", _TEXT),
    "reads": Field("places that it reads", _list(row("place first_word end_word"))),
    "writes": Field("places that it writes", _list(row("place first_word end_word"))),
    "place": Field("name of a place", _TEXT),
    "first_word": Field("first word in the place", _COUNT),
    "end_word": Field("word behind the last", _COUNT),
    "digests": Field("SHA-256 of two steps", _TEXTS),
    "equal": Field("whether they are one", _FLAG),
    "differences": Field("where they differ", _list(row("what name how"))),
    "what": Field("setting, splits, place, operation or task", _TEXT),
    "name": Field("name of what the row is about", _TEXT),
    "how": Field("`first` or `second`: only there; `differs`; `order`", _TEXT),
    # Benchmarks.
    "rows": Field("benchmarks", _list(row("name value unit limited_by detail commit"))),
    "value": Field("what was measured", _REAL),
    "unit": Field("its unit", _TEXT),
    "limited_by": Field("what limits it", _TEXT),
    "detail": Field("what else was measured; its keys are the row's own", {"type": "object"}),
    # Number formats.
    "formats": Field("number formats and updates, a row each", _list(row("name test_accuracies"))),
    "test_accuracies": Field("share of the samples kept for testing that is right, of each seed", _list(_SHARE)),
    # What has a name.
    "networks": Field("networks that have a name", _list(row(
        "name input_shape output_shape loss_kind layer_count weighted_layer_count parameters macs_per_sample"))),
    "input_shape": Field("features, or channels, height and width, of a sample", _list(_COUNT)),
    "output_shape": Field("the same of what the network predicts", _list(_COUNT)),
    "loss_kind": Field("kind of the loss layer", _TEXT),
    "layer_count": Field("layers of a network", _COUNT),
    "weighted_layer_count": Field("layers of a network that have weights", _COUNT),
    "arrays": Field("arrays that have a name", _list(row(
        "name topology dies link_count ports switches preset link_words_per_cycle link_latency_cycles clock_mhz"))),
    "topology": Field("how dies are joined", _TEXT),
    "link_count": Field("links of an array", _COUNT),
    "ports": Field("ports of a die", _COUNT),
    "switches": Field("switches without dies", _COUNT),
    "link_words_per_cycle": Field("words a cycle of a die's links along a ring", _AMOUNT),
    "link_latency_cycles": Field("cycles from one die to the next", _COUNT),
    "clock_mhz": Field("clock of the dies in MHz", _AMOUNT),
    "presets": Field("presets of dies", _list(row(
        "name pe_rows pe_columns multiply_format beat_words memory_words_per_cycle"))),
    "pe_rows": Field("rows of the matrix engine's array", _COUNT),
    "pe_columns": Field("columns of the matrix engine's array", _COUNT),
    "multiply_format": Field("number format of the operands of products", _TEXT),
    "beat_words": Field("words of a beat of memory", _COUNT),
    "memory_words_per_cycle": Field("words that memory moves a cycle", _AMOUNT),
    # Tools.
    "tools": Field("tools, packages and resources of the machine", _list(row(
        "name purpose needed found tool_version location remedy"))),
    "purpose": Field("what a tool is for", _TEXT),
    "needed": Field("whether nothing works without it", _FLAG),
    "found": Field("whether it is there", _FLAG),
    "tool_version": Field("version of a tool, or how much there is of a resource", _TEXT),
    "location": Field("file or folder of a tool or resource", _TEXT),
    "remedy": Field("the command that mends what is missing; empty: nothing is", _TEXT),
    # Papers.
    "citation": Field("the paper", _TEXT),
    "conditions": Field("conditions of its figures", _TEXT),
    "confidences": Field("how published values were read, and what that means", _by(_TEXT)),
    "fitted": Field("constants that were fitted", {"type": "array", "items": {"type": "object"}}),
    "tables": Field("tables, as docs/reproduce.md says", {"type": "array", "items": {"type": "object"}}),
    "entries_by_status": Field("published numbers by what agreement with them is worth",
                               _by({"type": "object"})),
    "claims_by_verdict": Field("claims in words, by whether they hold", _by(_COUNT)),
}


def used(form: Schema) -> Iterator[str]:
    """The names of fields that a schema refers to itself; references within those fields are not followed."""
    for value in form.values():
        if isinstance(value, str) and value.startswith("#/$defs/"):
            yield value.removeprefix("#/$defs/")
        elif isinstance(value, dict):
            yield from used(value)


#: What values of JSON Schema's types are.
_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str), "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "null": lambda value: value is None, "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict)}


def fault(value: Any, form: Schema, name: str = "") -> str:
    """The first way in which a value violates a schema, in words for an error message; empty if there is none.

    ``name`` is the name of the field that has the value.
    """
    if "$ref" in form:
        form = FIELDS[form["$ref"].removeprefix("#/$defs/")].form
    types = form.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_TYPES[kind](value) for kind in types):
        return f"{name} is {kind_of(value)}, not of type {' or '.join(types)}"
    if "enum" in form and value not in form["enum"]:
        return f"{name} is {kind_of(value)}, none of {', '.join(form['enum'])}"
    if isinstance(value, (int, float)) and not form.get("minimum", value) <= value <= form.get("maximum", value):
        return f"{name} is {value!r}, out of range"
    if isinstance(value, list):
        if not form.get("minItems", 0) <= len(value) <= form.get("maxItems", len(value)):
            return f"{name} has {len(value)} entries"
        return next(filter(None, (fault(one, form.get("items", {}), name) for one in value)), "")
    if isinstance(value, dict):
        known, others = form.get("properties", {}), form.get("additionalProperties", {})
        missing = next((key for key in form.get("required", ()) if key not in value), None)
        if missing is not None:
            return f"{f'{name} has no' if name else 'there is no'} {missing!r}"
        for key, one in value.items():
            if key not in known and others is False:
                return f"{key[:40]!r} is no field" + (f" of {name}" if name else "")
            problem = fault(one, known.get(key, others), key if key in known else name)
            if problem:
                return problem
    return ""
