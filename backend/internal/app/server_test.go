package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestABodyThatNeverComesEndsItsConnection(t *testing.T) {
	const timeout = 200 * time.Millisecond
	no := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) })
	s := httptest.NewUnstartedServer(nil)
	s.Config.Handler = boundBodies(no, timeout)
	s.Start()
	defer s.Close()
	for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/clusters HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", length)
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		// Until the server hangs up.
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(answer), "401 Unauthorized") {
			t.Errorf("%s: %v %q", length, err, answer)
		}
	}
}
