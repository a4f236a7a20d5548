package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/notify"
	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// The claims of an app cluster among many lie in few namespaces, as each costs the control
// plane more than a claim.
const namespacesOfEach = 2

// manyTime is for what all app clusters do at once.
const manyTime = time.Hour

// appCluster is one that only the host and the bridge know: it has a repository, somebody
// who commits as its konnector, and who listens for events as that does.
type appCluster struct {
	as     store.Signature
	branch store.Branch
	// claims are names, none of which another app cluster has.
	claims []string
}

// clusters measures one change at a time of one app cluster and of many, in turns with the
// relay's edits, and what many cost the bridge and the host.
func (r *run) clusters(ctx context.Context) error {
	running, stop := r.whileRunning(ctx)
	defer stop()
	all, err := r.followed(running)
	if err != nil {
		return err
	}
	return r.allAfterRestart(ctx, all)
}

// whileRunning ends a context when a bridge ends, such as one that lost its Lease.
func (r *run) whileRunning(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, bridge := range r.Bridges {
		go func() {
			select {
			case <-bridge.Done():
				cancel(fmt.Errorf("%s has ended", bridge.Name))
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// followed measures app clusters that join, and that running bridges follow.
func (r *run) followed(ctx context.Context) ([]*appCluster, error) {
	n := 50
	if r.Quick {
		n = 20
	}
	floor := &way{resource: stage.Floor, names: r.newNames("c", 2*n)}
	if err := r.create(ctx, floor.resource, floor.names); err != nil {
		return nil, err
	}
	if _, err := r.SeenApp.UntilAll(ctx, floor.resource, floor.names, returned(floor.resource)); err != nil {
		return nil, err
	}
	all, err := r.join(ctx, 1)
	if err != nil {
		return nil, err
	}
	alone, err := r.Usages()
	if err != nil {
		return nil, err
	}
	if err := r.oneByOne(ctx, "a commit of one app cluster", all, floor, 0, n); err != nil {
		return nil, err
	}
	began := time.Now()
	others, err := r.join(ctx, r.Clusters-1)
	if err != nil {
		return nil, err
	}
	r.add(figure.One(fmt.Sprintf("app clusters with %d claims each: connected → all claims on the control plane", r.ClaimsOfEach), r.size, "s", time.Since(began).Seconds()))
	all = append(all, others...)
	// The first one has had its changes.
	if err := r.oneByOne(ctx, "a commit of one of so many app clusters", others, floor, n, 2*n); err != nil {
		return nil, err
	}
	if err := r.atRest(ctx, alone); err != nil {
		return nil, err
	}
	return all, r.allAtOnce(ctx, all)
}

// join connects app clusters, each with the same number of claims, and waits until all are
// on the control plane and have a status.
func (r *run) join(ctx context.Context, n int) ([]*appCluster, error) {
	ctx, cancel := deadline(ctx, manyTime, fmt.Sprintf("%d app clusters to be there", n))
	defer cancel()
	all := make([]*appCluster, n)
	for i := range all {
		all[i] = &appCluster{claims: r.newNames("f", r.ClaimsOfEach)}
	}
	// One person may have 16 requests under way.
	err := each(ctx, all, creators/2, func(ctx context.Context, c *appCluster) error { return r.joinOne(ctx, c) })
	if err != nil {
		return nil, err
	}
	r.say("wait for the claims of %d app clusters", n)
	for i, c := range all {
		if _, err := r.SeenControl.UntilAll(ctx, stage.Subject, c.claims, stage.Returned); err != nil {
			return nil, err
		}
		if (i+1)%50 == 0 {
			r.say("  those of %d are there", i+1)
		}
	}
	return all, r.Quiet(ctx, still)
}

// each does something with app clusters, so many at a time.
func each(ctx context.Context, all []*appCluster, atOnce int, do func(context.Context, *appCluster) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, c := range all {
		group.Go(func() error { return do(ctx, c) })
	}
	return group.Wait()
}

func (r *run) joinOne(ctx context.Context, c *appCluster) error {
	token, err := r.Dex.IDToken(ctx, env.Alice)
	if err != nil {
		return err
	}
	cluster, err := r.Register(ctx, token, "bench", string(uuid.NewUUID()))
	if err != nil {
		return err
	}
	if err := r.bind(ctx, token, cluster.ID); err != nil {
		return err
	}
	if err := c.open(r.life, cluster, r.BackendURL); err != nil {
		return err
	}
	if _, err := c.branch.Fetch(ctx); err != nil {
		return err
	}
	binding := stage.Subject.Resource + "." + stage.Subject.Group
	request, err := contract.EncodeRequest(contract.Request{Binding: binding})
	if err != nil {
		return err
	}
	return c.commit(ctx, func(t *store.Tree) error {
		if err := t.Write(contract.RequestPath(binding), request); err != nil {
			return err
		}
		for i, name := range c.claims {
			path := claimPath(stage.Namespace(i%namespacesOfEach), name)
			if err := t.Write(path, content(path, 0)); err != nil {
				return err
			}
		}
		return nil
	})
}

// bind binds the API, as often as it takes: with the claims of those before it, the control
// plane may be too busy.
func (r *run) bind(ctx context.Context, token, cluster string) error {
	for {
		err := r.Ask(ctx, token, http.MethodPost, "/v1/clusters/"+cluster+"/bindings", restapi.BindRequest{Offer: "postgresql"}, &restapi.Binding{})
		var status *platform.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusServiceUnavailable {
			return err
		}
		r.say("  %v", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// open opens the repository, and listens for events until ctx ends.
func (c *appCluster) open(ctx context.Context, cluster *restapi.Cluster, backend string) error {
	name, email := contract.ComponentIdentity(contract.Konnector, cluster.ID)
	c.as = store.Signature{Name: name, Email: email}
	credentials := func(context.Context) (string, string, error) {
		return cluster.Credential.Username, cluster.Credential.Password, nil
	}
	repository, err := gitstore.Open(gitstore.Options{URL: cluster.RepositoryURL, Committer: c.as, Credentials: credentials})
	if err != nil {
		return err
	}
	c.branch = repository.Branch("main")
	go notify.Listen(ctx, notify.Options{URL: backend, ClusterID: cluster.ID, Credentials: credentials, OnEvent: func(string, store.Hash) {}})
	return nil
}

func (c *appCluster) commit(ctx context.Context, apply func(*store.Tree) error) error {
	_, err := c.branch.Update(ctx, store.Edit{Author: c.as, Subject: "claim: update", Apply: apply})
	return err
}

// change commits the i-th claim with a value of its own.
func (c *appCluster) change(ctx context.Context, i, n int) error {
	path := claimPath(stage.Namespace(i%namespacesOfEach), c.claims[i])
	return c.commit(ctx, func(t *store.Tree) error { return t.Write(path, content(path, n)) })
}

// oneByOne has app clusters change one claim at a time, each after an edit of the relay's.
func (r *run) oneByOne(ctx context.Context, what string, all []*appCluster, floor *way, from, to int) error {
	before, err := r.Requests(ctx, env.Control)
	if err != nil {
		return err
	}
	var changed figure.Samples
	floor.edit = nil
	for i := from; i < to; i++ {
		if err := r.edit(ctx, floor, i); err != nil {
			return err
		}
		c := all[i%len(all)]
		nth := (i / len(all)) % len(c.claims)
		began := time.Now()
		if err := c.change(ctx, nth, valueOf(i)); err != nil {
			return err
		}
		s, err := r.sees(ctx, c.claims[nth], valueOf(i))
		if err != nil {
			return err
		}
		changed.Milliseconds(s.Changed.Sub(began))
		if err := r.Quiet(ctx, still/4); err != nil {
			return err
		}
	}
	after, err := r.Requests(ctx, env.Control)
	if err != nil {
		return err
	}
	r.add(figure.Of(what+" → claim changed on the control plane", r.size, "ms", changed, floor.edit))
	r.add(figure.One(what+": requests to the control plane", r.size, "requests", float64(after.Since(before).Of(stage.Subject.Resource).All())/float64(to-from)))
	return nil
}

// valueOf is another one for each change, and never that of a new claim.
func valueOf(i int) int { return 1000 + i }

// sees waits until a claim is on the control plane with a value.
func (r *run) sees(ctx context.Context, name string, value int) (stage.Sight, error) {
	return r.SeenControl.Until(ctx, stage.Subject, name, func(s stage.Sight) bool { return s.MaxConnections == 100+int64(value) })
}
