# Amaranth's enumerations are Python's; the type checker need not know of the shape= of their classes.
from enum import Enum as Enum
from enum import Flag as Flag
from enum import IntEnum as IntEnum
from enum import IntFlag as IntFlag
