package gitstore_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/test/githost"
)

// ends has each command end with a status and words for people.
func ends(status uint32, words string) func(*githost.SSHCommand) bool {
	return func(c *githost.SSHCommand) bool {
		_, _ = io.WriteString(c.Stderr(), words)
		_, _ = c.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return true
	}
}

// What a person has to do follows from these words alone, as SSH has no status codes.
func TestOverSSHOnlyWordsThatSayItSurelyBlameTheRepositoryOrTheKey(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	for words, want := range map[string]error{
		"fatal: '/srv/a.git' does not appear to be a git repository\n": store.ErrRepositoryNotFound,
		"ERROR: Repository not found.\n":                               store.ErrRepositoryNotFound,
		"remote: \nremote: ========\nremote: \nremote: ERROR: The project you were looking for could not be found or you don't have permission to view it.\nremote: \n": store.ErrRepositoryNotFound,
		"GitLab: A repository for this project does not exist yet.\n":                                      store.ErrRepositoryNotFound,
		"error: \nerror: Cannot find repository: team/a\nerror: \n":                                        store.ErrRepositoryNotFound,
		"error: \nerror: User: 2:bot with Key: 3:bridge is not authorized to write to team/a.\nerror: \n":  store.ErrUnauthorized,
		"Gitea: Cannot find repository: team/a\n":                                                          store.ErrRepositoryNotFound,
		"Forgejo: Cannot find repository team/a\n":                                                         store.ErrRepositoryNotFound,
		"ERROR: Permission to team/a.git denied to deploy key\n":                                           store.ErrUnauthorized,
		"ERROR: The key you are authenticating with has been marked as read only.\n":                       store.ErrUnauthorized,
		"Gitea: Deploy Key: 3:bridge is not authorized to write to team/a.\n":                              store.ErrUnauthorized,
		"remote: \nremote: ERROR: This deploy key does not have write access to this project.\nremote: \n": store.ErrUnauthorized,
		"remote: ERROR: You are not allowed to download code from this project.\n":                         store.ErrUnauthorized,
		"":                        nil,
		"internal error\n":        nil,
		"Gitea: Internal error\n": nil,
		"ERROR: Internal server error: the repository could not be found out\n":                                           nil,
		"error: unable to create temporary file: No space left on device\n":                                               nil,
		"fatal: detected dubious ownership in repository at '/srv/a.git'\n":                                               nil,
		"remote: ERROR: The repository is temporarily read-only. Please try again later.\n":                               nil,
		"ERROR: Our services are not available. Please try again later.\n":                                                nil,
		"Welcome to git.example.com. It is going down for maintenance: what does not appear is not lost, nor is a key.\n": nil,
	} {
		for _, status := range []uint32{1, 128, 255} {
			h.ssh.SetInstead(ends(status, words))
			_, err := h.Branch("main").Fetch(t.Context())
			if said := strings.Join(strings.Fields(words), " "); err == nil || !strings.Contains(err.Error(), said) {
				t.Errorf("%q does not tell %q", err, said)
			}
			var refused *store.SSHError
			if errors.As(err, &refused) != (want != nil) || want != nil && !errors.Is(err, want) || errors.Is(err, store.ErrUnauthorized) && want == nil {
				t.Errorf("%q with status %d is %v, want %v", words, status, err, want)
			}
		}
	}
	// As those of a host that is asked over HTTP, these are words and no more.
	h.ssh.SetInstead(func(c *githost.SSHCommand) bool { _, _ = io.WriteString(c, "0017ERR come back later"); return true })
	var refused *store.SSHError
	if _, err := h.Branch("main").Fetch(t.Context()); err == nil || errors.As(err, &refused) || !strings.HasSuffix(err.Error(), ": come back later") {
		t.Errorf("got %v", err)
	}
}

// login serves a connection until somebody shows a key.
func (h *sshHost) login(c net.Conn, key func()) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		key()
		return nil, errors.New("no")
	}}
	config.AddHostKey(h.ssh.Signer)
	_, _, _, _ = ssh.NewServerConn(c, config)
}

func TestOverSSHAHostThatHangsUpDuringTheLoginHasRefusedNoKey(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	b := h.Branch("main")
	h.ssh.SetAccepted(func(c net.Conn) bool { h.login(c, func() { _ = c.Close() }); return true })
	if _, err := b.Fetch(t.Context()); err == nil || errors.Is(err, store.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
	h.ssh.SetAccepted(func(c net.Conn) bool { h.login(c, func() {}); return true })
	_, err := b.Fetch(t.Context())
	reason(t, err, store.ErrUnauthorized)
	h.ssh.SetAccepted(nil)
}
