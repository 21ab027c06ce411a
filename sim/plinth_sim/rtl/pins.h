// What the harness needs to touch the pins of a Verilated model without knowing their widths.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "Vmodel.h"

// Stands for a pin that the die does not have: reads as zero, takes any value.
struct Absent {
    template <class T>
    Absent& operator=(const T&) {
        return *this;
    }
    operator uint64_t() const { return 0; }
};

// Verilator holds a pin in 8, 16, 32 or 64 bits or in an array of 32-bit words: word 0 is the lowest on
// every little-endian machine, so words move by copying bytes.
template <class Pin>
inline void read_words(const Pin& pin, uint32_t* words, size_t bytes) {
    std::memcpy(words, &pin, bytes);
}

template <class Pin>
inline void write_words(Pin& pin, const uint32_t* words, size_t bytes) {
    std::memcpy(&pin, words, bytes);
}

// Whether the lowest ``bits`` bits are all set; an absent strobe counts as set.
template <class Pin>
inline bool all_ones(const Pin& pin, size_t bits) {
    if constexpr (std::is_same<Pin, Absent>::value) return true;
    uint64_t words[4] = {};
    std::memcpy(words, &pin, sizeof(Pin) < sizeof(words) ? sizeof(Pin) : sizeof(words));
    for (size_t i = 0; i < bits; i += 64) {
        const size_t here = bits - i < 64 ? bits - i : 64;
        const uint64_t mask = here == 64 ? ~uint64_t{0} : (uint64_t{1} << here) - 1;
        if ((words[i / 64] & mask) != mask) return false;
    }
    return true;
}
