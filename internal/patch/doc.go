// Package patch reads patch files as git and quilt write them and applies a
// series of them to a source tree in memory: every hunk at the only place where
// its whole preimage stands, and the whole series or nothing.
//
// # Differences from git apply
//
//   - Two places are an error that lists both, where git takes the nearer one.
//     As in git, a hunk that stands exactly where its header says is taken there
//     even if it stands elsewhere too; but once an earlier hunk of the same file
//     was found off its line, the stated line is no longer trusted.
//   - What the tree holds already is left out and called landed, hunk by hunk,
//     where git apply refuses the patch. Only a postimage that stands whole, with
//     its context, at one place and in order counts, and only where the preimage
//     stands nowhere. A preimage off its line beside a postimage on it is
//     ambiguous, unless the blob ids of the index line tell which it is.
//   - Hunks stay in the order of the patch.
//   - A last line without a newline in the patch matches only a last line
//     without a newline. Git drops the newline of the line that it finds.
//   - A hunk without any context (diff -U0) applies at its stated line only; one
//     that only adds lines applies only to the very blob that the patch was made
//     from. Git refuses both unless told --unidiff-zero, and then searches.
//   - Lines that go on after a hunk's counts are used up are an error; git drops
//     them without a word.
//   - Symbolic links that lead out of the tree, names that differ from another
//     only in case, and paths that Windows would read as .git are refused.
//   - Deleting, renaming and editing are judged on the tree, not on a checkout,
//     so nothing depends on the machine's settings for line ends or whitespace.
package patch
