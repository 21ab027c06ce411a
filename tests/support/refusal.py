"""Constructors that must refuse their parameters."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from amaranth.hdl import Elaboratable


@contextmanager
def refused(error: type[Exception], match: str) -> Iterator[Any]:
    """``pytest.raises`` for a component's constructor; the half-made component does not complain
    afterwards that nobody elaborated it."""
    with pytest.raises(error, match=match) as info:
        yield info
    traceback = info.tb
    while traceback is not None:
        component = traceback.tb_frame.f_locals.get("self")
        if isinstance(component, Elaboratable):
            component._MustUse__used = True  # what Amaranth sets when a fragment is made
        traceback = traceback.tb_next
