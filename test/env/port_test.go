package env

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

const reservePort = "GITBIND_TEST_RESERVE_PORT"

func TestAPortBelongsToOneProcess(t *testing.T) {
	if port, err := strconv.Atoi(os.Getenv(reservePort)); err == nil {
		if reserve(port) {
			t.Error("another process can reserve it")
		}
		return
	}
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if reserve(port) {
		t.Error("it can be reserved twice")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), reservePort+"="+strconv.Itoa(port))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
