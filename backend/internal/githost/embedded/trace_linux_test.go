package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// traced is what a process is traced for.
type traced struct {
	// Root is the folder of which changes count; the process gets it in victimRoot.
	Root string
	// Victim is the test that the process runs.
	Victim string
	// Kill is the change before which the process is killed, and all that it started,
	// from 1 on; 0 is none.
	Kill int
}

const (
	tracedEnv  = "GITBIND_TEST_TRACED"
	victimRoot = "GITBIND_TEST_VICTIM_ROOT"
)

// errNoTrace says that this system lets nobody trace a process.
var errNoTrace = errors.New("processes may not be traced")

// run gives the changes that the process made until it ended or was killed. Another
// process traces it: waiting for any thread would take the children of other tests.
func (tr traced) run(t *testing.T) []change {
	t.Helper()
	arg, err := json.Marshal(tr)
	if err != nil {
		t.Fatal(err)
	}
	tracer := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTracer$")
	tracer.Env = append(os.Environ(), tracedEnv+"="+string(arg))
	out, err := tracer.CombinedOutput()
	if bytes.Contains(out, []byte(errNoTrace.Error())) {
		t.Skip(errNoTrace)
	}
	if err != nil {
		t.Fatalf("trace %s: %v\n%s", tr.Victim, err, out)
	}
	b, err := os.ReadFile(tr.Root + ".changes")
	if err != nil {
		t.Fatal(err)
	}
	var changes []change
	if err := json.Unmarshal(b, &changes); err != nil {
		t.Fatal(err)
	}
	return changes
}

// TestTracer is no test of its own: traced.run runs it in another process.
func TestTracer(t *testing.T) {
	var tr traced
	arg := os.Getenv(tracedEnv)
	if arg == "" {
		t.Skip("only other tests run it")
	}
	if err := json.Unmarshal([]byte(arg), &tr); err != nil {
		t.Fatal(err)
	}
	changes, err := tr.trace()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tr.Root+".changes", b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// trace starts the process and follows all of its threads and children.
func (tr traced) trace() (changes []change, err error) {
	runtime.LockOSThread() // a tracer is a thread
	victim := exec.Command(os.Args[0], "-test.run=^"+tr.Victim+"$")
	victim.Env = append(os.Environ(), victimRoot+"="+tr.Root)
	victim.Stdout, victim.Stderr = os.Stdout, os.Stderr
	victim.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := victim.Start(); err != nil {
		return nil, errors.Join(errNoTrace, err)
	}
	pid := victim.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return nil, errors.Join(errNoTrace, err)
	}
	options := unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACEEXEC |
		unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK
	if err := errors.Join(syscall.PtraceSetOptions(pid, options), syscall.PtraceSyscall(pid, 0)); err != nil {
		return nil, errors.Join(errNoTrace, err)
	}
	// inside are the changes of threads that are inside of a call.
	threads, inside := map[int]bool{pid: true}, map[int]*change{}
	begun, killed := 0, false
	for {
		tid, err := syscall.Wait4(-1, &status, unix.WALL, nil)
		if errors.Is(err, syscall.ECHILD) {
			return changes, nil
		}
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !status.Stopped() {
			delete(threads, tid)
			if code := status.ExitStatus(); tid == pid && code > 0 {
				return nil, fmt.Errorf("%s ended with %d", tr.Victim, code)
			}
			continue
		}
		deliver := 0
		switch sig := status.StopSignal(); {
		case sig == syscall.SIGTRAP|0x80:
			call, err := systemCall(tid)
			if err != nil {
				return nil, err
			}
			if c := inside[tid]; c != nil && call.Op == unix.PTRACE_SYSCALL_INFO_EXIT {
				delete(inside, tid)
				if done := call.result() >= 0; done && !killed {
					changes = append(changes, c.finish(tid))
				}
				break
			}
			if call.Op != unix.PTRACE_SYSCALL_INFO_ENTRY {
				break
			}
			c, ok := tr.change(tid, call)
			if !ok {
				break
			}
			begun++
			c.Number = begun
			if begun == tr.Kill {
				killed = true
				for t := range threads {
					_ = syscall.Kill(t, syscall.SIGKILL)
				}
			}
			inside[tid] = &c
		case sig == syscall.SIGTRAP: // a thread or process began, or a program
		case sig == syscall.SIGSTOP && !threads[tid]: // so it begins
		default:
			deliver = int(sig)
		}
		threads[tid] = true
		if err := syscall.PtraceSyscall(tid, deliver); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, err
		}
	}
}

// callInfo is struct ptrace_syscall_info, of which the last part is that of a call's
// beginning; at its end, the first of it is the result.
type callInfo struct {
	Op   uint8
	_    [3]uint8
	_    uint32
	_, _ uint64
	Nr   uint64
	Args [6]uint64
	_    [2]uint64
}

func (c *callInfo) result() int64 { return int64(c.Nr) }

func systemCall(tid int) (*callInfo, error) {
	var c callInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(c), uintptr(unsafe.Pointer(&c)), 0, 0)
	if errno == unix.ESRCH {
		return &c, nil // it was killed
	}
	if errno != 0 {
		return nil, errors.Join(errNoTrace, errno)
	}
	return &c, nil
}

// olderCalls are those of programs in C on amd64, which newer systems do not have.
var olderCalls = map[uint64]string{2: "open", 82: "rename", 83: "mkdir", 84: "rmdir", 86: "link", 87: "unlink", 90: "chmod"}

// change reads a call that is about to change something below the root.
func (tr traced) change(tid int, call *callInfo) (c change, ok bool) {
	a := call.Args
	at := int64(unix.AT_FDCWD)
	cwd := uint64(at)
	older := ""
	if runtime.GOARCH == "amd64" {
		older = olderCalls[call.Nr]
	}
	flags := uint64(0)
	switch nr := call.Nr; {
	case nr == unix.SYS_OPENAT:
		c, flags = change{Call: "open", Path: tr.path(tid, a[0], a[1])}, a[2]
	case older == "open":
		c, flags = change{Call: "open", Path: tr.path(tid, cwd, a[0])}, a[1]
	case nr == unix.SYS_WRITE, nr == unix.SYS_PWRITE64, nr == unix.SYS_WRITEV, nr == unix.SYS_PWRITEV, nr == unix.SYS_FTRUNCATE,
		nr == unix.SYS_FALLOCATE, nr == unix.SYS_SENDFILE:
		c = change{Call: "write", Path: tr.open(tid, a[0]), file: a[0]}
	case nr == unix.SYS_COPY_FILE_RANGE, nr == unix.SYS_SPLICE:
		c = change{Call: "write", Path: tr.open(tid, a[2]), file: a[2]}
	case nr == unix.SYS_FSYNC, nr == unix.SYS_FDATASYNC:
		c = change{Call: "sync", Path: tr.open(tid, a[0])}
	case nr == unix.SYS_FCHMOD:
		c = change{Call: "chmod", Path: tr.open(tid, a[0])}
	case nr == unix.SYS_FCHMODAT:
		c = change{Call: "chmod", Path: tr.path(tid, a[0], a[1])}
	case older == "chmod":
		c = change{Call: "chmod", Path: tr.path(tid, cwd, a[0])}
	case nr == unix.SYS_RENAMEAT, nr == unix.SYS_RENAMEAT2:
		c = change{Call: "rename", Path: tr.path(tid, a[0], a[1]), To: tr.path(tid, a[2], a[3])}
	case nr == unix.SYS_LINKAT:
		c = change{Call: "link", Path: tr.path(tid, a[0], a[1]), To: tr.path(tid, a[2], a[3])}
	case older == "rename", older == "link":
		c = change{Call: older, Path: tr.path(tid, cwd, a[0]), To: tr.path(tid, cwd, a[1])}
	case nr == unix.SYS_UNLINKAT:
		c = change{Call: "remove", Path: tr.path(tid, a[0], a[1])}
	case older == "unlink", older == "rmdir":
		c = change{Call: "remove", Path: tr.path(tid, cwd, a[0])}
	case nr == unix.SYS_MKDIRAT:
		c = change{Call: "mkdir", Path: tr.path(tid, a[0], a[1])}
	case older == "mkdir":
		c = change{Call: "mkdir", Path: tr.path(tid, cwd, a[0])}
	}
	if c.Call == "open" && flags&(unix.O_CREAT|unix.O_TRUNC) == 0 {
		return c, false
	}
	c.Empties = flags&unix.O_TRUNC != 0
	return c, c.Path != ""
}

// path is that of a name that a thread gives to the system, relative to the root, or "".
func (tr traced) path(tid int, folder, name uint64) string {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return ""
	}
	defer mem.Close()
	b := make([]byte, unix.PathMax)
	n, _ := mem.ReadAt(b, int64(name))
	b, _, ok := bytes.Cut(b[:n], []byte{0})
	if !ok {
		return ""
	}
	if filepath.IsAbs(string(b)) {
		return tr.below(string(b))
	}
	from := "cwd"
	if int32(folder) != unix.AT_FDCWD {
		from = "fd/" + strconv.Itoa(int(int32(folder)))
	}
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", tid, from))
	if err != nil {
		return ""
	}
	return tr.below(filepath.Join(dir, string(b)))
}

// open is the path of an open file.
func (tr traced) open(tid int, file uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, file))
	if err != nil {
		return ""
	}
	return tr.below(path)
}

func (tr traced) below(path string) string {
	rel, ok := strings.CutPrefix(filepath.Clean(path), tr.Root+"/")
	if !ok || strings.HasSuffix(rel, " (deleted)") {
		return ""
	}
	return rel
}

// finish is a change that is done.
func (c *change) finish(tid int) change {
	if c.Call == "write" {
		c.Data, _ = os.ReadFile(fmt.Sprintf("/proc/%d/fd/%d", tid, c.file))
	}
	return *c
}
