package embedded

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	// processMemory bounds what each git program allocates, in bytes, and processTime
	// the time of a processor that it takes; repackTimeout is that of a repack.
	processMemory = 512 << 20
	processTime   = 5 * time.Minute
)

// start starts a git program within its limits: what others pushed must not cost more
// than was thought. It reads nothing before they are set, so that the programs that it
// starts for what it reads have them, too.
func (g *git) start(cmd *exec.Cmd) error {
	ready := make(chan struct{})
	defer close(ready)
	if _, pipe := cmd.Stdin.(*os.File); cmd.Stdin != nil && !pipe {
		cmd.Stdin = &delayed{cmd.Stdin, ready}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := limitProcess(cmd.Process.Pid, g.memory, processTime); err != nil {
		_ = cmd.Process.Kill()
		go func() { _ = cmd.Wait() }()
		return fmt.Errorf("limit the memory of git: %w", err)
	}
	return nil
}

// run is start, and waits for the end.
func (g *git) run(cmd *exec.Cmd) error {
	if err := g.start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// maintain runs git for long. It starts others by itself, so a shell sets the limits,
// for which a push has no time.
func (g *git) maintain(ctx context.Context, dir string, args ...string) error {
	limits := fmt.Sprintf(`ulimit -d %d && ulimit -t %.0f && exec "$0" "$@"`, g.memory>>10, repackTimeout.Seconds())
	cmd := g.command(ctx, dir, args...)
	cmd.Args = append([]string{"sh", "-c", limits, g.program}, args...)
	var err error
	if cmd.Path, err = exec.LookPath("sh"); err != nil {
		return fmt.Errorf("find the shell that git needs: %w", err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, abbreviate(string(out)))
	}
	return nil
}

// delayed is a reader that begins when it is told to.
type delayed struct {
	io.Reader
	ready <-chan struct{}
}

func (d *delayed) Read(b []byte) (int, error) {
	<-d.ready
	return d.Reader.Read(b)
}
