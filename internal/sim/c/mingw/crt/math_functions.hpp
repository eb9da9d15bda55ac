// CUDA's header of this name takes Microsoft's compiler's branch where _WIN32 is
// defined. clang for MinGW wants the other one, which its own CUDA headers are written
// for, and which names two functions of glibc. This file's folder comes before CUDA's.
#pragma push_macro("_WIN32")
#undef _WIN32
#ifndef LLPATCH_MATH_FUNCTIONS
#define LLPATCH_MATH_FUNCTIONS
static inline int __isinf(double a) { return __builtin_isinf(a); }
static inline int __isinff(float a) { return __builtin_isinf(a); }
#endif
#include_next <crt/math_functions.hpp>
#pragma pop_macro("_WIN32")
