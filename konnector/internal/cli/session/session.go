// Package session keeps on disk, per backend, that a person agreed to sign in
// there, and what they need in order to stay signed in: an ID token and a refresh
// token.
//
// A session is for exactly one backend URL and is never given to another. The
// files are readable by their owner only. The package does no network.
package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// Session is a backend at which a person agreed to sign in, and their sign-in.
type Session struct {
	BackendURL string   `json:"backendURL"`
	Issuer     string   `json:"issuer"`
	ClientID   string   `json:"clientID"`
	Scopes     []string `json:"scopes,omitempty"`
	// Username is who signed in, for people; "" when nobody has, yet.
	Username     string    `json:"username"`
	IDToken      string    `json:"idToken,omitempty"`
	Expiry       time.Time `json:"expiry,omitzero"`
	RefreshToken string    `json:"refreshToken,omitempty"`
	// CABundle is PEM that the person gave or agreed to, trusted at backend and
	// issuer beside the system's.
	CABundle []byte `json:"caBundle,omitempty"`
}

// IsSignedIn tells whether somebody has signed in, and not only agreed to.
func (s Session) IsSignedIn() bool { return s.Username != "" }

// ErrNone says that nobody is signed in at the backend.
var ErrNone = errors.New("not signed in")

// Store is a folder of sessions. Without one it has none, and saves none.
type Store struct{ Dir string }

// Default is the store in the user's configuration folder.
func Default() (Store, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return Store{}, fmt.Errorf("find the folder for sign-ins: %w (set HOME)", err)
	}
	return Store{Dir: filepath.Join(dir, "gitbind", "sessions")}, nil
}

// Load reads the session of a backend; ErrNone when there is none. A file that
// cannot be read as one, or not at all, counts as none: signing in again replaces it, or says
// what is in the way.
func (s Store) Load(backendURL string) (Session, error) {
	if s.Dir == "" {
		return Session{}, ErrNone
	}
	out, err := read(s.path(backendURL))
	if err != nil {
		return Session{}, err
	}
	if out.BackendURL != backendURL {
		return Session{}, ErrNone
	}
	return out, nil
}

// Save writes a session in the place of the one before.
func (s Store) Save(session Session) error {
	if err := s.write(session); err != nil {
		return fmt.Errorf("save sign-in: %w", err)
	}
	return nil
}

func (s Store) write(session Session) error {
	if s.Dir == "" {
		return errors.New("there is no folder for it")
	}
	data, err := json.MarshalIndent(session, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	// A temporary file is made with mode 0600, and a rename is all or nothing.
	f, err := os.CreateTemp(s.Dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.path(session.BackendURL))
}

// Remove forgets the session of a backend, if there is one.
func (s Store) Remove(backendURL string) error {
	if err := os.Remove(s.path(backendURL)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget sign-in: %w", err)
	}
	return nil
}

// All reads every session.
func (s Store) All() ([]Session, error) {
	if s.Dir == "" {
		return nil, nil
	}
	paths, err := filepath.Glob(filepath.Join(s.Dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []Session
	for _, path := range paths {
		session, err := read(path)
		if errors.Is(err, ErrNone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, session)
	}
	return out, nil
}

// Lock keeps other processes from renewing the same session: a refresh token
// is good for one use. The caller unlocks.
func (s Store) Lock(backendURL string) (unlock func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock sign-in: %w", err)
	}
	unlock, err = lockedfile.MutexAt(strings.TrimSuffix(s.path(backendURL), ".json") + ".lock").Lock()
	if err != nil {
		return nil, fmt.Errorf("lock sign-in: %w", err)
	}
	return unlock, nil
}

func read(path string) (Session, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return Session{}, ErrNone
	}
	if err != nil {
		return Session{}, fmt.Errorf("read sign-in: %w", err)
	}
	var out Session
	if json.Unmarshal(data, &out) != nil {
		return Session{}, ErrNone
	}
	return out, nil
}

// path is one file per backend: a part to recognize it by, and a digest, since
// URLs have characters that file names have not.
func (s Store) path(backendURL string) string {
	_, host, _ := strings.Cut(backendURL, "://")
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, host)
	sum := sha256.Sum256([]byte(backendURL))
	return filepath.Join(s.Dir, readable[:min(len(readable), 60)]+"-"+hex.EncodeToString(sum[:4])+".json")
}
