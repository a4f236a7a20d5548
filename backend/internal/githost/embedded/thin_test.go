package embedded

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
)

// copyAll is a delta that makes of a base of size bytes the same once more, and a byte.
func copyAll(size int, more byte) []byte {
	d := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(size)), uint64(size+1))
	d = append(d, 0x80|0x10|0x20|0x40, byte(size), byte(size>>8), byte(size>>16))
	return append(d, 1, more)
}

// What git adds to a pack of deltas counts towards the quota: the objects that they are on,
// whole, or what they make of these.
func TestH3_APushOfDeltasCountsAsWhatIsStored(t *testing.T) {
	t.Parallel()
	const files, size, quota = 8, 900_000, 16 << 20
	for what, deltas := range map[string]func(o *objects, bases []string, push int) (entries []string){
		"on many files, of little": func(o *objects, bases []string, push int) (entries []string) {
			for i, base := range bases {
				entries = append(entries, fmt.Sprintf("100644 f%d", i), o.delta(typeBlob, base, size, fmt.Sprint(push, i)))
			}
			return entries
		},
		"on one file, of much": func(o *objects, bases []string, push int) (entries []string) {
			ref, _ := hex.DecodeString(bases[0])
			o.entries = append(o.entries, packEntry{typ: typeRefDelta, ref: ref, data: copyAll(size, byte(push))})
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(cfg *Config) { cfg.MaxBytes = quota })
			c := s.clone(t, access.Owner)
			all, bases := map[string]string{}, make([]string, files)
			for i := range files {
				all[fmt.Sprintf("f%d", i)] = incompressible(size)[:size]
			}
			c.commit("files", all)
			c.pushed("HEAD:main")
			for i := range files {
				bases[i] = strings.TrimSpace(c.git("rev-parse", fmt.Sprintf("HEAD:f%d", i)))
			}
			head, answer := s.head(t, mainRef), ""
			for push := 0; push < 30 && !strings.Contains(answer, "the owner may fill 8.0 MiB"); push++ {
				var o objects
				next := o.commit(o.tree(append(deltas(&o, bases, push), "100644 z", o.blob(fmt.Sprint(push)))...), head)
				if _, answer = s.post(t, access.Owner, "git-receive-pack", pushBody(head, next, handmadePack(o.entries...))); strings.Contains(answer, "ok "+mainRef) {
					head = next
				}
			}
			repo, _, err := s.repository(cluster)
			if err != nil {
				t.Fatal(err)
			}
			if stored := repo.measure(); stored > quota/2 {
				t.Errorf("people may fill %d bytes, and filled %d; the last answer is %q", quota/2, stored, answer)
			}
			s.fsck(t)
		})
	}
}

// A commit that is hidden from the rules, as a delta on what the host itself is about to
// write, is refused: it would count as judged from then on.
func TestH10_ACommitCannotBeHiddenBehindWhatThePushItselfRecords(t *testing.T) {
	t.Parallel()
	clock := func(h *Host) { h.now = func() time.Time { return time.Unix(1_700_000_000, 0) } }
	s, copied := serve(t), serve(t)
	clock(s.Host)
	clock(copied.Host)
	c := s.clone(t, access.Owner)
	c.commit("first", map[string]string{"a": "a\n"})
	c.pushed("HEAD:main")
	if err := os.RemoveAll(copied.bare()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(copied.bare(), os.DirFS(s.bare())); err != nil {
		t.Fatal(err)
	}
	main := s.head(t, mainRef)
	tree := strings.TrimSpace(c.git("rev-parse", "HEAD^{tree}"))
	harmless := func() (o objects, head string) {
		head = o.commit(tree, main)
		return o, head
	}
	push := func(s *served, o objects, ref, old, head string) string {
		body := append([]byte(pkts(old+" "+head+" "+ref+"\x00report-status")), handmadePack(o.entries...)...)
		_, answer := s.post(t, access.Owner, "git-receive-pack", body)
		return answer
	}
	// What a push makes the host write can be known before: here, by a copy of it.
	const ref = "refs/heads/changes/x"
	o, head := harmless()
	if answer := push(copied, o, ref, zeroHash, head); !strings.Contains(answer, "ok "+ref) {
		t.Fatal(answer)
	}
	notes, err := os.ReadFile(filepath.Join(copied.bare(), filepath.FromSlash(reviewsRef)))
	if err != nil {
		t.Fatal(err)
	}
	recorded := strings.TrimSpace(string(notes))
	size, err := stockGit(t, copied.bare(), nil, "cat-file", "-s", recorded)
	if err != nil {
		t.Fatal(err, size)
	}
	var n int
	if _, err := fmt.Sscan(size, &n); err != nil {
		t.Fatal(err)
	}
	name, email := contract.ComponentIdentity(contract.Konnector, cluster)
	konnector := fmt.Sprintf("%s <%s> 1700000000 +0000", name, email)
	text := commitText(tree, konnector, konnector, "\n\nforged\n", main)
	ref20, _ := hex.DecodeString(recorded)
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(n)), uint64(len(text)))
	for rest := text; rest != ""; {
		part := rest[:min(127, len(rest))]
		delta, rest = append(append(delta, byte(len(part))), part...), rest[len(part):]
	}
	o.entries = append(o.entries, packEntry{typ: typeRefDelta, ref: ref20, data: delta})
	if answer := push(s, o, ref, zeroHash, head); strings.Contains(answer, "ok "+ref) {
		t.Errorf("the push is taken: %s", answer)
	}
	var forged objects
	hidden := forged.add(typeCommit, text)
	if out, err := stockGit(t, s.bare(), nil, "cat-file", "-t", hidden); err == nil {
		t.Errorf("the repository has the hidden commit: %s", out)
	}
	if answer := push(s, objects{}, mainRef, main, hidden); strings.Contains(answer, "ok "+mainRef) {
		t.Errorf("main goes on to the hidden commit: %s", answer)
	}
	// Without it, the same goes through.
	o, head = harmless()
	if answer := push(s, o, ref, zeroHash, head); !strings.Contains(answer, "ok "+ref) {
		t.Error(answer)
	}
	s.fsck(t)
}
