package platform

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gitbind.dev/test/env"
)

// saysTheTime prints the time, and for how long it has run.
const saysTheTime = `package main

import (
	"fmt"
	"time"
)

func main() {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		fmt.Println(time.Now().Unix(), int64(time.Since(began)))
	}
}
`

func TestAClockIsWrongForAsLongAsItIsSetSo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Go's own packages: not with -short")
	}
	dir := t.TempDir()
	overlay, err := writeClocks(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	p := &Platform{Env: &env.Env{Dir: dir}, clocks: true}
	if err := os.WriteFile(source, []byte(saysTheTime), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay="+overlay, "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = p.withClock(env.Program{Name: "program"}).Env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	for _, by := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, 0} {
		if err := p.SetClock("program", by); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; {
			if !lines.Scan() || time.Now().After(deadline) {
				t.Fatalf("the clock is not wrong by %s: %v", by, lines.Err())
			}
			var says, runs int64
			if _, err := fmt.Sscan(lines.Text(), &says, &runs); err != nil {
				t.Fatal(err)
			}
			if time.Duration(runs).Abs() > time.Hour {
				t.Fatalf("with a clock that is wrong by %s, it says that it ran for %s", by, time.Duration(runs))
			}
			if time.Until(time.Unix(says, 0).Add(-by)).Abs() < time.Minute {
				break
			}
		}
	}
}
