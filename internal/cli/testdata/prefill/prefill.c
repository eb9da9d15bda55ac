// prefill MODEL TOKENS: reads a prompt through libllama, all layers on the device, with a
// q8_0 cache. It says "ready", waits for a line, reads the prompt and says "done".
#include "ggml-backend.h"
#include "llama.h"
#include <stdio.h>
#include <stdlib.h>

int main(int n, char ** args) {
    if (n != 3) {
        return 2;
    }
    const int tokens = atoi(args[2]);
    ggml_backend_load_all();
    struct llama_model_params on = llama_model_default_params();
    on.n_gpu_layers = 99;
    struct llama_model * model = llama_model_load_from_file(args[1], on);
    if (!model) {
        return 3;
    }
    struct llama_context_params with = llama_context_default_params();
    with.n_ctx = tokens + 64;
    with.n_batch = 2048;
    with.n_ubatch = 512;
    with.n_threads = with.n_threads_batch = 1;
    with.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    with.type_k = with.type_v = GGML_TYPE_Q8_0;
    struct llama_context * context = llama_init_from_model(model, with);
    if (!context) {
        return 4;
    }
    puts("ready");
    fflush(stdout);
    getchar();
    llama_token batch[2048];
    for (int i = 0; i < 2048; i++) {
        batch[i] = i % 200;
    }
    for (int done = 0; done < tokens; done += 2048) {
        const int left = tokens - done;
        if (llama_decode(context, llama_batch_get_one(batch, left < 2048 ? left : 2048))) {
            return 5;
        }
    }
    puts("done");
    llama_free(context);
    llama_model_free(model);
    return 0;
}
