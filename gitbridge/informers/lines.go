package informers

import (
	"bufio"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// lines takes a stream apart by its lines: API servers write an event into one.
type lines struct{ runtime.Framer }

func (lines) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &lineReader{Closer: r, from: bufio.NewReaderSize(r, 64<<10)}
}

type lineReader struct {
	io.Closer
	from *bufio.Reader
	// line is the last one, and rest what is not read of it yet.
	line, rest []byte
}

// Read gives one line, or with io.ErrShortBuffer as much of it as there is room
// for.
func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	if l.rest = l.rest[n:]; len(l.rest) > 0 {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

func (l *lineReader) next() error {
	l.line = l.line[:0]
	for {
		part, err := l.from.ReadSlice('\n')
		l.line = append(l.line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.line) > 0:
			return io.ErrUnexpectedEOF
		}
		l.rest = l.line
		return err
	}
}
