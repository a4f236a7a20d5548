package gitstore

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/branch"
)

// claimPath spreads claims over 4 bindings, with 50 in each namespace.
func claimPath(i int) string {
	return fmt.Sprintf("bindings/kind%d.example.org/claims/ns-%d/claim-%d.yaml", i%4, i/200, i)
}

// claimText is as long as claims are, and does not compress much better.
func claimText(i, version int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: example.org/v1\nkind: PostgresqlInstance\nmetadata:\n  name: claim-%d\n  namespace: ns-%d\nspec:\n  version: %d\n", i, i/200, version)
	for n := range 20 {
		fmt.Fprintf(&b, "  field%d: value-%x\n", n, (i+1)*(n+7919)*104729)
	}
	return []byte(b.String())
}

func fill(files int) store.Edit {
	return store.Edit{Subject: "fill", Apply: func(t *store.Tree) error {
		for i := range files {
			if err := t.Write(claimPath(i), claimText(i, 0)); err != nil {
				return err
			}
		}
		return nil
	}}
}

func change(i, version int) store.Edit {
	return store.Edit{
		Author:   store.Signature{Name: "Ada", Email: "ada@example.org"},
		Subject:  "claim: update " + claimPath(i),
		Trailers: []store.Trailer{{Key: "Gitbind-Object", Value: fmt.Sprint(i)}},
		Apply:    func(t *store.Tree) error { return t.Write(claimPath(i), claimText(i, version)) },
	}
}

// nowhere is a remote that encodes what it would send, and accepts it.
type nowhere struct {
	remote
	bytes int
}

func (*nowhere) Head(context.Context) (store.Hash, error) { return "", nil }

func (n *nowhere) Push(_ context.Context, p branch.Push) error {
	body, err := n.encodePush(p)
	n.bytes = len(body)
	return err
}

// What a change costs this process: the edit, the trees, the commit, the pack.
func BenchmarkOwnWork(b *testing.B) {
	for _, files := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			n := &nowhere{remote: remote{ref: "refs/heads/main"}}
			client := branch.New(n, branch.Options{Committer: store.Signature{Name: "bench", Email: "bench@example.org"}})
			update(b, client, fill(files))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				update(b, client, change(i*7919%files, i))
			}
			b.ReportMetric(float64(n.bytes), "sent-bytes")
			// What the tree holds, once all that led to it is gone.
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc>>10)/float64(files), "KiB-of-heap/file")
			runtime.KeepAlive(client)
		})
	}
}

func update(b *testing.B, client store.Branch, e store.Edit) *store.Snapshot {
	snap, err := client.Update(b.Context(), e)
	if err != nil {
		b.Fatal(err)
	}
	return snap
}
