package review

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"gitbind.dev/backend/internal/clusterqueue"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
)

// Checks says, on a Git host on which changes are reviewed by its own means, what the
// control plane would say of each, and of one that was merged what it has made of it. It looks
// again at all of a cluster's when main or one of them moves or when more or less of a quota
// is used, and at merged ones when the control plane answers.
type Checks struct {
	// Pace bounds how much the host is asked because of each cluster; nil means no bound. It is
	// set before Run.
	Pace *githost.Pace

	service *Service
	host    githost.Checks
	// publish tells konnectors of a branch.
	publish func(cluster string, e restapi.RefEvent)

	moved *clusterqueue.Queue
	mu    sync.Mutex
	// told has what a change's head shows, and opened what people made of its pull
	// request, by cluster and branch.
	told   map[string]map[string]told
	opened map[string]map[string]githost.Opened
	// merged are changes that the control plane has not done yet, by cluster, those that were
	// merged last at the end.
	merged map[string][]merged
	// asked is what the host said of that last, by cluster.
	asked map[string]asked
	// asking has that asked once for all who want to know at the same time.
	asking singleflight.Group
	// judging are clusters at whose changes it is being looked, of which told may say nothing
	// yet: with what became another one meanwhile, as for later.
	judging map[string]map[string]bool
	// again is when a cluster's changes are, or were last, to be looked at again for later, and
	// branches are clusters whose branches moved since it was looked at.
	again    map[string]time.Time
	branches map[string]bool
	// passes are those that go on.
	passes       map[string]*pass
	roundTimeout time.Duration
}

type asked struct {
	opened map[string]githost.Opened
	at     time.Time
}

// openedKept is how long what the host said of pull requests is good for konnectors, which ask
// for each of their changes once a minute. What the host tells by itself is looked at at once.
const openedKept = 10 * time.Second

// openedTimeout bounds what the host is asked for them.
const openedTimeout = 30 * time.Second

// countedEvery is how often changes are looked at again at most because more or less of a
// quota is used: where much comes and goes, that is every few seconds.
const countedEvery = 30 * time.Second

const (
	// pendingFor is how long a check waits for the control plane's word. After that it does
	// without: a bridge that is away does not hold up a merge.
	pendingFor = 30 * time.Second
	// awaitedFor is how long it is looked whether that word has come, first after lookFirst and
	// then twice as late each time.
	lookFirst, awaitedFor = 5 * time.Second, 10 * time.Minute
	// lookEvery is how often open changes are looked at in any case, which keeps the bridge from
	// deleting what it has answered.
	lookEvery = 6 * time.Hour
)

// maxChecking is how many clusters' changes are looked at at the same time.
const maxChecking = 2

// NewChecks says it on a host. Publish is called with the branches of which people have said
// something there; it must not block.
func NewChecks(s *Service, host githost.Checks, publish func(cluster string, e restapi.RefEvent)) *Checks {
	c := &Checks{
		service: s, host: host, publish: publish,
		told: map[string]map[string]told{}, opened: map[string]map[string]githost.Opened{}, merged: map[string][]merged{}, asked: map[string]asked{},
		judging: map[string]map[string]bool{}, again: map[string]time.Time{}, branches: map[string]bool{},
		passes: map[string]*pass{}, roundTimeout: roundTimeout,
	}
	c.moved = clusterqueue.New(maxChecking, c.look)
	return c
}

// Moved is told of each branch that moved. It does not block.
func (c *Checks) Moved(cluster string, e restapi.RefEvent) {
	isStatus := e.Ref == contract.StatusRef
	switch {
	case e.Ref == contract.MainRef || strings.HasPrefix(e.Ref, contract.HeadsPrefix+contract.ChangesPrefix), isStatus && c.hasMerged(cluster):
		c.setMoved(cluster)
		c.moved.Add(cluster)
	case isStatus:
		// What waits may have a service now, which the bridge has counted before.
		c.later(cluster, "")
	}
}

func (c *Checks) setMoved(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.branches[cluster] = true
}

// Counted is told of each API of which a cluster uses another part of its quota. It does not
// block.
func (c *Checks) Counted(cluster, binding string) { c.later(cluster, binding) }

// anyAPI stands for all of them: no API has such a name.
const anyAPI = "*"

// Tried is told when the bridge has answered what was asked about a change of a cluster, and of
// each that was asked before this process. It does not block.
func (c *Checks) Tried(cluster string) { c.later(cluster, anyAPI) }

// later looks at a cluster's changes again if one is about an API, or has claims that would
// wait where that is "": at once, or countedEvery after it did so last.
func (c *Checks) later(cluster, binding string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, judging := c.judging[cluster]; binding == anyAPI && c.told[cluster] == nil && !judging {
		c.moved.Add(cluster)
		return
	}
	for _, is := range c.told[cluster] {
		if binding == "" && is.waits == "" || binding != "" && binding != anyAPI && !is.isOf(binding) {
			continue
		}
		now, at := c.service.Now(), c.again[cluster]
		if at.After(now) {
			return // It will be.
		}
		if at = at.Add(countedEvery); at.Before(now) {
			at = now
		}
		c.again[cluster] = at
		c.moved.AddAfter(cluster, at.Sub(now))
		return
	}
	if noted, judging := c.judging[cluster]; judging {
		noted[binding] = true
	}
}

// Run looks at changes until ctx ends.
func (c *Checks) Run(ctx context.Context) { c.moved.Run(ctx) }

// check has the head of each change of a cluster show what is known now, in a round of a pass,
// and is a clusterqueue.LaterError if there are others to look at. Where no branch moved, the host
// is told no other numbers, and not asked for pull requests: it tells of these itself.
func (c *Checks) check(ctx context.Context, cluster string, p *pass) error {
	c.beginJudging(cluster)
	defer c.endJudging(cluster)
	branches, err := c.service.Git.Branches(ctx, cluster)
	if err != nil {
		return err
	}
	r := &round{pass: p, cluster: cluster, before: c.shown(cluster), now: map[string]told{}}
	c.judgeFrom(ctx, r, branches)
	listed := map[string]bool{}
	for _, branch := range branches {
		listed[branch] = true
	}
	ctx, cancel := context.WithTimeout(ctx, c.roundTimeout)
	defer cancel()
	for branch, was := range r.before {
		switch {
		case listed[branch]:
		case p.from != "":
			r.keep(branch)
		default:
			if err := c.addMerged(ctx, cluster, was); err != nil {
				r.failed(branch, err)
			}
		}
	}
	c.show(cluster, r.now)
	if p.from != "" {
		return &clusterqueue.LaterError{}
	}
	// Once for all of them: the host lists each that there ever was.
	if p.moved && len(p.proposed) > 0 {
		p.errs = append(p.errs, c.tell(ctx, cluster, p.proposed))
	}
	c.lookAgain(cluster, r.now)
	return errors.Join(append(p.errs, c.tellMerged(ctx, cluster))...)
}

// tellChange has the head of a change show a check, and asks for the review of what a konnector
// has proposed, which it notes, by branch with the head. Neither is done again for what is shown
// already.
func (c *Checks) tellChange(ctx context.Context, cluster string, change *githost.Change, is, was told, proposed map[string]string) error {
	var err error
	shown := was.shows(is)
	if !shown {
		err = c.host.Check(ctx, cluster, is.check)
	}
	pull := proposedBy(cluster, change)
	if pull == nil {
		return err
	}
	proposed[change.Branch] = pull.Head
	if shown {
		return nil
	}
	// People can review what has no check.
	return errors.Join(err, c.host.Open(ctx, cluster, *pull))
}

// Opened implements Pulls, for who asks often.
func (c *Checks) Opened(ctx context.Context, cluster string) (map[string]githost.Opened, error) {
	c.mu.Lock()
	known := c.asked[cluster]
	c.mu.Unlock()
	if !known.at.IsZero() && (c.service.Now().Sub(known.at) < openedKept || c.Pace.Wait(cluster) > 0) {
		return known.opened, nil
	}
	asking := c.asking.DoChan(cluster, func() (any, error) {
		// It is for all who ask meanwhile, even if some of them leave.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openedTimeout)
		defer cancel()
		return c.ask(ctx, cluster)
	})
	select {
	case r := <-asking:
		opened, _ := r.Val.(map[string]githost.Opened)
		return opened, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask asks the host for the pull requests of a cluster.
func (c *Checks) ask(ctx context.Context, cluster string) (map[string]githost.Opened, error) {
	at := c.service.Now()
	opened, err := c.host.Opened(c.Pace.With(ctx, cluster), cluster)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[cluster] = asked{opened, at}
	return opened, nil
}

// tell has the konnector look at what it has proposed, by branch with the head, where people
// have opened, closed or opened again a pull request since.
func (c *Checks) tell(ctx context.Context, cluster string, proposed map[string]string) error {
	opened, err := c.ask(ctx, cluster)
	if err != nil {
		return err
	}
	c.mu.Lock()
	before, now := c.opened[cluster], map[string]githost.Opened{}
	for branch, is := range opened {
		// Another round tells of what is not of this one.
		if _, ok := proposed[branch]; !ok {
			is = before[branch]
		}
		now[branch] = is
	}
	c.opened[cluster] = now
	c.mu.Unlock()
	for branch, head := range proposed {
		if opened[branch] != before[branch] {
			c.publish(cluster, restapi.RefEvent{Ref: contract.HeadsPrefix + branch, Hash: head, Reviewed: true})
		}
	}
	return nil
}

// proposedBy is the pull request of what a konnector has proposed, perhaps with others; nil
// for what is people's alone.
func proposedBy(cluster string, change *githost.Change) *githost.Pull {
	made, alone := konnectors(cluster, change)
	if _, pull := githost.PullNumber(change.Branch); pull || made == nil {
		return nil
	}
	return &githost.Pull{
		Branch: change.Branch, Head: change.Head, Title: change.Subject, Shared: !alone,
		Text: "Changed with kubectl in the app cluster, by " + code(made.Author) + ". Merge it to have it done, or close it to reject it: the object in the cluster says so then.",
	}
}

// lookAgain looks at a cluster's changes again for what is awaited, and for what is asked to
// stay.
func (c *Checks) lookAgain(cluster string, all map[string]told) {
	if c.service.DryRuns == nil || len(all) == 0 {
		return
	}
	next, now := lookEvery, c.service.Now()
	for _, is := range all {
		awaited := now.Sub(is.awaitedSince)
		switch {
		case is.awaitedSince.IsZero():
		case awaited < pendingFor:
			next = min(next, max(awaited, lookFirst), pendingFor-awaited)
		case awaited < awaitedFor:
			next = min(next, awaited)
		}
	}
	c.moved.AddAfter(cluster, next)
}

// judge is a change as it is, and what to show of it, where was is what it has shown.
func (c *Checks) judge(ctx context.Context, cluster, branch string, was told) (*githost.Change, told, error) {
	change, err := c.service.Git.Change(ctx, cluster, branch)
	if err != nil {
		return nil, told{}, err
	}
	files, awaited := c.service.files(ctx, cluster, change, false)
	is := told{claims: map[string]string{}, effect: change.Effect}
	now := c.service.Now()
	if awaited {
		is.awaitedSince = now
		if was.check.Commit == change.Head && was.effect == change.Effect && !was.awaitedSince.IsZero() {
			is.awaitedSince = was.awaitedSince
		}
	}
	is.check = summarize(change, files, awaited && now.Sub(is.awaitedSince) < pendingFor)
	is.check.URL = c.service.pageOf(cluster, branch)
	is.check.Text = comment(is.check.Words, is.check.URL, files)
	is.text = digest(is.check.Text)
	for i, f := range files {
		if f.Name != "" {
			is.claims[f.Path] = change.Files[i].After
		}
		if f.Waits != "" {
			is.waits = digest(is.waits, f.Path)
		}
		is.tried = digest(is.tried, f.Problem, f.Untried, f.Effective, f.Unchanged)
	}
	return change, is, nil
}

// digest is another one for each other values.
func digest(values ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, values...)))
}

func (c *Checks) shown(cluster string) map[string]told {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told[cluster]
}

func (c *Checks) beginJudging(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.judging[cluster] = map[string]bool{}
}

func (c *Checks) endJudging(cluster string) {
	c.mu.Lock()
	noted := c.judging[cluster]
	delete(c.judging, cluster)
	c.mu.Unlock()
	for binding := range noted {
		c.later(cluster, binding)
	}
}

func (c *Checks) show(cluster string, now map[string]told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[cluster] = now
}

// summarize says in one line what becomes of a change; with pending, that the control plane's
// word on it is awaited.
func summarize(c *githost.Change, files []restapi.ChangedFile, pending bool) githost.Check {
	check := githost.Check{Commit: c.Head, Branch: c.Branch}
	t := tallyOf(files)
	words := cmp.Or(unfit(c), t.refusals())
	if words == "" {
		check.OK, check.Pending = !pending, pending
		words = t.effect(c, pending) + t.waiting()
	}
	check.Words = brief.Cut(words, githost.MaxWords)
	return check
}

// unfit is why a change cannot be merged as it is, whatever is in its files; "" where it can.
func unfit(c *githost.Change) string {
	switch {
	case c.Unrelated:
		return "It has no commit in common with main: begin it again on top of main"
	case len(c.Conflicts) > 0:
		return "Main has changed the same lines meanwhile: merge main into it"
	case c.More:
		return fmt.Sprintf("It changes more than %d files, or one with a path of more than %d bytes: propose it in parts", githost.MaxChangedFiles, githost.MaxPath)
	}
	return ""
}

// tally sums up the files of a change.
type tally struct {
	// problems are the words on files that would be refused.
	problems []string
	// waits are the claims that would wait, unbindings the requests that take an API away.
	waits, unbindings []restapi.ChangedFile
	// untried are the files that the control plane has not tried.
	untried int
	// services counts those that are made, changed and deleted.
	services map[restapi.Action]int
}

func tallyOf(files []restapi.ChangedFile) tally {
	t := tally{services: map[restapi.Action]int{}}
	for _, f := range files {
		switch {
		case f.Problem != "" && f.Name != "":
			t.problems = append(t.problems, f.Namespace+"/"+f.Name+" would be refused: "+f.Problem)
		case f.Problem != "":
			t.problems = append(t.problems, f.Path+" would be refused: "+f.Problem)
		case f.Name != "":
			t.services[f.Action]++
		}
		if f.Unbinding != "" {
			t.unbindings = append(t.unbindings, f)
		}
		if f.Waits != "" {
			t.waits = append(t.waits, f)
		}
		if f.Untried != "" {
			t.untried++
		}
	}
	// The gravest comes last here and first in the line, as what is longer than that is cut.
	slices.SortStableFunc(t.unbindings, func(a, b restapi.ChangedFile) int { return cmp.Compare(gravity(b.Unbinding), gravity(a.Unbinding)) })
	return t
}

func (t tally) refusals() string {
	switch n := len(t.problems); n {
	case 0:
		return ""
	case 1:
		return t.problems[0]
	default:
		return fmt.Sprintf("%d files would be refused, such as %s", n, t.problems[0])
	}
}

// effect is what a merge does.
func (t tally) effect(c *githost.Change, pending bool) string {
	var words []string
	all := 0
	for _, action := range []restapi.Action{restapi.ActionCreate, restapi.ActionUpdate, restapi.ActionDelete} {
		if n := t.services[action]; n > 0 {
			words = append(words, fmt.Sprintf("%s %d", does[action], n))
			all += n
		}
	}
	effect := "It changes no service"
	switch {
	case all == 1:
		effect = fmt.Sprintf("It %s service", words[0])
	case all > 1:
		effect = fmt.Sprintf("It %s services", strings.Join(words, ", "))
	case len(t.unbindings) > 0:
		effect = ""
	}
	for _, f := range t.unbindings {
		effect = strings.TrimSuffix(f.Path+": "+f.Unbinding+". "+effect, ". ")
	}
	// The host lets anybody who may approve at all approve that.
	switch touched := onlyTouched(c, changedParts(c)); {
	case len(touched) > 1:
		effect = fmt.Sprintf("Main gets commits that also touch %d other parts of the repository, such as %s. %s", len(touched), touched[0], effect)
	case len(touched) == 1:
		effect = fmt.Sprintf("Main gets commits that also touch %s. %s", touched[0], effect)
	}
	switch {
	case pending:
		effect += ", being tried on the control plane"
	case t.untried > 0 && t.untried == all:
		effect += ", not tried on the control plane"
	case t.untried > 0:
		effect += fmt.Sprintf(", %d of them not tried on the control plane", t.untried)
	}
	return effect
}

// waiting says which claims the bridge would let wait until there is room. That is no reason
// against a merge.
func (t tally) waiting() string {
	switch n := len(t.waits); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(", but %s/%s would wait: %s", t.waits[0].Namespace, t.waits[0].Name, t.waits[0].Waits)
	default:
		return fmt.Sprintf(", but %d would wait, such as %s/%s: %s", n, t.waits[0].Namespace, t.waits[0].Name, t.waits[0].Waits)
	}
}
