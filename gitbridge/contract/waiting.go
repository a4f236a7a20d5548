package contract

import (
	"strings"
	"unicode"
)

// WaitsFor says, in the provider's words, what a service that is not ready waits for:
// the first line of a condition's message, or a reason in words; "" where its status
// says nothing of the kind. The condition of type ready says whether it is ready. The
// status may be anything.
func WaitsFor(status map[string]any, ready string) string {
	managed, _ := status["managed"].(map[string]any)
	all := append(conditionsOf(status), conditionsOf(managed)...)
	reason := ""
	for _, c := range all {
		if c["type"] != ready || c["status"] == "True" {
			continue
		}
		if line := firstLine(c["message"]); line != "" {
			return line
		}
		if reason == "" {
			reason = inWords(c["reason"])
		}
	}
	// Conditions of other types may be well when they are False. Synced is not.
	for _, c := range all {
		if c["type"] == "Synced" && c["status"] == "False" {
			if line := firstLine(c["message"]); line != "" {
				return line
			}
		}
	}
	return reason
}

// conditionsOf are the texts of conditions.
func conditionsOf(status map[string]any) []map[string]string {
	list, _ := status["conditions"].([]any)
	var out []map[string]string
	for _, e := range list {
		fields, _ := e.(map[string]any)
		c := map[string]string{}
		for name, value := range fields {
			if text, ok := value.(string); ok {
				c[name] = text
			}
		}
		out = append(out, c)
	}
	return out
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

// inWords takes a reason such as ReconcileError apart: "reconcile error".
func inWords(reason string) string {
	var b strings.Builder
	for i, r := range reason {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
