// Package events records Events that an API server takes. It makes none by itself, and leaves
// none out.
package events

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"gitbind.dev/gitbridge/brief"
)

// maxNote is the longest note that an API server takes, in bytes: NoteLengthLimit in
// pkg/apis/core/validation of Kubernetes. It refuses an Event with a longer one, and client-go
// drops that Event.
const maxNote = 1024

// Recorder records Events with the beginning of a note that is too long.
type Recorder struct{ events.EventRecorder }

// Eventf records an Event.
func (r Recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", shortened(fmt.Sprintf(note, args...)))
}

func shortened(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return brief.CutBytes(note, maxNote-len("…"))
}
