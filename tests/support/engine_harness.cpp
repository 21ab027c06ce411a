// Runs tasks on one Verilated engine, with the memory behind its ports.
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>

#include "Vmodel.h"
#include "checked_memory.h"
#include "engine_ports.h"  // how to reach the engine's seam
#include "verilated.h"

namespace {

struct Counts {
    uint64_t cycles, busy, stall_input, stall_output, stall_memory, words, useful_macs, issued_macs;
    uint64_t first_busy, last_busy;
};

void run(const uint32_t *tasks, uint64_t count, Memory &memory, const Settings &settings, uint32_t *done,
         Counts &counts) {
    constexpr int BODY_WORDS = 56, TASK_WORDS = 1 + BODY_WORDS;
    auto context = std::make_unique<VerilatedContext>();
    auto model = std::make_unique<Vmodel>(context.get());
    auto engine = ENGINE_PORT(model, engine);
    MemoryPorts ports;
    Held held_done;
    uint64_t given = 0, word = 0, started = 0, finished = 0;
    bool sending = false, starting = false;
    model->rst = 1;
    for (int edge = 0; edge < 4; edge++) {
        model->clk = edge & 1;
        model->eval();
    }
    model->rst = 0;
    while (finished < count) {
        check(memory.cycle < settings.limit, "the engine hangs with ", finished, " tasks done");
        sending = given < count && (sending || memory.chance());
        uint64_t payload = 0;
        if (sending)
            payload = word | uint64_t(tasks[given * TASK_WORDS + 1 + word]) << 6 |
                      uint64_t(word == BODY_WORDS - 1) << 38;
        put(engine.body_payload, &payload, 8);
        engine.body_valid = sending;
        starting = started < given && (starting || memory.chance());
        engine.start_valid = starting;
        engine.operation = starting ? tasks[started * TASK_WORDS] : 0;
        bool taking = memory.chance();
        engine.done_ready = taking;
        ports.drive(memory, model.get());

        model->clk = 0;
        model->eval();
        if (sending && engine.body_ready) {
            sending = false;
            if (++word == BODY_WORDS) {
                word = 0;
                given++;
            }
        }
        if (starting && engine.start_ready) {
            starting = false;
            started++;
        }
        held_done.see(engine.done_valid, taking, engine.done_payload, "done");
        if (engine.done_valid && taking) {
            check(finished < started, "done without a task");
            std::memcpy(done + 5 * finished++, &engine.done_payload, 20);
        }
        uint64_t strobes = low(engine.strobes);
        check(__builtin_popcountll(strobes & 15) <= 1, "more than one state in a cycle");
        counts.busy += strobes & 1;
        counts.stall_input += strobes >> 1 & 1;
        counts.stall_output += strobes >> 2 & 1;
        counts.stall_memory += strobes >> 3 & 1;
        counts.words += strobes >> 4 & 4095;
        counts.useful_macs += strobes >> 16 & 65535;
        counts.issued_macs += strobes >> 32 & 65535;
        if (strobes & 1) {
            if (counts.busy == 1) counts.first_busy = memory.cycle;
            counts.last_busy = memory.cycle;
        }
        ports.sample(memory, model.get());
        model->clk = 1;
        model->eval();
        counts.cycles = ++memory.cycle;
    }
    model->final();
}

}  // namespace

extern "C" int engine_run(const uint32_t *tasks, uint64_t count, Word *words, uint64_t size,
                          const Settings *settings, uint32_t *done, Counts *counts, char *message,
                          uint64_t message_size) {
    try {
        Memory memory{words, size, *settings, Random(settings->seed)};
        run(tasks, count, memory, *settings, done, *counts);
        return 0;
    } catch (const std::exception &error) {
        std::strncpy(message, error.what(), message_size - 1);
        return 1;
    }
}
