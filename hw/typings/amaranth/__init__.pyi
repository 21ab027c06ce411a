# What the type checker is told of Amaranth: its enumerations. Everything else is Any.
from typing import Any

__version__: str
def __getattr__(name: str) -> Any: ...
