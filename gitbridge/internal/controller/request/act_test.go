package request

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

func TestWordsAreTheServers(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "apiserviceexports"}, "x", errors.New("by a policy"))
	for want, err := range map[string]error{
		"by a policy":     fmt.Errorf("create export x: %w", denied),
		"does not answer": errors.New("connect: connection refused to 10.0.0.1"),
	} {
		if got := words(err); !strings.Contains(got, want) || strings.Contains(got, "10.0.0.1") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Its author is told, and no app cluster waits for the answer to a head of main.
func TestL15_ARefusalThatRepeatsALargeValueIsAnswered(t *testing.T) {
	t.Parallel()
	const binding = "caches.example.org"
	path, remote := contract.RequestPath(binding), memstore.New()
	_, err := remote.Branch("main").Update(t.Context(), store.Edit{Subject: "Ask", Apply: func(tree *store.Tree) error {
		return tree.Write(path, []byte("kind: '"+strings.Repeat(`"`, 700_000)+"'\napiVersion: "+contract.APIVersion+"\nmetadata: {name: "+binding+"}\n"))
	}})
	if err != nil {
		t.Fatal(err)
	}
	followed := make(chan struct{})
	s := session.New(session.Options{
		Main: remote.Branch("main"), Status: remote.Branch("status"), Now: time.Now, Changed: func() {},
		Save:    func(context.Context, session.Checkpoint) error { return nil },
		Enqueue: func(string, bool) {}, Began: sync.OnceFunc(func() { close(followed) }),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx, nil, nil) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	select {
	case <-followed:
	case <-time.After(time.Minute):
		t.Fatal("main is not followed")
	}
	c := &Controller{Session: s, Server: none{}}
	if _, err := c.Reconcile(t.Context(), Request{Path: path}); err != nil {
		t.Errorf("%.300s", err.Error())
	}
	if answer := s.Answers.Of(path); answer == nil || answer.Result != contract.Invalid || answer.Problem.Reason == "" {
		t.Errorf("it is answered %.300s", fmt.Sprintf("%+v", answer))
	}
	if !s.Status.IsAnswered(s.View().Generation) {
		t.Error("the head is not answered")
	}
}

// none has no objects.
type none struct{ client.Reader }

func (none) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "apiserviceexports"}, key.Name)
}
