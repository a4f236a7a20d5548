package contract

import "testing"

func TestWaitsForIsInTheProvidersWords(t *testing.T) {
	t.Parallel()
	condition := func(kind, status, reason, message string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": message}
	}
	with := func(conditions ...any) map[string]any { return map[string]any{"conditions": conditions} }
	if got := WaitsFor(with(condition("Ready", "False", "", "old"), condition("Issued", "False", "", "waiting for the CA")), "Issued"); got != "waiting for the CA" {
		t.Errorf("with a condition of another type: %q", got)
	}
	for name, tc := range map[string]struct {
		status map[string]any
		want   string
	}{
		"nothing":        {nil, ""},
		"another shape":  {map[string]any{"conditions": "none", "managed": []any{1}}, ""},
		"an odd element": {with(1, map[string]any{"type": 3}), ""},
		"ready":          {with(condition("Ready", "True", "Available", "all is well")), ""},
		"its message":    {with(condition("Synced", "False", "ReconcileError", "later"), condition("Ready", "False", "Creating", "  waiting for a volume\nin zone b")), "waiting for a volume"},
		"what fails":     {with(condition("Ready", "False", "Creating", ""), condition("Synced", "False", "ReconcileError", "cannot compose: no quota")), "cannot compose: no quota"},
		"a reason":       {with(condition("Ready", "Unknown", "WaitingForPrimary", "")), "waiting for primary"},
		"well if False":  {with(condition("Degraded", "False", "Fine", "not degraded")), ""},
		"managed": {map[string]any{
			"conditions": []any{condition("Ready", "False", "Creating", "")},
			"managed":    with(condition("Ready", "False", "Pending", "disk is being formatted")),
		}, "disk is being formatted"},
	} {
		if got := WaitsFor(tc.status, "Ready"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
