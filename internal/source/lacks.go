package source

// Lacks returns the sorted paths of the files whose content the source does
// not have, as in a clone that left out its largest blobs. No content is read.
func (t *Tree) Lacks() ([]string, error) {
	if t.store == nil {
		return nil, nil
	}
	r, err := t.store.acquire()
	if err != nil {
		return nil, err
	}
	defer t.store.release(r)
	var paths []string
	for _, e := range t.entries {
		if _, ok := t.memory[e.Blob]; !ok && e.Mode != Submodule && !r.has(e.Blob) {
			paths = append(paths, e.Path)
		}
	}
	return paths, nil
}
