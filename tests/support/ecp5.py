"""An ECP5 in simulation: the platform's family, and models of the primitives that Yosys has none of, or whose own is
more than the RTL needs. What a model does not do ends the build: it then asks for a module of a name that says so.
"""


class Ecp5:
    """Platform that makes units instance ECP5 primitives."""

    family = "ecp5"


def _scalars(direction: str, name: str, bits: int) -> list[str]:
    return [f"{direction} {name}{i}" for i in range(bits)]


def _vector(name: str, bits: int) -> str:
    return "{" + ", ".join(f"{name}{i}" for i in reversed(range(bits))) + "}"


_MULTIPLIER_PORTS = ", ".join([
    *(port for letter in "ABC" for port in _scalars("input", letter, 18)),
    *(port for name in ("CLK", "CE", "RST") for port in _scalars("input", name, 4)),
    "input SIGNEDA", "input SIGNEDB", "input SOURCEA", "input SOURCEB", *_scalars("output", "P", 36),
])
_MULTIPLIER_PARAMETERS = ", ".join(f'parameter {name} = "{value}"' for name, value in (
    ("REG_INPUTA_CLK", "NONE"), ("REG_INPUTB_CLK", "NONE"), ("REG_OUTPUT_CLK", "NONE"), ("REG_PIPELINE_CLK", "NONE"),
    ("REG_INPUTC_CLK", "NONE"), ("CLK0_DIV", "ENABLED"), ("GSR", "ENABLED"), ("SOURCEB_MODE", "B_SHIFT"),
    ("RESETMODE", "SYNC")))
#: Operands on A and B, signed or not; no registers, or those of inputs and output on CLK0, always enabled.
_MULTIPLIER = f"""module MULT18X18D #({_MULTIPLIER_PARAMETERS}) ({_MULTIPLIER_PORTS});
  wire signed [18:0] a = {{SIGNEDA & A17, {_vector("A", 18)}}}, b = {{SIGNEDB & B17, {_vector("B", 18)}}};
  wire signed [37:0] product;
  if (REG_PIPELINE_CLK != "NONE" || REG_INPUTC_CLK != "NONE")
    MULT18X18D_has_no_pipeline_register_and_no_c refused ();
  if (REG_INPUTA_CLK == "NONE" && REG_INPUTB_CLK == "NONE" && REG_OUTPUT_CLK == "NONE")
    assign product = a * b;
  else if (REG_INPUTA_CLK == "CLK0" && REG_INPUTB_CLK == "CLK0" && REG_OUTPUT_CLK == "CLK0") begin : registers
    reg signed [18:0] last_a, last_b;
    reg signed [37:0] last;
    assign product = last;
    always @(posedge CLK0) begin
      last_a <= a;
      last_b <= b;
      last <= last_a * last_b;
    end
  end else
    MULT18X18D_has_registers_of_inputs_and_output_on_clk0_or_none refused ();
  assign {_vector("P", 36)} = product[35:0];
endmodule
"""

#: Carry chain that injects no carry.
_CARRY = """module CCU2C #(parameter [15:0] INIT0 = 0, parameter [15:0] INIT1 = 0,
    parameter INJECT1_0 = "YES", parameter INJECT1_1 = "YES") (
    input CIN, input A0, B0, C0, D0, A1, B1, C1, D1, output S0, S1, COUT);
  wire passes_0 = INIT0[{D0, C0, B0, A0}], passes_1 = INIT1[{D1, C1, B1, A1}];
  wire middle = passes_0 ? CIN : INIT0[{2'b00, B0, A0}];
  assign S0 = passes_0 ^ CIN, S1 = passes_1 ^ middle;
  assign COUT = passes_1 ? middle : INIT1[{2'b00, B1, A1}];
  if (INJECT1_0 != "NO" || INJECT1_1 != "NO") CCU2C_injects_no_carry refused ();
endmodule
"""

_SLICES = [f"INITVAL_{i:02X}" for i in range(64)]
_RAM_PARAMETERS = ", ".join([
    *(f'parameter {name}_{port} = {value}' for port in "AB" for name, value in (
        ("DATA_WIDTH", "18"), ("REGMODE", '"NOREG"'), ("CSDECODE", '"0b000"'), ("WRITEMODE", '"NORMAL"'))),
    *(f'parameter CLK{port}MUX = "CLK{port}"' for port in "AB"),
    'parameter RESETMODE = "SYNC"', 'parameter ASYNC_RESET_RELEASE = "SYNC"', 'parameter GSR = "ENABLED"',
    *(f"parameter [319:0] {name} = 320'd0" for name in _SLICES)])
_RAM_PORTS = ", ".join([
    part for port in "AB" for part in (
        *_scalars("input", f"DI{port}", 18), *_scalars("input", f"AD{port}", 14), *_scalars("input", f"CS{port}", 3),
        *(f"input {name}{port}" for name in ("CE", "OCE", "CLK", "WE", "RST")), *_scalars("output", f"DO{port}", 18))])
#: What one of the two ports does, beside another.
_RAM_PORT = """
  wire [13:0] at_# = {address};
  wire writes_# = CE# & WE# & ~(RST# & RESETMODE == "SYNC") & ~({chosen});
  reg [35:0] out_#;
  wire [35:0] shown_# = RST# && RESETMODE == "ASYNC" ? 36'd0 : out_#;
  // Bits of a byte that the port writes, and of what: wide ports choose bytes, narrow ones bits.
  function automatic [8:0] mask_#(input [10:0] place);
    mask_# = !writes_# || (place & ~LAST_#) != (at_#[13:3] & ~LAST_#) ? 9'd0
             : DATA_WIDTH_# >= 18 ? {{9{{at_#[place & LAST_#]}}}} : ONES_# << shift_#;
  endfunction
  function automatic [8:0] data_#(input [10:0] place);
    data_# = DATA_WIDTH_# >= 9 ? given_#[9 * (place & LAST_#) +: 9] : given_#[8:0] << shift_#;
  endfunction
  wire [35:0] given_# = {data_in};
  wire [3:0] shift_# = DATA_WIDTH_# >= 9 ? 4'd0 : {{1'b0, at_#[2:0] & ~3'(DATA_WIDTH_# - 1)}};
  localparam [10:0] LAST_# = DATA_WIDTH_# >= 9 ? DATA_WIDTH_# / 9 - 1 : 0;
  localparam [8:0] ONES_# = DATA_WIDTH_# >= 9 ? 9'h1ff : (9'd1 << DATA_WIDTH_#) - 9'd1;
  // A byte as the port reads it; the complement of what the other port is writing.
  function automatic [8:0] seen_#(input [10:0] place);
    seen_# = bytes[place] ^ mask_%(place);
    if (WRITEMODE_# == "WRITETHROUGH") seen_# = seen_# & ~mask_#(place) | data_#(place) & mask_#(place);
  endfunction
  always @(posedge CLK#)
    if (RST#) out_# <= 36'd0;
    else if (CE#) begin
      for (integer i = 0; i <= LAST_#; i = i + 1) begin
        automatic logic [10:0] place = at_#[13:3] & ~LAST_# | 11'(i);
        if (!WE# || WRITEMODE_# != "NORMAL") out_#[9 * i +: 9] <= seen_#(place) >> shift_# & ONES_#;
        if (mask_#(place) != 0) bytes[place] <= bytes[place] & ~mask_#(place) | data_#(place) & mask_#(place);
      end
    end
  if (REGMODE_# != "NOREG" || CSDECODE_# != "0b000" || CLK#MUX != "CLK#")
    DP16KD_has_no_output_registers_chip_select_or_falling_clock refused ();
  if (WRITEMODE_# != "NORMAL" && WRITEMODE_# != "WRITETHROUGH" && WRITEMODE_# != "READBEFOREWRITE")
    DP16KD_has_no_such_writemode refused ();
  if (!(DATA_WIDTH_# inside {{1, 2, 4, 9, 18, 36}})) DP16KD_has_no_such_data_width refused ();
"""


def _ram_port(port: str, other: str) -> str:
    data_in = f"{{{_vector('DIB', 18)}, {_vector('DIA', 18)}}}" if port == "A" else f"{{18'd0, {_vector('DIB', 18)}}}"
    text = _RAM_PORT.format(address=_vector(f"AD{port}", 14), chosen=f"CS{port}0 | CS{port}1 | CS{port}2",
                            data_in=data_in)
    return text.replace("#", port).replace("%", other)


#: Two ports of any width on one clock, without output registers. At 36 bits port A writes and port B reads; DIA and DOA
#: have the low half. What a port reads while the other writes it is wrong on purpose: the FPGA promises nothing.
_RAM = f"""module DP16KD #({_RAM_PARAMETERS}) ({_RAM_PORTS});
  reg [8:0] bytes [0:2047];
  localparam [{320 * 64 - 1}:0] INITIAL = {{{", ".join(reversed(_SLICES))}}};
  // A slice has 16 times 18 bits, each at a place of 20.
  initial for (integer i = 0; i < 1024; i = i + 1) begin
    bytes[2 * i] = INITIAL[20 * i +: 9];
    bytes[2 * i + 1] = INITIAL[20 * i + 9 +: 9];
  end
{_ram_port("A", "B")}{_ram_port("B", "A")}
  assign {_vector("DOA", 18)} = DATA_WIDTH_B == 36 ? shown_B[17:0] : shown_A[17:0];
  assign {_vector("DOB", 18)} = DATA_WIDTH_B == 36 ? shown_B[35:18] : shown_B[17:0];
  if (RESETMODE != "SYNC" && RESETMODE != "ASYNC") DP16KD_has_no_such_resetmode refused ();
  if (DATA_WIDTH_B == 36 && DATA_WIDTH_A != 36) DP16KD_reads_36_bits_where_it_writes_36 refused ();
endmodule
"""

#: File name to Verilog of multiplier and carry chain.
MODELS = {"mult18x18d.v": _MULTIPLIER, "ccu2c.v": _CARRY}
#: The same of what a netlist has beside the cells that Yosys has models of.
NETLIST_MODELS = {"mult18x18d.sv": _MULTIPLIER, "dp16kd.sv": _RAM}
