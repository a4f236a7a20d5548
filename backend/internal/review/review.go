// Package review lets people look at proposed changes, discuss them, and approve or reject
// them. Who may is the control plane's RBAC (role approve on what a merge would change),
// nobody approves what they have pushed themselves, and an approval is of just the commit
// and the effect that the person has seen. How a change is kept, shown and merged is the
// Git host's business.
package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/backend/internal/requests"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/policies/evaluator"
)

// Access tells as whom a person comes to a cluster's repository. The error is a refusal.
type Access interface {
	Person(ctx context.Context, cluster string, who login.Identity) (access.Caller, error)
}

// Git is what the service needs of a Git host.
type Git interface {
	githost.Changes
	// Read is that of githost.History.
	Read(ctx context.Context, cluster, revision, path string) (data []byte, blob string, err error)
	// ReadAll calls fn with the content of each file at a revision, in their order: nil for one
	// that is not there, and beyond githost.MaxFile. The content is fn's only until it returns.
	// The error is githost.ErrNotFound for a revision that is not there.
	ReadAll(ctx context.Context, cluster, revision string, paths []string, fn func(path string, data []byte) error) error
}

// Pulls is what is asked of a Git host on which changes are reviewed by its own means: see
// githost.Checks.
type Pulls interface {
	Opened(ctx context.Context, cluster string) (map[string]githost.Opened, error)
}

// Service serves the review of proposed changes.
type Service struct {
	Requests   *requests.Server
	Konnectors *requests.Konnectors
	Access     Access
	// Control reads ClusterBindings, templates and exports.
	Control client.Reader
	Git     Git
	// DryRuns asks the bridge what the control plane's API server says; nil to ask nothing.
	DryRuns client.Writer
	// CanTry says why nothing can be asked, such as ErrNoDryRuns; nil if something always can.
	CanTry func() error
	// PublicURL is the backend's, where people look at changes.
	PublicURL string
	// Elsewhere gives where changes of a cluster are reviewed; nil if that is here.
	Elsewhere func(cluster string) string
	// Pulls tells what people make there of a branch; nil with Elsewhere.
	Pulls Pulls
	Log   *slog.Logger
	Now   func() time.Time

	// exports are by their blobs, and policies by their revisions.
	exports  compiled[*published]
	policies compiled[*evaluator.Set]
}

// Mount adds the service's routes.
func (s *Service) Mount(mux *http.ServeMux) {
	const path = "/v1/clusters/{id}"
	mux.Handle("GET "+path+"/changes", s.Requests.Handle(requests.Timeout, func(w http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		changes, more, err := s.Changes(r.Context(), who, r.PathValue("id"))
		if more {
			w.Header().Set(restapi.MoreHeader, "true")
		}
		return changes, err
	}))
	mux.Handle("GET "+path+"/changes/{branch...}", s.Requests.Handle(requests.Timeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return s.Change(r.Context(), who, r.PathValue("id"), contract.ChangesPrefix+r.PathValue("branch"))
	}))
	mux.Handle("GET "+path+"/proposal", s.Konnectors.Handle(s.proposal))
	mux.Handle("POST "+path+"/reviews", s.Requests.Handle(requests.Timeout, func(w http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		var in restapi.Review
		if err := requests.Decode(w, r, &in); err != nil {
			return nil, err
		}
		return s.Review(r.Context(), who, r.PathValue("id"), in)
	}))
}

// Changes lists the proposed changes of a cluster. More says that there are others.
func (s *Service) Changes(ctx context.Context, who login.Identity, cluster string) (changes []restapi.Change, more bool, err error) {
	if _, err := s.Access.Person(ctx, cluster, who); err != nil {
		return nil, false, err
	}
	found, more, err := s.Git.Changes(ctx, cluster)
	if err != nil {
		return nil, false, trouble(err)
	}
	changes = make([]restapi.Change, len(found))
	for i := range found {
		changes[i] = summary(&found[i])
	}
	return changes, more, nil
}

// proposal tells a konnector what became of what it has proposed.
func (s *Service) proposal(r *http.Request, who access.Caller) (any, error) {
	branch, commit := r.URL.Query().Get("branch"), r.URL.Query().Get("commit")
	if !strings.HasPrefix(branch, contract.ChangesPrefix) || !hash.MatchString(commit) {
		return nil, refusal.New(refusal.Invalid, "branch and commit: name a branch %s… and the whole hash of a commit", contract.ChangesPrefix)
	}
	outcome, err := s.Git.Outcome(r.Context(), who.Cluster, branch, commit)
	if err != nil {
		return nil, trouble(err)
	}
	answer := restapi.Proposal{State: restapi.ProposalOpen, Page: s.pageOf(who.Cluster, branch)}
	if s.Pulls != nil {
		opened, err := s.Pulls.Opened(r.Context(), who.Cluster)
		if err != nil {
			return nil, refusal.Because(err, refusal.Unavailable, "the Git host does not say what became of it: try again")
		}
		pull := opened[branch]
		answer.Page = cmp.Or(pull.Page, s.Elsewhere(who.Cluster))
		if pull.Closed != "" && pull.Closed == outcome.Head {
			outcome.Rejection = &githost.Event{}
		}
	}
	switch {
	case outcome.Merged:
		answer.State = restapi.ProposalMerged
	case outcome.Closed:
		answer.State = restapi.ProposalClosed
	case outcome.Lost:
		answer.State = restapi.ProposalLost
	case outcome.Rejection != nil:
		answer.State, answer.By, answer.Message = restapi.ProposalRejected, outcome.Rejection.By, outcome.Rejection.Message
	}
	return answer, nil
}

// pageOf is where people look at a change.
func (s *Service) pageOf(cluster, branch string) string {
	return s.PublicURL + "/clusters/" + cluster + "/" + contract.BranchPath(branch)
}

func summary(c *githost.Change) restapi.Change {
	return restapi.Change{
		Branch: c.Branch, Head: c.Head, Subject: c.Subject, Author: c.Author, When: c.When,
		ProposedBy: c.ProposedBy(), Rejected: c.Rejected(),
	}
}

// files are what a merge would change, and why the control plane would refuse it, or have it
// wait. With patient they may be some seconds late. Awaited says that it may be known later what
// the control plane's API server says.
func (s *Service) files(ctx context.Context, cluster string, c *githost.Change, patient bool) (files []restapi.ChangedFile, awaited bool) {
	var claims []pair
	for _, f := range c.Files {
		file, before, after := describe(f)
		files, claims = append(files, file), append(claims, pair{before, after, f.Before})
	}
	preview := preview{service: s, cluster: cluster, apis: map[string]*api{}, files: files}
	for i := range files {
		if f := &files[i]; f.Problem == "" && claims[i].after != nil {
			f.Problem = preview.problem(ctx, *f, claims[i])
		}
	}
	markMoved(cluster, c, files)
	awaited = s.markTried(ctx, cluster, c, files, patient)
	preview.markWaiting(ctx, claims)
	return files, awaited
}

// Change is a proposed change as a whole, and what the person may do with it.
func (s *Service) Change(ctx context.Context, who login.Identity, cluster, branch string) (*restapi.Change, error) {
	caller, err := s.Access.Person(ctx, cluster, who)
	if err != nil {
		return nil, err
	}
	found, err := s.Git.Change(ctx, cluster, branch)
	if err != nil {
		return nil, trouble(err)
	}
	c := summary(found)
	c.Effect, c.Conflicts = found.Effect, found.Conflicts
	c.Files, _ = s.files(ctx, cluster, found, true)
	for _, commit := range found.Commits {
		c.Commits = append(c.Commits, restapi.ChangeCommit{Hash: commit.Hash, Author: commit.Author, When: commit.When, Subject: commit.Subject})
	}
	for _, e := range found.Events {
		c.Events = append(c.Events, restapi.ChangeEvent{What: string(e.Kind), By: e.By, At: e.At, Commit: e.Commit, Message: e.Message})
	}
	may, err := s.judge(ctx, caller, found)
	if err != nil {
		return nil, err
	}
	c.MayComment, c.MayReject, c.MayApprove = may.comment == nil, may.reject == nil, may.approve == nil
	if may.approve != nil {
		_, c.Blocked = refusal.Answer(may.approve)
	}
	return &c, nil
}

// Review takes what a person says of a proposed change.
func (s *Service) Review(ctx context.Context, who login.Identity, cluster string, in restapi.Review) (*restapi.Reviewed, error) {
	in.Message = strings.TrimSpace(in.Message)
	if err := check(in); err != nil {
		return nil, err
	}
	caller, err := s.Access.Person(ctx, cluster, who)
	if err != nil {
		return nil, err
	}
	seen, err := s.Git.Change(ctx, cluster, in.Branch)
	if err != nil {
		return nil, trouble(err)
	}
	// What has no effect cannot be approved at all, and judge says why.
	otherEffect := in.Verdict == restapi.VerdictApprove && seen.Effect != "" && seen.Effect != in.Effect
	if seen.Head != in.Head || otherEffect {
		return nil, trouble(githost.ErrMoved)
	}
	may, err := s.judge(ctx, caller, seen)
	if err != nil {
		return nil, err
	}
	at := s.Now().UTC().Truncate(time.Second)
	event := githost.Event{By: caller.Name, At: at, Message: in.Message}
	answer := &restapi.Reviewed{}
	switch in.Verdict {
	case restapi.VerdictComment:
		if event.Kind, err = githost.EventCommented, may.comment; err == nil {
			err = s.Git.Record(ctx, cluster, in.Branch, in.Head, event)
		}
	case restapi.VerdictReject:
		if event.Kind, err = githost.EventRejected, may.reject; err == nil {
			err = s.Git.Record(ctx, cluster, in.Branch, in.Head, event)
		}
	case restapi.VerdictApprove:
		if err = may.approve; err == nil {
			// The rights were asked for of this effect, and main may move meanwhile.
			answer.Merged, err = s.Git.Merge(ctx, cluster, githost.Merge{Branch: in.Branch, Head: in.Head, Effect: seen.Effect, By: caller.Name, Message: in.Message, At: at})
		}
	}
	if err != nil {
		return nil, trouble(err)
	}
	s.Log.InfoContext(ctx, "Reviewed", "cluster", cluster, "by", caller.Name, "branch", in.Branch, "head", in.Head, "verdict", in.Verdict, "merged", answer.Merged)
	return answer, nil
}

var hash = regexp.MustCompile(`^[0-9a-f]{40}$`)

func check(in restapi.Review) error {
	switch {
	case !strings.HasPrefix(in.Branch, contract.ChangesPrefix):
		return refusal.New(refusal.Invalid, "branch: name a branch %s…", contract.ChangesPrefix)
	case !hash.MatchString(in.Head):
		return refusal.New(refusal.Invalid, "head: give the whole hash of the commit that you have looked at")
	case in.Verdict == restapi.VerdictApprove && !hash.MatchString(in.Effect):
		return refusal.New(refusal.Invalid, "effect: give that of the change that you have looked at")
	case in.Verdict != restapi.VerdictApprove && in.Effect != "":
		return refusal.New(refusal.Invalid, "effect: it is for an approval")
	case !slices.Contains([]restapi.Verdict{restapi.VerdictComment, restapi.VerdictReject, restapi.VerdictApprove}, in.Verdict):
		return refusal.New(refusal.Invalid, "verdict: it is one of comment, reject and approve")
	case in.Message == "" && in.Verdict != restapi.VerdictApprove:
		return refusal.New(refusal.Invalid, "message: say something, so that the person who proposed it can go on")
	case utf8.RuneCountInString(in.Message) > githost.MaxMessage:
		return refusal.New(refusal.Invalid, "message: it has %d characters, at most %d", utf8.RuneCountInString(in.Message), githost.MaxMessage)
	case !utf8.ValidString(in.Message) || strings.ContainsFunc(in.Message, brief.IsHidden):
		return refusal.New(refusal.Invalid, "message: it has characters that cannot be seen")
	}
	return nil
}

// permission is what a person may do with a change: nil, or a refusal.
type permission struct{ comment, reject, approve error }

// maxParts bounds the parts of a repository that one change may be about: each is a
// question to the control plane's API server, or three.
const maxParts = 50

// judge finds out what a person may do with a change.
func (s *Service) judge(ctx context.Context, caller access.Caller, c *githost.Change) (may permission, err error) {
	if s.Elsewhere != nil {
		no := refusal.New(refusal.Conflict, "it is discussed, approved and merged on the Git host: %s", s.Elsewhere(caller.Cluster))
		return permission{comment: no, reject: no, approve: no}, nil
	}
	parts := partsOf(c)
	lacking, err := lacks(ctx, caller, restapi.RepositoryApprove, parts)
	mayApproveEffect := err == nil && lacking == ""
	if mayApproveEffect {
		// Main gets the commits, too, and what others propose by them is merged by that.
		if lacking, err = lacks(ctx, caller, restapi.RepositoryApprove, onlyTouched(c, parts)); lacking != "" {
			lacking += ", which its commits touch"
		}
	}
	if err != nil {
		return may, err
	}
	own := partIn(c, caller)
	if lacking != "" {
		may.approve = refusal.New(refusal.Forbidden, "you (%s) may not approve changes of %s: the cluster's owner lets you with kubectl gitbind share approve", caller.Name, lacking)
		if !aloneIn(c, caller) {
			may.reject = may.approve
		}
		if own == "" && !mayApproveEffect {
			if lacking, err = lacks(ctx, caller, restapi.RepositoryPropose, parts); err != nil {
				return may, err
			}
			if lacking != "" {
				may.comment = refusal.New(refusal.Forbidden, "you (%s) may look at changes of %s, but neither propose nor approve any", caller.Name, lacking)
			}
		}
		return may, nil
	}
	may.approve, err = s.blocked(ctx, caller, c, own)
	return may, err
}

// blocked says why a change cannot be approved by somebody who has the right.
func (s *Service) blocked(ctx context.Context, caller access.Caller, c *githost.Change, own string) (blocked, err error) {
	switch {
	case c.Unrelated:
		return refusal.New(refusal.Conflict, "%s has no commit in common with main: begin it again on top of main", c.Branch), nil
	case len(c.Conflicts) > 0:
		return refusal.New(refusal.Conflict, "main has changed the same lines meanwhile: the person who proposed it resolves that with git merge origin/main, and pushes again"), nil
	case c.More || c.Older:
		return refusal.New(refusal.Conflict, "it is too much for one person to have looked at (at most %d files and %d commits, and %d bytes of a path): propose it in parts, or merge and push it with git", githost.MaxChangedFiles, githost.MaxChangeCommits, githost.MaxPath), nil
	case len(c.Files) == 0:
		return refusal.New(refusal.Conflict, "main has all of it already: reject it, and the branch can be deleted"), nil
	case own != "":
		return refusal.New(refusal.Forbidden, "you (%s) have %s a part of it: somebody else approves it", caller.Name, own), nil
	case c.Imported, len(c.ProposedBy()) == 0 && (len(c.Commits) == 0 || !ofKonnector(caller.Cluster, c.Commits[0])):
		return refusal.New(refusal.Conflict, "it was pushed before it was recorded who pushes what: add a commit and push again"), nil
	}
	var cb v1alpha1.ClusterBinding
	if err := s.Control.Get(ctx, client.ObjectKey{Name: caller.Cluster}, &cb); err != nil {
		return nil, refusal.Because(err, refusal.Unavailable, "clusters cannot be looked at just now: try again")
	}
	if cb.Spec.Signatures != nil {
		return refusal.New(refusal.Conflict, "the control plane takes only what is signed with a key that counts, and a merge by this page is not: "+
			"git fetch, git switch --detach origin/main, git merge --no-ff -S origin/%s, git push origin HEAD:main", c.Branch), nil
	}
	return nil, nil
}

// partIn says what part a person has in a change: "" for none. What was made in the app
// cluster is the person's as far as the cluster knows them by the same name.
func partIn(c *githost.Change, caller access.Caller) string {
	if slices.Contains(c.ProposedBy(), caller.Name) {
		return "pushed"
	}
	email, listed := madeBy(caller)
	for _, made := range c.Commits {
		if made.Email == email || slices.Contains(made.With, listed) {
			return "made"
		}
	}
	return ""
}

// aloneIn tells whether a person, and nobody else, has pushed a change, and nobody else made
// a part of it in the app cluster: without the right to approve it they may take it back,
// which has the branch deleted. That they made it in the cluster is not enough: the cluster
// chooses its names.
func aloneIn(c *githost.Change, caller access.Caller) bool {
	if c.Older || !slices.Equal(c.ProposedBy(), []string{caller.Name}) {
		return false
	}
	email, listed := madeBy(caller)
	return !slices.ContainsFunc(c.Commits, func(made githost.Commit) bool {
		if !ofKonnector(caller.Cluster, made) {
			return false
		}
		return made.Email != email || slices.ContainsFunc(made.With, func(with string) bool { return with != listed })
	})
}

// madeBy gives how a commit of the konnector names a person: as its author, and beside one.
func madeBy(caller access.Caller) (email, listed string) {
	name, email := contract.Identity(caller.Name, caller.Cluster)
	return email, fmt.Sprintf("%s <%s>", name, email)
}

// ofKonnector tells whether the konnector made a commit: the host refuses its address from
// anybody else.
func ofKonnector(cluster string, made githost.Commit) bool {
	return strings.HasSuffix(made.Email, "@"+contract.ClusterDomain(cluster))
}

// konnectors gives the newest commit of a change that the konnector made, nil for none, and tells
// whether it made all of them.
func konnectors(cluster string, c *githost.Change) (newest *githost.Commit, alone bool) {
	alone = !c.Older
	for i := range c.Commits {
		switch of := ofKonnector(cluster, c.Commits[i]); {
		case !of:
			alone = false
		case newest == nil:
			newest = &c.Commits[i]
		}
	}
	return newest, alone
}

// partsOf are the parts of the repository that a merge would change, or that the branch is
// named after where that is not known.
func partsOf(c *githost.Change) []access.Part {
	if parts := changedParts(c); len(parts) > 0 {
		return parts
	}
	f := strings.Split(strings.TrimPrefix(c.Branch, contract.ChangesPrefix), "/")
	if len(f) < 3 {
		return []access.Part{{}}
	}
	return []access.Part{access.PartOf("bindings/" + f[0] + "/claims/" + f[1] + "/" + f[2])}
}

func changedParts(c *githost.Change) (parts []access.Part) {
	for _, f := range c.Files {
		if p := access.PartOf(f.Path); !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	return parts
}

// onlyTouched are the parts that commits of a change touch beside those that a merge changes.
func onlyTouched(c *githost.Change, changed []access.Part) []access.Part {
	return slices.DeleteFunc(slices.Clone(c.Touched), func(p access.Part) bool { return slices.Contains(changed, p) })
}

// lacks gives in words the first of some parts on which a person does not have a role, or
// "".
func lacks(ctx context.Context, caller access.Caller, role restapi.RepositoryRole, parts []access.Part) (string, error) {
	if caller.Role == access.Owner || len(parts) == 0 {
		return "", nil
	}
	if all, err := caller.Rights.May(ctx, role, access.Part{}); err != nil || all {
		return "", err
	}
	if len(parts) > maxParts {
		return fmt.Sprintf("%d namespaces and bindings at once", len(parts)), nil
	}
	for _, p := range parts {
		if ok, err := caller.Rights.May(ctx, role, p); err != nil || !ok {
			return p.String(), err
		}
	}
	return "", nil
}

// trouble makes a refusal of what a Git host says.
func trouble(err error) error {
	switch {
	case errors.Is(err, githost.ErrNotFound):
		return refusal.New(refusal.NotFound, "there is no such proposed change, or no longer: it was merged, or its branch deleted")
	case errors.Is(err, githost.ErrMoved):
		return refusal.New(refusal.Conflict, "the change is not what you have looked at any more: look again, then decide")
	case errors.Is(err, githost.ErrMessage), errors.Is(err, githost.ErrFull):
		return refusal.Because(err, refusal.Conflict, "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return refusal.Because(err, refusal.Unavailable, "the Git host takes too long: try again")
	}
	return err
}
