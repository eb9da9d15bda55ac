// ballast FREE_MIB PROGRAM ARGUMENTS...: runs a program on a card of which all but so many MiB are
// taken, and ends as it does. 0 takes nothing. nvcc -o ballast ballast.cu
#include <cuda_runtime_api.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <spawn.h>
#include <sys/wait.h>
extern char **environ;
int main(int argc, char **argv) {
	const size_t mib = 1 << 20, keep = argc > 2 ? strtoull(argv[1], nullptr, 10) * mib : 0;
	if (argc < 3) return fprintf(stderr, "ballast FREE_MIB PROGRAM ARGUMENTS...\n"), 2;
	size_t left = 0, total;
	if (keep) {
		if (cudaMemGetInfo(&left, &total) != cudaSuccess) return fprintf(stderr, "ballast: no card\n"), 7;
		for (size_t step = 1024 * mib; step >= 2 * mib;) {
			void *p;
			if (left >= keep + step && cudaMalloc(&p, step) == cudaSuccess) {
				if (cudaMemGetInfo(&left, &total) != cudaSuccess) return 7;
				continue;
			}
			(void)cudaGetLastError();
			step /= 2;
		}
	}
	fprintf(stderr, "ballast: %zu MiB are free\n", left / mib);
	pid_t child;
	if (posix_spawnp(&child, argv[2], nullptr, nullptr, argv + 2, environ)) return perror(argv[2]), 127;
	int status;
	if (waitpid(child, &status, 0) < 0) return perror("ballast"), 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
