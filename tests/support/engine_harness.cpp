// Runs tasks on Verilated engines of one build, each with a memory of its own behind its ports. Transfer engines of two
// dies run side by side: what one sends, the other receives.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <type_traits>
#include <vector>

#include "Vmodel.h"
#include "checked_memory.h"
#include "engine_ports.h"  // made by verilated_engine.py: how to reach the engine's seam, and its links if it has any
#include "verilated.h"

namespace {

constexpr int BODY_WORDS = 56, TASK_WORDS = 1 + BODY_WORDS, DONE_WORDS = 5;

struct EngineSettings : Settings {
    // Models, and of each the rows of its task list and the words of its memory.
    uint64_t models, tasks, words;
    // Cycles after the last task and the last flit; if `cycles` is not 0, the run takes so many instead, whatever is
    // done by then.
    uint64_t run_on, cycles;
    // Number of the first model's die, and dies of the machine; probability, of 256, that links take something.
    uint64_t first_die, dies, gate;
};

struct Counts {
    uint64_t cycles, busy, stall_input, stall_output, stall_memory, words, useful_macs, issued_macs;
    uint64_t first_busy, last_busy, finished, faults, own_faults;
};

// What Python gives and takes, by model.
struct Arrays {
    const uint64_t *task_counts;
    const uint32_t *tasks;
    Word *memory;
    uint32_t *done;
    Counts *counts;
    Traffic *traffic;
    uint64_t *arrivals;
};

// The scheduler's side of an engine: bodies and starts go in, what is done comes out.
struct Scheduler {
    const uint32_t *tasks;
    uint64_t count;
    uint32_t *done;
    uint64_t given = 0, word = 0, started = 0, finished = 0;
    bool sending = false, starting = false, taking = false;
    Held held_done{};

    template <typename Engine>
    void drive(Memory &memory, const Engine &engine) {
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
        taking = memory.chance();
        engine.done_ready = taking;
    }

    template <typename Engine>
    void sample(const Engine &engine) {
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
            std::memcpy(done + DONE_WORDS * finished++, &engine.done_payload, 4 * DONE_WORDS);
        }
    }
};

void count_strobes(Counts &counts, uint64_t strobes, uint64_t cycle) {
    check(__builtin_popcountll(strobes & 15) <= 1, "more than one state in a cycle");
    counts.busy += strobes & 1;
    counts.stall_input += strobes >> 1 & 1;
    counts.stall_output += strobes >> 2 & 1;
    counts.stall_memory += strobes >> 3 & 1;
    counts.words += strobes >> 4 & 4095;
    counts.useful_macs += strobes >> 16 & 65535;
    counts.issued_macs += strobes >> 32 & 65535;
    if (strobes & 1) {
        if (counts.busy == 1) counts.first_busy = cycle;
        counts.last_busy = cycle;
    }
}

#if LINKS
// A transfer engine's side towards the network: flits that come and go, arrivals and faults of what came.
struct Links {
    // Two places, so that a flit a cycle passes although ready does not depend on the other die's ready.
    static constexpr size_t PLACES = 2;
    std::deque<std::remove_reference_t<decltype(Vmodel::send_payload)>> arriving;
    bool offering = false, taking = false, advancing = false, active = false;
    Held held_send, held_advance;

    void configure(Vmodel &model, uint64_t die, const EngineSettings &settings) {
        model.die = die;
        model.dies = settings.dies;
        model.limit = settings.words / BEAT_WORDS;
    }

    void drive(Memory &memory, Vmodel &model, const Links &other, uint64_t gate) {
        offering = !arriving.empty();
        model.receive_valid = offering;
        if (offering) model.receive_payload = arriving.front();
        taking = other.arriving.size() < PLACES && memory.random.chance(gate);
        model.send_ready = taking;
        advancing = memory.random.chance(gate);
        model.tile_advance_ready = advancing;
    }

    void sample(const Vmodel &model, Links &other, uint64_t other_die, Counts &counts, uint64_t *arrivals) {
        if (offering && model.receive_ready) arriving.pop_front();
        held_send.see(model.send_valid, taking, model.send_payload, "a flit");
        if (model.send_valid && taking) {
            check(&other != this, "a flit for another die of a machine that has one");
            check(bits(model.send_payload, DESTINATION_OFFSET, DESTINATION_BITS) == other_die,
                  "a flit for a die that no task names");
            other.arriving.push_back(model.send_payload);
        }
        held_advance.see(model.tile_advance_valid, advancing, model.tile_advance_payload, "an arrival");
        if (model.tile_advance_valid && advancing) {
            check(model.tile_advance_payload < COUNTERS, "an arrival of a counter that does not exist");
            arrivals[model.tile_advance_payload]++;
        }
        active = offering || model.send_valid || model.tile_advance_valid;
        if (model.fault & 1) ++(model.fault & 2 ? counts.own_faults : counts.faults);
    }
};
#else
struct Links {
    static constexpr bool active = false;

    void configure(Vmodel &, uint64_t, const EngineSettings &) {}
    void drive(Memory &, Vmodel &, const Links &, uint64_t) {}
    void sample(const Vmodel &, Links &, uint64_t, Counts &, uint64_t *) {}
};
#endif

// A model with what is about it.
struct Bench {
    VerilatedContext context;
    Vmodel model{&context};
    uint64_t die;
    Memory memory;
    Scheduler scheduler;
    Counts &counts;
    MemoryPorts ports;
    Links links;

    Bench(uint64_t number, const EngineSettings &settings, const Arrays &arrays)
        : die(settings.first_die + number),
          memory{arrays.memory + number * settings.words, settings.words, settings,
                 Random(settings.seed + number * 1000003)},
          scheduler{arrays.tasks + number * settings.tasks * TASK_WORDS, arrays.task_counts[number],
                    arrays.done + number * settings.tasks * DONE_WORDS},
          counts(arrays.counts[number]) {
        links.configure(model, die, settings);
        model.rst = 1;
        for (int edge = 0; edge < 4; edge++) {
            model.clk = edge & 1;
            model.eval();
        }
        model.rst = 0;
    }

    ~Bench() { model.final(); }

    bool finished() const { return scheduler.finished == scheduler.count; }

    void drive(const Links &other, const EngineSettings &settings) {
        scheduler.drive(memory, ENGINE_PORT(&model, engine));
        ports.drive(memory, &model);
        links.drive(memory, model, other, settings.gate);
        model.clk = 0;
        model.eval();
    }

    void sample(Bench &other, uint64_t *arrivals) {
        if (!finished()) counts.cycles = memory.cycle + 1;
        const auto engine = ENGINE_PORT(&model, engine);
        scheduler.sample(engine);
        count_strobes(counts, low(engine.strobes), memory.cycle);
        ports.sample(memory, &model);
        links.sample(model, other.links, other.die, counts, arrivals);
        model.clk = 1;
    }
};

void run(const EngineSettings &settings, const Arrays &arrays) {
    std::vector<std::unique_ptr<Bench>> benches;
    for (uint64_t number = 0; number < settings.models; number++)
        benches.push_back(std::make_unique<Bench>(number, settings, arrays));
    for (uint64_t cycle = 0, after = 0;; cycle++) {
        const bool finished =
            std::all_of(benches.begin(), benches.end(), [](const auto &bench) { return bench->finished(); });
        const bool active =
            std::any_of(benches.begin(), benches.end(), [](const auto &bench) { return bench->links.active; });
        after = finished && !active ? after + 1 : 0;
        if (settings.cycles ? cycle == settings.cycles : after > settings.run_on) break;
        for (uint64_t number = 0; number < settings.models; number++)
            benches[number]->drive(benches[(number + 1) % settings.models]->links, settings);
        for (uint64_t number = 0; number < settings.models; number++) {
            Bench &bench = *benches[number];
            check(cycle < settings.limit, "the engine hangs with ", bench.scheduler.finished,
                  " tasks done");
            bench.sample(*benches[(number + 1) % settings.models], arrays.arrivals + number * COUNTERS);
        }
        for (auto &bench : benches) {
            bench->model.eval();
            bench->memory.cycle++;
        }
    }
    for (uint64_t number = 0; number < settings.models; number++) {
        arrays.counts[number].finished = benches[number]->scheduler.finished;
        benches[number]->ports.report(arrays.traffic + number * (READ_PORTS + WRITE_PORTS));
    }
}

}  // namespace

extern "C" int engine_run(const EngineSettings *settings, const Arrays *arrays, char *message, uint64_t message_size) {
    try {
        run(*settings, *arrays);
        return 0;
    } catch (const std::exception &error) {
        std::strncpy(message, error.what(), message_size - 1);
        return 1;
    }
}
