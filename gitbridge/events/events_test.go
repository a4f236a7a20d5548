package events

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

func TestANoteIsCutToWhatAnAPIServerTakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ note, want string }{
		"short":                   {"held: 100%", "held: 100%"},
		"as long as may be":       {strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		"a byte more":             {strings.Repeat("x", 1025), strings.Repeat("x", 1021) + "…"},
		"of runes of three bytes": {strings.Repeat("€", 1000), strings.Repeat("€", 340) + "…"},
		"of no runes":             {strings.Repeat("\x80", 2000), "…"},
	} {
		fake := events.NewFakeRecorder(1)
		Recorder{fake}.Eventf(&corev1.Pod{}, nil, corev1.EventTypeWarning, "Held", "Sync", "%s", c.note)
		if got := strings.TrimPrefix(<-fake.Events, "Warning Held "); got != c.want {
			t.Errorf("%s: %d bytes, %q", name, len(got), got)
		}
	}
}
