package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gitbind.dev/test/chromium"
	"gitbind.dev/test/env"
)

// What Tilt v0.33.21 answers, as far as the page reads it.
const (
	tiltView = `{
		"uiResources": [{"metadata": {"name": "konnector"}, "status": {"order": 1, "updateStatus": "ok", "runtimeStatus": "error",
			"endpointLinks": [{"url": "http://localhost:1/metrics", "name": "metrics"}]}}],
		"uiButtons": [
			%s,
			{"metadata": {"name": "toggle-konnector-disable", "annotations": {"tilt.dev/uibutton-type": "DisableToggle"}},
			 "spec": {"text": "Disable Resource", "location": {"componentType": "Resource", "componentID": "konnector"}}}],
		"logList": {"spans": {"cmd": {"manifestName": "konnector"}}, "segments": [{"spanId": "cmd", "text": "\u001b[31mit was killed\u001b[0m\n"}]}
	}`
	tiltButton = `{"metadata": {"name": "kill-konnector"}, "spec": {"text": "Kill it", "location": {"componentType": "Resource", "componentID": "konnector"}}}`
)

func TestThePageOfTiltShowsWhatRunsAndPressesItsButtons(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a browser: not with -short")
	}
	t.Parallel()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	pressed := make(chan []byte, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(root, "test", "env", "parts", "tilt", "page.html"))
	})
	mux.HandleFunc("GET /favicon.ico", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /api/view", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, tiltView, tiltButton) })
	const button = "/proxy/apis/tilt.dev/v1alpha1/uibuttons/kill-konnector"
	mux.HandleFunc("GET "+button, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tiltButton) })
	mux.HandleFunc("PUT "+button+"/status", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		pressed <- body
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	w := chromium.Start(t).Open(t, server.Listener.Addr().String())
	w.Goes(server.URL)
	w.Sees("tbody", "konnector", "ok", "error", "metrics", "Kill it")
	w.ShowsNothingOf("Disable Resource")
	w.Do(chromedp.Click(chromedp.CSS("tbody td:first-child button"), chromedp.NodeVisible))
	w.Sees("#log", "it was killed")
	w.ShowsNothingOf("[31m")
	w.Do(chromedp.Click(chromedp.CSS("tbody td:last-child button"), chromedp.NodeVisible))
	select {
	case body := <-pressed:
		var got struct {
			Status struct{ LastClickedAt string }
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		// Tilt refuses any other precision.
		if at, err := time.Parse("2006-01-02T15:04:05.000000Z", got.Status.LastClickedAt); err != nil || time.Since(at).Abs() > time.Minute {
			t.Errorf("pressed at %q: %v", got.Status.LastClickedAt, err)
		}
	case <-time.After(time.Minute):
		t.Error("the button was pressed, and Tilt was told nothing")
	}
	w.Faultless()
}
