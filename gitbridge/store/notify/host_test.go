package notify_test

import (
	"testing"

	"gitbind.dev/gitbridge/store/notify"
)

func TestOnlyTheRepositorysOwnHostIsTrusted(t *testing.T) {
	const repository = "https://git.example.com:8443/git/k3.git"
	for backend, want := range map[string]bool{
		"https://git.example.com:8443":     true,
		"https://git.example.com:8443/api": true,
		"http://git.example.com:8443":      false,
		"https://git.example.com":          false,
		"https://example.com:8443":         false,
		"":                                 false,
		"::":                               false,
	} {
		if got := notify.FromHost(backend, repository); got != want {
			t.Errorf("FromHost(%q) = %v, want %v", backend, got, want)
		}
	}
}
