// Runs a Verilated SystolicArray over recorded stimulus, cycle by cycle at its boundary.
#include <cstdint>
#include <cstring>

#include "Vmodel.h"
#include "verilated.h"

namespace {

// One bit each above the slot number in the low 16 bits.
enum Control : uint32_t {
    kValid = 1u << 16, kFirst = 1u << 17, kPreload = 1u << 18, kLast = 1u << 19,
    kDrain = 1u << 20, kLoad = 1u << 21, kReset = 1u << 22,
};

struct Array {
    VerilatedContext context;
    Vmodel model{&context};
};

}  // namespace

extern "C" {

// A row, and an element of it, each leave reset a cycle after what holds them.
void* array_open() {
    auto* array = new Array;
    for (int i = 0; i < 4; ++i) {
        array->model.clk = 0;
        array->model.eval();
        array->model.clk = 1;
        array->model.eval();
    }
    return array;
}

void array_close(void* handle) { delete static_cast<Array*>(handle); }

// Operands and words of each cycle lie one after another in as many bytes as the port needs. Outputs are those
// seen in the cycle, before its clock edge.
void array_run(void* handle, uint64_t cycles, const uint32_t* control, const uint8_t* a, uint64_t a_bytes,
               const uint8_t* b, uint64_t b_bytes, const uint8_t* load, uint64_t word_bytes, uint8_t* drain,
               uint8_t* drain_valid) {
    Vmodel& m = static_cast<Array*>(handle)->model;
    for (uint64_t t = 0; t < cycles; ++t) {
        const uint32_t bits = control[t];
        m.slot = bits & 0xffff;
        m.valid = (bits & kValid) != 0;
        m.first = (bits & kFirst) != 0;
        m.preload = (bits & kPreload) != 0;
        m.last = (bits & kLast) != 0;
        m.drain_start = (bits & kDrain) != 0;
        m.load_start = (bits & kLoad) != 0;
        m.rst = (bits & kReset) != 0;
        std::memcpy(&m.a, a + t * a_bytes, a_bytes);
        std::memcpy(&m.b, b + t * b_bytes, b_bytes);
        std::memcpy(&m.load_data, load + t * word_bytes, word_bytes);
        m.clk = 0;
        m.eval();
        std::memcpy(drain + t * word_bytes, &m.drain_data, word_bytes);
        drain_valid[t] = m.drain_valid;
        m.clk = 1;
        m.eval();
    }
}
}
