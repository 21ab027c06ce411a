"""What every report of a training run must say."""

from typing import Any


def assert_report_exact(report: dict[str, Any]) -> None:
    """RTL is golden, steps are the network's within the bounds of the format, every layer moves the planned words."""
    assert report["bit_exact"] is True
    assert report["failure"] is None and report["gradient_error"] > 0
    assert sum(report["injected_bytes"]) == report["injected_bytes_predicted"]
    for layer in report["layers"]:
        for entry in (*layer["transfers"], layer["reduction"]):
            assert entry["words_counted"] == entry["words_predicted"], layer["layer"]
