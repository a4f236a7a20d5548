package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/session"
)

// losses is what is known of services that vanished though their files are on
// main. One is told as lost. When many vanish together it is the control plane
// that is lost, or an API of it, and nothing is done before it is restored or a
// person decides.
type losses struct {
	mu sync.Mutex
	// since is when one was noticed that was not judged yet, zero for none.
	since time.Time
	// told are those that may be answered, passed those of them within the
	// window.
	told   map[string]bool
	passed []breaker.Removal
}

// moreLossesWait is how long to wait for more when a service vanished: what takes many
// takes them one after the other.
const moreLossesWait = 2 * time.Second

// lose says how long to wait before a service may be answered as lost.
func (c *Controller) lose(ctx context.Context, path string) (time.Duration, error) {
	l := &c.losses
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[path] {
		return 0, nil
	}
	if l.since.IsZero() {
		l.since = c.Now()
	}
	if rest := l.since.Add(moreLossesWait).Sub(c.Now()); rest > 0 {
		return rest, nil
	}
	if err := c.judgeLosses(ctx); err != nil {
		return 0, err
	}
	if l.told[path] {
		return 0, nil
	}
	return moreLossesWait, nil
}

// isThere notes that a service is not lost, or not any more.
func (l *losses) isThere(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.told, path)
}

// judgeLosses looks for all services that vanished, and says whether they may be
// answered as lost or whether nothing may be done. The caller holds the lock.
func (c *Controller) judgeLosses(ctx context.Context) error {
	l := &c.losses
	l.since = time.Time{}
	found, err := c.census(ctx)
	if err != nil {
		return err
	}
	limits := c.Session.Removals.Limits()
	had := func(binding string) int { return found.claims[binding] }
	if len(found.missing) > 0 && !limits.Allows(l.passed, found.missing, had, c.Now()) {
		c.Session.Stops.Set(&session.Stop{Reason: "ControlPlaneLost", Message: found.words()})
		return nil
	}
	l.told = map[string]bool{}
	for _, path := range found.missing {
		l.told[path] = true
		l.passed = append(l.passed, breaker.Removal{Path: path, At: c.Now()})
	}
	l.passed = limits.Recent(l.passed, c.Now())
	c.Session.Stops.Set(nil)
	return nil
}

// census is what is there of what main orders.
type census struct {
	// missing are paths, and claims how many each binding has.
	missing []string
	claims  map[string]int
}

func (f census) words() string {
	total := 0
	for _, n := range f.claims {
		total += n
	}
	return fmt.Sprintf("%d of %d services that were applied once are missing on the control plane, such as that of %s. Nothing is applied, deleted or answered. "+
		"Restore the control plane's backup: this ends by itself when they are back. Or, for empty ones: kubectl gitbind approve --recreate-empty PATH, "+
		"where a folder stands for all in it that are missing now", len(f.missing), total, f.missing[0])
}

// census looks at every claim on main, as far as watching tells. What is lost
// already, or to be made again, is not missing.
func (c *Controller) census(ctx context.Context) (census, error) {
	found := census{claims: map[string]int{}}
	apis := c.watchedOnce(ctx)
	for e := range c.Session.View().Main.List(contract.Root) {
		key, err := contract.ParsePath(e.Path)
		if err != nil {
			continue
		}
		found.claims[key.Binding]++
		f, err := c.lossFacts(apis, key)
		if err != nil {
			return census{}, err
		}
		if f.Loss() && !decision.WasLost(f.Present) {
			found.missing = append(found.missing, e.Path)
		}
	}
	return found, nil
}

// watchedAPIs gives the API of a binding, as watched does.
type watchedAPIs func(binding string) (exportedapi.API, error)

// watchedOnce asks for each API once.
func (c *Controller) watchedOnce(ctx context.Context) watchedAPIs {
	known := map[string]exportedapi.API{}
	return func(binding string) (exportedapi.API, error) {
		api, ok := known[binding]
		if ok {
			return api, nil
		}
		api, err := c.watched(ctx, binding, nil)
		if err == nil {
			known[binding] = api
		}
		return api, err
	}
}

// lossFacts are what is to be known of a claim on main for whether it is lost. Its answer is one
// of them only if the object is not there.
func (c *Controller) lossFacts(apis watchedAPIs, key contract.Key) (decision.Facts, error) {
	path := key.Path()
	f := decision.Facts{Path: path, Key: key, IsClaim: true, File: &decision.File{}, Recreate: c.Session.Recreation.Includes(path)}
	api, err := apis(key.Binding)
	if err != nil {
		return f, err
	}
	f.Access = api.Access
	if api.Access == decision.Granted {
		u, err := c.Objects.Get(api.Kind, c.Session.Cluster.ClaimNamespace(key.Namespace), key.Name)
		if err != nil || u == nil && c.cache.isUnseen(path) {
			return f, err
		}
		f.Live = c.living(key, u)
	} else if c.Session.Stops.IsUnchecked() && api.Access != decision.NotWatched {
		// A control plane that was rebuilt has no exports yet.
		f.Access = decision.NotServed
	}
	if f.Live == nil || f.Live.Terminating {
		f.Present = c.Session.Answers.Of(path)
	}
	return f, nil
}

// takeApproval finds out what is missing of what a person wants made again, and reports
// whether it did.
func (c *Controller) takeApproval(ctx context.Context) (bool, error) {
	approved := c.Session.Recreation.Open()
	if approved == nil {
		return false, nil
	}
	var missing []string
	apis := c.watchedOnce(ctx)
	for e := range c.Session.View().Main.List(contract.Root) {
		key, err := contract.ParsePath(e.Path)
		if err != nil || !approved.Includes(e.Path) {
			continue
		}
		f, err := c.lossFacts(apis, key)
		if err != nil {
			return false, err
		}
		// Of a folder, what cannot be seen is not missing. What is named itself waits until it
		// can be.
		if f.IsMissing() || f.MayBeMissing() && (approved.Names(e.Path) || decision.WasLost(f.Present)) {
			missing = append(missing, e.Path)
		}
	}
	c.Session.Recreation.Take(approved, missing)
	return true, nil
}

// dropRecreated has an approval end for what was made again by it, and for what main lacks.
func (c *Controller) dropRecreated(ctx context.Context) {
	var done []string
	apis := c.watchedOnce(ctx)
	main := c.Session.View().Main
	for _, path := range c.Session.Recreation.Paths() {
		key, err := contract.ParsePath(path)
		if _, ok := main.Entry(path); ok && err == nil {
			if f, err := c.lossFacts(apis, key); err != nil || f.MayBeMissing() {
				continue
			}
		}
		done = append(done, path)
	}
	c.Session.Recreation.Drop(done)
}

// watchLosses looks from time to time whether what was lost is back, and whether
// what is to be made again is made, until ctx ends.
func (c *Controller) watchLosses(ctx context.Context) {
	const often, seldom = time.Second, 5 * time.Second
	tick := time.NewTicker(often)
	defer tick.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		view := c.Session.View()
		if view.Main == nil {
			continue
		}
		var taken bool
		var err error
		if !view.Held {
			taken, err = c.takeApproval(ctx)
			c.dropRecreated(ctx)
		}
		if c.Session.Stops.IsSet() && (time.Since(last) >= seldom || taken) {
			last = time.Now()
			c.losses.mu.Lock()
			err = errors.Join(err, c.judgeLosses(ctx))
			c.losses.mu.Unlock()
		}
		if err != nil && ctx.Err() == nil {
			c.Log.V(1).Info("It is not known yet which services are there", "cluster", c.Session.Cluster.ID, "reason", err.Error())
		}
	}
}
