"""What every report of a training run must say, and reports that say nothing in particular."""

from typing import Any

from plinth.files.fields import FIELDS, Schema
from plinth.files.reports import REPORTS, report

#: The least that values of JSON Schema's types can be.
_LEAST = {"string": "x", "boolean": False, "integer": 0, "number": 0, "null": None, "array": [], "object": {}}


def assert_report_exact(report: dict[str, Any]) -> None:
    """RTL is golden, steps are the network's within the bounds of the format, every layer moves the planned words."""
    assert report["bit_exact"] is True
    assert report["failure"] is None and report["gradient_error"] > 0
    assert report["injected_words"] == sum(report["injected_words_by_die"]) == report["predicted_injected_words"]
    for layer in report["layers"]:
        for entry in (*layer["transfers"], layer["reduction"]):
            assert entry["injected_words"] == entry["predicted_injected_words"], layer["layer"]


def least(form: Schema) -> Any:
    """The smallest value of a form."""
    if "$ref" in form:
        return least(FIELDS[form["$ref"].removeprefix("#/$defs/")].form)
    if "enum" in form:
        return form["enum"][0]
    kind = form["type"] if isinstance(form["type"], str) else form["type"][-1]
    if kind == "object":
        return {name: least(form["properties"][name]) for name in form.get("required", ())}
    if kind == "array":
        return [least(form["items"]) for _ in range(form.get("minItems", 0))]
    return _LEAST[kind]


def blank(kind: str, **fields: Any) -> dict[str, Any]:
    """A report of a kind with these fields, and the least of each other that it must have."""
    return report(kind, {name: least(FIELDS[name].form) for name in REPORTS[kind].fields.split()} | fields)
