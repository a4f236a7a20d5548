package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
)

// heartbeats are those of the konnectors of one cluster, by process.
type heartbeats struct {
	*fixture
	cluster, user, password string
	heard                   map[string]string
}

// beat sends a process' heartbeat, and gives the answer, or what the backend said instead.
func (h heartbeats) beat(t *testing.T, process string) (answer restapi.HeartbeatAnswer, status int, words string) {
	t.Helper()
	body, err := json.Marshal(restapi.Heartbeat{Process: process, Heard: h.heard[process], GoneAfter: metav1.Duration{Duration: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, h.url+"/v1/clusters/"+h.cluster+"/heartbeat", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(h.user, h.password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var e restapi.Error
		_ = json.NewDecoder(resp.Body).Decode(&e)
		return answer, resp.StatusCode, e.Message
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	h.heard[process] = answer.Heard
	return answer, resp.StatusCode, ""
}

func (h heartbeats) beats(t *testing.T, processes ...string) (answer restapi.HeartbeatAnswer) {
	t.Helper()
	for _, p := range processes {
		var status int
		var words string
		if answer, status, words = h.beat(t, p); status != http.StatusOK {
			t.Fatalf("the heartbeat of %s: %d %s", p, status, words)
		}
	}
	return answer
}

func (f *fixture) testCopies(t *testing.T) {
	c := f.connect(t, env.Alice, "copied")
	h := heartbeats{f, c.ID, c.Credential.Username, c.Credential.Password, map[string]string{}}
	if a := h.beats(t, "a", "b", "b", "b"); a.Copied {
		t.Error("one process after the other is taken for a copy")
	}
	if a := h.beats(t, "a", "b", "a", "b"); !a.Copied || a.Alone {
		t.Errorf("two that speak in turn: %+v", a)
	}
	cb := f.binding(t, c.ID)
	said := f.condition(t, cb, func() []metav1.Condition { return cb.Status.Conditions }, v1alpha1.ConditionCopied, metav1.ConditionTrue)
	if !strings.Contains(said.Message, "--reclaim "+c.ID) {
		t.Errorf("it says %q", said.Message)
	}
	f.stop()
	f.run(t)
	if a := h.beats(t, "a"); !a.Copied || a.Alone {
		t.Errorf("to a backend that was started again: %+v", a)
	}
	if _, status, words := f.asks(t, http.MethodPost, "/v1/clusters/"+c.ID+"/credential", h.user, h.password); status != http.StatusConflict {
		t.Errorf("one of them renews the credential: %d %s", status, words)
	}
	again := restapi.ConnectRequest{Name: "test", ClusterUID: "copied"}
	if status, words := f.call(t, f.tokens[env.Alice], "POST", "/v1/clusters", again, nil); status != http.StatusConflict || !strings.Contains(words, "--reclaim "+c.ID) {
		t.Errorf("one of them is connected again: %d %s", status, words)
	}
	again.Reclaim = c.ID
	if status, words := f.call(t, f.tokens[env.Alice], "POST", "/v1/clusters", again, &c); status != http.StatusOK {
		t.Fatalf("one of them is to go on: %d %s", status, words)
	}
	if f.binding(t, c.ID).IsCopied() {
		t.Error("it was decided, and yet two are live")
	}
	eventually(t, "the other one is refused", func() error {
		if _, status, words := h.beat(t, "b"); status != http.StatusUnauthorized {
			return fmt.Errorf("%d %s", status, words)
		}
		return nil
	})
	h.password = c.Credential.Password
	if a := h.beats(t, "a", "a"); a.Copied {
		t.Errorf("the one that goes on: %+v", a)
	}
	for name, body := range map[string]string{"no JSON": "{", "no process": "{}", "a long name": `{"process":"` + strings.Repeat("x", 101) + `"}`} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, h.url+"/v1/clusters/"+h.cluster+"/heartbeat", strings.NewReader(body))
		r.SetBasicAuth(h.user, h.password)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
}
