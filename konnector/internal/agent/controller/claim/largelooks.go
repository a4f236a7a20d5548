package claim

import (
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxLooks is how many bytes of claims of more than maxKept are looked at at once, over
	// all APIs of a Connection. Each look at a claim of many small values takes a hundred times its bytes.
	maxLooks = 2 << 20
	// largeWait is about how long until a large claim is looked at that found others.
	largeWait = 500 * time.Millisecond
)

// newLargeLooks is the room for looks at large claims. Nobody waits in it: they would take
// the workers from the small ones.
func newLargeLooks() *semaphore.Weighted { return semaphore.NewWeighted(maxLooks) }

// largeLook is the room that one look has.
type largeLook struct {
	room  *semaphore.Weighted
	bytes int64
}

// takes reports whether there is room for a claim of so many bytes. One that is a bit larger
// than it was known to be needs no more, so that two that have room do not both give up.
func (l *largeLook) takes(bytes int) bool {
	more := min(int64(bytes), maxLooks) - l.bytes
	if bytes <= maxKept || more <= l.bytes {
		return true
	}
	if !l.room.TryAcquire(more) {
		return false
	}
	l.bytes += more
	return true
}

func (l *largeLook) end() {
	if l.bytes > 0 {
		l.room.Release(l.bytes)
	}
}

// sizeOf is about how many bytes a value of an object has as JSON.
func sizeOf(value any) int {
	n := 2
	switch v := value.(type) {
	case string:
		n += len(v)
	case map[string]any:
		for k, e := range v {
			n += len(k) + len(`"":,`) + sizeOf(e)
		}
	case []any:
		for _, e := range v {
			n += len(",") + sizeOf(e)
		}
	}
	return n
}
