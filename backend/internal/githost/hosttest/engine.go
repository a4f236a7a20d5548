package hosttest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
)

// engine has the agents' own Git engine do what agents do: the konnector pushes a claim, the
// bridge reads it and answers, and another credential takes the place of one that ended.
func engine(t *testing.T, w World) {
	h, id := w.made(t)
	ctx := t.Context()
	open := func(c *githost.Credential) *gitstore.Repository {
		t.Helper()
		r, err := gitstore.Open(gitstore.Options{
			URL: h.URL(id), Committer: storetest.Author, PushesPerMinute: -1,
			Credentials: func(context.Context) (string, string, error) { return c.Username, c.Password, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	k, b := issue(t, h, id, konnector, "k"), issue(t, h, id, bridge, "b")
	main, answers := open(&k).Branch("main"), open(&b)
	const claim, answer = "bindings/b/claims/n/c.yaml", "observed.yaml"
	if _, err := main.Update(ctx, storetest.Put(claim, "spec: {}\n")); err != nil {
		t.Fatalf("the konnector pushes: %v", err)
	}
	seen, err := answers.Branch("main").Fetch(ctx)
	if err != nil {
		t.Fatalf("the bridge reads: %v", err)
	}
	if text, err := seen.Read(claim); err != nil || string(text) != "spec: {}\n" {
		t.Errorf("the bridge reads %q, %v", text, err)
	}
	if _, err := answers.Branch("status").Update(ctx, storetest.Put(answer, "seen\n")); err != nil {
		t.Errorf("the bridge answers: %v", err)
	}
	if _, err := answers.Branch("main").Update(ctx, storetest.Put(claim, "spec: {other: true}\n")); !errors.Is(err, store.ErrRejected) && !slices.Contains(w.Taken, "the bridge pushes to main") {
		t.Errorf("the bridge pushes to main: %v", err)
	}
	ended := k
	k = issue(t, h, id, konnector, "next")
	if err := h.Retain(ctx, id, konnector, func(context.Context) ([]string, error) { return []string{"next"}, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := open(&ended).Branch("main").Fetch(ctx); !errors.Is(err, store.ErrUnauthorized) {
		t.Errorf("with what ended: %v", err)
	}
	if _, err := main.Update(ctx, storetest.Put(claim, "spec: {next: true}\n")); err != nil {
		t.Errorf("the konnector goes on with the next one: %v", err)
	}
}
