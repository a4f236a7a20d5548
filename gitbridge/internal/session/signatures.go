package session

import (
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// unsigned is the newest commit on the way from a head of main back to what was accepted that
// nobody who counts has signed; "" where all are. The way follows first parents, as who merges
// answers for what they merge; one that leads past what was accepted ends at the commit that
// leaves it. A first main that asks for nothing, such as the one with which a Git host makes a
// repository, needs no signature.
func (s *Session) unsigned(new *store.Snapshot, accepted store.Hash, commits []store.Commit) store.Hash {
	if s.options.Counts == nil || accepted == "" && isEmpty(new, contract.Root) {
		return ""
	}
	between := map[store.Hash]store.Commit{}
	for _, c := range commits {
		between[c.Hash] = c
	}
	for at := new.Head(); at != accepted; {
		c, ok := between[at]
		switch {
		case !ok || !s.options.Counts(c.SignedBy, c.Time):
			return at
		case len(c.Parents) > 0:
			at = c.Parents[0]
		case accepted == "":
			return ""
		default:
			return at
		}
	}
	return ""
}

func isEmpty(main *store.Snapshot, dir string) bool {
	for range main.List(dir) {
		return false
	}
	return true
}
