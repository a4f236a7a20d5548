// Package scan looks for the values of Secrets in all that a run of gitbind leaves where
// values must not be: Git objects, also packed and unreachable ones, objects of the API
// servers, Events, logs, temporary files, metrics, command lines and variables of
// processes. It does not look where values belong: into Secrets, and so into etcd.
package scan

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// ageKey begins each private key of age.
const ageKey = "AGE-SECRET-KEY-1"

// Scan is what is looked for.
type Scan struct {
	// marker begins each Value.
	marker string

	mu sync.Mutex
	// forms are in what form a value may stand somewhere, with the value.
	forms map[string]string
	// longest is the length of the longest form.
	longest int
	// commands are the command lines that there were.
	commands map[string]bool
}

// New looks for all that Value gives, and for keys of age.
func New() *Scan {
	s := &Scan{marker: "secret" + rand.Text(), forms: map[string]string{}, commands: map[string]bool{}}
	s.Add(s.marker)
	s.Add(ageKey)
	return s
}

// Value is a value for a Secret that says whose it is.
func (s *Scan) Value(whose string) string { return s.marker + " " + whose }

// Whose gives back what Value was told, false for another text.
func (s *Scan) Whose(value string) (string, bool) {
	return strings.CutPrefix(value, s.marker+" ")
}

// Add looks for a value that others made. One that is so short that it stands anywhere by
// chance is left out.
func (s *Scan) Add(value string) {
	if len(value) < 16 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, form := range formsOf(value) {
		s.forms[form] = value
		s.longest = max(s.longest, len(form))
	}
}

// Known is how many values are looked for, besides those with the marker.
func (s *Scan) Known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.forms)/len(formsOf(s.marker)) - 2
}

// formsOf are a value as it is, and what base64 makes of it at each place of a longer text.
func formsOf(value string) []string {
	forms := []string{value}
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), value...))
		// The first and the last characters may be made of what stands around it, too.
		from, to := (before*8+5)/6, (before+len(value))*8/6
		forms = append(forms, encoded[from:to])
	}
	return forms
}

// In gives a word for the first value that data holds: not the value itself, which would
// stand in a log then.
func (s *Scan) In(data []byte) (found string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for form, value := range s.forms {
		if i := bytes.Index(data, []byte(form)); i >= 0 {
			return fmt.Sprintf("a value that begins with %.6q, at byte %d", value, i), true
		}
	}
	return "", false
}

func (s *Scan) look(where string, data []byte) error {
	if found, ok := s.In(data); ok {
		return fmt.Errorf("%s holds %s", where, found)
	}
	return nil
}

// chunk is how much of a long text is looked at at once, in bytes.
const chunk = 1 << 20

// read looks at a text of any length.
func (s *Scan) read(ctx context.Context, where string, r io.Reader) error {
	s.mu.Lock()
	longest := s.longest
	s.mu.Unlock()
	buffer, kept := make([]byte, chunk+longest), 0
	for ctx.Err() == nil {
		n, err := io.ReadFull(r, buffer[kept:])
		if found := s.look(where, buffer[:kept+n]); found != nil {
			return found
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", where, err)
		}
		// A value may lie across the end.
		kept = copy(buffer, buffer[len(buffer)-longest:])
	}
	return ctx.Err()
}
