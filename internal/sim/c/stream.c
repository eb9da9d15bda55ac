// Streams and stream capture. Work is done at the time of the call; what is
// followed is who captures what, and in late.c who has waited for what. The
// rules are those of the CUDA Runtime API manual (Stream Management) and of the
// Programming Guide ("Prohibited and Unhandled Operations").
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static struct stream legacy = {.legacy = true, .blocking = true};
static _Thread_local struct stream per_thread = {.per_thread = true, .blocking = true};
static _Thread_local uint64_t thread_number;
static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
static uint64_t n_threads;

static struct capture **captures; // the active ones
static uint32_t n_captures;
static uint64_t n_ever;

static uint64_t this_thread(void)
{
	if (!thread_number)
		thread_number = ++n_threads;
	return thread_number;
}

cudaError_t break_capture(struct capture *c, cudaError_t why)
{
	if (!c->broken) {
		c->broken = why;
		trace("break", "capture=%llu code=%d stack=%u", (unsigned long long)c->id, why, stack_here());
	}
	return why;
}

static struct stream *lookup(cudaStream_t handle)
{
	if (handle == 0 || handle == cudaStreamLegacy)
		return &legacy;
	if (handle == cudaStreamPerThread)
		return &per_thread;
	return handle_get(H_STREAM, handle);
}

// The legacy stream waits for every blocking stream, which a capture must not allow.
static cudaError_t legacy_allowed(void)
{
	cudaError_t e = cudaSuccess;
	for (uint32_t i = 0; i < n_captures; i++)
		for (uint32_t k = 0; k < captures[i]->n_members; k++)
			if (captures[i]->members[k]->blocking)
				e = break_capture(captures[i], cudaErrorStreamCaptureImplicit);
	return e;
}

cudaError_t stream_for(cudaStream_t handle, struct stream **out)
{
	struct stream *s = lookup(handle);
	if (!s)
		return cudaErrorInvalidResourceHandle;
	*out = s;
	if (s->legacy)
		return legacy_allowed();
	return s->capture && s->capture->broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t unsafe_call(void)
{
	cudaError_t e = cudaSuccess;
	for (uint32_t i = 0; i < n_captures && thread_mode != cudaStreamCaptureModeRelaxed; i++) {
		struct capture *c = captures[i];
		bool own = c->thread == this_thread();
		if (own ? c->mode != cudaStreamCaptureModeRelaxed
			: thread_mode == cudaStreamCaptureModeGlobal && c->mode == cudaStreamCaptureModeGlobal)
			e = break_capture(c, cudaErrorStreamCaptureUnsupported);
	}
	return e;
}

cudaError_t break_all(cudaError_t why)
{
	cudaError_t e = cudaSuccess;
	for (uint32_t i = 0; i < n_captures; i++)
		e = break_capture(captures[i], why);
	return e;
}

// Waiting for the device would wait for what is only being captured.
cudaError_t device_wide_sync(void)
{
	cudaError_t e = break_all(cudaErrorStreamCaptureUnsupported);
	if (!e)
		late_wait_all();
	return e;
}

void set_front(uint32_t **front, uint32_t *n, const uint32_t *from, uint32_t n_from)
{
	uint32_t *copy = n_from ? memcpy(own_alloc(NULL, 0, n_from * sizeof *copy), from, n_from * sizeof *copy) : NULL;
	own_free(*front, *n * sizeof **front);
	*front = copy;
	*n = n_from;
}

cudaError_t capture_node(struct stream *s, struct node n, const uint64_t *pointers, uint32_t n_pointers)
{
	struct body *b = s->capture->body;
	uint32_t at = body_add(b, n, s->front, s->n_front);
	set_front(&s->front, &s->n_front, &at, 1);
	for (uint32_t i = 0; i < n_pointers; i++) {
		struct alloc *a = find(pointers[i]);
		if (!a)
			continue;
		if (!a->live)
			fault("capture", "capture=%llu node=%u alloc=%llu bytes=%zu alloc-stack=%u free-stack=%u here=%u",
			      (unsigned long long)s->capture->id, at, (unsigned long long)a->id, a->size, a->made, a->freed, stack_here());
		body_use(b, at, a);
	}
	return cudaSuccess;
}

void join(struct capture *c, struct stream *s)
{
	c->members = own_alloc(c->members, c->n_members * sizeof *c->members, (c->n_members + 1) * sizeof *c->members);
	c->members[c->n_members++] = s;
	s->capture = c;
}

// leave takes s out of its capture, which goes on without it.
static void leave(struct stream *s)
{
	struct capture *c = s->capture;
	for (uint32_t i = 0; c && i < c->n_members; i++)
		if (c->members[i] == s) {
			c->members[i] = c->members[c->n_members - 1];
			c->members = own_alloc(c->members, c->n_members * sizeof *c->members, (c->n_members - 1) * sizeof *c->members + 1);
			now->own_bytes--;
			c->n_members--;
			break;
		}
	s->capture = NULL;
	set_front(&s->front, &s->n_front, NULL, 0);
}

static void end(struct capture *c)
{
	for (uint32_t i = 0; i < c->n_members; i++) {
		c->members[i]->capture = NULL;
		set_front(&c->members[i]->front, &c->members[i]->n_front, NULL, 0);
	}
	own_free(c->members, c->n_members * sizeof *c->members);
	for (uint32_t i = 0; i < n_captures; i++)
		if (captures[i] == c)
			captures[i] = captures[--n_captures];
	body_drop(c->body);
	own_free(c, sizeof *c);
}

struct capture *active(uint64_t id)
{
	for (uint32_t i = 0; id && i < n_captures; i++)
		if (captures[i]->id == id)
			return captures[i];
	return NULL;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	struct stream *s;
	cudaError_t e = begin();
	if (e || (e = stream_for(stream, &s)))
		return finish(e);
	if (s->legacy)
		return finish(cudaErrorStreamCaptureUnsupported);
	if (s->capture)
		return finish(cudaErrorIllegalState);
	if (mode > cudaStreamCaptureModeRelaxed)
		return finish(cudaErrorInvalidValue);
	if (s->per_thread) // it would have to outlive its thread
		return finish(refuse("cudaStreamBeginCapture/per-thread"));
	struct capture *c = own_alloc(NULL, 0, sizeof *c);
	*c = (struct capture){.id = ++n_ever, .origin = s, .mode = mode, .thread = this_thread(), .body = body_new(stack_here())};
	join(c, s);
	captures = own_alloc(captures, n_captures * sizeof *captures, (n_captures + 1) * sizeof *captures);
	captures[n_captures++] = c;
	now->captures++;
	trace("capture", "capture=%llu mode=%d stack=%u", (unsigned long long)c->id, mode, c->body->begun);
	return finish(cudaSuccess);
}

// joined tells whether everything captured comes before the origin's last node.
static bool joined(const struct capture *c)
{
	struct body *b = c->body;
	if (!b->n_nodes)
		return true;
	bool *before = own_alloc(NULL, 0, b->n_nodes);
	memset(before, 0, b->n_nodes);
	for (uint32_t i = 0; i < c->origin->n_front; i++)
		before[c->origin->front[i]] = true;
	bool all = true;
	for (uint32_t n = b->n_nodes; n-- > 0;) {
		all = all && before[n];
		for (uint32_t i = 0; before[n] && i < b->nodes[n].n_deps; i++)
			before[b->deps[b->nodes[n].first_dep + i]] = true;
	}
	own_free(before, b->n_nodes);
	return all;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct stream *s = lookup(stream);
	*graph = NULL;
	if (!s)
		return finish(cudaErrorInvalidResourceHandle);
	struct capture *c = s->capture;
	if (!c)
		return finish(cudaErrorIllegalState);
	if (c->origin != s)
		return finish(break_capture(c, cudaErrorStreamCaptureUnmatched));
	if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != this_thread())
		e = cudaErrorStreamCaptureWrongThread; // and the capture is over, as on a card
	else if (c->broken)
		e = cudaErrorStreamCaptureInvalidated;
	else if (!joined(c))
		e = cudaErrorStreamCaptureUnjoined;
	trace("captured", "capture=%llu nodes=%u kernels=%u allocs=%u code=%d stack=%u", (unsigned long long)c->id, c->body->n_nodes,
	      c->body->kernels, c->body->n_uses, e, stack_here());
	if (!e)
		*graph = graph_new(c->body);
	end(c);
	return finish(e);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct stream *s = lookup(stream);
	if (!s)
		return finish(cudaErrorInvalidResourceHandle);
	if (s->legacy && n_captures) {
		for (uint32_t i = 0; i < n_captures; i++)
			for (uint32_t k = 0; k < captures[i]->n_members; k++)
				if (captures[i]->members[k]->blocking)
					return finish(cudaErrorStreamCaptureImplicit);
	}
	*status = !s->capture		? cudaStreamCaptureStatusNone
		  : s->capture->broken ? cudaStreamCaptureStatusInvalidated
				       : cudaStreamCaptureStatusActive;
	return finish(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	cudaError_t e = begin();
	if (!e && *mode > cudaStreamCaptureModeRelaxed)
		e = cudaErrorInvalidValue;
	if (!e) {
		enum cudaStreamCaptureMode old = thread_mode;
		thread_mode = *mode;
		*mode = old;
	}
	return finish(e);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
	(void)priority;
	cudaError_t e = begin();
	if (!e && flags & ~(unsigned)cudaStreamNonBlocking)
		e = cudaErrorInvalidValue;
	if (!e) {
		struct stream *s = own_alloc(NULL, 0, sizeof *s);
		*s = (struct stream){.blocking = !(flags & cudaStreamNonBlocking)};
		*stream = handle_new(H_STREAM, s);
	}
	return finish(e);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithPriority(stream, 0, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct stream *s = handle_take(H_STREAM, stream);
	if (!s)
		return finish(cudaErrorInvalidResourceHandle);
	if (s->capture && s->capture->origin == s)
		end(s->capture);
	else if (s->capture) {
		break_capture(s->capture, cudaErrorStreamCaptureInvalidated);
		leave(s);
	}
	own_free(s, sizeof *s);
	return finish(cudaSuccess);
}

static cudaError_t wait_for(cudaStream_t stream)
{
	struct stream *s;
	cudaError_t e = begin();
	if (!e)
		e = stream_for(stream, &s);
	if (!e && s->capture)
		e = break_capture(s->capture, cudaErrorStreamCaptureUnsupported);
	if (!e)
		late_wait(s);
	return finish(e);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return wait_for(stream);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return wait_for(stream);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *data)
{
	struct stream *s;
	cudaError_t e = begin();
	if (!e)
		e = stream_for(stream, &s);
	if (e)
		return finish(e);
	struct node n = {.op = OP_HOST, .host = {fn, data}};
	return finish(s->capture ? capture_node(s, n, NULL, 0) : perform(&n, true));
}
