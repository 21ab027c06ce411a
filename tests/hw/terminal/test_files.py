"""Files are whole or as they were."""

from pathlib import Path

import pytest

from plinth_hw.terminal.files import write_text, write_whole


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    write_text(path, "\u00b5")
    assert path.read_bytes() == b"\xc2\xb5"

    def broken(place: Path) -> None:
        place.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_whole(path, broken)
    assert path.read_bytes() == b"\xc2\xb5"
    assert [path.name for path in path.parent.iterdir()] == ["a.txt"]


def test_a_file_within_a_file_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(NotADirectoryError, match=r"Not a directory: .*a/b\.txt"):
        write_text(tmp_path / "a" / "b.txt", "text")


@pytest.mark.parametrize("exists", [False, True])
def test_a_link_is_written_through(exists: bool, tmp_path: Path) -> None:
    """Beside the file that it points to: a rename does not go from one file system to another."""
    target, link = tmp_path / "far" / "a.txt", tmp_path / "a.txt"
    link.symlink_to(Path("far") / "a.txt")
    if exists:
        write_text(target, "old")
    seen: list[Path] = []

    def write(place: Path) -> None:
        seen.append(place.parent)
        place.write_text("new")

    write_whole(link, write)
    assert link.is_symlink() and target.read_text() == "new" and seen == [target.parent]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.txt", "a.txt", "far"]


def test_a_path_without_a_name_is_a_folder(tmp_path: Path) -> None:
    for path in (Path(), Path("/")):
        with pytest.raises(IsADirectoryError):
            write_text(path, "text")
