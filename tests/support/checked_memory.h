// Memory behind the ReadPort and WritePort of a Verilated model (hw/plinth_hw/memory/port.py), with checks.
//
// Every handshake is offered with a given probability; read data come `latency` cycles after their request was taken,
// a write is answered `response_delay` cycles after its last beat came. Checked of the model: sizes and addresses of
// requests, payloads that hold while they wait and, where it is promised, write data that are there when memory takes
// them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "Vmodel.h"
#include "memory_ports.h"  // made by checked_memory.py: sizes, and how to reach the ports

// The first members of what Python gives a harness.
struct Settings {
    uint64_t seed, availability, latency, response_delay, limit;  // availability: of 256; the others in cycles
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

template <typename... Parts>
void check(bool good, const Parts &...what) {
    if (good) return;
    std::ostringstream text;
    (text << ... << what);
    throw std::runtime_error(text.str());
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

// Some bits of a port, at most 32.
template <typename Port>
uint64_t bits(const Port &port, size_t offset, size_t count) {
    uint64_t found = 0;
    std::memcpy(&found, reinterpret_cast<const uint8_t *>(&port) + offset / 8,
                sizeof port - offset / 8 < 8 ? sizeof port - offset / 8 : 8);
    return found >> offset % 8 & ((1ull << count) - 1);
}

// A stream that the model drives: its payload must hold while it waits.
class Held {
  public:
    template <typename Port>
    void see(bool valid, bool taken, const Port &payload, const char *what) {
        const auto *bits = reinterpret_cast<const uint8_t *>(&payload);
        check(!waiting_ || (valid && !std::memcmp(bits_.data(), bits, sizeof payload)), what,
              " changed while it waited");
        waiting_ = valid && !taken;
        if (waiting_) bits_.assign(bits, bits + sizeof payload);
    }

  private:
    bool waiting_ = false;
    std::vector<uint8_t> bits_;
};

// What the ports share.
struct Memory {
    Word *words;
    uint64_t size;
    const Settings &settings;
    Random random;
    uint64_t cycle = 0;

    bool chance() { return random.chance(settings.availability); }

    void request(uint64_t bits, uint64_t &address, uint32_t &beats) const {
        beats = uint32_t(bits >> (REQUEST_BITS - 7)) & 127;
        address = bits & ((1ull << (REQUEST_BITS - 7)) - 1);
        check(beats >= 1 && beats <= MAX_BEATS, "a request of ", beats, " beats");
        check((address + beats) * BEAT_WORDS <= size, "a request beyond the memory");
    }
};

// Requests that a port's client made, and the beats that they asked for.
struct Traffic {
    uint64_t requests = 0, beats = 0;
};

struct Reader {
    struct Beat {
        uint64_t at, address;
    };
    std::deque<Beat> queue;
    Traffic traffic;
    bool offering = false, taking = false;
    Held held;

    template <typename Port>
    void drive(Memory &memory, const Port &port) {
        if (!offering && !queue.empty() && queue.front().at <= memory.cycle && memory.chance()) {
            put(port.data_payload, memory.words + queue.front().address * BEAT_WORDS,
                sizeof(Word) * BEAT_WORDS);
            offering = true;
        }
        taking = memory.chance();
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
            traffic.requests++;
            traffic.beats += beats;
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
    Traffic traffic;
    std::deque<uint64_t> responses;
    bool taking = false, accepting = false;
    Held held_request, held_data;

    template <typename Port>
    void drive(Memory &memory, const Port &port) {
        taking = memory.chance();
        accepting = !queue.empty() && memory.chance();
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
        check(!PROMPT_WRITES || !accepting || port.data_valid, "write data not there although requested");
        if (port.data_valid && accepting) {
            uint8_t bits[sizeof port.data_payload];
            std::memcpy(bits, &port.data_payload, sizeof bits);
            for (int lane = 0; lane < BEAT_WORDS; lane++) {
                int strobe = 8 * sizeof(Word) * BEAT_WORDS + lane;
                if (bits[strobe / 8] >> (strobe % 8) & 1)
                    std::memcpy(memory.words + queue.front().address * BEAT_WORDS + lane, bits + sizeof(Word) * lane,
                                sizeof(Word));
            }
            if (queue.front().last) responses.push_back(memory.cycle + memory.settings.response_delay);
            queue.pop_front();
        }
        if (port.request_valid && taking) {
            uint64_t address;
            uint32_t beats;
            memory.request(low(port.request_payload), address, beats);
            traffic.requests++;
            traffic.beats += beats;
            for (uint32_t beat = 0; beat < beats; beat++)
                queue.push_back({address + beat, beat == beats - 1});
        }
    }
};

// All memory ports of a model: drive before the model settles, sample after it, then count the cycle.
struct MemoryPorts {
    std::array<Reader, READ_PORTS> readers;
    std::array<Writer, WRITE_PORTS> writers;

    void drive(Memory &memory, Vmodel *model) {
        size_t port = 0;
#define DRIVE_READ(name) readers[port++].drive(memory, READ_PORT(model, name));
        FOR_READ_PORTS(DRIVE_READ)
#undef DRIVE_READ
        port = 0;
#define DRIVE_WRITE(name) writers[port++].drive(memory, WRITE_PORT(model, name));
        FOR_WRITE_PORTS(DRIVE_WRITE)
#undef DRIVE_WRITE
    }

    // What the clients of all ports asked for, read ports first.
    void report(Traffic *traffic) const {
        for (const Reader &reader : readers) *traffic++ = reader.traffic;
        for (const Writer &writer : writers) *traffic++ = writer.traffic;
    }

    void sample(Memory &memory, Vmodel *model) {
        size_t port = 0;
#define SAMPLE_READ(name) readers[port++].sample(memory, READ_PORT(model, name));
        FOR_READ_PORTS(SAMPLE_READ)
#undef SAMPLE_READ
        port = 0;
#define SAMPLE_WRITE(name) writers[port++].sample(memory, WRITE_PORT(model, name));
        FOR_WRITE_PORTS(SAMPLE_WRITE)
#undef SAMPLE_WRITE
    }
};
