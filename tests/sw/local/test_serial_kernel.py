"""A kernel behind a serial line: a co-simulated die at the end of a pseudo-terminal, beside a kernel in numpy."""

import threading

import numpy as np
import pytest
from tests.support.dies import SERIAL
from tests.support.local import training

from plinth.errors import UserError
from plinth.local.coordinator import Ending
from plinth.local.job import in_threads
from plinth_hw.isa.frames import BridgeParameters
from plinth_hw.isa.parameters import PRESETS
from plinth_sim.rtl.cosim import CosimArray
from plinth_sim.rtl.pseudo_terminal import PseudoTerminals


@pytest.mark.slow
def test_a_board_trains_beside_a_host_and_a_line_that_is_cut_ends_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board's bits are the golden model's, which its kernel compares after every set; a die of another preset is
    refused before."""
    monkeypatch.setitem(PRESETS, SERIAL.name, SERIAL)
    ended = threading.Event()
    dies = CosimArray(SERIAL, 1, SERIAL.block_ram_words, bridge=BridgeParameters(cycles_per_bit=4))
    with dies as array, PseudoTerminals(array) as terminals:
        thread = threading.Thread(target=terminals.serve, args=(ended.is_set, 0.02))
        thread.start()
        try:
            with pytest.raises(UserError, match=r"^kernel 0 .* does not start: die 0 is a .*, the plan is for a"):
                training(f"serial:fpga-demo:{terminals.names[0]}").opened()
            run = training(f"serial:{SERIAL.name}:{terminals.names[0]},numpy/300", update="sgd")
            coordinator = run.coordinator(in_threads(run, lambda *_: None), push=2, ending=Ending(batches=40))

            def cut(now: object) -> None:
                if coordinator.kernels[0].merged == 3:
                    ended.set()

            result = coordinator.run(cut)
        finally:
            ended.set()
            thread.join()
    board, host = result.kernels
    assert board.merged >= 3 and host.merged > 3 and not host.lost and result.ended == "batches"
    assert all(np.isfinite(values).all() for values in result.parameters.values())
