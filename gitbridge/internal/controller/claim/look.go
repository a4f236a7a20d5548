package claim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/drift"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// step is all about one path that is known now.
type step struct {
	decision.Facts
	view session.View
	// was is the blob of the present answer, "" for none.
	was store.Hash
	api exportedapi.API
	// data is the file's, and object what becomes of it: both only when the
	// file was read.
	data   []byte
	object *unstructured.Unstructured
	// changed is since when it is known that something just changed.
	changed time.Time
	// patched are the fields that the platform's template set.
	patched map[string]any
	// found is what Live is of: writes are made on exactly that.
	found *unstructured.Unstructured
	// removal is how the file went, as far as it matters.
	removal session.Removal
	// waits says that there is no room for the claim in its quota.
	waits bool
	// inputs is what bringing the claim's inputs came to, nil where that was not done.
	inputs *broughtInputs
}

// look gathers the facts about a path, but for how its file went. Release, if not nil, is
// called before it waits.
func (c *Controller) look(ctx context.Context, view session.View, path string, release func()) (*step, error) {
	s := &step{view: view}
	s.Cluster = c.Session.Cluster.ID
	s.Path, s.Head, s.Held = path, string(view.Main.Head()), view.Held
	s.Now = c.Now().UTC().Format(time.RFC3339)
	s.Recreate = c.Session.Recreation.Includes(path)
	var err error
	if s.Key, err = contract.ParsePath(path); err == nil {
		s.IsClaim = true
	}
	s.Present, s.was = c.Session.Answers.Seen(path)
	s.UID = c.Session.UID(path)
	entry, exists := view.Main.Entry(path)
	if !s.IsClaim {
		if exists {
			s.File = &decision.File{Blob: string(entry.Hash), Problem: c.misplaced(view.Main, entry)}
		}
		return s, nil
	}
	if s.api, err = c.watched(ctx, s.Key.Binding, release); err != nil {
		return nil, err
	}
	s.Access, s.Why, s.Unpermitted = s.api.Access, s.api.Why, s.api.Unpermitted
	if _, requested := view.Main.Entry(contract.RequestPath(s.Key.Binding)); requested && exists && s.Access == decision.NotBound {
		// The request has its own answer, which says what is in the way.
		s.Access = decision.NotGranted
	}
	if s.Access == decision.Granted {
		if err := c.findLive(s); err != nil {
			return nil, err
		}
	}
	if exists && !s.Held {
		return s, c.readFile(s, entry)
	}
	return s, nil
}

// isRemoved reports whether main lacks the file of a claim that there is, or was: then
// findRemoval says how it went.
func (s *step) isRemoved() bool {
	return s.IsClaim && !s.Held && s.File == nil && (s.Live != nil && !s.Live.Foreign || s.Present != nil)
}

// findRemoval says how the file went, unless there is nothing left to decide.
func (c *Controller) findRemoval(ctx context.Context, s *step) error {
	p := s.Present
	if s.Live == nil && p != nil && p.Result == contract.Gone {
		return nil
	}
	if s.RemovalBegan() && !c.Session.Removals.IsKnown(s.Path) {
		return nil
	}
	var seen session.Seen
	if p != nil && p.Answers.Blob != "" {
		seen.Answered = store.Hash(p.Answers.Commit)
	}
	if s.found != nil {
		seen.Applied = store.Hash(s.found.GetAnnotations()[tenant.CommitAnnotation])
	}
	var err error
	if s.removal, err = c.Session.Removals.Judge(ctx, s.Path, seen); err != nil {
		return err
	}
	s.Removal = &s.removal.Verdict
	return nil
}

func (c *Controller) findLive(s *step) error {
	u, err := c.Objects.Get(s.api.Kind, c.Session.Cluster.ClaimNamespace(s.Key.Namespace), s.Key.Name)
	if err != nil {
		return err
	}
	// Watching may be behind what the bridge itself did a moment ago.
	s.found = c.cache.newest(s.Path, u)
	s.Live = c.living(s.Key, s.found)
	return nil
}

// watched is an API whose objects are known, or cannot be for long. Waits, if not nil, is
// called before it waits for them.
func (c *Controller) watched(ctx context.Context, binding string, waits func()) (exportedapi.API, error) {
	api, err := c.APIs.Resolve(ctx, c.Session.Cluster.Namespace, binding)
	if err != nil {
		return api, err
	}
	if api.Access == decision.Granted {
		err = c.Objects.Watch(ctx, api.Kind, binding, c.Session.Cluster.ID, waits)
	}
	if err == nil {
		c.failing.Worked(binding)
		return api, nil
	}
	if c.failing.Failed(binding, c.Now()) < unwatched {
		return api, err
	}
	// What cannot be seen is not missing.
	api.Access = decision.NotWatched
	return api, nil
}

// unwatched is how long a kind may not be watched before its claims are answered
// without: not so soon that a short absence of the API server is told as an
// answer to every claim.
const unwatched = time.Minute

// living is an object as decisions see it, nil unless it is the claim's.
func (c *Controller) living(key contract.Key, u *unstructured.Unstructured) *decision.Live {
	if u == nil {
		return nil
	}
	id, origin, ok := tenant.Origin(key.Binding, u.GetNamespace(), u.GetName(), u.GetLabels())
	l := &decision.Live{Name: u.GetNamespace() + "/" + u.GetName(), Terminating: u.GetDeletionTimestamp() != nil}
	l.Status, _ = u.Object["status"].(map[string]any)
	l.Drifted = c.fights.IsDrift(key.Path(), drift.Found(u))
	isOurs := ok && id == c.Session.Cluster.ID && origin == key
	if isOurs {
		l.Applied = u.GetAnnotations()[tenant.AppliedAnnotation]
	}
	// One that was applied here once, and whose labels somebody changed, is ours.
	l.Foreign = !isOurs && u.GetAnnotations()[tenant.AppliedAnnotation] == ""
	l.Adopted = u.GetAnnotations()[v1alpha1.AdoptAnnotation] == c.Session.Cluster.ID
	return l
}

// misplaced says why a file that lies at no claim's path is refused.
func (c *Controller) misplaced(main *store.Snapshot, entry store.Entry) *contract.Problem {
	if lower := strings.ToLower(entry.Path); lower != entry.Path {
		if _, ok := main.Entry(lower); ok {
			return &contract.Problem{File: entry.Path, Reason: fmt.Sprintf("differs from %s by upper and lower case only: remove it or give it another name", lower)}
		}
	}
	// The path alone is enough to refuse it. An answer is text, a path need not
	// be.
	_, err := contract.Decode(contract.File{Path: entry.Path}, "")
	p := problem(err)
	p.File = strings.ToValidUTF8(p.File, "\ufffd")
	return p
}

func problem(err error) *contract.Problem {
	var p *contract.Problem
	if errors.As(err, &p) {
		return p
	}
	return nil
}
