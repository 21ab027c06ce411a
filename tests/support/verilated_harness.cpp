// Copies of a component and the wires between them, for verilated.py: their ports lie in words of 64 bits.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "Vmodel.h"
#include "verilated.h"

namespace {

// A port is an integer or an array of words.
template <typename Port>
void put(Port &port, const uint64_t *words) {
    std::memcpy(&port, words, sizeof port);
}

template <typename Port>
void take(const Port &port, uint64_t *words) {
    std::memcpy(words, &port, sizeof port);
}

#include "bench_ports.h"  // made by verilated.py: words of a copy, and how its ports are driven and observed

// More evaluations than signals go round through copies of a component without a loop.
constexpr int MOST_PASSES = 100;

struct Wire {
    uint64_t source, sink, words;
};

class Copies {
  public:
    Copies(uint64_t count, uint64_t *words, const Wire *wires, uint64_t wire_count)
        : words_(words), wires_(wires, wires + wire_count) {
        for (uint64_t copy = 0; copy < count; copy++)
            models_.push_back(std::make_unique<Vmodel>(&context_, ("copy" + std::to_string(copy)).c_str()));
    }

    ~Copies() {
        for (auto &model : models_) model->final();
    }

    // With the clock low; whether all has settled.
    bool settle() {
        for (int pass = 0; pass < MOST_PASSES; pass++) {
            if (!carry() && pass) return true;
            evaluate(0);
        }
        return false;
    }

    void tick() { evaluate(1); }

  private:
    void evaluate(int clock) {
        uint64_t *words = words_;
        for (auto &model : models_) {
            drive(*model, words);
            model->clk = clock;
            model->eval();
            observe(*model, words);
            words += WORDS;
        }
    }

    // From the outputs to the inputs that they lead to; whether any of these changes.
    bool carry() {
        bool changes = false;
        for (const Wire &wire : wires_) {
            uint64_t *sink = words_ + wire.sink;
            const uint64_t *source = words_ + wire.source;
            if (!std::memcmp(sink, source, 8 * wire.words)) continue;
            std::memcpy(sink, source, 8 * wire.words);
            changes = true;
        }
        return changes;
    }

    VerilatedContext context_;
    std::vector<std::unique_ptr<Vmodel>> models_;
    uint64_t *words_;
    std::vector<Wire> wires_;
};

}  // namespace

extern "C" {

void *bench_make(uint64_t count, uint64_t *words, const uint64_t *wires, uint64_t wire_count) {
    return new Copies(count, words, reinterpret_cast<const Wire *>(wires), wire_count);
}

int bench_settle(void *copies) { return static_cast<Copies *>(copies)->settle(); }

void bench_tick(void *copies) { static_cast<Copies *>(copies)->tick(); }

void bench_end(void *copies) { delete static_cast<Copies *>(copies); }
}
