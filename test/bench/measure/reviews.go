package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// host is where people propose changes and merge them.
type host interface {
	// judge waits for what is said of a branch that was pushed, and fails unless nothing is
	// against it.
	judge(ctx context.Context, branch, commit string) error
	// merge has somebody else merge what was judged last, and tells when that was asked for.
	merge(ctx context.Context) (asked time.Time, err error)
}

// merges are changes that are proposed and merged, one at a time.
type merges struct {
	host
	// url is the repository's, with the credential of who proposes in the folder clone.
	url, clone string
	// pushed and judged are since the push began, the others since the merge was asked for.
	pushed, judged, answered, control, app figure.Samples
}

// reviews measures on the embedded host what becomes of proposals, beside bare pushes and
// the relay.
func (r *run) reviews(ctx context.Context) error {
	n := 30
	if r.Quick {
		n = 10
	}
	bare, err := r.prepare(ctx, repository{files: max(n, r.size), commits: 1, folders: namespaces}, n)
	if err != nil {
		return err
	}
	if _, err := r.Plugin(ctx, env.Alice, r.Platform.App(), "share", "approve", "--user", env.Bob, "--binding", stage.Subject.Resource, "--yes"); err != nil {
		return err
	}
	alice, err := r.Dex.IDToken(ctx, env.Alice)
	if err != nil {
		return err
	}
	bob, err := r.Dex.IDToken(ctx, env.Bob)
	if err != nil {
		return err
	}
	url, err := r.CloneURL(ctx, env.App)
	if err != nil {
		return err
	}
	m := &merges{host: &embedded{run: r, bob: bob}, url: strings.Replace(url, "://", "://alice:"+alice+"@", 1)}
	var floor figure.Samples
	err = r.merges(ctx, m, n, func(i int) error {
		began := time.Now()
		err := bare.push(ctx, i)
		floor.Milliseconds(time.Since(began))
		return err
	})
	if err != nil {
		return err
	}
	r.add(figure.Of("git push of a proposal → taken by the host", r.size, "ms", m.pushed, floor))
	r.add(figure.Of("git push of a proposal → what the control plane says of it", r.size, "ms", m.judged, floor))
	return r.straight(ctx, url, alice, n)
}

// gitea measures there what is measured on the embedded host: a burst, single changes, and
// merges of pull requests.
func (r *run) gitea(ctx context.Context) error {
	if err := r.bursts(ctx); err != nil {
		return err
	}
	if err := r.changes(ctx); err != nil {
		return err
	}
	n := 15
	if r.Quick {
		n = 5
	}
	c := &platform.Company{Gitea: r.Gitea, Repository: "/" + platform.Organization + "/" + r.ID}
	if err := c.Hire(ctx, ada, ben); err != nil {
		return err
	}
	return r.merges(ctx, &merges{host: &pulls{Company: c}, url: c.CloneURL(ada, platform.PeoplePassword)}, n, func(int) error { return nil })
}

// merges proposes and merges n changes on an idle system, each after a bare push and an edit
// that the relay carries.
func (r *run) merges(ctx context.Context, m *merges, n int, push func(i int) error) error {
	floor, subject, err := r.ways(ctx, n)
	if err != nil {
		return err
	}
	if m.clone, err = r.clone(ctx, m.url); err != nil {
		return err
	}
	defer os.RemoveAll(m.clone)
	// Otherwise it would not be known whether anything is judged.
	const refused = "changes/refused"
	_, commit, err := r.propose(ctx, m, refused, claimPath(stage.Namespace(0), subject.names[0]), 0)
	if err != nil {
		return err
	}
	if err := m.judge(ctx, refused, commit); !errors.Is(err, errRefused) {
		return errors.Join(errors.New("a claim without connections is not refused"), err)
	}
	if err := r.Quiet(ctx, still); err != nil {
		return err
	}
	for i := range n {
		if err := push(i); err != nil {
			return err
		}
		if err := r.edit(ctx, floor, i); err != nil {
			return err
		}
		if err := r.merge(ctx, m, stage.Namespace(i%namespaces), subject.names[i]); err != nil {
			return fmt.Errorf("merge %s: %w", subject.names[i], err)
		}
	}
	r.add(figure.Of("a merge → answered", r.size, "ms", m.answered, nil))
	r.add(figure.Of("a merge → claim changed on the control plane", r.size, "ms", m.control, floor.edit))
	r.add(figure.Of("a merge → claim changed in the app cluster", r.size, "ms", m.app, floor.edit))
	return nil
}

// ways are n claims that the relay has carried, and n of gitbind's.
func (r *run) ways(ctx context.Context, n int) (floor, subject *way, err error) {
	floor = &way{resource: stage.Floor, names: r.newNames("m", n)}
	subject = &way{resource: stage.Subject, names: r.newNames("m", n)}
	for _, w := range []*way{floor, subject} {
		if err := r.create(ctx, w.resource, w.names); err != nil {
			return nil, nil, err
		}
		if _, err := r.SeenApp.UntilAll(ctx, w.resource, w.names, returned(w.resource)); err != nil {
			return nil, nil, err
		}
	}
	return floor, subject, nil
}

// merge sends one change of a claim through.
func (r *run) merge(ctx context.Context, m *merges, namespace, name string) error {
	ctx, cancel := deadline(ctx, shortTime, "one merge")
	defer cancel()
	branch := "changes/" + name
	began, commit, err := r.propose(ctx, m, branch, claimPath(namespace, name), edited)
	if err != nil {
		return err
	}
	m.pushed.Milliseconds(time.Since(began))
	if err := m.judge(ctx, branch, commit); err != nil {
		return err
	}
	m.judged.Milliseconds(time.Since(began))
	asked, err := m.merge(ctx)
	if err != nil {
		return err
	}
	m.answered.Milliseconds(time.Since(asked))
	for _, at := range []struct {
		eyes    *stage.Eyes
		samples *figure.Samples
	}{{r.SeenControl, &m.control}, {r.SeenApp, &m.app}} {
		s, err := at.eyes.Until(ctx, stage.Subject, name, isEdited)
		if err != nil {
			return err
		}
		at.samples.Milliseconds(s.Changed.Sub(asked))
	}
	_, err = r.SeenApp.Until(ctx, stage.Subject, name, returned(stage.Subject))
	return err
}

// propose pushes a branch with one change of a claim's file, and tells when that began.
func (r *run) propose(ctx context.Context, m *merges, branch, path string, maxConnections int) (began time.Time, commit string, err error) {
	if commit, err = r.commit(ctx, m.clone, path, maxConnections); err != nil {
		return began, "", err
	}
	began = time.Now()
	_, err = r.git(ctx, m.clone, "push", "--quiet", "origin", "HEAD:refs/heads/"+branch)
	return began, commit, err
}

// errRefused says that the control plane would refuse what is proposed.
var errRefused = errors.New("the control plane would refuse it")

// embedded is the embedded host, where Bob looks at what Alice proposes.
type embedded struct {
	*run
	bob  string
	seen restapi.Change
}

func (h *embedded) judge(ctx context.Context, branch, commit string) error {
	h.seen = restapi.Change{}
	switch err := h.Ask(ctx, h.bob, http.MethodGet, "/v1/clusters/"+h.ID+"/"+branch, nil, &h.seen); {
	case err != nil:
		return err
	case h.seen.Head != commit || len(h.seen.Files) != 1 || !h.seen.MayApprove:
		return fmt.Errorf("look at %s: %+v", branch, h.seen)
	case h.seen.Files[0].Problem != "":
		return fmt.Errorf("%w: %s", errRefused, h.seen.Files[0].Problem)
	}
	return nil
}

func (h *embedded) merge(ctx context.Context) (asked time.Time, err error) {
	review := restapi.Review{Branch: h.seen.Branch, Head: h.seen.Head, Effect: h.seen.Effect, Verdict: restapi.VerdictApprove}
	asked = time.Now()
	return asked, h.Ask(ctx, h.bob, http.MethodPost, "/v1/clusters/"+h.ID+"/reviews", review, &restapi.Reviewed{})
}

// ada proposes and ben merges, on Gitea.
const ada, ben = "ada", "ben"

// pulls is a Gitea.
type pulls struct {
	*platform.Company
	path string
}

func (h *pulls) judge(ctx context.Context, branch, commit string) (err error) {
	if h.path, err = h.Open(ctx, ada, branch, branch); err != nil {
		return err
	}
	var state, words string
	err = env.Await(shortTime, func() error {
		state, words, err = h.Says(ctx, ada, commit)
		if err == nil && (state == "" || state == "pending") {
			err = fmt.Errorf("nothing is said of %s", branch)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case state != "success":
		// Otherwise it would be looked at again after each merge.
		gone := h.As(ctx, ada, http.MethodDelete, "/repos"+h.Repository+"/branches/"+branch, nil, nil)
		return errors.Join(fmt.Errorf("%w: %s", errRefused, words), gone)
	}
	return h.Approve(ctx, ben, h.path)
}

func (h *pulls) merge(ctx context.Context) (asked time.Time, err error) {
	return h.Merge(ctx, ben, h.path)
}
