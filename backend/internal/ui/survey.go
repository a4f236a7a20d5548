package ui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/contract"
)

// survey is what a cluster's repository says about its claims, at one commit of
// each branch.
type survey struct {
	main, status string
	// claims are by binding, each in the order of namespace and name.
	claims map[string][]item
	// requests are by binding: those that ask for the API by Git.
	requests map[string]item
	// refused are the files of main that are no claims.
	refused []item
	// tooMany says that the repository holds more files than are shown.
	tooMany error
}

// item is one claim, or one refused file.
type item struct {
	key contract.Key
	// path is that on main.
	path string
	// blob is that of the file on main, "" when it is not there; said is that of
	// the answer on status.
	blob, said string
	*answer
}

func (i item) state() State { return judge(i.blob, i.answer) }

// look surveys a cluster's repository.
func (h *handler) look(ctx context.Context, cluster string) (*survey, error) {
	s := &survey{claims: map[string][]item{}, requests: map[string]item{}}
	var err error
	if s.main, err = h.head(ctx, cluster, "main"); err != nil {
		return nil, err
	}
	if s.status, err = h.head(ctx, cluster, "status"); err != nil {
		return nil, err
	}
	if known, ok := h.known(cluster, s); ok {
		return known, known.tooMany
	}
	// Everybody who waits here wants the same: it is gathered once for all, and to
	// the end when some of them leave.
	select {
	case r := <-h.surveying.DoChan(cluster+" "+s.main+" "+s.status, func() (any, error) {
		return h.survey(context.WithoutCancel(ctx), cluster, s)
	}):
		if r.Err != nil {
			return nil, r.Err
		}
		s = r.Val.(*survey)
		return s, s.tooMany
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// survey fills in and keeps a survey. It gives another one if somebody else has
// done so meanwhile.
func (h *handler) survey(ctx context.Context, cluster string, s *survey) (_ *survey, err error) {
	defer func() {
		// The server recovers what panics in a handler, and this is not in one.
		if p := recover(); p != nil {
			err = fmt.Errorf("survey %s: %v\n%s", cluster, p, debug.Stack())
		}
	}()
	if known, ok := h.known(cluster, s); ok {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	err = h.gather(ctx, cluster, s)
	if errors.Is(err, githost.ErrTooMany) {
		s = &survey{main: s.main, status: s.status, tooMany: err}
	} else if err != nil {
		return nil, err
	}
	h.surveys.Add(cluster, s)
	return s, nil
}

// known is a survey of the same commits.
func (h *handler) known(cluster string, s *survey) (*survey, bool) {
	found, _ := h.surveys.Get(cluster)
	known, ok := found.(*survey)
	return known, ok && known.main == s.main && known.status == s.status
}

// head is a branch's commit, "" for a branch that is not there yet.
func (h *handler) head(ctx context.Context, cluster, branch string) (string, error) {
	commit, err := h.Git.Head(ctx, cluster, branch)
	if errors.Is(err, githost.ErrNotFound) {
		return "", nil
	}
	return commit, gitTrouble(err)
}

func (h *handler) gather(ctx context.Context, cluster string, s *survey) error {
	items := map[string]*item{}
	at := func(path string) *item {
		if items[path] == nil {
			items[path] = &item{path: path}
		}
		return items[path]
	}
	for _, part := range []struct {
		revision, folder string
		keep             func(path string) bool
		each             func(githost.File)
	}{
		{s.main, contract.Root, isOurs, func(f githost.File) { at(f.Path).blob = f.Blob }},
		{s.status, contract.Root, isOurs, func(f githost.File) { at(f.Path).said = f.Blob }},
		{s.status, contract.RefusedRoot, func(string) bool { return true }, func(f githost.File) {
			path := strings.TrimPrefix(f.Path, contract.RefusedRoot+"/")
			at(f.Path).path, at(f.Path).said = path, f.Blob
		}},
	} {
		if part.revision == "" {
			continue
		}
		files, err := h.Git.List(ctx, cluster, part.revision, part.folder, part.keep)
		if err != nil {
			return gitTrouble(err)
		}
		for _, f := range files {
			part.each(f)
		}
	}
	if err := h.answers(ctx, cluster, items); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(items)) {
		i := items[path]
		key, err := contract.ParsePath(path)
		binding, isRequest := contract.ParseRequestPath(path)
		switch {
		case err == nil:
			i.key = key
			s.claims[key.Binding] = append(s.claims[key.Binding], *i)
		case isRequest:
			s.requests[binding] = *i
		default:
			s.refused = append(s.refused, *i)
		}
	}
	return nil
}

// isOurs tells whether a path is that of a claim or of a request.
func isOurs(path string) bool {
	_, err := contract.ParsePath(path)
	_, isRequest := contract.ParseRequestPath(path)
	return err == nil || isRequest
}

// answers fills in what status says, reading only what was not read before.
func (h *handler) answers(ctx context.Context, cluster string, items map[string]*item) error {
	wanted := map[string][]*item{}
	for _, i := range items {
		if i.said == "" {
			continue
		}
		if a, ok := h.read.Get(i.said); ok {
			i.answer = a.(*answer)
			continue
		}
		wanted[i.said] = append(wanted[i.said], i)
	}
	blobs := make([]string, 0, len(wanted))
	for b := range wanted {
		blobs = append(blobs, b)
	}
	err := h.Git.Blobs(ctx, cluster, blobs, func(blob string, data []byte) error {
		a := digest(data)
		h.read.Add(blob, a)
		for _, i := range wanted[blob] {
			i.answer = a
		}
		return ctx.Err()
	})
	return gitTrouble(err)
}

// longest is how much of a message lists keep, in characters.
const longest = 300

// digest reads a ClaimStatus for a list; nil data is one that is too large.
func digest(data []byte) *answer {
	s, err := contract.DecodeStatus(data)
	if err != nil {
		return &answer{broken: true}
	}
	secrets := s.Secrets.Names()
	a := &answer{blob: s.Answers.Blob, result: s.Result, reason: s.Reason, message: s.Message, secrets: secrets[:min(len(secrets), maxSecrets)]}
	for _, c := range providerConditions(s.Status) {
		if c.Type != s.ReadyType() {
			continue
		}
		a.ready = c.Status
		// A time that cannot be read is none.
		a.since, _ = time.Parse(time.RFC3339, c.Since)
	}
	if s.Problem != nil {
		a.message = s.Problem.Error()
	}
	if a.waiting = short(contract.WaitsFor(s.Status, s.ReadyType()), longest); a.message == "" && a.ready != "True" {
		a.message = a.waiting
	}
	a.message = short(a.message, longest)
	return a
}

// condition is one of a provider's, as far as it looks like one.
type condition struct{ Type, Status, Reason, Message, Since string }

func providerConditions(status map[string]any) []condition {
	list, _ := status["conditions"].([]any)
	var out []condition
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string {
			s, _ := m[key].(string)
			return s
		}
		if c := (condition{text("type"), text("status"), text("reason"), text("message"), text("lastTransitionTime")}); c.Type != "" {
			out = append(out, c)
		}
	}
	return out
}

// gitTrouble says of an error of the Git host that it may pass; words that are
// meant for people stay.
func gitTrouble(err error) error {
	var r *refusal.Refusal
	switch {
	case err == nil || errors.As(err, &r):
		return err
	case errors.Is(err, githost.ErrTooMany):
		return refusal.Because(err, refusal.TooLarge, "the Git repository has too many files to show: use kubectl gitbind get")
	}
	return refusal.Because(err, refusal.Unavailable, "the Git repository cannot be read just now: nothing is lost, try again in a moment")
}
