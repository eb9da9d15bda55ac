// Package build turns a patched source tree into binaries: NewPlan is pure and
// says every command, Run runs them through CMake and Ninja, reads back what
// CMake made of them, and says what failed and why.
//
// # How to read it
//
// Probe looks at a machine and returns Facts: tools with versions, cores, memory.
// ProbeInside does so in a build root, ProbeOn on another machine over ssh. NewPlan
// takes an Input (tag, tree, recipe, toolchain, Facts) and returns a Plan: two Steps,
// the Options with their reasons, a digest. Run takes the Plan and returns Artifacts, or
// Failed. A Plan can also write itself as a script (Script, PowerShell), and Run
// sends that script where the Plan names another machine. Read in this order:
//
//   - The values: facts.go (Facts, MissingTools), plan.go (Input, Plan, NewPlan),
//     artifacts.go (Artifacts), failed.go (Failed) and fault.go (Fault, a recipe's or
//     toolchain's mistake; BadFolder, NoPage).
//   - CMake's options: options.go (of toolchain, recipe and llpatch itself, with the
//     reason for each), cuda.go, hip.go, spell.go (names that upstream changed).
//   - Jobs: peaks.go (what earlier jobs took, and so how many run at once) and
//     freememory.go.
//   - Looking around: probe.go (tools), probe_cuda.go, probe_clang.go (clang for CUDA),
//     probe_hip.go, trial.go (compiles a small file), toolkit.go (BadToolkit, what each
//     toolkit can do), inside.go (build roots: ProbeInside, where a plan's folders lie).
//   - Running here: exec.go (Run, builder), state.go (what the build folder was
//     configured for), cmakecache.go (whether CMake took the options; LibraryDirs),
//     ninja.go (progress), cause.go (the first error in the output).
//   - Parts of a build: objects.go (Objects, Flags: some files only), reads.go (Reads:
//     which sources the binaries come from), join.go (Join: nvcc's device code and
//     clang's host code become one object).
//   - Scripts: script.go and quote.go (sh), powershell.go and psquote.go,
//     windowsnames.go (names that Windows refuses).
//   - Another machine: remote.go (Remote, remoteSystem and RemoteError), remote_posix.go and
//     remote_box.go (the commands for each system; a box runs Windows), remote_call.go (ssh
//     and sftp), remote_probe.go (ProbeOn), remote_copy.go (what differs, packing),
//     remote_run.go (Run's way there), remote_fetch.go (what comes back).
package build
