package claim

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/choice"
	"gitbind.dev/test/fakeapi"
)

// A namespace and a claim in it are often applied together, and the cache may know of the
// claim first.
func TestANamespaceThatTheCacheDoesNotKnowYetMayAskForReviews(t *testing.T) {
	// What is not known is the stricter one.
	for label, want := range map[string]bool{"PullRequest": true, "pull-request": true, "Direct": false, "": false} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{v1alpha1.ChangesLabel: label}}}
		r := &reconciler{cached: fakeapi.New(fakeapi.Builder()), live: fakeapi.New(fakeapi.Builder().WithObjects(namespace))}
		l := &look{api: &API{}, key: contract.Key{Binding: "dbs.example.com", Namespace: "shop", Name: "orders"}, object: &unstructured.Unstructured{Object: map[string]any{}}}
		if err := r.lookAtReview(t.Context(), l); err != nil || l.facts.Review != want {
			t.Errorf("%q: reviewed: %v, %v", label, l.facts.Review, err)
		}
	}
}

// Who decides on a rejected change does not wait for a backend that does not answer, or does not
// know it any more.
func TestADecisionOnARejectedChangeNeedsNoAnswer(t *testing.T) {
	token := inStep().facts.Token(decision.Rejected)
	for name, c := range map[string]struct {
		verdict decision.Verdict
		err     error
		resolve string
		want    decision.VerdictState // "" for an error
	}{
		"not decided, no answer":    {err: errors.New("away")},
		"decided before, no answer": {err: errors.New("away"), resolve: choice.File.Answer("another state")},
		"decided, no answer":        {err: errors.New("away"), resolve: choice.File.Answer(token), want: decision.VerdictClosed},
		"not decided, not known":    {verdict: decision.Verdict{State: decision.VerdictLost}, want: decision.VerdictClosed},
		"decided, open once more":   {verdict: decision.Verdict{State: decision.VerdictOpen}, resolve: choice.File.Answer(token), want: decision.VerdictOpen},
		"not decided, as rejected":  {verdict: decision.Verdict{State: decision.VerdictRejected}, want: decision.VerdictRejected},
	} {
		t.Run(name, func(t *testing.T) {
			remote := memstore.New()
			api := testAPI(t)
			api.Repository = repository.New(repository.Options{
				Remote: repository.Remote{
					Main: remote.Branch("main"), Status: remote.Branch("status"), Branch: remote.Branch,
					Verdict: func(context.Context, string, string) (decision.Verdict, error) { return c.verdict, c.err },
				},
				Limits: breaker.Default(), Now: time.Now, Save: func(context.Context, repository.Checkpoint) error { return nil },
			})
			r, l := &reconciler{common: &common{bytes: newByteBudget()}}, inStep()
			l.api = &api
			held := choice.Hold{Reason: string(decision.Rejected), Token: token, Choices: []choice.Choice{choice.File}}
			l.object.Object["status"] = map[string]any{"gitbind": map[string]any{"hold": held.Status()}}
			l.facts.Proposed, l.facts.Resolve = &decision.Proposed{Branch: contract.ChangeBranch(key), Commit: "c1"}, c.resolve
			err := r.askVerdict(t.Context(), l)
			if (err == nil) != (c.want != "") || err == nil && l.facts.Verdict.State != c.want {
				t.Errorf("%+v, %v", l.facts.Verdict, err)
			}
		})
	}
}

// A proposal may be merged while its claim is looked at: by the main that was looked at, the
// file is not there, and by the newest one it was.
func TestWhatIsApprovedDuringALookIsNotRemoved(t *testing.T) {
	w := newGitWorld(t)
	data, err := contract.Encode(version("small"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("main", key.Path(), nil)
	approved := w.write(contract.ChangeBranch(key), key.Path(), data)
	api := w.r.api()
	api.Review = true
	api.Repository.Remote.Verdict = func(ctx context.Context, _, _ string) (decision.Verdict, error) {
		w.remote.ForceHead("main", approved)
		if _, err := w.main.Fetch(ctx); err != nil {
			return decision.Verdict{}, err
		}
		_, err := api.Repository.View(ctx)
		return decision.Verdict{State: decision.VerdictMerged}, err
	}
	w.run()

	u := w.object()
	said, err := json.Marshal(proposal{UID: "u1", Commit: string(approved), Blob: string(store.BlobHash(data))})
	if err != nil {
		t.Fatal(err)
	}
	u.SetAnnotations(map[string]string{v1alpha1.ProposalAnnotation: string(said)})
	l, err := w.r.look(t.Context(), key, input{object: u})
	if err != nil || l.decision.Action != decision.Record {
		t.Fatalf("%+v, %v", l.decision, err)
	}
}

// Where the Git host refuses a first proposal, the note that it was begun is taken off again. That
// the object has changed meanwhile, so that the note stays, does not hide the refusal: it would be
// pushed again at once, and not after a while.
func TestANoteThatStaysDoesNotHideARefusedProposal(t *testing.T) {
	remote := memstore.New()
	remote.SetFault(func(c memstore.Call) error {
		if c.Op == memstore.Push {
			return store.ErrRejected
		}
		return nil
	})
	l := inStep()
	l.facts.Live = version("big")
	l.facts.Proposed = nil
	patches := 0
	server := fakeapi.New(fakeapi.Builder().WithScheme(runtime.NewScheme()).WithObjects(l.object), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if patches++; patches > 1 {
				return apierrors.NewConflict(schema.GroupResource{Resource: "postgresqlinstances"}, o.GetName(), errors.New("it was modified"))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	r := &reconciler{live: server, client: newNotingClient(server, &written{}), common: &common{bytes: newByteBudget()}}
	api := testAPI(t)
	api.Repository = repository.New(repository.Options{
		Remote: repository.Remote{Main: remote.Branch("main"), Status: remote.Branch("status"), Branch: remote.Branch},
		Limits: breaker.Default(), Now: time.Now, Save: func(context.Context, repository.Checkpoint) error { return nil },
	})
	r.current.Store(&api)
	l.api = &api
	var err error
	if l.object, err = r.get(t.Context(), l.key); err != nil {
		t.Fatal(err)
	}
	l.view.Main = remote.Branch("main").Snapshot()
	if _, err := r.propose(t.Context(), l); !errors.Is(err, store.ErrRejected) || errors.Is(err, errMoved) || patches != 2 {
		t.Errorf("after %d patches: %v", patches, err)
	}
}

// Approved and taken back before main is read, it leaves the claim's file as it was, of which no
// event comes.
func TestWhatWasApprovedIsSoonLookedAtAgain(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.look.decision.Action = decision.AwaitReview
	for state, wait := range map[decision.VerdictState]time.Duration{decision.VerdictMerged: mergedWait, decision.VerdictOpen: reviewPoll} {
		w.look.facts.Verdict = &decision.Verdict{State: state}
		if got := w.r.finished(w.look, nil).RequeueAfter; got < wait/2 || got > 2*wait {
			t.Errorf("%s: after %s, want about %s", state, got, wait)
		}
	}
}

// What was rejected stays so when somebody else changes main's file, until the object is changed
// again: also where changes are reviewed no more, or in an emergency.
func TestWhatWasRejectedDoesNotComeToMainWithAnothersChange(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*contract.Claim){
		"a comment":                            func(*contract.Claim) {},
		"an annotation that stays in the file": func(c *contract.Claim) { c.Annotations = map[string]string{"example.org/owner": "a"} },
		"a label":                              func(c *contract.Claim) { c.Labels = map[string]string{"team": "a"} },
		"another field":                        func(c *contract.Claim) { c.Spec["expose"] = "yes" },
	} {
		for _, emergency := range []string{"", "disk full"} {
			t.Run(strings.TrimSpace(what+" "+emergency), func(t *testing.T) {
				t.Parallel()
				w := newGitWorld(t)
				w.agreed()
				api := w.rejected()
				w.change(planned("big"))
				w.goesOn()
				file := version("small")
				change(file)
				data, err := contract.Encode(file)
				if err != nil {
					t.Fatal(err)
				}
				other := w.write("main", key.Path(), append([]byte("# by somebody else\n"), data...))
				if api.Review = false; emergency != "" {
					api.Review = true
					w.change(func(u *unstructured.Unstructured) {
						annotations := u.GetAnnotations()
						annotations[v1alpha1.EmergencyAnnotation] = emergency
						u.SetAnnotations(annotations)
					})
				}
				if head := w.goesOn(); head != other {
					t.Error("what was rejected is on main")
				}
				l, err := w.r.look(t.Context(), key, input{Reader: w.server, object: w.object()})
				if err != nil || l.decision.Reason != decision.Rejected {
					t.Errorf("%s for %q: %s, %v", l.decision.Action, l.decision.Reason, l.decision.Message, err)
				}
				w.change(planned("medium"))
				if head := w.goesOn(); head == other {
					t.Error("what was changed again is not on main")
				}
			})
		}
	}
}

// What an older konnector proposed is known by its file, with what that has beside the object.
func TestWhatAnOlderKonnectorProposedIsKnown(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	file := version("small")
	file.Annotations = map[string]string{"example.org/owner": "a"}
	data, err := contract.Encode(file)
	if err != nil {
		t.Fatal(err)
	}
	w.agreed()
	w.write("main", key.Path(), data)
	w.goesOn()
	api := w.rejected()
	w.change(planned("big"))
	before := w.goesOn()
	w.change(func(u *unstructured.Unstructured) {
		p := proposalOf(u)
		if p == nil || p.Says == "" || p.Says == p.Blob {
			t.Fatalf("it proposes %+v", p)
		}
		p.Says = ""
		said, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		annotations := u.GetAnnotations()
		annotations[v1alpha1.ProposalAnnotation] = string(said)
		u.SetAnnotations(annotations)
	})
	api.Review = false
	if head := w.goesOn(); head != before {
		t.Error("what was rejected is on main")
	}
}

// What is proposed in an emergency waits for its approval like anything else.
func TestOnlyACommitThatPassesTheReviewNamesAnEmergency(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.look.facts.Review, w.look.facts.Emergency = true, "disk full"
	for action, want := range map[decision.Action]bool{decision.Commit: true, decision.Merge: true, decision.RemoveFile: true, decision.Propose: false} {
		w.look.decision.Action = action
		trailers := w.look.edit(change{verb: "update"}).Trailers
		if got := slices.Contains(trailers, store.Trailer{Key: contract.TrailerEmergency, Value: "disk full"}); got != want {
			t.Errorf("%s: %v", action, trailers)
		}
	}
}

// rejected has changes of the API reviewed, and each one rejected.
func (w *gitWorld) rejected() *API {
	api := w.r.api()
	api.Review = true
	api.Repository.Remote.Verdict = func(context.Context, string, string) (decision.Verdict, error) {
		return decision.Verdict{State: decision.VerdictRejected}, nil
	}
	return api
}

// goesOn has the konnector see main, and do what there is to do. It returns main's head then.
func (w *gitWorld) goesOn() store.Hash {
	w.Helper()
	if _, err := w.main.Fetch(w.Context()); err != nil {
		w.Fatal(err)
	}
	if err := w.inStep(); err != nil {
		w.Fatal(err)
	}
	s, err := w.main.Fetch(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return s.Head()
}
