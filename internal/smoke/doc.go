// Package smoke runs the programs of a build on a seeded model and judges their
// answers and their memory. A check passes, fails, or could not run; the last
// is never taken for the first.
//
// # How to read it
//
// Run takes Options and returns a Report. A recipe names its checks; the map checks in
// smoke.go leads from a name to a function that reads the arguments (args) and returns
// a step, and session.run calls the step and turns its outcome or its error into
// a Result: a fault is Failed, an absent Skipped, any other error Errored. A check gets
// its llama-server from session.need, which returns the server that runs with the same
// config or starts one. Prove runs one check on an unpatched and on a patched build and
// returns a Proof. Read in this order:
//
//   - A run: smoke.go (Options, Run, the map checks), args.go (arguments of a check),
//     session.go (what the checks of a run share), place.go (host, simulated device, GPU
//     or Wine, and whether that is here), wine.go (Windows programs).
//   - A server: server.go (start, stop, config), ports.go (a free port, and nobody
//     else's answers), client.go (requests, and fault), patience.go (how long an answer
//     may take on a busy machine).
//   - Memory: growth.go (measured drives a workload, judges and returns a Growth).
//   - Checks, each a function ending in Check. Programs: checks_version.go (and output,
//     which runs any program), checks_exit.go, checks_tools.go (bench, cli, quantize),
//     checks_upstream.go (upstream's own test programs). A server: checks_http.go
//     (health, tokenize, page, variants), checks_completion.go, checks_stop.go,
//     checks_restart.go. Tokens: checks_tokens.go (beside stock), checks_speculative.go.
//     Under load: checks_load.go, checks_hostile.go (bad clients).
//   - A root with nothing but the bundle: checks_emptyroot.go, emptyroot_enter.go.
//   - The simulated device: checks_device.go (device, deviceWork, VRAM and graph
//     replay), checks_graphcache.go, checks_managed.go, device_trace.go (reads its log).
//   - Proofs of fixes: proofs.go (which checks a proof takes), prove.go (Prove, Proof).
//   - Results: report.go (Report, Result, the errors FailedChecks and NotRun),
//     report_doc.go (the report as a page, Markdown and JUnit).
package smoke
