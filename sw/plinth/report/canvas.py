"""The one door to matplotlib, which takes half a second to load and wants a folder of its own."""

import atexit
import io
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from plinth.errors import UserError
from plinth.output import write_whole


def _settings_folder() -> None:
    """See that matplotlib has a folder for its list of fonts: without a home that can be written one that is gone at
    the end, without the warning that it would print."""
    if os.environ.get("MPLCONFIGDIR"):
        return
    try:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "matplotlib"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return
    except (OSError, RuntimeError):
        pass
    os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="plinth-matplotlib-")
    atexit.register(shutil.rmtree, os.environ["MPLCONFIGDIR"], ignore_errors=True)


def new_figure(**settings: Any) -> Any:
    """A ``matplotlib.figure.Figure`` with these settings. It is none of pyplot's: a notebook's own pictures go where
    they went before.

    Raises
    ------
    UserError
        If no folder can be written that matplotlib could keep its list of fonts in.
    """
    try:
        _settings_folder()
        # What cannot be kept is made anew: of no use to who asked for a picture.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        from matplotlib.figure import Figure
    except OSError as error:
        raise UserError("pictures need a folder for the list of fonts that can be written, and there is none "
                        f"({error.strerror or error}); name one in MPLCONFIGDIR") from error
    return Figure(**settings)


def png(figure: Any, dpi: float = 130) -> bytes:
    """A figure as a PNG."""
    into = io.BytesIO()
    figure.savefig(into, format="png", dpi=dpi)
    return into.getvalue()


def write_png(path: Path, picture: bytes) -> None:
    """Write a PNG in one step.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    write_whole(path, lambda place: place.write_bytes(picture))
