// Package dryrun asks a tag's own llama.cpp how it lays a model out: a small program of ours
// is linked with its libllama, loads the model as llama-server does, without weights
// (no_alloc), on a card that executes nothing, and says what comes to lie where. docs/adr/0030
// says why, and docs/memory.md how right it is.
package dryrun
