// archs DIR: writes a header of every architecture, with the metadata that upstream's test makes for it and the tensors
// that llama.cpp makes of them. Each is made in a process of its own, for some end in a failed assertion.
#define main upstreams_main
#include "test-llama-archs.cpp"
#undef main

#include "llama-model.h"

#include <set>
#include <sys/wait.h>
#include <unistd.h>

int common_log_verbosity_thold = 0;

static int write_header(const std::string & path, gguf_context * meta) {
    static ggml_backend_dev_t none[1] = { nullptr };
    llama_model_params        params  = llama_model_default_params();
    params.no_alloc = true;
    params.devices  = none;
    llama_model * model = llama_model_init_from_user(meta, [](ggml_tensor *, void *) {}, nullptr, params);
    if (!model) {
        return 1;
    }
    gguf_context * out = gguf_init_empty();
    gguf_set_kv(out, meta);
    std::set<std::string> seen;
    for (const auto & named : llama_internal_get_tensor_map(model)) {
        ggml_tensor tensor = *named.second;
        tensor.buffer      = nullptr;
        tensor.data        = nullptr;
        tensor.view_src    = nullptr;
        if (seen.insert(named.first).second) {
            gguf_add_tensor(out, &tensor);
        }
    }
    return gguf_write_to_file(out, path.c_str(), true) ? 0 : 1;
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        return 2;
    }
    llama_backend_init();
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    for (const llm_arch & arch : llm_arch_all()) {
        for (int moe = 0; arch != LLM_ARCH_UNKNOWN && moe < 2; moe++) {
            if (moe ? !moe_implemented(arch) : moe_mandatory(arch)) {
                continue;
            }
            const std::string name = std::string(llm_arch_name(arch)) + (moe ? "+experts" : "");
            const pid_t       pid  = fork();
            if (!pid) {
                gguf_context_ptr meta = get_gguf_ctx(arch, moe);
                _Exit(write_header(std::string(argv[1]) + "/" + name + ".gguf", meta.get()));
            }
            int status = 0;
            waitpid(pid, &status, 0);
            printf("%s%s %s\n", name.c_str(), arch_supported(arch) ? "" : " (upstream leaves it out)",
                    status ? "cannot be made" : "made");
            fflush(stdout);
        }
    }
    return 0;
}
