# Amaranth's enumerations are Python's, with a shape.
import enum
from typing import Any

class Enum(enum.Enum):
    def __init_subclass__(cls, *, shape: Any = ..., view_class: Any = ...) -> None: ...

class IntEnum(enum.IntEnum):
    def __init_subclass__(cls, *, shape: Any = ..., view_class: Any = ...) -> None: ...

class Flag(enum.Flag):
    def __init_subclass__(cls, *, shape: Any = ..., view_class: Any = ...) -> None: ...

class IntFlag(enum.IntFlag):
    def __init_subclass__(cls, *, shape: Any = ..., view_class: Any = ...) -> None: ...
