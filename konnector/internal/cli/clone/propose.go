package clone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Proposal is a change of files that is pushed to a branch of its own.
type Proposal struct {
	// Branch is the branch's name, without refs/heads/. One that is there goes on.
	Branch  string
	Message string
	// Files are the contents by path; nil removes a file.
	Files map[string][]byte
}

// ErrUnchanged says that the files are so already, on the branch or on main.
var ErrUnchanged = errors.New("nothing would change")

// ErrNoFile says that a file that is to be removed is not there.
var ErrNoFile = errors.New("there is no such file")

// Propose commits a change on top of its branch, or of main, and pushes it. Begun says
// that the branch was not there. Who makes it is whom the person's git names; without a
// name there, that of the sign-in.
func (c *Clone) Propose(ctx context.Context, p Proposal) (head string, begun bool, err error) {
	ref := "refs/heads/" + p.Branch
	if _, err := c.run(ctx, nil, "fetch", "--quiet", "--prune", "--filter=blob:none", "--no-tags", "--no-write-fetch-head",
		"--no-recurse-submodules", "origin", "+"+ref+"*:"+ref+"*"); err != nil {
		return "", false, err
	}
	base, err := c.base(ctx, ref)
	if err != nil {
		return "", false, err
	}
	dir, err := os.MkdirTemp("", "gitbind-propose-")
	if err != nil {
		return "", false, fmt.Errorf("make a folder for git's index: %w", err)
	}
	defer os.RemoveAll(dir)
	apart := *c
	apart.env = append(slices.Clone(c.env), "GIT_INDEX_FILE="+filepath.Join(dir, "index"))
	tree, err := apart.tree(ctx, base, p.Files)
	if err != nil {
		return "", false, err
	}
	was, err := c.line(ctx, "rev-parse", base+"^{tree}")
	if err != nil {
		return "", false, err
	}
	if tree == was {
		return "", false, ErrUnchanged
	}
	if err := apart.author(ctx); err != nil {
		return "", false, err
	}
	out, err := apart.run(ctx, strings.NewReader(p.Message), "commit-tree", tree, "-p", base, "-F", "-")
	if err != nil {
		return "", false, err
	}
	head = strings.TrimSpace(string(out))
	_, err = c.run(ctx, nil, "push", "--quiet", "origin", head+":"+ref)
	var said *Error
	if errors.As(err, &said) {
		if moved.MatchString(said.Words) {
			return "", false, fmt.Errorf("somebody has pushed to %s meanwhile: run the same again", p.Branch)
		}
		if words := refused.FindStringSubmatch(said.Words); words != nil {
			return "", false, fmt.Errorf("the Git host refuses it: %s", words[1])
		}
	}
	return head, base == main, err
}

var (
	moved = regexp.MustCompile(`\[rejected\]|fetch first|non-fast-forward`)
	// refused is what our own host says of a push.
	refused = regexp.MustCompile(`(?m)^remote: gitbind: (.*?)\s*$`)
)

// base is what a change is made on top of: its branch while main does not have that, and
// main otherwise.
func (c *Clone) base(ctx context.Context, ref string) (string, error) {
	if empty, err := c.isEmpty(ctx); empty || err != nil {
		return "", errors.Join(err, fmt.Errorf("%s has no branch main", c.url))
	}
	var said *Error
	_, err := c.run(ctx, nil, "rev-parse", "--verify", "--quiet", ref)
	if errors.As(err, &said) {
		return main, nil
	}
	if err != nil {
		return "", err
	}
	if onMain, err := c.isOnMain(ctx, ref); err != nil || onMain {
		return main, err
	}
	return ref, nil
}

// tree is that of a commit with other files.
func (c *Clone) tree(ctx context.Context, base string, files map[string][]byte) (string, error) {
	if _, err := c.run(ctx, nil, "read-tree", base); err != nil {
		return "", err
	}
	var entries bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if files[path] == nil {
			there, err := c.line(ctx, "ls-files", "--", path)
			if err != nil {
				return "", err
			}
			if there == "" {
				return "", fmt.Errorf("%w: %s", ErrNoFile, path)
			}
			fmt.Fprintf(&entries, "0 %040d\t%s\x00", 0, path)
			continue
		}
		out, err := c.run(ctx, bytes.NewReader(files[path]), "hash-object", "-w", "--stdin")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&entries, "100644 %s\t%s\x00", strings.TrimSpace(string(out)), path)
	}
	if _, err := c.run(ctx, &entries, "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	// Most files are not here.
	return c.line(ctx, "write-tree", "--missing-ok")
}

// author makes sure that git has a name for the person.
func (c *Clone) author(ctx context.Context) error {
	var said *Error
	_, err := c.run(ctx, nil, "config", "--get", "user.email")
	if !errors.As(err, &said) || slices.ContainsFunc(c.env, func(v string) bool { return strings.HasPrefix(v, "GIT_AUTHOR_EMAIL=") }) {
		return err
	}
	if !strings.Contains(c.username, "@") {
		return errors.New("git does not know who you are: git config --global user.name NAME, and git config --global user.email ADDRESS")
	}
	name, _, _ := strings.Cut(c.username, "@")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		c.env = append(c.env, "GIT_"+who+"_NAME="+name, "GIT_"+who+"_EMAIL="+c.username)
	}
	return nil
}

// line is what git prints, on one line.
func (c *Clone) line(ctx context.Context, args ...string) (string, error) {
	out, err := c.run(ctx, nil, args...)
	return strings.TrimSpace(string(out)), err
}
