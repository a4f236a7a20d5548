package session_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

const binding = "caches.example.org"

func path(name string) string {
	return contract.Key{Binding: binding, Namespace: "team-a", Name: name}.Path()
}

// world is a repository, and what was saved of it.
type world struct {
	*testing.T
	remote *memstore.Remote
	people store.Branch

	mu     sync.Mutex
	saved  session.Checkpoint
	writes int
	queue  []string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, remote: memstore.New()}
	w.people = w.remote.Branch("main")
	w.commit("Begin", map[string]string{"README.md": "hello"})
	return w
}

// commit changes files on main; "" removes one.
func (w *world) commit(subject string, files map[string]string, trailers ...store.Trailer) store.Hash {
	w.Helper()
	snap, err := w.people.Update(w.Context(), store.Edit{
		Author: store.Signature{Name: "alice", Email: "alice@example.org"}, Subject: subject, Trailers: trailers,
		Apply: func(t *store.Tree) error {
			for path, content := range files {
				err := t.Write(path, []byte(content))
				if content == "" {
					err = t.Remove(path)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	return snap.Head()
}

// commitAsKonnector is commit with the app cluster's konnector as committer.
func (w *world) commitAsKonnector(subject string, files map[string]string, trailers ...store.Trailer) store.Hash {
	w.Helper()
	name, email := contract.ComponentIdentity(contract.Konnector, "k3x9d2abqw")
	committer, people := w.remote.Committer, w.people
	defer func() { w.remote.Committer, w.people = committer, people }()
	w.remote.Committer = store.Signature{Name: name, Email: email}
	w.people = w.remote.Branch("main")
	return w.commit(subject, files, trailers...)
}

func (w *world) save(_ context.Context, c session.Checkpoint) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saved = c
	w.writes++
	return nil
}

func (w *world) lastSaved() (session.Checkpoint, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.saved, w.writes
}

// queued are the paths that were to be looked at since the last call, sorted,
// urgent ones with a "!".
func (w *world) queued() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.queue
	w.queue = nil
	slices.Sort(out)
	return slices.Compact(out)
}

type run struct {
	*session.Session
	w                    *world
	main                 *watched
	wakeMain, wakeStatus chan store.Hash
	stop                 func()
}

// watched is a branch that counts how often it was looked at, its history read, and the files of an
// earlier commit asked for.
type watched struct {
	store.Branch
	looks, logs, ats atomic.Int64
	// failing is which of the logs fails, 0 for none.
	failing int64
	// looking is held while it is looked at: who holds it pushes at once.
	looking sync.Mutex
}

func (b *watched) FetchTip(ctx context.Context, tip store.Hash) (*store.Snapshot, error) {
	b.looks.Add(1)
	b.looking.Lock()
	defer b.looking.Unlock()
	return b.Branch.FetchTip(ctx, tip)
}

func (b *watched) Log(ctx context.Context, since, to store.Hash) ([]store.Commit, bool, error) {
	if b.logs.Add(1) == b.failing {
		return nil, false, errors.New("the host is not there")
	}
	return b.Branch.Log(ctx, since, to)
}

func (b *watched) At(ctx context.Context, commit store.Hash) (*store.Snapshot, error) {
	b.ats.Add(1)
	return b.Branch.At(ctx, commit)
}

func (w *world) start() *run {
	w.Helper()
	last, _ := w.lastSaved()
	return w.startWith(session.Options{Checkpoint: last})
}

// startAndFollow starts a session, and waits until it follows main.
func (w *world) startAndFollow() *run {
	w.Helper()
	r := w.start()
	r.follows()
	return r
}

func (w *world) startWith(o session.Options) *run {
	w.Helper()
	return w.startOn(o, w.remote.Branch("main"))
}

func (w *world) startOn(o session.Options, on store.Branch) *run {
	w.Helper()
	o.Cluster = tenant.Cluster{ID: "k3x9d2abqw", UID: "u", Namespace: "gb-k3x9d2abqw"}
	main, ok := on.(*watched)
	if !ok {
		main = &watched{Branch: on}
	}
	o.Main = main
	if o.Status == nil {
		o.Status = w.remote.Branch("status")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Save == nil {
		o.Save = w.save
	}
	if o.Began == nil {
		o.Began = func() {}
	}
	o.Changed = func() {}
	o.Limits = cmp.Or(o.Limits, breaker.Default())
	o.Enqueue = func(path string, urgent bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if urgent {
			path += " !"
		}
		w.queue = append(w.queue, path)
	}
	r := &run{Session: session.New(o), w: w, main: main, wakeMain: make(chan store.Hash, 1), wakeStatus: make(chan store.Hash, 1)}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, r.wakeMain, r.wakeStatus)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	w.Cleanup(r.stop)
	return r
}

// follows waits until the session is at main's head, and not held, and has done
// all that comes with it: the next look at main begins after that.
func (r *run) follows() {
	r.w.Helper()
	r.w.eventually("main is followed", func() bool {
		store.Tell(r.wakeMain, "")
		v := r.View()
		return v.Main.Head() == r.w.remote.Head("main") && !v.Held
	})
	looks := r.main.looks.Load()
	r.w.eventually("main is looked at again", func() bool {
		store.Tell(r.wakeMain, "")
		return r.main.looks.Load() > looks
	})
}

func (r *run) wantHeld(reason string) {
	r.w.Helper()
	defer func() {
		if r.w.Failed() {
			r.w.Logf("held: %v, condition: %+v", r.View().Held, r.Condition())
		}
	}()
	r.w.eventually(reason, func() bool {
		store.Tell(r.wakeMain, "")
		return r.View().Held && r.Condition().Reason == reason
	})
	if c := r.Condition(); c.Status != "False" || c.Message == "" {
		r.w.Errorf("condition = %+v", c)
	}
}

// answer does what the claim controller would.
func (r *run) answer(path string, result contract.Result) {
	r.w.Helper()
	v := r.View()
	s := &contract.Status{Result: result, Answers: contract.Answers{Commit: string(v.Main.Head())}}
	if e, ok := v.Main.Entry(path); ok {
		s.Answers.Blob, s.Object = string(e.Hash), "gb-k3x9d2abqw-team-a/x"
	}
	r.write(path, s)
}

func (r *run) write(path string, s *contract.Status) {
	r.w.Helper()
	v := r.View()
	data, err := contract.EncodeStatus(s)
	if err != nil {
		r.w.Fatal(err)
	}
	if err := r.Write(r.w.Context(), statusbranch.Change{Path: contract.StatusPath(path), Data: data, Subject: "status: x", Answers: path, As: v.Generation}); err != nil {
		r.w.Fatal(err)
	}
}

// statusTree is the branch status as another client sees it.
func (w *world) statusTree() *store.Snapshot {
	w.Helper()
	snap, err := w.remote.Branch("status").Fetch(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return snap
}

func (w *world) status(path string) *contract.Status {
	w.Helper()
	data, err := w.statusTree().Read(contract.StatusPath(path))
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	s, err := contract.DecodeStatus(data)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatal("never: ", what)
		}
	}
}

// wantRemoval looks at a claim that main lacks; the reason is that for which it is
// held.
func (r *run) wantRemoval(name string, seen store.Hash, want contract.Reason) session.Removal {
	r.w.Helper()
	got, err := r.Removals.Judge(r.w.Context(), path(name), session.Seen{Answered: seen})
	if err != nil || got.Reason != want {
		r.w.Errorf("removal of %s, seen %s: %q %q, %v; want %q", name, seen.Short(), got.Reason, got.Message, err, want)
	}
	return got
}
