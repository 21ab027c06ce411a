# amaranth: UnusedElaboratable=no
"""Boards as data: whose platform, which pins, what makes their clock, and whose tools make their bitstream."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plinth_hw import tools
from plinth_hw.board import floorplan, mmcm, pll
from plinth_hw.board.top import Top, Wiring

#: Endings of files of pins, by the tools that read them.
OPEN, VIVADO = "lpf", "xdc"


@dataclass(frozen=True)
class Board:
    """A board.

    Attributes
    ----------
    platform : str
        Module and class within ``amaranth_boards``.
    wires : Wiring
    pins : str
        Ending of the file of its pins: ``"lpf"``, of boards whose bitstream the open tools make here, or ``"xdc"``, of
        those that take Vivado.
    family : str or None
        Whose primitives units may instance (:func:`plinth_hw.emit.verilog`).
    device : FpgaDevice or None
        Where its FPGA has multipliers and memories; None: placement is told nothing.
    resources : callable or None
        Further resources of the platform: lines on pins of connectors.
    """

    platform: str
    wires: Wiring
    pins: str = OPEN
    family: str | None = "ecp5"
    device: floorplan.FpgaDevice | None = None
    resources: Callable[[], list[Any]] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the tools that are installed here make its bitstream."""
        return self.pins == OPEN

    def top(self, clock_hz: int) -> Top:
        """Its top for a clock in Hz."""
        return Top(self.wires, clock_hz)

    def make_platform(self) -> Any:
        """The platform.

        Raises
        ------
        ToolError
            If amaranth-boards is not installed.
        """
        tools.require("amaranth-boards")
        module, _, name = self.platform.partition(".")
        platform = getattr(importlib.import_module(f"amaranth_boards.{module}"), name)()
        if self.resources is not None:
            platform.add_resources(self.resources())
        return platform


def _uart_on_connector() -> list[Any]:
    """A serial line on pins 0 (rx) and 1 (tx) of a Feather's header."""
    from amaranth.build import Attrs, Pins, Resource, Subsignal

    # A line that nobody drives is idle.
    return [Resource("uart", 0, Subsignal("rx", Pins("0", dir="i", conn=("io", 0)), Attrs(PULLMODE="UP")),
                     Subsignal("tx", Pins("1", dir="o", conn=("io", 0))), Attrs(IO_TYPE="LVCMOS33"))]


_RX, _TX = ("uart", 0, "rx"), ("uart", 0, "tx")
BOARDS = {
    "ulx3s-85f": Board("ulx3s.ULX3S_85F_Platform", Wiring(
        ("clk25", 0, ""), 25_000_000, ("button_fire", 0, ""), _RX, _TX, tuple(("led", led, "") for led in range(4)),
        pll.search), device=floorplan.LFE5U_85F),
    "orangecrab-85f": Board("orangecrab_r0_2.OrangeCrabR0_2_85FPlatform", Wiring(
        ("clk", 0, ""), 48_000_000, ("button", 0, ""), _RX, _TX, tuple(("rgb_led", 0, led) for led in "bgr"),
        pll.search), device=floorplan.LFE5U_85F, resources=_uart_on_connector),
    "arty-a7-100": Board("arty_a7.ArtyA7_100Platform", Wiring(
        ("clk100", 0, ""), 100_000_000, ("button", 0, ""), _RX, _TX, tuple(("led", led, "") for led in range(4)),
        mmcm.search), pins=VIVADO, family=None),
}
