"""Stand-ins for an ECP5: the platform's family, and the multiplier as far as the RTL configures it."""


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


#: File name to Verilog: unsigned MULT18X18D whose input and output registers run on CLK0.
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
"""}
