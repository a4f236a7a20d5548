package claim

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
)

// keys is a set of claims.
type keys struct {
	mu  sync.Mutex
	set map[contract.Key]struct{}
}

func (k *keys) add(key contract.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil {
		k.set = map[contract.Key]struct{}{}
	}
	k.set[key] = struct{}{}
}

// take empties the set.
func (k *keys) take() []contract.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := slices.Collect(maps.Keys(k.set))
	k.set = nil
	return all
}

// heldFiles are the files that have no object on which to say why, or one in a
// namespace that is gone.
type heldFiles struct {
	// onChange is called when there is something new. It must not block.
	onChange func()

	mu    sync.Mutex
	files map[contract.Key]v1alpha1.HeldFile
}

// newHeldFiles starts with what was listed before, until each is looked at.
func newHeldFiles(before []v1alpha1.HeldFile, onChange func()) *heldFiles {
	h := &heldFiles{onChange: onChange, files: map[contract.Key]v1alpha1.HeldFile{}}
	for _, f := range before {
		if key, err := contract.ParsePath(f.Path); err == nil {
			h.files[key] = f
		}
	}
	return h
}

func (h *heldFiles) set(key contract.Key, d decision.Decision) {
	f := v1alpha1.HeldFile{Path: key.Path(), Reason: string(d.Reason), Message: d.Message}
	h.mu.Lock()
	changed := h.files[key] != f
	h.files[key] = f
	h.mu.Unlock()
	if changed {
		h.onChange()
	}
}

func (h *heldFiles) clear(key contract.Key) {
	h.mu.Lock()
	_, was := h.files[key]
	delete(h.files, key)
	h.mu.Unlock()
	if was {
		h.onChange()
	}
}

func (h *heldFiles) all() []contract.Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.files))
}

// in are the held files of a namespace.
func (h *heldFiles) in(namespace string) []contract.Key {
	return slices.DeleteFunc(h.all(), func(key contract.Key) bool { return key.Namespace != namespace })
}

// list returns how many there are, and the first n by path.
func (h *heldFiles) list(n int) (int, []v1alpha1.HeldFile) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.SortedFunc(maps.Values(h.files), func(a, b v1alpha1.HeldFile) int { return strings.Compare(a.Path, b.Path) })
	return len(all), all[:min(n, len(all))]
}
