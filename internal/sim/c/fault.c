// What a real card would crash on, corrupt or never notice.
#include "sim.h"
#include <stdarg.h>
#include <stdlib.h>

#define SPOKEN 10 // faults that go to stderr; the trace has them all

cudaError_t sticky;

void fault(const char *kind, const char *format, ...)
{
	char text[2048];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	now->faults++;
	trace("fault", "n=%llu kind=%s %s", (unsigned long long)now->faults, kind, text);
	if (now->faults <= SPOKEN)
		say("fault %s: %s", kind, text);
	if (config.on_fault == FAULT_ERROR)
		sticky = cudaErrorIllegalAddress;
	if (config.on_fault == FAULT_ABORT) {
		state_end();
		abort();
	}
}

cudaError_t refuse(const char *call)
{
	now->refusals++;
	say("%s is not simulated", call);
	trace("refuse", "call=%s stack=%u", call, stack_here());
	return cudaErrorNotSupported;
}

int sim_refuse(const char *call)
{
	cudaError_t e = begin();
	return finish(e ? e : refuse(call));
}
