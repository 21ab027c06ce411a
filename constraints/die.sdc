# Die ndp-demo, synthesised out of context for a clock of 100 MHz. Times in nanoseconds.

create_clock -name clk -period 10.000 [get_ports {clk}]
set_clock_uncertainty 0.200 [get_clocks {clk}]

# Reset is synchronous.
set_input_delay -clock clk -max 3.000 [get_ports {rst}]
set_input_delay -clock clk -min 0.000 [get_ports {rst}]

# axil: inputs
set_input_delay -clock clk -max 3.000 [get_ports {
    axil_awaddr[*] axil_awprot[*] axil_awvalid axil_wdata[*] axil_wstrb[*] axil_wvalid axil_bready
    axil_araddr[*] axil_arprot[*] axil_arvalid axil_rready
}]
set_input_delay -clock clk -min 0.000 [get_ports {
    axil_awaddr[*] axil_awprot[*] axil_awvalid axil_wdata[*] axil_wstrb[*] axil_wvalid axil_bready
    axil_araddr[*] axil_arprot[*] axil_arvalid axil_rready
}]

# axil: outputs
set_output_delay -clock clk -max 6.000 [get_ports {
    axil_awready axil_wready axil_bresp[*] axil_bvalid axil_arready axil_rdata[*] axil_rresp[*] axil_rvalid
}]
set_output_delay -clock clk -min 0.000 [get_ports {
    axil_awready axil_wready axil_bresp[*] axil_bvalid axil_arready axil_rdata[*] axil_rresp[*] axil_rvalid
}]

# axi_0: outputs
set_output_delay -clock clk -max 6.000 [get_ports {
    axi_0_awid axi_0_awaddr[*] axi_0_awlen[*] axi_0_awsize[*] axi_0_awburst[*] axi_0_awcache[*]
    axi_0_awprot[*] axi_0_awvalid axi_0_arid axi_0_araddr[*] axi_0_arlen[*] axi_0_arsize[*] axi_0_arburst[*]
    axi_0_arcache[*] axi_0_arprot[*] axi_0_arvalid axi_0_wdata[*] axi_0_wstrb[*] axi_0_wlast axi_0_wvalid
    axi_0_bready axi_0_rready
}]
set_output_delay -clock clk -min 0.000 [get_ports {
    axi_0_awid axi_0_awaddr[*] axi_0_awlen[*] axi_0_awsize[*] axi_0_awburst[*] axi_0_awcache[*]
    axi_0_awprot[*] axi_0_awvalid axi_0_arid axi_0_araddr[*] axi_0_arlen[*] axi_0_arsize[*] axi_0_arburst[*]
    axi_0_arcache[*] axi_0_arprot[*] axi_0_arvalid axi_0_wdata[*] axi_0_wstrb[*] axi_0_wlast axi_0_wvalid
    axi_0_bready axi_0_rready
}]

# axi_0: inputs
set_input_delay -clock clk -max 3.000 [get_ports {
    axi_0_awready axi_0_arready axi_0_wready axi_0_bid axi_0_bresp[*] axi_0_bvalid axi_0_rid axi_0_rdata[*]
    axi_0_rresp[*] axi_0_rlast axi_0_rvalid
}]
set_input_delay -clock clk -min 0.000 [get_ports {
    axi_0_awready axi_0_arready axi_0_wready axi_0_bid axi_0_bresp[*] axi_0_bvalid axi_0_rid axi_0_rdata[*]
    axi_0_rresp[*] axi_0_rlast axi_0_rvalid
}]

# link_out_0: outputs
set_output_delay -clock clk -max 6.000 [get_ports {link_out_0_valid link_out_0_flit[*]}]
set_output_delay -clock clk -min 0.000 [get_ports {link_out_0_valid link_out_0_flit[*]}]

# link_out_0: inputs
set_input_delay -clock clk -max 3.000 [get_ports {link_out_0_credit[*]}]
set_input_delay -clock clk -min 0.000 [get_ports {link_out_0_credit[*]}]

# link_out_1: outputs
set_output_delay -clock clk -max 6.000 [get_ports {link_out_1_valid link_out_1_flit[*]}]
set_output_delay -clock clk -min 0.000 [get_ports {link_out_1_valid link_out_1_flit[*]}]

# link_out_1: inputs
set_input_delay -clock clk -max 3.000 [get_ports {link_out_1_credit[*]}]
set_input_delay -clock clk -min 0.000 [get_ports {link_out_1_credit[*]}]

# link_in_0: inputs
set_input_delay -clock clk -max 3.000 [get_ports {link_in_0_valid link_in_0_flit[*]}]
set_input_delay -clock clk -min 0.000 [get_ports {link_in_0_valid link_in_0_flit[*]}]

# link_in_0: outputs
set_output_delay -clock clk -max 6.000 [get_ports {link_in_0_credit[*]}]
set_output_delay -clock clk -min 0.000 [get_ports {link_in_0_credit[*]}]

# link_in_1: inputs
set_input_delay -clock clk -max 3.000 [get_ports {link_in_1_valid link_in_1_flit[*]}]
set_input_delay -clock clk -min 0.000 [get_ports {link_in_1_valid link_in_1_flit[*]}]

# link_in_1: outputs
set_output_delay -clock clk -max 6.000 [get_ports {link_in_1_credit[*]}]
set_output_delay -clock clk -min 0.000 [get_ports {link_in_1_credit[*]}]

# irq: outputs
set_output_delay -clock clk -max 6.000 [get_ports {irq}]
set_output_delay -clock clk -min 0.000 [get_ports {irq}]

# busy: outputs
set_output_delay -clock clk -max 6.000 [get_ports {busy}]
set_output_delay -clock clk -min 0.000 [get_ports {busy}]

# done: outputs
set_output_delay -clock clk -max 6.000 [get_ports {done}]
set_output_delay -clock clk -min 0.000 [get_ports {done}]

# error: outputs
set_output_delay -clock clk -max 6.000 [get_ports {error}]
set_output_delay -clock clk -min 0.000 [get_ports {error}]
