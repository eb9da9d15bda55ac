// Package build turns a patched source tree into binaries: NewPlan is pure and
// says every command, Run runs them through CMake and Ninja, reads back what
// CMake made of them, and says what failed and why.
package build
