"""Runs hundreds of thousands of operands through an arithmetic unit: Verilator, one call an array.

A unit here has input ports of at most 64 bits, one output port ``o`` and an attribute ``latency``. It is
written as Verilog, built (once: builds are cached) into a shared library and fed one element a clock.
"""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import Value
from amaranth.lib import wiring
from numpy.typing import NDArray

from plinth_hw import emit
from plinth_hw.tools import verilog_of
from plinth_sim.rtl.verilator import build_library


class Batch:
    """A unit that is called with arrays.

    Parameters
    ----------
    unit : wiring.Component
        The unit; the calls' operands are its input ports in the order of their names.
    platform : object or None
        Passed to the unit's ``elaborate``.
    models : mapping of file name to Verilog
        Models of primitives that the unit instantiates.
    """

    def __init__(self, unit: Any, platform: Any = None, models: Mapping[str, str] | None = None):
        self.latency: int = unit.latency
        ports = {path[0]: (member.flow, Value.cast(value)) for path, member, value in unit.signature.flatten(unit)}
        self.operands = sorted(name for name, (flow, _) in ports.items() if flow is wiring.In)
        for name, (_, value) in ports.items():
            if len(value) > 64:
                raise ValueError(f"port {name} must have at most 64 bits, not {len(value)}")
        text = verilog_of(emit.netlist(unit, "unit", platform))
        drive = " ".join(f"model.{name} = operands[{i}][at];" for i, name in enumerate(self.operands))
        header = ("static inline void batch_drive(Vmodel &model, const uint64_t *const *operands, size_t at)"
                  f" {{ model.rst = 0; {drive} }}\n"
                  "static inline uint64_t batch_observe(Vmodel &model) { return model.o; }\n")
        library = build_library({**(models or {}), "unit.v": text}, "unit",
                                cpp=[Path(__file__).with_name("batch.cpp")],
                                headers={"batch_ports.h": header}, jobs=1)
        self._run = ctypes.CDLL(str(library)).batch_run
        self._run.restype = None
        self._result = np.uint32 if len(unit.o) <= 32 else np.uint64

    def __call__(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Results for operands, unsigned arrays of equal length, as ``uint32``, or ``uint64`` if they are wider."""
        if len(operands) != len(self.operands):
            raise ValueError(f"the unit has operands {', '.join(self.operands)}, not {len(operands)} of them")
        arrays = [np.ascontiguousarray(operand, dtype=np.uint64) for operand in operands]
        count = len(arrays[0])
        if any(array.shape != (count,) for array in arrays):
            raise ValueError("operands must be vectors of equal length")
        results = np.zeros(count, dtype=np.uint64)
        if count:
            pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
            self._run(pointers, ctypes.c_void_p(results.ctypes.data), ctypes.c_size_t(count),
                      ctypes.c_size_t(self.latency))
        return results.astype(self._result)
