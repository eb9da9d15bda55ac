// Package evidence runs several builds of llama.cpp side by side on one machine,
// as a plan says, and records what came out: every run, its raw samples and the
// hashes of what ran. It judges against the plan's aims and leaves no run out.
package evidence
