"""Parts of pages between marks: what is made anew, and which pages have no place for it."""

from pathlib import Path

import pytest
from tests.support.refusal import refused

from plinth_hw.terminal.marked import MarkError, remade, replaced

PAGE = "# A\n<!-- a -->\nold\nlines\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_part_is_made_from_its_old_text(ending: str) -> None:
    seen = []

    def lines(old: str) -> list[str]:
        seen.append(old)
        return ["new", "", "line"]

    page = replaced(PAGE.replace("\n", ending), "a", lines)
    assert seen == ["old\nlines\n"]
    assert page == PAGE.replace("old\nlines", "new\n\nline").replace("\n", ending)
    page = replaced(PAGE.replace("\n", ending), "b", lines)
    assert seen == ["old\nlines\n", ""]
    assert page == PAGE.replace("<!-- b -->\n", "<!-- b -->\nnew\n\nline\n").replace("\n", ending)
    assert replaced(PAGE, "a", lambda old: []) == PAGE.replace("old\nlines\n", "")


@pytest.mark.parametrize(("page", "message"), [
    ("", "has no lines <!-- a -->, which should stand once"),
    ("<!-- a -->\n", "has no lines <!-- /a -->"),
    ("<!-- a -->\ntext, up to <!-- /a -->\n", "has no lines <!-- /a -->"),
    ("the mark <!-- a -->\n<!-- /a -->\n", "has no lines <!-- a -->"),
    ("<!-- a -->\n<!-- /a -->\n<!-- a -->\n", "has 2 lines <!-- a -->"),
    ("<!-- a -->\n<!-- /a -->\ntext\n<!-- /a -->\n", "has 2 lines <!-- /a -->"),
    ("<!-- /a -->\n<!-- a -->\n", "has the line <!-- /a --> before <!-- a -->")])
def test_pages_without_one_place(page: str, message: str) -> None:
    with refused(MarkError, message):
        replaced(page, "a", lambda old: ["new"])


def test_a_file_of_several_parts(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(PAGE.replace("\n", "\r\n").encode())
    text = remade(page, {"a": lambda old: ["1"], "b": lambda old: ["2"]})
    assert text.split("\r\n") == ["# A", "<!-- a -->", "1", "<!-- /a -->", "between", "<!-- b -->", "2", "<!-- /b -->"]
    page.write_bytes(b"<!-- a -->\n\xff\n<!-- /a -->\n")
    with refused(MarkError, "is no text in UTF-8"):
        remade(page, {"a": lambda old: ["1"]})
