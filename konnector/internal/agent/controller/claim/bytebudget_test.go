package claim

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/decision"
)

// spendAll has the claims of a namespace bring to Git what they may at once.
func (b *byteBudget) spendAll(t *testing.T, namespace string) {
	t.Helper()
	if err := b.push(contract.Key{Namespace: namespace, Name: "other"}, 2*maxBytes, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// A repository keeps all that was ever committed, and one namespace is not to fill it for all.
func TestANamespaceThatHasBroughtTooMuchWaits(t *testing.T) {
	t.Parallel()
	for name, push := range map[string]func(w *gitWorld) error{
		"an edit": func(w *gitWorld) error {
			_, err := w.r.commit(t.Context(), w.look)
			return err
		},
		"a merge": func(w *gitWorld) error {
			w.look.facts.Merged = version("big")
			_, err := w.r.merge(t.Context(), w.look)
			return err
		},
		"what lost a conflict": func(w *gitWorld) error {
			_, err := w.r.giveWay(t.Context(), w.look)
			return err
		},
		"a proposal": func(w *gitWorld) error {
			_, err := w.r.propose(t.Context(), w.look)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for namespace, waits := range map[string]bool{key.Namespace: true, "team-b": false} {
				w := newGitWorld(t)
				pushes := 0
				w.remote.SetFault(func(c memstore.Call) error {
					if c.Op == memstore.Push && !c.After {
						pushes++
					}
					return nil
				})
				w.look.facts.Live, w.look.facts.Base = version("big"), version("small")
				w.r.bytes.spendAll(t, namespace)
				err := push(w)
				if errors.Is(err, errManyBytes) != waits || !waits && err != nil || (pushes == 0) != waits {
					t.Errorf("of %s: %v, %d pushes", namespace, err, pushes)
				}
				if w.object().GetAnnotations()[v1alpha1.ProposalAnnotation] != "" && waits {
					t.Error("a proposal is begun")
				}
			}
		})
	}
}

// The claim says what it waits for, and is looked at again.
func TestAClaimThatWaitsForItsNamespaceSaysSo(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.agreed()
	w.r.bytes.spendAll(t, key.Namespace)
	w.change(planned("big"))
	result, err := w.r.bringInStep(t.Context(), key, w.object())
	if err != nil || result.RequeueAfter < bytesWait/2 || result.RequeueAfter > 2*bytesWait {
		t.Errorf("%+v, %v", result, err)
	}
	c := conditionIn(w.object(), conditionCommitted)
	if c == nil || c.status != "False" || c.reason != "ManyBytes" || !strings.Contains(c.message, "32 MiB") || !strings.Contains(c.message, "1 MiB a minute") {
		t.Errorf("the condition is %+v", c)
	}
}

// What goes takes no room, and many are deleted where there is too much.
func TestARemovalNeverWaitsForItsNamespace(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.r.bytes.spendAll(t, key.Namespace)
	w.look.facts.Terminating = true
	if _, err := w.r.propose(t.Context(), w.look); err != nil {
		t.Errorf("it is not proposed: %v", err)
	}
	w.look.object = w.object()
	if _, err := w.r.removeFile(t.Context(), w.look); err != nil || w.isOnMain() {
		t.Errorf("it is not removed: %v", err)
	}
}

// What a claim refers to is encrypted, and is kept as often as it changes.
func TestWhatAClaimRefersToWaitsForItsNamespace(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.agreed()
	signer, errSigner := encryption.NewSigner(encryption.GenerateSeed())
	_, recipient, errIdentity := encryption.GenerateIdentity()
	if err := errors.Join(errSigner, errIdentity); err != nil {
		t.Fatal(err)
	}
	api := w.r.api()
	api.Inputs = []v1alpha1.PermissionClaim{{Direction: v1alpha1.DirectionUp, Field: "spec.caSecret"}}
	api.Repository.SetSender(&encryption.Sender{Cluster: "k3x9", Signer: signer, Recipients: []string{recipient}})
	for _, waits := range []bool{true, false} {
		l, err := w.r.look(t.Context(), key, input{Reader: w.server, object: w.object()})
		if err != nil || !l.settled() {
			t.Fatalf("%+v, %v", l, err)
		}
		// It refers to that no more.
		l.answer = &contract.Status{UID: "u1", Inputs: &contract.Inputs{Sequence: 1, Objects: []string{"Secret ca"}}}
		w.r.inputs.bytes = newByteBudget()
		if waits {
			w.r.inputs.bytes.spendAll(t, key.Namespace)
		}
		if err := w.r.inputs.send(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		c := l.inputs.condition
		if c == nil || (c.reason == "ManyBytes") != waits || (time.Until(l.inputs.due) > bytesWait/2) != waits {
			t.Errorf("waits %v: %+v until %s", waits, c, l.inputs.due)
		}
		if _, sent := w.main.Snapshot().Entry(key.InputsPath()); sent == waits {
			t.Errorf("waits %v, sent %v", waits, sent)
		}
	}
}

func TestAPushThatFailsBringsNothing(t *testing.T) {
	t.Parallel()
	b := newByteBudget()
	for range 3 {
		if err := b.push(key, 2*maxBytes, func() error { return errAway }); !errors.Is(err, errAway) {
			t.Error(err)
		}
	}
	if err := b.mayPush(key, 1); err != nil {
		t.Error(err)
	}
}

// What lost is kept before the object is written, and that may be refused for long.
func TestWhatWasKeptBeforeBringsNothing(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.look.facts.Live, w.look.facts.Base, w.look.facts.Finalizer = version("big"), version("small"), true
	w.r.client = newNotingClient(interceptor.NewClient(w.server, interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return errAway },
	}), &written{})
	data, err := w.look.encode(w.look.facts.Live)
	if err != nil {
		t.Fatal(err)
	}
	// There is room for two.
	if err := w.r.bytes.push(key, maxBytes-len(data)-1, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := w.r.giveWay(t.Context(), w.look); err == nil || errors.Is(err, errManyBytes) {
			t.Fatal(err)
		}
	}
	if w.remote.Head(contract.ConflictBranch(key, string(store.BlobHash(data)))) == "" {
		t.Error("it is not kept")
	}
}

func TestABulkApplyOfOrdinaryClaimsDoesNotWait(t *testing.T) {
	t.Parallel()
	b := newByteBudget()
	for i := range 10_000 {
		if err := b.push(contract.Key{Binding: binding, Namespace: "team-a", Name: strconv.Itoa(i)}, 2<<10, func() error { return nil }); err != nil {
			t.Fatalf("the claim number %d: %v", i, err)
		}
	}
}

// Whoever changes a large claim again and again fills the repository much sooner.
func TestACommitOfALargeFileCountsAsMany(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, want int
	}{{100, maxWrites}, {100 << 10, 13}, {600 << 10, 8}} {
		w := newGitWorld(t)
		w.agreed()
		n, begun := 0, time.Now()
		for ; w.r.writes.Rest(key, time.Now()) == 0 && n < 2*maxWrites; n++ {
			plan := noise(c.size)
			if c.size > maxPacked {
				plan = strings.Repeat("large", c.size/5) // It must fit into the base.
			}
			w.look.facts.Live = version(plan + strconv.Itoa(n))
			l, err := w.r.look(t.Context(), key, input{Reader: w.server, object: w.object()})
			if err != nil {
				t.Fatal(err)
			}
			l.facts.Live, l.decision.Action = w.look.facts.Live, decision.Commit
			_, err = w.r.act(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			w.r.spend(l, err)
		}
		again := int(time.Since(begun)/writeEvery) + 1
		if n < c.want || n > c.want+again {
			t.Errorf("%d commits of %d bytes at once, want %d", n, c.size, c.want)
		}
	}
}
