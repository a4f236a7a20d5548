package gitstore_test

import (
	"context"
	"errors"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
	"gitbind.dev/test/githost"
)

// The words are a real server's.
func TestOverSSHOfGiteaARepositoryThatIsNotThereAndAKeyThatIsNotKnown(t *testing.T) {
	if gitea == nil {
		t.Skip("needs the flag -gitea")
	}
	t.Parallel()
	h := newGiteaSSHHost(t, gitea)
	open := func(url string, privateKey []byte) store.Branch {
		return h.open(gitstore.Options{URL: url, SSH: func(context.Context) ([]byte, []byte, error) { return privateKey, h.knownHosts, nil }}).Branch("main")
	}
	for _, owner := range []string{gitea.User, "nobody-of-this-name"} {
		b := open("ssh://git@"+gitea.SSH+"/"+owner+"/absent.git", h.privateKey)
		_, err := b.Fetch(t.Context())
		reason(t, err, store.ErrRepositoryNotFound)
	}
	stranger, _ := githost.NewSSHKey(t)
	b := open(h.url(), stranger)
	_, err := b.Fetch(t.Context())
	reason(t, err, store.ErrUnauthorized)
	if _, err = b.Update(t.Context(), storetest.Put("x", "1")); !errors.Is(err, store.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
}
