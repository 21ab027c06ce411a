// Runs tasks on one Verilated engine, with the memory behind its ports.
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "Vmodel.h"
#include "engine_ports.h"  // sizes, and how to reach the ports
#include "verilated.h"

namespace {

struct Settings {
    uint64_t seed, availability, latency, limit;  // availability: of 256
};

struct Counts {
    uint64_t cycles, busy, stall_input, stall_output, stall_memory, words, useful_macs, issued_macs;
    uint64_t first_busy, last_busy;
};

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
    bool chance(uint64_t of_256) {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return ((state_ >> 24) & 255) < of_256;
    }

  private:
    uint64_t state_;
};

void check(bool good, const std::string &what) {
    if (!good) throw std::runtime_error(what);
}

template <typename Port>
void put(Port &port, const void *bits, size_t bytes) {
    std::memset(&port, 0, sizeof port);
    std::memcpy(&port, bits, bytes < sizeof port ? bytes : sizeof port);
}

template <typename Port>
uint64_t low(const Port &port) {
    uint64_t bits = 0;
    std::memcpy(&bits, &port, sizeof port < 8 ? sizeof port : 8);
    return bits;
}

// A stream that the engine drives: its payload must hold while it waits.
class Held {
  public:
    template <typename Port>
    void see(bool valid, bool taken, const Port &payload, const char *what) {
        std::vector<uint8_t> bits(reinterpret_cast<const uint8_t *>(&payload),
                                  reinterpret_cast<const uint8_t *>(&payload) + sizeof payload);
        check(!waiting_ || (valid && bits == bits_), std::string(what) + " changed while it waited");
        waiting_ = valid && !taken;
        bits_ = bits;
    }

  private:
    bool waiting_ = false;
    std::vector<uint8_t> bits_;
};

struct Memory {
    uint32_t *words;
    uint64_t size;
    const Settings &settings;
    Random random;
    uint64_t cycle = 0;

    void request(uint64_t bits, uint64_t &address, uint32_t &beats) const {
        beats = uint32_t(bits >> (REQUEST_BITS - 7)) & 127;
        address = bits & ((1ull << (REQUEST_BITS - 7)) - 1);
        check(beats >= 1 && beats <= 64, "a request of " + std::to_string(beats) + " beats");
        check((address + beats) * BEAT_WORDS <= size, "a request beyond the memory");
    }
};

struct Reader {
    struct Beat {
        uint64_t at, address;
    };
    std::deque<Beat> queue;
    bool offering = false, taking = false;
    Held held;

    template <typename Port>
    void drive(Memory &memory, const Port &port) {
        if (!offering && !queue.empty() && queue.front().at <= memory.cycle &&
            memory.random.chance(memory.settings.availability)) {
            put(port.data_payload, memory.words + queue.front().address * BEAT_WORDS, 4 * BEAT_WORDS);
            offering = true;
        }
        taking = memory.random.chance(memory.settings.availability);
        port.data_valid = offering;
        port.request_ready = taking;
    }

    template <typename Port>
    void sample(Memory &memory, const Port &port) {
        if (offering && port.data_ready) {
            queue.pop_front();
            offering = false;
        }
        held.see(port.request_valid, taking, port.request_payload, "a read request");
        if (port.request_valid && taking) {
            uint64_t address;
            uint32_t beats;
            memory.request(low(port.request_payload), address, beats);
            for (uint32_t beat = 0; beat < beats; beat++)
                queue.push_back({memory.cycle + memory.settings.latency, address + beat});
        }
    }
};

struct Writer {
    struct Beat {
        uint64_t address;
        bool last;
    };
    std::deque<Beat> queue;
    std::deque<uint64_t> responses;
    bool taking = false, accepting = false;
    Held held_request, held_data;

    template <typename Port>
    void drive(Memory &memory, const Port &port) {
        taking = memory.random.chance(memory.settings.availability);
        accepting = !queue.empty() && memory.random.chance(memory.settings.availability);
        bool responding = !responses.empty() && responses.front() <= memory.cycle;
        if (responding) responses.pop_front();
        port.request_ready = taking;
        port.data_ready = accepting;
        port.response = responding;
    }

    template <typename Port>
    void sample(Memory &memory, const Port &port) {
        held_request.see(port.request_valid, taking, port.request_payload, "a write request");
        held_data.see(port.data_valid, accepting, port.data_payload, "write data");
        if (port.data_valid && accepting) {
            uint8_t bits[sizeof port.data_payload];
            std::memcpy(bits, &port.data_payload, sizeof bits);
            for (int lane = 0; lane < BEAT_WORDS; lane++) {
                int strobe = 32 * BEAT_WORDS + lane;
                if (bits[strobe / 8] >> (strobe % 8) & 1)
                    std::memcpy(memory.words + queue.front().address * BEAT_WORDS + lane, bits + 4 * lane, 4);
            }
            if (queue.front().last) responses.push_back(memory.cycle + memory.settings.latency);
            queue.pop_front();
        }
        if (port.request_valid && taking) {
            uint64_t address;
            uint32_t beats;
            memory.request(low(port.request_payload), address, beats);
            for (uint32_t beat = 0; beat < beats; beat++)
                queue.push_back({address + beat, beat == beats - 1});
        }
    }
};

void run(const uint32_t *tasks, uint64_t count, const uint32_t *bases, Memory &memory, const Settings &settings,
         uint32_t *done, Counts &counts) {
    constexpr int BODY_WORDS = 56, TASK_WORDS = 1 + BODY_WORDS;
    auto context = std::make_unique<VerilatedContext>();
    auto model = std::make_unique<Vmodel>(context.get());
    auto engine = ENGINE_PORT(model, engine);
    std::vector<Reader> readers(READ_PORTS);
    std::vector<Writer> writers(WRITE_PORTS);
    Held held_done;
    uint64_t given = 0, word = 0, started = 0, finished = 0;
    bool sending = false, starting = false;
    put(engine.bases, bases, 64);
    model->rst = 1;
    for (int edge = 0; edge < 4; edge++) {
        model->clk = edge & 1;
        model->eval();
    }
    model->rst = 0;
    while (finished < count) {
        check(memory.cycle < settings.limit, "the engine hangs with " + std::to_string(finished) + " tasks done");
        sending = given < count && (sending || memory.random.chance(settings.availability));
        uint64_t payload = 0;
        if (sending)
            payload = word | uint64_t(tasks[given * TASK_WORDS + 1 + word]) << 6 |
                      uint64_t(word == BODY_WORDS - 1) << 38;
        put(engine.body_payload, &payload, 8);
        engine.body_valid = sending;
        starting = started < given && (starting || memory.random.chance(settings.availability));
        engine.start_valid = starting;
        engine.operation = starting ? tasks[started * TASK_WORDS] : 0;
        bool taking = memory.random.chance(settings.availability);
        engine.done_ready = taking;
        size_t port = 0;
#define DRIVE_READ(name) readers[port++].drive(memory, READ_PORT(model, name));
        FOR_READ_PORTS(DRIVE_READ)
        port = 0;
#define DRIVE_WRITE(name) writers[port++].drive(memory, WRITE_PORT(model, name));
        FOR_WRITE_PORTS(DRIVE_WRITE)

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
        port = 0;
#define SAMPLE_READ(name) readers[port++].sample(memory, READ_PORT(model, name));
        FOR_READ_PORTS(SAMPLE_READ)
        port = 0;
#define SAMPLE_WRITE(name) writers[port++].sample(memory, WRITE_PORT(model, name));
        FOR_WRITE_PORTS(SAMPLE_WRITE)
        model->clk = 1;
        model->eval();
        counts.cycles = ++memory.cycle;
    }
    model->final();
}

}  // namespace

extern "C" int engine_run(const uint32_t *tasks, uint64_t count, const uint32_t *bases, uint32_t *words,
                          uint64_t size, const Settings *settings, uint32_t *done, Counts *counts,
                          char *message, uint64_t message_size) {
    try {
        Memory memory{words, size, *settings, Random(settings->seed)};
        run(tasks, count, bases, memory, *settings, done, *counts);
        return 0;
    } catch (const std::exception &error) {
        std::strncpy(message, error.what(), message_size - 1);
        return 1;
    }
}
