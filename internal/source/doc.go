// Package source turns a tag into a verified git tree. Any transport will do (a
// git repository, a git bundle, an npm package, a tarball), because a tree is
// accepted only when its git tree id is the pinned one; trees are kept in a
// cache that several processes may use at once.
//
// # How to read it
//
// Fetch takes Options and a tag and returns a Tree. Inside, one fetcher serves one
// call: fetch asks the cache (fromCache), then each source in turn (fromSources,
// try). dispatch picks the transport. A transport puts git objects into a scratch
// folder and says what it found; intoCache compares that with the pin (identify),
// moves the pack into the cache and opens the Tree from there. A repository on this
// machine is read where it is (fromRepository). Read in this order:
//
//   - The values: tree.go and hash.go have Tree, Entry and File, and compute and
//     check tree ids; errors.go has the errors that callers tell apart.
//   - One fetch: source.go (Fetch, fetcher, nearest tags), try.go (which transport),
//     evidence.go (whether what came is the tag), scratch.go (intoCache).
//   - Transports: git.go (a repository here), remote.go (git over the network),
//     bundle.go, archive.go (tarballs), npm.go with npmrc.go (packages and npm's
//     settings), download.go (HTTP), address.go (addresses without secrets).
//   - The cache: cache.go has its folders, locks and records.
//   - Reading objects: gitdir.go finds a repository's folders, store.go reads objects
//     for a Tree and fetches damaged ones again. repository.go and prefix.go are
//     the other reader: Repository and Objects, for tools that read many commits.
//   - Writing packs: pack.go and pack_delta.go index a pack as it comes, within
//     bounds; pack_write.go makes one of a tarball's files.
//   - Checkouts, Tree to folder: checkout.go (Checkout, CheckoutOwn, Stats),
//     checkout_claim.go (whose folder it is), checkout_index.go (what was written, so
//     that unchanged files are kept), checkout_write.go (writing files), exclude.go
//     (what is left out), and stat_linux.go, stat_darwin.go and stat_other.go (how a
//     changed file is told).
//   - Upstream's history: history.go (History returns a Mirror), history_git.go (git
//     makes and updates it), history_commit.go (a commit as a Change).
//   - Looking without fetching: look.go (Looks, Cached), for doctor.
package source
