// Package source turns a tag into a verified git tree. Any transport will do (a
// git repository, a git bundle, an npm package, a tarball), because a tree is
// accepted only when its git tree id is the pinned one; trees are kept in a
// cache that several processes may use at once.
package source
