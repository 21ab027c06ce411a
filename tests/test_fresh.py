"""Times of fresh clones: what is committed runs, alone, without a caller's settings; all its processes are counted."""

import subprocess
from pathlib import Path

import pytest
from tests.fresh import measured

from plinth.errors import UserError

MAKEFILE = """ARGS ?=
train:
\t@test ! -e left && test -z "$(ARGS)$$PLINTH_BUILD" && python3 -c "sum(range(20_000_000))" && touch left
test:
\t@false
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One commit of a Makefile; beside it a file that is not committed."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "--quiet"], ["add", "Makefile"], ["commit", "--quiet", "-m", "x"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "left").touch()
    return tmp_path


def test_a_clone_is_measured(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make fresh ARGS=train` hands its ARGS down by the environment."""
    monkeypatch.setenv("PLINTH_BUILD", "elsewhere")
    monkeypatch.setenv("ARGS", "train")
    wall, processor = measured(repository, "train")
    assert (wall.name, processor.name) == ("make_train_seconds", "make_train_processor_seconds")
    assert processor.value > 0.1 and wall.value > 0.1, "the loop's time is missing"


def test_what_fails_is_said(repository: Path) -> None:
    with pytest.raises(UserError, match="make test fails"):
        measured(repository, "test")
    with pytest.raises(UserError, match="cannot be cloned"):
        measured(repository / "none", "train")
