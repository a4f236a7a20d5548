package claim

import (
	"context"
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
		"where a folder stands for all in it", len(f.missing), total, f.missing[0])
}

// census looks at every claim on main, as far as watching tells. What is lost
// already, or to be made again, is not missing.
func (c *Controller) census(ctx context.Context) (census, error) {
	found := census{claims: map[string]int{}}
	apis := map[string]exportedapi.API{}
	for e := range c.Session.View().Main.List(contract.Root) {
		key, err := contract.ParsePath(e.Path)
		if err != nil {
			continue
		}
		found.claims[key.Binding]++
		api, ok := apis[key.Binding]
		if !ok {
			if api, err = c.watched(ctx, key.Binding); err != nil {
				return census{}, err
			}
			apis[key.Binding] = api
		}
		missing, err := c.isMissing(api, key)
		if err != nil {
			return census{}, err
		}
		if missing {
			found.missing = append(found.missing, e.Path)
		}
	}
	return found, nil
}

// watched is an API whose objects are known, or cannot be for long.
func (c *Controller) watched(ctx context.Context, binding string) (exportedapi.API, error) {
	api, err := c.APIs.Resolve(ctx, c.Session.Cluster.Namespace, binding)
	if err != nil || api.Access != decision.Granted {
		return api, err
	}
	if err = c.Objects.Watch(ctx, api.Kind, binding, c.Session.Cluster.ID, nil); err != nil && c.failing.Failed(binding, c.Now()) >= unwatched {
		// What cannot be seen is not missing.
		api.Access = decision.NotWatched
		return api, nil
	}
	return api, err
}

func (c *Controller) isMissing(api exportedapi.API, key contract.Key) (bool, error) {
	path := key.Path()
	f := decision.Facts{Path: path, Key: key, IsClaim: true, Access: api.Access, File: &decision.File{}, Recreate: c.Session.Recreation.Includes(path)}
	if api.Access == decision.Granted {
		u, err := c.Objects.Get(api.Kind, c.Session.Cluster.ClaimNamespace(key.Namespace), key.Name)
		if err != nil || u == nil && c.cache.isUnseen(path) {
			return false, err
		}
		f.Live = c.living(key, u)
	} else if c.Session.Stops.IsUnchecked() && api.Access != decision.NotWatched {
		// A control plane that was rebuilt has no exports yet.
		f.Access = decision.NotServed
	}
	if f.Live != nil && !f.Live.Terminating {
		return false, nil
	}
	var err error
	if f.Present, err = c.Session.Answers.Of(path); err != nil {
		return false, err
	}
	return f.Loss() && !decision.WasLost(f.Present), nil
}

// watchLosses looks from time to time whether what was lost is back, and whether
// what is to be made again is made, until ctx ends.
func (c *Controller) watchLosses(ctx context.Context) {
	const often, seldom = time.Second, 5 * time.Second
	tick := time.NewTicker(often)
	defer tick.Stop()
	var last time.Time
	recreate := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.Session.View().Main == nil {
			continue
		}
		wanted := c.Session.Recreation.Wanted()
		if c.Session.Stops.IsSet() && (time.Since(last) >= seldom || wanted != recreate) {
			last, recreate = time.Now(), wanted
			c.losses.mu.Lock()
			err := c.judgeLosses(ctx)
			c.losses.mu.Unlock()
			if err != nil && ctx.Err() == nil {
				c.Log.V(1).Info("It is not known yet which services are there", "cluster", c.Session.Cluster.ID, "reason", err.Error())
			}
		}
		if wanted != "" && !c.Session.Stops.IsSet() && c.isRecreated(ctx) {
			c.Session.Recreation.SetDone(wanted)
		}
	}
}

// isRecreated reports whether nothing is missing any more of what is to be made
// again.
func (c *Controller) isRecreated(ctx context.Context) bool {
	for e := range c.Session.View().Main.List(contract.Root) {
		key, err := contract.ParsePath(e.Path)
		if err != nil || !c.Session.Recreation.Includes(e.Path) {
			continue
		}
		api, err := c.watched(ctx, key.Binding)
		if err != nil || api.Access != decision.Granted {
			return false
		}
		present, err := c.Session.Answers.Of(e.Path)
		if err != nil || present == nil || present.Object == "" {
			// It never was applied, so nothing of it is lost.
			continue
		}
		u, err := c.Objects.Get(api.Kind, c.Session.Cluster.ClaimNamespace(key.Namespace), key.Name)
		if err != nil || u == nil || u.GetDeletionTimestamp() != nil {
			return false
		}
	}
	return true
}
