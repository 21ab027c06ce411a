"""The harness under the compiler's ThreadSanitizer: no two threads touch the same data without order between them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.standin import standin

from plinth_sim.rtl import cosim
from plinth_sim.rtl.verilator import compiler

FLAGS = ("-fsanitize=thread", "-g")
REPOSITORY = Path(__file__).parents[3]
#: The threads of `test_cosim`'s outcomes, as a program of its own: the sanitizer wants to be there from the start.
PROGRAM = f"""
from functools import partial
from plinth_sim.rtl import cosim
cosim.build = partial(cosim.build, compile_flags={FLAGS})
from tests.sim.rtl.test_cosim import outcome
one = outcome(1)
for threads, unrest in ((2, 0), (5, 0), (2, 1), (3, 2), (5, 3), (5, 4)):
    assert outcome(threads, unrest) == one, (threads, unrest)
"""


@pytest.mark.long
def test_no_data_races() -> None:
    runtime = subprocess.run([compiler(), "-print-file-name=libtsan.so"], text=True, capture_output=True).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("the compiler has no ThreadSanitizer")
    # With the sanitizer in the library, only a process that begins with it can load it.
    cosim.build(standin(1, 4, 40), "standin", compile_flags=FLAGS)
    # The sanitizer of older compilers does not stand addresses at random.
    run = subprocess.run(["setarch", "-R", sys.executable, "-c", PROGRAM], cwd=REPOSITORY, text=True,
                         capture_output=True, env={**os.environ, "LD_PRELOAD": runtime})
    assert run.returncode == 0 and "WARNING" not in run.stderr, run.stderr[:5000]
