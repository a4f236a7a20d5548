package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/pack"
)

// onePack is a small pack, and the folder of packs of a repository.
func onePack(t *testing.T, repository string) (p packFile, dir string) {
	t.Helper()
	dir = filepath.Join(repository, "objects", "pack")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o := &objects{}
	name := o.blob("x")
	return packFile{handmadePack(o.entries...), []pack.Entry{{Name: plumbing.NewHash(name), Offset: 12}}}, dir
}

// Nobody would ever remove a pack without an index.
func TestAPackWhoseIndexHasNoRoomIsNotKept(t *testing.T) {
	t.Parallel()
	repository := smallDisk(t, 1<<20)
	p, dir := onePack(t, repository)
	heads := filepath.Join(repository, "refs", "heads")
	if err := os.MkdirAll(heads, 0o700); err != nil {
		t.Fatal(err)
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(repository, &disk); err != nil {
		t.Fatal(err)
	}
	// The pack takes one block, and the index another one.
	if err := os.WriteFile(filepath.Join(repository, "ballast"), make([]byte, (int64(disk.Bavail)-1)*disk.Bsize), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.store(filepath.Join(dir, packName()), alone); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("stored: %v", err)
	}
	if _, err := p.push(repository, command{Ref: mainRef}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("pushed: %v", err)
	}
	for _, dir := range []string{dir, heads} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// A repack that read the branches before removes a pack that none of them reaches, unless
// there is a mark to keep it.
func TestAPackIsKeptFromARepackUntilItsBranchIsSet(t *testing.T) {
	t.Parallel()
	repository := t.TempDir()
	p, dir := onePack(t, repository)
	heads := filepath.Join(repository, "refs", "heads")
	if err := os.MkdirAll(heads, 0o700); err != nil {
		t.Fatal(err)
	}
	old, next := plumbing.NewHash(strings.Repeat("1", 40)), plumbing.NewHash(strings.Repeat("2", 40))
	write(t, filepath.Join(heads, "main"), []byte(old.String()+"\n"))
	events, err := syscall.InotifyInit1(syscall.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(events)
	for _, dir := range []string{dir, heads} {
		if _, err := syscall.InotifyAddWatch(events, dir, syscall.IN_CREATE|syscall.IN_MOVED_TO|syscall.IN_DELETE); err != nil {
			t.Fatal(err)
		}
	}
	if moved, err := p.push(repository, command{mainRef, old, next}); moved || err != nil {
		t.Fatal(moved, err)
	}
	buffer := make([]byte, 4096)
	n, err := syscall.Read(events, buffer)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, name := range regexp.MustCompile(`\.keep|\.pack|\.idx|main\x00`).FindAllString(string(buffer[:n]), -1) {
		order = append(order, strings.Trim(name, ".\x00"))
	}
	if want := []string{"keep", "pack", "idx", "main", "keep"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

// Git would mark a pack of this name again, which a repack may have found unmarked.
func TestAPackThatIsHandedToGitHasAnotherName(t *testing.T) {
	t.Parallel()
	repository := t.TempDir()
	p, dir := onePack(t, repository)
	// The branch cannot be locked.
	if moved, err := p.push(repository, command{Ref: mainRef}); moved || !errors.Is(err, errTaken) {
		t.Errorf("moved: %v, %v", moved, err)
	}
	for _, kind := range []string{".pack", ".idx", ".keep"} {
		if there(filepath.Join(dir, "pack-"+p.sum().String()+kind)) {
			t.Errorf("there is a %s with git's name for it", kind)
		}
	}
}

func TestMarksOfPushesThatWereKilledGo(t *testing.T) {
	t.Parallel()
	s := serve(t)
	repo := s.open(cluster)
	now := time.Now()
	for _, c := range []struct {
		name, text string
		// pack is how old the pack was when the mark was made.
		pack time.Duration
		goes bool
	}{
		{"of the host", keptUntilSet, time.Second, true},
		{"of the host, for long", keptUntilSet, time.Hour, true},
		{"of git", "receive-pack 42 on host\n", time.Second, true},
		{"of git's fast-import", "fast-import", time.Second, true},
		{"half of one", keptUntilSet[:9], time.Second, true},
		{"half of one of git", "receive", time.Second, true},
		{"without its text", "", time.Second, true},
		{"with zeros", "\x00\x00", time.Second, true},
		{"without a pack", "", -1, true},
		{"of somebody", "", time.Hour, false},
		{"of somebody, with a reason", "the good one\n", time.Second, false},
	} {
		path := filepath.Join(repo.dir, "objects", "pack", packName())
		write(t, path+".keep", []byte(c.text))
		if c.pack >= 0 {
			for _, kind := range []string{".idx", ".pack"} {
				write(t, path+kind, nil)
				if err := os.Chtimes(path+kind, now, now.Add(-c.pack)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := repo.sweepLocks(now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if there(path+".keep") == c.goes {
			t.Errorf("%s: it goes: %v, want %v", c.name, !c.goes, c.goes)
		}
	}
}

// TestHalvesOfPacksGoLater: git leaves them, whatever their age is. They are no use, but
// somebody may make an index for a pack.
func TestHalvesOfPacksGoLater(t *testing.T) {
	t.Parallel()
	s := serve(t)
	repo := s.open(cluster)
	dir := filepath.Join(repo.dir, "objects", "pack")
	now := time.Now()
	old := now.Add(-2 * keepLost)
	for _, name := range []string{"pack-1.pack", "pack-1.rev", "pack-2.idx", "pack-3.pack", "pack-3.idx", "pack-4.pack"} {
		write(t, filepath.Join(dir, name), nil)
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "pack-4.pack"), nil) // now
	if err := repo.sweepLocks(now.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"pack-1.pack": false, "pack-1.rev": false, "pack-2.idx": false, "pack-3.pack": true, "pack-3.idx": true, "pack-4.pack": true,
	} {
		if there(filepath.Join(dir, name)) != want {
			t.Errorf("%s is there: %v, want %v", name, !want, want)
		}
		info, err := os.Stat(filepath.Join(dir, "tmp_"+strings.ReplaceAll(name, ".", "_")))
		if !want && (err != nil || info.ModTime().Before(now.Add(-time.Minute))) {
			t.Errorf("%s has no two weeks: %v, %v", name, info, err)
		}
	}
}
