package gitstore

import (
	"net"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"gitbind.dev/test/githost"
)

func TestHostsAreFoundInKnownHostsAsOpenSSHFindsThem(t *testing.T) {
	t.Parallel()
	_, signer := githost.NewSSHKey(t)
	key := " " + string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
	for line, want := range map[string]map[string]bool{
		"git.example.org" + key:                       {"git.example.org:22": true, "GIT.example.org:22": true, "git.example.org:2222": false, "git-example.org:22": false, "example.org:22": false},
		"other,[git.example.org]:2222,10.0.0.1" + key: {"git.example.org:2222": true, "git.example.org:22": false, "10.0.0.1:22": true},
		"*.example.org,!bad.example.org" + key:        {"git.example.org:22": true, "bad.example.org:22": false, "example.org:22": false},
		"git?.example.org" + key:                      {"git1.example.org:22": true, "git.example.org:22": false},
		"[*.example.org]:2222" + key:                  {"git.example.org:2222": true, "git.example.org:22": false},
		"@cert-authority *.example.org" + key:         {"git.example.org:22": false},
		"@revoked git.example.org" + key:              {"git.example.org:22": false},
		"# git.example.org" + key:                     {"git.example.org:22": false},
		"git.example.org ssh-ed25519 AAAA\ngit.example.org nonsense\n\n|1|x|y" + key + "git.example.org" + key: {"git.example.org:22": true},
	} {
		for address, known := range want {
			if err := hostKeysOf(address, []byte(line)).check(address, &net.TCPAddr{}, signer.PublicKey()); (err == nil) != known {
				t.Errorf("%s in %q: %v", address, line, err)
			}
		}
	}
}

func TestHashedHostsAreFound(t *testing.T) {
	t.Parallel()
	_, signer := githost.NewSSHKey(t)
	for _, address := range []string{"git.example.org:22", "git.example.org:2222"} {
		line := append([]byte(knownhosts.HashHostname(knownhosts.Normalize(address))+" "), ssh.MarshalAuthorizedKey(signer.PublicKey())...)
		if err := hostKeysOf(address, line).check(address, &net.TCPAddr{}, signer.PublicKey()); err != nil {
			t.Errorf("%s in %s: %v", address, line, err)
		}
		if err := hostKeysOf("other.example.org:22", line).check("", &net.TCPAddr{}, signer.PublicKey()); err == nil {
			t.Errorf("another host is found in %s", line)
		}
	}
}
