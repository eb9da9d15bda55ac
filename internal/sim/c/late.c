// Work that is still under way. It is done at the time of its call, as ever, but with
// LLPATCH_SIM_LATE it counts as under way until the program has waited for it: for its
// stream, for an event behind it, or for the device. Memory that is freed before is a
// fault (docs/sim.md says what the makers' documents have on that).
//
// Each stream counts its work, and keeps for every stream how much of that one's work
// comes before its own next: what waits for a stream waits for those too.
#include "sim.h"

struct lane {
	struct clock before; // before.reached[own lane] is how much work it was given
	uint64_t done;	     // how much of it has been waited for
	bool blocking, legacy;
};
static struct lane *lanes; // [0] is none
static uint32_t n_lanes;

static void raise(struct clock *c, uint32_t lane, uint64_t to)
{
	if (lane >= c->n) {
		c->reached = own_alloc(c->reached, c->n * sizeof *c->reached, (lane + 1) * sizeof *c->reached);
		while (c->n <= lane)
			c->reached[c->n++] = 0;
	}
	if (to > c->reached[lane])
		c->reached[lane] = to;
}

static void raise_all(struct clock *c, const struct clock *by)
{
	for (uint32_t i = 1; i < by->n; i++)
		raise(c, i, by->reached[i]);
}

static uint32_t lane_of(struct stream *s)
{
	if (s->lane)
		return s->lane;
	uint32_t more = n_lanes ? 1 : 2;
	lanes = own_alloc(lanes, n_lanes * sizeof *lanes, (n_lanes + more) * sizeof *lanes);
	n_lanes += more;
	lanes[0] = (struct lane){0};
	lanes[n_lanes - 1] = (struct lane){.blocking = s->blocking, .legacy = s->legacy};
	return s->lane = n_lanes - 1;
}

// ordered puts what is begun in lane behind what the legacy stream's rule says: it and the
// blocking streams wait for each other.
static void ordered(uint32_t lane)
{
	for (uint32_t i = 1; lanes[lane].blocking && i < n_lanes; i++)
		if (i != lane && lanes[i].blocking && (lanes[lane].legacy || lanes[i].legacy))
			raise_all(&lanes[lane].before, &lanes[i].before);
}

struct mark late_work(struct stream *s)
{
	if (!config.late)
		return (struct mark){0};
	uint32_t lane = lane_of(s);
	ordered(lane);
	struct clock *c = &lanes[lane].before;
	raise(c, lane, 0);
	return (struct mark){lane, ++c->reached[lane], stack_here()};
}

void late_note(struct mark **marks, uint32_t *n, struct mark work)
{
	if (!work.lane)
		return;
	uint32_t i = 0;
	while (i < *n && (*marks)[i].lane != work.lane)
		i++;
	if (i == *n) {
		*marks = own_alloc(*marks, *n * sizeof **marks, (*n + 1) * sizeof **marks);
		++*n;
	}
	(*marks)[i] = work;
}

void late_uses(struct mark work, uint64_t p)
{
	struct alloc *a = work.lane ? find(p) : NULL;
	if (a && a->live)
		late_note(&a->marks, &a->n_marks, work);
}

const struct mark *late_busy(const struct mark *marks, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (marks[i].number > lanes[marks[i].lane].done)
			return &marks[i];
	return NULL;
}

void late_forget(struct mark **marks, uint32_t *n)
{
	own_free(*marks, *n * sizeof **marks);
	*marks = NULL;
	*n = 0;
}

void late_wait_clock(const struct clock *c)
{
	for (uint32_t i = 1; i < c->n; i++)
		if (c->reached[i] > lanes[i].done)
			lanes[i].done = c->reached[i];
}

void late_wait(struct stream *s)
{
	if (!config.late)
		return;
	uint32_t lane = lane_of(s);
	ordered(lane);
	late_wait_clock(&lanes[lane].before);
}

void late_wait_all(void)
{
	for (uint32_t i = 1; i < n_lanes; i++)
		late_wait_clock(&lanes[i].before);
}

void late_record(struct clock *c, struct stream *s)
{
	if (!config.late)
		return;
	uint32_t lane = lane_of(s);
	ordered(lane);
	for (uint32_t i = 0; i < c->n; i++)
		c->reached[i] = 0;
	raise_all(c, &lanes[lane].before);
}

void late_follow(struct stream *s, const struct clock *c)
{
	if (config.late)
		raise_all(&lanes[lane_of(s)].before, c);
}
