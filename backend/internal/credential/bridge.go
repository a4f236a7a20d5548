package credential

import (
	"time"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Keys of the bridge's Secret beside username, password and expires.
const (
	keyPassword        = "password"
	keyPrevious        = "previous-password"
	keyPreviousExpires = "previous-expires"
)

// Bridge is the bridge's credential for one repository, as its Secret has it:
// the one that counts, and for a short while the one before it, so that the
// bridge may finish with that after a renewal.
type Bridge struct {
	Password, Previous string
	// Expires is zero for a password that does not.
	Expires, PreviousExpires time.Time
	// RepositoryURL is which repository it opens, "" in a Secret from before that was kept.
	RepositoryURL string
	// GitUsername and GitPassword open the repository on a Git host of its own; "" for none.
	GitUsername, GitPassword string
	// GitExpires and GitRenewAfter are zero if the host does not end that by itself.
	GitExpires, GitRenewAfter time.Time
}

// ReadBridge reads a Secret's data.
func ReadBridge(data map[string][]byte) Bridge {
	at := func(key string) time.Time {
		t, _ := time.Parse(time.RFC3339, string(data[key]))
		return t
	}
	return Bridge{
		Password: string(data[keyPassword]), Expires: at(keyExpires),
		Previous: string(data[keyPrevious]), PreviousExpires: at(keyPreviousExpires),
		RepositoryURL: string(data[v1alpha1.RepositoryURLKey]),
		GitUsername:   string(data[v1alpha1.GitUsernameKey]), GitPassword: string(data[v1alpha1.GitPasswordKey]),
		GitExpires: at(v1alpha1.GitExpiresKey), GitRenewAfter: at(v1alpha1.GitRenewAfterKey),
	}
}

// WriteTo sets the credential in a Secret's data, and leaves other keys alone.
func (b Bridge) WriteTo(data map[string][]byte) {
	data[keyPassword] = []byte(b.Password)
	data[keyExpires] = []byte(b.Expires.UTC().Format(time.RFC3339))
	for _, key := range []string{
		keyPrevious, keyPreviousExpires, v1alpha1.RepositoryURLKey, v1alpha1.GitUsernameKey, v1alpha1.GitPasswordKey, v1alpha1.GitExpiresKey, v1alpha1.GitRenewAfterKey,
	} {
		delete(data, key)
	}
	if b.RepositoryURL != "" {
		data[v1alpha1.RepositoryURLKey] = []byte(b.RepositoryURL)
	}
	if b.GitPassword != "" {
		data[v1alpha1.GitUsernameKey] = []byte(b.GitUsername)
		data[v1alpha1.GitPasswordKey] = []byte(b.GitPassword)
	}
	if !b.GitExpires.IsZero() {
		data[v1alpha1.GitExpiresKey] = []byte(b.GitExpires.UTC().Format(time.RFC3339))
		data[v1alpha1.GitRenewAfterKey] = []byte(b.GitRenewAfter.UTC().Format(time.RFC3339))
	}
	if b.Previous != "" {
		data[keyPrevious] = []byte(b.Previous)
		data[keyPreviousExpires] = []byte(b.PreviousExpires.UTC().Format(time.RFC3339))
	}
}

// Counting are the hashes of the tokens that count.
func (b Bridge) Counting(now time.Time) []string {
	var hashes []string
	if b.Password != "" {
		hashes = append(hashes, Hash(b.Password))
	}
	if b.Previous != "" && now.Before(b.PreviousExpires) {
		hashes = append(hashes, Hash(b.Previous))
	}
	return hashes
}

// Judge tells whether a token, by its hash, counts, and until when.
func (b Bridge) Judge(hash string, now time.Time) (expires time.Time, ok bool) {
	// Both sides hashed: the comparison then takes the same time for each token,
	// whatever its length.
	switch {
	case b.Password != "" && same(Hash(b.Password), hash):
		return b.Expires, b.Expires.IsZero() || now.Before(b.Expires)
	case b.Previous != "" && same(Hash(b.Previous), hash):
		return b.PreviousExpires, now.Before(b.PreviousExpires)
	}
	return time.Time{}, false
}
