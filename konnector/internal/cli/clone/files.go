package clone

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gitbind.dev/gitbridge/contract"
)

// Entry is a file on main.
type Entry struct {
	Path string
	Mode uint32
	// Blob names the content; "" for a submodule.
	Blob string
}

// Files lists what main has at a path, or below it.
func (c *Clone) Files(ctx context.Context, path string) ([]Entry, error) {
	if empty, err := c.isEmpty(ctx); empty || err != nil {
		return nil, err
	}
	out, err := c.run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", main, "--", path)
	if err != nil {
		return nil, err
	}
	return ParseTree(out)
}

// ParseTree reads what git ls-tree -r -z prints.
func ParseTree(out []byte) ([]Entry, error) {
	var entries []Entry
	for line := range strings.SplitSeq(string(out), "\x00") {
		head, path, ok := strings.Cut(line, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 3 {
			continue
		}
		mode, err := strconv.ParseUint(f[0], 8, 32)
		if err != nil {
			return nil, fmt.Errorf("read git's list of files: %w", err)
		}
		entries = append(entries, Entry{Path: path, Mode: uint32(mode), Blob: blob(f[0], f[2])})
	}
	return entries, nil
}

// Read gives the contents of blobs: those that are not here yet are fetched, all
// at once. Of what is larger than a claim can be, it gives the beginning that
// says so.
func (c *Clone) Read(ctx context.Context, blobs []string) (map[string][]byte, error) {
	blobs = slices.DeleteFunc(slices.Clone(blobs), func(b string) bool { return b == "" })
	slices.Sort(blobs)
	blobs = slices.Compact(blobs)
	if len(blobs) == 0 {
		return nil, nil
	}
	names := strings.Join(blobs, "\n") + "\n"
	// git would fetch each for itself. What is here already, it does not fetch.
	if _, err := c.run(ctx, strings.NewReader(names), "-c", "fetch.negotiationAlgorithm=noop", "fetch", "--quiet", "--no-tags",
		"--no-write-fetch-head", "--no-recurse-submodules", "--filter=blob:none", "--stdin", "origin"); err != nil {
		return nil, err
	}
	out, git := io.Pipe()
	go func() { git.CloseWithError(c.runInto(ctx, strings.NewReader(names), git, "cat-file", "--batch")) }()
	defer out.Close()
	return ParseBatch(out)
}

// ParseBatch reads what git cat-file --batch prints of blobs: "<blob> blob <size>\n<content>\n" again and again. It
// keeps no more of a content than it gives: anybody may have put a huge file there.
func ParseBatch(out io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	r := bufio.NewReader(out)
	for {
		head, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && head == "" {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read a file from git: %w", err)
		}
		f := strings.Fields(head)
		if len(f) != 3 {
			return nil, fmt.Errorf("read a file from git: %q", strings.TrimSpace(head))
		}
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read a file from git: %w", err)
		}
		data := make([]byte, min(size, contract.MaxFileSize+1))
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, fmt.Errorf("read a file from git: %w", err)
		}
		// The rest, and the line end behind it.
		if _, err := io.CopyN(io.Discard, r, size-int64(len(data))+1); err != nil {
			return nil, fmt.Errorf("read a file from git: %w", err)
		}
		files[f[0]] = data
	}
}
