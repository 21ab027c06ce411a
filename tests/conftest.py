"""Puts the repository root on the import path, so that tests share ``tests.support``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
