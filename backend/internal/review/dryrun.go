package review

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

const (
	// askAgainAfter is how old an answer may be: what a control plane admits changes.
	askAgainAfter = 10 * time.Minute
	// unansweredFor is how long another version of a change waits for the answer about the one
	// before: somebody who pushes often has no more tried, and written, than the bridge answers.
	// That becomes twice as long with each that the bridge has not answered.
	unansweredFor, maxDoublings = 10 * time.Second, 6
	// transientFor is how long an answer is good that another try may change.
	transientFor = 5 * time.Second
	// answerTimeout is how long a person waits for an answer that was just asked for.
	answerTimeout, answerPoll = 3 * time.Second, 20 * time.Millisecond
)

// notAnswered is said of a claim before the bridge has answered, or while it is away.
const notAnswered = "the bridge has not answered yet"

var errManyDryRuns = errors.New("many other changes are tried already")

// ErrNoDryRuns says that the control plane does not know what a DryRun is.
var ErrNoDryRuns = errors.New("the control plane has no definition of DryRuns yet")

// +kubebuilder:rbac:groups=gitbind.dev,resources=dryruns,verbs=get;list;watch;create;update;delete

// markTried says of claims what the control plane's API server says to them, as the bridge has
// tried them: it may act as the tenant, and the backend may not. With patient it waits for an
// answer for a moment. Awaited says that there may be an answer later to what is not known now.
func (s *Service) markTried(ctx context.Context, cluster string, c *githost.Change, files []restapi.ChangedFile, patient bool) (awaited bool) {
	if s.DryRuns == nil || c.Effect == "" {
		return false
	}
	claims := proposed(c, files)
	if len(claims) == 0 {
		return false
	}
	answer, pending, err := s.dryRun(ctx, cluster, c, claims)
	for end := time.Now().Add(answerTimeout); patient && pending && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(answerPoll)
		answer, pending, err = s.dryRun(ctx, cluster, c, claims)
	}
	untried, mayCome := notAnswered, true
	switch {
	case errors.Is(err, errManyDryRuns), errors.Is(err, ErrNoDryRuns):
		untried, mayCome = err.Error(), false
	case err != nil:
		s.Log.WarnContext(ctx, "A change cannot be tried on the control plane", "cluster", cluster, "branch", c.Branch, "error", err)
		untried = "the control plane cannot be asked just now"
	}
	tried := map[string]v1alpha1.TriedClaim{}
	for _, t := range answer {
		tried[t.Path] = t
	}
	for _, claim := range claims {
		f := &files[slices.IndexFunc(files, func(f restapi.ChangedFile) bool { return f.Path == claim.Path })]
		t, ok := tried[f.Path]
		if awaited = awaited || ok && t.Transient || !ok && mayCome; !ok {
			f.Untried = untried
			continue
		}
		f.Problem, f.Untried = t.Refused, t.Untried
		if t.Refused == "" && t.Untried == "" && f.Action != restapi.ActionDelete {
			f.Effective, f.Unchanged = unlike(f.Fields, t)
		}
	}
	return awaited
}

// proposed are the claims of a change that are tried: not those that are refused anyway, or
// whose removal is held. Of those that are too many or too large it says so.
func proposed(c *githost.Change, files []restapi.ChangedFile) (claims []v1alpha1.ProposedClaim) {
	size := 0
	for i := range files {
		f := &files[i]
		if f.Name == "" || f.Problem != "" || f.Held != "" {
			continue
		}
		content := string(c.Files[i].Is)
		encoded := v1alpha1.EncodedSize(content)
		if size+encoded > v1alpha1.MaxDryRunBytes || len(claims) == v1alpha1.MaxDryRunClaims {
			f.Untried = fmt.Sprintf("of one change %d claims of %d KiB together are tried", v1alpha1.MaxDryRunClaims, v1alpha1.MaxDryRunBytes>>10)
			continue
		}
		size += encoded
		claims = append(claims, v1alpha1.ProposedClaim{Path: f.Path, Content: content})
	}
	return claims
}

// dryRun gives what the bridge has answered about just this version of a change, and asks for
// it where it has not, or long ago. An answer that was just asked for is pending.
func (s *Service) dryRun(ctx context.Context, cluster string, c *githost.Change, claims []v1alpha1.ProposedClaim) (answer []v1alpha1.TriedClaim, pending bool, err error) {
	if s.CanTry != nil {
		if err := s.CanTry(); err != nil {
			return nil, false, err
		}
	}
	var all v1alpha1.DryRunList
	if err := s.Control.List(ctx, &all, client.InNamespace(v1alpha1.TenantNamespace(cluster))); err != nil {
		return nil, false, err
	}
	change := v1alpha1.ProposedChange{Head: c.Head, Effect: c.Effect}
	d, stale := dryRunOf(all.Items, c.Branch, change)
	if stale != nil {
		if err := s.DryRuns.Delete(ctx, stale); client.IgnoreNotFound(err) != nil {
			return nil, false, err
		}
	}
	isNew := d == nil
	if isNew {
		d = &v1alpha1.DryRun{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(cluster), Name: dryRunName(c.Branch)}}
	}
	if d.Status.Change == change {
		answer = d.Status.Claims
	}
	since := s.Now().Sub(d.Spec.AskedAt.Time).Abs() // it may be of a clock that was ahead
	wanted := v1alpha1.DryRunSpec{Branch: c.Branch, Change: change, AskedAt: metav1.NewTime(s.Now()), Claims: claims}
	switch {
	case isNew:
		if err := s.makeRoom(ctx, cluster, all.Items); err != nil {
			return nil, false, err
		}
		d.Spec, since = wanted, 0
		err = s.DryRuns.Create(ctx, d)
	case !d.IsAnswered() && since < replaceAfter(d):
		return answer, since < answerTimeout, nil
	case d.Spec.Change != change, d.IsAnswered() && since >= goodFor(answer), since >= lookEvery:
		d.Spec, since = wanted, 0
		err = s.DryRuns.Update(ctx, d)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		// The cache is behind, or somebody else asks at the same time.
		return answer, true, nil
	}
	return answer, err == nil && since < answerTimeout && !d.IsAnswered(), err
}

// replaceAfter is how long what is asked stays while it is not answered: a bridge that is away
// does not have etcd filled with versions that nobody reads.
func replaceAfter(d *v1alpha1.DryRun) time.Duration {
	unanswered := d.Generation - d.Status.ObservedGeneration
	return unansweredFor << min(max(unanswered-1, 0), maxDoublings)
}

// goodFor is how long an answer is not asked for again.
func goodFor(answer []v1alpha1.TriedClaim) time.Duration {
	if slices.ContainsFunc(answer, func(t v1alpha1.TriedClaim) bool { return t.Transient }) {
		return transientFor
	}
	return askAgainAfter
}

// makeRoom takes away what was asked about changes that are proposed no more, where there are
// as many as there may be of one cluster.
func (s *Service) makeRoom(ctx context.Context, cluster string, all []v1alpha1.DryRun) error {
	if len(all) < v1alpha1.MaxDryRuns {
		return nil
	}
	branches, err := s.Git.Branches(ctx, cluster)
	if err != nil {
		return err
	}
	left := len(all)
	for i := range all {
		d := &all[i]
		if slices.Contains(branches, d.Spec.Branch) {
			continue
		}
		if err := s.DryRuns.Delete(ctx, d); client.IgnoreNotFound(err) != nil {
			return err
		}
		left--
	}
	if left >= v1alpha1.MaxDryRuns {
		return errManyDryRuns
	}
	return nil
}

// dryRunOf is what was asked about a change, also of another branch: on a Git host elsewhere a
// branch and its pull request have one commit, which shows one check. Otherwise it is what was
// asked about an older version of the branch, and nil where there is none. Where d is another
// branch's, stale is the branch's own: it is about an older version, and only takes a place.
func dryRunOf(all []v1alpha1.DryRun, branch string, change v1alpha1.ProposedChange) (d, stale *v1alpha1.DryRun) {
	// Both find the same one where there are several.
	slices.SortFunc(all, func(a, b v1alpha1.DryRun) int { return cmp.Compare(a.Name, b.Name) })
	find := func(is func(v1alpha1.DryRun) bool) *v1alpha1.DryRun {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return &all[i]
		}
		return nil
	}
	same := find(func(d v1alpha1.DryRun) bool { return d.Spec.Change == change })
	own := find(func(d v1alpha1.DryRun) bool { return d.Name == dryRunName(branch) })
	if same == nil || same == own {
		return own, nil
	}
	return same, own
}

func dryRunName(branch string) string {
	return fmt.Sprintf("change-%x", sha256.Sum256([]byte(branch)))[:24]
}

// unlike gives the fields that change on the control plane otherwise than the file says, and
// those of the file that do not change there.
func unlike(file []restapi.FieldChange, t v1alpha1.TriedClaim) (effective []restapi.FieldChange, unchanged []string) {
	changes := map[string]bool{}
	for _, f := range t.Fields {
		changes[f.Field] = true
		if c := restapi.FieldChange(f); !slices.Contains(file, c) {
			effective = append(effective, c)
		}
	}
	for _, f := range file {
		if !changes[f.Field] && t.MoreFields == 0 {
			unchanged = append(unchanged, f.Field)
		}
	}
	return effective, unchanged
}
