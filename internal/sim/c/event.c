// Events: a mark in a stream, which draws another stream into a capture.
#include "sim.h"
#include <string.h>

struct event {
	bool timed, recorded;
	int64_t at; // microseconds
	uint64_t capture; // the capture that it was last recorded in; 0: none
	uint32_t *front;
	uint32_t n_front;
	struct clock clock; // of what it was last recorded behind
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	cudaError_t e = begin();
	if (!e && flags & ~(unsigned)(cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess))
		e = cudaErrorInvalidValue;
	if (!e) {
		struct event *v = own_alloc(NULL, 0, sizeof *v);
		*v = (struct event){.timed = !(flags & cudaEventDisableTiming)};
		*event = handle_new(H_EVENT, v);
	}
	return finish(e);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct event *v = handle_take(H_EVENT, event);
	if (!v)
		return finish(cudaErrorInvalidResourceHandle);
	set_front(&v->front, &v->n_front, NULL, 0);
	own_free(v->clock.reached, v->clock.n * sizeof *v->clock.reached);
	own_free(v, sizeof *v);
	return finish(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	struct stream *s;
	cudaError_t e = begin();
	if (!e)
		e = stream_for(stream, &s);
	if (e)
		return finish(e);
	struct event *v = handle_get(H_EVENT, event);
	if (!v)
		return finish(cudaErrorInvalidResourceHandle);
	v->recorded = true;
	v->at = os_time();
	v->capture = s->capture ? s->capture->id : 0;
	set_front(&v->front, &v->n_front, s->front, s->n_front);
	if (!s->capture)
		late_record(&v->clock, s);
	return finish(cudaSuccess);
}

// captured_event tells of an event whose work has not run, because it was only captured.
static cudaError_t captured_event(const struct event *v)
{
	struct capture *c = active(v->capture);
	if (c)
		break_capture(c, cudaErrorCapturedEvent);
	return v->capture ? cudaErrorCapturedEvent : cudaSuccess;
}

static cudaError_t wait_for_event(cudaEvent_t event)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct event *v = handle_get(H_EVENT, event);
	e = v ? captured_event(v) : cudaErrorInvalidResourceHandle;
	if (!e)
		late_wait_clock(&v->clock);
	return finish(e);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	return wait_for_event(event);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return wait_for_event(event);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct event *a = handle_get(H_EVENT, from), *b = handle_get(H_EVENT, to);
	if (!a || !b || !a->timed || !b->timed || !a->recorded || !b->recorded)
		return finish(cudaErrorInvalidResourceHandle);
	if ((e = captured_event(a)) || (e = captured_event(b)))
		return finish(e);
	*ms = (float)((b->at - a->at) / 1e3);
	return finish(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	(void)flags;
	struct stream *s;
	cudaError_t e = begin();
	if (!e)
		e = stream_for(stream, &s);
	if (e)
		return finish(e);
	struct event *v = handle_get(H_EVENT, event);
	if (!v)
		return finish(cudaErrorInvalidResourceHandle);
	if (!v->capture) { // a capture must not depend on what runs outside it
		if (!s->capture)
			late_follow(s, &v->clock);
		return finish(s->capture && v->recorded ? break_capture(s->capture, cudaErrorStreamCaptureIsolation) : cudaSuccess);
	}
	struct capture *c = active(v->capture);
	if (!c)
		return finish(cudaErrorCapturedEvent);
	if (c->broken)
		return finish(cudaErrorStreamCaptureInvalidated);
	if (s->legacy)
		return finish(break_capture(c, cudaErrorStreamCaptureImplicit));
	if (s->capture && s->capture != c) {
		break_capture(c, cudaErrorStreamCaptureMerge);
		return finish(break_capture(s->capture, cudaErrorStreamCaptureMerge));
	}
	if (s->per_thread)
		return finish(break_capture(c, refuse("cudaStreamWaitEvent/per-thread")));
	if (!s->capture)
		join(c, s);
	// The stream's next node follows its own last ones and the event's.
	uint32_t n = s->n_front + v->n_front;
	uint32_t *both = own_alloc(NULL, 0, n * sizeof *both + 1);
	memcpy(both, s->front, s->n_front * sizeof *both);
	memcpy(both + s->n_front, v->front, v->n_front * sizeof *both);
	uint32_t kept = s->n_front;
	for (uint32_t i = s->n_front; i < n; i++) {
		bool there = false;
		for (uint32_t k = 0; k < s->n_front; k++)
			there = there || both[k] == both[i];
		if (!there)
			both[kept++] = both[i];
	}
	set_front(&s->front, &s->n_front, both, kept);
	own_free(both, n * sizeof *both + 1);
	return finish(cudaSuccess);
}
