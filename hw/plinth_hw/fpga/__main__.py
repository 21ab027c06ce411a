"""Measures and writes tables: ``python -m plinth_hw.fpga WHAT`` (:mod:`plinth_hw.fpga`)."""

import sys

from plinth_hw.fpga.measure import main
from plinth_hw.terminal.program import program

if __name__ == "__main__":
    with program("plinth_hw.fpga"):
        sys.exit(main(sys.argv[1:]))
