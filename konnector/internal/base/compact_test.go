package base

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestACompactBaseIsTheSame(t *testing.T) {
	commit, blob := strings.Repeat("0a", 20), strings.Repeat("f1", 20)
	claim := orders(map[string]any{"plan": "small <1>", "list": []any{"b", "a"}})
	usual := Base{UID: "u1", Connection: "c1", Commit: commit, Blob: blob, Generation: 300, Committed: true, Claim: claim}
	for name, tc := range map[string]struct {
		change  func(*Base)
		text    string
		compact bool
	}{
		"usual":                    {compact: true},
		"not committed":            {change: func(b *Base) { b.Committed = false }, compact: true},
		"no generation":            {change: func(b *Base) { b.Generation = 0 }, compact: true},
		"a negative one":           {change: func(b *Base) { b.Generation = -1 }, compact: true},
		"no Connection":            {change: func(b *Base) { b.Connection = "" }, compact: true},
		"another object's":         {change: func(b *Base) { b.UID = "u2" }},
		"no UID":                   {change: func(b *Base) { b.UID = "" }},
		"no commit":                {change: func(b *Base) { b.Commit = "" }},
		"a hash in capitals":       {change: func(b *Base) { b.Blob = strings.ToUpper(blob) }},
		"a short hash":             {change: func(b *Base) { b.Blob = "f1" }},
		"removed":                  {change: func(b *Base) { b.Removed = true }},
		"a label left out":         {change: func(b *Base) { b.Stray = []string{"example.org/x"} }},
		"nothing":                  {text: "{}"},
		"what cannot be read":      {text: "{"},
		"a field that is not ours": {text: `{"uid":"u1","commit":"` + commit + `","blob":"` + blob + `","content":"","more":1}`},
		"other white space":        {text: `{"uid": "u1","commit":"` + commit + `","blob":"` + blob + `","content":""}`},
		"no content":               {text: `{"uid":"u1","commit":"` + commit + `","blob":"` + blob + `","content":""}`, compact: true},
	} {
		t.Run(name, func(t *testing.T) {
			value := tc.text
			if value == "" {
				b := usual
				if tc.change != nil {
					tc.change(&b)
				}
				value = encode(t, &b)
			}
			c := NewCompact(value, "u1")
			if got := c.Annotation("u1"); got != value {
				t.Errorf("it is %s, was %s", got, value)
			}
			if compact := len(c.data) < len(value); compact != tc.compact {
				t.Errorf("%d bytes of %d", len(c.data), len(value))
			}
		})
	}
	if got := (Compact{}).Annotation(types.UID("u1")); got != "" {
		t.Errorf("none is %q", got)
	}
}
