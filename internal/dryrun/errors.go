package dryrun

import (
	"fmt"

	"github.com/llpatch/llpatch/internal/exit"
)

// Missing is what a build lacks on this machine.
type Missing struct{ What, Fix string }

// Error says what is missing.
func (e *Missing) Error() string {
	return "the dry run's program is built here the first time, and there is no " + e.What
}

// ExitCode is exit.NotRun.
func (e *Missing) ExitCode() int { return exit.NotRun }

// Hint says where it comes from.
func (e *Missing) Hint() string { return e.Fix + "; " + withoutTag }

const withoutTag = "without --tag a formula answers for some architectures"

// Old is a tag whose llama.cpp has no dry run.
type Old struct{ Tag string }

// Error says from which tag on there is one.
func (e *Old) Error() string {
	return fmt.Sprintf("%s cannot lay a model out without its weights: llama.cpp has no_alloc from b7416 on", e.Tag)
}

// ExitCode is exit.NotRun.
func (e *Old) ExitCode() int { return exit.NotRun }

// Hint names another way.
func (e *Old) Hint() string { return "a newer --tag says what that one takes; " + withoutTag }

// Uncut is a tag from whose ggml-cuda it could not be read what the card takes. There is no
// answer then: one with another card's rules would look as good as a right one.
type Uncut struct {
	Tag string
	Err error
}

// Error says so.
func (e *Uncut) Error() string {
	return fmt.Sprintf("%s: what its ggml-cuda takes could not be cut out of it, so nothing is said of a card: %v", e.Tag, e.Err)
}

// Unwrap is why.
func (e *Uncut) Unwrap() error { return e.Err }

// ExitCode is exit.NotRun.
func (e *Uncut) ExitCode() int { return exit.NotRun }

// Hint names another way.
func (e *Uncut) Hint() string { return "another --tag may do; " + withoutTag }

// Failed is a build that failed.
type Failed struct {
	Name, Log string
	Err       error
}

// Error names the log.
func (e *Failed) Error() string {
	return fmt.Sprintf("build the dry run of %s (log: %s): %v", e.Name, e.Log, e.Err)
}

// Unwrap is how the build ended.
func (e *Failed) Unwrap() error { return e.Err }

// ExitCode is exit.Build.
func (e *Failed) ExitCode() int { return exit.Build }

// Unusable is a folder that is no build which a program can be linked with.
type Unusable struct {
	Dir string
	Err error
}

// Error says why.
func (e *Unusable) Error() string { return fmt.Sprintf("--build %s: %v", e.Dir, e.Err) }

// Unwrap is why.
func (e *Unusable) Unwrap() error { return e.Err }

// ExitCode is exit.Usage.
func (e *Unusable) ExitCode() int { return exit.Usage }

// Hint names what would do.
func (e *Unusable) Hint() string {
	return "name the folder of `cmake -B DIR`, with DIR/bin/libllama.so, whose sources are still there; --tag needs none"
}

// Refused is a model or a setting that the tag's llama.cpp does not take.
type Refused struct {
	Model string
	Said  string // what llama.cpp wrote
	Err   error
}

// Error says what llama.cpp said.
func (e *Refused) Error() string {
	return fmt.Sprintf("llama.cpp does not load %s: %s", e.Model, e.Said)
}

// Unwrap is how the program ended.
func (e *Refused) Unwrap() error { return e.Err }

// ExitCode is exit.NotRun.
func (e *Refused) ExitCode() int { return exit.NotRun }

// Hint says what to try.
func (e *Refused) Hint() string {
	return "a newer --tag may know the architecture; another --kv-type or --flash-attn may be one that it takes"
}
