"""The ``plinth`` command.

Whatever a user can mend ends in one line on standard error, or, of a file with several faults, a line each, and exit
code 2; Ctrl-C and SIGTERM end in 130. Commands import what they need when they run: `--help` and typing errors wait for
nothing. What all have in common is imported where an interruption is a line already.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence

from plinth.errors import UserError
from plinth_hw.terminal.program import program

#: Objects and rounds after which Python looks for cycles among them: plans and steps are many small objects without
#: any, and as it comes, looking takes a fourth of the time of the larger ones.
COLLECTED = 50_000, 20, 50


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point, for the arguments of the process or, within one that goes on, for others; ends by SystemExit, with
    2, 130 or 141, or returns. Of processes that MPI has started a traceback ends with the rank's number, and the others
    are ended, too, by one that never came to MPI."""
    try:
        with program("plinth", (UserError,), kept="what was saved is kept", last=arguments is None):
            gc.set_threshold(*COLLECTED)
            from plinth.cli.commands import run

            try:
                run(arguments)
            except Exception as error:
                from plinth.runtime.launcher import who

                if (rank := who()) and not isinstance(error, UserError):
                    error.add_note(rank.removesuffix(": "))
                raise
    except SystemExit as end:
        if end.code and "PMI_FD" in os.environ:
            from plinth.runtime.launcher import end_others

            end_others(int(end.code))
        raise
