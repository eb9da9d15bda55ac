// Package patch reads patch files as git and quilt write them and applies a
// series of them to a source tree in memory: every hunk at the only place where
// its whole preimage stands, and the whole series or nothing.
//
// # How to read it
//
// Parse takes the bytes of a patch file and returns a Patch for each mail in it.
// Apply takes a source.Tree and a series of patches and returns a Result with the
// patched tree and where each hunk went (Placement), or joins a Conflict for each
// misfit. A state is the tree so far; try opens a txn for each patch; txn.apply
// works out one change (a file), place finds its hunks, and commit or settle puts
// the files into the state. Read in this order:
//
//   - The values: patch.go (Patch, Header, and inside change and hunk), conflict.go
//     (Conflict, its message and hint), compare.go (the short diff in that message).
//   - Reading: parse.go (Parse), mbox.go (mails of a file), boundary.go (where a
//     message ends and a diff begins), header.go and mime.go (mail and DEP-3 headers,
//     encoded words and bodies), scan.go and scan_hunk.go (sections of a diff),
//     diffname.go (file names in it), gate.go (paths and links that are refused),
//     binary.go (binary patches and blob ids).
//   - Applying: apply.go (Apply, Result), state.go, txn.go (one patch), lines.go (a
//     text and where lines stand in it), place.go (a place for each hunk, and the
//     new text), order.go (hunks that may stand in several places; what git would
//     do), commit.go and casefold.go (names that collide).
//   - What the tree holds already: landed.go for one patch, landed_series.go for
//     patches that lie over one another.
//   - Judging without a tree: judge.go (Judge and JudgeUnder return a Judgement from
//     a few files; Preimage and At explain a line of a patch), origins.go (the blobs
//     that a patch was made for).
//   - Three-way: threeway.go (ThreeWay returns a Merge), threeway_file.go (one file),
//     threeway_series.go (ApplyThreeWay, Replay), diff3.go (merge3, of lines), gitmerge.go (git
//     must agree), memo.go (many merges of one patch), moved.go (renamed files), resolution.go (merges made by hand).
//   - Writing patches: diff.go and diff_myers.go (which lines differ), unified.go (the
//     text), fromcommit.go (FromCommit, from upstream's commit), variant.go
//     (Merge.Variant, a merge as a patch).
//
// # Differences from git apply
//
//   - Two places are an error that lists both, where git takes the nearer one.
//     The hunks of a file are placed together: a place of which the order of the
//     hunks leaves nothing does not count, and what it leaves counts only where
//     git puts the hunks so, too. The error names git's place as a Proposal, with
//     what speaks for it; Settle makes a patch of it that is not ambiguous.
//     As in git, a hunk that stands exactly where its header says is taken there
//     even if it stands elsewhere too; but once an earlier hunk of the same file
//     was found off its line, the stated line is no longer trusted.
//   - What the tree holds already is left out and called landed, hunk by hunk,
//     where git apply refuses the patch. Only a postimage that stands whole, with
//     its context, at one place and in order counts, and only where the preimage
//     stands nowhere. A preimage off its line beside a postimage on it is
//     ambiguous, unless the blob ids of the index line tell which it is.
//     A file that is to be deleted and is not there has landed, unless it seems to
//     have another name now; git refuses both.
//   - Hunks stay in the order of the patch.
//   - A last line without a newline in the patch matches only a last line
//     without a newline. Git drops the newline of the line that it finds.
//   - A hunk without any context (diff -U0) applies at its stated line only; one
//     that only adds lines applies only to the very blob that the patch was made
//     from. Git refuses both unless told --unidiff-zero, and then searches.
//   - Lines that go on after a hunk's counts are used up are an error; git drops
//     them without a word.
//   - A patch that contradicts itself or is damaged is an error: line 0 of a side
//     that has lines, a file created twice or not from line 0, a header cut short,
//     two files' names and no word of what is done. Git reads on, and leaves out
//     binary data that is cut with a message alone.
//   - A patch of which every line ends in CR LF is read as LF, unless the file has
//     CR LF. Git adds the CRs to the file, or finds no place.
//   - A patch that states no mode does not edit a symbolic link, and none changes a
//     submodule. A link that is renamed to below its own old name becomes a folder;
//     git refuses that where the patch states no mode.
//   - Symbolic links that lead out of the tree, names that differ from another
//     only in case, and paths that Windows would read as .git are refused.
//   - Deleting, renaming and editing are judged on the tree, not on a checkout,
//     so nothing depends on the machine's settings for line ends or whitespace.
package patch
