// Package fork keeps a series of fixes as a branch of a git repository: one commit a fix on
// the commit of upstream's tag. The branch is a pure function of the tag and the series, so
// that it can be checked, and made again on any machine.
//
// # How to read it
//
//   - repo.go (Repo: the git program on one repository), branch.go (Branch: which commits
//     stand on which tag), commit.go (Commit, its message and its id).
//   - make.go (Make), check.go (Check), push.go (Push): series to branch.
//   - export.go (Export) and declare.go (patch files and fix.toml): branch to series.
//   - rebase.go (Rebase and what goes on with it), move.go (one change onto another tree),
//     cause.go (which of upstream's commits is in the way).
//   - importing.go (Import), backport.go (Backport): foreign patches become fixes.
package fork
