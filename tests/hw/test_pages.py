"""Pages whose tables are written from the presets."""

import pytest
from amaranth.hdl import Fragment

from plinth_hw import pages
from plinth_hw.control.control import Control
from plinth_hw.control.registers import ENGINE_COUNTERS, counter_count
from plinth_hw.isa.parameters import PRESETS


def test_pages_are_current() -> None:
    assert pages.main(["--check"]) == 0, "run: python -m plinth_hw.pages"


def test_a_stale_page_is_told_and_written(tmp_path, monkeypatch, capsys) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x -->\n| 1 |\n<!-- /x -->\nafter\n")
    monkeypatch.setattr(pages, "pages", lambda root: {page: {"x": ["| 2 |"]}})
    assert pages.main(["--check"]) == 1
    assert "out of date: page.md; run python -m plinth_hw.pages" in capsys.readouterr().err
    assert pages.main([]) == 0 and pages.main(["--check"]) == 0
    assert page.read_text() == "before\n<!-- x -->\n| 2 |\n<!-- /x -->\nafter\n"
    assert pages.main(["now"]) == 2
    with pytest.raises(ValueError, match="has no markers <!-- y -->"):
        pages.replaced(page.read_text(), "y", [])


@pytest.mark.parametrize("name", ["ndp-tiny", "fpga-demo", "hypar-demo"])
def test_performance_counters_are_counted(name: str) -> None:
    """The number that the page gives is that of the hardware, which says so while it is built."""
    parameters = PRESETS[name]
    assert counter_count(parameters) == 38 + (2 + ENGINE_COUNTERS) * name.startswith("fpga")
    Fragment.get(Control(parameters, [None], [None]), None)
