package v1alpha1

import "testing"

func TestIsOnBackend(t *testing.T) {
	for _, c := range []struct {
		backend, repository string
		want                bool
	}{
		{"https://gitbind.example.com", "https://gitbind.example.com/git/k3x9.git", true},
		{"https://gitbind.example.com/", "https://gitbind.example.com/git/k3x9.git", true},
		{"https://example.com/gitbind", "https://example.com/gitbind/git/k3x9.git", true},
		{"https://example.com/gitbind", "https://example.com/gitea/k3x9.git", false},
		{"https://gitbind.example.com", "https://gitbind.example.com.evil.example/k3x9.git", false},
		{"https://gitbind.example.com", "http://gitbind.example.com/git/k3x9.git", false},
		{"https://gitbind.example.com", "ssh://git@gitbind.example.com/k3x9.git", false},
		{"", "https://git.example.com/k3x9.git", false},
		{"/", "/k3x9.git", false},
	} {
		connection := Connection{Spec: ConnectionSpec{BackendURL: c.backend, RepositoryURL: c.repository}}
		if got := connection.IsOnBackend(); got != c.want {
			t.Errorf("backend %q, repository %q: %t", c.backend, c.repository, got)
		}
	}
}
