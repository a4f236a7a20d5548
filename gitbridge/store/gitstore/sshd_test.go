package gitstore_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
	"gitbind.dev/test/githost"
)

var sshdProgram = flag.String("sshd", "", "the path of OpenSSH's sshd, for TestConformanceOverOpenSSH")

// opensshHost is a repository behind OpenSSH's own server, which has no faults.
type opensshHost struct {
	*host
	address, user          string
	privateKey, knownHosts []byte
}

func newOpenSSHHost(t testing.TB) *opensshHost {
	h := &opensshHost{host: newHost(t)}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	h.user = me.Username
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = listener.Addr().String()
	_, port, _ := net.SplitHostPort(h.address)
	_ = listener.Close()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	hostKey, shown := githost.NewSSHKey(t)
	privateKey, key := githost.NewSSHKey(t)
	h.privateKey, h.knownHosts = privateKey, fmt.Appendf(nil, "[127.0.0.1]:%s %s", port, ssh.MarshalAuthorizedKey(shown.PublicKey()))
	// So few sessions that connections are opened for more.
	config := fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nPidFile none\nMaxSessions 2\n",
		port, write("host", hostKey), write("authorized", ssh.MarshalAuthorizedKey(key.PublicKey())))
	server := exec.Command(*sshdProgram, "-D", "-e", "-f", write("config", []byte(config)))
	said, err := server.StderrPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	var log bytes.Buffer
	for b := make([]byte, 1000); !bytes.Contains(log.Bytes(), []byte("Server listening")); {
		n, err := said.Read(b)
		if log.Write(b[:n]); err != nil {
			t.Fatal(err, log.String())
		}
	}
	go func() { _, _ = log.ReadFrom(said) }()
	return h
}

func (h *opensshHost) Branch(name string) store.Branch {
	link := filepath.Join(h.t.TempDir(), fmt.Sprint("client's-", clients.Add(1), ".git"))
	if err := os.Symlink(h.dir, link); err != nil {
		h.t.Fatal(err)
	}
	return h.open(gitstore.Options{
		URL: "ssh://" + h.user + "@" + h.address + link,
		SSH: func(context.Context) ([]byte, []byte, error) { return h.privateKey, h.knownHosts, nil },
	}).Branch(name)
}

func (h *opensshHost) LoseAnswers(int, func()) { h.t.Skip("OpenSSH has no faults") }
func (h *opensshHost) Break(int)               { h.t.Skip("OpenSSH has no faults") }

func (h *opensshHost) Pushes() int {
	h.t.Skip("OpenSSH counts no pushes")
	return 0
}

func TestConformanceOverOpenSSH(t *testing.T) {
	if *sshdProgram == "" {
		t.Skip("needs the flag -sshd")
	}
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Remote {
		h := newOpenSSHHost(t)
		t.Cleanup(h.check)
		return h
	})
}
