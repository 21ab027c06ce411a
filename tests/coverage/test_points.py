"""Points of coverage: read, added up over instances and files, and explained."""

from pathlib import Path

import pytest
from tests.coverage.__main__ import DIES, report, shares
from tests.coverage.points import Point, read
from tests.coverage.reasons import explained, read_reasons

from plinth.errors import UserError
from plinth_sim.rtl.elaborate import die_verilog

#: A block and both sides of a branch, in two instances of a module; and a point of another kind.
DATA = """# SystemC::Coverage-3
C '\x01f\x02d.sv\x01l\x022\x01n\x025\x01t\x02line\x01page\x02v_line/part\x01o\x02block\x01h\x02die.a' 0
C '\x01f\x02d.sv\x01l\x022\x01n\x025\x01t\x02line\x01page\x02v_line/part\x01o\x02block\x01h\x02die.b' 3
C '\x01f\x02d.sv\x01l\x023\x01n\x027\x01t\x02branch\x01page\x02v_branch/part\x01o\x02if\x01h\x02die.a' 4
C '\x01f\x02d.sv\x01l\x023\x01n\x028\x01t\x02branch\x01page\x02v_branch/part\x01o\x02else\x01h\x02die.a' 0
C '\x01f\x02d.sv\x01l\x023\x01n\x028\x01t\x02toggle\x01page\x02v_toggle/part\x01o\x02bit\x01h\x02die.a' 0
"""
TEXT = "module part;\n  always begin\n    if (stop) begin\n"
IF, ELSE = Point("part", "branch", 3, 7, "if"), Point("part", "branch", 3, 8, "else")


def test_points_are_added_up(tmp_path: Path) -> None:
    paths = [tmp_path / "a.dat", tmp_path / "b.dat"]
    for path in paths:
        path.write_text(DATA, encoding="utf-8")
    met = read(paths)
    assert met == {Point("part", "line", 2, 5, "block"): 6, IF: 8, ELSE: 0}
    assert shares(met) == {"line": (1, 1), "branch": (1, 2)}
    assert report(met, TEXT, []) == {
        "line": {"met": 1, "all": 1}, "branch": {"met": 1, "all": 2}, "reasons": {},
        "unexplained": [{"module": "part", "kind": "branch", "line": 3, "column": 8, "what": "else",
                         "text": "if (stop) begin"}]}
    paths[0].write_text("C 3\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'C 3' is no point of coverage"):
        read(paths)


def test_reasons(tmp_path: Path) -> None:
    path = tmp_path / "reasons.yaml"
    path.write_text("- {module: pa.*, text: stop, reason: nobody stops it}\n", encoding="utf-8")
    reasons = read_reasons(path)
    assert explained(ELSE, "if (stop) begin", reasons) == "nobody stops it"
    assert not explained(ELSE, "if (go) begin", reasons)
    assert not explained(Point("a.part", "line", 1, 1, ""), "stop", reasons)
    path.write_text("- {module: part}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"reasons.yaml: entry 1 has no reason; add it"):
        read_reasons(path)


@pytest.mark.slow
def test_no_reason_is_left_over() -> None:
    """Each pattern of a module is that of a module of a die whose coverage is told."""
    texts = [text for die in DIES.values() for text in die_verilog(die).values()]
    modules = {line.split()[1].split("(")[0].removeprefix("\\") for text in texts for line in text.splitlines()
               if line.startswith("module ")}
    for entry in read_reasons():
        assert any(entry.module.fullmatch(module) for module in modules), entry.module.pattern
