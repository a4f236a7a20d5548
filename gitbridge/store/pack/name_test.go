package pack

import (
	"encoding/base64"
	"errors"
	"testing"

	"github.com/pjbgf/sha1cd"
)

// shattered is the beginning of the first of two files with the same SHA-1, as
// https://shattered.io published them.
const shattered = `
JVBERi0xLjMKJeLjz9MKCgoxIDAgb2JqCjw8L1dpZHRoIDIgMCBSL0hlaWdodCAzIDAgUi9UeXBl
IDQgMCBSL1N1YnR5cGUgNSAwIFIvRmlsdGVyIDYgMCBSL0NvbG9yU3BhY2UgNyAwIFIvTGVuZ3Ro
IDggMCBSL0JpdHNQZXJDb21wb25lbnQgOD4+CnN0cmVhbQr/2P/+ACRTSEEtMSBpcyBkZWFkISEh
ISGFL+wJIzl1nDmxocY8TJfh//4Bc0bckWa2fhGPApq2IbJWD/nKZ8yox/hbqEx5AwwrPeIY+G2z
qQkB1d9FwU8m/t+z3DjpasIv571yjw5FvOBG0jxXD+sUE5i7VS71oKgr4zH+pIA3uLXXHw4zLt+T
rDUA603cDezBqGR5DHgsdiFWYN0wl5HQa9CvP5jNpLxGKbE=`

// No two objects of Git with the same name are known, only files: an object begins with
// its type. So this is about what the names are made with.
func TestContentThatWasMadeToCollideIsRefused(t *testing.T) {
	t.Parallel()
	data, err := base64.StdEncoding.DecodeString(shattered)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha1cd.New().(sha1cd.CollisionResistantHash)
	for what, c := range map[string]struct {
		data []byte
		want error
	}{"one of two files with the same SHA-1": {data, ErrMalformed}, "another file": {data[1:], nil}} {
		sum.Reset()
		_, _ = sum.Write(c.data)
		if _, err := endName(sum); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
