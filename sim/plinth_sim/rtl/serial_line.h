// The host's end of a die's serial line: bytes to its rx, bytes from its tx, 8N1.
#pragma once

#include <cstdio>
#include <deque>
#include <string>

#include "ports.h"

class SerialLine {
  public:
    // A bit takes numerator / denominator cycles.
    SerialLine(Vmodel& model, uint32_t numerator, uint32_t denominator, std::string& fault)
        : model_(model), fault_(fault), numerator_(numerator), denominator_(denominator) {
        SerialPins::rx(model) = 1;
    }

    void send(const uint8_t* bytes, size_t count) { queue_.insert(queue_.end(), bytes, bytes + count); }
    // Bytes that have come, oldest first.
    std::deque<uint8_t>& received() { return received_; }
    // Whether nothing is on the line, either way.
    bool quiet() const { return queue_.empty() && !bits_left_ && !receiving_; }

    void drive() {
        if (!bits_left_) {
            if (queue_.empty()) return;
            bits_ = 0x200 | queue_.front() << 1;
            queue_.pop_front();
            bits_left_ = 10;
        }
        SerialPins::rx(model_) = bits_ & 1;
        sent_ += denominator_;
        if (sent_ >= numerator_) {
            sent_ -= numerator_;
            bits_ >>= 1;
            bits_left_--;
        }
    }

    void sample(uint64_t now) {
        const bool line = SerialPins::tx(model_);
        if (!receiving_) {
            if (line) return;
            receiving_ = 10;
            // The first look is at the middle of the start bit.
            seen_ = numerator_ / 2;
        }
        seen_ += denominator_;
        if (seen_ < numerator_) return;
        seen_ -= numerator_;
        byte_ = byte_ >> 1 | line << 9;
        if (--receiving_) return;
        if ((byte_ & 0x201) == 0x200) {
            received_.push_back(byte_ >> 1);
        } else if (fault_.empty()) {
            char text[80];
            std::snprintf(text, sizeof text, "serial line, cycle %llu: no byte between a start and a stop bit",
                          static_cast<unsigned long long>(now));
            fault_ = text;
        }
    }

  private:
    Vmodel& model_;
    std::string& fault_;
    uint32_t numerator_, denominator_, sent_ = 0, seen_ = 0;
    std::deque<uint8_t> queue_, received_;
    uint16_t bits_ = 0, byte_ = 0;
    int bits_left_ = 0, receiving_ = 0;
};
