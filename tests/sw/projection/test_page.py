"""The page about projections: its programs run as they stand there, one after the other."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "projection.md"


def test_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), names)
    size, error = capsys.readouterr().out.split()
    assert len(programs) == 2 and size == "32" and 0.1 < float(error) < 0.16
    assert names["first"].shape[1] == names["second"].shape[1] == 48  # type: ignore[attr-defined]
    assert (tmp_path / "digits-32.npz").exists()
