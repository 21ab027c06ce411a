"""Which code is mutated, and where the tests are that should notice: the one place that knows folders."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: Folders of the regression's tests of the product, of which those that no room names are asked last.
REGRESSION = ("tests/hw", "tests/sim", "tests/sw")


def test_files(root: Path, places: Iterable[str]) -> list[str]:
    """Test files in folders, or files by name."""
    paths = (path for place in places
             for path in ([root / place] if place.endswith(".py") else sorted((root / place).rglob("test_*.py"))))
    return [path.relative_to(root).as_posix() for path in paths]


@dataclass(frozen=True)
class Room:
    """Folders of sources, and folders or files of tests, relative to the root of the tree."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    #: Files, or folders of them, without behaviour of their own: entry points, and what needs tools that no quick
    #: test runs.
    skipped: tuple[str, ...] = ()

    def files(self, root: Path) -> list[str]:
        """Its sources."""
        paths = (path.relative_to(root).as_posix() for folder in self.sources
                 for path in sorted((root / folder).rglob("*.py")))
        return [file for file in paths if not file.endswith("__main__.py")
                and not any(Path(file).is_relative_to(skipped) for skipped in self.skipped)]

    def test_files(self, root: Path) -> list[str]:
        """Its test files."""
        return test_files(root, self.tests)

    def near(self, root: Path, file: str) -> list[str]:
        """The test files where a source's own tests should be: the first places of tests mirror the sources."""
        folder = next(folder for folder in self.sources if file.startswith(folder + "/"))
        mirror = Path(self.tests[self.sources.index(folder)]) / Path(file).relative_to(folder).parent
        return [test for test in self.test_files(root) if Path(test).is_relative_to(mirror)]


ROOMS = {
    "golden": Room(("sim/plinth_sim/golden",),
                   ("tests/sim/golden", "tests/sw/step/layers", "tests/sw/machine/test_convolution.py",
                    "tests/sw/test_lowering.py")),
    "hardware": Room(("hw/plinth_hw",), ("tests/hw", "tests/sim/golden", "tests/sim/rtl"),
                     skipped=("hw/plinth_hw/fpga",)),
    "lower": Room(("sw/plinth/lower", "sw/plinth/step", "sw/plinth/machine"),
                  ("tests/sw/lower", "tests/sw/step", "tests/sw/machine", "tests/sw/test_lowering.py",
                   "tests/sw/test_training.py", "tests/sw/test_float64.py", "tests/sw/test_updates.py",
                   "tests/sw/test_sharding.py", "tests/sw/predict/test_row_stationary.py",
                   "tests/sw/simulate/test_hosts.py", "tests/sw/runtime/test_numpy_ranks.py")),
}
