// Plays register accesses on a die's AXI4-Lite port, one after another.
#pragma once

#include <cstdio>
#include <deque>
#include <string>

#include "ports.h"

struct Access {
    bool write;
    uint32_t address;
    uint32_t data;
    // Asked by the harness itself: the answer goes to polled() and not to answers().
    bool poll = false;
};

struct Answered {
    uint32_t data;
    uint8_t response;
};

class RegisterMaster {
  public:
    // Cycles without an answer after which the die is taken for broken.
    static constexpr uint64_t PATIENCE = 100000;

    RegisterMaster(Vmodel& model, std::string& fault) : model_(model), fault_(fault) {
        AxiLite::bready(model) = 1;
        AxiLite::rready(model) = 1;
    }

    bool idle() const { return queue_.empty(); }
    // First cycle after the last answer.
    uint64_t idle_since() const { return idle_since_; }
    void push(const Access& access) { queue_.push_back(access); }
    // Answers of accesses that have been played, oldest first.
    std::deque<Answered>& answers() { return answers_; }
    // Answer of the last poll, kept until take_poll().
    bool polled() const { return polled_; }
    uint32_t take_poll() {
        polled_ = false;
        return poll_;
    }

    void drive(uint64_t now) {
        if (active_ || queue_.empty()) return;
        const Access& access = queue_.front();
        active_ = true;
        since_ = now;
        if (access.write) {
            AxiLite::awaddr(model_) = access.address;
            AxiLite::wdata(model_) = access.data;
            AxiLite::wstrb(model_) = 0xF;
            AxiLite::awvalid(model_) = 1;
            AxiLite::wvalid(model_) = 1;
        } else {
            AxiLite::araddr(model_) = access.address;
            AxiLite::arvalid(model_) = 1;
        }
    }

    // Look at the settled pins of this cycle; what has been taken is withdrawn in the next one.
    void sample() {
        if (!active_) return;
        aw_taken_ = AxiLite::awvalid(model_) && AxiLite::awready(model_);
        w_taken_ = AxiLite::wvalid(model_) && AxiLite::wready(model_);
        ar_taken_ = AxiLite::arvalid(model_) && AxiLite::arready(model_);
        const bool write = queue_.front().write;
        done_ = write ? AxiLite::bvalid(model_) : AxiLite::rvalid(model_);
        if (!done_) return;
        if (queue_.front().poll) {
            polled_ = true;
            poll_ = AxiLite::rdata(model_);
        } else if (write) {
            answers_.push_back({0, static_cast<uint8_t>(AxiLite::bresp(model_))});
        } else {
            answers_.push_back({static_cast<uint32_t>(AxiLite::rdata(model_)),
                                static_cast<uint8_t>(AxiLite::rresp(model_))});
        }
    }

    // After the clock edge.
    void step(uint64_t now) {
        if (!active_) return;
        if (aw_taken_) AxiLite::awvalid(model_) = 0;
        if (w_taken_) AxiLite::wvalid(model_) = 0;
        if (ar_taken_) AxiLite::arvalid(model_) = 0;
        if (done_) {
            queue_.pop_front();
            active_ = false;
            idle_since_ = now + 1;
        } else if (now - since_ > PATIENCE && fault_.empty()) {
            char text[120];
            std::snprintf(text, sizeof text, "AXI4-Lite, cycle %llu: no answer to the access of register 0x%x",
                          static_cast<unsigned long long>(now), queue_.front().address);
            fault_ = text;
        }
    }

  private:
    Vmodel& model_;
    std::string& fault_;
    std::deque<Access> queue_;
    std::deque<Answered> answers_;
    uint64_t since_ = 0, idle_since_ = 0;
    uint32_t poll_ = 0;
    bool active_ = false, done_ = false, polled_ = false;
    bool aw_taken_ = false, w_taken_ = false, ar_taken_ = false;
};
