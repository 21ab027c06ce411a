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
#: Of measured or fitted quantities, and of sizes: as large as none is, since files are the user's.
_MEASURE: Schema = _AMOUNT | {"maximum": 1e18}
_SIZE: Schema = {"type": "integer", "minimum": 1, "maximum": 1 << 48}
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


class NamedField(NamedTuple):
    """A field of reports: what its value says, and the JSON Schema of the value."""

    what: str
    form: Schema


#: All fields of all reports by name, related ones together.
FIELDS: dict[str, NamedField] = {
    # What a report is of.
    "report": NamedField("kind of the report", _TEXT),
    "version": NamedField("version of reports", _COUNT),
    "network": NamedField("the network's name", _TEXT),
    "parameters": NamedField("parameters of the network", _COUNT),
    "macs_per_sample": NamedField("multiply-adds of a sample's fprop", _COUNT),
    "notes": NamedField("what was made of a network's file that its reader may not expect; of a plan what its "
                        "planner says of what it found", _TEXTS),
    "array": NamedField("the array's name", _TEXT),
    "preset": NamedField("preset of its dies", _TEXT),
    "dies": NamedField("number of dies", _COUNT),
    "word_bytes": NamedField("bytes of a word of the dies' memory", _COUNT),
    "batch": NamedField("samples of a step", _COUNT),
    "micro_batches": NamedField("parts of the batch that follow each other; left out: one", _COUNT),
    "planner": NamedField("who chose the splits", _TEXT),
    "model": NamedField("how the planner counted words: exact or published", _TEXT),
    "update": NamedField("how weights are updated, in words", _TEXT),
    "device": NamedField("what ran it: cosim, golden, numpy or serial", _TEXT),
    "seed": NamedField("seed of weights and of the order of samples", _COUNT),
    "commit": NamedField("commit that was measured; null: unknown", _or_none(_TEXT)),
    "cycles_from": NamedField("where the cycles of tasks come from", _TEXT),
    # Splits.
    "levels": NamedField("levels of the array", _COUNT),
    "factors": NamedField("in how many parts each level cuts the dies, level 1 first", _list(_COUNT)),
    "layers": NamedField("layers and junctions, a row each, in the network's order",
                         _list(row("layer kind splits", "copies pieces transfers reduction matrix_cycles"))),
    "layer": NamedField("name of a layer, with what follows it", _TEXT),
    "kind": NamedField("kind of a layer, transfer or operation", _TEXT),
    "splits": NamedField("a split a level, level 1 first; pp0, pp1 and so on are pipeline stages", _TEXTS),
    "copies": NamedField("how copies of each variable of a layer are kept equal: `ring`, `server` or `gathered`; "
                         "`local`: nothing is made equal, as where one die alone has it", _by(_TEXT)),
    "pieces": NamedField("in how many pieces of rows servers own a variable of a layer", _by(_COUNT)),
    "touched_share": NamedField("by variable, the share of a table's rows that one die's samples touch in a step, as "
                                "predictions take it (Parallax's alpha)", _by(_SHARE)),
    "alpha": NamedField("share of the elements of all variables that one die's samples touch in a step, all of those "
                        "of dense ones (Parallax's alpha of a model); left out: it is not known", _SHARE),
    "direction": NamedField("fprop, bprop or update (weight gradient, its reduction, the weights' update)",
                            {"enum": ["fprop", "bprop", "update"]}),
    "winograd": NamedField("Winograd layers by name: F(outputs, taps), groups and clusters of dies",
                           _by(row("outputs taps groups clusters"))),
    "outputs": NamedField("outputs of a Winograd tile's side", _COUNT),
    "taps": NamedField("taps of a kernel's side", _COUNT),
    "groups": NamedField("groups of dies, which split the elements of tiles", _COUNT),
    "clusters": NamedField("clusters of dies, which split samples", _COUNT),
    "plan": NamedField("the plan, as `plinth schema plan` says", {"type": "object"}),
    # Time.
    "seconds": NamedField("time of the step", _AMOUNT),
    "cycles": NamedField("cycles of the step or run; in `layer_work` those on the step's critical path", _AMOUNT),
    "cycles_per_step": NamedField("cycles of a step, the mean of the run", _or_none(_AMOUNT)),
    "predicted_seconds": NamedField("time of a step as planners predict it", _AMOUNT),
    "predicted_cycles": NamedField("cycles of a step as planners predict it", _AMOUNT),
    "predicted_cycles_per_step": NamedField("the same, in the report of a run", _or_none(_AMOUNT)),
    "predicted_cycles_by_part": NamedField(
        "`compute`, `transfers` and `exposed_reductions` add up to the step; `reductions`: hidden ones as well",
        _by(_AMOUNT)),
    "busy_cycles": NamedField("cycles for which engines work; a simulated one as fast as it goes alone", _AMOUNT),
    "stall_input_cycles": NamedField("cycles for which an engine waits for operands", _COUNT),
    "stall_output_cycles": NamedField("cycles for which an engine waits for room", _COUNT),
    "stall_memory_cycles": NamedField("cycles for which an engine waits for memory", _COUNT),
    "matrix_cycles": NamedField("cycles of a layer's matrix tasks in the last step, of the die with most",
                                _or_none(_COUNT)),
    "start_cycle": NamedField("when a task began, from the first one's start on", _COUNT),
    "end_cycle": NamedField("when it ended", _COUNT),
    "wall_seconds": NamedField("time of the run's steps on the host", _AMOUNT),
    "setup_seconds": NamedField("time before the first step on the host", _AMOUNT),
    "die_cycles_per_second": NamedField("simulated cycles a second, all dies together", _or_none(_AMOUNT)),
    "engine_seconds": NamedField("of each engine of a die: seconds of the step `busy`, `shared` (what sharing memory "
                                 "or links made it longer), `waiting` (for other tasks) and `idle` (behind its last)",
                                 _by(_by(_AMOUNT))),
    # What moves.
    "injected_words": NamedField("words that dies send to other dies, each counted once; as the plan says, or, in a "
                                 "run, as the dies count (null: they do not)", _or_none(_AMOUNT)),
    "injected_words_by_die": NamedField("the same of each die", _list(_COUNT)),
    "predicted_injected_words": NamedField("the same as the plan says: of a step, or of a run's steps", _AMOUNT),
    "injected_words_bounds": NamedField("least and most that it can be, where data decide", _RANGE),
    "saved_words": NamedField("words a step that blocks of Winograd layers save", _COUNT),
    "link_words": NamedField("words on links, counted on each link of their routes", _or_none(_AMOUNT)),
    "link_words_by_port": NamedField("of each die, those that leave by each of its ports", _list(_list(_COUNT))),
    "dram_words": NamedField("words that memories read and write", _AMOUNT),
    "sram_words": NamedField("words that the engines' buffers read and write, as energy counts them", _AMOUNT),
    "payload_words": NamedField("words that an engine's tasks moved", _COUNT),
    "transfers": NamedField("transfers of a layer in a step", _list(row(
        "direction kind consumer predicted_injected_words injected_words_bounds injected_words"))),
    "reduction": NamedField("reduction of a layer's gradient; null: it has no weights",
                            _or_none(row("predicted_injected_words injected_words"))),
    "consumer": NamedField("layer that reads what is sent; null: the sender itself", _or_none(_TEXT)),
    "between_ranks": NamedField("what ranks of MPI sent each other, a row a pair",
                                _list(row("from_rank to_rank sent_words predicted_sent_words messages "
                                          "predicted_messages"))),
    "from_rank": NamedField("number of the rank that sends", _COUNT),
    "to_rank": NamedField("number of the rank that receives", _COUNT),
    "sent_words": NamedField("words that it sent, counted as they were handed over", _COUNT),
    "predicted_sent_words": NamedField("words that the plan says", _COUNT),
    "messages": NamedField("messages that they went in", _COUNT),
    "predicted_messages": NamedField("messages that the step says", _COUNT),
    "links": NamedField("links between dies, a row each", _list(row("link words_per_second link_words utilisation"))),
    "link": NamedField("name of a link", _TEXT),
    "words_per_second": NamedField("what a link can carry", _AMOUNT),
    "utilisation": NamedField("share of that that it carries", _AMOUNT),
    # Work and energy.
    "macs": NamedField("multiply-adds of a task", _COUNT),
    "macs_range": NamedField("least and most of a die's multiply-adds", _RANGE),
    "useful_macs_range": NamedField("the same without zeros that fill blocks of sparse layers up", _RANGE),
    "useful_macs": NamedField("multiply-adds whose operands are neither padding nor fill of sparse layers", _COUNT),
    "issued_macs": NamedField("multiply-adds with padding and unused edges of the array", _COUNT),
    "matrix_utilisation": NamedField("useful multiply-adds / (PEs x cycles)", _or_none(_SHARE)),
    "adds": NamedField("additions, as energy counts them", _AMOUNT),
    "multiplies": NamedField("multiplications, as energy counts them", _AMOUNT),
    "energy_joules": NamedField("energy", _AMOUNT),
    "energy_joules_by_kind": NamedField("energy of `add`, `multiply`, `sram`, `dram` and `link`", _by(_AMOUNT)),
    # Memory of a die.
    "memory_bytes": NamedField("memory of a die, as in an array's file", _COUNT),
    "needed_memory_bytes": NamedField("memory that a step needs of every die", _COUNT),
    "fits_memory": NamedField("whether a die has that", _FLAG),
    "place_bytes": NamedField("places of a die's memory by name", _by(_COUNT)),
    # Simulated steps.
    "cost": NamedField("costs of the dies: die or paper", _TEXT),
    "simulated": NamedField("`task by task` or `in groups of tasks`", _TEXT),
    "grouped_because": NamedField("why in groups", _TEXT),
    "slow": NamedField("dies whose tasks take longer, and how many times", _by(_AMOUNT)),
    "tasks": NamedField("tasks, of all dies", _COUNT),
    "events": NamedField("events of the simulation", _COUNT),
    "layer_work": NamedField("what the step spends on each layer in each direction; rows add up to the report's own "
                             "fields",
                             _list(row("layer direction cycles busy_cycles injected_words dram_words energy_joules"))),
    "per_die": NamedField("dies, a row each", _list(row("die speed dram_words engine_seconds"))),
    "die": NamedField("number of a die", _COUNT),
    "speed": NamedField("speed of a die, 1 without stragglers", _AMOUNT),
    # Plans compared.
    "baselines": NamedField("what other planners' plans cost", _by(row("predicted_injected_words predicted_seconds"))),
    # Training runs.
    "epochs": NamedField("epochs that were asked for", _COUNT),
    "steps": NamedField("steps that were done", _COUNT),
    "update_rule": NamedField("the update's kind and numbers", row("kind rate momentum epsilon decay wide stochastic")),
    "rate": NamedField("learning rate", _AMOUNT),
    "momentum": NamedField("what momentum keeps of its state", _AMOUNT),
    "epsilon": NamedField("what Adagrad adds to its sum of squares, and RMSProp to the root of its mean", _AMOUNT),
    "decay": NamedField("what RMSProp keeps of its mean of squares in a step", _AMOUNT),
    "wide": NamedField("whether weights and states of fixed-point dies have 32 bits", _FLAG),
    "stochastic": NamedField("whether they are rounded at random", _FLAG),
    "scale": NamedField("factors on samples and targets", row("inputs targets")),
    "inputs": NamedField("factor on samples", _AMOUNT),
    "targets": NamedField("factor on targets", _AMOUNT),
    "losses": NamedField("loss of each step's batch", _list(_or_none(_REAL))),
    "last_loss": NamedField("the last of them", _or_none(_REAL)),
    "test_loss": NamedField("loss of the samples kept for testing", _or_none(_REAL)),
    "test_accuracy": NamedField("share of them that is right; null: no classes", _or_none(_SHARE)),
    "train_loss": NamedField("loss of the samples for training", _or_none(_REAL)),
    "train_accuracy": NamedField("share of the samples for training that is right; null: no classes", _or_none(_SHARE)),
    "epochs_done": NamedField("whole epochs that a checkpoint was trained for", _COUNT),
    "epoch_steps": NamedField("steps of a further epoch that it was trained for", _COUNT),
    "bit_exact": NamedField("whether every weight of every die equals the golden model's after each step; null: not "
                            "compared", _or_none(_FLAG)),
    "compared_steps": NamedField("steps after which they were compared", _COUNT),
    "checked_steps": NamedField("steps that were compared with the float64 reference", _COUNT),
    "failure": NamedField("why the run ended early; null: it did not", _or_none(_TEXT)),
    **{f"{name}_error": NamedField(f"largest error of {what} against float64", _or_none(_AMOUNT)) for name, what in (
        ("prediction", "predictions"), ("loss", "the loss"), ("gradient", "a gradient"), ("update", "an update"),
        ("descent", "an update, against the rule"), ("state", "an update's state"))},
    "errors": NamedField("each error over its factor: largest, median, and what is allowed", _by(
        row("largest largest_allowed", "median median_allowed"))),
    "largest": NamedField("largest of all steps", _or_none(_AMOUNT)),
    "median": NamedField("median of all steps", _or_none(_AMOUNT)),
    "mean": NamedField("mean of all steps", _or_none(_AMOUNT)),
    "largest_allowed": NamedField("bound of the largest", _AMOUNT),
    "median_allowed": NamedField("bound of the median", _AMOUNT),
    "unsaturated_steps": NamedField("16-bit steps without saturation, which have closer bounds; null: other formats",
                                    _or_none(row("judged errors"))),
    "judged": NamedField("how many there are", _COUNT),
    "verdict_steps": NamedField("steps from which on medians are bounded", _COUNT),
    "kinks": NamedField("kinks at which roundings of the dies decide", _COUNT),
    "kink_share": NamedField("their share of a step's kinks", row("largest mean largest_allowed")),
    "kink_difference": NamedField("by how much a gradient differs on the other side", row("largest mean")),
    "gather_thresholds": NamedField("bit-plane thresholds of predicted gathers, by layer", _by({"type": "integer"})),
    "saturations": NamedField("saturated numbers of each die since they were cleared; null: no fixed point",
                              _or_none(_list(_by(_COUNT)))),
    "engine_counters": NamedField("counters of each engine, all dies together", _by(row(
        "tasks busy_cycles stall_input_cycles stall_output_cycles stall_memory_cycles payload_words useful_macs "
        "issued_macs"))),
    "timeline": NamedField("tasks of the last step on die 0", _list(row("task engine start_cycle end_cycle"))),
    "verilog_sha256": NamedField("digest of the dies' Verilog; null: no RTL", _or_none(_TEXT)),
    # Steps as data.
    "digest": NamedField("SHA-256 of a step", _TEXT),
    "operations": NamedField("operations in the order of every die's program", _list(row(
        "operation layer direction kind engine_names tasks_range macs_range useful_macs_range"))),
    "operation": NamedField("name of an operation", _TEXT),
    "engine_names": NamedField("engines that do its tasks", _TEXTS),
    "tasks_range": NamedField("least and most of a die's tasks", _RANGE),
    "program": NamedField("tasks of a die in their order", _list(row("task engine does reads writes macs"))),
    "task": NamedField("name of a task", _TEXT),
    "engine": NamedField("its engine; null: something arrives", _or_none(_TEXT)),
    "does": NamedField("what it does, in words", _TEXT),
    "reads": NamedField("places that it reads", _list(row("place first_word end_word"))),
    "writes": NamedField("places that it writes", _list(row("place first_word end_word"))),
    "place": NamedField("name of a place", _TEXT),
    "first_word": NamedField("first word in the place", _COUNT),
    "end_word": NamedField("word behind the last", _COUNT),
    "digests": NamedField("SHA-256 of two steps", _TEXTS),
    "equal": NamedField("whether they are one", _FLAG),
    "differences": NamedField("where they differ", _list(row("what name how"))),
    "what": NamedField("setting, splits, place, operation or task", _TEXT),
    "name": NamedField("name of what the row is about", _TEXT),
    "how": NamedField("`first` or `second`: only there; `differs`; `order`", _TEXT),
    # Benchmarks.
    "rows": NamedField("benchmarks", _list(row("name value unit limited_by detail commit"))),
    "value": NamedField("what was measured", _REAL),
    "unit": NamedField("its unit", _TEXT),
    "limited_by": NamedField("what limits it", _TEXT),
    "detail": NamedField("what else was measured; its keys are the row's own", {"type": "object"}),
    # Profiles of devices.
    "measured_under": NamedField("what measured times depend on, in words: preset, clock, threads", _by(_TEXT)),
    "metric": NamedField("what local layers were chosen by: time, energy, energy-delay or memory", _TEXT),
    "costs": NamedField("coefficients of Deep3's Table 2", row(
        "flop_seconds act_seconds err_seconds batch_seconds net_seconds word_seconds")),
    "flop_seconds": NamedField("time of a multiply-add of one sample, forward (alpha_flop)", _MEASURE),
    "act_seconds": NamedField("time of a unit's activation (alpha_act)", _MEASURE),
    "err_seconds": NamedField("time of a unit's error (alpha_err)", _MEASURE),
    "batch_seconds": NamedField("time of a batch, however large", _MEASURE),
    "net_seconds": NamedField("time of a message, however long (alpha_net)", _MEASURE),
    "word_seconds": NamedField("time of each word of a message", _MEASURE),
    "costs_error": NamedField("median relative error of Table 2 on batches that played no part in it; null: none",
                              _or_none(_MEASURE)),
    "kinds": NamedField("kinds of work that were measured", _list(row(
        "kind form tile constant_seconds coefficients least_sizes most_sizes fit_error check_error measurements"))),
    "form": NamedField("sum or max of its terms", _TEXT),
    "tile": NamedField("rows and columns that sizes are rounded up to", _list(_SIZE)),
    "constant_seconds": NamedField("time of the least work of a kind", _MEASURE),
    "coefficients": NamedField("time of one of each term", _list(_MEASURE)),
    "least_sizes": NamedField("smallest sizes that were measured", _list(_SIZE)),
    "most_sizes": NamedField("largest sizes that were measured", _list(_SIZE)),
    "fit_error": NamedField("median relative error on measurements that a fit was made from; null: there are none",
                            _or_none(_MEASURE)),
    "check_error": NamedField("median relative error on measurements that played no part in a fit; null: there are "
                              "none", _or_none(_MEASURE)),
    "measurements": NamedField("measured times of a kind of work, a row each", _list(row(
        "sizes amount measured_seconds fitted_seconds region fitted_to"))),
    "sizes": NamedField("sizes of some work, as its kind has them", _list(_SIZE)),
    "amount": NamedField("multiply-adds, elements, weights or words of some work", _MEASURE),
    "measured_seconds": NamedField("time that was measured", _MEASURE),
    "fitted_seconds": NamedField("time by the fit", _MEASURE),
    "region": NamedField("what bounds it: occupancy, compute or bandwidth", _TEXT),
    "fitted_to": NamedField("whether the fit was made from it", _FLAG),
    "batch_fit": NamedField("the fit of whole batches", row("terms coefficients fit_error check_error")),
    "terms": NamedField("terms of the fit of batches: operations, or amounts of them", _TEXT),
    "batches": NamedField("whole batches that were measured, a row each", _list(row(
        "batch macs_per_sample units parameters measured_seconds fitted_seconds fitted_to"))),
    "units": NamedField("elements of a sample's input and of the outputs of all layers with weights", _SIZE),
    "cache": NamedField("cache of this machine, as measured; null: it was not", _or_none(row(
        "knee_bytes working_set_bytes bytes_per_second stated_bytes"))),
    "knee_bytes": NamedField("largest working set before the rate falls; null: it does not", _or_none(_COUNT)),
    "working_set_bytes": NamedField("sizes of working sets that were gone over", _list(_COUNT)),
    "bytes_per_second": NamedField("rate of each working set", _list(_MEASURE)),
    "stated_bytes": NamedField("caches as the system says, by level", _by(_COUNT)),
    "watts": NamedField("power of the device that was stated; null: none was", _or_none(_MEASURE)),
    "local": NamedField("hidden layers that suit the device; null: for no network", _or_none(row(
        "widths global_widths needed_memory_bytes limit_bytes rule"))),
    "widths": NamedField("units or channels of these hidden layers (S_L)", _list(_SIZE)),
    "global_widths": NamedField("those of the network's own hidden layers (S_G)", _list(_SIZE)),
    "limit_bytes": NamedField("memory or cache of the device that they are to fit", _COUNT),
    "rule": NamedField("by what they were chosen, in words", _TEXT),
    "network_sha256": NamedField("digest of the network's definition", _TEXT),
    # Number formats.
    "formats": NamedField("number formats and updates, a row each", _list(row("name test_accuracies"))),
    "test_accuracies": NamedField("share of the samples kept for testing that is right, of each seed", _list(_SHARE)),
    # What has a name.
    "networks": NamedField("networks that have a name", _list(row(
        "name input_shape output_shape loss_kind layer_count weighted_layer_count parameters macs_per_sample"))),
    "input_shape": NamedField("features, or channels, height and width, of a sample", _list(_COUNT)),
    "output_shape": NamedField("the same of what the network predicts", _list(_COUNT)),
    "loss_kind": NamedField("kind of the loss layer", _TEXT),
    "layer_count": NamedField("layers of a network", _COUNT),
    "weighted_layer_count": NamedField("layers of a network that have weights", _COUNT),
    "arrays": NamedField("arrays that have a name", _list(row(
        "name topology dies link_count ports switches preset link_words_per_cycle link_latency_cycles clock_mhz"))),
    "topology": NamedField("how dies are joined", _TEXT),
    "link_count": NamedField("links of an array", _COUNT),
    "ports": NamedField("ports of a die", _COUNT),
    "switches": NamedField("switches without dies", _COUNT),
    "link_words_per_cycle": NamedField("words a cycle of a die's links along a ring", _AMOUNT),
    "link_latency_cycles": NamedField("cycles from one die to the next", _COUNT),
    "clock_mhz": NamedField("clock of the dies in MHz", _AMOUNT),
    "presets": NamedField("presets of dies", _list(row(
        "name pe_rows pe_columns multiply_format beat_words memory_words_per_cycle"))),
    "pe_rows": NamedField("rows of the matrix engine's array", _COUNT),
    "pe_columns": NamedField("columns of the matrix engine's array", _COUNT),
    "multiply_format": NamedField("number format of the operands of products", _TEXT),
    "beat_words": NamedField("words of a beat of memory", _COUNT),
    "memory_words_per_cycle": NamedField("words that memory moves a cycle", _AMOUNT),
    # Tools.
    "tools": NamedField("tools, packages and resources of the machine", _list(row(
        "name purpose needed found tool_version location remedy"))),
    "purpose": NamedField("what a tool is for", _TEXT),
    "needed": NamedField("whether nothing works without it", _FLAG),
    "found": NamedField("whether it is there", _FLAG),
    "tool_version": NamedField("version of a tool, or how much there is of a resource", _TEXT),
    "location": NamedField("file or folder of a tool or resource", _TEXT),
    "remedy": NamedField("the command that mends what is missing; empty: nothing is", _TEXT),
    # Local networks.
    "layer_widths": NamedField("elements of a network's input, then units of each layer that has its own; of a kernel "
                               "those of its local networks", _list(_COUNT)),
    "data": NamedField("name of the samples", _TEXT),
    "clock": NamedField("`real`, or `virtual`: kernels take as long as their profiles say", _TEXT),
    "merge": NamedField("how differences of kernels are merged: `add`, `divide` by holders, or `auto`", _TEXT),
    "divided": NamedField("variables whose differences are divided by the kernels that hold a weight", _TEXTS),
    "draw": NamedField("how units of a set are drawn: `uniform` or `balanced`", _TEXT),
    "push": NamedField("batches of a set, n_push", _COUNT),
    "printed_push": NamedField("n_push by Deep3's cost model", _AMOUNT),
    "corrected_push": NamedField("n_push by the cost model with convergence; null: not asked for", _or_none(_AMOUNT)),
    "measured_push": NamedField("the number of batches, of those that were tried on a share of the samples, of the "
                                "least time; null: not asked for", _or_none(_COUNT)),
    "n0": NamedField("n_push that doubles the batches which training takes, fitted; null: not asked for",
                     _or_none(_AMOUNT)),
    "merged_batches": NamedField("batches of answers that were merged", _COUNT),
    "ended": NamedField("why training ended: `accuracy`, `batches`, `lost` (all kernels) or `interrupted`", _TEXT),
    "kernels": NamedField("kernels", _list(row(
        "kernel layer_widths macs_share update sets merged_sets dropped_sets merged_batches mean_staleness "
        "largest_staleness set_words answer_words seconds cycles bit_exact lost"))),
    "kernel": NamedField("device of a kernel", _TEXT),
    "macs_share": NamedField("multiply-adds of the local network over those of the global one", _SHARE),
    "sets": NamedField("sets of weights that kernels were sent; of a curve answers that were merged", _COUNT),
    "merged_sets": NamedField("answers that were merged", _COUNT),
    "dropped_sets": NamedField("answers that were not merged", _COUNT),
    "mean_staleness": NamedField("answers of others that were merged while a kernel trained, on average; null: none",
                                 _or_none(_AMOUNT)),
    "largest_staleness": NamedField("the same, at most", _or_none(_COUNT)),
    "set_words": NamedField("words of 32 bits of sets that a kernel was sent: weights, and numbers of units", _COUNT),
    "answer_words": NamedField("words of 32 bits of answers that came from a kernel", _COUNT),
    "exchanged_words": NamedField("words of 32 bits, both ways, so far", _COUNT),
    "lost": NamedField("why a kernel was left out; empty: it was not", _TEXT),
    "incidents": NamedField("what happened beside merges, a line each", _TEXTS),
    "curve": NamedField("validations", _list(row(
        "sets merged_batches exchanged_words seconds test_loss test_accuracy"))),
    "synchronous": NamedField("synchronous training of the global network", _list(row("dropped_share curve"))),
    "dropped_share": NamedField("share of hidden units that dropout leaves out", _SHARE),
    "projection": NamedField("projection of the samples: its size, tolerance and error", {"type": "object"}),
    # Papers.
    "citation": NamedField("the paper", _TEXT),
    "conditions": NamedField("conditions of its figures", _TEXT),
    "confidences": NamedField("how published values were read, and what that means", _by(_TEXT)),
    "fitted": NamedField("constants that were fitted", {"type": "array", "items": {"type": "object"}}),
    "tables": NamedField("tables, as docs/reproduce.md says", {"type": "array", "items": {"type": "object"}}),
    "entries_by_status": NamedField("published numbers by what agreement with them is worth",
                                    _by({"type": "object"})),
    "claims_by_verdict": NamedField("claims in words, by whether they hold", _by(_COUNT)),
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
        return next(filter(None, (fault(inner, form.get("items", {}), name) for inner in value)), "")
    if isinstance(value, dict):
        known, others = form.get("properties", {}), form.get("additionalProperties", {})
        missing = next((key for key in form.get("required", ()) if key not in value), None)
        if missing is not None:
            return f"{f'{name} has no' if name else 'there is no'} {missing!r}"
        for key, field_value in value.items():
            if key not in known and others is False:
                return f"{key[:40]!r} is no field" + (f" of {name}" if name else "")
            problem = fault(field_value, known.get(key, others), key if key in known else name)
            if problem:
                return problem
    return ""
