// The trace: a line an event, written at once, so that a process that aborts
// has said everything. doc.go describes the lines.
#include "sim.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

bool tracing;
static int file = -1;
static int64_t start;

bool trace_open(const char *path)
{
	file = os_open(path);
	if (file < 0) {
		say("trace %s: %s", path, errno == EWOULDBLOCK ? "another process writes it" : strerror(errno));
		return false;
	}
	start = os_time();
	tracing = true;
	trace("sim", "version=1 pid=%d cc=%d.%d sms=%d vram=%zu vmm=%d cuda=%d.%d managed=%d managed-more=%zu delay-frees=%llu fail-alloc=%llu store=%d reuse=%d late=%d",
	      os_id(), config.cc / 10, config.cc % 10, config.sms, config.vram, config.vmm, config.runtime / 1000,
	      config.runtime % 1000 / 10, config.managed, config.managed_more, (unsigned long long)config.delay_frees,
	      (unsigned long long)config.fail_alloc, config.store, config.reuse, config.late);
	return true;
}

static void put(int to, const char *line, size_t n)
{
	while (n > 0) {
		int done = write(to, line, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0) {
			if (to != STDERR_FILENO) {
				int why = errno;
				tracing = false;
				say("trace: %s: it ends here", strerror(why));
			}
			return;
		}
		line += done;
		n -= done;
	}
}

void trace(const char *event, const char *format, ...)
{
	if (!tracing)
		return;
	char line[4096];
	int64_t us = os_time() - start;
	int n = snprintf(line, sizeof line, "%s t=%lld.%06lld ", event, (long long)(us / 1000000), (long long)(us % 1000000));
	va_list args;
	va_start(args, format);
	n += vsnprintf(line + n, sizeof line - n - 1, format, args);
	va_end(args);
	if (n > (int)sizeof line - 2)
		n = sizeof line - 2;
	line[n++] = '\n';
	put(file, line, n);
}

void trace_close(void)
{
	if (!tracing)
		return;
	trace("end", "used=%llu peak=%llu allocs=%llu frees=%llu failed=%llu launches=%llu graph-launches=%llu instances-peak=%llu faults=%llu refusals=%llu",
	      (unsigned long long)now->vram_used, (unsigned long long)now->vram_peak, (unsigned long long)now->allocs,
	      (unsigned long long)now->frees, (unsigned long long)now->failed, (unsigned long long)now->launches,
	      (unsigned long long)now->graph_launches, (unsigned long long)now->instances_peak,
	      (unsigned long long)now->faults, (unsigned long long)now->refusals);
	tracing = false;
	close(file);
}

void say(const char *format, ...)
{
	char line[1024] = "llpatch-sim: ";
	int n = strlen(line);
	va_list args;
	va_start(args, format);
	n += vsnprintf(line + n, sizeof line - n - 1, format, args);
	va_end(args);
	if (n > (int)sizeof line - 2)
		n = sizeof line - 2;
	line[n++] = '\n';
	put(STDERR_FILENO, line, n);
}
