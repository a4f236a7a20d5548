package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"gitbind.dev/gitbridge/store"
)

func (s *suite) emptyRemote() {
	b := s.remote.Branch("main")
	for _, snap := range []*store.Snapshot{nil, b.Snapshot(), s.fetch(b), b.Snapshot()} {
		if snap.Head() != "" || snap.Commit().Hash != "" || snap.Files() != 0 {
			s.Errorf("not empty: %v", snap.Commit())
		}
		if _, err := snap.Read("a"); !errors.Is(err, store.ErrNotExist) {
			s.Errorf("read: %v", err)
		}
		if _, ok := snap.Entry("a"); ok {
			s.Error("there is an entry")
		}
		s.want(snap)
		for c := range store.Diff(snap, nil, "") {
			s.Errorf("differs: %v", c)
		}
	}
	commits, descends, err := b.Log(s.ctx, "", "")
	if len(commits) > 0 || !descends || err != nil {
		s.Errorf("log: %v %v %v", commits, descends, err)
	}
}

func (s *suite) readListDiff() {
	b := s.remote.Branch("main")
	s.update(b, store.Edit{Author: Author, Subject: "start", Apply: func(t *store.Tree) error {
		for _, path := range []string{"bindings/b/claims/ns/x.yaml", "bindings/b/claims/ns/y.yaml", "bindings/b/export.yaml", "bindings/b-c/x.yaml", "bindings/b.c", "README"} {
			if err := t.Write(path, []byte("content of "+path)); err != nil {
				return err
			}
		}
		return t.Write("bindings/empty", nil)
	}})
	other := s.remote.Branch("main")
	old := s.fetch(other)

	if data, err := old.Read("bindings/b/export.yaml"); string(data) != "content of bindings/b/export.yaml" || err != nil {
		s.Errorf("read: %q, %v", data, err)
	}
	for _, path := range []string{"bindings", "bindings/b/none", "bindings/b.c/x", "", "/", "bindings/", "bindings//b.c"} {
		if _, err := old.Read(path); !errors.Is(err, store.ErrNotExist) {
			s.Errorf("read %q: %v", path, err)
		}
		if _, ok := old.Entry(path); ok {
			s.Errorf("entry %q", path)
		}
	}
	e, ok := old.Entry("bindings/empty")
	// The name of the empty blob, as everywhere.
	if want := (store.Entry{Path: "bindings/empty", Mode: store.Regular, Hash: "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"}); !ok || e != want {
		s.Errorf("entry %+v, want %+v", e, want)
	}
	if data, err := old.Read("bindings/empty"); len(data) != 0 || err != nil {
		s.Errorf("read: %q, %v", data, err)
	}
	for prefix, want := range map[string]string{
		"":                "README bindings/b-c/x.yaml bindings/b.c bindings/b/claims/ns/x.yaml bindings/b/claims/ns/y.yaml bindings/b/export.yaml bindings/empty",
		"bindings/b":      "bindings/b/claims/ns/x.yaml bindings/b/claims/ns/y.yaml bindings/b/export.yaml",
		"bindings/b/c":    "",
		"bindings/b.c":    "",
		"bindings/b-c":    "bindings/b-c/x.yaml",
		"bindings/absent": "",
	} {
		var paths []string
		for e := range old.List(prefix) {
			paths = append(paths, e.Path)
			if e.Size != int64(len("content of "+e.Path)) && e.Path != "bindings/empty" {
				s.Errorf("%s: size %d", e.Path, e.Size)
			}
		}
		if got := strings.Join(paths, " "); got != want {
			s.Errorf("list %q: %s, want %s", prefix, got, want)
		}
	}

	s.update(b, store.Edit{Author: Author, Subject: "change", Apply: func(t *store.Tree) error {
		return errors.Join(
			t.Remove("bindings/b/claims/ns/x.yaml"),
			t.Write("bindings/b/claims/ns/y.yaml", []byte("new")),
			t.Write("bindings/b/claims/other/z.yaml", []byte("new")),
			t.Remove("bindings/b.c"),
			t.Write("bindings/b.c/now-a-folder", []byte("x")),
		)
	}})
	new := s.fetch(other)
	for prefix, want := range map[string]string{
		"":                     "-bindings/b.c +bindings/b.c/now-a-folder -bindings/b/claims/ns/x.yaml ~bindings/b/claims/ns/y.yaml +bindings/b/claims/other/z.yaml",
		"bindings/b/claims/ns": "-bindings/b/claims/ns/x.yaml ~bindings/b/claims/ns/y.yaml",
		"bindings/b.c":         "+bindings/b.c/now-a-folder",
		"bindings/b-c":         "",
		"absent":               "",
	} {
		if got := changes(old, new, prefix); got != want {
			s.Errorf("diff %q: %s, want %s", prefix, got, want)
		}
	}
	if got := changes(nil, new, "bindings/b.c"); got != "+bindings/b.c/now-a-folder" {
		s.Errorf("diff with nothing: %s", got)
	}
	s.want(old, Contents(s, old)...)
}

func changes(old, new *store.Snapshot, prefix string) string {
	var all []string
	for c := range store.Diff(old, new, prefix) {
		sign := "~"
		switch {
		case c.Old == nil:
			sign = "+"
		case c.New == nil:
			sign = "-"
		}
		all = append(all, sign+c.Path)
	}
	return strings.Join(all, " ")
}

func (s *suite) removeFolders() {
	b := s.remote.Branch("main")
	s.update(b, Put("keep", "1"))
	s.update(b, Put("a/b/c/d", "1"))
	s.update(b, Put("a/b/e", "1"))
	s.want(s.update(b, remove("a/b/c/d")), "a/b/e", "1", "keep", "1")
	// The folder's name is free for a file.
	s.want(s.update(b, Put("a/b/c", "file")), "a/b/c", "file", "a/b/e", "1", "keep", "1")
	s.update(b, remove("a/b/c"))
	s.want(s.update(b, remove("a/b/e")), "keep", "1")
	last := s.update(b, remove("keep"))
	s.want(last)
	if last.Head() == "" {
		s.Error("an empty tree has no commit")
	}
	s.want(s.fetch(s.remote.Branch("main")))
	s.want(s.update(b, Put("again", "1")), "again", "1")
	s.want(s.fetch(s.remote.Branch("main")), "again", "1")
}

func (s *suite) flipFlop() {
	writer, reader := s.remote.Branch("main"), s.remote.Branch("main")
	for i := range 20 {
		s.update(writer, Put(fmt.Sprintf("bindings/b/claims/ns/other-%d", i), fmt.Sprint(i)))
	}
	const path = "bindings/b/claims/ns/x"
	for round := range 3 {
		for _, content := range []string{"small", "large"} {
			s.update(writer, Put(path, content))
			s.remote.Collect()
			snap := s.fetch(reader)
			if data, err := snap.Read(path); string(data) != content || err != nil {
				s.Fatalf("round %d: %q, %v", round, data, err)
			}
			if got := len(Contents(s, snap)) / 2; got != 21 {
				s.Fatalf("round %d: %d files", round, got)
			}
		}
	}
}

func (s *suite) readers() {
	b := s.remote.Branch("main")
	s.update(b, Put("a/0", "0"))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var last *store.Snapshot
			for {
				select {
				case <-stop:
					return
				default:
				}
				snap := b.Snapshot()
				for c := range store.Diff(last, snap, "a") {
					if c.New == nil {
						s.Errorf("%s vanished", c.Path)
					}
				}
				last = snap
				Contents(s, snap)
			}
		})
	}
	for i := range 20 {
		s.update(b, Put(fmt.Sprintf("a/%d", i), fmt.Sprint(i)))
	}
	close(stop)
	all.Wait()
}
