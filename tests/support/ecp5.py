"""Stand-ins for an ECP5: the platform's family, and multiplier and carry chain as far as the RTL configures them."""


class Ecp5:
    """Platform that makes units instance ECP5 primitives."""

    family = "ecp5"


_PORTS = ", ".join([
    *(f"input {letter}{i}" for letter in "AB" for i in range(18)),
    *(f"input {name}{i}" for name in ("CLK", "CE", "RST") for i in range(4)),
    "input SIGNEDA", "input SIGNEDB", "input SOURCEA", "input SOURCEB",
    *(f"output P{i}" for i in range(36)),
])
_PARAMETERS = ", ".join(f'parameter {name} = "NONE"' for name in (
    "REG_INPUTA_CLK", "REG_INPUTB_CLK", "REG_OUTPUT_CLK", "REG_PIPELINE_CLK", "REG_INPUTC_CLK", "CLK0_DIV",
    "GSR", "SOURCEB_MODE", "RESETMODE"))


def _vector(name: str, bits: int) -> str:
    return "{" + ", ".join(f"{name}{i}" for i in reversed(range(bits))) + "}"


#: File name to Verilog: unsigned MULT18X18D whose input and output registers run on CLK0, and CCU2C that injects no
#: carry.
MODELS = {"mult18x18d.v": f"""module MULT18X18D #({_PARAMETERS}) ({_PORTS});
  reg [17:0] a, b;
  reg [35:0] p;
  assign {_vector("P", 36)} = p;
  always @(posedge CLK0) begin
    a <= {_vector("A", 18)};
    b <= {_vector("B", 18)};
    p <= a * b;
  end
  initial if (REG_INPUTA_CLK != "CLK0" || REG_INPUTB_CLK != "CLK0" || REG_OUTPUT_CLK != "CLK0" ||
              REG_PIPELINE_CLK != "NONE") $fatal(1, "the model has input and output registers only");
endmodule
""", "ccu2c.v": """module CCU2C #(parameter [15:0] INIT0 = 0, parameter [15:0] INIT1 = 0,
    parameter INJECT1_0 = "YES", parameter INJECT1_1 = "YES") (
    input CIN, input A0, B0, C0, D0, A1, B1, C1, D1, output S0, S1, COUT);
  wire passes_0 = INIT0[{D0, C0, B0, A0}], passes_1 = INIT1[{D1, C1, B1, A1}];
  wire middle = passes_0 ? CIN : INIT0[{2'b00, B0, A0}];
  assign S0 = passes_0 ^ CIN, S1 = passes_1 ^ middle;
  assign COUT = passes_1 ? middle : INIT1[{2'b00, B1, A1}];
  initial if (INJECT1_0 != "NO" || INJECT1_1 != "NO") $fatal(1, "the model injects no carry");
endmodule
"""}
