package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gitbind.dev/backend/internal/githost"
)

var _ githost.Owned = (*Host)(nil)

// ownerFile has whose a repository is. Git knows no such file, and backups have it.
const ownerFile = "gitbind-owner"

// Owner implements githost.Owned.
func (h *Host) Owner(_ context.Context, id string) (string, error) {
	owner, err := os.ReadFile(filepath.Join(h.ownerDir(id), ownerFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read whose repository %s is: %w", id, err)
	}
	return strings.TrimSpace(string(owner)), nil
}

// SetOwner implements githost.Owned.
func (h *Host) SetOwner(ctx context.Context, id, owner string) error {
	if was, err := h.Owner(ctx, id); err != nil || was == owner {
		return err
	}
	if err := writeOwner(h.ownerDir(id), owner); err != nil {
		return fmt.Errorf("keep whose repository %s is: %w", id, err)
	}
	return nil
}

func (h *Host) ownerDir(id string) string { return filepath.Join(h.git.dir, id+".git") }

// writeOwner has all of it written, or nothing.
func writeOwner(dir, owner string) error {
	file, err := writeDurably(dir, ownerFile+"-", func(w io.Writer) error {
		_, err := io.WriteString(w, owner+"\n")
		return err
	})
	if err != nil {
		return err
	}
	defer os.Remove(file) // which fails once it is renamed
	if err := os.Rename(file, filepath.Join(dir, ownerFile)); err != nil {
		return err
	}
	return syncPath(dir)
}
