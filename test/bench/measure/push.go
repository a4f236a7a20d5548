package measure

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/test/bench/bare"
	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/env"
)

// repository is one that pushes are measured on.
type repository struct {
	files, commits, folders int
	name                    string
}

// pushes measures one change, push acknowledged, in turns with a bare push.
func (r *run) pushes(ctx context.Context) error {
	all := []repository{
		{files: 1000, commits: 1, folders: 10, name: "one change, push acknowledged"},
		{files: 1000, commits: 20_000, folders: 10, name: "the same after 20,000 commits"},
		{files: 10_000, commits: 1, folders: 10, name: "one change, push acknowledged"},
		{files: 100_000, commits: 1, folders: 100, name: "one change, push acknowledged"},
	}
	n := 200
	if r.Quick {
		n = 15
	}
	for _, repo := range all {
		subject, floor, err := r.push(ctx, repo, n)
		if err != nil {
			return fmt.Errorf("%d files, %d commits: %w", repo.files, repo.commits, err)
		}
		r.add(figure.Of(repo.name, repo.files, "ms", subject, floor).Judged(figure.TailAtMost(5, 10, "p50 ≤ 5 ms, p99 ≤ 10 ms")))
		own := figure.One(repo.name+": beyond a bare push", repo.files, "ms", subject.At(0.5)-floor.At(0.5))
		r.add(own.Judged(figure.AtMost(2, "≤ 2 ms")))
	}
	return nil
}

// prepared is a repository to which nobody else pushes, and bare pushes to it.
type prepared struct {
	client *bare.Client
	by     bare.Identity
	// changed are the files that the pushes change.
	changed []string
	pushes  []bare.Push
}

// The branches of a prepared repository.
const measuredBranch, bareBranch = "changes/measured", "changes/bare"

// push is the i-th bare push.
func (p *prepared) push(ctx context.Context, i int) error {
	return p.client.Push(ctx, bareBranch, p.pushes[i])
}

func (r *run) prepare(ctx context.Context, repo repository, n int) (*prepared, error) {
	r.say("  a repository of %d files and %d commits", repo.files, repo.commits)
	token, err := r.Dex.IDToken(ctx, env.Bob)
	if err != nil {
		return nil, err
	}
	cluster, err := r.Register(ctx, token, "bench", string(uuid.NewUUID()))
	if err != nil {
		return nil, err
	}
	name, email := contract.ComponentIdentity(contract.Konnector, cluster.ID)
	p := &prepared{
		client: &bare.Client{URL: cluster.RepositoryURL, User: cluster.Credential.Username, Password: cluster.Credential.Password},
		by:     bare.Identity{Name: name, Email: email}, changed: make([]string, n),
	}
	paths := make([]string, repo.files)
	for i := range paths {
		paths[i] = claimPath(stage.Namespace(i%repo.folders), fmt.Sprintf("c-%06d", i))
	}
	dir := filepath.Join(r.GitDir, cluster.ID+".git")
	head, err := bare.Fill(ctx, dir, p.by, bare.History{Branch: measuredBranch, Files: paths, Commits: repo.commits, Content: content})
	if err != nil {
		return nil, err
	}
	if _, err := stage.Git(ctx, dir, "update-ref", "refs/heads/"+bareBranch, head); err != nil {
		return nil, err
	}
	scratch := filepath.Join(r.Dir, "scratch-"+cluster.ID+".git")
	defer os.RemoveAll(scratch)
	for i := range p.changed {
		p.changed[i] = paths[i*len(paths)/n]
	}
	p.pushes, err = bare.Prepare(ctx, dir, scratch, head, p.by, p.changed, func(path string, i int) []byte { return content(path, repo.commits+i) })
	return p, err
}

func claimPath(namespace, name string) string {
	return contract.Key{Binding: stage.Subject.Resource + "." + stage.Subject.Group, Namespace: namespace, Name: name}.Path()
}

// push measures n pushes on a new repository.
func (r *run) push(ctx context.Context, repo repository, n int) (subject, floor figure.Samples, err error) {
	p, err := r.prepare(ctx, repo, n)
	if err != nil {
		return nil, nil, err
	}
	as := store.Signature{Name: p.by.Name, Email: p.by.Email}
	engine, err := gitstore.Open(gitstore.Options{
		URL: p.client.URL, Committer: as,
		Credentials: func(context.Context) (string, string, error) { return p.client.User, p.client.Password, nil },
	})
	if err != nil {
		return nil, nil, err
	}
	branch := engine.Branch(measuredBranch)
	if _, err := branch.Fetch(ctx); err != nil {
		return nil, nil, err
	}
	for i, path := range p.changed {
		began := time.Now()
		if err := p.push(ctx, i); err != nil {
			return nil, nil, err
		}
		floor.Milliseconds(time.Since(began))
		data := content(path, repo.commits+n+i)
		began = time.Now()
		_, err := branch.Update(ctx, store.Edit{
			Author: as, Subject: "claim: update",
			Apply: func(t *store.Tree) error { return t.Write(path, data) },
		})
		if err != nil {
			return nil, nil, err
		}
		subject.Milliseconds(time.Since(began))
	}
	return subject, floor, nil
}

// content is a claim's file, another one for each n.
func content(path string, n int) []byte {
	key, err := contract.ParsePath(path)
	if err != nil {
		return []byte(path)
	}
	o := stage.Object(stage.Subject, key.Namespace, key.Name)
	c := contract.FromObject(o)
	c.Spec["parameters"] = map[string]any{"maxConnections": int64(100 + n), "logStatement": "ddl"}
	data, err := contract.Encode(c)
	if err != nil {
		panic(err) // the object is ours
	}
	return data
}
