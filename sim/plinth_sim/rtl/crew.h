// Threads that share the work of a simulation, epoch by epoch.
//
//   epoch e:      claim an item, work on it, claim the next    every thread: its own items first, then the others'
//   last is done: meet(), while nothing else runs              whichever thread worked on it
//   epoch e + 1:  ...
//
// No item waits for a certain thread, so that a thread which the system does not let run holds up the others only by
// the item that it was stopped in. A thread that finds nothing left to claim spins for as long as sleeping and waking
// would take, then sleeps: beside other programs its processor's time goes to who has work, and the scheduler counts
// as used only what was. With more threads than processors, those too many sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace plinth {

class Crew {
  public:
    // ``unrest``: for tests. Unless it is 0, in every epoch threads sit out and items are claimed in another order, as
    // a hash of it, the epoch and the thread has it.
    Crew(uint32_t items, uint32_t threads, uint32_t unrest)
        : items_(items), threads_(std::min(items, threads)), unrest_(unrest), claims_(new Claim[items]) {}

    // Runs ``work(item)`` for every item, then ``meet()``, over and over until that is false. What ``meet`` and earlier
    // epochs wrote can be read by all.
    template <class Work, class Meet>
    void run(const Work& work, const Meet& meet) {
        // Short runs (register accesses) are over before another thread has started.
        for (uint32_t epochs = 0; threads_ == 1 || epochs < ALONE_EPOCHS; epochs++) {
            for (uint32_t item = 0; item < items_; item++) work(item);
            if (!meet()) return;
        }
        stop_ = false;
        std::vector<std::thread> others;
        for (uint32_t thread = 1; thread < threads_; thread++)
            others.emplace_back([&, thread] { labour(thread, work, meet); });
        labour(0, work, meet);
        for (std::thread& other : others) other.join();
    }

    // Items that another thread worked on than the one that they are dealt to.
    uint64_t moves() const { return moves_.load(); }
    // Seconds that threads slept, all together. Between runs.
    double asleep() const { return std::chrono::duration<double>(asleep_).count(); }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr uint32_t ALONE_EPOCHS = 4;
    static constexpr std::chrono::microseconds SPIN{50};
    // Looks at the epoch between looks at the clock.
    static constexpr int LOOKS = 32;

    // The epoch in which an item is to be worked on next, on a cache line of its own.
    struct alignas(64) Claim {
        std::atomic<uint64_t> next{0};
    };

    template <class Work, class Meet>
    void labour(uint32_t thread, const Work& work, const Meet& meet) {
        const std::vector<uint32_t> order = preference(thread);
        uint64_t epoch = epoch_.load(std::memory_order_acquire);
        while (!stop_.load(std::memory_order_relaxed)) {
            const uint64_t whim = unrest_ ? hash(hash(unrest_, epoch), thread) : 0;
            const bool idle = unrest_ && hash(unrest_, epoch) % threads_ != thread && whim % 2;
            for (uint32_t i = 0; i < items_ && !idle; i++) {
                const uint32_t item = order[(i + whim / 2) % items_];
                if (!claim(item, epoch)) continue;
                if (item % threads_ != thread) moves_.fetch_add(1, std::memory_order_relaxed);
                work(item);
                if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == items_) {
                    if (!meet()) stop_.store(true, std::memory_order_relaxed);
                    done_.store(0, std::memory_order_relaxed);
                    begin(epoch + 1);
                }
            }
            epoch = await(epoch, idle);
        }
    }

    // A thread's own items, which its processor's caches hold, then the others', those first that their own thread comes
    // to last.
    std::vector<uint32_t> preference(uint32_t thread) const {
        std::vector<uint32_t> order;
        for (uint32_t i = thread; i < items_; i += threads_) order.push_back(i);
        const size_t own = order.size();
        for (uint32_t i = 0; i < items_; i++)
            if (i % threads_ != thread) order.push_back(i);
        std::reverse(order.begin() + own, order.end());
        return order;
    }

    // A thread that lags may ask for an epoch that is over: nothing is left to claim then.
    bool claim(uint32_t item, uint64_t epoch) {
        std::atomic<uint64_t>& next = claims_[item].next;
        return next.load(std::memory_order_relaxed) == epoch &&
               next.compare_exchange_strong(epoch, epoch + 1, std::memory_order_relaxed);
    }

    void begin(uint64_t epoch) {
        // In one order with ``await``: either this sees the sleeper, or the sleeper the epoch.
        epoch_.store(epoch, std::memory_order_seq_cst);
        if (!sleeping_.load(std::memory_order_seq_cst)) return;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            sleeping_.store(false, std::memory_order_relaxed);
        }
        wake_.notify_all();
    }

    // The first epoch after ``epoch``.
    uint64_t await(uint64_t epoch, bool at_once) {
        uint64_t now;
        const auto begun = [&] { return (now = epoch_.load(std::memory_order_acquire)) != epoch; };
        if (begun()) return now;
        auto start = Clock::now();
        for (const auto until = start + SPIN; !at_once && start < until; start = Clock::now()) {
            for (int look = 0; look < LOOKS; look++) {
                if (begun()) return now;
#if defined(__x86_64__)
                __builtin_ia32_pause();
#endif
            }
        }
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            sleeping_.store(true, std::memory_order_seq_cst);
            if ((now = epoch_.load(std::memory_order_seq_cst)) != epoch) break;
            wake_.wait(lock);
        }
        asleep_ += Clock::now() - start;
        return now;
    }

    static uint64_t hash(uint64_t a, uint64_t b) {
        uint64_t x = (a ^ (b + 1)) * 0x9E3779B97F4A7C15;
        x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93;
        return x ^ (x >> 32);
    }

    const uint32_t items_, threads_, unrest_;
    const std::unique_ptr<Claim[]> claims_;
    alignas(64) std::atomic<uint64_t> epoch_{0};
    alignas(64) std::atomic<uint32_t> done_{0};
    std::atomic<bool> sleeping_{false}, stop_{false};
    std::atomic<uint64_t> moves_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
    // Under the mutex.
    Clock::duration asleep_{};
};

}  // namespace plinth
