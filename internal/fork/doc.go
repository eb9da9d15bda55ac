// Package fork keeps a series of fixes as a branch of a git repository: one commit a fix on
// the commit of upstream's tag. The branch is a pure function of the tag and the series, so
// that it can be checked, and made again on any machine.
//
// # How to read it
//
//   - repo.go (Repo: the git program on one repository), branch.go (Branch: which commits
//     stand on which tag), commit.go (Commit, its message and its id).
//   - make.go (Make), base.go (what a branch stands on), check.go (Check), push.go (Push): series to branch.
//   - export.go (Export), declare.go (what declarations get) and newfix.go: branch to series.
//   - rebase.go (Rebase), stop.go (Stopped: a conflict in the work tree), goon.go (what is kept
//     of a rebase, and GoOn), move.go (changes), cause.go (which of upstream's commits is in the way).
//   - importing.go (Import) and gather.go (patches from anywhere), backport.go (Backport) and
//     needs.go (what a commit builds on).
package fork
