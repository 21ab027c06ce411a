"""Where a test leaves what it wrote: a folder for each pytest node."""

import os
import re
from pathlib import Path

from plinth_hw.installation import output_root


def node_folder(kind: str) -> Path:
    """Folder ``build/<kind>/<running test>``, made if it does not exist."""
    node = os.environ.get("PYTEST_CURRENT_TEST", "outside pytest").rsplit(" (", 1)[0]
    folder = output_root().resolve() / kind / re.sub(r"[^\w.=-]+", "-", node).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
