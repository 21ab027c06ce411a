"""Dies do the same in the same cycles whatever registers and memories hold as power comes, and after resets in the
middle of work: programs of each engine on dies without initial values, against the golden model. Every machine and
option is in ``tests/long/test_power_up.py``."""

import pytest
from tests.support.back_ends import check_equal
from tests.support.dies import POWERED_FIXED, POWERED_TILES
from tests.support.graphs import random_program
from tests.support.power_up import Case, PoweredDies, campaign

from plinth.driver.driver import Driver
from plinth.driver.program import Program
from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble
from plinth_hw.isa import registers as regs
from plinth_hw.isa.operations import Engine, ErrorCode, TransferOperation
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_hw.isa.registers import ControlBits, Register
from plinth_sim.rtl.power_up import PowerUp, without_initial_values

pytestmark = pytest.mark.slow

MEMORY_WORDS = 1 << 16
DIES = 3
DIE_TYPES = [pytest.param(POWERED_TILES, id="tiles", marks=pytest.mark.xdist_group("power-up-tiles")),
             pytest.param(POWERED_FIXED, id="fixed", marks=pytest.mark.xdist_group("power-up-fixed"))]


@pytest.mark.parametrize("die", DIE_TYPES)
def test_any_power_up_state(die: DieParameters) -> None:
    campaign(die, DIES, MEMORY_WORDS, 100, 10)


def sends(die: DieParameters) -> Program:
    """Every die sends some words to the next one, and awaits those of the one before."""
    builders = []
    for number in range(DIES):
        builders.append(builder := GraphBuilder(die))
        source, place = builder.allocate("source", 1, 8), builder.allocate("place", 1, 8)
        builder.add("send", Engine.TRANSFER, TransferOperation.COPY, {
            "source": source.pointer, "destination": place.pointer, "columns": 8, "rows": 1, "planes": 1, "remote": 1,
            "destination_die": (number + 1) % DIES, "arrival_enable": 1, "arrival": 8}, reads=[source])
        builder.expect([place], 8, 1)
        builder.add("end", Engine.TRANSFER, TransferOperation.COPY, {
            "source": place.pointer, "destination": source.pointer, "columns": 8, "rows": 1, "planes": 1},
            reads=[place], writes=[source])
    return assemble([], builders, memory_words=MEMORY_WORDS)


@pytest.mark.parametrize("die", [
    *DIE_TYPES, pytest.param(preset("ndp-tiny-routes"), id="routes", marks=pytest.mark.long),
    pytest.param(preset("fpga-tiny"), id="systolic-fixed", marks=pytest.mark.long)])
def test_no_route_outlives_a_reset(die: DieParameters) -> None:
    """In the middle of work; then a packet finds none, and dies that are set up anew do what new ones do."""
    program, buffers = random_program(die, DIES, 5, 30, MEMORY_WORDS)
    case = Case(program, MEMORY_WORDS, buffers)

    powered = PoweredDies(die, DIES, MEMORY_WORDS, PowerUp(seed=1))
    with powered.rtl as rtl:
        driver = Driver(rtl, program, memory_words=MEMORY_WORDS)
        for number in range(DIES):
            driver.start(number, 0)
        rtl.run(1500)
        assert any(rtl.read_registers(0, range(regs.ROUTES, regs.ROUTES + 4 * DIES, 4)))
        powered.reset()
        for number in range(DIES):
            assert not any(rtl.read_registers(number, range(regs.ROUTES, regs.ROUTES + (4 << die.die_bits), 4)))
        send = sends(die)
        Driver(rtl, send, memory_words=MEMORY_WORDS).step(0)
        powered.reset()
        for number, device in enumerate(rtl.dies):
            for register, value in ((Register.DIE, number), (Register.DIES, DIES),
                                    (Register.MEMORY_WORDS, MEMORY_WORDS),
                                    (Register.TASK_BASE, send.step[number].address),
                                    (Register.RECORD_BASE, send.records),
                                    (Register.CONTROL, ControlBits.START)):
                device.write_register(register, value)
        rtl.wait(20_000)
        assert [device.read_register(Register.ERROR_CODE) for device in rtl.dies] == [ErrorCode.NO_ROUTE.value] * DIES
        powered.reset()
        for device in rtl.dies:
            device.memory[:] = 0
        check_equal(case.ran(rtl), case.wanted, program)


VERILOG = """module a (clk, rst, o);
  (* init = 4'h3 *)
  wire [3:0] alias;
  reg [3:0] \\count$1  = 4'h3;
  reg waits;
  reg ready = 1'h1;
  reg \\$auto$verilog_backend.cc:2355:dump_module$1  = 0;
  reg [31:0] \\kept [1:0];
  initial begin
    \\kept [0] = 32'd0;
    \\kept [1] = 32'd16;
  end
  always @(posedge clk) begin
    if (waits)
      \\kept [ready] <= 32'd5;
  end
  reg [7:0] rom [1:0];
  initial begin
    rom[0] = 8'h01;
    rom[1] = 8'hf2;
  end
endmodule
module b (clk);
  reg [7:0] rom [0:0];
  initial begin
    rom[0] = 8'h00;
  end
  always @(posedge clk) begin
    rom[0] <= 8'h07;
  end
endmodule
"""


def test_initial_values_are_taken_away_but_for_those_of_roms() -> None:
    text = without_initial_values({"a.sv": VERILOG})["a.sv"]
    removed = set(VERILOG.splitlines()) - set(text.splitlines())
    assert removed == {"  reg [3:0] \\count$1  = 4'h3;", "  reg ready = 1'h1;", "    \\kept [0] = 32'd0;",
                       "    \\kept [1] = 32'd16;", "    rom[0] = 8'h00;"}
    assert set(text.splitlines()) - set(VERILOG.splitlines()) == {"  reg [3:0] \\count$1 ;", "  reg ready;"}
    assert text.count("initial") == 1


def test_a_seed_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Seed of a power-up state must be from 1 to 2147483647, not 0"):
        PowerUp(seed=0)
