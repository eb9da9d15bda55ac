// Loads a model as llama-server does, without its weights and without a card, and says what memory it takes and where:
//
//   dryrun MODEL NAME=VALUE…
//
// with the names ctx, batch, ubatch, parallel, ngl, flash (on, off, auto), kt and vt (cache types), card (bytes; 0: no
// card) and backend (the library of a backend, of a build that has them in files of their own; with commas for more).
// For comparing: real=1 allocates and reads, as without a dry run, and device=NAME takes a real device for the card.
// It writes JSON to standard output, and to standard error what llama.cpp warns of.
#include "card.h"

#include "ggml-backend.h"
#include "ggml.h"
#include "gguf.h"
#include "llama-context.h"
#include "llama.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>

static std::map<std::string, std::string> options;

static long long number(const char * name, long long otherwise) {
    auto at = options.find(name);
    return at == options.end() ? otherwise : atoll(at->second.c_str());
}

static ggml_type cache_type(const char * name) {
    auto at = options.find(name);
    if (at == options.end()) {
        return GGML_TYPE_F16;
    }
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const char * is = ggml_type_name((ggml_type) t);
        if (is && at->second == is) {
            return (ggml_type) t;
        }
    }
    fprintf(stderr, "this llama.cpp has no type %s\n", at->second.c_str());
    exit(2);
}

// Fields that only some tags have.
template <class P> static auto no_mmap(P & p, int) -> decltype((void) (p.use_mmap = false)) { p.use_mmap = false; }
template <class P> static auto no_mmap(P & p, long) -> decltype((void) p.load_mode) {
    p.load_mode = decltype(p.load_mode)(0);
}
template <class P> static auto no_alloc(P & p, bool on, int) -> decltype((void) p.no_alloc) { p.no_alloc = on; }
template <class P> static auto outputs(P & p, uint32_t n, int) -> decltype((void) p.n_outputs_max_per_seq) {
    p.n_outputs_max         = n; // as llama-server asks
    p.n_outputs_max_per_seq = 1;
}
template <class P> static void outputs(P &, uint32_t, long) {}

struct sizes {
    size_t weights = 0, context = 0, compute = 0;
};

static void print(const char * name, const sizes & s, const char * end) {
    printf("    {\"name\": \"%s\", \"weights\": %zu, \"context\": %zu, \"compute\": %zu}%s\n", name, s.weights,
            s.context, s.compute, end);
}

// A file without tensors, such as a vocabulary alone, makes the tensors that its architecture asks for.
static llama_model * load(const char * path, llama_model_params params) {
#ifdef DRYRUN_FROM_METADATA
    gguf_init_params init = { /*.no_alloc =*/ true, /*.ctx =*/ nullptr };
    gguf_context *   meta = gguf_init_from_file(path, init);
    if (meta && gguf_get_n_tensors(meta) == 0) {
        return llama_model_init_from_user(meta, [](ggml_tensor *, void *) {}, nullptr, params);
    }
    gguf_free(meta);
#endif
    return llama_model_load_from_file(path, params);
}

int main(int argc, char ** argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: dryrun MODEL NAME=VALUE…\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        const char * equals = strchr(argv[i], '=');
        if (!equals) {
            fprintf(stderr, "%s: it is no NAME=VALUE\n", argv[i]);
            return 2;
        }
        options[std::string(argv[i], size_t(equals - argv[i]))] = equals + 1;
    }
    llama_log_set([](ggml_log_level level, const char * text, void *) {
        static bool shown = false;
        if (level != GGML_LOG_LEVEL_CONT) {
            shown = level >= GGML_LOG_LEVEL_WARN || getenv("DRYRUN_LOG");
        }
        if (shown) {
            fputs(text, stderr);
        }
    }, nullptr);
    llama_backend_init();
    std::istringstream backends(options["backend"]);
    for (std::string path; std::getline(backends, path, ',');) {
        if (!ggml_backend_load(path.c_str())) {
            return 1;
        }
    }

    ggml_backend_dev_t devices[2] = {};
    if (const long long memory = number("card", 0)) {
        devices[0] = card_device(memory);
    }
    if (options.count("device") && !(devices[0] = ggml_backend_dev_by_name(options["device"].c_str()))) {
        fprintf(stderr, "there is no device %s\n", options["device"].c_str());
        return 2;
    }
    const bool real  = number("real", 0) != 0;
    auto       model_params = llama_model_default_params();
    model_params.devices      = devices;
    model_params.n_gpu_layers = devices[0] ? (int) number("ngl", -1) : 0;
    if (model_params.n_gpu_layers < 0) {
        model_params.n_gpu_layers = 1 << 16;
    }
    model_params.use_extra_bufts = true;
    no_mmap(model_params, 0);
    no_alloc(model_params, !real, 0);
    llama_model * model = load(argv[1], model_params);
    if (!model) {
        return 1;
    }

    auto params = llama_context_default_params();
    params.n_ctx      = number("ctx", 0);
    params.n_batch    = number("batch", 2048);
    params.n_ubatch   = number("ubatch", 512);
    params.n_seq_max  = number("parallel", 1);
    params.type_k     = cache_type("kt");
    params.type_v     = cache_type("vt");
    params.swa_full   = false; // as llama-server's default is
    params.kv_unified = false;
    const std::string flash = options.count("flash") ? options["flash"] : "auto";
    params.flash_attn_type  = flash == "on" ? LLAMA_FLASH_ATTN_TYPE_ENABLED :
        flash == "off" ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_AUTO;
    outputs(params, params.n_seq_max, 0);
    llama_context * ctx = llama_init_from_model(model, params);
    if (!ctx) {
        return 1;
    }

    sizes card, host;
    for (const auto & entry : ctx->memory_breakdown()) {
        ggml_backend_dev_t dev = ggml_backend_buft_get_device(entry.first);
        sizes & s = devices[0] && dev == devices[0] && !ggml_backend_buft_is_host(entry.first) ? card : host;
        s.weights += entry.second.model;
        s.context += entry.second.context;
        s.compute += entry.second.compute;
    }
    const card_scratch scratch = card_get_scratch();
    printf("{\n  \"n_ctx\": %u,\n  \"n_layer\": %d,\n  \"devices\": [\n", llama_n_ctx(ctx), llama_model_n_layer(model));
    if (devices[0]) {
        print("CUDA0", card, ",");
    }
    print("host", host, "");
    printf("  ],\n  \"scratch\": {\"k\": %lld, \"v\": %lld, \"cells\": %lld}\n}\n", (long long) scratch.k,
            (long long) scratch.v, (long long) scratch.cells);
    fflush(stdout);
    // Nothing is given back: the process ends, and some tags free what a dry run never took.
    _Exit(0);
}
