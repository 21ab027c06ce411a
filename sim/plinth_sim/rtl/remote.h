// Links to dies of another process, a *peer*: what is put on them in an epoch goes over in one buffer, and what the peer's
// dies have put on them comes in another, with what both say of their dies. Each process has a Link of its own for such a
// link; it holds in the same slots what a link within one process would.
//
//   buffer: State | for each link: flits of its epoch's cycles, to the receiver, or credits, to the sender
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "wires.h"

namespace plinth {

// Swaps the buffers of all processes; 0, or something else if one cannot be reached.
using Exchange = int (*)();

// What decides whether a run goes on, of the dies of one process or of all.
struct State {
    // What the run is to end for holds for all dies.
    uint32_t holds;
    // A die has stopped with an error.
    uint32_t failed;
    // A die has broken a protocol.
    uint32_t faulty;

    void join(const State& other) {
        holds &= other.holds;
        failed |= other.failed;
        faulty |= other.faulty;
    }
};

class Peer {
  public:
    explicit Peer(uint32_t epoch) : epoch_(epoch) {}

    // A link to one of its dies (``sends``), or from one. Both processes add links in one order.
    void add(Link* link, bool sends) { links_.push_back({link, sends}); }

    size_t puts() const { return bytes(true); }
    size_t takes() const { return bytes(false); }
    void use(uint8_t* outgoing, const uint8_t* incoming) {
        outgoing_ = outgoing;
        incoming_ = incoming;
    }

    // What dies of this process have sent in ``cycles`` cycles from ``begun`` on, into the outgoing buffer.
    void put(uint64_t begun, uint64_t cycles, const State& state) {
        uint8_t* place = outgoing_;
        std::memcpy(place, &state, sizeof state);
        place += sizeof state;
        for (const Remote& remote : links_) {
            for (uint64_t i = 0; i < cycles; i++) {
                if (remote.sends) {
                    std::memcpy(place + i * sizeof(Slot), &remote.link->later(begun + i), sizeof(Slot));
                } else {
                    std::memcpy(place + i * sizeof(Credit), &remote.link->credit_later(begun + i), sizeof(Credit));
                }
            }
            place += epoch_ * (remote.sends ? sizeof(Slot) : sizeof(Credit));
        }
    }

    // What its dies have sent in these cycles, from the incoming buffer; what it says of them.
    State take(uint64_t begun, uint64_t cycles) {
        const uint8_t* place = incoming_;
        State state;
        std::memcpy(&state, place, sizeof state);
        place += sizeof state;
        for (const Remote& remote : links_) {
            for (uint64_t i = 0; i < cycles; i++) {
                if (remote.sends) {
                    std::memcpy(&remote.link->credit_later(begun + i), place + i * sizeof(Credit), sizeof(Credit));
                } else {
                    std::memcpy(&remote.link->later(begun + i), place + i * sizeof(Slot), sizeof(Slot));
                }
            }
            place += epoch_ * (remote.sends ? sizeof(Credit) : sizeof(Slot));
        }
        return state;
    }

    void silence() {
        for (const Remote& remote : links_) remote.link->silence();
    }

  private:
    struct Remote {
        Link* link;
        bool sends;
    };

    size_t bytes(bool outgoing) const {
        size_t result = sizeof(State);
        for (const Remote& remote : links_)
            result += epoch_ * (remote.sends == outgoing ? sizeof(Slot) : sizeof(Credit));
        return result;
    }

    uint32_t epoch_;
    std::vector<Remote> links_;
    uint8_t* outgoing_ = nullptr;
    const uint8_t* incoming_ = nullptr;
};

}  // namespace plinth
