// Steps N Verilated dies, their memories, their register masters and the links between them.
//
//   every die runs E cycles by itself, on whichever thread is free (crew.h)
//   -------------- all have: stop? ---------------      E = least link latency: nothing that a die
//   the next E cycles ...                               sends within them can arrive within them
//
// What a die puts on a link in cycle t is at the other die's pins in cycle t + its latency (wires.h); sender and receiver
// never touch the same slot within an epoch, so that slots need no locks and results do not depend on the number of threads.
//
// Dies may live in several processes, whose epochs are the same: between two epochs each process hands the others what its
// dies have put on links to theirs, and whether it would stop (remote.h). So all stop together, after the same cycle.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "Vmodel.h"
#include "crew.h"
#include "memory_model.h"
#include "ports.h"
#include "register_master.h"
#include "remote.h"
#include "serial_line.h"
#include "wires.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

namespace plinth {

constexpr uint32_t STATUS_ERROR = 4;
// Cycles after the last register access before irq counts: a start clears it within them.
constexpr uint64_t IRQ_GRACE = 8;

struct Config {
    uint32_t dies, threads, unrest, epoch, link_count, peer_count;
    // Number of each die of this process in the whole array.
    const uint32_t* numbers;
    // link_count times: die, port out, die, port in, latency, peer. Dies are counted within this process; ELSEWHERE is one
    // of another process, the peer of that number.
    const uint32_t* links;
    // One for each link, or none.
    const Faults* faults;
    // One array of words a die.
    uint32_t* const* memories;
    uint64_t memory_words;
    uint32_t read_latency, write_latency, rate_numerator, rate_denominator, outstanding;
    uint32_t status_register;
    // Cycles that the others get after a die has stopped with an error.
    uint32_t settle;
    // Cycles of a bit on each die's serial line.
    uint32_t bit_numerator, bit_denominator;
    // Waves of one die (tracing builds only).
    uint32_t wave_die;
    uint64_t wave_start, wave_stop;
    const char* wave_path;
    // Verilator's randReset, and a seed: what registers and memories hold before the first reset.
    uint32_t power_up, power_up_seed;
};

enum Until : uint32_t { CYCLES = 0, FINISHED = 1, ACCESSED = 2 };

constexpr uint32_t ELSEWHERE = ~uint32_t{0};

template <size_t... P>
std::tuple<AxiPort<AxiPins<P>>...> make_ports([[maybe_unused]] Vmodel& model,
                                              [[maybe_unused]] const MemoryConfig& memory,
                                              [[maybe_unused]] std::string& fault, std::index_sequence<P...>) {
    return {AxiPort<AxiPins<P>>(model, memory, P, AXI_PORTS, fault)...};
}

class Die {
  public:
    Die(const Config& config, uint32_t number)
        : memory_{config.memories[number], config.memory_words,     config.read_latency, config.write_latency,
                  config.rate_numerator,   config.rate_denominator, config.outstanding},
          model_(context(config, number), "die"),
          bucket_(memory_, BEAT_BITS / 32),
          ports_(make_ports(silence(model_), memory_, fault_, std::make_index_sequence<AXI_PORTS>())),
          registers_(model_, fault_),
          line_(model_, config.bit_numerator, config.bit_denominator, fault_),
          status_register_(config.status_register),
          wave_start_(config.wave_start),
          wave_stop_(config.wave_stop) {
#if VM_TRACE
        if (config.wave_path && config.wave_die == number) {
            vcd_ = std::make_unique<VerilatedVcdC>();
            model_.trace(vcd_.get(), 99);
            vcd_->open(config.wave_path);
        }
#endif
        reset();
    }
    ~Die() {
#if VM_TRACE
        if (vcd_) vcd_->close();
#endif
        model_.final();
    }
    Die(const Die&) = delete;

    // The die and its memory ports, whatever they do; takes no time. Its memory stays.
    void reset() {
        std::apply([&](auto&... port) { (port.reset(), ...); }, ports_);
        model_.rst = 1;
        for (uint64_t i = 0; i < RESET_CYCLES; i++) toggle();
        model_.rst = 0;
    }

    // Write how often each point of coverage was met.
    void cover([[maybe_unused]] const char* path) {
#if VM_COVERAGE
        context_.coveragep()->write(path);
#endif
    }

    void connect_out(uint32_t port, Link* link) { out_[port] = link; }
    void connect_in(uint32_t port, Link* link) { in_[port] = link; }
    RegisterMaster& registers() { return registers_; }
    SerialLine& line() { return line_; }
    const std::string& fault() const { return fault_; }

    void arm(bool watched) {
        finished_ = !watched;
        failed_ = false;
        finished_at_ = 0;
        polling_ = false;
    }
    bool finished() const { return finished_; }
    bool failed() const { return failed_; }
    uint64_t finished_at() const { return finished_at_; }

    void run(uint64_t now, uint64_t cycles) {
        for (const uint64_t end = now + cycles; now < end; now++) cycle(now);
    }

    // The clock alone.
    void toggle() {
        model_.clk = 0;
        model_.eval();
        model_.clk = 1;
        model_.eval();
    }

    void flush_waves() {
#if VM_TRACE
        if (vcd_) vcd_->flush();
#endif
    }

  private:
    VerilatedContext* context(const Config& config, uint32_t number) {
        context_.randReset(config.power_up);
        if (config.power_up_seed) context_.randSeed(config.power_up_seed + config.numbers[number]);
        context_.traceEverOn(VM_TRACE && config.wave_path && config.wave_die == number);
        return &context_;
    }

    void cycle(uint64_t now) {
        drive_links(now, std::make_index_sequence<LINKS>());
        bucket_.tick();
        serve(now);
        std::apply([&](auto&... port) { (port.drive(now), ...); }, ports_);
        registers_.drive(now);
        if constexpr (SERIAL) line_.drive();
        model_.clk = 0;
        model_.eval();
        dump(now, 0);
        sample_links(now, std::make_index_sequence<LINKS>());
        std::apply([&](auto&... port) { (port.sample(now), ...); }, ports_);
        registers_.sample();
        if constexpr (SERIAL) line_.sample(now);
        const bool irq = model_.irq;
        model_.clk = 1;
        model_.eval();
        dump(now, 1);
        registers_.step(now);
        if (!finished_) watch(now, irq);
    }

    // Reads and writes take turns in going first; within a kind, ports go in order.
    void serve(uint64_t now) {
        bool served;
        if (write_first_) {
            served = serve_writes(now);
            serve_reads(now);
            if (served) write_first_ = false;
        } else {
            served = serve_reads(now);
            serve_writes(now);
            if (served) write_first_ = true;
        }
    }
    bool serve_reads(uint64_t now) {
        bool served = false;
        std::apply([&](auto&... port) { ((served |= port.serve_read(now, bucket_)), ...); }, ports_);
        return served;
    }
    bool serve_writes(uint64_t now) {
        bool served = false;
        std::apply([&](auto&... port) { ((served |= port.serve_write(now, bucket_)), ...); }, ports_);
        return served;
    }

    // irq says that the die has ended its graph; STATUS says how.
    void watch(uint64_t now, bool irq) {
        if (polling_) {
            if (!registers_.polled()) return;
            polling_ = false;
            failed_ = registers_.take_poll() & STATUS_ERROR;
            finished_ = true;
        } else if (irq && registers_.idle() && now >= registers_.idle_since() + IRQ_GRACE) {
            finished_at_ = now;
            polling_ = true;
            registers_.take_poll();
            registers_.push({false, status_register_, 0, true});
        }
    }

    template <size_t... P>
    void drive_links(uint64_t now, std::index_sequence<P...>) {
        (drive_link<P>(now), ...);
    }
    template <size_t P>
    void drive_link(uint64_t now) {
        if (Link* link = in_[P]) {
            const Slot& slot = link->now(now);
            LinkIn<P>::valid(model_) = slot.valid;
            if (LINK_LAYER || slot.valid) LinkIn<P>::flit(model_) = slot.flit;
        }
        if (Link* link = out_[P]) LinkOut<P>::credit(model_) = link->credit_now(now);
    }
    template <size_t... P>
    void sample_links(uint64_t now, std::index_sequence<P...>) {
        (sample_link<P>(now), ...);
    }
    template <size_t P>
    void sample_link(uint64_t now) {
        if (Link* link = out_[P]) {
            Slot& slot = link->later(now);
            slot.valid = LinkOut<P>::valid(model_);
            if (LINK_LAYER || slot.valid) slot.flit = LinkOut<P>::flit(model_);
            link->sent(slot);
        }
        if (Link* link = in_[P]) link->credit_later(now) = LinkIn<P>::credit(model_);
    }

    void dump(uint64_t now, int half) {
#if VM_TRACE
        if (vcd_ && now >= wave_start_ && now < wave_stop_) vcd_->dump(2 * now + half);
#endif
    }

    MemoryConfig memory_;
    std::string fault_;
    VerilatedContext context_;
    Vmodel model_;
    Bucket bucket_;
    decltype(make_ports(std::declval<Vmodel&>(), std::declval<MemoryConfig&>(), std::declval<std::string&>(),
                        std::make_index_sequence<AXI_PORTS>())) ports_;
    RegisterMaster registers_;
    SerialLine line_;
    Link* out_[LINKS ? LINKS : 1] = {};
    Link* in_[LINKS ? LINKS : 1] = {};
    uint32_t status_register_;
    uint64_t wave_start_, wave_stop_, finished_at_ = 0;
    bool write_first_ = false, finished_ = true, failed_ = false, polling_ = false;
#if VM_TRACE
    std::unique_ptr<VerilatedVcdC> vcd_;
#endif
};

class Array {
  public:
    explicit Array(const Config& config)
        : config_(config),
          numbers_(config.numbers, config.numbers + config.dies),
          crew_(config.dies, config.threads, config.unrest),
          peers_(config.peer_count, Peer(config.epoch)) {
        for (uint32_t i = 0; i < config.dies; i++) dies_.push_back(std::make_unique<Die>(config, i));
        for (uint32_t i = 0; i < config.link_count; i++) {
            const uint32_t* link = config.links + 6 * i;
            const bool sends = link[0] != ELSEWHERE, receives = link[2] != ELSEWHERE;
            // Faults are the sender's.
            links_.push_back(std::make_unique<Link>(link[4], config.faults && sends ? config.faults + i : nullptr));
            if (sends) dies_[link[0]]->connect_out(link[1], links_.back().get());
            if (receives) dies_[link[2]]->connect_in(link[3], links_.back().get());
            if (!(sends && receives)) peers_[link[5]].add(links_.back().get(), sends);
        }
    }

    Die& die(uint32_t index) { return *dies_[index]; }
    Peer& peer(uint32_t number) { return peers_[number]; }
    uint64_t now() const { return now_; }
    const std::string& fault() const { return fault_; }
    const Crew& crew() const { return crew_; }

    // From now on every run ends together with those of the other processes, which call it with the same arguments.
    void join(Exchange exchange) { exchange_ = exchange; }
    // From now on the other processes' dies are silent.
    void leave() {
        exchange_ = nullptr;
        for (Peer& peer : peers_) peer.silence();
    }

    // Run until the condition holds for the dies of all processes (tested at the end of each epoch) or ``cycles`` have
    // passed; true if it holds. It ends early, with false, if an exchange with another process fails.
    bool run(uint64_t cycles, Until until) {
        end_ = now_ + cycles;
        if (!meet(0, until) || cycles == 0) return met_;
        crew_.run([this](uint32_t die) { dies_[die]->run(now_, epoch()); },
                  [this, until] { return meet(epoch(), until); });
        for (auto& die : dies_) die->flush_waves();
        return met_;
    }

    // Begin to wait for the watched dies, or, with none, go on as before where another process begins.
    void arm(const uint8_t* watched) {
        failed_at_ = 0;
        if (!watched) return;
        for (uint32_t i = 0; i < dies_.size(); i++) dies_[i]->arm(watched[i]);
    }

  private:
    uint64_t epoch() const { return std::min<uint64_t>(config_.epoch, end_ - now_); }

    // Between epochs, behind one of so many cycles, which every die has run: whether there is another one.
    bool meet(uint64_t cycles, Until until) {
        const uint64_t begun = now_;
        now_ += cycles;
        State state = this->state(until);
        met_ = false;
        if (exchange_ && !exchanged(begun, cycles, state)) return false;
        if (until == FINISHED && state.failed && !failed_at_) failed_at_ = now_;
        met_ = until != CYCLES &&
               (state.holds || (until == FINISHED && state.failed && now_ >= failed_at_ + config_.settle));
        return !(met_ || now_ >= end_ || state.faulty);
    }

    // What the dies of this process say.
    State state(Until until) {
        State state{true, false, faulty()};
        for (auto& die : dies_) {
            state.holds &= until == ACCESSED ? die->registers().idle() : die->finished();
            state.failed |= die->failed();
        }
        return state;
    }

    // Hand over what dies of this process have sent in the cycles from ``begun`` on, and take what others have: the state
    // becomes that of all dies. False if that fails.
    bool exchanged(uint64_t begun, uint64_t cycles, State& state) {
        for (Peer& peer : peers_) peer.put(begun, cycles, state);
        if (exchange_()) return false;
        for (Peer& peer : peers_) state.join(peer.take(begun, cycles));
        return true;
    }

    bool faulty() {
        for (uint32_t i = 0; i < dies_.size(); i++) {
            if (!dies_[i]->fault().empty()) {
                fault_ = "die " + std::to_string(numbers_[i]) + ", " + dies_[i]->fault();
                return true;
            }
        }
        return false;
    }

    const Config config_;
    const std::vector<uint32_t> numbers_;
    Crew crew_;
    std::vector<std::unique_ptr<Die>> dies_;
    std::vector<std::unique_ptr<Link>> links_;
    std::vector<Peer> peers_;
    Exchange exchange_ = nullptr;
    std::string fault_;
    uint64_t now_ = 0, end_ = 0, failed_at_ = 0;
    // Written only between epochs, when every die stands still.
    bool met_ = false;
};

}  // namespace plinth

using plinth::Array, plinth::Config, plinth::Die, plinth::Until;

extern "C" {

Array* plinth_new(const Config* config) { return new Array(*config); }
void plinth_free(Array* array) { delete array; }
int plinth_run(Array* array, uint64_t cycles, uint32_t until) { return array->run(cycles, Until(until)); }
void plinth_arm(Array* array, const uint8_t* watched) { array->arm(watched); }
uint64_t plinth_now(Array* array) { return array->now(); }
// Cycle in which a die's irq was seen to end the last wait; 0 if it has not been.
uint64_t plinth_finished_at(Array* array, uint32_t die) { return array->die(die).finished_at(); }
int plinth_failed(Array* array, uint32_t die) { return array->die(die).failed(); }
const char* plinth_fault(Array* array) { return array->fault().c_str(); }
uint64_t plinth_moves(Array* array) { return array->crew().moves(); }
double plinth_asleep(Array* array) { return array->crew().asleep(); }

// Bytes of what a peer gets in an exchange, and of what comes from it.
uint64_t plinth_peer_puts(Array* array, uint32_t peer) { return array->peer(peer).puts(); }
uint64_t plinth_peer_takes(Array* array, uint32_t peer) { return array->peer(peer).takes(); }
void plinth_peer_buffers(Array* array, uint32_t peer, uint8_t* outgoing, const uint8_t* incoming) {
    array->peer(peer).use(outgoing, incoming);
}
// ``exchange`` swaps the buffers of all peers with theirs, and returns 0, or something else if that fails; it is called by
// any thread.
void plinth_join(Array* array, plinth::Exchange exchange) { array->join(exchange); }
void plinth_leave(Array* array) { array->leave(); }

void plinth_reset(Array* array, uint32_t die) { array->die(die).reset(); }
void plinth_cover(Array* array, uint32_t die, const char* path) { array->die(die).cover(path); }

void plinth_access(Array* array, uint32_t die, int write, uint32_t address, uint32_t data) {
    array->die(die).registers().push({write != 0, address, data});
}

// Oldest answer of a die: 0 if there is none, else 1.
int plinth_answer(Array* array, uint32_t die, uint32_t* data, uint32_t* response) {
    auto& answers = array->die(die).registers().answers();
    if (answers.empty()) return 0;
    *data = answers.front().data;
    *response = answers.front().response;
    answers.pop_front();
    return 1;
}

void plinth_serial_send(Array* array, uint32_t die, const uint8_t* bytes, uint64_t count) {
    array->die(die).line().send(bytes, count);
}

// Bytes that a die has sent, at most so many; returns how many there were.
uint64_t plinth_serial_take(Array* array, uint32_t die, uint8_t* bytes, uint64_t most) {
    auto& received = array->die(die).line().received();
    const uint64_t count = std::min<uint64_t>(most, received.size());
    std::copy_n(received.begin(), count, bytes);
    received.erase(received.begin(), received.begin() + count);
    return count;
}

int plinth_serial_quiet(Array* array, uint32_t die) { return array->die(die).line().quiet(); }

// Seconds for ``cycles`` of one fresh die with constant inputs and nothing around it.
double plinth_bare(const Config* config, uint64_t cycles) {
    Die die(*config, 0);
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t i = 0; i < cycles; i++) die.toggle();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
}
