package connection

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/repository"
)

func TestConditions(t *testing.T) {
	conn := &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{BackendURL: "https://gitbind.example.org"}}
	for _, tc := range []struct {
		name         string
		fault        error
		events       error
		problem      *problem
		copied       string
		ready, heard string
	}{
		{name: "two live copies", copied: "Two live copies.", ready: "Copied", heard: "Connected"},
		{name: "the other one of two live copies goes on", copied: "Tear this one down.", fault: store.ErrUnauthorized, events: store.ErrUnauthorized, ready: "Copied", heard: "CredentialRefused"},
		{name: "all is well", ready: "Connected", heard: "Connected"},
		{name: "no Secret", problem: &problem{"SecretMissing", "no Secret"}, ready: "SecretMissing", heard: "NotConnected"},
		{name: "credential refused", fault: store.ErrUnauthorized, events: store.ErrUnauthorized, ready: "CredentialRefused", heard: "CredentialRefused"},
		{name: "no repository", fault: store.ErrRepositoryNotFound, ready: "RepositoryNotFound", heard: "Connected"},
		{name: "host down", fault: errors.New("connection refused"), events: errors.New("connection refused"), ready: "RepositoryUnreachable", heard: "BackendUnreachable"},
		{name: "backend down", events: errors.New("connection refused"), ready: "Connected", heard: "BackendUnreachable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			remote := memstore.New()
			if tc.fault != nil {
				remote.SetFault(func(memstore.Call) error { return tc.fault })
			}
			changed := make(chan struct{}, 100)
			repo := repository.New(repository.Options{
				Remote: repository.Remote{
					Main: remote.Branch("main"), Status: remote.Branch("status"),
					Listen: func(ctx context.Context, _ func(string, store.Hash), onError func(error)) {
						onError(tc.events)
						<-ctx.Done()
					},
				},
				Connection: "default",
				OnState:    func() { changed <- struct{}{} },
				Standing:   func() repository.Standing { return repository.Standing{Copied: tc.copied} },
			})
			if !connecting(repo) || tc.copied == "" && ready(repo, nil).Reason != "Connecting" {
				t.Error("it does not say that it has only begun")
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				repo.Run(ctx)
			}()
			defer func() {
				cancel()
				<-done
			}()
			late := time.After(time.Minute)
			for {
				r, e := ready(repo, tc.problem), events(conn, repo, tc.problem)
				if r.Reason == tc.ready && e.Reason == tc.heard {
					if (r.Status == metav1.ConditionTrue) != (tc.ready == "Connected") || r.Message == "" || e.Message == "" {
						t.Errorf("got %+v %+v", r, e)
					}
					return
				}
				select {
				case <-changed:
				case <-late:
					t.Fatalf("got %+v %+v", r, e)
				}
			}
		})
	}
	if c := events(&v1alpha1.Connection{}, nil, nil); c.Reason != "NotConfigured" {
		t.Errorf("got %+v", c)
	}
	if c := events(conn, nil, nil); c.Reason != "NotConnected" {
		t.Errorf("got %+v", c)
	}
}
