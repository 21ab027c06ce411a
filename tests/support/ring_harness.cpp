// A ring of Verilated nodes (router, interface, collective engine) with memory, scheduler and control side.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "Vmodel.h"
#include "checked_memory.h"
#include "ring_node.h"
#include "verilated.h"

namespace {

struct RingSettings : Settings {
    uint64_t dies, words, tasks, sends, errors, link_delay, numerator, denominator;
};

// One direction of a link, with its credits, some cycles long.
struct Wire {
    struct Item {
        bool valid;
        uint32_t credit;
        std::remove_reference_t<decltype(Vmodel::link_out_0_flit)> flit;
    };
    std::deque<Item> items;
};

struct Arrays {
    const uint32_t *counts, *tasks, *sends, *errors;
    Word* memory;
    uint32_t* results;
    uint64_t* strobes;
    uint32_t *advances, *reported;
};

struct Node {
    VerilatedContext context;
    Vmodel model{&context};
    Memory memory;
    MemoryPorts ports;
    uint32_t task = 0, word = 0, delivered = 0, started = 0, finished = 0, send = 0;
    bool done_ready = false, advance_ready = false, stopped = false;
    // The die whose error this one has or has heard of.
    int cause = -1;

    Node(uint64_t die, const RingSettings& s, const Arrays& a)
        : memory{a.memory + die * s.words, s.words, s, Random(s.seed * 1000003 + die + 1)} {}
};

void clock(Vmodel& m) {
    m.clk = 0;
    m.eval();
    m.clk = 1;
    m.eval();
}

void configure(Node& node, uint64_t die, const RingSettings& s, const Arrays& a) {
    Vmodel& m = node.model;
    m.rst = 1;
    for (int i = 0; i < RESET_CYCLES; i++) clock(m);
    m.rst = 0;
    m.die = die;
    m.dies = s.dies;
    // numerator and denominator of each of two ports, from the low end
    m.rates = uint32_t(s.numerator | s.denominator << 8) * 0x10001u;
    for (uint64_t to = 0; to < s.dies; ++to) {
        const uint64_t distance = (to + s.dies - die) % s.dies;
        // valid, clears, destination, port from the low end
        m.route_write = 1u | uint32_t(to) << 2 | uint32_t(2 * distance > s.dies) << 12;
        clock(m);
    }
    m.route_write = 0;
}

void drive(Node& n, uint64_t die, uint64_t cycle, const RingSettings& s, const Arrays& a) {
    Vmodel& m = n.model;
    const uint32_t* task = a.tasks + (die * s.tasks + n.task) * (2 + BODY);
    m.engine_body_valid = n.task < a.counts[die];
    if (m.engine_body_valid)
        m.engine_body_payload = uint64_t(n.word) | uint64_t(task[2 + n.word]) << 6 |
                                  uint64_t(n.word == BODY - 1) << 38;
    const uint32_t* next = a.tasks + (die * s.tasks + n.started) * (2 + BODY);
    m.engine_start_valid = n.started < n.delivered && cycle >= next[1];
    if (m.engine_start_valid) m.engine_operation = next[0];
    m.engine_done_ready = n.done_ready = n.memory.chance();
    m.advance_in_ready = n.advance_ready = n.memory.chance();
    m.error_in_ready = 1;
    while (n.send < s.sends && a.sends[3 * n.send] != die) ++n.send;
    m.advance_out_valid = n.send < s.sends;
    if (m.advance_out_valid) m.advance_out_payload = a.sends[3 * n.send + 1] | a.sends[3 * n.send + 2] << 10;
    m.error_out = 0;
    for (uint64_t i = 0; i < s.errors; ++i)
        if (a.errors[2 * i] == cycle && a.errors[2 * i + 1] == die) n.cause = int(die);
    // A die stops once, and tells the others for what reason.
    m.error_out = n.cause >= 0 && !n.stopped;
    if (m.error_out) {
        m.error_source = uint32_t(n.cause);
        n.stopped = true;
    }
    n.memory.cycle = cycle;
    n.ports.drive(n.memory, &m);
    m.clk = 0;
    m.eval();
}

void sample(Node& n, uint64_t die, uint64_t cycle, const RingSettings& s, const Arrays& a) {
    Vmodel& m = n.model;
    n.ports.sample(n.memory, &m);
    if (m.engine_body_valid && m.engine_body_ready && ++n.word == BODY) {
        n.word = 0;
        ++n.task;
        ++n.delivered;
    }
    if (m.engine_start_valid && m.engine_start_ready) ++n.started;
    if (m.engine_done_valid && n.done_ready) {
        check(n.finished < n.started, "a task ended that was not started");
        uint32_t* result = a.results + (die * s.tasks + n.finished++) * 4;
        uint32_t done[8] = {};
        std::memcpy(done, &m.engine_done_payload, sizeof m.engine_done_payload);
        result[0] = done[0] & 255;
        result[1] = done[0] >> 8 | done[1] << 24;
        result[2] = done[1] >> 8 | done[2] << 24;
        result[3] = uint32_t(cycle);
    }
    const uint64_t strobes = m.engine_strobes;
    check(__builtin_popcount(strobes & 15) <= 1, "more than one strobe");
    for (int i = 0; i < 4; ++i) a.strobes[5 * die + i] += strobes >> i & 1;
    a.strobes[5 * die + 4] += strobes >> 4 & 4095;
    if (m.advance_out_valid && m.advance_out_ready) ++n.send;
    if (m.advance_in_valid && n.advance_ready) ++a.advances[die * COUNTERS + m.advance_in_payload];
    if (m.error_in_valid && n.cause < 0) {
        n.cause = int(m.error_in_payload);
        ++a.reported[die * s.dies + n.cause];
    }
}

// Outputs of a cycle become inputs of the neighbours, at once or some cycles later. The credits of a link come
// from its receiver.
template <class Out, class In>
void carry(std::deque<Wire::Item>& items, uint64_t delay, Out& out, In& in) {
    items.push_back({bool(*out.valid), *out.credit, *out.flit});
    if (items.size() <= delay) return;
    *in.valid = items.front().valid;
    *in.flit = items.front().flit;
    *in.credit = items.front().credit;
    items.pop_front();
}

template <class V, class F, class C>
struct Ends {
    V* valid;
    F* flit;
    C* credit;
};

template <class V, class F, class C>
Ends<V, F, C> ends(V& valid, F& flit, C& credit) {
    return {&valid, &flit, &credit};
}

long long run(const RingSettings& s, const Arrays& a) {
    std::vector<std::unique_ptr<Node>> nodes;
    for (uint64_t i = 0; i < s.dies; ++i) {
        nodes.push_back(std::make_unique<Node>(i, s, a));
        configure(*nodes.back(), i, s, a);
    }
    std::vector<Wire> onward(s.dies), back(s.dies);
    uint64_t quiet = 0;
    for (uint64_t cycle = 0; cycle < s.limit; ++cycle) {
        for (uint64_t i = 0; i < s.dies; ++i) {
            Node &here = *nodes[i], &next = *nodes[(i + 1) % s.dies];
            // Between two dies: flits go with the credits of what comes the other way.
            auto from_here = ends(here.model.link_out_0_valid, here.model.link_out_0_flit,
                                  here.model.link_in_0_credit);
            auto to_next = ends(next.model.link_in_1_valid, next.model.link_in_1_flit,
                                next.model.link_out_1_credit);
            auto from_next = ends(next.model.link_out_1_valid, next.model.link_out_1_flit,
                                  next.model.link_in_1_credit);
            auto to_here = ends(here.model.link_in_0_valid, here.model.link_in_0_flit,
                                here.model.link_out_0_credit);
            carry(onward[i].items, s.link_delay, from_here, to_next);
            carry(back[i].items, s.link_delay, from_next, to_here);
        }
        bool all = true, busy = false;
        for (uint64_t i = 0; i < s.dies; ++i) drive(*nodes[i], i, cycle, s, a);
        for (uint64_t i = 0; i < s.dies; ++i) {
            Node& n = *nodes[i];
            sample(n, i, cycle, s, a);
            all &= n.finished == a.counts[i] && !n.model.advance_out_valid;
            busy |= n.model.link_out_0_valid | n.model.link_out_1_valid | n.model.advance_in_valid;
        }
        for (uint64_t i = 0; i < s.errors; ++i) all &= cycle > a.errors[2 * i];
        quiet = all && !busy ? quiet + 1 : 0;
        // Nothing under way for longer than anything can hide: the end was when it began.
        if (quiet == 64 + 2 * s.link_delay) return (long long)(cycle - quiet);
        for (auto& n : nodes) {
            n->model.clk = 1;
            n->model.eval();
        }
    }
    std::string text = "not ended;";
    for (auto& n : nodes)
        text += " " + std::to_string(n->finished) + "/" + std::to_string(n->started) + " tasks";
    throw std::runtime_error(text);
}

}  // namespace

extern "C" long long ring_run(const RingSettings* settings, const uint32_t* counts, const uint32_t* tasks,
                              const uint32_t* sends, const uint32_t* errors,
                              Word* memory, uint32_t* results, uint64_t* strobes, uint32_t* advances,
                              uint32_t* reported, char* message) {
    try {
        return run(*settings, {counts, tasks, sends, errors, memory, results, strobes, advances, reported});
    } catch (const std::exception& error) {
        std::snprintf(message, 256, "%s", error.what());
        return -1;
    }
}
