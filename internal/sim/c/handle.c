// Handles are numbers, so a destroyed one is known whatever came after it.
#include "sim.h"
#include <string.h>

struct slot {
	uint64_t key; // 0: free
	void *object;
};
static struct slot *slots;
static uint64_t n_slots, cap_slots, n_ever;

static const char *const kinds[] = {"", "stream", "event", "graph", "exec", "memory", "cublas"};

static uint64_t home(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u >> 20 & (cap_slots - 1);
}

static struct slot *look(uint64_t key)
{
	if (!cap_slots)
		return NULL;
	for (uint64_t at = home(key); slots[at].key; at = (at + 1) & (cap_slots - 1))
		if (slots[at].key == key)
			return &slots[at];
	return NULL;
}

static void insert(uint64_t key, void *object)
{
	uint64_t at = home(key);
	while (slots[at].key)
		at = (at + 1) & (cap_slots - 1);
	slots[at] = (struct slot){key, object};
}

void *handle_new(enum handle kind, void *object)
{
	if (2 * (n_slots + 1) > cap_slots) {
		struct slot *old = slots;
		uint64_t n = cap_slots;
		cap_slots = n ? 2 * n : 256;
		slots = own_alloc(NULL, 0, cap_slots * sizeof *slots);
		memset(slots, 0, cap_slots * sizeof *slots);
		for (uint64_t i = 0; i < n; i++)
			if (old[i].key)
				insert(old[i].key, old[i].object);
		own_free(old, n * sizeof *old);
	}
	uint64_t key = (uint64_t)kind << 44 | ++n_ever << 4;
	insert(key, object);
	n_slots++;
	return (void *)key;
}

// named finds a handle's slot. One that was destroyed is a fault, because a real
// runtime reads freed memory then.
static struct slot *named(enum handle kind, const void *handle)
{
	uint64_t key = (uintptr_t)handle;
	if (key >> 44 != kind)
		return NULL;
	struct slot *s = look(key);
	uint64_t number = key >> 4 & (((uint64_t)1 << 40) - 1);
	if (!s && number && number <= n_ever)
		fault("handle", "call=%s here=%u", kinds[kind], stack_here());
	return s;
}

void *handle_get(enum handle kind, const void *handle)
{
	struct slot *s = named(kind, handle);
	return s ? s->object : NULL;
}

void *handle_take(enum handle kind, const void *handle)
{
	struct slot *s = named(kind, handle);
	if (!s)
		return NULL;
	void *object = s->object;
	n_slots--;
	// Those behind it may have been pushed on by it: put them in again.
	s->key = 0;
	for (uint64_t at = (s - slots + 1) & (cap_slots - 1); slots[at].key; at = (at + 1) & (cap_slots - 1)) {
		struct slot again = slots[at];
		slots[at].key = 0;
		insert(again.key, again.object);
	}
	return object;
}
