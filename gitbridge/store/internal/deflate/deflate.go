// Package deflate keeps short texts small while they lie in memory: each for
// itself, against words that most of them have in common. It says when a
// process has become large enough for that, and decides nothing else.
package deflate

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// roomy is the heap in bytes up to which the time for packing is better saved.
const roomy = 96 << 20

// level is that of compression. The fastest one finds half as much in texts of a
// few hundred bytes, and is no faster there: what takes time is to begin.
const level = 6

// live is the heap as the last garbage collection left it, in bytes, and when that
// was asked, in nanoseconds.
var live, asked atomic.Int64

// Needed reports whether the process has become large enough for packing to be
// worth its time.
func Needed() bool {
	const often = int64(50 * time.Millisecond)
	if now, last := time.Now().UnixNano(), asked.Load(); now-last > often && asked.CompareAndSwap(last, now) {
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(heap)
		if heap[0].Value.Kind() == metrics.KindUint64 {
			live.Store(int64(heap[0].Value.Uint64()))
		}
	}
	return live.Load() > roomy
}

// Words are what the texts have in common, and what packs against them.
type Words struct {
	words            []byte
	writers, readers sync.Pool
}

// New takes the words, the most frequent last.
func New(words string) *Words {
	w := &Words{words: []byte(words)}
	// Each writer has half a MiB of tables.
	w.writers.New = func() any {
		writer, err := flate.NewWriterDict(io.Discard, level, w.words)
		if err != nil {
			panic(err) // only for a level that there is not
		}
		return writer
	}
	w.readers.New = func() any { return flate.NewReaderDict(bytes.NewReader(nil), w.words) }
	return w
}

// Pack makes a text small. The result has no capacity to spare.
func (w *Words) Pack(plain []byte) []byte {
	var b bytes.Buffer
	writer := w.writers.Get().(*flate.Writer)
	defer w.writers.Put(writer)
	writer.Reset(&b)
	// A buffer takes everything.
	_, _ = writer.Write(plain)
	_ = writer.Close()
	return append(make([]byte, 0, b.Len()), b.Bytes()...)
}

// Whole is the text again, in memory of its own.
func (w *Words) Whole(packed []byte) ([]byte, error) {
	reader := w.readers.Get().(io.ReadCloser)
	defer w.readers.Put(reader)
	if err := reader.(flate.Resetter).Reset(bytes.NewReader(packed), w.words); err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("unpack %d bytes: %w", len(packed), err)
	}
	return plain, nil
}
