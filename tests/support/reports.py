"""What every report of a training run must say."""

from typing import Any


def assert_report_exact(report: dict[str, Any], gradient_error: float = 1e-4) -> None:
    """RTL is golden, gradients are the network's within an error, every layer moves the planned words."""
    assert report["bit_exact"] is True
    assert report["gradient_error"] < gradient_error
    assert sum(report["injected_bytes"]) == report["injected_bytes_predicted"]
    for layer in report["layers"]:
        for entry in (*layer["transfers"], layer["reduction"]):
            assert entry["words_counted"] == entry["words_predicted"], layer["layer"]
