package credential

import (
	"crypto/subtle"
	"slices"
	"time"
)

// Keys of the Secret that keeps what is known of a konnector's credential.
const (
	keyUsername    = "username"
	keyHash        = "sha256"
	keyExpires     = "expires"
	keyNextHash    = "next-sha256"
	keyNextExpires = "next-expires"

	keyPreparedHash    = "prepared-sha256"
	keyPreparedExpires = "prepared-expires"
)

// Record is what is kept of a konnector's credential: of the one that counts,
// of the next one, from its renewal until it is used for the first time, and of
// one that is prepared, until it takes the place of both.
// The zero value lets nobody in.
type Record struct {
	Hash, NextHash, PreparedHash          string
	Expires, NextExpires, PreparedExpires time.Time
}

// ReadRecord reads a Secret's data. A time that cannot be read is one that has
// passed.
func ReadRecord(data map[string][]byte) Record {
	at := func(key string) time.Time {
		t, _ := time.Parse(time.RFC3339, string(data[key]))
		return t
	}
	return Record{
		Hash: string(data[keyHash]), Expires: at(keyExpires),
		NextHash: string(data[keyNextHash]), NextExpires: at(keyNextExpires),
		PreparedHash: string(data[keyPreparedHash]), PreparedExpires: at(keyPreparedExpires),
	}
}

// WriteTo sets the record in a Secret's data, and leaves other keys alone.
func (r Record) WriteTo(data map[string][]byte) {
	data[keyUsername] = []byte(KonnectorUser)
	set := func(hashKey, hash, expiresKey string, expires time.Time) {
		if hash == "" {
			delete(data, hashKey)
			delete(data, expiresKey)
			return
		}
		data[hashKey] = []byte(hash)
		data[expiresKey] = []byte(expires.UTC().Format(time.RFC3339))
	}
	set(keyHash, r.Hash, keyExpires, r.Expires)
	set(keyNextHash, r.NextHash, keyNextExpires, r.NextExpires)
	set(keyPreparedHash, r.PreparedHash, keyPreparedExpires, r.PreparedExpires)
}

// Verdict is what a record says of a token.
type Verdict int

const (
	// Unknown is a token that is not, or no longer, the cluster's.
	Unknown Verdict = iota
	// Expired is the cluster's, and too old.
	Expired
	// Current counts.
	Current
	// Next counts, and its first use ends the one before it.
	Next
	// Prepared opens nothing yet.
	Prepared
)

// Judge compares the hash of a token with a record, and gives until when it
// counts.
func (r Record) Judge(hash string, now time.Time) (Verdict, time.Time) {
	var verdict Verdict
	var expires time.Time
	switch {
	case same(r.Hash, hash):
		verdict, expires = Current, r.Expires
	case same(r.NextHash, hash):
		verdict, expires = Next, r.NextExpires
	case same(r.PreparedHash, hash):
		verdict, expires = Prepared, r.PreparedExpires
	default:
		return Unknown, time.Time{}
	}
	if !now.Before(expires) {
		return Expired, expires
	}
	return verdict, expires
}

// Counting are the hashes of the tokens that count, or will: what a Git host of its own gives
// for one that is prepared must be there when it does.
func (r Record) Counting(now time.Time) []string {
	return slices.DeleteFunc(r.hashes(), func(hash string) bool {
		verdict, _ := r.Judge(hash, now)
		return verdict == Expired
	})
}

func (r Record) hashes() []string {
	return slices.DeleteFunc([]string{r.Hash, r.NextHash, r.PreparedHash}, func(hash string) bool { return hash == "" })
}

// Offered has another token as the next one.
func (r Record) Offered(hash string, expires time.Time) Record {
	r.NextHash, r.NextExpires = hash, expires
	return r
}

// Promoted has the next one in the place of the one before.
func (r Record) Promoted() Record {
	r.Hash, r.Expires = r.NextHash, r.NextExpires
	return r.Offered("", time.Time{})
}

// Prepared has another token as the one that is prepared.
func (r Record) Prepared(hash string, expires time.Time) Record {
	r.PreparedHash, r.PreparedExpires = hash, expires
	return r
}

// Replaced has the prepared one in the place of all.
func (r Record) Replaced() Record {
	return Record{Hash: r.PreparedHash, Expires: r.PreparedExpires}
}

// Ended are the hashes of the tokens that were there before and are not afterwards.
func Ended(before, after Record) []string {
	var ended []string
	left := after.hashes()
	for _, hash := range before.hashes() {
		if !slices.Contains(left, hash) {
			ended = append(ended, hash)
		}
	}
	return ended
}

// same compares in constant time. An empty hash is none.
func same(kept, hash string) bool {
	return kept != "" && subtle.ConstantTimeCompare([]byte(kept), []byte(hash)) == 1
}
