#pragma once
#include <cstdio>
#include "ggml.h"
enum { LOG_LEVEL_DEBUG = 5, LOG_LEVEL_INFO = 3, LOG_LEVEL_WARN = 2, LOG_LEVEL_ERROR = 1, LOG_LEVEL_OUTPUT = 0 };
struct common_log;
inline common_log * common_log_main() { return nullptr; }
inline void common_log_flush(common_log *) {}
inline void common_log_set_verbosity_thold(int) {}
inline int common_log_get_verbosity(ggml_log_level) { return 0; }
extern int common_log_verbosity_thold;
#define LOG(...) fprintf(stderr, __VA_ARGS__)
#define LOG_INF LOG
#define LOG_ERR LOG
#define LOG_WRN LOG
#define LOG_DBG LOG
