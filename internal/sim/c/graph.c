// Graphs: what a capture recorded, and what becomes of it.
//
// The memory of a graph is what its calls point at: every device or pinned
// pointer among a kernel's arguments, in a copy or a memset, and among cuBLAS's
// operands. Everything that was live at the capture would name memory that the
// graph never touches.
#include "sim.h"
#include <string.h>

struct graph {
	struct body *body;
};
struct exec {
	struct body *body;
	uint64_t id;
	struct mark *marks; // its launches
	uint32_t n_marks;
};
static uint64_t n_graphs, n_execs;

static void *grown(void *old, uint32_t *cap, size_t size)
{
	uint32_t more = *cap ? 2 * *cap : 32;
	old = own_alloc(old, *cap * size, more * size);
	*cap = more;
	return old;
}

struct body *body_new(stack_id begun)
{
	struct body *b = own_alloc(NULL, 0, sizeof *b);
	*b = (struct body){.owners = 1, .begun = begun};
	return b;
}

void body_drop(struct body *b)
{
	if (--b->owners)
		return;
	own_free(b->nodes, b->cap_nodes * sizeof *b->nodes);
	own_free(b->deps, b->cap_deps * sizeof *b->deps);
	own_free(b->uses, b->cap_uses * sizeof *b->uses);
	own_free(b, sizeof *b);
}

uint32_t body_add(struct body *b, struct node n, const uint32_t *deps, uint32_t n_deps)
{
	if (b->n_nodes == b->cap_nodes)
		b->nodes = grown(b->nodes, &b->cap_nodes, sizeof *b->nodes);
	while (b->n_deps + n_deps > b->cap_deps)
		b->deps = grown(b->deps, &b->cap_deps, sizeof *b->deps);
	n.first_dep = b->n_deps;
	n.n_deps = n_deps;
	for (uint32_t i = 0; i < n_deps; i++)
		b->deps[b->n_deps++] = deps[i];
	b->kernels += n.op == OP_KERNEL;
	b->nodes[b->n_nodes] = n;
	return b->n_nodes++;
}

void body_use(struct body *b, uint32_t node, struct alloc *a)
{
	for (uint32_t i = b->n_uses; i-- > 0;)
		if (b->uses[i].alloc == a->id)
			return;
	if (b->n_uses == b->cap_uses)
		b->uses = grown(b->uses, &b->cap_uses, sizeof *b->uses);
	b->uses[b->n_uses++] = (struct use){a->id, node, stack_here()};
}

cudaGraph_t graph_new(struct body *b)
{
	struct graph *g = own_alloc(NULL, 0, sizeof *g);
	b->owners++;
	b->graph = ++n_graphs;
	*g = (struct graph){b};
	now->graphs++;
	return handle_new(H_GRAPH, g);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct graph *g = handle_take(H_GRAPH, graph);
	if (!g)
		return finish(cudaErrorInvalidValue);
	body_drop(g->body);
	own_free(g, sizeof *g);
	now->graphs--;
	return finish(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct graph *g = handle_get(H_GRAPH, graph);
	if (!g)
		return finish(cudaErrorInvalidValue);
	if (nodes) // a node has no handle here
		return finish(refuse("cudaGraphGetNodes"));
	*n = g->body->n_nodes;
	return finish(cudaSuccess);
}

static cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t graph)
{
	struct graph *g = handle_get(H_GRAPH, graph);
	if (!g)
		return cudaErrorInvalidValue;
	struct exec *x = own_alloc(NULL, 0, sizeof *x);
	g->body->owners++;
	*x = (struct exec){.body = g->body, .id = ++n_execs};
	now->instantiations++;
	if (++now->instances > now->instances_peak)
		now->instances_peak = now->instances;
	trace("instantiate", "exec=%llu graph=%llu nodes=%u allocs=%u stack=%u", (unsigned long long)x->id,
	      (unsigned long long)g->body->graph, g->body->n_nodes, g->body->n_uses, stack_here());
	*out = handle_new(H_EXEC, x);
	return cudaSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	(void)flags;
#else
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *bad, char *log, size_t size)
{
	if (bad)
		*bad = NULL;
	if (log && size)
		*log = 0;
#endif
	cudaError_t e = begin();
	return finish(e ? e : instantiate(exec, graph));
}

// same_shape: an update must not change what nodes there are and in which order
// they run. The memory and the kernels may change.
static bool same_shape(const struct body *a, const struct body *b)
{
	if (a->n_nodes != b->n_nodes || a->n_deps != b->n_deps)
		return false;
	for (uint32_t i = 0; i < a->n_nodes; i++)
		if (a->nodes[i].op != b->nodes[i].op || a->nodes[i].n_deps != b->nodes[i].n_deps)
			return false;
	return !a->n_deps || !memcmp(a->deps, b->deps, a->n_deps * sizeof *a->deps);
}

static cudaError_t update(cudaGraphExec_t exec, cudaGraph_t graph, bool *changed)
{
	struct exec *x = handle_get(H_EXEC, exec);
	struct graph *g = handle_get(H_GRAPH, graph);
	if (!x || !g)
		return cudaErrorInvalidValue;
	*changed = !same_shape(x->body, g->body);
	now->updates++;
	trace("update", "exec=%llu graph=%llu nodes=%u allocs=%u code=%d stack=%u", (unsigned long long)x->id,
	      (unsigned long long)g->body->graph, g->body->n_nodes, g->body->n_uses,
	      *changed ? cudaErrorGraphExecUpdateFailure : 0, stack_here());
	if (*changed)
		return cudaErrorGraphExecUpdateFailure;
	g->body->owners++;
	body_drop(x->body);
	x->body = g->body;
	return cudaSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info)
{
	enum cudaGraphExecUpdateResult unasked;
	enum cudaGraphExecUpdateResult *result = info ? &info->result : &unasked;
#else
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *bad, enum cudaGraphExecUpdateResult *result)
{
	if (bad)
		*bad = NULL;
#endif
	bool changed = false;
	cudaError_t e = begin();
	if (!e) {
		e = update(exec, graph, &changed);
		*result = changed ? cudaGraphExecUpdateErrorTopologyChanged : e ? cudaGraphExecUpdateError : cudaGraphExecUpdateSuccess;
	}
	return finish(e);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	cudaError_t e = begin();
	if (e)
		return finish(e);
	struct exec *x = handle_take(H_EXEC, exec);
	if (!x)
		return finish(cudaErrorInvalidValue);
	trace("exec-destroy", "exec=%llu stack=%u", (unsigned long long)x->id, stack_here());
	// CUDA's manual: "if the executable graph is in-flight, it will not be terminated, but
	// rather freed asynchronously on completion". HIP's has no such sentence.
	const struct mark *busy = config.hip ? late_busy(x->marks, x->n_marks) : NULL;
	if (busy)
		fault("busy", "call=hipGraphExecDestroy exec=%llu use-stack=%u here=%u", (unsigned long long)x->id, busy->stack, stack_here());
	late_forget(&x->marks, &x->n_marks);
	body_drop(x->body);
	own_free(x, sizeof *x);
	now->instances--;
	return finish(cudaSuccess);
}

// stale reports the memory of x that was freed since it was captured.
static bool stale(const struct exec *x)
{
	const struct use *first = NULL;
	uint64_t n = 0;
	size_t bytes = 0;
	for (uint32_t i = 0; i < x->body->n_uses; i++) {
		const struct use *u = &x->body->uses[i];
		struct alloc *a = alloc_number(u->alloc);
		if (a->live)
			continue;
		first = first ? first : u;
		n++;
		bytes += a->size;
	}
	if (!n)
		return false;
	now->stale_replays++;
	struct alloc *a = alloc_number(first->alloc);
	fault("replay", "exec=%llu graph=%llu freed=%llu freed-bytes=%zu alloc=%llu bytes=%zu node=%u alloc-stack=%u free-stack=%u use-stack=%u here=%u",
	      (unsigned long long)x->id, (unsigned long long)x->body->graph, (unsigned long long)n, bytes, (unsigned long long)a->id,
	      a->size, first->node, a->made, a->freed, first->stack, stack_here());
	return true;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	struct stream *s;
	cudaError_t e = begin();
	if (!e)
		e = stream_for(stream, &s);
	if (e)
		return finish(e);
	struct exec *x = handle_get(H_EXEC, exec);
	if (!x)
		return finish(cudaErrorInvalidValue);
	if (s->capture)
		return finish(refuse("cudaGraphLaunch/captured"));
	now->graph_launches++;
	bool bad = stale(x);
	struct body *b = x->body;
	struct mark work = late_work(s);
	late_note(&x->marks, &x->n_marks, work);
	for (uint32_t i = 0; i < b->n_uses; i++)
		late_uses(work, alloc_number(b->uses[i].alloc)->base);
	b->owners++; // a host function may destroy it
	for (uint32_t i = 0; i < b->n_nodes && !e; i++)
		e = perform(&b->nodes[i], !bad);
	body_drop(b);
	return finish(sticky ? sticky : e);
}
