"""Kept results: made once, by one maker, whole or not at all; and made again when they are not what was kept."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from plinth_hw.cache import CHECKSUMS, cached_folder, digest, locked

CONTENT = bytes(range(256)) * 64


def kept(folder: Path) -> bool:
    """Whether a result is there already; else it is made, with a file that nobody uses."""
    with cached_folder(folder, "result", "other") as scratch:
        if scratch is not None:
            for name in ("result", "other", "log"):
                (scratch / name).write_bytes(CONTENT)
    return scratch is None


def _unreadable(folder: Path) -> None:
    """In the place of a file, a link that leads nowhere: root may read every file."""
    (folder / "result").unlink()
    (folder / "result").symlink_to("nowhere")


def _replace(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_bytes(b"a file in the place of the folder")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda folder: os.truncate(folder / "result", 1000),
    "random bytes": lambda folder: (folder / "result").write_bytes(os.urandom(len(CONTENT))),
    "one bit": lambda folder: (folder / "other").write_bytes(bytes([CONTENT[0] ^ 1]) + CONTENT[1:]),
    "empty": lambda folder: (folder / "result").write_bytes(b""),
    "missing": lambda folder: (folder / "other").unlink(),
    "unreadable": _unreadable,
    "empty checksums": lambda folder: (folder / CHECKSUMS).write_bytes(b""),
    "random checksums": lambda folder: (folder / CHECKSUMS).write_bytes(os.urandom(100)),
    "no folder": _replace,
    "link to nowhere": lambda folder: (_replace(folder), folder.unlink(), folder.symlink_to("nowhere")),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_results_are_made_again(damage: Callable[[Path], object], tmp_path: Path,
                                        caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "kept"
    assert not kept(folder) and kept(folder)
    damage(folder)
    assert not kept(folder)
    (line,) = caplog.messages
    assert line.startswith(f"{folder} ") and line.endswith("; building it again")
    assert kept(folder) and (folder / "result").read_bytes() == (folder / "other").read_bytes() == CONTENT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "kept.lock"]


def test_a_missing_checksum_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept(tmp_path / "kept")
    (tmp_path / "kept" / CHECKSUMS).unlink()
    assert not kept(tmp_path / "kept")
    assert caplog.messages == [f"{tmp_path / 'kept'} has no checksums; building it again"]


def test_files_that_nobody_uses_may_change(tmp_path: Path) -> None:
    kept(tmp_path / "kept")
    (tmp_path / "kept" / "log").write_bytes(b"")
    assert kept(tmp_path / "kept")


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    kept(tmp_path / "kept")
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", CHECKSUMS], cwd=tmp_path / "kept", check=True)


def test_a_failed_repair_keeps_what_there_was(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    kept(folder)
    DAMAGES["cut"](folder)
    with pytest.raises(RuntimeError), cached_folder(folder, "result", "other"):
        raise RuntimeError
    assert (folder / "log").read_bytes() == CONTENT and not kept(folder)


def test_a_result_that_was_not_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), cached_folder(tmp_path / "kept", "result"):
        pass
    assert not (tmp_path / "kept").exists()


def test_those_who_use_a_result_keep_it_while_it_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    kept(folder)
    with (folder / "other").open("rb") as used:
        DAMAGES["cut"](folder)
        kept(folder)
        assert used.read() == CONTENT


def test_failed_and_killed_builds_leave_no_result(tmp_path: Path) -> None:
    folder = tmp_path / "result"
    with pytest.raises(RuntimeError), cached_folder(folder) as scratch:
        assert scratch
        (scratch / "half").touch()
        raise RuntimeError
    assert not folder.exists()
    program = ("import sys, time; from pathlib import Path\n"
               "from plinth_hw.cache import cached_folder\n"
               "with cached_folder(Path(sys.argv[1])) as scratch:\n"
               "    (scratch / 'half').touch(); print('ready', flush=True); time.sleep(60)\n")
    process = subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    assert not folder.exists()
    with cached_folder(folder) as scratch:
        assert scratch
        assert not list(scratch.iterdir())
        (scratch / "whole").touch()
    assert sorted(path.name for path in folder.iterdir()) == [CHECKSUMS, "whole"]
    assert not list(tmp_path.glob("result.part-*"))


def test_concurrent_builders_do_the_work_once(tmp_path: Path) -> None:
    program = ("import sys, time; from pathlib import Path\n"
               "from plinth_hw.cache import cached_folder\n"
               "with cached_folder(Path(sys.argv[1])) as scratch:\n"
               "    print('built' if scratch else 'found', flush=True); time.sleep(0.3 if scratch else 0)\n")
    processes = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "result")], text=True,
                                  stdout=subprocess.PIPE) for _ in range(3)]
    assert sorted(process.communicate()[0].strip() for process in processes) == ["built", "found", "found"]


def test_concurrent_users_of_a_damaged_result_make_it_once(tmp_path: Path) -> None:
    folder = tmp_path / "result"
    with cached_folder(folder, "content") as scratch:
        assert scratch
        (scratch / "content").write_bytes(CONTENT)
    os.truncate(folder / "content", 10)
    program = ("import sys, time; from pathlib import Path\n"
               "from plinth_hw.cache import cached_folder\n"
               "folder = Path(sys.argv[1])\n"
               "with cached_folder(folder, 'content') as scratch:\n"
               "    if scratch: (scratch / 'content').write_bytes(bytes(range(256)) * 64); time.sleep(0.3)\n"
               "print(bool(scratch), len((folder / 'content').read_bytes()))\n")
    processes = [subprocess.Popen([sys.executable, "-c", program, str(folder)], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) for _ in range(3)]
    printed = [process.communicate() for process in processes]
    assert sorted(out.strip() for out, _ in printed) == ["False 16384", "False 16384", "True 16384"]
    assert sorted(errors for _, errors in printed) == ["", "", f"{folder} was damaged; building it again\n"]


def test_digest_keeps_parts_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")


def test_lock_is_released(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), open(tmp_path / "lock") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(tmp_path / "lock") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
