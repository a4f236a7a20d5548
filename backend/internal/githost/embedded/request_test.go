package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/access"
)

const (
	zeros = "0000000000000000000000000000000000000000"
	ones  = "1111111111111111111111111111111111111111"
	twos  = "2222222222222222222222222222222222222222"
)

func pkts(lines ...string) string {
	var b []byte
	for _, l := range lines {
		b = appendPkt(b, l)
	}
	return string(b) + flushPkt
}

func TestParsePushRequest(t *testing.T) {
	t.Parallel()
	update := command{Ref: mainRef, Old: plumbing.NewHash(ones), New: plumbing.NewHash(twos)}
	for _, c := range []struct {
		name, in string
		want     *pushRequest
		fails    string
	}{
		{name: "an update", in: pkts(ones + " " + twos + " refs/heads/main\x00 report-status side-band-64k agent=x"),
			want: &pushRequest{Commands: []command{update}, ReportStatus: true, SideBand: true}},
		{name: "with line ends, without capabilities", in: pkts(ones + " " + twos + " refs/heads/main\n"),
			want: &pushRequest{Commands: []command{update}}},
		{name: "from a shallow clone", in: pkts("shallow "+ones+"\n", ones+" "+twos+" refs/heads/main\x00report-status-v2 object-format=sha1"),
			want: &pushRequest{Commands: []command{update}, ReportStatus: true, Shallow: true}},
		{name: "create and delete", in: pkts(zeros+" "+twos+" refs/heads/a\x00report-status", ones+" "+zeros+" refs/heads/b"),
			want: &pushRequest{Commands: []command{{Ref: "refs/heads/a", New: plumbing.NewHash(twos)}, {Ref: "refs/heads/b", Old: plumbing.NewHash(ones)}}, ReportStatus: true}},
		// git push origin :refs/heads/changes/none, with a git that knows of no such branch.
		{name: "a delete of what does not exist", in: pkts(zeros + " " + zeros + " refs/heads/changes/none\x00report-status"),
			want: &pushRequest{Commands: []command{{Ref: "refs/heads/changes/none"}}, ReportStatus: true}},
		{name: "nothing: git asks whether it is let in", in: flushPkt, want: &pushRequest{}},
		{name: "empty", in: "", fails: "EOF"},
		{name: "no end", in: strings.TrimSuffix(pkts(ones+" "+twos+" refs/heads/main"), flushPkt), fails: "EOF"},
		{name: "ends within a line", in: "00a0" + ones, fails: "ends within a line"},
		{name: "no length", in: "zzzz", fails: "length"},
		{name: "length of a delimiter", in: "0001", fails: "length"},
		{name: "length shorter than itself", in: "0003", fails: "length"},
		{name: "too long", in: "ffff" + strings.Repeat("x", 0xffff), fails: "length"},
		{name: "no command", in: pkts("hello"), fails: "no ref update"},
		{name: "short hash", in: pkts("1111 " + twos + " refs/heads/main"), fails: "no object name"},
		{name: "upper-case hash", in: pkts(strings.Repeat("A", 40) + " " + twos + " refs/heads/main"), fails: "no object name"},
		{name: "the same ref twice", in: pkts(ones+" "+twos+" refs/heads/main", ones+" "+zeros+" refs/heads/main"), fails: "twice"},
		{name: "a space in a ref", in: pkts(ones + " " + twos + " refs/heads/main x"), fails: "no ref name"},
		{name: "a line end in a ref", in: pkts(ones + " " + twos + " refs/heads/main\nng"), fails: "no ref name"},
		{name: "late capabilities", in: pkts(ones+" "+twos+" refs/heads/main", ones+" "+twos+" refs/heads/x\x00report-status"), fails: "capabilities after"},
		{name: "push options", in: pkts(ones + " " + twos + " refs/heads/main\x00push-options"), fails: "push-options is not supported"},
		{name: "sha256", in: pkts(ones + " " + twos + " refs/heads/main\x00object-format=sha256"), fails: "object format"},
		{name: "a push certificate", in: pkts("push-cert\x00report-status", "certificate version 0.1\n"), fails: "no ref update"},
	} {
		got, err := parsePushRequest(strings.NewReader(c.in))
		if c.fails != "" {
			if err == nil || !errors.Is(err, errRequest) || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestValidRef(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"refs/heads/main": true, "refs/heads/changes/dbs.example.com/team-a/orders": true, "refs/heads/conflicts/b/n/1%2F": true, "refs/heads/Zoë": true,
		"": false, "/refs/heads/x": false, "refs//heads": false, "refs/heads/x/": false,
		"refs/heads/changes/../main": false, "refs/heads/changes/../../../../other.git/refs/heads/main": false, "refs/heads/a..b": false,
		"refs/heads/.hidden": false, "refs/heads/x.lock": false, "refs/heads/x.lock/y": false, "refs/heads/x.": false,
		"refs/heads/a b": false, "refs/heads/a\tb": false, "refs/heads/a\x7f": false, "refs/heads/a~1": false, "refs/heads/a^": false, "refs/heads/a:b": false,
		"refs/heads/a?": false, "refs/heads/*": false, "refs/heads/[a": false, "refs/heads/a\\b": false, "refs/heads/a@{1}": false,
		"refs/heads/" + strings.Repeat("x", 1000): false, "refs/heads/" + strings.Repeat("x", 251): false, "refs/heads/" + strings.Repeat("x", 250): true,
		// 1000 bytes, and one more.
		"refs/heads/" + strings.Repeat("x/", 494) + "x": true, "refs/heads/" + strings.Repeat("x/", 494) + "xx": false,
	} {
		if got := validRef(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
		// Whatever passes stays below the repository.
		if got := filepath.Join("/git/x.git", name); validRef(name) && !strings.HasPrefix(got, "/git/x.git/refs/") {
			t.Errorf("%q is %s on disk", name, got)
		}
	}
}

func TestParsePushRequestStopsAtThePack(t *testing.T) {
	t.Parallel()
	r := strings.NewReader(pkts(ones+" "+twos+" refs/heads/main") + "PACK")
	if _, err := parsePushRequest(r); err != nil {
		t.Fatal(err)
	}
	if r.Len() != len("PACK") {
		t.Errorf("%d bytes left, want 4", r.Len())
	}
}

func TestParsePushRequestTakesAThousandRefs(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 1001 {
		lines = append(lines, fmt.Sprintf("%s %s refs/heads/changes/%d", ones, twos, i))
	}
	if req, err := parsePushRequest(strings.NewReader(pkts(lines[:1000]...))); err != nil || len(req.Commands) != 1000 {
		t.Errorf("1000 refs: %v, error %v", req, err)
	}
	if _, err := parsePushRequest(strings.NewReader(pkts(lines...))); !errors.Is(err, errRequest) || !strings.Contains(err.Error(), "more than 1000 refs") {
		t.Errorf("1001 refs: error %v", err)
	}
}

func TestParsePushRequestQuotesTheFirst80BytesOfWhatItRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{strings.Repeat("x", 80), `"` + strings.Repeat("x", 80) + `" is no ref update`},
		{strings.Repeat("x", 81), `"` + strings.Repeat("x", 80) + `…" is no ref update`},
		{"x" + strings.Repeat("ü", 40), `"x` + strings.Repeat("ü", 39) + `…" is no ref update`},
		{"\xff" + strings.Repeat("x", 80), `"\xff` + strings.Repeat("x", 79) + `…" is no ref update`},
		{ones + " " + twos + " " + strings.Repeat("x", 80) + "..", `"` + strings.Repeat("x", 80) + `…" is no ref name`},
	} {
		if _, err := parsePushRequest(strings.NewReader(pkts(c.in))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes: error %v, want %q", len(c.in), err, c.want)
		}
	}
}

func FuzzParsePushRequest(f *testing.F) {
	f.Add([]byte(pkts(ones + " " + twos + " refs/heads/main\x00 report-status side-band-64k")))
	f.Add([]byte(pkts("shallow "+ones, zeros+" "+twos+" refs/heads/x")))
	f.Add([]byte(pkts(zeros + " " + zeros + " refs/heads/changes/none"))) // a delete of what does not exist
	f.Add([]byte("0003"))
	f.Fuzz(func(t *testing.T, in []byte) {
		req, err := parsePushRequest(bytes.NewReader(in))
		if err != nil {
			if !errors.Is(err, errRequest) {
				t.Errorf("error %v is no errRequest", err)
			}
			return
		}
		for _, c := range req.Commands {
			if strings.ContainsAny(c.Ref, " \n\x00") {
				t.Errorf("let through %+v", c)
			}
			for _, role := range []access.Role{access.Konnector, access.Bridge, access.Owner} {
				if c.Old.IsZero() && c.New.IsZero() && refRule(role, c) == "" {
					t.Errorf("%s: let through %+v", role, c)
				}
			}
			if path := filepath.Join("/git/x.git", c.Ref); path != "/git/x.git/"+c.Ref {
				t.Errorf("%q is %s on disk", c.Ref, path)
			}
		}
	})
}

func TestRefusedPushIsWhatGitReads(t *testing.T) {
	t.Parallel()
	req := &pushRequest{Commands: []command{{Ref: mainRef}, {Ref: statusRef}}, ReportStatus: true}
	want := pkts("unpack ok\n", "ng refs/heads/main one two\n", "ng refs/heads/status three\n")
	if got := string(refusedPush(req, "words", []string{"one\ntwo", "three"})); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	req.SideBand = true
	banded := pkts("\x02words\n", "\x01"+want)
	if got := string(refusedPush(req, "words", []string{"one two", "three"})); got != banded {
		t.Errorf("got %q, want %q", got, banded)
	}
}

func TestALongReasonOfARefusedPushIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	req := &pushRequest{Commands: []command{{Ref: mainRef}}, ReportStatus: true}
	got, want := string(refusedPush(req, "", []string{"x" + strings.Repeat("ü", 500)})), "ng "+mainRef+" x"+strings.Repeat("ü", 499)+"…\n"
	if !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
