package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/policies/evaluator"
)

// manifests are the files with manifests at paths, and in the folders there.
func manifests(paths []string) ([]evaluator.File, error) {
	var all []evaluator.File
	for _, path := range paths {
		err := walk(path, func(name string, named bool) error {
			if !named && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
				return nil
			}
			data, err := os.ReadFile(name)
			all = append(all, evaluator.File{Name: filepath.ToSlash(name), Data: data})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// walk visits a file, which is then named, or the files in a folder that are not hidden.
func walk(path string, visit func(name string, named bool) error) error {
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == path && !entry.IsDir():
			return visit(name, true)
		case name != path && strings.HasPrefix(entry.Name(), ".") && entry.IsDir():
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		return visit(name, false)
	})
}

// claimFile is a file at the place of a claim.
type claimFile struct {
	// root is the folder of the clone, path the one in the repository, name the one that
	// the person knows it by.
	root, path, name string
	data             []byte
}

// claimFiles are those at paths, and in the folders there.
func claimFiles(paths []string) ([]claimFile, error) {
	var all []claimFile
	for _, path := range paths {
		err := walk(path, func(name string, named bool) error {
			root, in, err := place(name)
			if err != nil {
				return err
			}
			if in == "" {
				if named {
					return fmt.Errorf("%s is not at the place of a claim, %s", name, contract.Key{Binding: "PLURAL.GROUP", Namespace: "NAMESPACE", Name: "NAME"}.Path())
				}
				return nil
			}
			data, err := os.ReadFile(name)
			all = append(all, claimFile{root: root, path: in, name: filepath.ToSlash(name), data: data})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// place says which clone a file is in, and where, if it is at the place of a claim: below
// the innermost folder for which that is so.
func place(name string) (root, path string, err error) {
	full, err := filepath.Abs(name)
	if err != nil {
		return "", "", err
	}
	full = filepath.ToSlash(full)
	for i := len(full); ; {
		if i = strings.LastIndex(full[:i], "/"+contract.Root+"/"); i < 0 {
			return "", "", nil
		}
		if isClaim(full[i+1:]) {
			return filepath.FromSlash(full[:i]), full[i+1:], nil
		}
	}
}

// isClaim says that what is at a path has to be a claim.
func isClaim(path string) bool {
	parts := strings.Split(path, "/")
	return len(parts) > 3 && path == contract.ClaimsPath(parts[1])+"/"+strings.Join(parts[3:], "/")
}

// bases are the claims of a revision, by clone.
type bases struct {
	revision string
	read     map[string]map[string][]byte
}

// of is a file as the revision has it; nil if it does not, or none is asked for.
func (b *bases) of(ctx context.Context, f claimFile) ([]byte, error) {
	if b.revision == "" {
		return nil, nil
	}
	all, ok := b.read[f.root]
	if !ok {
		var err error
		if all, err = filesAt(ctx, f.root, b.revision); err != nil {
			return nil, err
		}
		if b.read == nil {
			b.read = map[string]map[string][]byte{}
		}
		b.read[f.root] = all
	}
	return all[f.path], nil
}

// filesAt has all files below bindings/ of a revision, as they are in it: what git makes of them
// elsewhere is up to a .gitattributes, which may leave some out.
func filesAt(ctx context.Context, root, revision string) (map[string][]byte, error) {
	// A revision that looks like an option, or names a file, is none.
	id, err := git(ctx, root, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil {
		return nil, fmt.Errorf("--base %s: %s has no such revision; in CI, fetch it first (git fetch origin main)", revision, root)
	}
	listed, err := git(ctx, root, nil, "ls-tree", "-r", "-z", strings.TrimSpace(string(id)), "--", contract.Root)
	if err != nil {
		return nil, err
	}
	entries, err := clone.ParseTree(listed)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e clone.Entry) bool { return e.Mode&modeType != modeFile })
	var names strings.Builder
	for _, e := range entries {
		names.WriteString(e.Blob + "\n")
	}
	out, err := git(ctx, root, strings.NewReader(names.String()), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	contents, err := clone.ParseBatch(bytes.NewReader(out))
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, e := range entries {
		all[e.Path] = contents[e.Blob]
	}
	return all, nil
}

// Of a mode of git, modeType says what it is of, and modeFile is that of a file, executable or not.
const modeType, modeFile = 0o170000, 0o100000

func git(ctx context.Context, dir string, in io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin = dir, in
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return nil, fmt.Errorf("git %s: %s", args[0], bytes.TrimSpace(exit.Stderr))
	case err != nil:
		return nil, fmt.Errorf("--base needs git on the PATH: %w", err)
	}
	return out, nil
}
