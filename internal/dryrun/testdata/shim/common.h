#pragma once
#include "llama.h"
#include "llama-cpp.h"
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>
inline void common_init() {}
inline void common_batch_add(llama_batch & batch, llama_token id, llama_pos pos, const std::vector<llama_seq_id> & seq, bool logits) {
    batch.token[batch.n_tokens] = id; batch.pos[batch.n_tokens] = pos; batch.n_seq_id[batch.n_tokens] = seq.size();
    for (size_t i = 0; i < seq.size(); ++i) batch.seq_id[batch.n_tokens][i] = seq[i];
    batch.logits[batch.n_tokens] = logits; batch.n_tokens++;
}
