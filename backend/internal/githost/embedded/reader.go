package embedded

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// emptyTree is in every repository, whether or not anybody stored it.
var emptyTree = plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")

// reader reads commits and trees that a repository has. It starts git cat-file
// only when the cache does not know the answer: a push on top of the last one
// costs no process. It is used by one goroutine, and must be closed.
type reader struct {
	repo *repository
	ctx  context.Context

	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// maxRead bounds an object that is read from a repository for a check.
const maxRead = 32 << 20

// object implements objectSource: a file comes without its content.
func (r *reader) object(name plumbing.Hash) (object, bool, error) {
	if name == emptyTree {
		return object{Type: plumbing.TreeObject, Data: []byte{}}, true, nil
	}
	if o, ok := r.repo.objects.get(name); ok {
		return o, true, nil
	}
	o, ok, err := r.read(name)
	if ok && judged(o.Type) {
		r.repo.objects.put(name, o)
	}
	return o, ok, err
}

// read reads an object that is not remembered.
func (r *reader) read(name plumbing.Hash) (object, bool, error) {
	typ, size, err := r.info(name)
	if err != nil || typ == plumbing.InvalidObject {
		return object{}, false, err
	}
	if !judged(typ) {
		return object{Type: typ, Size: size}, true, nil
	}
	if size > maxRead {
		return object{}, false, fmt.Errorf("%w: %s has %d bytes, at most %d", errObject, name, size, maxRead)
	}
	return r.contents(name, typ, size)
}

func (r *reader) contents(name plumbing.Hash, typ plumbing.ObjectType, size int64) (object, bool, error) {
	if _, _, err := r.ask("contents", name); err != nil {
		return object{}, false, err
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(r.out, data); err != nil {
		return object{}, false, fmt.Errorf("git cat-file: %w", err)
	}
	return object{Type: typ, Size: size, Data: data[:size]}, true, nil
}

// hasCommit tells whether the repository has this commit.
func (r *reader) hasCommit(name plumbing.Hash) (bool, error) {
	if o, ok := r.repo.objects.get(name); ok {
		return o.Type == plumbing.CommitObject, nil
	}
	typ, _, err := r.info(name)
	return typ == plumbing.CommitObject, err
}

// info gives an object's type, which is InvalidObject when it is not there.
func (r *reader) info(name plumbing.Hash) (plumbing.ObjectType, int64, error) {
	return r.ask("info", name)
}

func (r *reader) ask(what string, name plumbing.Hash) (plumbing.ObjectType, int64, error) {
	if err := r.start(); err != nil {
		return plumbing.InvalidObject, 0, err
	}
	if _, err := fmt.Fprintf(r.in, "%s %s\n", what, name); err != nil {
		return plumbing.InvalidObject, 0, fmt.Errorf("git cat-file: %w", err)
	}
	line, err := r.out.ReadString('\n')
	if err != nil {
		return plumbing.InvalidObject, 0, fmt.Errorf("git cat-file: %w", err)
	}
	f := strings.Fields(line)
	if len(f) == 2 && f[1] == "missing" {
		return plumbing.InvalidObject, 0, nil
	}
	if len(f) != 3 || f[0] != name.String() {
		return plumbing.InvalidObject, 0, fmt.Errorf("git cat-file: unexpected answer %q", abbreviate(line))
	}
	typ, err := plumbing.ParseObjectType(f[1])
	if err != nil {
		return plumbing.InvalidObject, 0, fmt.Errorf("git cat-file: %w", err)
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	return typ, size, err
}

func (r *reader) start() error {
	if r.process != nil {
		return nil
	}
	cmd := r.repo.git.command(r.ctx, r.repo.dir, "cat-file", "--batch-command")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := r.repo.git.start(cmd); err != nil {
		return fmt.Errorf("git cat-file: %w", err)
	}
	r.process, r.in, r.out = cmd, in, bufio.NewReader(out)
	return nil
}

// close ends git cat-file. It is not waited for: its end takes a millisecond
// that a push need not spend.
func (r *reader) close() {
	if r.process == nil {
		return
	}
	r.in.Close()
	go func(p *exec.Cmd) { _ = p.Wait() }(r.process)
}
