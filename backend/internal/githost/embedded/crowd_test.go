package embedded

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand"
	"net"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/pace"
)

// large makes a repository with something in it that no socket's buffers hold,
// and gives what a fetch of it sends.
func (s *served) large(t *testing.T, id string) (want string) {
	t.Helper()
	if err := s.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 12<<20)
	rand.New(rand.NewSource(1)).Read(noise)
	dir := t.TempDir()
	c := &clone{t: t, dir: dir, role: access.Owner}
	if out, err := stockGit(t, "", nil, "clone", "--quiet", s.remote(access.Owner, id), dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.as("alice@example.com")
	c.commit("large", map[string]string{"large": string(noise)})
	c.pushed("HEAD:main")
	return pkts("want "+strings.TrimSpace(c.git("rev-parse", "HEAD"))+" ofs-delta\n") + "0009done\n"
}

// slowFetch asks for a fetch and takes nothing of the answer.
func (s *served) slowFetch(t *testing.T, role access.Role, id, want string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	who := base64.StdEncoding.EncodeToString([]byte(role.String() + ":" + role.String() + "-" + id))
	fmt.Fprintf(conn, "POST /git/%s.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: %d\r\n\r\n%s", id, who, len(want), want)
	return conn
}

// anyPace lets slow clients keep their places.
var anyPace = pace.Limits{Idle: time.Hour, Rate: 1, Grace: time.Hour, Whole: time.Hour}

func TestH4_SlowReadersOfFourRepositoriesLeaveOthersTheirPlaces(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.clientLimits = anyPace
	for i := range 4 {
		id := fmt.Sprintf("mallory%d", i)
		want := s.large(t, id)
		for range 16 {
			s.slowFetch(t, access.Owner, id, want)
		}
	}
	soon(t, "each of them takes what it may", func() bool { return s.uploads.inWork() == 4*s.uploads.perCluster })
	// No place becomes free: who has to wait for one is refused.
	for _, role := range []access.Role{access.Bridge, access.Konnector, access.Owner} {
		if out, err := stockGit(t, "", nil, "clone", "-q", s.remote(role, cluster), t.TempDir()); err != nil {
			t.Errorf("the %s of another tenant: %v\n%s", role, err, out)
		}
	}
}

func TestH4_OneOwnersClustersCountTogether(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *Config) {
		cfg.OwnerOf = func(_ context.Context, cluster string) string { return strings.TrimRight(cluster, "0123456789") }
	})
	s.clientLimits, s.uploads.wait = anyPace, time.Hour
	for i := range 4 {
		id := fmt.Sprintf("mallory%d", i)
		want := s.large(t, id)
		for range s.uploads.perCluster {
			s.slowFetch(t, access.Konnector, id, want)
		}
	}
	soon(t, "they take what one owner may", func() bool { return s.uploads.inWork() == s.uploads.perOwner })
	soon(t, "the others wait", func() bool { return s.fetching.inWork() == 4*s.uploads.perCluster })
	if got := s.uploads.inWork(); got != s.uploads.perOwner {
		t.Errorf("%d are sent to one owner, at most %d", got, s.uploads.perOwner)
	}
}

// slow is for how long a client that is too slow has its place: long enough for that to be
// seen on a machine on which others work, too.
const slow = 3 * time.Second

func TestH4_AClientThatTakesItsAnswerTooSlowlyLosesItsPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		pace.Limits
	}{
		{"below the rate", pace.Limits{Idle: time.Minute, Rate: 64 << 20, Grace: slow, Whole: time.Hour}},
		{"beyond the whole time", pace.Limits{Idle: time.Minute, Rate: 1, Grace: time.Hour, Whole: slow}},
		{"nothing at all", pace.Limits{Idle: slow, Rate: 1, Grace: time.Hour, Whole: time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			s.clientLimits.Whole = time.Hour
			want := s.large(t, cluster)
			s.clientLimits = c.Limits
			conn := s.slowFetch(t, access.Owner, cluster, want)
			soon(t, "it is sent", func() bool { return s.uploads.inWork() == 1 })
			if c.name != "nothing at all" {
				go trickle(conn)
			}
			soon(t, "its place is free again", func() bool { return s.uploads.inWork() == 0 && s.fetching.inWork() == 0 })
		})
	}
}

// trickle takes a byte now and then.
func trickle(conn net.Conn) {
	for b := make([]byte, 1); ; time.Sleep(5 * time.Millisecond) {
		if _, err := conn.Read(b); err != nil {
			return
		}
	}
}

func TestH4_AClientThatSendsItsPushTooSlowlyLosesItsPlace(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.clientLimits = pace.Limits{Idle: time.Minute, Rate: 1 << 20, Grace: slow, Whole: time.Hour}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /git/%s.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nAuthorization: Basic b3duZXI6b3duZXItazN4OWQyYWJxdw==\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: 1000000\r\n\r\n00", cluster)
	soon(t, "it is read", func() bool { return s.pushing.inWork() == 1 })
	go func() {
		for {
			if _, err := conn.Write([]byte("0")); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	soon(t, "its place is free again", func() bool { return s.pushing.inWork() == 0 })
}

// inWork is how many places are taken.
func (p *places) inWork() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
