// Feeds arrays through a pipelined unit, one element a clock, and collects what comes out.
#include <cstddef>
#include <cstdint>

#include "Vmodel.h"
#include "batch_ports.h"

extern "C" void batch_run(const uint64_t *const *operands, uint64_t *results, size_t count, size_t latency) {
    VerilatedContext context;
    Vmodel model{&context};
    for (size_t cycle = 0; cycle < count + latency; cycle++) {
        batch_drive(model, operands, cycle < count ? cycle : count - 1);
        model.clk = 0;
        model.eval();
        model.clk = 1;
        model.eval();
        if (cycle + 1 >= latency && cycle + 1 - latency < count)
            results[cycle + 1 - latency] = batch_observe(model);
    }
    model.final();
}
