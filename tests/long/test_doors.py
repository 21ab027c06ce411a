"""A hundred thousand wrong files, each read or refused in one line, in processes that may hardly grow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.hostile import DOORS

pytestmark = pytest.mark.long

#: Files with changed bytes, and files of pieces, for each door.
BYTES, PIECES = 8_500, 5_000


@pytest.mark.parametrize("name", list(DOORS))
def test_wrong_files_are_refused_in_one_line(name: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.support.hostile", name, "1", str(BYTES), str(PIECES)],
                          cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    tally = json.loads(done.stdout)
    assert tally["read"] and tally["read"] + tally["refused"] >= BYTES
    print(tally)
