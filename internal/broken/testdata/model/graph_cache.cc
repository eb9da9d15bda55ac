// The functions of graph-cache-lru, as its patch adds them, against a model of the cache:
// random computations, and after each the same graphs, the same counts, and no graph
// destroyed under a launch. model_test.go writes the three .inc files.
//
//     graph_cache STEPS        with GGML_CUDA_GRAPH_CACHE_MAX in the environment
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>

#define USE_CUDA_GRAPH
#define GGML_LOG_WARN(...) (void) snprintf(said, sizeof said, __VA_ARGS__)
#define CUDA_CHECK(call) (void) (call)
#define CHECK(ok, ...) \
    do { \
        if (!(ok)) { \
            printf("step %ld, key %d: ", step, key_now); \
            printf(__VA_ARGS__); \
            printf("\n"); \
            exit(1); \
        } \
    } while (0)

static char    said[1000];
static int64_t now = 1'000'000;
static long    step;
static int     key_now;
static bool    capturing;
static bool    by_age; // upstream's own sweep, which waits for nothing
static long    waits;

static int64_t ggml_time_us() { return now; }
static void ggml_cuda_set_device(int) {}

typedef struct stream { int number; } * cudaStream_t;

// A graph's launch keeps both streams busy until they are waited for.
static std::map<const int *, int> busy;
static int cudaStreamSynchronize(cudaStream_t s) {
    CHECK(!capturing, "stream %d is waited for during a capture", s->number);
    waits++;
    for (auto & [instance, streams] : busy) {
        streams &= ~(1 << s->number);
    }
    return 0;
}

struct ggml_cuda_graph {
#include "graph.inc"
    int64_t last_used_time = 0;
    int * instance = nullptr;
    bool is_enabled() const { return true; }
    ~ggml_cuda_graph() {
        if (instance) {
            CHECK(!capturing, "a graph is destroyed during a capture");
            CHECK(by_age || busy[instance] == 0, "a graph is destroyed under its launch");
            busy.erase(instance);
        }
        delete instance;
    }
};

struct ggml_backend_cuda_context {
    int device = 0;
    stream one{0}, two{1};
    cudaStream_t streams[1][4] = {{&one, nullptr, &two, nullptr}};
    std::unordered_map<const void *, std::unique_ptr<ggml_cuda_graph>> cuda_graphs;
#include "context.inc"
    int64_t swept = 0;

    // Upstream's look-up; from b8832 on it drops what was not used for 10 s.
    ggml_cuda_graph * cuda_graph(const void * key) {
#ifdef SWEEPS
        if (now - swept >= 5'000'000) {
            swept  = now;
            by_age = true;
            for (auto it = cuda_graphs.begin(); it != cuda_graphs.end();) {
                it = now - it->second->last_used_time >= 10'000'000 ? cuda_graphs.erase(it) : std::next(it);
            }
            by_age = false;
        }
#endif
        std::unique_ptr<ggml_cuda_graph> & graph = cuda_graphs[key];
        if (!graph) {
            graph = std::make_unique<ggml_cuda_graph>();
        }
        graph->last_used_time = now;
        return graph.get();
    }
};

#include "functions.inc"

// The model: what the cache holds, and nothing of how.
struct entry { int64_t used; bool computed, instance; };
struct model {
    size_t max;
    std::map<int, entry> held;
    size_t inserts = 0, hits = 0, evictions = 0, peak = 0;
    int64_t swept = 0;

    void sweep() {
        if (now - swept < 5'000'000) {
            return;
        }
        swept = now;
        std::erase_if(held, [](const auto & e) { return now - e.second.used >= 10'000'000; });
    }
    void enter(int key, bool compute) {
#ifndef SWEEPS
        if (held.count(key)) {
            held[key].used = now;
        }
        if (max) {
            sweep();
        }
#endif
        if (!held.count(key)) {
            while (max && held.size() >= max) {
                held.erase(std::min_element(held.begin(), held.end(), [](const auto & a, const auto & b) { return a.second.used < b.second.used; }));
                evictions++;
            }
            inserts++;
            peak = std::max(peak, held.size() + 1);
        } else if (compute && held[key].computed) {
            hits++;
        }
#ifdef SWEEPS
        sweep();
#endif
        entry & e = held[key];
        e.used = now;
        e.computed = e.computed || compute;
    }
};

static void compare(const ggml_backend_cuda_context & c, const model & m, const char * keys) {
    CHECK(c.cuda_graphs.size() == m.held.size(), "%zu graphs, and %zu in the model", c.cuda_graphs.size(), m.held.size());
    for (const auto & [key, e] : m.held) {
        const auto it = c.cuda_graphs.find(keys + key);
        CHECK(it != c.cuda_graphs.end(), "graph %d is not there", key);
        CHECK(it->second->computed == e.computed && (it->second->instance != nullptr) == e.instance, "graph %d is another", key);
    }
    const auto & s = c.cuda_graph_cache_stats;
    CHECK(s.inserts == m.inserts && s.hits == m.hits && s.evictions == m.evictions && s.peak == m.peak,
        "counts %zu %zu %zu %zu, and %zu %zu %zu %zu in the model", s.inserts, s.hits, s.evictions, s.peak, m.inserts, m.hits, m.evictions, m.peak);
}

int main(int argc, char ** argv) {
    const long steps = argc > 1 ? atol(argv[1]) : 0;
    const char * max = getenv("GGML_CUDA_GRAPH_CACHE_MAX");
    static const char keys[40] = {};
    ggml_backend_cuda_context c;
    model m = {max ? (size_t) atol(max) : 0, {}};
    std::mt19937 random(1);
    for (step = 1; step <= steps; step++) {
        // Mostly close together, at times seconds apart, so that graphs grow old.
        now += 1 + (random() % 50 ? random() % 20'000 : random() % 4'000'000);
        // Some keys are used far more often than others.
        key_now = random() % 3 ? random() % 10 : random() % 40;
        const bool compute = random() % 4;
        m.enter(key_now, compute);
        c.cuda_graph_cache_enter(keys + key_now, compute);
        ggml_cuda_graph * graph = c.cuda_graph(keys + key_now);
        if (compute) {
            const bool captures = !graph->instance && random() % 2;
            capturing = captures;
            for (int i = 0; i < 4; i++) {
                CHECK(c.cuda_graph(keys + key_now) == graph, "the graph has moved");
            }
            if (captures) {
                graph->instance = new int(key_now);
                m.held[key_now].instance = true;
            }
            capturing = false;
            if (graph->instance) {
                CHECK(*graph->instance == key_now, "another graph's instance");
                busy[graph->instance] = 3;
            }
        }
        compare(c, m, keys);
    }
    CHECK(m.max || waits == 0, "%ld waits without a limit", waits);
    for (auto & [instance, streams] : busy) {
        streams = 0; // the context's end waits for all
    }
    printf("%ld steps, limit %zu: %zu inserts, %zu hits, %zu evictions, peak %zu, %ld waits\n", steps, m.max, m.inserts, m.hits, m.evictions, m.peak, waits);
    return steps > 0 ? 0 : 2;
}
