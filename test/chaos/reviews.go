package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

const (
	// reviewedNamespace is where changes come to main only when somebody has approved them.
	reviewedNamespace = "team-c"
	// approver is who may approve there.
	approver = env.Bob
	// proposers is how many people propose changes, each of a claim of their own: they wait
	// for what is said of a removal.
	proposers = 12
	// reviews is how many changes the approver looks at, at a time.
	reviews = 4
)

// engageReviewer makes the namespace whose changes are reviewed, and engages the people there.
func (r *run) engageReviewer(ctx context.Context, client dynamic.Interface, a *api) error {
	if err := makeNamespace(ctx, r.sides.app, reviewedNamespace); err != nil {
		return err
	}
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, v1alpha1.ChangesLabel, v1alpha1.ChangesPullRequest)
	if _, err := r.sides.app.Resource(namespaces).Patch(ctx, reviewedNamespace, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		return err
	}
	if _, err := r.Plugin(ctx, user, r.App(), "share", "approve", "--user", approver, "--binding", a.resource.Resource, "-n", reviewedNamespace, "--yes"); err != nil {
		return err
	}
	token, err := r.Dex.IDToken(ctx, approver)
	if err != nil {
		return err
	}
	r.reviewer = &reviewer{
		api: a, journal: r.journal, host: r.sides.host, pause: r.options.Pause, verdicts: map[string]restapi.Verdict{}, busy: map[string]bool{}, blocked: map[string]string{},
		isAsked: map[types.UID]bool{}, isTold: map[string]bool{}, onControl: map[string][]string{},
		values: map[valueOf][]string{}, restore: r.restore,
		ask: func(ctx context.Context, method, path string, in, out any) error {
			return r.Ask(ctx, token, method, "/v1/clusters/"+r.sides.clusterID+path, in, out)
		},
	}
	r.looker.reviewer = r.reviewer
	for i := range proposers {
		p := &proposer{sides: r.sides, reviewer: r.reviewer, deliveries: r.deliveries}
		// An edit may be three writes of the konnector: see newRate.
		p.claim = &claim{api: a, namespace: reviewedNamespace, name: fmt.Sprintf("reviewed-%d", i), size: "one of its own", rate: rate.NewLimiter(rate.Every(18*time.Second), 12)}
		// What becomes of an object whose removal was rejected, it decides as the administrator does.
		p.administrator = &administrator{
			developer: &developer{client: client, journal: r.journal, numbers: &r.numbers, values: r.scan, pause: 3 * r.options.Pause, looker: r.looker},
			api:       a, app: r.sides.app, control: r.sides.control, say: r.say, resolve: r.administrator.resolve,
		}
		r.proposers = append(r.proposers, p)
	}
	return nil
}

// proposer changes a claim in the app cluster where that only proposes something.
type proposer struct {
	*administrator
	claim      *claim
	sides      *sides
	reviewer   *reviewer
	deliveries *deliveries
}

// work changes the claim until load ends. Then it sees to it that all of it is approved, as long
// as run lasts.
func (p *proposer) work(run, load context.Context, rng *rand.Rand) {
	end, _ := load.Deadline()
	c := p.claim
	for load.Err() == nil {
		if p.looker.pending(c.key()) {
			p.look(run, c)
		}
		p.change(run, c, rng, end)
		sleep(load, time.Duration(rng.Int64N(int64(2*p.pause))))
	}
	p.looker.over(run)
	if p.looker.pending(c.key()) {
		p.look(run, c)
		p.orderAgain(run, c)
	}
	if c.there {
		p.awaitApproval(run, c)
	}
}

// change does one thing with the claim.
func (p *proposer) change(run context.Context, c *claim, rng *rand.Rand, end time.Time) {
	run, done := p.looker.until(run)
	defer done()
	switch roll := rng.IntN(100); {
	case !c.rate.Allow():
	case !c.there:
		p.create(run, c)
	case roll < 30 && time.Until(end) > lastRound:
		p.cancel(run, c, roll < 4)
	case roll < 45:
		p.takeBack(run, c)
	default:
		p.edit(run, c, c.api.cluster[rng.IntN(len(c.api.cluster))], roll > 90)
	}
}

// cancel deletes a claim, and waits until that is approved. Where it is rejected, the object
// is made again from the file. One that was never approved it keeps, unless early says
// otherwise: such a one goes at once.
func (p *proposer) cancel(run context.Context, c *claim, early bool) {
	restores := p.reviewer.host.restores.Load()
	before, file, ok := p.readMain(run, c)
	if !ok || file == nil && !early {
		return
	}
	p.reviewer.expectEnd(c)
	deleted, ok := p.deleteObject(run, c)
	if !ok {
		return
	}
	if deleted.Outcome == Refused {
		p.journal.write(deleted)
		return
	}
	isRejected := false
	if !p.try(run, c, "its removal is approved or rejected", func(ctx context.Context) error {
		u, err := p.objects(c).Get(ctx, c.name, metav1.GetOptions{})
		switch {
		case isGone(err), err == nil && string(u.GetUID()) != c.uid:
			return nil
		case err != nil:
			return err
		}
		if isRejected = u.GetDeletionTimestamp() != nil && rejected(u); isRejected {
			return nil
		}
		after, file, err := p.onMain(ctx, c)
		if err == nil && (file != nil || after == before) {
			err = fmt.Errorf("it is neither, and in the reviewer's way is %q", p.reviewer.inTheWay(c))
		}
		return err
	}) {
		deleted.Outcome = Unknown
	}
	if !isRejected {
		c.there = deleted.Outcome != Accepted
		p.journal.write(deleted)
		return
	}
	p.deliveries.release(c.uid)
	if p.decide(run, c, "release") {
		if p.reviewer.host.restores.Load() > restores && p.wasApproved(run, c) {
			c.there = false
			p.journal.write(deleted)
			return
		}
		// Main cannot change for this claim before it has an object again.
		p.noteNew(run, c)
		p.awaitNew(run, c)
	}
	if errors.Is(context.Cause(run), errRestored) {
		// It may be made again from the file, or be what it was.
		deleted.Outcome = Unknown
		p.journal.write(deleted)
	}
}

// wasApproved reports whether main lacks the file of a claim whose removal was rejected: a restored
// host may have lost that. Then the removal is proposed again, and somebody else decides on it.
func (p *proposer) wasApproved(run context.Context, c *claim) bool {
	_, file, ok := p.readMain(run, c)
	return ok && file == nil
}

// noteNew writes down what main gives to an object that is made again.
func (p *proposer) noteNew(run context.Context, c *claim) {
	p.try(run, c, "main can be read", func(ctx context.Context) error {
		_, file, err := p.onMain(ctx, c)
		if err != nil {
			return err
		}
		if file == nil {
			return errors.New("there is no file")
		}
		p.journal.noteFields(c, file)
		return nil
	})
}

// noteFields writes down that what people set in the cluster is now as main says.
func (j *Journal) noteFields(c *claim, file *unstructured.Unstructured) {
	for _, name := range c.api.cluster {
		j.write(Entry{Sent: time.Now(), Side: Cluster, Op: Edit, Claim: c.key(), Life: c.life, Field: name, Value: field(file, name), Outcome: Accepted, Note: "as main says"})
	}
}

// takeBack makes an object say again what main says.
func (p *proposer) takeBack(run context.Context, c *claim) {
	ctx, cancel := context.WithTimeout(run, answerTimeout)
	defer cancel()
	_, file, err := p.onMain(ctx, c)
	u, errOfObject := p.objects(c).Get(ctx, c.name, metav1.GetOptions{})
	if err != nil || errOfObject != nil || file == nil {
		return
	}
	for _, name := range c.api.cluster {
		// Each is an edit of its own.
		switch value := field(file, name); {
		case value == field(u, name):
			continue
		case !c.rate.Allow():
			return
		case value == "":
			p.set(run, c, name, nil)
		default:
			p.set(run, c, name, value)
		}
	}
}

// awaitApproval waits until main has what an object says. What was rejected is changed once
// more: nobody rejects anything new by then.
func (p *proposer) awaitApproval(run context.Context, c *claim) {
	p.try(run, c, "its change is approved", func(ctx context.Context) error {
		u, err := p.objects(c).Get(ctx, c.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if rejected(u) {
			p.edit(run, c, c.api.cluster[0], false)
			return errors.New("it is rejected")
		}
		proposal := u.GetAnnotations()[v1alpha1.ProposalAnnotation]
		if committed := condition(u, "Committed"); committed["status"] != "True" || !isCurrent(committed, u) || proposal != "" {
			return fmt.Errorf("its condition Committed is %v, its proposal %q, and in the reviewer's way %q", committed, proposal, p.reviewer.inTheWay(c))
		}
		return nil
	})
}

// rejected reports whether somebody has rejected what an object says now.
func rejected(u *unstructured.Unstructured) bool {
	held := condition(u, "Held")
	return held["status"] == "True" && held["reason"] == "Rejected" && isCurrent(held, u)
}

func isCurrent(condition map[string]any, u *unstructured.Unstructured) bool {
	return fmt.Sprint(condition["observedGeneration"]) == fmt.Sprint(u.GetGeneration())
}

// onMain is the last commit of main that changed a claim's file, "" for none, and the file
// as it is there, nil for none.
func (p *proposer) onMain(ctx context.Context, c *claim) (commit string, file *unstructured.Unstructured, err error) {
	out, err := p.sides.git(ctx, "log", "--first-parent", "--max-count=1", "--format=%H", "main", "--", c.path())
	if commit = strings.TrimSpace(string(out)); err != nil || commit == "" {
		return "", nil, err
	}
	file, err = p.sides.at(ctx, commit, c.path())
	return commit, file, err
}

// readMain is onMain, once that can be read.
func (p *proposer) readMain(run context.Context, c *claim) (commit string, file *unstructured.Unstructured, ok bool) {
	ok = p.try(run, c, "main can be read", func(ctx context.Context) (err error) {
		commit, file, err = p.onMain(ctx, c)
		return err
	})
	return commit, file, ok
}

// at is a file as it was in a commit, nil for none.
func (s *sides) at(ctx context.Context, commit, path string) (*unstructured.Unstructured, error) {
	if found, err := s.git(ctx, "ls-tree", "--name-only", commit, "--", path); err != nil || len(found) == 0 {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	data, err := s.git(ctx, "show", commit+":"+path)
	if err == nil {
		err = yaml.Unmarshal(data, &u.Object)
	}
	return u, err
}

// reviewer approves and rejects what is proposed.
type reviewer struct {
	// ask is a request to the backend about the cluster.
	ask     func(ctx context.Context, method, path string, in, out any) error
	host    *host
	api     *api
	journal *Journal
	pause   time.Duration

	mu sync.Mutex
	// verdicts are what it thinks of each head. It does not change its mind: an answer may
	// have been lost.
	verdicts map[string]restapi.Verdict
	// busy are the branches that are looked at.
	busy map[string]bool
	// blocked is what was in the way of approving a claim's change when it was looked at last, by claim.
	blocked map[string]string
	// restore tells which claims nobody has looked at since the cluster was restored, and era
	// counts that.
	restore *etcdRestore
	era     int
	// isAsked are the objects that a person has deleted, and isTold what was found to be wrong.
	isAsked map[types.UID]bool
	isTold  map[string]bool
	// onControl are the specs that were seen on the control plane, by claim.
	onControl map[string][]string
	// values are what fields of objects said, one after the other.
	values map[valueOf][]string
}

// work reviews one change after the other until run ends. When load has ended it rejects
// nothing new.
func (r *reviewer) work(run, load context.Context, rng *rand.Rand) {
	for ; run.Err() == nil; sleep(run, time.Duration(rng.Int64N(int64(2*r.pause)))) {
		ctx, cancel := context.WithTimeout(run, answerTimeout)
		var changes []restapi.Change
		err := r.ask(ctx, http.MethodGet, "/changes", nil, &changes)
		cancel()
		if err != nil {
			continue
		}
		changes = slices.DeleteFunc(changes, func(c restapi.Change) bool { return c.Rejected })
		if len(changes) == 0 {
			continue
		}
		if branch := changes[rng.IntN(len(changes))].Branch; r.setBusy(branch, true) {
			r.review(run, branch, rng.IntN(6) == 0 && load.Err() == nil)
			r.setBusy(branch, false)
		}
	}
}

// review looks at a change, and approves or rejects it.
func (r *reviewer) review(run context.Context, branch string, rejects bool) {
	r.host.RLock()
	defer r.host.RUnlock()
	ctx, cancel := context.WithTimeout(run, answerTimeout)
	defer cancel()
	var change restapi.Change
	err := r.ask(ctx, http.MethodGet, "/"+branch, nil, &change)
	r.saw(branch, err, change.Blocked)
	if err != nil || !change.MayApprove {
		return
	}
	verdict := r.verdict(change.Head, rejects)
	e := Entry{Sent: time.Now(), Side: Review, Op: Approve, Claim: changeOf(branch), Field: "head", Value: change.Head}
	in := restapi.Review{Branch: branch, Head: change.Head, Effect: change.Effect, Verdict: verdict}
	if verdict == restapi.VerdictReject {
		e.Op, in.Effect, in.Message = Reject, "", "Not so."
	}
	err = r.ask(ctx, http.MethodPost, "/reviews", in, &restapi.Reviewed{})
	e = e.answered(err)
	if status := (*platform.StatusError)(nil); errors.As(err, &status) && status.Code/100 == 4 {
		e.Outcome = Refused // As when it is not what was looked at any more.
	}
	r.journal.write(e)
}

// saw keeps what was in the way when a change was looked at last.
func (r *reviewer) saw(branch string, err error, blocked string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		blocked = err.Error()
	}
	r.blocked[changeOf(branch)] = blocked
}

// inTheWay is what was in the way when a claim's change was looked at last, "" for nothing or if
// nobody has seen the change.
func (r *reviewer) inTheWay(c *claim) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blocked[c.key()]
}

// setBusy says whether a branch is looked at, and reports whether that changed anything.
func (r *reviewer) setBusy(branch string, busy bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[branch] == busy {
		return false
	}
	r.busy[branch] = busy
	return true
}

// verdict is what the reviewer thinks of a head.
func (r *reviewer) verdict(head string, rejects bool) restapi.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdicts[head] == "" {
		r.verdicts[head] = restapi.VerdictApprove
		if rejects {
			r.verdicts[head] = restapi.VerdictReject
		}
	}
	return r.verdicts[head]
}

// changeOf is the claim that a branch proposes a change of.
func changeOf(branch string) string {
	binding, claim, _ := strings.Cut(strings.TrimPrefix(branch, contract.ChangesPrefix), "/")
	return binding + " " + claim
}

// expectEnd says that a person deletes the object of a claim.
func (r *reviewer) expectEnd(c *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isAsked[types.UID(c.uid)] = true
}
