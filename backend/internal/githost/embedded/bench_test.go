package embedded

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/access"
)

// BenchmarkPush measures the push of one changed claim to a repository of 1,000
// files, as an agent does it (one request, whole trees, no deltas), beside what
// git receive-pack alone takes for the same bytes. The two take turns, so that
// whatever else the machine does falls on both.
func BenchmarkPush(b *testing.B) {
	b.Run("beside git alone", func(b *testing.B) { besideGit(b, whole) })
	b.Run("a person's, beside git alone", func(b *testing.B) { besideGit(b, thin) })
	b.Run("checks alone", func(b *testing.B) {
		s, bodies := pushes(b, 1, whole)
		repo, _, _ := s.repository(cluster)
		caller := access.Caller{Role: access.Konnector, Cluster: cluster}
		b.ResetTimer()
		for range b.N {
			if err := checked(b, repo, caller, bodies[0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func besideGit(b *testing.B, form []string) {
	bare, alone := pushes(b, b.N, form)
	repo, _, _ := bare.repository(cluster)
	front, bodies := pushes(b, b.N, form)
	var gits, fronts []time.Duration
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		req := &pushRequest{Commands: []command{{Ref: mainRef}}}
		answer, _, err := repo.receivePack(b.Context(), access.Caller{Role: access.Konnector}, req, bytes.NewReader(alone[i]))
		if err != nil || !strings.Contains(string(answer), "ok refs/heads/main") {
			b.Fatalf("%v %q", err, answer)
		}
		gits = append(gits, time.Since(start))
		start = time.Now()
		if status, answer := front.post(b, access.Konnector, "git-receive-pack", bodies[i]); status != http.StatusOK || !strings.Contains(answer, "ok refs/heads/main") {
			b.Fatalf("%d %q", status, answer)
		}
		fronts = append(fronts, time.Since(start))
	}
	report(b, "git", gits)
	report(b, "front", fronts)
}

func checked(b *testing.B, repo *repository, caller access.Caller, body []byte) error {
	in := bytes.NewReader(body)
	req, err := parsePushRequest(in)
	if err != nil {
		return err
	}
	if _, _, err := repo.present(req); err != nil {
		return err
	}
	c := newCheck(b.Context(), repo, caller, free)
	defer c.reader.close()
	return c.push(req, in, int64(in.Len()))
}

// What git pack-objects makes of a push: whole objects, or as git push has it.
var (
	whole = []string{"--window=0"}
	thin  = []string{"--thin", "--delta-base-offset"}
)

// pushes is a host with 1,000 claims, and n pushes that follow each other, in a form.
func pushes(b *testing.B, n int, form []string) (*served, [][]byte) {
	b.Helper()
	s := serve(b)
	c := s.clone(b, access.Konnector)
	start := time.Now().Unix()
	path := func(i int) string {
		return fmt.Sprintf("bindings/postgresqlinstances.example.com/claims/team-%d/db-%d.yaml", i/50, i%50)
	}
	content := func(i, version int) string {
		return fmt.Sprintf("apiVersion: example.com/v1\nkind: PostgresqlInstance\nmetadata:\n  name: db-%d\n  namespace: team-%d\nspec:\n  version: %d\n%s", i%50, i/50, version, strings.Repeat("# padding to the size of a claim\n", 12))
	}
	var stream bytes.Buffer
	commit := func(v int, from string, files ...int) {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter konnector <%s> %d +0000\ndata 1\nx\n%s", emails[access.Konnector], start+int64(v), from)
		for _, i := range files {
			text := content(i, v)
			fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", path(i), len(text), text)
		}
	}
	all := make([]int, 1000)
	for i := range all {
		all[i] = i
	}
	commit(0, "from refs/heads/main^0\n", all...)
	for v := range n {
		commit(v+1, "", v*37%1000)
	}
	if out, err := stockGit(b, c.dir, stream.Bytes(), "fast-import", "--quiet"); err != nil {
		b.Fatal(out)
	}
	hashes := strings.Fields(c.git("rev-list", "--reverse", "--first-parent", "main"))[1:]
	c.pushed(hashes[0] + ":main")
	var bodies [][]byte
	for i, h := range hashes[1:] {
		pack, err := stockGit(b, c.dir, []byte(h+"\n^"+hashes[i]+"\n"), append([]string{"pack-objects", "--revs", "--stdout", "--quiet"}, form...)...)
		if err != nil {
			b.Fatal(pack)
		}
		bodies = append(bodies, pushBody(hashes[i], h, []byte(pack)))
	}
	if packs, _ := filepath.Glob(filepath.Join(s.bare(), "objects/pack/*.pack")); len(packs) == 0 {
		b.Fatal("no pack: transfer.unpackLimit does not count")
	}
	return s, bodies
}

// BenchmarkUpdate measures what an agent waits for: one changed claim among
// 1,000, from the call to the host's acknowledgement.
func BenchmarkUpdate(b *testing.B) {
	s, _ := pushes(b, 0, whole)
	branch := s.agent(b, access.Konnector, "konnector-"+cluster).Branch("main")
	if _, err := branch.Fetch(b.Context()); err != nil {
		b.Fatal(err)
	}
	took := make([]time.Duration, 0, b.N)
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		path := fmt.Sprintf("bindings/postgresqlinstances.example.com/claims/team-%d/db-%d.yaml", i%20, i*7%50)
		if _, err := branch.Update(b.Context(), put(emails[access.Konnector], path, fmt.Sprintf("version: %d\n", i))); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	report(b, "update", took)
}

func report(b *testing.B, what string, took []time.Duration) {
	slices.Sort(took)
	at := func(percent int) float64 { return float64(took[len(took)*percent/100].Microseconds()) / 1000 }
	b.ReportMetric(at(0), what+"-min-ms")
	b.ReportMetric(at(50), what+"-p50-ms")
	b.ReportMetric(at(95), what+"-p95-ms")
}
