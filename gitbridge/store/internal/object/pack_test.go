package object

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// claimFile and statusFile are what lies on main and on status for one claim.
func claimFile(i int) []byte {
	return fmt.Appendf(nil, `apiVersion: anynines.com/v1
kind: PostgresqlInstance
metadata:
  name: orders-%06d
  namespace: team-%d
  labels:
    app.kubernetes.io/part-of: shop
  annotations:
    example.org/owner: the team that takes the orders, floor 3, phone %d
spec:
  service: a9s-postgresql13
  plan: postgresql-single-nano
  expose: Internal
  acceptsIncomplete: true
  parameters:
    maxConnections: %d
    logStatement: ddl
`, i, i%100, i, i)
}

func statusFile(i int) []byte {
	name := fmt.Sprintf("orders-%06d", i)
	return fmt.Appendf(nil, `apiVersion: gitbind.dev/v1alpha1
kind: ClaimStatus
metadata:
  name: %[1]s
  namespace: team-%[2]d
answers:
  blob: %[3]x
  commit: %[4]x
result: Applied
uid: %08[2]d-c4bb-4f1c-8ffd-1f2e3d4c5b6a
object: gb-k3x9d2abqw-team-%[2]d/%[1]s
status:
  managed:
    clusterStatus: Running
    readyReplicas: 1
  conditions:
  - lastTransitionTime: "2026-11-21T12:%02[5]d:00Z"
    message: ""
    reason: Available
    status: "True"
    type: Ready
  - lastTransitionTime: "2026-11-21T12:%02[5]d:30Z"
    message: ""
    reason: ReconcileSuccess
    status: "True"
    type: Synced
`, name, i%100, sha1.Sum([]byte(name)), sha1.Sum([]byte("commit"+fmt.Sprint(i/1000))), i%60)
}

func TestAPackedFileIsWhatItWas(t *testing.T) {
	for name, data := range map[string][]byte{
		"a claim": claimFile(7), "a status": statusFile(7), "nothing": {}, "short": []byte("x: 1\n"), "no text": bytes.Repeat([]byte{0, 255, 7}, 100),
		"large": bytes.Repeat(claimFile(3), 2000),
	} {
		n := NewFile(ModeRegular, ID{}, data)
		n.keep(data, true)
		got, ok := n.Data()
		if !ok || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes became %d", name, len(data), len(got))
		}
		if want := name == "a claim" || name == "a status" || name == "large" || name == "no text"; n.packed != want {
			t.Errorf("%s: packed %t", name, n.packed)
		}
		if got != nil && n.packed && &got[0] == &n.data[0] {
			t.Errorf("%s: a reader could change it", name)
		}
	}
}

// A hundred thousand claims have two files each, and must leave room for all
// else in 600 MiB.
func TestAFileTakesLittle(t *testing.T) {
	const n = 1_000
	for name, c := range map[string]struct {
		file       func(int) []byte
		pack       bool
		mostOfEach uint64
	}{
		"claims as they are": {claimFile, false, 1000}, "claims": {claimFile, true, 400},
		"status as it is": {statusFile, false, 1500}, "status": {statusFile, true, 400},
	} {
		before := heap()
		folder := &Node{Mode: ModeFolder, children: make([]child, n)}
		whole := 0
		for i := range n {
			data := c.file(i)
			f := &Node{ID: Sum(Blob, data), Mode: ModeRegular, Files: 1, Size: int64(len(data))}
			f.keep(data, c.pack)
			folder.children[i] = child{strings.Clone(fmt.Sprintf("orders-%06d.yaml", i)), f}
			whole += len(data)
		}
		each := (heap() - before) / n
		runtime.KeepAlive(folder)
		t.Logf("%s: %d bytes for a file of %d", name, each, whole/n)
		if each > c.mostOfEach {
			t.Errorf("%s: %d bytes for a file, want at most %d", name, each, c.mostOfEach)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkKeep(b *testing.B) {
	data := statusFile(1)
	for b.Loop() {
		(&Node{}).keep(data, true)
	}
}

func BenchmarkData(b *testing.B) {
	n := &Node{}
	n.keep(statusFile(1), true)
	for b.Loop() {
		n.Data()
	}
}
