package claim

import (
	"errors"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/budget"
)

const (
	// maxBytes is how many bytes the claims of one namespace may bring to Git at once, and
	// bytesPerMinute how many after that: 10,000 claims of 2 KiB that are applied together do not
	// wait, and who fills the repository of the whole cluster, whose history is never cut, takes
	// hours.
	maxBytes, bytesPerMinute = 32 << 20, 1 << 20
	// maxPacked is more than a repository keeps of a claim's file: one of which the base does
	// not fit into so much, when it is packed, is not committed.
	maxPacked = 192 << 10
)

// errManyBytes says that the claims of a namespace have brought too much to Git, and wait.
var errManyBytes = errors.New("its namespace has brought too much to Git")

// byteBudget bounds, by namespace, the bytes that claims bring to Git.
type byteBudget struct{ budget budget.Budget }

func newByteBudget() *byteBudget {
	return &byteBudget{budget.Budget{Most: maxBytes, Every: time.Minute / bytesPerMinute}}
}

func ofNamespace(key contract.Key) contract.Key { return contract.Key{Namespace: key.Namespace} }

// mayPush is errManyBytes where a claim may not bring so many bytes to Git now. Nothing, as a
// removal brings, may be brought always.
func (b *byteBudget) mayPush(key contract.Key, size int) error {
	if size > 0 && b.budget.Rest(ofNamespace(key), time.Now()) > 0 {
		return errManyBytes
	}
	return nil
}

// push calls a push that brings so many bytes to Git, and counts them if it succeeds. The error is
// that of mayPush, too.
func (b *byteBudget) push(key contract.Key, size int, push func() error) error {
	if size == 0 {
		return push()
	}
	if !b.budget.Take(ofNamespace(key), size, time.Now()) {
		return errManyBytes
	}
	err := push()
	if err != nil {
		b.giveBack(key, size)
	}
	return err
}

// giveBack is for bytes that were counted, and not brought.
func (b *byteBudget) giveBack(key contract.Key, size int) {
	b.budget.GiveBack(ofNamespace(key), size, time.Now())
}

// counted calls the push of a change within the budget of the claim's namespace, and keeps with
// the look what it brought to Git of the claim's file.
func (r *reconciler) counted(l *look, c change, push func() error) error {
	err := r.bytes.push(l.key, c.size+c.inputs, push)
	if err == nil {
		l.pushed = c.size
	}
	return err
}

// packedSize is about how many bytes a repository keeps of a claim's file, at most.
func packedSize(file []byte) int { return min(len(file), maxPacked) }
