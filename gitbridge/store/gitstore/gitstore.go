// Package gitstore is the store on a Git repository behind HTTP or SSH. It speaks
// Git's smart protocol itself, on go-git's plumbing: one request for a push,
// one for a fetch of a tip that the host named, two otherwise. It keeps no clone: only the
// newest tree of each branch, in memory.
//
// It does not follow redirects, speaks with no host over SSH whose key is not known
// beforehand, and trusts nothing that the remote sends: sizes, counts and depths have
// limits, and every object is hashed.
package gitstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/branch"
	"gitbind.dev/gitbridge/store/memory"
)

// Options say which repository, and how to reach it.
type Options struct {
	// URL is the repository's address over http or https, without credentials, or
	// ssh://[user@]host[:port]/path. Without a user it is git.
	URL string
	// Credentials, if not nil, gives the HTTP basic credential. It is asked
	// again when the remote answered 401.
	Credentials func(ctx context.Context) (user, password string, err error)
	// SSH gives the private key in PEM, and the file known_hosts with the host's public
	// keys, for an ssh URL. It is asked for each connection.
	SSH func(ctx context.Context) (privateKey, knownHosts []byte, err error)
	// Client makes the requests over HTTP. Its handling of redirects is not used.
	// Default: one with its own connections.
	Client *http.Client
	// RootCAs are whom the default Client trusts; nil for the system's.
	RootCAs *x509.CertPool
	// Guard, if not nil, is put around what sends the requests, and may refuse
	// some.
	Guard func(http.RoundTripper) http.RoundTripper
	// Observer, if not nil, is told what is exchanged with the remote.
	Observer store.Observer
	// Pushed, if not nil, is told of each push that the remote has taken, with the
	// branch's new head. It must not block.
	Pushed func(branch string, head store.Hash)
	// Committer is the committer of every commit.
	Committer store.Signature
	// Signer, if not nil, signs the commits of main and status.
	Signer *signing.Signer
	// ReadSignatures says that commits are to say who signed them. It costs a tenth of a
	// millisecond for each one that is signed.
	ReadSignatures bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// MaxPack is how many bytes one answer of the remote may have; its content
	// may take twice as much. Default: 256 MiB.
	MaxPack int64
	// Stall is how long the remote may keep silent before a request is given
	// up. Default: one minute.
	Stall time.Duration
	// TrustHints says that the hints of FetchTip come from the host itself, over
	// a connection that is as safe as the one to the repository: then a fetch is
	// one request. Otherwise the branch is looked up at the same time, as a
	// forged hint could name a commit that nobody merged.
	TrustHints bool
	// PushesPerMinute is the budget of all branches of this repository, which
	// may be saved up for a minute. It is shared by all who open the repository in
	// this process. 0 is the default, 6 for github.com and no limit elsewhere;
	// less is no limit.
	PushesPerMinute int
}

// Repository is one remote repository. Its branches share connections and the
// budget of pushes.
type Repository struct {
	options Options
	http    *transport

	mu sync.Mutex
	// branches are those that somebody holds: a repository can have very many
	// that live for one commit.
	branches map[string]weak.Pointer[branch.Client]
}

const (
	defaultMaxPack = 256 << 20
	// mostTime is enough for the largest pack over a poor line.
	mostTime = 15 * time.Minute
)

// Open checks the options. It does not ask the remote for anything.
func Open(o Options) (*Repository, error) {
	u, err := parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("open repository %w", err)
	}
	o.MaxPack = cmp.Or(o.MaxPack, defaultMaxPack)
	o.Stall = cmp.Or(o.Stall, time.Minute)
	switch {
	case u.Scheme == "ssh" && o.SSH == nil:
		return nil, fmt.Errorf("open repository %s: there is no key for SSH", o.URL)
	case u.Scheme == "ssh":
		o.Client, o.Credentials = &http.Client{Transport: newSSHTransport(u, o)}, nil
	case o.Client == nil:
		o.Client = newClient(o.RootCAs)
	}
	client := *o.Client
	if o.Guard != nil {
		client.Transport = o.Guard(cmp.Or(client.Transport, http.DefaultTransport))
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r := &Repository{
		options: o,
		http: &transport{
			url:         strings.TrimRight(o.URL, "/"),
			client:      &client,
			credentials: o.Credentials,
			limit:       o.MaxPack,
			increment:   defaultIncrement,
			stall:       o.Stall,
			most:        mostTime,
			throttle:    throttleOf(u, o.PushesPerMinute),
		},
		branches: map[string]weak.Pointer[branch.Client]{},
	}
	return r, nil
}

// scp is how git takes addresses, too: [user@]host:path.
var scp = regexp.MustCompile(`^(?:([^/@:]+)@)?([^/@:]+):/?([^/].*)$`)

// parse gives the parts of a repository's URL. Errors repeat no credentials.
func parse(address string) (*url.URL, error) {
	if p := scp.FindStringSubmatch(address); p != nil && !strings.Contains(address, "://") {
		return nil, fmt.Errorf("%s: write it as ssh://%s@%s/%s", address, cmp.Or(p[1], "git"), p[2], p[3])
	}
	u, err := url.Parse(address)
	if err != nil {
		// The error would repeat the URL, and what may be in it.
		return nil, errors.New("whose URL cannot be parsed")
	}
	_, password := u.User.Password()
	switch ssh := u.Scheme == "ssh"; {
	case u.Scheme != "http" && u.Scheme != "https" && !ssh || u.Hostname() == "" || ssh && strings.Trim(u.Path, "/") == "":
		return nil, fmt.Errorf("%s: only http, https and ssh URLs are supported", u.Redacted())
	case u.User != nil && !ssh || password || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s://%s%s: its URL must hold no credentials, query or fragment", u.Scheme, u.Host, u.Path)
	}
	return u, nil
}

func newClient(roots *x509.CertPool) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	t.DialContext = newDialer().DialContext
	t.MaxIdleConnsPerHost = 8
	// Packs are compressed already.
	t.DisableCompression = true
	return &http.Client{Transport: t}
}

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
}

// Branch returns the branch of that name ("main", not "refs/heads/main"); the
// same one for the same name, as long as somebody holds it: what is known of a
// branch is forgotten with it. It need not exist: the first Update creates it,
// with a history of its own. A name that Git does not allow is every call's
// error.
func (r *Repository) Branch(name string) store.Branch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.branches[name].Value(); b != nil {
		return b
	}
	kept := process.trees.Share()
	var at branch.Remote = &remote{http: r.http, ref: plumbing.NewBranchReferenceName(name), kept: kept, signatures: r.options.ReadSignatures}
	if r.options.Observer != nil {
		at = observed{at, name, r.options.Observer}
	}
	if r.options.Pushed != nil {
		at = announced{at, name, r.options.Pushed}
	}
	b := branch.New(
		at,
		branch.Options{Name: name, Committer: r.options.Committer, Signer: r.options.Signer, Now: r.options.Now, TrustHints: r.options.TrustHints, Throttle: branchThrottle{r.http.throttle, name}},
	)
	r.branches[name] = weak.Make(b)
	runtime.AddCleanup(b, r.forget, name)
	runtime.AddCleanup(b, (*memory.Share).Release, kept)
	return b
}

// forget drops the entry of a branch that nobody holds any more.
func (r *Repository) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.branches[name].Value() == nil {
		delete(r.branches, name)
	}
}
