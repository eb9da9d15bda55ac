// Package leak runs any program under the memory sampler, drives it with a
// workload where it is a llama server, judges what its memory did, and on request
// runs it again under a tool that knows who allocated what.
package leak
