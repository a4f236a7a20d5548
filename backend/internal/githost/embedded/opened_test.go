package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A turn counts only if there is one for each repository.
func TestAllWhoFindARepositoryFindTheSame(t *testing.T) {
	t.Parallel()
	s := serve(t)
	t.Run("while it comes", func(t *testing.T) {
		t.Parallel()
		for i := range 300 {
			id := fmt.Sprintf("coming%d", i)
			var finders sync.WaitGroup
			found := make([]*repository, 4)
			for n := range found {
				finders.Go(func() {
					for ok := false; !ok; {
						var err error
						if found[n], ok, err = s.repository(id); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			whole := t.TempDir()
			if err := os.WriteFile(filepath.Join(whole, "HEAD"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(whole, s.open(id).dir); err != nil {
				t.Fatal(err)
			}
			finders.Wait()
			last, _, err := s.repository(id)
			for _, repo := range found {
				if repo != last || err != nil {
					t.Fatalf("of %s there are several, %v", id, err)
				}
			}
		}
	})
	t.Run("after the disk had trouble", func(t *testing.T) {
		t.Parallel()
		before, _, _ := s.repository(cluster)
		if err := os.Rename(s.bare(), s.bare()+".away"); err != nil {
			t.Fatal(err)
		}
		// No folder, so that one cannot tell what is in it.
		if err := os.WriteFile(s.bare(), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.repository(cluster); err == nil {
			t.Fatal("there is no trouble, so this shows nothing")
		}
		if err := errors.Join(os.Remove(s.bare()), os.Rename(s.bare()+".away", s.bare())); err != nil {
			t.Fatal(err)
		}
		if after, ok, err := s.repository(cluster); after != before || !ok || err != nil {
			t.Errorf("it is another one: %t, %v", ok, err)
		}
	})
}
