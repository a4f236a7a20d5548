package embedded

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"gitbind.dev/backend/internal/refusal"
)

// spoolInMemory is how much of a request stays in memory; what is larger goes
// to a temporary file.
const spoolInMemory = 1 << 20

// spool is a request's body, whole and uncompressed, read before anything else
// waits for it.
type spool struct {
	memory []byte
	file   *os.File
	size   int64
}

// newSpool reads the body of r, at most limit bytes of it before and after
// decompression. TooLarge says of more what to do.
func (h *Host) newSpool(w http.ResponseWriter, r *http.Request, limit int64, tooLarge func(limit int64) error) (*spool, error) {
	ctl := http.NewResponseController(w)
	body := h.clientLimits.Reader(w, http.MaxBytesReader(w, r.Body, limit))
	// A deadline that stays would end the request while git works on it. Not
	// every writer has deadlines (tests); then there is none to clear.
	defer func() { _ = ctl.SetReadDeadline(time.Time{}) }()

	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, bodyError(err, limit, tooLarge)
		}
		body = z
	default:
		return nil, refusal.New(refusal.Invalid, "content encoding %q is not supported: send gzip or none", abbreviate(encoding))
	}

	s := &spool{}
	if err := s.fill(io.LimitReader(body, limit+1)); err != nil {
		s.close()
		return nil, bodyError(err, limit, tooLarge)
	}
	if s.size > limit {
		s.close()
		return nil, tooLarge(limit)
	}
	return s, nil
}

func (s *spool) fill(r io.Reader) error {
	var head bytes.Buffer
	n, err := io.CopyN(&head, r, spoolInMemory)
	s.size = n
	if errors.Is(err, io.EOF) {
		s.memory = head.Bytes()
		return nil
	}
	if err != nil {
		return err
	}
	if s.file, err = os.CreateTemp("", "gitbind-push-*"); err != nil {
		return err
	}
	// Nobody else has a use for its name.
	if err := os.Remove(s.file.Name()); err != nil {
		return err
	}
	if _, err := s.file.Write(head.Bytes()); err != nil {
		return err
	}
	n, err = io.Copy(s.file, r)
	s.size += n
	return err
}

// from reads the body, starting at an offset. Readers do not disturb each
// other.
func (s *spool) from(offset int64) io.ReadSeeker {
	if s.file != nil {
		return io.NewSectionReader(s.file, offset, s.size-offset)
	}
	return bytes.NewReader(s.memory[offset:])
}

// inMemory is the body from an offset on, nil if it is too large to be in memory.
func (s *spool) inMemory(offset int64) []byte {
	if s.file != nil {
		return nil
	}
	return s.memory[offset:]
}

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
}

func bodyError(err error, limit int64, tooLarge func(limit int64) error) error {
	var tooMany *http.MaxBytesError
	switch {
	case errors.As(err, &tooMany):
		return tooLarge(limit)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, io.ErrUnexpectedEOF):
		return refusal.Because(err, refusal.Invalid, "the request's body is damaged: send it again")
	}
	return fmt.Errorf("read request: %w", err)
}
