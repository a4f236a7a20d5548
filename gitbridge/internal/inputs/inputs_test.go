package inputs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clientgotesting "k8s.io/client-go/testing"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/test/fakeapi"
)

var (
	secrets = corev1.SchemeGroupVersion.WithResource("secrets")
	orders  = contract.Key{Binding: "caches.example.org", Namespace: "team-a", Name: "orders"}
	billing = contract.Key{Binding: "caches.example.org", Namespace: "team-a", Name: "billing"}
)

type world struct {
	*testing.T
	*Writer
	server *dynamicfake.FakeDynamicClient
	signer *encryption.Signer
	to     []string
	// sequence is that of the newest file.
	sequence int64
	// forbids says that the API server refuses writes, and may whether the tenant has the
	// right to them. gaveAgain counts how often it was to be given again.
	forbids, may bool
	gaveAgain    int
	now          time.Time
}

func newWorld(t *testing.T) *world {
	t.Parallel()
	signer, errSigner := encryption.NewSigner(encryption.GenerateSeed())
	text, recipient, errIdentity := encryption.GenerateIdentity()
	ids, errParse := encryption.ParseIdentities([]byte(text))
	if err := errors.Join(errSigner, errIdentity, errParse); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, signer: signer, to: []string{recipient}, sequence: 1, may: true, now: time.Now()}
	w.server = dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme)
	fakeapi.Mend(w.server)
	refuse := func(clientgotesting.Action) (bool, runtime.Object, error) {
		return w.forbids, nil, apierrors.NewForbidden(secrets.GroupResource(), "", errors.New("no"))
	}
	w.server.PrependReactor("create", "*", refuse)
	w.server.PrependReactor("update", "*", refuse)
	w.Writer = New(Options{
		Cluster: tenant.Cluster{ID: "k3x9"}, Tenant: w.server, Now: func() time.Time { return w.now },
		Rights: func(context.Context, string) error { return nil }, NoRight: func(string) { w.gaveAgain++ },
		MayWrite: func(context.Context, string) (bool, error) { return w.may, nil },
		Opener: func(context.Context) (*encryption.Opener, error) {
			return &encryption.Opener{Cluster: "k3x9", Keys: []string{signer.Public()}, Identities: ids}, nil
		},
		Answered: func() iter.Seq2[contract.Key, *contract.Inputs] {
			return func(func(contract.Key, *contract.Inputs) bool) {}
		},
	})
	return w
}

// bring brings the next file of a claim, with Secret ca of these keys, of which the offer
// lets some through.
func (w *world) bring(key contract.Key, present *contract.Inputs, offered []string, keys ...string) Outcome {
	w.Helper()
	w.sequence++
	data := map[string][]byte{}
	for _, k := range keys {
		data[k] = []byte(fmt.Sprint(w.sequence))
	}
	return w.bringFile(Claim{Key: key, Present: present, Offered: []v1alpha1.PermissionClaim{{Direction: v1alpha1.DirectionUp, Name: "ca", Keys: offered}}},
		encryption.Input{Kind: "Secret", Name: "ca", Type: corev1.SecretTypeOpaque, Data: data})
}

// bringFile brings a file with these objects.
func (w *world) bringFile(c Claim, objects ...encryption.Input) Outcome {
	w.Helper()
	c.UID, c.Version = "u-"+c.Key.Name, fmt.Sprint(w.sequence)
	file, err := w.signer.SealInputs(encryption.Binding{Cluster: "k3x9", Claim: c.Key, UID: c.UID}, objects, w.to, w.sequence)
	if err != nil {
		w.Fatal(err)
	}
	c.Read = func() ([]byte, error) { return file, nil }
	c.Says = func() (*contract.Claim, error) { return &contract.Claim{}, nil }
	out, err := w.Bring(w.Context(), c)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// want is what the control plane has of Secret ca: the sequence of each key, as "a=2".
func (w *world) want(want ...string) {
	w.Helper()
	u, err := w.server.Resource(secrets).Namespace(w.Cluster.ClaimNamespace("team-a")).Get(w.Context(), "ca", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	var got []string
	if err == nil {
		var s corev1.Secret
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
			w.Fatal(err)
		}
		for k, v := range s.Data {
			got = append(got, k+"="+string(v))
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		w.Errorf("Secret ca has %v, want %v", got, want)
	}
}

func (w *world) refused(out Outcome, object, words string) {
	w.Helper()
	if why := out.Inputs.Refused[object]; words == "" && len(out.Inputs.Refused) > 0 || !strings.Contains(why, words) {
		w.Errorf("refused %v, want %q", out.Inputs.Refused, words)
	}
}

// What a quota or a policy forbids is of one claim; what the tenant has no right to, of all in
// the namespace, and it is given again.
func TestAMissingRightIsToldFromAQuota(t *testing.T) {
	w := newWorld(t)
	w.forbids = true
	out := w.bring(orders, nil, nil, "a")
	w.refused(out, "Secret ca", "quota or an admission policy")
	if w.gaveAgain > 0 || out.Later != retryInterval {
		t.Errorf("the right was given again %d times; looked at again in %s", w.gaveAgain, out.Later)
	}
	w.forbids = false
	w.refused(w.bring(billing, nil, nil, "a"), "Secret ca", "")
	w.want("a=3")

	w.forbids, w.may = true, false
	out = w.bring(orders, out.Inputs, nil, "a")
	w.refused(out, contract.AllInputs, v1alpha1.ClaimInputs)
	if w.gaveAgain != 1 || out.Later != forbiddenFirst {
		t.Errorf("the right was given again %d times; looked at again in %s", w.gaveAgain, out.Later)
	}
	w.forbids = false
	w.refused(w.bring(billing, nil, nil, "a"), contract.AllInputs, v1alpha1.ClaimInputs)
	w.now = w.now.Add(forbiddenFirst)
	w.refused(w.bring(orders, out.Inputs, nil, "a"), contract.AllInputs, "")
	w.want("a=6")
}

// When the rights of a namespace are gone for a moment, all claims that are on their way learn
// of it: that is one refusal, and no reason to leave all of them alone for minutes.
func TestClaimsThatAreForbiddenTogetherAreOneRefusal(t *testing.T) {
	w := newWorld(t)
	w.forbids, w.may = true, false
	all := []contract.Key{billing, {Binding: orders.Binding, Namespace: orders.Namespace, Name: "stock"}}
	mayWrite := w.MayWrite
	w.MayWrite = func(ctx context.Context, namespace string) (bool, error) {
		if len(all) > 0 {
			next := all[0]
			all = all[1:]
			w.bring(next, nil, nil, "a")
		}
		return mayWrite(ctx, namespace)
	}
	out := w.bring(orders, nil, nil, "a")
	if w.refused(out, contract.AllInputs, v1alpha1.ClaimInputs); out.Later != forbiddenFirst || !out.Coming || len(all) > 0 {
		t.Errorf("looked at again in %s, coming: %t", out.Later, out.Coming)
	}
	w.now = w.now.Add(forbiddenFirst / 2)
	if same := w.bring(orders, nil, nil, "a"); same.Later != forbiddenFirst/2 || !same.Coming {
		t.Errorf("and meanwhile in %s, coming: %t", same.Later, same.Coming)
	}
	w.now = w.now.Add(forbiddenFirst)
	if again := w.bring(orders, nil, nil, "a"); again.Later != 2*forbiddenFirst || again.Coming {
		t.Errorf("and after another refusal in %s, coming: %t", again.Later, again.Coming)
	}
}

// Time goes on between two looks at the clock.
func TestARefusalThatEndsMeanwhileIsTriedAgainSoon(t *testing.T) {
	for early := range 6 {
		t.Run(fmt.Sprint(early, " ns before"), func(t *testing.T) {
			w := newWorld(t)
			w.forbids, w.may = true, false
			w.bring(orders, nil, nil, "a")
			w.now = w.now.Add(forbiddenFirst - time.Duration(early))
			w.Now = func() time.Time { w.now = w.now.Add(1); return w.now }
			if out := w.bring(billing, nil, nil, "a"); out.Later <= 0 || out.Later > 2*forbiddenFirst {
				t.Errorf("looked at again in %s", out.Later)
			}
		})
	}
}

// Two offers that take other keys of one Secret would take each other's away.
func TestOtherKeysOfOneSecretAreRefused(t *testing.T) {
	w := newWorld(t)
	first := w.bring(orders, nil, []string{"b", "a"}, "a", "b", "c").Inputs
	w.want("a=2", "b=2")
	second := w.bring(billing, nil, []string{"c"}, "a", "b", "c")
	w.refused(second, "Secret ca", "same keys")
	w.want("a=2", "b=2")
	w.refused(w.bring(orders, first, []string{"a", "b"}, "a", "b", "c"), "Secret ca", "")
	w.want("a=4", "b=4")

	t.Log("an offer takes other keys from now on, for all of its claims")
	w.bring(orders, first, []string{"c"}, "a", "b", "c")
	w.want("c=5")
	w.refused(w.bring(billing, second.Inputs, []string{"c"}, "a", "b", "c"), "Secret ca", "")
	w.want("c=6")
}

// A bridge that ends after a write and before status says so leaves what the next one knows
// nothing of, until the claim goes.
func TestWhatStatusNeverSaidGoesWithItsClaimToo(t *testing.T) {
	w := newWorld(t)
	w.bring(orders, nil, nil, "a")
	again := New(w.Options)
	if _, err := again.Release(t.Context(), billing, nil); err != nil {
		t.Fatal(err)
	}
	w.want("a=2")
	if left, err := again.Release(t.Context(), orders, nil); err != nil || left == nil || len(left.Objects) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	w.want()

	// What another claim has, too, stays.
	w.bring(orders, nil, nil, "a")
	shared := w.bring(billing, nil, nil, "a")
	o := w.Options
	o.Answered = func() iter.Seq2[contract.Key, *contract.Inputs] {
		return func(yield func(contract.Key, *contract.Inputs) bool) { yield(billing, shared.Inputs) }
	}
	again = New(o)
	if _, err := again.Release(t.Context(), orders, nil); err != nil {
		t.Fatal(err)
	}
	w.want("a=4")
	if _, err := again.Release(t.Context(), billing, shared.Inputs); err != nil {
		t.Fatal(err)
	}
	w.want()
}

// A restored host had the bridge write again what had been taken away, and was given back a
// status that does not name it.
func TestWhatStatusDoesNotNameGoesWhereItWasSetBack(t *testing.T) {
	for name, setBack := range map[string]int64{"by the same process": 0, "by the next one": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bring(orders, nil, nil, "a")
			if setBack > 0 {
				w.Writer = New(w.Options)
			}
			w.sequence++
			w.bringFile(Claim{Key: orders, Present: &contract.Inputs{Sequence: w.sequence}, StatusSetBack: setBack})
			w.want()
		})
	}
}

// What an operator made immutable is not to be missing for a label of the bridge's own.
func TestAnImmutableObjectIsNotMadeAgainForALabel(t *testing.T) {
	w := newWorld(t)
	present := w.bring(orders, nil, nil, "a").Inputs
	client := w.server.Resource(secrets).Namespace(w.Cluster.ClaimNamespace("team-a"))
	u, err := client.Get(t.Context(), "ca", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// As a bridge before this label left it.
	labels := u.GetLabels()
	delete(labels, v1alpha1.InputOfLabel)
	u.SetLabels(labels)
	u.Object["immutable"] = true
	if _, err := client.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Writer = New(w.Options)
	w.server.ClearActions()
	w.sequence-- // the same version
	w.bring(orders, present, nil, "a")
	for _, a := range w.server.Actions() {
		if a.GetVerb() == "delete" {
			t.Error("it was deleted")
		}
	}
}

// The right to list comes with the new ClusterRole, which may have been given for one kind.
func TestWhatMayBeListedGoesThoughAnotherKindMayNot(t *testing.T) {
	w := newWorld(t)
	w.bring(orders, nil, nil, "a")
	w.server.PrependReactor("list", "configmaps", func(clientgotesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(secrets.GroupResource(), "", errors.New("no"))
	})
	w.Writer = New(w.Options)
	if _, err := w.Release(t.Context(), orders, nil); !errors.Is(err, ErrMayNotList) || !w.IsUnreleased(orders) {
		t.Errorf("it is not told: %v", err)
	}
	w.want()

	t.Log("and where the tenant may write nothing, nothing is missed")
	w.may, w.now = false, w.now.Add(CheckInterval)
	if _, err := w.Release(t.Context(), orders, nil); err != nil || w.IsUnreleased(orders) {
		t.Error(err)
	}
}

// Each question is eight requests, and many claims may go.
func TestWhetherTheTenantMayWriteIsAskedOnceForAllThatGo(t *testing.T) {
	w := newWorld(t)
	asked, forbids := 0, true
	w.MayWrite = func(context.Context, string) (bool, error) { asked++; return true, nil }
	w.server.PrependReactor("list", "*", func(clientgotesting.Action) (bool, runtime.Object, error) {
		return forbids, nil, apierrors.NewForbidden(secrets.GroupResource(), "", errors.New("no"))
	})
	for range 3 {
		if _, err := w.Release(t.Context(), orders, nil); !errors.Is(err, ErrMayNotList) {
			t.Errorf("it is not told: %v", err)
		}
	}
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
	forbids = false
	if _, err := w.Release(t.Context(), orders, nil); err != nil || w.IsUnreleased(orders) {
		t.Errorf("the right that came counts for nothing: %v", err)
	}
}

// ca is Secret ca as the control plane has it.
func (w *world) ca() *unstructured.Unstructured {
	w.Helper()
	u, err := w.secrets("team-a").Get(w.Context(), "ca", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return u
}

func (w *world) secrets(namespace string) dynamic.ResourceInterface {
	return w.server.Resource(secrets).Namespace(w.Cluster.ClaimNamespace(namespace))
}

// A person copies by kubectl get -o yaml and kubectl apply.
func TestWhatAPersonCopiedIsNotOurs(t *testing.T) {
	w := newWorld(t)
	present := w.bring(orders, nil, nil, "a").Inputs
	copyTo := func(namespace, name string) {
		t.Helper()
		u := w.ca()
		u.SetNamespace(w.Cluster.ClaimNamespace(namespace))
		u.SetName(name)
		u.SetUID("")
		u.SetResourceVersion("")
		if _, err := w.secrets(namespace).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	copyTo("team-a", "mine")
	copyTo("team-b", "ca")
	elsewhere := orders
	elsewhere.Namespace = "team-b"
	w.refused(w.bring(elsewhere, nil, nil, "a"), "Secret ca", "somebody else's")
	for _, release := range []struct {
		contract.Key
		*contract.Inputs
	}{{orders, present}, {elsewhere, present}} {
		if _, err := w.Release(t.Context(), release.Key, release.Inputs); err != nil {
			t.Fatal(err)
		}
	}
	w.want()
	for namespace, name := range map[string]string{"team-a": "mine", "team-b": "ca"} {
		if _, err := w.secrets(namespace).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s in %s: %v", name, namespace, err)
		}
	}
}

// What a bridge wrote that did not say which object it was is ours under the name that a claim
// has it by, and says so from then on.
func TestAnObjectThatDoesNotSayWhichItIsIsWrittenOnce(t *testing.T) {
	w := newWorld(t)
	present := w.bring(orders, nil, nil, "a").Inputs
	forget := func() {
		t.Helper()
		u := w.ca()
		annotations := u.GetAnnotations()
		delete(annotations, v1alpha1.ObjectAnnotation)
		u.SetAnnotations(annotations)
		if _, err := w.secrets("team-a").Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	for _, writes := range []int{1, 0} {
		w.Writer = New(w.Options)
		w.server.ClearActions()
		w.sequence-- // the same version
		w.refused(w.bring(orders, present, nil, "a"), "Secret ca", "")
		var n int
		for _, a := range w.server.Actions() {
			if a.GetVerb() != "get" {
				n++
			}
		}
		if n != writes {
			t.Errorf("%d writes, want %d", n, writes)
		}
	}
	forget()
	if _, err := New(w.Options).Release(t.Context(), orders, nil); err != nil {
		t.Fatal(err)
	}
	w.want("a=2") // it may be a copy
	if _, err := New(w.Options).Release(t.Context(), orders, present); err != nil {
		t.Fatal(err)
	}
	w.want()
}

// The label names one claim, but an object goes with the last that has it.
func TestASharedObjectStaysForTheClaimThatItDoesNotName(t *testing.T) {
	w := newWorld(t)
	first := w.bring(orders, nil, nil, "a").Inputs
	w.bring(billing, nil, nil, "a") // and status does not say so yet
	if _, err := w.Release(t.Context(), orders, first); err != nil {
		t.Fatal(err)
	}
	w.want("a=3")
	if _, err := w.Release(t.Context(), billing, nil); err != nil {
		t.Fatal(err)
	}
	w.want()
}
