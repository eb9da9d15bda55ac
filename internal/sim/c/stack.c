// Call stacks, each kept and written once.
#include "sim.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 24

struct stack {
	uint64_t hash;
	uint32_t n;
	uintptr_t frames[DEPTH];
};
static struct stack *stacks; // [0] is none
static uint32_t n_stacks, cap_stacks;
static uint32_t *table; // by hash; 0: free
static uint32_t cap_table;

struct module {
	uintptr_t from, to, base; // base: what its offsets count from
	char *path;
};
static struct module *modules;
static uint32_t n_modules, cap_modules;

// own_alloc's callers cannot go on without memory, and a half kept account would lie.
void *own_alloc(void *old, size_t before, size_t size)
{
	void *p = realloc(old, size);
	if (!p) {
		say("the host has no memory for the simulation's own records");
		abort();
	}
	now->own_bytes += size - before;
	return p;
}

void own_free(void *p, size_t size)
{
	if (p)
		now->own_bytes -= size;
	free(p);
}

// spell copies a path as one word: a trace's fields end at a blank.
static void spell(char *out, size_t size, const char *path)
{
	for (; *path && size > 4; path++) {
		unsigned char c = *path;
		int n = c > ' ' && c < 127 && c != '%' ? snprintf(out, size, "%c", c) : snprintf(out, size, "%%%02X", c);
		out += n;
		size -= n;
	}
	*out = 0;
}

static void note_module(const char *path, uintptr_t from, uintptr_t to, uintptr_t base)
{
	for (uint32_t i = 0; i < n_modules; i++) {
		struct module *m = &modules[i];
		if (strcmp(m->path, path))
			continue;
		m->from = from < m->from ? from : m->from;
		m->to = to > m->to ? to : m->to;
		return;
	}
	if (n_modules == cap_modules) {
		modules = own_alloc(modules, cap_modules * sizeof *modules, (cap_modules + 64) * sizeof *modules);
		cap_modules += 64;
	}
	size_t n = strlen(path) + 1;
	modules[n_modules++] = (struct module){from, to, base, memcpy(own_alloc(NULL, 0, n), path, n)};
	char word[3 * 1024];
	spell(word, sizeof word, path);
	trace("module", "n=%u path=%s", n_modules, word);
}

static int module_of(uintptr_t p)
{
	for (uint32_t i = 0; i < n_modules; i++)
		if (p >= modules[i].from && p < modules[i].to)
			return i;
	return -1;
}

static void write_stack(uint32_t id)
{
	if (!tracing)
		return;
	char text[DEPTH * 32];
	int n = 0;
	for (uint32_t i = 0; i < stacks[id].n; i++) {
		// A return address may be the first byte of the next function; the call is before it.
		uintptr_t p = stacks[id].frames[i] - 1;
		int m = module_of(p);
		if (m < 0) {
			os_modules(note_module);
			m = module_of(p);
		}
		n += snprintf(text + n, sizeof text - n, "%s%d+%" PRIxPTR, i ? "," : "", m + 1, m < 0 ? p : p - modules[m].base);
	}
	trace("stack", "n=%u frames=%s", id, text);
}

static void grow_table(void)
{
	uint32_t cap = cap_table ? 2 * cap_table : 1024;
	uint32_t *bigger = own_alloc(NULL, 0, cap * sizeof *bigger);
	memset(bigger, 0, cap * sizeof *bigger);
	for (uint32_t id = 1; id < n_stacks; id++) {
		uint32_t at = stacks[id].hash & (cap - 1);
		while (bigger[at])
			at = (at + 1) & (cap - 1);
		bigger[at] = id;
	}
	own_free(table, cap_table * sizeof *table);
	table = bigger;
	cap_table = cap;
}

stack_id stack_here(void)
{
	if (!tracing)
		return 0;
	void *raw[DEPTH + 8];
	int n = os_stack(raw, LEN(raw)), skip = 0;
	while (skip < n && os_own(raw[skip]))
		skip++;
	struct stack s = {.hash = 1469598103934665603u};
	for (int i = skip; i < n && s.n < DEPTH; i++) {
		s.frames[s.n++] = (uintptr_t)raw[i];
		s.hash = (s.hash ^ (uintptr_t)raw[i]) * 1099511628211u;
	}
	s.hash ^= s.hash >> 29;
	if (2 * (n_stacks + 1) > cap_table)
		grow_table();
	uint32_t at = s.hash & (cap_table - 1);
	for (; table[at]; at = (at + 1) & (cap_table - 1)) {
		struct stack *t = &stacks[table[at]];
		if (t->hash == s.hash && t->n == s.n && !memcmp(t->frames, s.frames, s.n * sizeof *s.frames))
			return table[at];
	}
	if (n_stacks >= cap_stacks) {
		stacks = own_alloc(stacks, cap_stacks * sizeof *stacks, (cap_stacks + 256) * sizeof *stacks);
		cap_stacks += 256;
		if (!n_stacks)
			n_stacks = 1;
	}
	uint32_t id = n_stacks++;
	stacks[id] = s;
	table[at] = id;
	write_stack(id);
	return id;
}
