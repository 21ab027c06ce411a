// Two ends of a link, wires that err between them, and routers' ports that check what comes.
//
// Flits of a flow are numbered anew whenever its sender comes up; every bit of one follows from that session and its
// number, so a flit that is wrong, lost, repeated or out of order is not what its receiver waits for.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "Vmodel.h"
#include "link_ports.h"  // made by link_ends.py: sizes, and how to reach the ports
#include "verilated.h"

namespace {

struct Settings {
    uint64_t seed, flits, limit, latency;
    double offer, free;  // probabilities in a cycle
    // Of each bit; then, in each cycle, that something begins; of frames that they are lost, or another one repeated.
    double flip, burst, hold, lane, dead, lose, repeat, restart;
};

struct Counts {
    uint64_t cycles, flits, frames, bad_frames, replays, restarts, lost, longest;
};

constexpr int WIRE_WORDS = (WIRES + 31) / 32, FLIT_WORDS = (FLIT_BITS + 31) / 32;

template <typename... Parts>
void check(bool good, const Parts &...what) {
    if (good) return;
    std::ostringstream text;
    (text << ... << what);
    throw std::runtime_error(text.str());
}

uint64_t mixed(uint64_t value) {
    value += 0x9E3779B97F4A7C15ull;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() { return mixed(state_++); }
    uint64_t below(uint64_t count) { return next() % count; }
    double real() { return (next() >> 11) * 0x1p-53; }
    bool chance(double probability) { return probability > 0 && real() < probability; }

  private:
    uint64_t state_;
};

// Bits of a port, which is an integer or an array of words.
template <typename Port>
void put(Port &port, const void *bits, size_t bytes) {
    std::memset(&port, 0, sizeof port);
    std::memcpy(&port, bits, bytes < sizeof port ? bytes : sizeof port);
}

struct Phit {
    std::array<uint32_t, WIRE_WORDS> wires{};
    bool start = false;
    void flip(uint64_t bit) {
        if (bit < WIRES)
            wires[bit / 32] ^= 1u << bit % 32;
        else
            start = !start;
    }
};

using Flit = std::array<uint32_t, FLIT_WORDS>;

unsigned class_of(uint64_t session, uint64_t number) {
    return mixed(session * 0x51ED + number / 24) % CLASSES;  // some of one class in a row
}

Flit flit_of(uint64_t session, uint64_t number) {
    Flit flit{};
    for (int word = 0; word < FLIT_WORDS; word++) flit[word] = mixed((session << 48) + (number << 6) + word) >> 16;
    unsigned set = class_of(session, number);
    for (int bit = 0; bit < CLASS_BITS; bit++) {
        int at = CLASS_AT + bit;
        flit[at / 32] = (flit[at / 32] & ~(1u << at % 32)) | (set >> bit & 1u) << at % 32;
    }
    if (FLIT_BITS % 32) flit[FLIT_WORDS - 1] &= (1u << FLIT_BITS % 32) - 1;
    return flit;
}

// One direction.
class Wires {
  public:
    Wires(const Settings &settings, uint64_t seed) : settings_(settings), random_(seed), way_(settings.latency) {
        draw();
    }

    Phit come() const { return way_.front(); }

    void send(Phit phit) {
        way_.pop_front();
        way_.push_back(disturbed(phit));
    }

    bool quiet = false;  // nothing errs

  private:
    Phit disturbed(Phit phit) {
        if (quiet) return phit;
        if (phit.start) {
            loses_ = random_.chance(settings_.lose);
            repeats_ = random_.chance(settings_.repeat);
            if (!repeats_) last_.clear();
            place_ = 0;
        }
        if (repeats_ && place_ < last_.size()) phit = last_[place_];
        else if (last_.size() < PHITS) last_.push_back(phit);
        place_++;
        if (loses_) phit = Phit();
        while (until_flip_ <= WIRES) {
            phit.flip(until_flip_);
            uint64_t before = until_flip_;
            draw();
            until_flip_ += before + 1;
        }
        until_flip_ -= WIRES + 1;
        if (begins(burst_, settings_.burst, 12)) {
            for (auto &word : phit.wires) word = random_.next();
            if (WIRES % 32) phit.wires[WIRE_WORDS - 1] &= (1u << WIRES % 32) - 1;
            phit.start = random_.next() & 1;
        }
        if (begins(lane_, settings_.lane, 200)) {
            if (fresh_) lane_at_ = random_.below(WIRES + 1), lane_one_ = random_.next() & 1;
            bool one = lane_at_ < WIRES ? phit.wires[lane_at_ / 32] >> lane_at_ % 32 & 1 : phit.start;
            if (one != lane_one_) phit.flip(lane_at_);
        }
        if (begins(hold_, settings_.hold, 60)) phit = held_;
        if (!dead_ && random_.chance(settings_.dead)) dead_ = 60000;
        if (dead_ && dead_--) phit = Phit();
        return held_ = phit;
    }

    // Whether something that goes on for some cycles does so in this one.
    bool begins(uint64_t &left, double rate, uint64_t most) {
        fresh_ = false;
        if (left) return left-- > 0;
        if (!random_.chance(rate)) return false;
        left = random_.below(most);
        return fresh_ = true;
    }

    void draw() {
        until_flip_ = settings_.flip > 0 ? uint64_t(std::log1p(-random_.real()) / std::log1p(-settings_.flip))
                                         : uint64_t(1) << 60;
    }

    const Settings &settings_;
    Random random_;
    std::deque<Phit> way_;
    std::vector<Phit> last_;  // frame
    Phit held_;
    size_t place_ = 0;
    bool loses_ = false, repeats_ = false, fresh_ = false, lane_one_ = false;
    uint64_t until_flip_ = 0, burst_ = 0, hold_ = 0, lane_ = 0, dead_ = 0, lane_at_ = 0;
};

// Flits from one end to the other.
struct Flow {
    uint64_t session = 0, sent = 0;           // of the sender
    uint64_t expects_session = 0, came = 0;   // of the receiver; 0: of any session
    std::array<unsigned, CLASSES> room{}, held{};
    bool offering = false;
    uint64_t delivered = 0, since = 0;        // in all; cycles without one
};

struct End {
    explicit End(VerilatedContext *context) : model(std::make_unique<Vmodel>(context)) {}
    std::unique_ptr<Vmodel> model;
    bool up = false, restarts = false, used = false;         // used: flits have gone over the link since restart
    bool restarted = false, told = false, was_used = false;  // of the cycle before
};

void run(const Settings &settings, Counts &counts) {
    auto context = std::make_unique<VerilatedContext>();
    std::array<End, 2> ends{End(context.get()), End(context.get())};
    std::array<Wires, 2> ways{Wires(settings, settings.seed * 4 + 1), Wires(settings, settings.seed * 4 + 2)};
    std::array<Flow, 2> flows;  // number e is sent by end e, by way e
    Random random(settings.seed * 4);
    uint64_t sessions = 0;
    for (auto &end : ends) {
        end.model->rst = 1;
        for (int edge = 0; edge < 4; edge++) {
            end.model->clk = edge & 1;
            end.model->eval();
        }
        end.model->rst = 0;
    }
    // Flits first, then all that is under way without further errors.
    for (bool drains = false;;) {
        if (!drains && flows[0].delivered >= settings.flits && flows[1].delivered >= settings.flits) {
            drains = true;
            for (auto &way : ways) way.quiet = true;
        }
        if (drains) {
            bool done = ends[0].up && ends[1].up;
            for (auto &flow : flows)
                for (unsigned room : flow.room) done = done && room == PLACES && flow.came == flow.sent;
            if (done) break;
        }
        for (int e = 0; e < 2; e++) {
            auto &model = *ends[e].model;
            Flow &out = flows[e], &in = flows[!e];
            bool has_room = out.room[class_of(out.session, out.sent)] > 0;
            out.offering = ends[e].up && (out.offering || (!drains && has_room && random.chance(settings.offer)));
            model.i_valid = out.offering;
            Flit flit = flit_of(out.session, out.sent);
            put(model.i_payload, flit.data(), sizeof flit);
            unsigned freed = 0;
            for (unsigned number = 0; number < CLASSES; number++)
                if (in.held[number] && random.chance(settings.free)) {
                    in.held[number]--;
                    freed |= 1u << number;
                }
            model.freed = freed;
            ends[e].restarts = !drains && random.chance(settings.restart);
            model.restart = ends[e].restarts;
            counts.restarts += ends[e].restarts;
            Phit phit = ways[!e].come();
            put(model.wires_in_phit, phit.wires.data(), sizeof phit.wires);
            model.wires_in_start = phit.start;
            model.clk = 0;
            model.eval();
        }
        for (int e = 0; e < 2; e++) {
            End &end = ends[e];
            auto &model = *end.model;
            Flow &out = flows[e], &in = flows[!e];
            Phit phit;
            std::memcpy(phit.wires.data(), &model.wires_out_phit,
                        std::min(sizeof phit.wires, sizeof model.wires_out_phit));
            phit.start = model.wires_out_start;
            counts.frames += phit.start;
            ways[e].send(phit);
            counts.bad_frames += model.bad_frames;
            counts.replays += model.replays;
            counts.lost += model.lost;

            check(!model.lost || (model.up && end.used), "end ", e, " says lost with nothing on the link");
            bool was_up = end.up;
            end.up = model.up;
            if (was_up && !end.up)
                check(end.restarted || end.told == end.was_used, "end ", e, " goes down, flits or not, and says so or not");
            end.restarted = end.restarts;
            end.told = model.lost;
            end.was_used = end.used;
            std::array<uint32_t, (FLIT_BITS + 32) / 32> given{};
            std::memcpy(given.data(), &model.o, std::min(sizeof given, sizeof model.o));
            bool gives = given[0] & 1;
            if (gives) {
                check(end.up, "end ", e, " gives a flit while down");
                if (!in.expects_session) in.expects_session = in.session;
                Flit wanted = flit_of(in.expects_session, in.came), got{};
                for (int bit = 0; bit < FLIT_BITS; bit++)
                    got[bit / 32] |= (given[(bit + 1) / 32] >> (bit + 1) % 32 & 1) << bit % 32;
                check(in.expects_session != in.session || in.came < in.sent, "end ", e, " gives a flit that was not sent");
                check(got == wanted, "end ", e, " gives a wrong flit in place of number ", in.came, " of session ",
                      in.expects_session, " in cycle ", counts.cycles);
                unsigned number = class_of(in.expects_session, in.came++);
                check(++in.held[number] <= PLACES, "no place for a flit of class ", number);
                in.delivered++;
                in.since = 0;
                counts.flits++;
            }
            if (out.offering && model.i_ready) {
                out.room[class_of(out.session, out.sent++)]--;
                out.offering = false;
            }
            for (unsigned number = 0; number < CLASSES; number++)
                if (model.credit >> number & 1)
                    check(++out.room[number] <= PLACES, "more credits of class ", number, " than places");
            end.used = !end.restarts && (end.used || gives || (model.i_valid && model.i_ready));
            counts.longest = std::max(counts.longest, ++in.since);
            check(in.since < settings.limit || drains, "nothing has come to end ", e, " for ", in.since,
                  " cycles, in cycle ", counts.cycles);
            check(in.since < 2 * settings.limit, "what was under way to end ", e, " does not come");
            if (end.up && !was_up) {
                out.session = ++sessions;
                out.sent = 0;
                out.room.fill(PLACES);
                in.came = in.expects_session = 0;
            }
            if (!end.up) {
                out.offering = false;
                in.held.fill(0);  // the router behind it begins anew as well
            }
        }
        for (auto &end : ends) {
            end.model->clk = 1;
            end.model->eval();
        }
        counts.cycles++;
    }
    for (auto &end : ends) end.model->final();
}

}  // namespace

extern "C" int link_run(const Settings *settings, Counts *counts, char *message, uint64_t message_size) {
    try {
        run(*settings, *counts);
        return 0;
    } catch (const std::exception &error) {
        std::strncpy(message, error.what(), message_size - 1);
        return 1;
    }
}
