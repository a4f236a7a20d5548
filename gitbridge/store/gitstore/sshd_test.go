package gitstore_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
	"gitbind.dev/test/env"
	"gitbind.dev/test/githost"
)

var sshdProgram = flag.String("sshd", "", "the path of OpenSSH's sshd, for TestConformanceOverOpenSSH")

// faultless is a repository behind a real server for SSH, which has no faults and counts no
// pushes.
type faultless struct {
	*host
	// url is one that no other client has.
	url                    func() string
	privateKey, knownHosts []byte
}

// newOpenSSHHost starts OpenSSH's own server.
func newOpenSSHHost(t testing.TB) *faultless {
	h := &faultless{host: newHost(t)}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
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
	h.url = func() string {
		link := filepath.Join(dir, fmt.Sprint("client's-", clients.Add(1), ".git"))
		if err := os.Symlink(h.dir, link); err != nil {
			t.Fatal(err)
		}
		return "ssh://" + me.Username + "@" + address + link
	}
	return h
}

// newGiteaSSHHost uses Gitea's.
func newGiteaSSHHost(t testing.TB, g *env.Gitea) *faultless {
	h := &faultless{host: newHost(t)}
	privateKey, key := githost.NewSSHKey(t)
	h.privateKey = privateKey
	body := map[string]string{"title": t.Name(), "key": string(ssh.MarshalAuthorizedKey(key.PublicKey()))}
	if err := g.API(t.Context(), g.User, g.Password, http.MethodPost, "/user/keys", body, nil); err != nil {
		t.Fatal(err)
	}
	hostKeys, err := filepath.Glob(g.HostKeys)
	for _, name := range hostKeys {
		data, errRead := os.ReadFile(name)
		h.knownHosts = fmt.Appendf(h.knownHosts, "%s %s\n", knownhosts.Normalize(g.SSH), data)
		err = errors.Join(err, errRead)
	}
	if err != nil || len(hostKeys) == 0 {
		t.Fatal(hostKeys, err)
	}
	h.url = func() string { return "ssh://git@" + g.SSH + "/" + g.User + "/" + filepath.Base(h.dir) }
	return h
}

func (h *faultless) Branch(name string) store.Branch {
	return h.open(gitstore.Options{
		URL: h.url(),
		SSH: func(context.Context) ([]byte, []byte, error) { return h.privateKey, h.knownHosts, nil },
	}).Branch(name)
}

func (h *faultless) LoseAnswers(int, func()) { h.t.Skip("it has no faults") }
func (h *faultless) Break(int)               { h.t.Skip("it has no faults") }

func (h *faultless) Pushes() int {
	h.t.Skip("it counts no pushes")
	return 0
}

func TestConformanceOverOpenSSH(t *testing.T) {
	if *sshdProgram == "" || gitea != nil {
		t.Skip("needs the flag -sshd")
	}
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Remote {
		h := newOpenSSHHost(t)
		t.Cleanup(h.check)
		return h
	})
}

func TestConformanceOverSSHOfGitea(t *testing.T) {
	if gitea == nil {
		t.Skip("needs the flag -gitea")
	}
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Remote { return newGiteaSSHHost(t, gitea) })
}
