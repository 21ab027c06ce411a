"""Reports: what commands tell programs, as JSON. Each says its kind and version and has a schema; who reads one refuses
other kinds and versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plinth.errors import UserError, quoted
from plinth.files.documents import read_json, report_name, what_is
from plinth.files.fields import FIELDS, Schema, fault, row, used
from plinth.files.forms import described

#: Version of all reports, whose names they share. Before 2 most had none.
REPORT_VERSION = 2
#: Largest report that is read, in bytes.
MAXIMUM_BYTES = 1 << 26


@dataclass(frozen=True)
class ReportForm:
    """A kind of report: what it is, what makes one, and its fields by name, of which some may be missing."""

    what: str
    made_by: str
    fields: str
    optional: str = ""

    @property
    def form(self) -> Schema:
        """The schema of the report's fields, kind and version first."""
        return row(f"report version {self.fields}", self.optional)


_STEP = "network array dies word_bytes batch planner update"
#: All kinds by name.
REPORTS: dict[str, ReportForm] = {
    "train": ReportForm(
        "a training run", "plinth train",
        f"{_STEP} parameters notes preset device update_rule seed epochs scale steps losses last_loss test_accuracy "
        "test_loss bit_exact compared_steps failure prediction_error loss_error gradient_error "
        "update_error errors unsaturated_steps verdict_steps kinks kink_share kink_difference cycles cycles_per_step "
        "predicted_cycles_per_step wall_seconds setup_seconds die_cycles_per_second matrix_utilisation engine_counters "
        "injected_words injected_words_by_die predicted_injected_words injected_words_bounds link_words "
        "link_words_by_port gather_thresholds saturations layers plan verilog_sha256 commit timeline",
        "descent_error state_error checked_steps between_ranks"),
    "local": ReportForm(
        "a training run by local networks", "plinth train --local",
        "network parameters notes layer_widths batch update seed data scale clock merge divided draw push printed_push "
        "corrected_push measured_push n0 merged_batches ended test_loss test_accuracy seconds wall_seconds "
        "setup_seconds kernels incidents curve synchronous commit", "projection"),
    "plan": ReportForm(
        "a plan and what it costs", "plinth plan --json",
        f"{_STEP} model levels factors layers predicted_injected_words predicted_seconds predicted_cycles "
        "predicted_cycles_by_part cycles_from memory_bytes needed_memory_bytes fits_memory baselines",
        "micro_batches saved_words place_bytes notes touched_share alpha"),
    "simulate": ReportForm(
        "a simulated step", "plinth simulate --json",
        f"{_STEP} model cost cycles_from simulated slow seconds cycles energy_joules energy_joules_by_kind "
        "memory_bytes needed_memory_bytes injected_words winograd adds multiplies sram_words dram_words link_words "
        "tasks events layer_work per_die links", "grouped_because saved_words"),
    "step": ReportForm("what dies do in a step", "plinth step --json", f"{_STEP} preset digest",
                       "place_bytes operations die program"),
    "step-comparison": ReportForm("where two steps differ", "plinth step --against PLAN --json",
                                  "network digests equal differences"),
    "eval": ReportForm("what a checkpoint is worth", "plinth eval CHECKPOINT --json",
                       "network epochs_done epoch_steps seed scale train_accuracy train_loss test_accuracy test_loss"),
    "bench": ReportForm("benchmarks, and comparisons with what dies count", "plinth bench", "rows"),
    "accuracy": ReportForm("what each number format learns", "plinth accuracy --json", "formats"),
    "reproduce": ReportForm("a paper's figures, computed anew", "plinth reproduce PAPER --json",
                            "citation conditions confidences fitted tables entries_by_status claims_by_verdict"),
    "profile": ReportForm(
        "what training costs on a device, and the local layers that it suits", "plinth profile DEVICE --out FILE",
        "device measured_under metric costs costs_error kinds batch_fit batches cache watts local commit",
        "network network_sha256 batch"),
    "list": ReportForm("what has a name", "plinth list --json", "networks arrays presets"),
    "doctor": ReportForm("which tools the machine has", "plinth doctor --json", "tools"),
}


def report(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A report of a kind of :data:`REPORTS`, which says its kind and version first."""
    return {"report": kind, "version": REPORT_VERSION, **fields}


def check_report(data: Any, where: str, kind: str, remedy: str = "") -> dict[str, Any]:
    """``data`` if it is a report of a kind, of today's version.

    Parameters
    ----------
    data : object
    where : str
        Named in errors.
    kind : str
        One of :data:`REPORTS`.
    remedy : str
        For errors; default: the command that makes one.

    Raises
    ------
    UserError
        With what it is, what is wanted, and the remedy.
    """
    wanted, remedy = report_name(kind), remedy or f"make one with `{REPORTS[kind].made_by}`"
    if not isinstance(data, dict) or data.get("report") != kind:
        raise UserError(f"{where}: {what_is(data)}, where {wanted} is wanted; {remedy}")
    version = data.get("version")
    if version != REPORT_VERSION or isinstance(version, bool):
        # A report is JSON: of a text no hint at how YAML reads one.
        found = f"the text {quoted(version, 40)}" if isinstance(version, str) else described(version)
        raise UserError(f"{where}: version {found} of {wanted}, where version {REPORT_VERSION} is wanted; {remedy}")
    problem = fault(data, REPORTS[kind].form)
    if problem:
        raise UserError(f"{where}: {wanted} in which {problem}; {remedy}")
    return data


def read_report(path: Path, kind: str, remedy: str = "") -> dict[str, Any]:
    """The report of a kind that a file holds; ``remedy`` as of :func:`check_report`.

    Raises
    ------
    UserError
        If the file cannot be read, is no JSON, or another report.
    """
    return check_report(read_json(path, MAXIMUM_BYTES), str(path), kind, remedy)


def report_schema(kind: str) -> Schema:
    """The form of a kind of report as JSON Schema."""
    form, top = REPORTS[kind], REPORTS[kind].form
    names: dict[str, Schema] = {}
    waiting = list(used(top))
    while waiting:
        name = waiting.pop(0)
        if name not in names:
            names[name] = {"description": FIELDS[name].what} | FIELDS[name].form
            waiting += used(FIELDS[name].form)
    names["report"] = names["report"] | {"const": kind}
    names["version"] = names["version"] | {"const": REPORT_VERSION}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Plinth {kind} report",
            "description": f"{form.what[0].upper()}{form.what[1:]}: `{form.made_by}`."} | top | {"$defs": names}
