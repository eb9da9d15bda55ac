// The counters, in a file that another process may read at any time. A change
// makes the sequence number odd first and even afterwards.
#include "sim.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

struct page {
	char magic[8];
	uint32_t version, pid;
	_Atomic uint64_t sequence;
	struct counters counters;
};

static union {
	struct page page;
	char bytes[4096];
} private_page;
static struct page *page = &private_page.page;
struct counters *now = &private_page.page.counters;

bool state_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB)) {
		say("state file %s: %s", path, errno == EWOULDBLOCK ? "another process uses it" : strerror(errno));
		return false;
	}
	if (ftruncate(fd, 0) || ftruncate(fd, sizeof private_page)) {
		say("state file %s: %s", path, strerror(errno));
		return false;
	}
	struct page *p = mmap(NULL, sizeof private_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		say("state file %s: %s", path, strerror(errno));
		return false;
	}
	// fd stays open: it holds the lock.
	p->counters = page->counters;
	p->version = 1;
	p->pid = getpid();
	page = p;
	now = &p->counters;
	atomic_thread_fence(memory_order_release);
	memcpy(p->magic, "LLPSIM\r\n", 8);
	return true;
}

void state_begin(void)
{
	atomic_fetch_add_explicit(&page->sequence, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

void state_end(void)
{
	atomic_fetch_add_explicit(&page->sequence, 1, memory_order_release);
}
