"""Numbers of tables are whole at any width."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from plinth_hw.terminal.table import new_table, print_markdown, print_table

WIDTHS = (1, 20, 40, 60, 80, 120, 200)


def _console(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, legacy_windows=False)


def _text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=8), st.sampled_from(WIDTHS), st.text("ab ", max_size=90))
def test_numbers_are_whole(numbers: list[int], width: int, text: str) -> None:
    table = new_table("name of a thing", *("a heading of words" for _ in numbers), text=["name of a thing"])
    table.add_row(text, *(f"{number:,}" for number in numbers))
    console = _console(width)
    print_table(console, table)
    assert [word for word in _text(console).split() if re.fullmatch(r"[\d,]+", word)] == [
        f"{number:,}" for number in numbers]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_is_no_wider_than_it_must(width: int) -> None:
    table = new_table("a name", "some words", "value in units", text=("a name", "some words"), title="title")
    table.add_row("xylophone", "with words that wrap where there is no room " * 3, "123,456")
    console = _console(width)
    print_table(console, table)
    widest = max(map(len, _text(console).splitlines()))
    assert widest <= max(width, 8 + 8 + len("123,456") + 2)
    assert width < 200 or " ".join(["with words that wrap where there is no room"] * 2) in _text(console)


def test_tables_of_markdown_are_tables() -> None:
    console = _console(40)
    print_markdown(console, "before\n\n| what | how much |\n| --- | ---: |\n| `a` \\| **b** | 1,234 |\n\nbehind [1]")
    assert [line.split() for line in _text(console).splitlines()] == [
        ["before"], [], ["what", "how", "much"], ["a", "|", "b", "1,234"], [], ["behind", "[1]"]]
