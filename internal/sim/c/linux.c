// What the simulation asks of Linux.
#include "sim.h"
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
extern const char __ehdr_start[], _end[]; // this library

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void os_lock(void)
{
	pthread_mutex_lock(&lock);
}

void os_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

bool os_last_lock(void)
{
	os_lock();
	return true;
}

int64_t os_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

int os_id(void)
{
	return getpid();
}

const char *const *os_environment(void)
{
	return (const char *const *)environ;
}

int os_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	if (!flock(fd, LOCK_EX | LOCK_NB) && !ftruncate(fd, 0))
		return fd;
	int why = errno;
	close(fd);
	errno = why;
	return -1;
}

void *os_map(int file, size_t size)
{
	if (ftruncate(file, size))
		return NULL;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	return p == MAP_FAILED ? NULL : p;
}

uintptr_t os_arena(size_t *size)
{
	for (*size = (size_t)64 << 40; *size >= (size_t)1 << 40; *size /= 2) {
		void *p = mmap(NULL, *size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p != MAP_FAILED)
			return (uintptr_t)p;
	}
	return 0;
}

bool os_commit(uintptr_t p, size_t n)
{
	return !mprotect((void *)p, n, PROT_READ | PROT_WRITE);
}

void os_release(uintptr_t p, size_t n)
{
	mmap((void *)p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

bool os_clear(uintptr_t p, size_t n)
{
	return !madvise((void *)p, n, MADV_DONTNEED);
}

int os_stack(void **frames, int n)
{
	return backtrace(frames, n);
}

// backtrace loads libgcc the first time; that must not happen under our lock.
__attribute__((constructor)) static void load_unwinder(void)
{
	void *one[1];
	backtrace(one, 1);
}

bool os_own(const void *p)
{
	return (const char *)p >= __ehdr_start && (const char *)p < _end;
}

uintptr_t os_stack_top(void)
{
	pthread_attr_t attr;
	void *base;
	size_t size;
	uintptr_t top = 0;
	if (pthread_getattr_np(pthread_self(), &attr))
		return 0;
	if (!pthread_attr_getstack(&attr, &base, &size))
		top = (uintptr_t)base + size;
	pthread_attr_destroy(&attr);
	return top;
}

// Not from dladdr, which would take the loader's lock under ours.
void os_modules(void (*seen)(const char *path, uintptr_t from, uintptr_t to, uintptr_t base))
{
	FILE *f = fopen("/proc/self/maps", "re");
	if (!f)
		return;
	char line[4352], path[4096];
	while (fgets(line, sizeof line, f)) {
		uintptr_t from, to, offset;
		path[0] = 0;
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095[^\n]", &from, &to, &offset, path) >= 3 && path[0] == '/')
			seen(path, from, to, from - offset);
	}
	fclose(f);
}
