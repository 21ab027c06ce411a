// Memory behind the AXI4 ports of a die: latency, a bandwidth limit, in-order bursts, protocol checks.
//
// All ports of a die share one array of words. Slice p of beat b is at port p, byte address
// b * slice_bytes. A read burst accepted in cycle t has its first beat on the bus in cycle
// t + read_latency at the earliest; a write is answered write_latency cycles after its last beat went to memory. Reads and
// writes together move at most rate_numerator / rate_denominator words a cycle (token bucket of one beat).
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "pins.h"

struct MemoryConfig {
    uint32_t* words;
    uint64_t count;
    uint32_t read_latency;
    uint32_t write_latency;
    uint32_t rate_numerator;
    uint32_t rate_denominator;
    uint32_t outstanding;
};

// Ring buffer of fixed capacity (rounded up to a power of two).
template <class T>
class Ring {
  public:
    explicit Ring(size_t capacity) : limit_(capacity) {
        size_t size = 1;
        while (size < capacity) size *= 2;
        items_.resize(size);
    }
    bool empty() const { return head_ == tail_; }
    bool full() const { return tail_ - head_ >= limit_; }
    T& front() { return items_[head_ & (items_.size() - 1)]; }
    void clear() { head_ = tail_; }
    T& push() { return items_[tail_++ & (items_.size() - 1)]; }
    void pop() { head_++; }

  private:
    std::vector<T> items_;
    size_t limit_, head_ = 0, tail_ = 0;
};

// Words that reads and writes may still move.
class Bucket {
  public:
    Bucket(const MemoryConfig& config, uint32_t beat_words)
        : gain_(config.rate_numerator),
          scale_(config.rate_denominator),
          most_(uint64_t{beat_words} * config.rate_denominator + config.rate_numerator) {}
    void tick() {
        level_ += gain_;
        if (level_ > most_) level_ = most_;
    }
    bool take(uint32_t words) {
        const uint64_t cost = uint64_t{words} * scale_;
        if (level_ < cost) return false;
        level_ -= cost;
        return true;
    }

  private:
    uint64_t gain_, scale_, most_, level_ = 0;
};

enum Response : uint8_t { OKAY = 0, DECODE_ERROR = 3 };

// One AXI4 slave. Pins is a generated struct of static accessors, one for each pin of this port.
template <class Pins>
class AxiPort {
  public:
    static constexpr size_t SLICE_WORDS = Pins::DATA_BITS / 32;
    static constexpr size_t SLICE_BYTES = Pins::DATA_BITS / 8;

    AxiPort(Vmodel& model, const MemoryConfig& memory, uint32_t port, uint32_t ports, std::string& fault)
        : model_(model),
          memory_(memory),
          port_(port),
          ports_(ports),
          fault_(fault),
          reads_(memory.outstanding),
          writes_(memory.outstanding),
          answers_(memory.outstanding + 1),
          data_(32) {}

    // Forget all that is under way.
    void reset() {
        reads_.clear();
        writes_.clear();
        answers_.clear();
        data_.clear();
        read_shown_ = answer_shown_ = ar_held_ = aw_held_ = w_held_ = false;
        Pins::rvalid(model_) = 0;
        Pins::bvalid(model_) = 0;
    }

    // Present the responses that are due and the ready signals of this cycle.
    void drive(uint64_t now) {
        Pins::arready(model_) = !reads_.full();
        Pins::awready(model_) = !writes_.full();
        Pins::wready(model_) = !data_.full();
        Pins::rvalid(model_) = read_shown_;
        if (!answer_shown_ && !answers_.empty() && answers_.front().due <= now) {
            answer_shown_ = true;
            Pins::bresp(model_) = answers_.front().response;
            Pins::bid(model_) = answers_.front().id;
            answers_.pop();
        }
        Pins::bvalid(model_) = answer_shown_;
    }

    // Put the next read beat on the bus if it is due and the bandwidth allows.
    bool serve_read(uint64_t now, Bucket& bucket) {
        if (read_shown_ || reads_.empty() || reads_.front().due > now || !bucket.take(SLICE_WORDS)) return false;
        Burst& burst = reads_.front();
        const uint64_t word = (burst.beat * ports_ + port_) * SLICE_WORDS;
        const bool inside = word + SLICE_WORDS <= memory_.count;
        static const uint32_t zeros[SLICE_WORDS] = {};
        write_words(Pins::rdata(model_), inside ? memory_.words + word : zeros, SLICE_BYTES);
        Pins::rresp(model_) = inside ? OKAY : DECODE_ERROR;
        Pins::rid(model_) = burst.id;
        Pins::rlast(model_) = burst.left == 1;
        burst.beat++;
        if (--burst.left == 0) reads_.pop();
        return read_shown_ = true;
    }

    // Move the next write beat into memory if its address is known and the bandwidth allows.
    bool serve_write(uint64_t now, Bucket& bucket) {
        if (data_.empty() || writes_.empty() || answers_.full() || !bucket.take(SLICE_WORDS)) return false;
        Burst& burst = writes_.front();
        Slice& slice = data_.front();
        const uint64_t word = (burst.beat * ports_ + port_) * SLICE_WORDS;
        if (word + SLICE_WORDS > memory_.count) {
            burst.response = DECODE_ERROR;
        } else if (slice.whole) {
            std::memcpy(memory_.words + word, slice.words, SLICE_BYTES);
        } else {
            uint8_t* target = reinterpret_cast<uint8_t*>(memory_.words + word);
            const uint8_t* source = reinterpret_cast<const uint8_t*>(slice.words);
            for (size_t i = 0; i < SLICE_BYTES; i++) {
                if (slice.strobe[i / 8] >> (i % 8) & 1) target[i] = source[i];
            }
        }
        if (slice.last != (burst.left == 1)) complain(now, "wlast does not agree with awlen");
        data_.pop();
        burst.beat++;
        if (--burst.left == 0) {
            answers_.push() = {now + memory_.write_latency, static_cast<uint32_t>(burst.id), burst.response};
            writes_.pop();
        }
        return true;
    }

    // Look at the settled pins of this cycle and take what is handed over at its end.
    void sample(uint64_t now) {
        const bool ar = Pins::arvalid(model_), aw = Pins::awvalid(model_), w = Pins::wvalid(model_);
        if ((ar_held_ && !ar) || (aw_held_ && !aw) || (w_held_ && !w)) {
            complain(now, "valid was withdrawn before ready");
        }
        ar_held_ = ar && !Pins::arready(model_);
        aw_held_ = aw && !Pins::awready(model_);
        w_held_ = w && !Pins::wready(model_);
        if (ar && !ar_held_) {
            const uint64_t address = Pins::araddr(model_), beats = uint64_t{Pins::arlen(model_)} + 1;
            check(now, address, beats, Pins::arburst(model_), Pins::arsize(model_), "read");
            reads_.push() = {address / SLICE_BYTES, static_cast<uint32_t>(beats),
                             static_cast<uint32_t>(Pins::arid(model_)), now + memory_.read_latency, OKAY};
        }
        if (aw && !aw_held_) {
            const uint64_t address = Pins::awaddr(model_), beats = uint64_t{Pins::awlen(model_)} + 1;
            check(now, address, beats, Pins::awburst(model_), Pins::awsize(model_), "write");
            writes_.push() = {address / SLICE_BYTES, static_cast<uint32_t>(beats),
                              static_cast<uint32_t>(Pins::awid(model_)), 0, OKAY};
        }
        if (w && !w_held_) {
            Slice& slice = data_.push();
            read_words(Pins::wdata(model_), slice.words, SLICE_BYTES);
            slice.last = Pins::wlast(model_);
            slice.whole = all_ones(Pins::wstrb(model_), SLICE_BYTES);
            if (!slice.whole) std::memcpy(slice.strobe, &Pins::wstrb(model_), (SLICE_BYTES + 7) / 8);
        }
        if (read_shown_ && Pins::rready(model_)) read_shown_ = false;
        if (answer_shown_ && Pins::bready(model_)) answer_shown_ = false;
    }

  private:
    struct Burst {
        uint64_t beat;
        uint32_t left;
        uint32_t id;
        uint64_t due;
        uint8_t response;
    };
    struct Answer {
        uint64_t due;
        uint32_t id;
        uint8_t response;
    };
    struct Slice {
        uint32_t words[SLICE_WORDS];
        uint8_t strobe[(SLICE_BYTES + 7) / 8];
        bool last, whole;
    };

    void complain(uint64_t now, const char* what) {
        if (!fault_.empty()) return;
        char text[160];
        std::snprintf(text, sizeof text, "AXI4 port %u, cycle %llu: %s", port_,
                      static_cast<unsigned long long>(now), what);
        fault_ = text;
    }

    template <class B, class S>
    void check(uint64_t now, uint64_t address, uint64_t beats, const B& burst, const S& size, const char* what) {
        char text[120];
        const char* rule = nullptr;
        if (address % SLICE_BYTES) rule = "is not aligned";
        if (address % 4096 + beats * SLICE_BYTES > 4096) rule = "crosses a 4096-byte boundary";
        if constexpr (!std::is_same<B, Absent>::value) {
            if (burst != 1) rule = "is not an INCR burst";
        }
        if constexpr (!std::is_same<S, Absent>::value) {
            if ((size_t{1} << size) != SLICE_BYTES) rule = "has another size than the bus";
        }
        if (!rule) return;
        std::snprintf(text, sizeof text, "%s of %llu beats at byte address 0x%llx %s", what,
                      static_cast<unsigned long long>(beats), static_cast<unsigned long long>(address), rule);
        complain(now, text);
    }

    Vmodel& model_;
    const MemoryConfig& memory_;
    const uint32_t port_, ports_;
    std::string& fault_;
    Ring<Burst> reads_, writes_;
    Ring<Answer> answers_;
    Ring<Slice> data_;
    bool read_shown_ = false, answer_shown_ = false;
    bool ar_held_ = false, aw_held_ = false, w_held_ = false;
};
