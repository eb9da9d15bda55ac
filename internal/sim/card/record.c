// Records the allocations that a program makes on a real card, in the trace
// format of the simulated device (package sim), so that the two can be compared.
//
//	cc -shared -fPIC -O1 -o record.so record.c -I CUDA/include -ldl
//	LLPATCH_RECORD=FILE LD_PRELOAD=./record.so llama-bench …
//
// It stands before libcudart and libcuda, so both must be linked dynamically,
// which is what ggml's CMake does. What the libraries allocate among themselves
// (a context, cuBLAS's workspace) does not pass here, nor on the simulation.
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
static struct entry {
	uint64_t at;
	size_t size;
	const char *kind;
	unsigned long id;
} *entries;
static size_t n_entries, cap_entries;
static unsigned long n_ever;

struct library {
	const char *part;
	char path[4096];
};

static int is_library(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	struct library *l = data;
	const char *base = strrchr(info->dlpi_name, '/');
	if (strncmp(base ? base + 1 : info->dlpi_name, l->part, strlen(l->part)))
		return 0;
	snprintf(l->path, sizeof l->path, "%s", info->dlpi_name);
	return 1;
}

// real finds a function of a library that was perhaps loaded for a backend
// alone, where RTLD_NEXT does not look.
static void *real(const char *part, const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);
	struct library l = {part, ""};
	if (!f && dl_iterate_phdr(is_library, &l)) {
		void *handle = dlopen(l.path, RTLD_LAZY | RTLD_NOLOAD);
		f = handle ? dlsym(handle, name) : NULL;
	}
	if (!f) {
		fprintf(stderr, "record: %s has no %s\n", part, name);
		abort();
	}
	return f;
}

static void start(void)
{
	const char *file = getenv("LLPATCH_RECORD");
	if (out || !file)
		return;
	out = fopen(file, "we");
	if (!out) {
		perror(file);
		abort();
	}
	setvbuf(out, NULL, _IOLBF, 0);
	fprintf(out, "sim t=0 version=1 pid=%d source=card\n", getpid());
}

static void made(uint64_t at, size_t size, const char *kind, const char *call)
{
	pthread_mutex_lock(&lock);
	start();
	if (n_entries == cap_entries) {
		cap_entries = cap_entries ? 2 * cap_entries : 256;
		entries = realloc(entries, cap_entries * sizeof *entries);
		if (!entries)
			abort();
	}
	entries[n_entries++] = (struct entry){at, size, kind, ++n_ever};
	if (out)
		fprintf(out, "alloc t=0 id=%lu kind=%s call=%s bytes=%zu\n", n_ever, kind, call, size);
	pthread_mutex_unlock(&lock);
}

static void gone(uint64_t at, const char *call)
{
	pthread_mutex_lock(&lock);
	for (size_t i = n_entries; i-- > 0;) {
		struct entry e = entries[i];
		if (e.at != at)
			continue;
		entries[i] = entries[--n_entries];
		if (out)
			fprintf(out, "free t=0 id=%lu kind=%s call=%s bytes=%zu\n", e.id, e.kind, call, e.size);
		break;
	}
	pthread_mutex_unlock(&lock);
}

// failed tells of an allocation that was refused.
static void failed(size_t size, const char *kind, const char *call)
{
	pthread_mutex_lock(&lock);
	start();
	if (out)
		fprintf(out, "fail t=0 call=%s kind=%s bytes=%zu\n", call, kind, size);
	pthread_mutex_unlock(&lock);
}

#define REAL(library, name) \
	static __typeof__(&name) next; \
	if (!next) \
		next = (__typeof__(&name))real(library, #name)


static cudaError_t noted(cudaError_t e, void **p, size_t size, const char *kind, const char *call)
{
	if (!e && *p)
		made((uintptr_t)*p, size, kind, call);
	else if (e == cudaErrorMemoryAllocation)
		failed(size, kind, call);
	return e;
}

cudaError_t cudaMalloc(void **p, size_t size)
{
	REAL("libcudart.so", cudaMalloc);
	return noted(next(p, size), p, size, "device", "cudaMalloc");
}

cudaError_t cudaMallocManaged(void **p, size_t size, unsigned flags)
{
	REAL("libcudart.so", cudaMallocManaged);
	return noted(next(p, size, flags), p, size, "managed", "cudaMallocManaged");
}

cudaError_t cudaMallocHost(void **p, size_t size)
{
	REAL("libcudart.so", cudaMallocHost);
	return noted(next(p, size), p, size, "pinned", "cudaHostAlloc");
}

cudaError_t cudaHostAlloc(void **p, size_t size, unsigned flags)
{
	REAL("libcudart.so", cudaHostAlloc);
	return noted(next(p, size, flags), p, size, "pinned", "cudaHostAlloc");
}

cudaError_t cudaFree(void *p)
{
	REAL("libcudart.so", cudaFree);
	cudaError_t e = next(p);
	if (!e && p)
		gone((uintptr_t)p, "cudaFree");
	return e;
}

cudaError_t cudaFreeHost(void *p)
{
	REAL("libcudart.so", cudaFreeHost);
	cudaError_t e = next(p);
	if (!e && p)
		gone((uintptr_t)p, "cudaFreeHost");
	return e;
}

CUresult cuMemMap(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	REAL("libcuda.so", cuMemMap);
	CUresult r = next(p, size, offset, handle, flags);
	if (!r)
		made(p, size, "mapped", "cuMemMap");
	return r;
}

CUresult cuMemUnmap(CUdeviceptr p, size_t size)
{
	REAL("libcuda.so", cuMemUnmap);
	CUresult r = next(p, size);
	// One call may unmap several mappings that stand side by side.
	for (CUdeviceptr at = p; !r && at < p + size;) {
		size_t step = 0;
		pthread_mutex_lock(&lock);
		for (size_t i = 0; i < n_entries; i++)
			if (entries[i].at == at)
				step = entries[i].size;
		pthread_mutex_unlock(&lock);
		if (!step)
			break;
		gone(at, "cuMemUnmap");
		at += step;
	}
	return r;
}
