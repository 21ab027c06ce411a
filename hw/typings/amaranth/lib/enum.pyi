# Amaranth's enumerations are Python's; the type checker need not know of the shape= of their classes.
from enum import Enum as Enum, Flag as Flag, IntEnum as IntEnum, IntFlag as IntFlag
