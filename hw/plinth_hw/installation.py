"""How this package is installed, and so where commands put what they make, and how something is added to it.

Outputs are for people; caches save the next run some work:

=================  ===========================  ==================================
run from           outputs                      caches
=================  ===========================  ==================================
a checkout         its ``build``                its ``build``
an installed       ``build`` of the working     the user's cache folder
package            folder                       (``~/.cache/plinth`` on Linux)
``PLINTH_BUILD``   that folder                  that folder
=================  ===========================  ==================================

Nothing is written into the environment that holds an installed package.
"""

import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

#: What programs say that bring the tables of pages up to date, where there are none.
NO_PAGES = "its tables go into docs/ of a checkout, and this package is an installed one; run it in a checkout"

_PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """Root of the checkout that this package is run from; None if it is installed."""
    root = _PACKAGE.parents[1]
    return root if (root / "pyproject.toml").is_file() and root / "hw" / "plinth_hw" == _PACKAGE else None


@cache
def commit() -> str | None:
    """What this process runs, for what it measures: the checkout's commit when this was first asked for, with
    ``-dirty`` behind it where files were changed since; None where nobody knows (an installed package, an export
    without history, no git)."""
    root = checkout()
    if root is None or not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--exclude=*", "--dirty", "--abbrev=10"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None if described.returncode == 0 else None


def release() -> str | None:
    """Version of this package as it is installed; None where it is not."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("plinth")
    except PackageNotFoundError:
        return None


def output_root() -> Path:
    """Folder of reports, tables, pictures, Verilog and bitstreams."""
    if chosen := os.environ.get("PLINTH_BUILD"):
        return Path(chosen)
    root = checkout()
    return Path("build") if root is None else root / "build"


def cache_root() -> Path:
    """Folder of compiled simulators, elaborated Verilog, trained networks and counted cycles. The path is absolute, for
    tools run in folders of their own."""
    if os.environ.get("PLINTH_BUILD") or checkout():
        return output_root().resolve()
    # Commands that cache nothing do not wait for it.
    from platformdirs import user_cache_path

    try:
        path = user_cache_path("plinth", appauthor=False)
    except RuntimeError:
        path = Path("~")
    # Nobody's home: older versions of platformdirs leave the "~" in.
    return path if path.is_absolute() else output_root().resolve()


def install(extra: str = "") -> str:
    """The command that completes this installation, with an extra if one is named; a checkout's at the versions of its
    lock file."""
    extras = f"[{extra}]" if extra else ""
    root = checkout()
    where = [f"plinth{extras}"] if root is None else [
        "-c", str(root / "requirements.lock"), "-e", f"{root}{extras}"]
    return shlex.join([sys.executable, "-m", "pip", "install", *where])
