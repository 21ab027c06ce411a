# Die ndp-demo, synthesised out of context for a clock of 100 MHz. Times in nanoseconds.

create_clock -name clk -period 10.000 [get_ports {clk}]

# Reset is synchronous.
set_input_delay -clock clk -max 3.000 [get_ports {rst}]
set_input_delay -clock clk -min 0.000 [get_ports {rst}]

# axil: inputs
set_input_delay -clock clk -max 3.000 [get_ports {
    axil__awaddr[*] axil__awprot[*] axil__awvalid axil__wdata[*] axil__wstrb[*] axil__wvalid axil__bready
    axil__araddr[*] axil__arprot[*] axil__arvalid axil__rready
}]
set_input_delay -clock clk -min 0.000 [get_ports {
    axil__awaddr[*] axil__awprot[*] axil__awvalid axil__wdata[*] axil__wstrb[*] axil__wvalid axil__bready
    axil__araddr[*] axil__arprot[*] axil__arvalid axil__rready
}]

# axil: outputs
set_output_delay -clock clk -max 3.000 [get_ports {
    axil__awready axil__wready axil__bresp[*] axil__bvalid axil__arready axil__rdata[*] axil__rresp[*]
    axil__rvalid
}]
set_output_delay -clock clk -min 0.000 [get_ports {
    axil__awready axil__wready axil__bresp[*] axil__bvalid axil__arready axil__rdata[*] axil__rresp[*]
    axil__rvalid
}]

# axi_0: outputs
set_output_delay -clock clk -max 3.000 [get_ports {
    axi_0__awid axi_0__awaddr[*] axi_0__awlen[*] axi_0__awsize[*] axi_0__awburst[*] axi_0__awcache[*]
    axi_0__awprot[*] axi_0__awvalid axi_0__arid axi_0__araddr[*] axi_0__arlen[*] axi_0__arsize[*]
    axi_0__arburst[*] axi_0__arcache[*] axi_0__arprot[*] axi_0__arvalid axi_0__wdata[*] axi_0__wstrb[*]
    axi_0__wlast axi_0__wvalid axi_0__bready axi_0__rready
}]
set_output_delay -clock clk -min 0.000 [get_ports {
    axi_0__awid axi_0__awaddr[*] axi_0__awlen[*] axi_0__awsize[*] axi_0__awburst[*] axi_0__awcache[*]
    axi_0__awprot[*] axi_0__awvalid axi_0__arid axi_0__araddr[*] axi_0__arlen[*] axi_0__arsize[*]
    axi_0__arburst[*] axi_0__arcache[*] axi_0__arprot[*] axi_0__arvalid axi_0__wdata[*] axi_0__wstrb[*]
    axi_0__wlast axi_0__wvalid axi_0__bready axi_0__rready
}]

# axi_0: inputs
set_input_delay -clock clk -max 3.000 [get_ports {
    axi_0__awready axi_0__arready axi_0__wready axi_0__bid axi_0__bresp[*] axi_0__bvalid axi_0__rid
    axi_0__rdata[*] axi_0__rresp[*] axi_0__rlast axi_0__rvalid
}]
set_input_delay -clock clk -min 0.000 [get_ports {
    axi_0__awready axi_0__arready axi_0__wready axi_0__bid axi_0__bresp[*] axi_0__bvalid axi_0__rid
    axi_0__rdata[*] axi_0__rresp[*] axi_0__rlast axi_0__rvalid
}]

# link_out_0: outputs
set_output_delay -clock clk -max 3.000 [get_ports {link_out_0__valid link_out_0__flit[*]}]
set_output_delay -clock clk -min 0.000 [get_ports {link_out_0__valid link_out_0__flit[*]}]

# link_out_0: inputs
set_input_delay -clock clk -max 3.000 [get_ports {link_out_0__credit[*]}]
set_input_delay -clock clk -min 0.000 [get_ports {link_out_0__credit[*]}]

# link_out_1: outputs
set_output_delay -clock clk -max 3.000 [get_ports {link_out_1__valid link_out_1__flit[*]}]
set_output_delay -clock clk -min 0.000 [get_ports {link_out_1__valid link_out_1__flit[*]}]

# link_out_1: inputs
set_input_delay -clock clk -max 3.000 [get_ports {link_out_1__credit[*]}]
set_input_delay -clock clk -min 0.000 [get_ports {link_out_1__credit[*]}]

# link_in_0: inputs
set_input_delay -clock clk -max 3.000 [get_ports {link_in_0__valid link_in_0__flit[*]}]
set_input_delay -clock clk -min 0.000 [get_ports {link_in_0__valid link_in_0__flit[*]}]

# link_in_0: outputs
set_output_delay -clock clk -max 3.000 [get_ports {link_in_0__credit[*]}]
set_output_delay -clock clk -min 0.000 [get_ports {link_in_0__credit[*]}]

# link_in_1: inputs
set_input_delay -clock clk -max 3.000 [get_ports {link_in_1__valid link_in_1__flit[*]}]
set_input_delay -clock clk -min 0.000 [get_ports {link_in_1__valid link_in_1__flit[*]}]

# link_in_1: outputs
set_output_delay -clock clk -max 3.000 [get_ports {link_in_1__credit[*]}]
set_output_delay -clock clk -min 0.000 [get_ports {link_in_1__credit[*]}]

# irq: outputs
set_output_delay -clock clk -max 3.000 [get_ports {irq}]
set_output_delay -clock clk -min 0.000 [get_ports {irq}]

# busy: outputs
set_output_delay -clock clk -max 3.000 [get_ports {busy}]
set_output_delay -clock clk -min 0.000 [get_ports {busy}]

# done: outputs
set_output_delay -clock clk -max 3.000 [get_ports {done}]
set_output_delay -clock clk -min 0.000 [get_ports {done}]

# error: outputs
set_output_delay -clock clk -max 3.000 [get_ports {error}]
set_output_delay -clock clk -min 0.000 [get_ports {error}]
