"""Where commands put what they make: in a checkout, installed, and where the environment says."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from plinth_hw import installation, pages
from plinth_hw.fpga import measure
from plinth_hw.installation import cache_root, checkout, install, output_root

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home folder of somebody with an installed package, who works in a folder of their own."""
    monkeypatch.setattr(installation, "_PACKAGE", tmp_path / "site-packages" / "plinth_hw")
    monkeypatch.delenv("PLINTH_BUILD", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path / "home"


def test_a_checkout_keeps_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PLINTH_BUILD", raising=False)
    monkeypatch.chdir(tmp_path)
    assert checkout() == ROOT
    assert output_root() == cache_root() == ROOT / "build"
    assert install("mnist") == f"{sys.executable} -m pip install -c {ROOT / 'requirements.lock'} -e '{ROOT}[mnist]'"


def test_what_runs_is_a_commit_or_not_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = tmp_path / "in-another" / "root"
    root.mkdir(parents=True)
    monkeypatch.setattr(installation, "checkout", lambda: root)

    def fresh_commit() -> str | None:
        installation.commit.cache_clear()
        return installation.commit()

    def git(*words: str, folder: Path = root) -> None:
        subprocess.run(["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org", *words],
                       check=True)

    git("init", "--quiet", folder=root.parent)
    git("commit", "--quiet", "--allow-empty", "-m", "x", folder=root.parent)
    assert fresh_commit() is None, "that is the commit of the repository around it"
    git("init", "--quiet")
    assert fresh_commit() is None
    (root / "file").write_text("one")
    git("add", "file")
    git("commit", "--quiet", "-m", "x")
    git("tag", "-a", "v1", "-m", "x")
    first = fresh_commit()
    assert first is not None and len(first) == 10 and set(first) <= set("0123456789abcdef")
    (root / "file").write_text("two")
    assert fresh_commit() == f"{first}-dirty"
    monkeypatch.setenv("PATH", "")
    assert fresh_commit() is None
    monkeypatch.setattr(installation, "checkout", lambda: None)
    assert fresh_commit() is None
    installation.commit.cache_clear()


def test_an_installed_package_writes_to_the_working_and_the_cache_folder(installed: Path,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    assert checkout() is None
    assert output_root() == Path("build")
    assert installed in cache_root().parents and cache_root().name == "plinth"
    monkeypatch.setenv("XDG_CACHE_HOME", str(installed / "elsewhere"))
    if sys.platform == "linux":
        assert cache_root() == installed / "elsewhere" / "plinth"


def test_without_a_home_caches_lie_beside_outputs(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert cache_root() == Path("build").resolve()


def test_the_environment_decides_both(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLINTH_BUILD", "out")
    assert output_root() == Path("out") and cache_root() == Path("out").resolve()
    monkeypatch.undo()
    monkeypatch.setenv("PLINTH_BUILD", str(installed))
    assert output_root() == cache_root() == installed


@pytest.mark.parametrize("extra", ["", "mnist", "dev"])
def test_remedies_name_extras_of_the_package(extra: str, installed: Path) -> None:
    package = f"plinth[{extra}]" if extra else "plinth"
    assert shlex.split(install(extra)) == [sys.executable, "-m", "pip", "install", package]


def test_programs_for_pages_say_that_there_are_none(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for program, arguments in ((pages, []), (measure, ["area"])):
        assert program.main(arguments) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "run it in a checkout" in error
