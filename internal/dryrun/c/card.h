// A card of llpatch's dry run: a ggml device that executes nothing.
#pragma once

#include "ggml-backend.h"

#include <cstddef>
#include <cstdint>

// What the attention of a prompt takes beside the buffers of llama.cpp, of the largest layer: bytes from the pool of
// ggml-cuda for so many cells.
struct card_scratch {
    int64_t k     = 0;
    int64_t v     = 0;
    int64_t cells = 0;
};

// The one card, which is registered with the first call; memory is what it says that it has, in bytes.
ggml_backend_dev_t card_device(size_t memory);

// What the graphs that were laid out since the first call take.
card_scratch card_get_scratch();
