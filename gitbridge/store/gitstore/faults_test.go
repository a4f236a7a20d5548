package gitstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
)

// counter is an edit that shows when it is lost or made twice.
func counter() store.Edit {
	return store.Edit{Author: storetest.Author, Subject: "claim: count", Apply: func(t *store.Tree) error {
		n := 0
		if data, err := t.Read("counter"); err == nil {
			if _, err := fmt.Sscan(string(data), &n); err != nil {
				return err
			}
		}
		return t.Write("counter", fmt.Append(nil, n+1))
	}}
}

// cut sends the head of an answer and some of its body, and ends the
// connection.
func cut(w http.ResponseWriter, res *httptest.ResponseRecorder, body []byte) {
	conn, buffer, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(buffer, "HTTP/1.1 %d OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", res.Code, res.Header().Get("Content-Type"), res.Body.Len())
	_, _ = buffer.Write(body)
	_ = buffer.Flush()
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// What may happen between a push and its answer. Each edit lands once.
func TestAPushOfWhichTheAnswerIsNoAnswerIsSettled(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(h *host, w http.ResponseWriter, r *http.Request){
		"cut after the request was sent, not taken": func(_ *host, _ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		},
		"cut in the middle of the request": func(_ *host, _ http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, 100)
			panic(http.ErrAbortHandler)
		},
		"taken, cut before the answer": func(h *host, _ http.ResponseWriter, r *http.Request) {
			h.backend.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		},
		"taken, cut after the head of the answer": func(h *host, w http.ResponseWriter, r *http.Request) {
			res := httptest.NewRecorder()
			h.backend.ServeHTTP(res, r)
			cut(w, res, nil)
		},
		"taken, cut after half of the answer": func(h *host, w http.ResponseWriter, r *http.Request) {
			res := httptest.NewRecorder()
			h.backend.ServeHTTP(res, r)
			cut(w, res, res.Body.Bytes()[:res.Body.Len()/2])
		},
		"taken, and half of the answer in good order": func(h *host, w http.ResponseWriter, r *http.Request) {
			res := httptest.NewRecorder()
			h.backend.ServeHTTP(res, r)
			w.Header().Set("Content-Type", res.Header().Get("Content-Type"))
			_, _ = w.Write(res.Body.Bytes()[:res.Body.Len()/2])
		},
		"taken, 502 from a proxy": func(h *host, w http.ResponseWriter, r *http.Request) {
			h.backend.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "bad gateway", http.StatusBadGateway)
		},
		"not taken, 502 from a proxy": func(_ *host, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		},
		"taken, a page of a proxy": func(h *host, w http.ResponseWriter, r *http.Request) {
			h.backend.ServeHTTP(httptest.NewRecorder(), r)
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>Come back later")
		},
		"taken, 504 after others pushed on top": func(h *host, w http.ResponseWriter, r *http.Request) {
			h.backend.ServeHTTP(httptest.NewRecorder(), r)
			other := h.Branch("main")
			for i := range 2 {
				if _, err := other.Update(r.Context(), storetest.Put("other", fmt.Sprint(time.Now().UnixNano(), i))); err != nil {
					h.t.Error(err)
				}
			}
			http.Error(w, "timeout", http.StatusGatewayTimeout)
		},
		"delivered twice": func(h *host, w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			for range 2 {
				r.Body = io.NopCloser(bytes.NewReader(body))
				res := httptest.NewRecorder()
				h.backend.ServeHTTP(res, r)
				if _, err := res.Body.WriteTo(io.Discard); err != nil {
					panic(err)
				}
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.backend.ServeHTTP(w, r)
		},
		"delivered again after others pushed on top": func(h *host, w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.backend.ServeHTTP(httptest.NewRecorder(), r)
			if _, err := h.Branch("main").Update(r.Context(), storetest.Put("other", fmt.Sprint(time.Now().UnixNano()))); err != nil {
				h.t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.backend.ServeHTTP(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			defer h.check()
			b := h.Branch("main")
			var left atomic.Int64
			h.set(func() {
				h.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasSuffix(r.URL.Path, "/git-receive-pack") || left.Add(-1) < 0 {
						return false
					}
					fault(h, w, r)
					return true
				}
			})
			for i := range 4 {
				left.Store(1)
				snap := update(t, b, counter())
				if data, _ := snap.Read("counter"); string(data) != fmt.Sprint(i+1) {
					t.Fatalf("counter is %s after %d edits", data, i+1)
				}
			}
			edits := 0
			for _, c := range h.History("main") {
				if strings.HasPrefix(c.Message, "claim: count") {
					edits++
				}
			}
			if edits != 4 {
				t.Errorf("%d commits of 4 edits", edits)
			}
		})
	}
}

// packAnswer is the answer to a fetch, as the remote gives it.
func (h *host) packAnswer(r *http.Request) *httptest.ResponseRecorder {
	res := httptest.NewRecorder()
	h.backend.ServeHTTP(res, r)
	return res
}

// beforePack is what the remote sends before the pack.
func (h *host) beforePack(r *http.Request) []byte {
	before, _, _ := bytes.Cut(h.packAnswer(r).Body.Bytes(), []byte("PACK"))
	return bytes.Clone(before)
}

// What a remote may send in the place of a pack. It is an error in bounded time
// and memory, what is known stays, and afterwards it goes on.
func TestAPackThatIsNotWhatWasAskedForIsRefusedAndForgotten(t *testing.T) {
	t.Parallel()
	const slow = "a stream that is slow and never ends"
	for name, tc := range map[string]struct {
		words string
		spoil func(h *host, w http.ResponseWriter, r *http.Request)
	}{
		"a flipped bit in an object": {"invalid checksum", func(h *host, w http.ResponseWriter, r *http.Request) {
			res := h.packAnswer(r)
			body := res.Body.Bytes()
			body[len(body)-40] ^= 4
			send(w, body)
		}},
		"a flipped bit in the sum": {"checksum mismatch", func(h *host, w http.ResponseWriter, r *http.Request) {
			body := h.packAnswer(r).Body.Bytes()
			body[len(body)-1] ^= 1
			send(w, body)
		}},
		"half a pack": {"read pack", func(h *host, w http.ResponseWriter, r *http.Request) {
			res := h.packAnswer(r)
			cut(w, res, res.Body.Bytes()[:res.Body.Len()/2])
		}},
		"half a pack in good order": {"malformed pack: unexpected EOF", func(h *host, w http.ResponseWriter, r *http.Request) {
			body := h.packAnswer(r).Body.Bytes()
			send(w, body[:len(body)/2])
		}},
		"a pack without the files": {"object missing: file", func(h *host, w http.ResponseWriter, r *http.Request) {
			send(w, append(h.beforePack(r), h.packOf("rev-list", "--objects", "--filter=blob:none", "-1", "main")...))
		}},
		"a pack without a folder": {"object missing: tree", func(h *host, w http.ResponseWriter, r *http.Request) {
			send(w, append(h.beforePack(r), h.packOf("rev-list", "--objects", "--filter=tree:1", "-1", "main")...))
		}},
		"a pack of something else": {"object missing: commit", func(h *host, w http.ResponseWriter, r *http.Request) {
			send(w, append(h.beforePack(r), h.packOf("rev-list", "-1", "main~1")...))
		}},
		"objects without an end": {"pack too large", func(h *host, w http.ResponseWriter, r *http.Request) {
			head := append(h.beforePack(r), "PACK\x00\x00\x00\x02\x00\x0f\x00\x00"...)
			blob := h.packOf("rev-parse", "main:x")
			blob = blob[12 : len(blob)-20]
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			_, err := w.Write(head)
			for err == nil && r.Context().Err() == nil {
				_, err = w.Write(bytes.Repeat(blob, 1000))
			}
		}},
		slow: {"read pack: no answer that ended", func(h *host, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			_, err := w.Write(append(h.beforePack(r), "PACK\x00\x00\x00\x02\x00\x00\x10\x00\xb0\xff\xff\x03x\x01"...))
			for err == nil && r.Context().Err() == nil {
				// One byte more, and it is not the last.
				_, err = io.WriteString(w, "\x00\x01\x00\xfe\xffx")
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			defer h.check()
			// A file that is missing is none that was left out for its size.
			h.git("config", "uploadpack.allowFilter", "false")
			writer := h.Branch("main")
			update(t, writer, storetest.Put("x", "1"))
			r := h.open(gitstore.Options{MaxPack: 1 << 20})
			reader := r.Branch("main")
			known := fetch(t, reader)
			update(t, writer, storetest.Put("ns/y", strings.Repeat("content ", 100)))
			h.set(func() {
				h.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
						return false
					}
					tc.spoil(h, w, r)
					return true
				}
			})
			restore := func() {}
			if name == slow {
				restore = r.SetTimeouts(time.Minute, 3*time.Second)
			}
			_, err := reader.Fetch(t.Context())
			switch {
			case err == nil:
				t.Error("it was taken")
			case errors.Is(err, store.ErrRejected), errors.Is(err, store.ErrConflict):
				t.Errorf("it is taken for an answer: %v", err)
			case !strings.Contains(err.Error(), tc.words):
				t.Errorf("%q is not in: %v", tc.words, err)
			}
			if reader.Snapshot().Head() != known.Head() {
				t.Error("what is known has changed")
			}
			restore()
			h.set(func() { h.intercept = nil })
			files := 2
			if store.LastingLimit(err) != nil {
				// Nothing of that commit is read any more.
				update(t, writer, storetest.Put("another", "1"))
				files++
			}
			if snap := fetch(t, reader); snap.Files() != files {
				t.Errorf("afterwards there are %d files", snap.Files())
			}
			update(t, reader, storetest.Put("z", "1"))
		})
	}
}

func send(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	_, _ = w.Write(body)
}

// packOf is a pack of the objects that a git command names.
func (h *host) packOf(args ...string) []byte {
	h.t.Helper()
	cmd := h.gitCommand(h.dir, "pack-objects", "--stdout", "-q")
	cmd.Stdin = strings.NewReader(h.git(args...))
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}
