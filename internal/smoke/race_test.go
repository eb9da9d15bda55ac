//go:build race

package smoke

// raced says that this test program is instrumented: its memory then grows with
// what it does, as that of no llama-server does.
const raced = true
