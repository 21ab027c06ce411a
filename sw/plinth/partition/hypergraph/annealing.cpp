// Annealing of a whole network's partition, with exact differences.
//
// A vertex is a unit of rows of one layer that move together. A net is a column of a layer: its pins are the units that
// read it and, of all layers but the first, the unit of which it is a row. A net whose pins lie in lambda parts costs
// lambda - 1 words. How many pins a net has in a part is counted, so that a move of vertex v from p to q adds
//
//     sum over nets of v of [pins(net, q) = 0] - [pins(net, p) = 1]
//
// In a visit a vertex chooses by the Boltzmann law among all parts that have room, its own among them; or it goes to a
// part q, chosen by what entering each one adds, and by the same law one of q's vertices comes in exchange, or nothing
// happens. No part of a layer exceeds its limit. All arithmetic is of integers: a seed has one result everywhere.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

// Vertices that are considered in exchange, at most.
constexpr int32_t CANDIDATES = 48;
// Differences of which the law has a weight; that of 0.
constexpr int TABLE = 4096;
constexpr uint64_t ONE = uint64_t(1) << 40;

struct Annealing {
    int32_t parts, vertices, nets;
    std::vector<int32_t> weights, layers, owners, nets_of;
    std::vector<int64_t> starts, limits, loads;
    std::vector<uint16_t> pins;
    // Vertices of each layer and part, and where each one stands among them.
    std::vector<std::vector<int32_t>> held;
    std::vector<int32_t> place;
    std::vector<uint16_t> entry;
    std::vector<int32_t> choices, added;
    std::vector<uint64_t> chances, table;
    std::vector<int32_t> best;
    int64_t words = 0, least = 0;
    uint64_t state = 0;

    // SplitMix64.
    uint64_t draw() {
        uint64_t z = (state += 0x9E3779B97F4A7C15u);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

    uint64_t below(uint64_t bound) { return scaled(draw(), bound, 64); }

    // Upper bits of a product.
    static uint64_t scaled(uint64_t one, uint64_t other, int shift) {
        return static_cast<uint64_t>((static_cast<unsigned __int128>(one) * other) >> shift);
    }

    uint16_t *pins_of(int64_t pin) { return &pins[static_cast<size_t>(nets_of[pin]) * parts]; }

    size_t group(int32_t vertex, int32_t part) const { return static_cast<size_t>(layers[vertex]) * parts + part; }

    void move(int32_t vertex, int32_t to) {
        const int32_t from = owners[vertex];
        for (int64_t pin = starts[vertex]; pin < starts[vertex + 1]; ++pin) {
            uint16_t *count = pins_of(pin);
            --count[from];
            ++count[to];
        }
        auto &old = held[group(vertex, from)], &now = held[group(vertex, to)];
        old[place[vertex]] = old.back();
        place[old.back()] = place[vertex];
        old.pop_back();
        place[vertex] = static_cast<int32_t>(now.size());
        now.push_back(vertex);
        loads[group(vertex, from)] -= weights[vertex];
        loads[group(vertex, to)] += weights[vertex];
        owners[vertex] = to;
    }

    // Which of the choices is taken, by the words that each adds.
    size_t chosen() {
        const int32_t first = *std::min_element(added.begin(), added.end());
        uint64_t total = 0;
        chances.resize(added.size());
        for (size_t choice = 0; choice < added.size(); ++choice) {
            const int64_t above = static_cast<int64_t>(added[choice]) - first;
            total += chances[choice] = above < TABLE ? table[above] : 0;
        }
        uint64_t left = below(total);
        size_t choice = 0;
        while (left >= chances[choice]) left -= chances[choice++];
        return choice;
    }

    // Counts what entering each part adds; returns what leaving a part spares.
    int32_t weigh(int32_t vertex, int32_t from) {
        const int32_t width = parts;
        uint16_t *__restrict adds = entry.data();
        std::fill(adds, adds + width, 0);
        int32_t spared = 0;
        for (int64_t pin = starts[vertex], end = starts[vertex + 1]; pin < end; ++pin) {
            const uint16_t *__restrict count = pins_of(pin);
            for (int32_t part = 0; part < width; ++part) adds[part] += count[part] == 0;
            spared += count[from] == 1;
        }
        return spared;
    }

    void visit(int32_t vertex) {
        const int32_t from = owners[vertex];
        const int32_t spared = weigh(vertex, from);
        const bool exchange = draw() & 1;
        choices.clear();
        added.clear();
        if (!exchange) {
            choices.push_back(from);
            added.push_back(0);
        }
        for (int32_t part = 0; part < parts; ++part) {
            const size_t there = group(vertex, part);
            if (part != from && (exchange ? !held[there].empty() : loads[there] + weights[vertex] <= limits[there])) {
                choices.push_back(part);
                added.push_back(static_cast<int32_t>(entry[part]) - spared);
            }
        }
        if (choices.empty()) return;
        size_t choice = chosen();
        const int32_t to = choices[choice], first = added[choice];
        if (to == from) return;
        move(vertex, to);
        if (!exchange) {
            words += first;
            return;
        }
        // The vertex stands last among those of the part.
        const auto &others = held[group(vertex, to)];
        const int64_t rest = static_cast<int64_t>(others.size()) - 1;
        const int64_t count = std::min<int64_t>(rest, CANDIDATES), begin = static_cast<int64_t>(below(rest));
        const size_t here = group(vertex, from), there = group(vertex, to);
        const int64_t room = limits[here] - loads[here], excess = loads[there] - limits[there];
        choices.assign(1, -1);
        added.assign(1, 0);
        for (int64_t number = 0; number < count; ++number) {
            const int32_t other = others[(begin + number) % rest], weight = weights[other];
            if (weight > room || weight < excess) continue;
            int32_t back = first;
            for (int64_t pin = starts[other], end = starts[other + 1]; pin < end; ++pin) {
                const uint16_t *pinned = pins_of(pin);
                back += (pinned[from] == 0) - (pinned[to] == 1);
            }
            choices.push_back(other);
            added.push_back(back);
        }
        choice = chosen();
        if (choice == 0) {
            move(vertex, from);
        } else {
            move(choices[choice], from);
            words += added[choice];
        }
    }

    // One visit a vertex on average; `ratio` is the chance of one word more, in parts of 2^32.
    void sweep(uint64_t ratio) {
        table[0] = ONE;
        for (int above = 1; above < TABLE; ++above) table[above] = scaled(table[above - 1], ratio, 32);
        for (int32_t number = 0; number < vertices; ++number) visit(static_cast<int32_t>(below(vertices)));
        if (words < least) {
            least = words;
            best = owners;
        }
    }
};

}  // namespace

extern "C" {

// Arrays as the Python side has them; limits are of each layer and part.
Annealing *plinth_annealing_new(int32_t parts, int32_t layers, int32_t vertices, int32_t nets, const int32_t *weights,
                                const int32_t *layer_of, const int32_t *owners, const int64_t *starts,
                                const int32_t *nets_of, const int64_t *limits, uint64_t seed) {
    auto *made = new Annealing;
    made->parts = parts;
    made->vertices = vertices;
    made->nets = nets;
    made->weights.assign(weights, weights + vertices);
    made->layers.assign(layer_of, layer_of + vertices);
    made->owners.assign(owners, owners + vertices);
    made->starts.assign(starts, starts + vertices + 1);
    made->nets_of.assign(nets_of, nets_of + starts[vertices]);
    const size_t groups = static_cast<size_t>(layers) * parts;
    made->limits.assign(limits, limits + groups);
    made->loads.assign(groups, 0);
    made->held.resize(groups);
    made->place.resize(vertices);
    made->entry.resize(parts);
    made->table.resize(TABLE);
    made->pins.assign(static_cast<size_t>(nets) * parts, 0);
    made->state = seed;
    for (int32_t vertex = 0; vertex < vertices; ++vertex) {
        const int32_t owner = owners[vertex];
        for (int64_t pin = starts[vertex]; pin < starts[vertex + 1]; ++pin) ++made->pins_of(pin)[owner];
        auto &group = made->held[made->group(vertex, owner)];
        made->place[vertex] = static_cast<int32_t>(group.size());
        group.push_back(vertex);
        made->loads[made->group(vertex, owner)] += weights[vertex];
    }
    for (int32_t net = 0; net < nets; ++net) {
        const uint16_t *count = &made->pins[static_cast<size_t>(net) * parts];
        const int64_t touched = parts - std::count(count, count + parts, 0);
        made->words += std::max<int64_t>(touched - 1, 0);
    }
    made->least = made->words;
    made->best = made->owners;
    return made;
}

// Sweeps at given ratios; returns the fewest words that were seen.
int64_t plinth_annealing_run(Annealing *annealing, const uint64_t *ratios, int32_t sweeps) {
    for (int32_t number = 0; number < sweeps; ++number) annealing->sweep(ratios[number]);
    return annealing->least;
}

// The part of each vertex where words were fewest.
void plinth_annealing_best(const Annealing *annealing, int32_t *owners) {
    std::copy(annealing->best.begin(), annealing->best.end(), owners);
}

void plinth_annealing_free(Annealing *annealing) { delete annealing; }
}
