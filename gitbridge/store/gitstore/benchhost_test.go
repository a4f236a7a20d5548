package gitstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"gitbind.dev/gitbridge/store"
)

func benchPath(i int) string {
	return fmt.Sprintf("bindings/kind%d.example.org/claims/ns-%d/claim-%d.yaml", i%4, i/200, i)
}

func benchEdit(i, version int) store.Edit {
	text := fmt.Sprintf("claim: %d\nversion: %d\n%s", i, version, strings.Repeat(fmt.Sprintf("  field: value-%x\n", i*104729), 25))
	return store.Edit{
		Author:  store.Signature{Name: "Ada", Email: "ada@example.org"},
		Subject: "claim: update " + benchPath(i),
		Apply:   func(t *store.Tree) error { return t.Write(benchPath(i), []byte(text)) },
	}
}

func benchRemote(b *testing.B, files int) *host {
	h := newHost(b)
	must(b)(h.Branch("main").Update(b.Context(), store.Edit{Subject: "fill", Apply: func(t *store.Tree) error {
		for i := range files {
			if err := benchEdit(i, 0).Apply(t); err != nil {
				return err
			}
		}
		return nil
	}}))
	h.Collect()
	return h
}

func must(b *testing.B) func(*store.Snapshot, error) *store.Snapshot {
	return func(s *store.Snapshot, err error) *store.Snapshot {
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
}

// A change and its acknowledgement, and the same seen by another client who is
// told. Both against git http-backend.
func BenchmarkGitHTTPBackend(b *testing.B) {
	for _, files := range []int{1_000, 10_000} {
		h := benchRemote(b, files)
		writer, reader := h.Branch("main"), h.Branch("main")
		must(b)(writer.Fetch(b.Context()))
		must(b)(reader.Fetch(b.Context()))
		i := 0
		b.Run(fmt.Sprintf("push/files=%d", files), func(b *testing.B) {
			for b.Loop() {
				i++
				must(b)(writer.Update(b.Context(), benchEdit(i*7919%files, i)))
			}
		})
		must(b)(reader.Fetch(b.Context()))
		b.Run(fmt.Sprintf("push+fetch/files=%d", files), func(b *testing.B) {
			for b.Loop() {
				i++
				tip := must(b)(writer.Update(b.Context(), benchEdit(i*7919%files, i))).Head()
				old := reader.Snapshot()
				n := 0
				for range store.Diff(old, must(b)(reader.FetchTip(b.Context(), tip)), "bindings") {
					n++
				}
				if n != 1 {
					b.Fatalf("%d changes", n)
				}
			}
		})
		b.Run(fmt.Sprintf("first-fetch/files=%d", files), func(b *testing.B) {
			for b.Loop() {
				must(b)(h.Branch("main").Fetch(b.Context()))
			}
		})
		b.Run(fmt.Sprintf("burst-of-1000/files=%d", files), func(b *testing.B) {
			pushes := h.Pushes()
			for b.Loop() {
				i++
				var all sync.WaitGroup
				for n := range 1000 {
					all.Go(func() { must(b)(writer.Update(b.Context(), benchEdit(n, i))) })
				}
				all.Wait()
			}
			b.ReportMetric(float64(h.Pushes()-pushes)/float64(b.N), "pushes/op")
		})
	}
}
