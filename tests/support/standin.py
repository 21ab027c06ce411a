"""A small stand-in for a die: the same top-level ports, little behind them. Tests of the harness use it.

Each AXI4 port copies ``beats`` slices from ``source`` to ``target``, adding 1 to every word, in bursts of
``burst`` beats; read data goes straight to the write channel, through wires. Link port 0 sends ``flits``
numbered flits under 4 credits; port 1 takes flits and counts, sums and times them. The registers are
those of :class:`Standin`.
"""

from enum import IntEnum


class Standin(IntEnum):
    """Byte addresses of the registers."""

    ID = 0x000
    #: bit 0: start; bit 1: stop with an error
    CONTROL = 0x008
    #: bit 0 busy, bit 1 done, bit 2 error
    STATUS = 0x00C
    #: beats
    SOURCE = 0x010
    TARGET = 0x014
    BEATS = 0x018
    BURST = 0x01C
    #: flits to send, flits to await
    FLITS = 0x020
    EXPECT = 0x024
    RECEIVED = 0x028
    CHECKSUM = 0x02C
    #: cycle of the first flit sent and of the first received
    SENT_AT = 0x030
    RECEIVED_AT = 0x034
    #: cycle of the first read request and of the first read beat, on port 0
    ASKED_AT = 0x038
    ANSWERED_AT = 0x03C
    CYCLE = 0x040
    #: cycles that the last run took
    TOOK = 0x044
    #: OR of all AXI4 responses
    RESPONSES = 0x048
    #: number of a protocol rule to break, see :data:`FAULTS`
    FAULT = 0x04C
    #: a read of this one is never answered
    DEAF = 0x0F8


#: Protocol rules that the stand-in breaks on demand: value of FAULT to the harness's complaint.
FAULTS = {
    1: "crosses a 4096-byte boundary",
    2: "is not an INCR burst",
    3: "has another size than the bus",
    4: "wlast does not agree with awlen",
    5: "is not aligned",
    6: "valid was withdrawn before ready",
}


_PORT = """
module standin_port #(parameter WORDS = 4, parameter SHIFT = 4) (
  input clk, input rst, input start, input [31:0] source, input [31:0] target, input [31:0] beats,
  input [31:0] burst, input [2:0] fault, output busy,
  output reg [1:0] responses, output reg asked, output reg answered,
  output [2:0] arsize, output [1:0] arburst,
  output [31:0] araddr, output [7:0] arlen, output arvalid, input arready,
  input [32*WORDS-1:0] rdata, input [1:0] rresp, input rlast, input rvalid, output rready,
  output [31:0] awaddr, output [7:0] awlen, output awvalid, input awready,
  output [32*WORDS-1:0] wdata, output [4*WORDS-1:0] wstrb, output wlast, output wvalid, input wready,
  input [1:0] bresp, input bvalid, output bready);
  reg [31:0] to_read, to_write, to_send, to_answer, in_burst, read_at, write_at;
  reg waited;
  assign arvalid = to_read != 0 && (fault != 6 || arready || !waited);
  assign arsize = fault == 3 ? SHIFT - 1 : SHIFT;
  assign arburst = fault == 2 ? 0 : 1;
  assign arlen = fault == 1 ? 8'd255 : burst[7:0] - 8'd1;
  assign araddr = (read_at << SHIFT) + (fault == 5 ? 8 : 0);
  assign awvalid = to_write != 0;
  assign awlen = burst[7:0] - 8'd1;
  assign awaddr = write_at << SHIFT;
  assign rready = wready;
  assign wvalid = rvalid;
  assign wlast = fault != 4 && in_burst == burst - 1;
  assign wstrb = ~0;
  assign bready = 1;
  assign busy = to_answer != 0;
  genvar i;
  generate for (i = 0; i < WORDS; i = i + 1) begin : add
    assign wdata[32*i +: 32] = rdata[32*i +: 32] + 32'd1;
  end endgenerate
  always @(posedge clk) begin
    waited <= arvalid && !arready;
    if (arvalid && arready) begin to_read <= to_read - burst; read_at <= read_at + burst; asked <= 1; end
    if (awvalid && awready) begin to_write <= to_write - burst; write_at <= write_at + burst; end
    if (wvalid && wready) in_burst <= wlast ? 0 : in_burst + 1;
    if (rvalid && rready) begin responses <= responses | rresp; answered <= 1; end
    if (bvalid && bready) begin to_answer <= to_answer - burst; responses <= responses | bresp; end
    if (start) begin
      to_read <= beats; to_write <= beats; to_answer <= beats; in_burst <= 0;
      read_at <= source; write_at <= target; asked <= 0; answered <= 0; responses <= 0;
    end
    if (rst) begin to_read <= 0; to_write <= 0; to_answer <= 0; responses <= 0; asked <= 0; answered <= 0; end
  end
endmodule
"""

_TOP = """
module standin (
  input clk, input rst, output irq,
  input [15:0] axil_awaddr, input [2:0] axil_awprot, input axil_awvalid, output axil_awready,
  input [31:0] axil_wdata, input [3:0] axil_wstrb, input axil_wvalid, output axil_wready,
  output [1:0] axil_bresp, output reg axil_bvalid, input axil_bready,
  input [15:0] axil_araddr, input [2:0] axil_arprot, input axil_arvalid, output axil_arready,
  output reg [31:0] axil_rdata, output reg [1:0] axil_rresp, output reg axil_rvalid, input axil_rready,
  output reg link_out_0_valid, output reg [FLIT-1:0] link_out_0_flit, input [2:0] link_out_0_credit,
  output link_out_1_valid, output [FLIT-1:0] link_out_1_flit, input [2:0] link_out_1_credit,
  input link_in_0_valid, input [FLIT-1:0] link_in_0_flit, output [2:0] link_in_0_credit,
  input link_in_1_valid, input [FLIT-1:0] link_in_1_flit, output reg [2:0] link_in_1_credit@PORTS@);
  localparam FLIT = @FLIT@;
  reg [31:0] source, target, beats, burst, flits, expected, sent, received, checksum;
  reg [31:0] sent_at, received_at, asked_at, answered_at, cycle, took;
  reg running, done, error, start;
  reg [2:0] fault;
  reg [3:0] credits;
  wire [@AXI@-1:0] busy, asked, answered;
  wire [1:0] responses [0:@AXI@-1];
  wire [31:0] all_responses = @RESPONSES@;
  assign irq = done || error;
  assign link_out_1_valid = 0; assign link_out_1_flit = 0; assign link_in_0_credit = 0;
  wire write = axil_awvalid && axil_wvalid && !axil_bvalid;
  assign axil_awready = write; assign axil_wready = write; assign axil_bresp = 0;
  wire read = axil_arvalid && !axil_rvalid && axil_araddr != 16'h0f8;
  assign axil_arready = read;
  wire send = running && !start && sent != flits && credits != 0;
  always @(posedge clk) begin
    cycle <= cycle + 1; start <= 0;
    if (axil_bready) axil_bvalid <= 0;
    if (write) begin
      axil_bvalid <= 1;
      case (axil_awaddr)
        16'h008: begin
          if (axil_wdata[0]) begin
            start <= 1; running <= 1; done <= 0; took <= 0; sent <= 0; received <= 0; checksum <= 0;
          end
          if (axil_wdata[1]) error <= 1;
        end
        16'h010: source <= axil_wdata;
        16'h014: target <= axil_wdata;
        16'h018: beats <= axil_wdata;
        16'h01c: burst <= axil_wdata;
        16'h020: flits <= axil_wdata;
        16'h024: expected <= axil_wdata;
        16'h04c: fault <= axil_wdata[2:0];
        default: ;
      endcase
    end
    if (axil_rready) axil_rvalid <= 0;
    if (read) begin
      axil_rvalid <= 1; axil_rresp <= 0;
      case (axil_araddr)
        16'h000: axil_rdata <= 32'h5354414e;
        16'h00c: axil_rdata <= {29'd0, error, done, running};
        16'h010: axil_rdata <= source;
        16'h014: axil_rdata <= target;
        16'h018: axil_rdata <= beats;
        16'h01c: axil_rdata <= burst;
        16'h020: axil_rdata <= flits;
        16'h024: axil_rdata <= expected;
        16'h028: axil_rdata <= received;
        16'h02c: axil_rdata <= checksum;
        16'h030: axil_rdata <= sent_at;
        16'h034: axil_rdata <= received_at;
        16'h038: axil_rdata <= asked_at;
        16'h03c: axil_rdata <= answered_at;
        16'h040: axil_rdata <= cycle;
        16'h044: axil_rdata <= took;
        16'h048: axil_rdata <= all_responses;
        default: begin axil_rdata <= 0; axil_rresp <= 2; end
      endcase
    end
    link_out_0_valid <= send;
    if (send) begin
      link_out_0_flit <= {sent ^ 32'h5a5a0000, {(FLIT-32){1'b0}}} | {{(FLIT-32){1'b0}}, sent};
      if (sent == 0) sent_at <= cycle + 1;
      sent <= sent + 1;
    end
    credits <= credits - {3'd0, send} + {3'd0, link_out_0_credit[1]};
    link_in_1_credit <= {1'b0, link_in_1_valid, 1'b0};
    if (link_in_1_valid) begin
      if (received == 0) received_at <= cycle;
      received <= received + 1;
      checksum <= {checksum[30:0], checksum[31]} + (link_in_1_flit[FLIT-1 -: 32] ^ link_in_1_flit[31:0]);
    end
    if (!asked[0]) asked_at <= cycle;
    if (!answered[0]) answered_at <= cycle;
    if (running) took <= took + 1;
    if (running && !start && busy == 0 && sent == flits && received >= expected) begin
      running <= 0; done <= 1;
    end
    if (rst) begin
      axil_bvalid <= 0; axil_rvalid <= 0; running <= 0; done <= 0; error <= 0; start <= 0; credits <= 4;
      sent <= 0; received <= 0; flits <= 0; expected <= 0; cycle <= 0; beats <= 0; burst <= 1;
      link_out_0_valid <= 0; link_in_1_credit <= 0; fault <= 0;
      checksum <= 0; took <= 0; source <= 0; target <= 0;
    end
  end
@INSTANCES@
endmodule
"""


def standin(axi_ports: int = 1, slice_words: int = 4, flit_bits: int = 40) -> dict[str, str]:
    """File name to text; the top module is ``standin``. ``flit_bits`` is at least 33."""
    ports, instances = "", ""
    for p in range(axi_ports):
        n = f"axi_{p}_"
        ports += (f",\n  output {n}arid, output {n}awid, input {n}rid, input {n}bid, output [2:0] {n}awsize,"
                  f"\n  output [1:0] {n}awburst, output [31:0] {n}araddr, output [7:0] {n}arlen, "
                  f"output [2:0] {n}arsize, output [1:0] {n}arburst, output {n}arvalid, input {n}arready,\n"
                  f"  input [{32 * slice_words - 1}:0] {n}rdata, input [1:0] {n}rresp, input {n}rlast, "
                  f"input {n}rvalid, output {n}rready,\n"
                  f"  output [31:0] {n}awaddr, output [7:0] {n}awlen, output {n}awvalid, input {n}awready,\n"
                  f"  output [{32 * slice_words - 1}:0] {n}wdata, output [{4 * slice_words - 1}:0] {n}wstrb,"
                  f"\n  output {n}wlast, output {n}wvalid, input {n}wready,\n"
                  f"  input [1:0] {n}bresp, input {n}bvalid, output {n}bready")
        pins = ["arsize", "arburst",
                "araddr", "arlen", "arvalid", "arready", "rdata", "rresp", "rlast", "rvalid", "rready",
                "awaddr", "awlen", "awvalid", "awready", "wdata", "wstrb", "wlast", "wvalid", "wready",
                "bresp", "bvalid", "bready"]
        shift = (4 * slice_words).bit_length() - 1
        instances += (f"  assign {n}arid = 0; assign {n}awid = 0; assign {n}awsize = {shift};"
                      f" assign {n}awburst = 1;\n  standin_port #(.WORDS({slice_words}), "
                      f".SHIFT({shift})) port_{p} (.clk(clk), .rst(rst), "
                      f".start(start), .source(source), .target(target), .beats(beats), "
                      f".burst(burst), .fault(fault), "
                      f".busy(busy[{p}]), .responses(responses[{p}]), .asked(asked[{p}]), "
                      f".answered(answered[{p}]), "
                      + ", ".join(f".{pin}({n}{pin})" for pin in pins) + ");\n")
    text = _TOP.replace("@PORTS@", ports).replace("@INSTANCES@", instances)
    text = text.replace("@FLIT@", str(flit_bits)).replace("@AXI@", str(axi_ports)).replace(
        "@RESPONSES@", " | ".join(f"{{30'd0, responses[{p}]}}" for p in range(axi_ports)))
    # A parameter must be known before the ports that use it.
    text = text.replace(f"  localparam FLIT = {flit_bits};\n", "").replace(
        "module standin (", f"module standin #(parameter FLIT = {flit_bits}) (")
    return {"standin.sv": _PORT + text.replace("[FLIT-1:0]", f"[{flit_bits - 1}:0]")}
