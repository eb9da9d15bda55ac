// Makes the n-th cudaMalloc of a process fail (FAIL_ALLOC=n) as a full card does:
// by asking the real one for more than any card has.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static int count;
int cudaMalloc(void **p, size_t n) {
	static int (*real)(void **, size_t);
	if (!real) { // ggml loads its backend with dlopen, so the library is not in the global scope
		static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
		for (int i = 0; i < 3 && !real; i++) {
			void *h = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
			if (h) real = (int (*)(void **, size_t))dlsym(h, "cudaMalloc");
		}
		if (!real) abort();
	}
	const char *e = getenv("FAIL_ALLOC");
	int k = __sync_add_and_fetch(&count, 1);
	if (e && k == atoi(e)) {
		fprintf(stderr, "failalloc: cudaMalloc number %d of %zu bytes is made to fail\n", k, n);
		return real(p, (size_t)1 << 50);
	}
	if (e) fprintf(stderr, "failalloc: cudaMalloc number %d of %zu bytes\n", k, n);
	return real(p, n);
}
