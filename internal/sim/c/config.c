// The LLPATCH_SIM_* environment. A value that cannot be read, or a name that is
// not known, leaves the process with no device: a trial under the wrong
// conditions would look like a result.
#include "sim.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "LLPATCH_SIM_"

struct config config = {
	.vram = 12288 * MIB, .cc = 86, .sms = 28, .runtime = 11040, .driver = 11040, .occupancy = 2, .gfx = "gfx1201",
};

static bool whole(const char *name, const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9' || v < low || v > high) {
		say("%s=%s is not a whole number from %llu to %llu", name, text, (unsigned long long)low, (unsigned long long)high);
		return false;
	}
	*out = v;
	return true;
}

static bool flag(const char *name, const char *text, bool *out)
{
	uint64_t v;
	if (!whole(name, text, 0, 1, &v))
		return false;
	*out = v;
	return true;
}

// version reads "8.6" as 86 with a scale of 10, "11.4" as 11040 with one of 1000.
static bool version(const char *name, const char *text, int scale, int *out)
{
	int major, minor, used = 0;
	if (sscanf(text, "%d.%d%n", &major, &minor, &used) != 2 || text[used] || major < 1 || minor < 0 || minor > 9 || major > 99) {
		say("%s=%s is not a version such as 8.6", name, text);
		return false;
	}
	*out = scale == 10 ? major * 10 + minor : major * 1000 + minor * 10;
	return true;
}

static bool choice(const char *name, const char *text, const char *const *choices, int *out)
{
	for (int i = 0; choices[i]; i++)
		if (!strcmp(choices[i], text)) {
			*out = i;
			return true;
		}
	say("%s=%s is none of the values that it can have", name, text);
	return false;
}

static bool one(const char *name, const char *text)
{
	static const char *const managed[] = {"full", "limited", "none", NULL};
	static const char *const on_fault[] = {"report", "error", "abort", NULL};
	const char *key = name + strlen(PREFIX);
	uint64_t v = 0;
	int n = 0;
	bool ok;
	if (!strcmp(key, "VRAM"))
		ok = whole(name, text, 1, 1 << 24, &v), config.vram = v * MIB;
	else if (!strcmp(key, "MANAGED_MORE"))
		ok = whole(name, text, 0, 1 << 24, &v), config.managed_more = v * MIB;
	else if (!strcmp(key, "SMS"))
		ok = whole(name, text, 1, 1024, &v), config.sms = v;
	else if (!strcmp(key, "OCCUPANCY"))
		ok = whole(name, text, 1, 32, &v), config.occupancy = v;
	else if (!strcmp(key, "DELAY_FREES"))
		ok = whole(name, text, 0, UINT32_MAX, &config.delay_frees);
	else if (!strcmp(key, "FAIL_ALLOC"))
		ok = whole(name, text, 0, UINT32_MAX, &config.fail_alloc);
	else if (!strcmp(key, "COUNT"))
		ok = whole(name, text, 0, 1 << 20, &config.count);
	else if (!strcmp(key, "CC"))
		ok = version(name, text, 10, &config.cc);
	else if (!strcmp(key, "GFX")) {
		ok = !strncmp(text, "gfx", 3) && strlen(text) >= 6 && strlen(text) <= 8 && strspn(text + 3, "0123456789abcdef") == strlen(text + 3);
		if (!ok)
			say("%s=%s is not a card such as gfx1201", name, text);
		config.gfx = text;
	} else if (!strcmp(key, "CUDA"))
		ok = version(name, text, 1000, &config.runtime), config.driver = config.runtime;
	else if (!strcmp(key, "VMM"))
		ok = flag(name, text, &config.vmm);
	else if (!strcmp(key, "STORE"))
		ok = flag(name, text, &config.store);
	else if (!strcmp(key, "REUSE"))
		ok = flag(name, text, &config.reuse);
	else if (!strcmp(key, "LATE"))
		ok = flag(name, text, &config.late);
	else if (!strcmp(key, "MANAGED"))
		ok = choice(name, text, managed, &n), config.managed = n;
	else if (!strcmp(key, "ON_FAULT"))
		ok = choice(name, text, on_fault, &n), config.on_fault = n;
	else if (!strcmp(key, "TRACE"))
		ok = true, config.trace = text;
	else if (!strcmp(key, "STATE"))
		ok = true, config.state = text;
	else {
		say("%s is not a setting of the simulated device", name);
		ok = false;
	}
	return ok;
}

bool config_read(void)
{
	for (const char *const *e = os_environment(); e && *e; e++) {
		const char *equals = strchr(*e, '=');
		if (!equals || strncmp(*e, PREFIX, strlen(PREFIX)) || !equals[1])
			continue;
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)(equals - *e), *e);
		if (!one(name, equals + 1))
			return false;
	}
	return true;
}
