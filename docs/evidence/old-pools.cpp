// Asks ggml-cuda for what attention without -fa asks for: a prompt in ubatches, then two tokens at a time, which it
// captures. PROMPT UBATCH [TOKENS [CELLS]]; see 2026-11-29-sim-old-pools.txt.
#include "ggml.h"
#include "ggml-backend.h"
#include "ggml-cuda.h"
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

static const int D = 128, H = 8;
static ggml_backend_buffer_t buf;
static char * base;
static size_t off;

static void place(ggml_tensor * t) {
    ggml_backend_tensor_alloc(buf, t, base + off);
    off += (ggml_nbytes(t) + 255)/256*256;
}

static ggml_cgraph * build(ggml_context * c, int n_kv, int n_tok, int more = 0) {
    ggml_tensor * v  = ggml_new_tensor_3d(c, GGML_TYPE_F16, n_kv, D, H);
    ggml_tensor * kq = ggml_new_tensor_3d(c, GGML_TYPE_F32, n_kv, n_tok, H);
    ggml_tensor * kqv = ggml_mul_mat(c, v, kq);
    ggml_tensor * in = ggml_new_tensor_2d(c, GGML_TYPE_F32, D, n_tok > 2 ? n_tok : 1);
    ggml_tensor * out = ggml_add(c, in, in); // more than one row: a prompt to ggml-cuda
    off = 0;
    for (ggml_tensor * t : {v, kq, kqv, in, out}) {
        place(t);
    }
    ggml_cgraph * g = ggml_new_graph(c);
    ggml_build_forward_expand(g, kqv);
    if (more) { // a second one, that wants more scratch than the first
        ggml_tensor * v2  = ggml_new_tensor_3d(c, GGML_TYPE_F16, more, D, H);
        ggml_tensor * kq2 = ggml_new_tensor_3d(c, GGML_TYPE_F32, more, n_tok, H);
        ggml_tensor * o2  = ggml_mul_mat(c, v2, kq2);
        for (ggml_tensor * t : {v2, kq2, o2}) {
            place(t);
        }
        ggml_build_forward_expand(g, o2);
    }
    ggml_build_forward_expand(g, out);
    return g;
}

static ggml_context * ctx() {
    return ggml_init({4u << 20, nullptr, true});
}

int main(int argc, char ** argv) {
    const int prompt = atoi(argv[1]), ub = atoi(argv[2]);
    const int tokens = argc > 3 ? atoi(argv[3]) : 0, kv = argc > 4 ? atoi(argv[4]) : 0;
    ggml_backend_t b = ggml_backend_cuda_init(0);
    buf = ggml_backend_alloc_buffer(b, (size_t) prompt*(D*2 + ub*4)*H + (64u << 20) + (size_t) kv*3*(D*2 + 16)*H);
    if (!buf) {
        puts("no buffer");
        return 1;
    }
    base = (char *) ggml_backend_buffer_get_base(buf);
    if (tokens) { // leaves small buffers
        ggml_context * c = ctx();
        ggml_backend_graph_compute(b, build(c, 256, 2));
        ggml_free(c);
    }
    for (int round = 0; round < (tokens ? 3 : 1); round++) {
        for (int i = ub; i <= prompt; i += ub) {
            ggml_context * c = ctx();
            ggml_backend_graph_compute(b, build(c, i, ub));
            ggml_free(c);
        }
        ggml_context * c = ctx();
        ggml_cgraph * g = kv ? build(c, kv, 2, 2*kv) : build(c, 256, 2);
        for (int i = 0; i < tokens; i++) {
            ggml_backend_graph_compute(b, g);
        }
        ggml_free(c);
    }
    ggml_backend_free(b);
    ggml_backend_buffer_free(buf);
}
