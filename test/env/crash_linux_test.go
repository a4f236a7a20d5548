package env

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const crashDir = "GITBIND_TEST_CRASH_DIR"

// TestCrash kills a process that has started an environment, and looks for what
// it leaves behind.
func TestCrash(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a real API server: not with -short")
	}
	victim := exec.Command(os.Args[0], "-test.run=^TestCrashVictim$", "-test.v")
	victim.Env = append(os.Environ(), crashDir+"="+t.TempDir())
	victim.Stderr = os.Stderr
	out, err := victim.StdoutPipe()
	fatal(t, err)
	fatal(t, victim.Start())
	defer func() { _ = victim.Process.Kill() }()

	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "PIDS"); ok {
			for _, field := range strings.Fields(rest) {
				pid, err := strconv.Atoi(field)
				fatal(t, err)
				pids = append(pids, pid)
			}
			break
		}
	}
	if len(pids) != 3 {
		t.Fatalf("the victim started processes %v, want three", pids)
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("process %d ended though nobody had crashed", pid)
		}
	}
	fatal(t, victim.Process.Kill())
	_ = victim.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, pid := range pids {
		fatal(t, until(ctx, fmt.Sprintf("process %d to be gone", pid), func(context.Context) (bool, error) { return !alive(pid), nil }))
	}
}

// TestCrashVictim is no test of its own: TestCrash runs it in another process.
func TestCrashVictim(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("only TestCrash runs it")
	}
	e, err := Start(t.Context(), Options{Dir: dir, Clusters: []string{App}})
	fatal(t, err)
	endThreads()
	line := "PIDS"
	for _, p := range e.Processes() {
		line += fmt.Sprintf(" %d", p.PID())
	}
	fmt.Println(line)
	select {}
}

// endThreads makes the runtime start threads and end them: children must not
// end with the thread that happened to start them.
func endThreads() {
	var done sync.WaitGroup
	for range 100 {
		done.Go(func() {
			runtime.LockOSThread()
			time.Sleep(10 * time.Millisecond)
		})
	}
	done.Wait()
}

// alive tells whether a process runs; one that has ended but was not waited for
// does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the name, which is in parentheses.
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a real API server: not with -short")
	}
	e, err := Start(t.Context(), Options{Clusters: []string{App}, Dex: true})
	fatal(t, err)
	var pids []int
	for _, p := range e.Processes() {
		pids = append(pids, p.PID())
	}
	if len(pids) != 4 {
		t.Errorf("it runs %d processes, want etcd, API server, controller manager and Dex", len(pids))
	}
	fatal(t, e.Stop(t.Context()))
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	if _, err := os.Stat(e.Dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	fatal(t, e.Stop(t.Context()))
}
