// Runs a Verilated RowArray: offers recorded events as its credits and random gates allow, keeps what it shows.
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "Vmodel.h"
#include "verilated.h"

namespace {

// Events of one port: packed payloads, one after another in `bytes` each.
struct Events {
    const uint8_t* data;
    uint64_t bytes, count;
    uint64_t next = 0;

    bool more() const { return next < count; }
    template <typename Port>
    void show(Port& port, uint64_t index) const { std::memcpy(&port, data + index * bytes, sizeof(Port)); }
    template <typename Port>
    void show(Port& port) const { show(port, next); }
};

struct Random {
    uint64_t state;

    // True with a probability in 1/256.
    bool operator()(uint32_t probability) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return ((state >> 40) & 0xff) < probability;
    }
};

// Cycles without anything to do after which everything must have been given back.
constexpr uint64_t kQuiet = 200;

}  // namespace

extern "C" {

struct Stimulus {
    // A filter event is a write (or only a pulse) for a row; `filter_loaded` is the pulse that comes with it, or 0.
    Events passes, filters, ifmaps, ids, psums;
    const uint32_t* filter_row;
    const uint32_t* filter_loaded;
    // Feature events in turn: 0 a line, 1 the last line of a place, 2 an id.
    const uint8_t* ifmap_kind;
    uint64_t ifmap_events;
    // Probabilities of passes, filters, ifmaps, psums in 1/256.
    uint32_t gates[4];
    uint64_t seed, rows, ifmap_lines;
    // Words of each step of results.
    const uint32_t* step_words;
    uint64_t steps;
};

// Fills `results` (as the port is laid out, `results_bytes` each) and `trace` (per cycle: issued rows, bit 27
// a line done, bit 28 filters of row 0 loaded, bit 29 a pass taken, bit 30 results, bit 31 blocked); returns the cycles, or 0 if the array did not end within `limit`, or 1 if it broke a rule.
uint64_t row_array_run(Stimulus* stimulus, uint64_t limit, uint8_t* results, uint64_t results_bytes,
                       uint64_t results_count, uint32_t* trace) {
    Stimulus& s = *stimulus;
    VerilatedContext context;
    Vmodel m{&context};
    Random gate{s.seed};
    uint32_t half_free[32];
    for (auto& halves : half_free) halves = 2;
    // Filters of each row come in their order; rows that have a half free take turns.
    std::vector<std::deque<uint64_t>> filters_of(s.rows);
    for (uint64_t i = 0; i < s.filters.count; ++i) filters_of[s.filter_row[i]].push_back(i);
    uint64_t filter_turn = 0;
    uint64_t results_seen = 0, step_left = 0, complete = 0, quiet = 0;
    int64_t lines_held = 0;
    bool done_pending = false;
    // A row, and an element of it, each leave reset a cycle after what holds them.
    for (int i = 0; i < 8; ++i) {
        m.rst = i < 4;
        m.clk = 0;
        m.eval();
        m.clk = 1;
        m.eval();
    }
    uint64_t ifmap_event = 0;
    for (uint64_t t = 0; t < limit; ++t) {
        if (!m.passes_valid && s.passes.more() && gate(s.gates[0])) {
            s.passes.show(m.passes_payload);
            m.passes_valid = 1;
        }
        if (!m.psums_valid && s.psums.more() && gate(s.gates[3])) {
            s.psums.show(m.psums_payload);
            m.psums_valid = 1;
        }
        std::memset(&m.filters, 0, sizeof(m.filters));
        m.filters_loaded = 0;
        if (s.filters.next < s.filters.count && gate(s.gates[1])) {
            for (uint64_t i = 0; i < s.rows; ++i) {
                filter_turn = (filter_turn + 1) % s.rows;
                auto& waiting = filters_of[filter_turn];
                if (waiting.empty() || !half_free[filter_turn]) continue;
                s.filters.show(m.filters, waiting.front());
                m.filters_loaded = s.filter_loaded[waiting.front()];
                half_free[filter_turn] -= m.filters_loaded != 0;
                waiting.pop_front();
                ++s.filters.next;
                break;
            }
        }
        std::memset(&m.ifmaps, 0, sizeof(m.ifmaps));
        std::memset(&m.ids, 0, sizeof(m.ids));
        m.line_done = 0;
        if (done_pending) {
            if (gate(s.gates[2])) {
                m.line_done = 1;
                ++lines_held;
                done_pending = false;
            }
        } else if (ifmap_event < s.ifmap_events && gate(s.gates[2])) {
            const uint8_t kind = s.ifmap_kind[ifmap_event];
            if (kind == 2) {
                s.ids.show(m.ids);
                ++s.ids.next;
                ++ifmap_event;
            } else if (lines_held < static_cast<int64_t>(s.ifmap_lines)) {
                s.ifmaps.show(m.ifmaps);
                ++s.ifmaps.next;
                ++ifmap_event;
                // The pulse comes with the last line of a place, or some time later.
                if (kind == 1 && gate(128)) {
                    m.line_done = 1;
                    ++lines_held;
                } else {
                    done_pending = kind == 1;
                }
            }
        }
        m.clk = 0;
        m.eval();
        trace[t] = static_cast<uint32_t>(m.issued);
        const bool pass_taken = m.passes_valid && m.passes_ready;
        trace[t] |= m.line_done << 27 | (m.filters_loaded & 1u) << 28 | pass_taken << 29;
        const bool sum_taken = m.psums_valid && m.psums_ready;
        for (uint64_t row = 0; row < s.rows; ++row) half_free[row] += m.filters_released >> row & 1;
        if (m.lines_released && --lines_held < 0) return 1;
        uint8_t first;
        std::memcpy(&first, &m.results, 1);
        if (first & 1) {
            if (results_seen == results_count || complete == s.steps) return 1;
            std::memcpy(results + results_seen * results_bytes, &m.results, sizeof(m.results));
            ++results_seen;
            trace[t] |= 1u << 30;
            if (++step_left == s.step_words[complete]) {
                step_left = 0;
                ++complete;
            }
        } else if (step_left) {
            return 1;  // the words of a step are consecutive
        }
        m.clk = 1;
        m.eval();
        if (pass_taken) {
            m.passes_valid = 0;
            ++s.passes.next;
        }
        if (sum_taken) {
            m.psums_valid = 0;
            ++s.psums.next;
        }
        const bool offered = s.passes.more() || s.filters.more() || s.psums.more() || done_pending ||
                             ifmap_event < s.ifmap_events;
        quiet = offered || results_seen < results_count ? 0 : quiet + 1;
        if (quiet == kQuiet) {
            for (uint64_t row = 0; row < s.rows; ++row)
                if (half_free[row] != 2) return 1;
            return lines_held ? 1 : t + 1;
        }
    }
    return 0;
}
}
