"""Tables of the README: rows that were measured again change, others stay."""

import json
from pathlib import Path

from plinth.report import figures

REPORT = {"network": "net", "dies": 2, "preset": "tiny", "steps": 3, "test_accuracy": 0.5,
          "prediction_error": 1e-7, "loss_error": 2e-8, "gradient_error": 3e-6, "update_error": 4e-7,
          "cycles_per_step": 1234.4, "matrix_utilisation": 0.634, "injected_bytes": [1000, 24], "commit": "c0ffee"}
ROWS = [{"name": "second", "unit": "|a / b - 1|", "value": 0.25, "commit": "dead-dirty"},
        {"name": "third", "unit": "words", "value": 12345.6, "commit": None}]


def test_rows_that_were_measured_are_replaced(tmp_path: Path) -> None:
    readme, report, bench = (tmp_path / name for name in ("README.md", "report.json", "bench.json"))
    report.write_text(json.dumps(REPORT))
    bench.write_text(json.dumps(ROWS))
    readme.write_text(f"head\n{figures.BEGIN}| old | |\n| `first_1e-5`, seconds | 1.000 | beef |\n"
                      f"| `second`, \\|old\\| | 0.100 |\n{figures.END}tail | `fourth`, x | 1 |\n")
    assert figures.main([str(readme), str(report), str(bench)]) == 0
    text = readme.read_text()
    assert text.startswith(f"head\n{figures.BEGIN}| `make train`: net on 2 x tiny | | commit |\n")
    assert "| cycles a step | 1,234 | c0ffee |\n" in text
    assert "counted (as many as planned) | 1,024 | c0ffee |\n" in text
    assert text.endswith("| `make bench` | | commit |\n| --- | ---: | --- |\n| `first_1e-5`, seconds | 1.000 | beef |\n"
                         "| `second`, \\|a / b - 1\\| | 0.250 | dead-dirty |\n| `third`, words | 12,346 | unknown |\n"
                         f"{figures.END}tail | `fourth`, x | 1 |\n")
    figures.main([str(readme), str(report), str(bench)])
    assert readme.read_text() == text
