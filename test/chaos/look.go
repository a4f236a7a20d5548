package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// looker is what people need to find out what became of a claim when the app cluster was
// restored.
type looker struct {
	*etcdRestore
	sides      *sides
	reviewer   *reviewer
	deliveries *deliveries
	// resolve is `kubectl gitbind resolve`.
	resolve func(ctx context.Context, c *claim, take string) error
}

var errNotYet = errors.New("cluster and main do not agree yet")

// look finds out what became of a claim when the cluster was restored, as a person does: they
// wait until the konnector has brought the cluster to where Git is, and decide what is held.
// They believe nothing before whatever was on its way at the restore has arrived.
func (d *developer) look(run context.Context, c *claim) {
	began := time.Now()
	l := d.looker
	sleep(run, time.Until(l.back.Add(late)))
	c.isReleased = false
	var u *unstructured.Unstructured
	if !d.try(run, c, "it is seen what became of it when the cluster was restored", func(ctx context.Context) (err error) {
		u, err = d.found(ctx, c)
		return err
	}) {
		return
	}
	e := Entry{Sent: began, Side: Cluster, Op: Look, Claim: c.key(), Outcome: Accepted}
	c.there, c.uid = u != nil, ""
	if u != nil {
		c.uid = string(u.GetUID())
		c.life = d.journal.lifeOf(c, field(u, "size"))
	}
	e.Life, e.Note = c.life, c.uid
	d.journal.write(e)
	if u != nil && c.isReleased {
		d.journal.noteFields(c, u)
	}
	l.seen(c.key())
}

// found is the object of a claim once cluster and main agree on it, nil for none.
func (d *developer) found(ctx context.Context, c *claim) (*unstructured.Unstructured, error) {
	l := d.looker
	file, err := l.sides.at(ctx, "main", c.path())
	if err != nil {
		return nil, err
	}
	u, err := d.objects(c).Get(ctx, c.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !isGone(err), err != nil && !apierrors.IsNotFound(err):
		return nil, err
	case err != nil && file != nil:
		return nil, fmt.Errorf("%w: it has a file, and no object", errNotYet)
	case err != nil:
		return nil, l.isDecided(ctx, c)
	}
	held := condition(u, "Held")
	isHeld := held["status"] == "True" && isCurrent(held, u)
	_, head, err := l.proposed(ctx, c)
	if err != nil {
		return nil, err
	}
	// It may say what it said at the snapshot, and the konnector has not looked at it since:
	// it waits for a review only with what is proposed now.
	awaitsReview := condition(u, "Committed")["reason"] == "AwaitingReview" && head != "" && proposedBy(u) == head
	switch {
	case isHeld && (held["reason"] != "Rejected" || u.GetDeletionTimestamp() != nil):
		if err := l.decideHeld(ctx, c, u, file); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: it is held: %v", errNotYet, held)
	case u.GetDeletionTimestamp() != nil:
		return nil, fmt.Errorf("%w: it is being deleted", errNotYet)
	case file == nil && isHeld && head == "" && !strings.Contains(fmt.Sprint(held["message"]), "was closed"):
		return nil, fmt.Errorf("%w: it is said to be rejected, and nothing is proposed", errNotYet)
	case file == nil && (isHeld || awaitsReview):
		return u, nil
	case file == nil:
		return nil, fmt.Errorf("%w: it has no file: its condition Committed is %v", errNotYet, condition(u, "Committed"))
	case field(file, "size") != field(u, "size"):
		return nil, fmt.Errorf("%w: its size is %q, and in the file %q", errNotYet, field(u, "size"), field(file, "size"))
	case !c.both && !isHeld && !awaitsReview && !sameSpec(file, u):
		// Who deletes it now has not seen what main says.
		return nil, fmt.Errorf("%w: its spec is %v, and in the file %v", errNotYet, u.Object["spec"], file.Object["spec"])
	}
	return u, nil
}

// proposedBy is the commit that the konnector has proposed of an object, as the object says,
// "" for none.
func proposedBy(u *unstructured.Unstructured) string {
	var proposal struct{ Commit string }
	if json.Unmarshal([]byte(u.GetAnnotations()[v1alpha1.ProposalAnnotation]), &proposal) != nil {
		return ""
	}
	return proposal.Commit
}

// sameSpec reports whether two objects have the same spec in JSON.
func sameSpec(a, b *unstructured.Unstructured) bool {
	x, errX := json.Marshal(a.Object["spec"])
	y, errY := json.Marshal(b.Object["spec"])
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// decideHeld decides as Git says, as far as there is a choice: nobody knows more of what was
// after the snapshot.
func (l *looker) decideHeld(ctx context.Context, c *claim, u, file *unstructured.Unstructured) error {
	offered, _, _ := unstructured.NestedStringSlice(u.Object, "status", "gitbind", "hold", "choices")
	for _, take := range []string{"file", "release", "delete"} {
		if !slices.Contains(offered, take) || take != "delete" && file == nil {
			continue
		}
		l.reviewer.journal.note("%s: after the restore it is held: %v: a person takes %s", c.key(), condition(u, "Held"), take)
		if take == "release" {
			c.isReleased = true
			l.deliveries.release(string(u.GetUID()))
		}
		return l.resolve(ctx, c, take)
	}
	return nil
}

// isDecided is an error as long as something is proposed of a claim that somebody may still
// approve.
func (l *looker) isDecided(ctx context.Context, c *claim) error {
	branch, head, err := l.proposed(ctx, c)
	if err == nil && head != "" && !l.reviewer.hasRejected(head) {
		err = fmt.Errorf("%w: %s waits for a review", errNotYet, branch)
	}
	return err
}

// proposed is the branch on which changes of a claim are proposed, and its head, "" for none.
func (l *looker) proposed(ctx context.Context, c *claim) (branch, head string, err error) {
	branch = contract.ChangeBranch(c.id())
	out, err := l.sides.git(ctx, "for-each-ref", "--format=%(objectname)", contract.HeadsPrefix+branch)
	return branch, strings.TrimSpace(string(out)), err
}

// hasRejected reports whether the reviewer rejects a head, and will not change its mind.
func (r *reviewer) hasRejected(head string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verdicts[head] == restapi.VerdictReject
}

// orderAgain creates a claim that was lost with the cluster if something is still proposed of
// it, so that this is replaced.
func (p *proposer) orderAgain(run context.Context, c *claim) {
	p.try(run, c, "what was proposed of it before the restore is replaced", func(ctx context.Context) error {
		_, head, err := p.looker.proposed(ctx, c)
		if err != nil || head == "" || c.there {
			return err
		}
		if p.create(ctx, c); !c.there {
			return errors.New("it is not created")
		}
		return nil
	})
}

// lifeOf is the life of a claim whose object has a size: each has another one, if any.
func (j *Journal) lifeOf(c *claim, size string) int {
	for _, e := range slices.Backward(j.all()) {
		if e.Claim == c.key() && e.Op == Create && size != "" && e.Value == size {
			return e.Life
		}
	}
	return max(1, c.life)
}
