package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/contract"
)

const (
	// maxReads bounds the git programs that read for people, over all
	// repositories.
	maxReads = 8
	// maxRepositoryReads bounds those in one repository, so that what one tenant
	// pushed costs the others nothing; an owner has twice as many.
	maxRepositoryReads = 2
	// defaultReadTimeout bounds each.
	defaultReadTimeout = 10 * time.Second
	// maxFiles and maxTree bound what is read for a list, in files and in bytes:
	// a few small folders that hold each other many times are endless files.
	maxFiles = 100_000
	maxTree  = 16 << 20
	// maxList bounds a list itself, in bytes of memory: some 40,000 claims.
	maxList = 8 << 20
	// fileSize is what a file of a list takes beside its path.
	fileSize = 128
	// maxDiff bounds the diff of one commit, in bytes, and maxDiffLine a line of
	// it.
	maxDiff     = 64 << 10
	maxDiffLine = 4 << 10
	// maxLogDiffs bounds the diffs of one answer as a whole, in bytes as diffLineCost counts.
	maxLogDiffs = 1 << 20
	// maxLog bounds the commits of one answer, and maxWith the further authors of a commit.
	maxLog  = 500
	maxWith = 100
)

var _ githost.History = (*Host)(nil)

var (
	// readable are the revisions that people may read: by name the two branches
	// of the contract, and a commit by its whole hash.
	readable = regexp.MustCompile(`^(main|status|[0-9a-f]{40})$`)
	blobName = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// Head implements githost.History.
func (h *Host) Head(ctx context.Context, cluster, branch string) (string, error) {
	var head string
	err := h.reading(ctx, cluster, branch, func(_ context.Context, _ *repository, commit string) error {
		head = commit
		return nil
	})
	return head, err
}

// List implements githost.History.
func (h *Host) List(ctx context.Context, cluster, revision, folder string, keep func(path string) bool) ([]githost.File, error) {
	if err := checkPath(folder); err != nil {
		return nil, err
	}
	var files []githost.File
	err := h.reading(ctx, cluster, revision, func(ctx context.Context, repo *repository, commit string) error {
		return repo.stream(ctx, nil, func(out *bufio.Reader) (err error) {
			files, err = readTree(out, keep)
			return err
		}, "--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", commit, "--", folder+"/")
	})
	return files, err
}

// readTree keeps of what git ls-tree -z writes: "<mode> <type> <hash>\t<path>\0".
func readTree(out *bufio.Reader, keep func(path string) bool) ([]githost.File, error) {
	var files []githost.File
	count, read, kept := 0, 0, 0
	for {
		line, size, err := readEntry(out)
		if errors.Is(err, io.EOF) && size == 0 {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if count, read = count+1, read+size; count > maxFiles || read > maxTree {
			return nil, githost.ErrTooMany
		}
		if line == nil {
			continue
		}
		about, path, ok := strings.Cut(string(line), "\t")
		f := strings.Fields(about)
		if !ok || len(f) != 3 {
			return nil, fmt.Errorf("git ls-tree: unexpected line %q", abbreviate(string(line)))
		}
		if len(path) > githost.MaxPath || !keep(path) {
			continue
		}
		if kept += len(line) + fileSize; kept > maxList {
			return nil, githost.ErrTooMany
		}
		files = append(files, githost.File{Path: path, Blob: f[2], Regular: f[0] == "100644"})
	}
}

// readEntry reads up to a NUL, which it leaves out, and says how much it read.
// line is nil for one that is longer than any with a path to keep, of which no
// more than the buffer is held, and counts only until the next call.
func readEntry(out *bufio.Reader) (line []byte, size int, err error) {
	for {
		part, err := out.ReadSlice(0)
		whole := size == 0 && err == nil
		switch size += len(part); {
		case errors.Is(err, bufio.ErrBufferFull) && size <= maxTree:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, size, nil
		case err != nil:
			return nil, size, err
		case whole && size <= githost.MaxPath+fileSize:
			return part[:len(part)-1], size, nil
		}
		return nil, size, nil
	}
}

// Read implements githost.History.
func (h *Host) Read(ctx context.Context, cluster, revision, path string) (data []byte, blob string, err error) {
	if err := checkPath(path); err != nil {
		return nil, "", err
	}
	err = h.reading(ctx, cluster, revision, func(ctx context.Context, repo *repository, commit string) error {
		return repo.blobs(ctx, []string{commit + ":" + path}, func(found string, content []byte) error {
			blob, data = found, bytes.Clone(content)
			if content == nil {
				return githost.ErrTooLarge
			}
			return nil
		})
	})
	return data, blob, err
}

// ReadAll calls fn with the content of each file at a revision, in their order: nil for one that
// is not there, and beyond githost.MaxFile. The content is fn's only until it returns. The error
// is githost.ErrNotFound for a revision that is not there.
func (h *Host) ReadAll(ctx context.Context, cluster, revision string, paths []string, fn func(path string, data []byte) error) error {
	for _, path := range paths {
		if err := checkPath(path); err != nil {
			return err
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return h.reading(ctx, cluster, revision, func(ctx context.Context, repo *repository, commit string) error {
		var names []string
		for _, path := range paths {
			names = append(names, commit+":"+path)
		}
		i := -1
		return repo.blobsOrNone(ctx, names, func(_ string, data []byte) error {
			i++
			return fn(paths[i], data)
		})
	})
}

// Blobs implements githost.History.
func (h *Host) Blobs(ctx context.Context, cluster string, blobs []string, fn func(string, []byte) error) error {
	for _, b := range blobs {
		if !blobName.MatchString(b) {
			return fmt.Errorf("%q is no Git hash", abbreviate(b))
		}
	}
	if len(blobs) == 0 {
		return nil
	}
	return h.reading(ctx, cluster, "main", func(ctx context.Context, repo *repository, _ string) error {
		return repo.blobs(ctx, blobs, fn)
	})
}

// reading lets fn read a repository in its turn and in time, at the commit that a
// revision is.
func (h *Host) reading(ctx context.Context, cluster, revision string, fn func(ctx context.Context, repo *repository, commit string) error) error {
	if !readable.MatchString(revision) {
		return fmt.Errorf("%q is no revision that people read", abbreviate(revision))
	}
	h.fresh(ctx, cluster)
	repo, ok, err := h.repository(cluster)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("read repository %s: it is not on this host", cluster)
	}
	leave, err := h.reads.enter(ctx, holder{owner: h.owner(ctx, cluster), cluster: cluster, role: access.Owner})
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, h.readTimeout)
	defer cancel()
	commit, err := repo.resolve(ctx, revision)
	if err == nil {
		err = fn(ctx, repo, commit)
	}
	switch {
	case err == nil || errors.Is(err, githost.ErrNotFound) || errors.Is(err, githost.ErrTooLarge) || errors.Is(err, githost.ErrTooMany):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("read repository %s: %w", cluster, ctx.Err())
	}
	return fmt.Errorf("read repository %s: %w", cluster, err)
}

// resolve gives the commit that a revision is.
func (r *repository) resolve(ctx context.Context, revision string) (string, error) {
	if revision == "main" || revision == "status" {
		revision = contract.HeadsPrefix + revision
	}
	out, err := r.git.output(ctx, r.dir, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", githost.ErrNotFound
	}
	return strings.TrimSpace(string(out)), err
}

// checkPath refuses what git could take for anything but a plain path: it goes
// to git as an argument, and as a line of its input.
func checkPath(path string) error {
	bad := path == "" || len(path) > 4096 || !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl)
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || part == "" || part == "." || part == ".."
	}
	if bad {
		return fmt.Errorf("%q is no path of a repository", abbreviate(path))
	}
	return nil
}

// stream runs git and hands what it writes to read. When read returns before the
// end, git is stopped.
func (r *repository) stream(ctx context.Context, stdin io.Reader, read func(*bufio.Reader) error, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := r.git.command(ctx, r.dir, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = stdin, &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := r.git.start(cmd); err != nil {
		return err
	}
	buffered := bufio.NewReaderSize(out, 64<<10)
	err = read(buffered)
	if err != nil {
		cancel()
		_ = cmd.Wait() // the first error is the one to tell
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("git: %w: %s", err, strings.TrimSpace(abbreviate(stderr.String())))
	}
	return nil
}

// blobs reads blobs by name, in their order, and gives them by their hash.
func (r *repository) blobs(ctx context.Context, names []string, fn func(blob string, data []byte) error) error {
	return r.blobsOrNone(ctx, names, func(blob string, data []byte) error {
		if blob == "" {
			return githost.ErrNotFound
		}
		return fn(blob, data)
	})
}

// blobsOrNone does so, and gives "" for one that is not there.
func (r *repository) blobsOrNone(ctx context.Context, names []string, fn func(blob string, data []byte) error) error {
	var buffer []byte
	return r.stream(ctx, strings.NewReader(strings.Join(names, "\n")+"\n"), func(out *bufio.Reader) error {
		for _, name := range names {
			blob, size, err := header(out, name)
			if size < 0 {
				if err := fn("", nil); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			if size > githost.MaxFile {
				if _, err := io.CopyN(io.Discard, out, size+1); err != nil {
					return err
				}
				if err := fn(blob, nil); err != nil {
					return err
				}
				continue
			}
			if int64(cap(buffer)) < size+1 {
				buffer = make([]byte, size+1, 2*(size+1))
			}
			buffer = buffer[:size+1]
			if _, err := io.ReadFull(out, buffer); err != nil {
				return err
			}
			if err := fn(blob, buffer[:size:size]); err != nil {
				return err
			}
		}
		return nil
	}, "cat-file", "--batch")
}

// header reads the line that git cat-file --batch writes before a blob:
// "<hash> <type> <size>", or "<name> missing", which has size -1.
func header(out *bufio.Reader, name string) (blob string, size int64, err error) {
	line, err := out.ReadString('\n')
	if err != nil {
		return "", 0, err
	}
	line = strings.TrimSuffix(line, "\n")
	if line == name+" missing" {
		return "", -1, githost.ErrNotFound
	}
	f := strings.Fields(line)
	if len(f) != 3 {
		return "", 0, fmt.Errorf("git cat-file: unexpected answer %q", abbreviate(line))
	}
	if f[1] != "blob" {
		return "", 0, githost.ErrNotFound
	}
	size, err = strconv.ParseInt(f[2], 10, 64)
	return f[0], size, err
}
