package session

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// BackendURL gives a backend's URL in the one form that sessions are kept
// under: a lower-case host, no slash at the end. Without a scheme it is https.
func BackendURL(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is not a URL: give the backend's, for example https://gitbind.example.com", text)
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return "", fmt.Errorf("%q is not an http or https URL: give the backend's, for example https://gitbind.example.com", text)
	case u.User != nil:
		return "", errors.New("the URL holds a user name: give it without, you sign in with your browser")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%q has more than host and path: give the backend's own URL", text)
	}
	u.Host = strings.ToLower(u.Host)
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u.String(), nil
}

// Private reports whether what is sent to a URL cannot be read on the way: it
// is https, or stays on this machine.
func Private(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	if u.Scheme == "https" {
		return true
	}
	return IsLocal(rawURL)
}

// IsLocal reports whether a URL is one of this machine.
func IsLocal(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
