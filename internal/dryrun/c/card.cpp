// The card: places tensors as ggml-cuda does, and executes nothing. Which operations it takes, and how many bytes a
// tensor needs, is the tag's own code: slice.inc has the functions that say so, cut from its ggml-cuda.
#include "card.h"

#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "ggml.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

static size_t       card_memory  = 0;
static card_scratch card_largest = {};

static const char * card_buft_name(ggml_backend_buffer_type_t) { return "CUDA0"; }
static const char * card_host_name(ggml_backend_buffer_type_t) { return "CUDA_Host"; }

// What the cut functions use of ggml-cuda, as it is where one card of compute capability 8.6 is compiled for and found.
#ifndef GGML_CUDA_NO_FA
#define FLASH_ATTN_AVAILABLE
#endif
#define GGML_CUDA_USE_CUB
#define QK_K 256
#define __host__
#define __device__
#define __forceinline__ inline

struct ggml_backend_cuda_device_context {
    int device                    = 0;
    int op_offload_min_batch_size = 32;
};

struct ggml_backend_cuda_buffer_type_context {
    int         device = 0;
    std::string name;
};

struct ggml_backend_cuda_split_buffer_type_context {
    int                   main_device  = 0;
    std::array<float, 16> tensor_split = {};
};

struct ggml_cuda_device_info {
    struct {
        int    cc         = 860;
        int    nsm        = 28;
        size_t smpb       = 48 << 10;
        size_t smpbo      = 99 << 10;
        bool   integrated = false;
        bool   vmm        = true;
        int    warp_size  = 32;
    } devices[16];
};

static const ggml_cuda_device_info & ggml_cuda_info() {
    static const ggml_cuda_device_info info;
    return info;
}

[[maybe_unused]] static int  ggml_cuda_highest_compiled_arch(int cc) { return cc; }
[[maybe_unused]] static int  ggml_cuda_get_device() { return 0; }
[[maybe_unused]] static bool ggml_backend_buft_is_cuda(ggml_backend_buffer_type_t buft) {
    return buft->iface.get_name == card_buft_name;
}
[[maybe_unused]] static bool ggml_backend_buft_is_cuda_host(ggml_backend_buffer_type_t buft) {
    return buft->iface.get_name == card_host_name;
}
[[maybe_unused]] static bool ggml_backend_buft_is_cuda_split(ggml_backend_buffer_type_t) { return false; }
[[maybe_unused]] static void get_row_split(int64_t * low, int64_t * high, const ggml_tensor * tensor,
        const std::array<float, 16> &, int) {
    *low  = 0;
    *high = tensor->ne[1];
}
// The vector kernels are for few tokens, and a ubatch has more.
[[maybe_unused]] static const void * ggml_cuda_get_fattn_vec_case(int64_t, ggml_type, ggml_type) {
    return &card_memory;
}

#include "slice.inc"

static ggml_backend_cuda_device_context      card_device_context;
static ggml_backend_cuda_buffer_type_context card_buft_context = { 0, "CUDA0" };

// Buffers: addresses without memory behind them.

static void * card_base(ggml_backend_buffer_t buffer) { return buffer->context; }
static void   card_memset(ggml_backend_buffer_t, ggml_tensor *, uint8_t, size_t, size_t) {}
static void   card_set(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t) {}
static void   card_get(ggml_backend_buffer_t, const ggml_tensor *, void * data, size_t, size_t size) {
    memset(data, 0, size);
}
static void   card_clear(ggml_backend_buffer_t, uint8_t) {}

static ggml_backend_buffer_t card_alloc(ggml_backend_buffer_type_t buft, size_t size) {
    static std::atomic<uintptr_t> next{ uintptr_t(1) << 44 };
    ggml_backend_buffer_i         iface = {};
    iface.get_base      = card_base;
    iface.memset_tensor = card_memset;
    iface.set_tensor    = card_set;
    iface.get_tensor    = card_get;
    iface.clear         = card_clear;
    return ggml_backend_buffer_init(buft, iface, (void *) next.fetch_add((size + 4095) / 4096 * 4096 + 4096), size);
}

static size_t card_alignment(ggml_backend_buffer_type_t) { return 128; }

// The f16 copies that launch_fattn of fattn-common.cuh makes of K and V in another type, from b9489 on in the buffer of
// its result, before that from the pool; without flash attention the copy of the scores that cuBLAS multiplies by V.
static void card_note(const ggml_tensor * op, size_t alloc) {
    card_scratch s;
    if (op->op == GGML_OP_FLASH_ATTN_EXT) {
        const ggml_tensor * q = op->src[0];
        const ggml_tensor * k = op->src[1];
        const ggml_tensor * v = op->src[2];
        if (q->ne[1] <= 2 || alloc > ggml_nbytes(op)) {
            return;
        }
        const bool same = v->view_src &&
            (v->view_src == k || (v->view_src == k->view_src && v->view_offs == k->view_offs));
        s.cells         = k->ne[1] * k->ne[3];
        s.k             = k->type == GGML_TYPE_F16 ? 0 : 2 * ggml_nelements(k);
        s.v             = v->type == GGML_TYPE_F16 || same ? 0 : 2 * ggml_nelements(v);
    } else if (op->op == GGML_OP_MUL_MAT && op->src[0]->type == GGML_TYPE_F16 && op->src[1]->type == GGML_TYPE_F32 &&
            op->src[1]->ne[2] * op->src[1]->ne[3] > 1) {
        s.cells = op->src[1]->ne[0] * op->src[1]->ne[3];
        s.k     = 2 * ggml_nelements(op->src[1]);
    }
    if (s.k + s.v > card_largest.k + card_largest.v) {
        card_largest = s;
    }
}

static size_t card_alloc_size(ggml_backend_buffer_type_t buft, const ggml_tensor * tensor) {
    const size_t size = ggml_backend_cuda_buffer_type_get_alloc_size(buft, tensor);
    card_note(tensor, size);
    return size;
}

static size_t card_host_alloc_size(ggml_backend_buffer_type_t, const ggml_tensor * tensor) {
    return ggml_nbytes(tensor);
}
static bool card_host_is_host(ggml_backend_buffer_type_t) { return true; }

static ggml_backend_buffer_t card_host_alloc(ggml_backend_buffer_type_t buft, size_t size) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (buffer) {
        buffer->buft = buft;
    }
    return buffer;
}

static size_t card_host_alignment(ggml_backend_buffer_type_t) {
    return ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type());
}

// The device.

static ggml_backend_device      card_dev      = {};
static ggml_backend_reg         card_reg      = {};
static ggml_backend_buffer_type card_buft     = {};
static ggml_backend_buffer_type card_host     = {};

static const char * card_name(ggml_backend_dev_t) { return "CUDA0"; }
static const char * card_description(ggml_backend_dev_t) { return "a card of llpatch's dry run"; }
static void         card_get_memory(ggml_backend_dev_t, size_t * free, size_t * total) { *free = *total = card_memory; }
static enum ggml_backend_dev_type card_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; }
static ggml_backend_buffer_type_t card_get_buft(ggml_backend_dev_t) { return &card_buft; }
static ggml_backend_buffer_type_t card_get_host(ggml_backend_dev_t) { return &card_host; }

static void card_props(ggml_backend_dev_t dev, ggml_backend_dev_props * props) {
    *props             = {};
    props->name        = card_name(dev);
    props->description = card_description(dev);
    props->type        = GGML_BACKEND_DEVICE_TYPE_GPU;
    card_get_memory(dev, &props->memory_free, &props->memory_total);
    props->caps.async       = true;
    props->caps.host_buffer = true;
    props->caps.events      = true;
}

static bool card_supports_op(ggml_backend_dev_t dev, const ggml_tensor * op) {
    return ggml_backend_cuda_device_supports_op(dev, op);
}

static bool card_supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t buft) {
    return buft->iface.get_name == card_buft_name && buft->device == dev;
}

static bool card_offload_op(ggml_backend_dev_t, const ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_GET_ROWS:   return false;
        case GGML_OP_MUL_MAT:    return op->ne[1] >= 32;
        case GGML_OP_MUL_MAT_ID:
        case GGML_OP_ROPE:       return op->ne[2] >= 32;
        default:                 return ggml_nrows(op) >= 32;
    }
}

static const char *   card_backend_name(ggml_backend_t) { return "CUDA0"; }
static void           card_backend_free(ggml_backend_t backend) { delete backend; }
static void           card_synchronize(ggml_backend_t) {}
static enum ggml_status card_compute(ggml_backend_t, ggml_cgraph *) { return GGML_STATUS_FAILED; }

static ggml_backend_t card_init(ggml_backend_dev_t dev, const char *) {
    static ggml_guid guid    = { 'l', 'l', 'p', 'a', 't', 'c', 'h', ' ', 'd', 'r', 'y', ' ', 'r', 'u', 'n', 0 };
    ggml_backend *   backend = new ggml_backend{};
    backend->guid                = &guid;
    backend->device              = dev;
    backend->iface.get_name      = card_backend_name;
    backend->iface.free          = card_backend_free;
    backend->iface.synchronize   = card_synchronize;
    backend->iface.graph_compute = card_compute;
    return backend;
}

static const char *       card_reg_name(ggml_backend_reg_t) { return "CUDA"; }
static size_t             card_count(ggml_backend_reg_t) { return 1; }
static ggml_backend_dev_t card_get(ggml_backend_reg_t, size_t) { return &card_dev; }
static void *             card_proc(ggml_backend_reg_t, const char *) { return nullptr; }

ggml_backend_dev_t card_device(size_t memory) {
    static std::once_flag once;
    std::call_once(once, [&] {
        card_memory = memory;

        card_buft.device               = &card_dev;
        card_buft.iface.get_name       = card_buft_name;
        card_buft.iface.alloc_buffer   = card_alloc;
        card_buft.iface.get_alignment  = card_alignment;
        card_buft.iface.get_alloc_size = card_alloc_size;

        card_host.device               = &card_dev;
        card_host.iface.get_name       = card_host_name;
        card_host.iface.alloc_buffer   = card_host_alloc;
        card_host.iface.get_alignment  = card_host_alignment;
        card_host.iface.get_alloc_size = card_host_alloc_size;
        card_host.iface.is_host        = card_host_is_host;

        card_dev.reg                        = &card_reg;
        card_dev.iface.get_name             = card_name;
        card_dev.iface.get_description      = card_description;
        card_dev.iface.get_memory           = card_get_memory;
        card_dev.iface.get_type             = card_type;
        card_dev.iface.get_props            = card_props;
        card_dev.iface.init_backend         = card_init;
        card_dev.iface.get_buffer_type      = card_get_buft;
        card_dev.iface.get_host_buffer_type = card_get_host;
        card_dev.iface.supports_op          = card_supports_op;
        card_dev.iface.supports_buft        = card_supports_buft;
        card_dev.iface.offload_op           = card_offload_op;
        card_dev.context  = &card_device_context;
        card_buft.context = &card_buft_context;

        card_reg.api_version            = GGML_BACKEND_API_VERSION;
        card_reg.iface.get_name         = card_reg_name;
        card_reg.iface.get_device_count = card_count;
        card_reg.iface.get_device       = card_get;
        card_reg.iface.get_proc_address = card_proc;
        ggml_backend_register(&card_reg);
    });
    return &card_dev;
}

card_scratch card_get_scratch() { return card_largest; }
