package notify

import "net/url"

// FromHost reports whether the events of a backend come from the very host of a
// repository: the same scheme, name and port. Their hashes are then as good as
// what that host would answer (see gitstore.Options.TrustHints).
func FromHost(backendURL, repositoryURL string) bool {
	b, errB := url.Parse(backendURL)
	r, errR := url.Parse(repositoryURL)
	return errB == nil && errR == nil && b.Host != "" && b.Scheme == r.Scheme && b.Host == r.Host
}
