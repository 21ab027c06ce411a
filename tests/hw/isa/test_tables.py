"""The programmer's guide shows the declarations as they are."""

from pathlib import Path

from plinth_hw.isa.__main__ import main

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "programming.md"


def test_the_guide_is_up_to_date() -> None:
    assert main(["--check", str(GUIDE)]) == 0, "run: python -m plinth_hw.isa docs/programming.md"


def test_an_edited_guide_is_noticed_and_mended(tmp_path) -> None:
    copy = tmp_path / "guide.md"
    copy.write_text(GUIDE.read_text().replace("`wait_enable`", "`wait_disable`"))
    assert main(["--check", str(copy)]) == 1
    assert main([str(copy)]) == 0
    assert copy.read_text() == GUIDE.read_text()
