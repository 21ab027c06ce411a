"""Tables of README and page: rows that were measured again change, others stay; each names its commit."""

import json
from pathlib import Path

import pytest
from tests.support.reports import blank

from plinth.errors import UserError
from plinth.report import figures

REPORT = blank("train", network="net", dies=2, preset="tiny", steps=3, test_accuracy=0.5, prediction_error=1e-7,
               loss_error=2e-8, gradient_error=3e-6, update_error=4e-7, cycles_per_step=1234.4,
               matrix_utilisation=0.634, injected_words=256, word_bytes=4, commit="c0ffee")
ROWS = [{"name": "second", "unit": "|a / b - 1|", "value": 0.25, "limited_by": "x | y", "detail": {},
         "commit": "dead-dirty"},
        {"name": "cosim_rate", "unit": "words", "value": 12345.6, "limited_by": "z", "detail": {}, "commit": None}]
BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->"


def test_rows_that_were_measured_are_replaced(tmp_path: Path) -> None:
    readme, page, report, bench = (tmp_path / name for name in ("README.md", "page.md", "report.json", "bench.json"))
    report.write_text(json.dumps(REPORT))
    bench.write_text(json.dumps(blank("bench", rows=ROWS)))
    readme.write_text(f"head\n{BEGIN}| old | |\n| `ring_efficiency`, seconds | 1.000 | beef |\n"
                      f"| `cosim_rate`, words | 0.100 | beef |\n{END}\ntail | `fourth`, x | 1 |\n")
    page.write_text(f"top\n{BEGIN}| `first_1e-5` | 1.000 | seconds | w | beef |\n"
                    f"| `second` | 0.100 | \\|old\\| | v | beef |\n{END}")
    arguments = list(map(str, (readme, page, report, bench)))
    assert figures.main(arguments) == 0
    text, other = readme.read_text(), page.read_text()
    assert text.startswith(f"head\n{BEGIN}| `make train`: net on 2 x tiny | | commit |\n")
    assert "| cycles a step | 1,234 | c0ffee |\n" in text
    assert "counted (as many as planned) | 1,024 | c0ffee |\n" in text
    assert text.endswith("| `make bench`, `make fresh`, `make mutate` | | commit |\n| --- | ---: | --- |\n"
                         "| `ring_efficiency`, seconds | 1.000 | beef |\n| `cosim_rate`, words | 12,346 | unknown |\n"
                         f"{END}\ntail | `fourth`, x | 1 |\n")
    assert other == (
        f"top\n{BEGIN}| row | | unit | limited by | commit |\n| --- | ---: | --- | --- | --- |\n"
        "| `first_1e-5` | 1.000 | seconds | w | beef |\n| `second` | 0.250 | \\|a / b - 1\\| | x \\| y | dead-dirty |\n"
        f"| `cosim_rate` | 12,346 | words | z | unknown |\n{END}")
    figures.main(arguments)
    assert (readme.read_text(), page.read_text()) == (text, other)


def test_a_page_without_a_place_for_them_is_left_alone(tmp_path: Path) -> None:
    for name, text in (("README.md", "no markers"), ("report.json", json.dumps(REPORT)),
                       ("bench.json", json.dumps(blank("bench")))):
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match="has no lines <!-- figures -->, which should stand once"):
        figures.main([str(tmp_path / name) for name in ("README.md", "README.md", "report.json", "bench.json")])
    assert (tmp_path / "README.md").read_text() == "no markers"
