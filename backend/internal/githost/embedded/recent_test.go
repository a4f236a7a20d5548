package embedded

import (
	"bytes"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// TestPacksAreJoinedWithoutACopy: as many clients as there may be take them slowly.
func TestPacksAreJoinedWithoutACopy(t *testing.T) {
	t.Parallel()
	a, b := &objects{}, &objects{}
	names := []string{a.blob("a"), b.blob("b"), b.blob("c")}
	packs := [][]byte{handmadePack(a.entries...), handmadePack(b.entries...)}
	parts := joinPacks(packs)
	p, err := readPush(bytes.NewReader(bytes.Join(parts, nil)), bases{}, free)
	if err != nil || len(p.Objects) != len(names) {
		t.Fatalf("%d objects, %v", len(p.Objects), err)
	}
	for _, name := range names {
		if _, ok := p.Objects[plumbing.NewHash(name)]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	for i, pack := range packs {
		if &parts[i+1][0] != &pack[packHead] {
			t.Errorf("pack %d is copied", i)
		}
	}
}
