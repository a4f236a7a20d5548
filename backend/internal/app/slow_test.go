package app

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"gitbind.dev/backend/internal/pace"
)

// shortLimits are for the clients of these tests.
var shortLimits = pace.Limits{Idle: time.Second, Rate: 1 << 20, Grace: time.Second, Whole: time.Hour}

// slowServer serves what clients are slow to read.
type slowServer struct {
	*httptest.Server
	// done tells of each handler's end, and closed of each connection's.
	done, closed chan struct{}
}

func newSlowServer(t *testing.T, h http.HandlerFunc) *slowServer {
	t.Helper()
	s := &slowServer{httptest.NewUnstartedServer(nil), make(chan struct{}, 1e5), make(chan struct{}, 1e5)}
	s.Config = newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { s.done <- struct{}{} }()
		h(w, r)
	}), shortLimits, slog.New(slog.DiscardHandler))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			s.closed <- struct{}{}
		}
	}
	s.EnableHTTP2 = true
	s.StartTLS()
	return s
}

// dial opens a connection. Nothing is read from it by itself.
func (s *slowServer) dial(t *testing.T, protocols ...string) net.Conn {
	t.Helper()
	d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}}
	conn, err := d.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close) // after the connection
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// h2 asks once by HTTP/2, and lets the server send so much of each answer, and of all.
func (s *slowServer) h2(t *testing.T, window uint32) *http2.Framer {
	t.Helper()
	conn := s.dial(t, "h2")
	var head bytes.Buffer
	fields := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/"}} {
		if err := fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := io.WriteString(conn, http2.ClientPreface)
	f := http2.NewFramer(conn, conn)
	for _, write := range []func() error{
		func() error { return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}) },
		func() error { return f.WriteWindowUpdate(0, 1<<30) },
		func() error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true})
		},
	} {
		if err == nil {
			err = write()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func ends(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s never ends", what)
	}
}

func TestH4_WhoDoesNotReadAnAnswerLosesIt(t *testing.T) {
	t.Parallel()
	large := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<20)) }
	small := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<10)) }

	t.Run("a large one by HTTP 1", func(t *testing.T) {
		t.Parallel()
		s := newSlowServer(t, large)
		fmt.Fprint(s.dial(t), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		ends(t, "the handler", s.done)
		ends(t, "the connection", s.closed)
	})
	t.Run("many small ones by HTTP 1", func(t *testing.T) {
		t.Parallel()
		s := newSlowServer(t, small)
		conn := s.dial(t)
		go func() {
			for ask := []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 100)); ; {
				if _, err := conn.Write(ask); err != nil {
					return
				}
			}
		}()
		ends(t, "the connection", s.closed)
	})
	t.Run("a large one by HTTP 2 that may not be sent", func(t *testing.T) {
		t.Parallel()
		s := newSlowServer(t, large)
		s.h2(t, 0)
		ends(t, "the handler", s.done)
	})
	t.Run("a small one by HTTP 2 that may not be sent", func(t *testing.T) {
		t.Parallel()
		s := newSlowServer(t, small)
		f := s.h2(t, 0)
		reset := make(chan struct{})
		go func() {
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				if frame.Header().Type == http2.FrameRSTStream {
					close(reset)
					return
				}
			}
		}()
		ends(t, "the stream", reset)
	})
	t.Run("a large one by HTTP 2 on a connection that is not read", func(t *testing.T) {
		t.Parallel()
		s := newSlowServer(t, large)
		s.h2(t, 1<<30)
		ends(t, "the handler", s.done)
		ends(t, "the connection", s.closed)
	})
}

func TestAHandlerThatTakesItsTimeHasNoSlowClient(t *testing.T) {
	t.Parallel()
	s := newSlowServer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(2 * (shortLimits.Idle + shortLimits.Grace)) // what this is about
		_, _ = io.WriteString(w, "second")
	})
	defer s.Close()
	var both sync.WaitGroup
	for _, protocol := range []int{1, 2} {
		both.Go(func() {
			transport := s.Client().Transport.(*http.Transport).Clone()
			defer transport.CloseIdleConnections()
			if protocol == 1 {
				transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
			}
			r, err := (&http.Client{Transport: transport}).Get(s.URL)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			if err != nil || string(body) != "first second" || r.ProtoMajor != protocol {
				t.Errorf("HTTP/%d: %q, %v", r.ProtoMajor, body, err)
			}
		})
	}
	both.Wait()
}
