package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"gitbind.dev/konnector/internal/cli/terminal"
)

// TestH6_DataIsExactAndSteersNoTerminal: what a program reads is what was there, and
// what a terminal gets is harmless, also without the terminal's own Writer.
func TestH6_DataIsExactAndSteersNoTerminal(t *testing.T) {
	text := rapid.StringOf(rapid.OneOf(
		rapid.Rune(),
		rapid.SampledFrom([]rune("ab: -#\n\t\"'\\\r\x00\x1b\x7f\u0085\u009b\u200b\u202e\u2028\u2066\ufeff\ufe0f\u3164\U000e0041")),
	))
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]any{
			"text": text.Draw(t, "text"),
			"list": []any{text.Draw(t, "element"), map[string]any{text.Draw(t, "key"): text.Draw(t, "value")}, true, "1", nil},
		}
		for format, read := range map[Format]func([]byte, any) error{
			JSON: json.Unmarshal,
			YAML: func(data []byte, v any) error { return yaml.Unmarshal(data, v) },
		} {
			var b bytes.Buffer
			if err := Data(&b, format, want); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if i := strings.IndexFunc(b.String(), func(r rune) bool { return !terminal.IsHarmless(r) }); i >= 0 {
				t.Fatalf("%s: at %d of %q", format, i, b.String())
			}
			var got map[string]any
			if err := read(b.Bytes(), &got); err != nil {
				t.Fatalf("%s: %v of %q", format, err, b.String())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", format, diff)
			}
			var cleaned bytes.Buffer
			_, _ = terminal.NewWriter(&cleaned).Write(b.Bytes())
			if !bytes.Equal(cleaned.Bytes(), b.Bytes()) {
				t.Fatalf("%s: a terminal gets %q of %q", format, cleaned.String(), b.String())
			}
		}
	})
}
