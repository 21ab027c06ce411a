"""The ``#:`` comments of declarations, for pages and files that are made of them."""

import inspect
import re
from typing import Any


def comments(declaration: Any) -> dict[str, str]:
    """The ``#:`` lines above each assignment or annotation of a class or module, by name."""
    texts: dict[str, str] = {}
    collected: list[str] = []
    for line in inspect.getsource(declaration).splitlines():
        text = line.strip()
        if text.startswith("#:"):
            collected.append(text[2:].strip())
        elif match := re.match(r"(\w+)\s*[:=]", text):
            if collected:
                texts[match[1]] = " ".join(collected)
            collected = []
        else:
            collected = []
    return texts


def shared_comments(enum: Any) -> dict[str, str]:
    """Those of all members of an enumeration; members below a comment that says "64 bits each" have it in common."""
    own, shared, texts = comments(enum), "", {}
    for member in enum:
        shared = own.get(member.name, shared if "64 bits each" in shared else "")
        texts[member.name] = shared
    return texts
