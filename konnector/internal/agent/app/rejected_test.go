package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/contract"
)

// refuse has the Git host's hook refuse each push, until it is called with "".
func (h *host) refuse(words string) {
	h.t.Helper()
	hook := filepath.Join(h.dir, "hooks", "pre-receive")
	if words == "" {
		if err := os.Remove(hook); err != nil {
			h.t.Fatal(err)
		}
		return
	}
	h.judge("echo '" + words + "' >&2; exit 1")
}

// judge has the Git host's hook run a script for each push.
func (h *host) judge(script string) {
	h.t.Helper()
	hook := filepath.Join(h.dir, "hooks", "pre-receive")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

func TestL8_ARefusalThatPassesIsNotFinal(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("edited", spec("small"))
	w.apply("deleted", spec("small"))
	w.inStep("edited")
	w.inStep("deleted")
	const words = "internal error: the quota cannot be read"
	w.host.refuse(words)
	w.setSpec("edited", "big", "plan")
	w.deleteObject("deleted")
	for _, name := range []string{"edited", "deleted"} {
		if m := w.conditionIs(name, "Committed", "PushRejected"); !strings.Contains(m, words) || !strings.Contains(m, "tried again") {
			t.Errorf("%s: %q does not say %q and that it is tried again", name, m, words)
		}
	}
	w.host.refuse("")
	w.fileIs("edited", plan("big"))
	w.inStep("edited")
	w.goes("deleted")
}

func TestL15_AClaimAboveTheLimitIsToldAsTooLarge(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", map[string]any{"service": strings.Repeat("a", contract.MaxFileSize), "plan": "small"})
	if m := w.conditionIs("orders", "Committed", "TooLarge"); !strings.Contains(m, "1048576") {
		t.Errorf("%q does not say how large it may be", m)
	}
	w.setSpec("orders", "a9s-postgresql13", "service")
	w.fileIs("orders", plan("small"))
}
