// Wires between two dies, one direction: a slot for each cycle that something is on its way; and what goes wrong on them.
//
// Sender and receiver never touch the same slot within an epoch. Faults are the sender's: they depend on their seed and on
// the cycle alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "ports.h"

namespace plinth {

using Flit = std::remove_reference_t<decltype(LinkOut<0>::flit(std::declval<Vmodel&>()))>;
using Credit = std::remove_reference_t<decltype(LinkOut<0>::credit(std::declval<Vmodel&>()))>;

// What a link's sender puts on it in a cycle: a flit, or the wires of a link layer.
struct Slot {
    bool valid = false;
    Flit flit{};
};

// Probabilities of what goes wrong, a bit or a cycle; lengths.
struct Faults {
    uint64_t seed;
    // A bit is flipped.
    double flip;
    // In a cycle: up to ``burst_bits`` neighbouring wires are at random; the phit is lost; the one before comes again;
    // a wire is stuck for up to ``stuck_cycles``.
    double burst, lose, repeat, stick;
    uint32_t burst_bits, stuck_cycles;
};

// Faults as they happen on one link.
class Noise {
  public:
    explicit Noise(const Faults& faults)
        : faults_(faults),
          random_(faults.seed),
          next_flip_(gap(faults.flip)),
          next_burst_(gap(faults.burst)),
          next_lost_(gap(faults.lose)),
          next_repeat_(gap(faults.repeat)),
          next_stuck_(gap(faults.stick)) {}

    void damage(Slot& slot) {
        const Slot sent = slot;
        if (due(next_lost_, faults_.lose)) slot = Slot{};
        if (due(next_repeat_, faults_.repeat)) slot = before_;
        before_ = sent;
        if (due(next_burst_, faults_.burst)) {
            const uint32_t length = 1 + below(std::min(faults_.burst_bits, WIRES));
            const uint32_t first = below(WIRES);
            for (uint32_t bit = first; bit < first + length && bit < WIRES; bit++) {
                if (random_() & 1) flip(slot, bit);
            }
        }
        if (due(next_stuck_, faults_.stick)) {
            stuck_wire_ = below(WIRES);
            stuck_high_ = random_() & 1;
            stuck_left_ = 1 + below(faults_.stuck_cycles);
        }
        if (stuck_left_ && stuck_left_--) {
            if (get(slot, stuck_wire_) != stuck_high_) flip(slot, stuck_wire_);
        }
        while (next_flip_ < WIRES) {
            flip(slot, next_flip_);
            next_flip_ += 1 + gap(faults_.flip);
        }
        next_flip_ -= WIRES;
    }

  private:
    // Wires of a link: the phit's, then its valid.
    static constexpr uint32_t WIRES = LINK_BITS + 1;
    static constexpr uint64_t NEVER = uint64_t{1} << 62;

    // Trials before one that succeeds.
    uint64_t gap(double probability) {
        if (probability <= 0) return NEVER;
        const double uniform = (random_() >> 11) * 0x1p-53;
        return static_cast<uint64_t>(std::min(std::log1p(-uniform) / std::log1p(-probability), 4e18));
    }
    bool due(uint64_t& next, double probability) {
        if (next--) return false;
        next = gap(probability);
        return true;
    }
    uint32_t below(uint32_t limit) { return limit ? random_() % limit : 0; }

    static bool get(const Slot& slot, uint32_t wire) {
        if (wire == LINK_BITS) return slot.valid;
        uint8_t byte;
        std::memcpy(&byte, reinterpret_cast<const uint8_t*>(&slot.flit) + wire / 8, 1);
        return byte >> wire % 8 & 1;
    }
    static void flip(Slot& slot, uint32_t wire) {
        if (wire == LINK_BITS) {
            slot.valid = !slot.valid;
        } else {
            reinterpret_cast<uint8_t*>(&slot.flit)[wire / 8] ^= 1 << wire % 8;
        }
    }

    Faults faults_;
    std::mt19937_64 random_;
    Slot before_;
    uint64_t next_flip_, next_burst_, next_lost_, next_repeat_, next_stuck_;
    uint32_t stuck_wire_ = 0, stuck_left_ = 0;
    bool stuck_high_ = false;
};

// One link: flits or phits one way, credits back.
class Link {
  public:
    Link(uint32_t latency, const Faults* faults) : latency_(latency) {
        size_t size = 1;
        while (size < 2 * size_t{latency}) size *= 2;
        slots_.resize(size);
        credits_.resize(size);
        mask_ = size - 1;
        if (faults) noise_.emplace(*faults);
    }
    const Slot& now(uint64_t now) const { return slots_[now & mask_]; }
    Slot& later(uint64_t now) { return slots_[(now + latency_) & mask_]; }
    // What is in a slot has been sent: something may go wrong with it.
    void sent(Slot& slot) {
        if (noise_) noise_->damage(slot);
    }
    Credit& credit_now(uint64_t now) { return credits_[now & mask_]; }
    Credit& credit_later(uint64_t now) { return credits_[(now + latency_) & mask_]; }
    // Nothing is on its way any more.
    void silence() {
        std::fill(slots_.begin(), slots_.end(), Slot{});
        std::fill(credits_.begin(), credits_.end(), Credit{});
    }

  private:
    uint32_t latency_;
    uint64_t mask_;
    std::vector<Slot> slots_;
    std::vector<Credit> credits_;
    std::optional<Noise> noise_;
};

}  // namespace plinth
