// The counters, in a file that another process may read at any time. A change
// makes the sequence number odd first and even afterwards.
#include "sim.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

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
	int file = os_open(path);
	struct page *p = file < 0 ? NULL : os_map(file, sizeof private_page);
	if (!p) {
		say("state file %s: %s", path, errno == EWOULDBLOCK ? "another process uses it" : strerror(errno));
		return false;
	}
	// The file stays open, so that it is this process's alone.
	p->counters = page->counters;
	p->version = 1;
	p->pid = os_id();
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
