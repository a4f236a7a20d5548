package claim

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/inputs"
	"gitbind.dev/test/fakeapi"
)

// All claims that went in 30 days are looked at after each start, and each lists two kinds.
func TestInputsOfAClaimThatGoesAreLookedForOnce(t *testing.T) {
	gone := &contract.Status{Result: contract.Gone, UID: "u1"}
	for name, c := range map[string]struct {
		access  decision.Access
		present *contract.Status
		answer  *contract.Status
		want    bool
	}{
		"it goes":                       {decision.Granted, &contract.Status{Result: contract.Deleting, UID: "u1"}, gone, true},
		"it went before":                {decision.Granted, gone, gone, false},
		"another went before":           {decision.Granted, &contract.Status{Result: contract.Gone, UID: "u0"}, gone, true},
		"nothing was said of it":        {decision.Granted, nil, nil, true},
		"what there is cannot be known": {decision.NotWatched, nil, nil, false},
		"it went before, with inputs left": {decision.NotWatched, &contract.Status{Result: contract.Gone, UID: "u1",
			Inputs: &contract.Inputs{Objects: []string{"Secret ca"}}}, gone, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
				{Version: "v1", Resource: "secrets"}: "SecretList", {Version: "v1", Resource: "configmaps"}: "ConfigMapList"})
			f.Inputs.Tenant = objects
			f.beginInputs()
			f.inputs.Rights = func(context.Context, string) error { return nil }
			s := &step{api: exportedapi.API{PermissionClaims: []v1alpha1.PermissionClaim{{Direction: v1alpha1.DirectionUp, Name: "ca"}}}}
			s.IsClaim, s.Access, s.Present = true, c.access, c.present
			s.Key = contract.Key{Binding: binding, Namespace: "team-a", Name: "orders"}
			var answer *contract.Status
			if c.answer != nil {
				copied := *c.answer
				answer = &copied
			}
			if err := f.addInputs(t.Context(), s, answer); err != nil {
				t.Fatal(err)
			}
			if n := len(objects.Actions()); (n > 0) != c.want {
				t.Errorf("%d requests", n)
			}
			if !c.want || answer == nil {
				return
			}
			// The tombstone is written though it failed.
			objects.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewInternalError(errors.New("no"))
			})
			if err := f.addInputs(t.Context(), s, answer); err == nil {
				t.Error("no error")
			}
			objects.ReactionChain = objects.ReactionChain[1:]
			objects.ClearActions()
			s.Present = answer
			if err := f.addInputs(t.Context(), s, answer); err != nil || c.access == decision.Granted && len(objects.Actions()) == 0 {
				t.Errorf("it is not tried again: %v", err)
			}
		})
	}
}

// Another claim may have an object, and the bridge have ended before status said so.
func TestInputsOfWhichStatusSaysNothingYetAreOfTheirClaimsOnMain(t *testing.T) {
	f := start(t)
	signer, err := encryption.NewSigner(encryption.GenerateSeed())
	if err != nil {
		t.Fatal(err)
	}
	_, recipient, err := encryption.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	key := contract.Key{Binding: binding, Namespace: "team-a", Name: "orders"}
	file, err := signer.SealInputs(encryption.Binding{Cluster: f.Session.Cluster.ID, Claim: key, UID: "u1"},
		[]encryption.Input{{Kind: "Secret", Name: "ca"}}, []string{recipient}, 1)
	if err != nil {
		t.Fatal(err)
	}
	broken := key
	broken.Name = "broken"
	f.pushAll(map[string]string{key.InputsPath(): string(file), broken.InputsPath(): "not one"})
	f.follow()
	got := map[contract.Key][]string{}
	for key, in := range f.allInputs() {
		got[key] = in.Objects
	}
	if want := map[contract.Key][]string{key: {"Secret ca"}}; !cmp.Equal(want, got) {
		t.Errorf("they are %v, want %v", got, want)
	}
}

// A claim may need what it refers to when it is applied. What was granted takes a moment to
// reach the API server, and trouble passes; where neither does, claims do not wait.
func TestAClaimWaitsForWhatItRefersTo(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	for name, c := range map[string]struct {
		err    error
		passes bool
		words  string
	}{
		"a right that is coming": {err: forbidden, passes: true},
		"no right":               {err: forbidden, words: v1alpha1.ClaimInputs},
		"trouble that passes":    {err: apierrors.NewInternalError(errors.New("etcd")), passes: true},
		"trouble that lasts":     {err: apierrors.NewInternalError(errors.New("etcd"))},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			key, _ := contract.ParsePath(f.path)
			objects := f.takesInputs("u1", encryption.Input{Kind: "Secret", Name: "ca"})
			objects.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return !f.allowed, nil, c.err })
			f.allowed = false
			answer, _, wait := f.step()
			if f.live != nil || answer != nil || wait == 0 {
				t.Errorf("first the claim is %v, answered %+v, and looked at again after %s", f.live, answer, wait)
			}
			f.allowed = c.passes
			tries := 1
			for ; f.live == nil && tries <= inputsTries; tries++ {
				f.now = f.now.Add(wait)
				answer, _, wait = f.step()
			}
			if answer == nil || answer.Result != contract.Applied {
				t.Fatalf("after %d tries it is answered %+v", tries, answer)
			}
			if secrets, err := objects.Tracker().List(corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithKind("Secret"), f.Session.Cluster.ClaimNamespace(key.Namespace)); err != nil || c.passes != (meta.LenList(secrets) == 1) {
				t.Errorf("the Secrets are %v (%v)", secrets, err)
			}
			if in := answer.Inputs; c.words != "" && (in == nil || !strings.Contains(in.Refused[contract.AllInputs], c.words)) {
				t.Errorf("its inputs are %+v", in)
			}
		})
	}
}

// takesInputs has the claim come with these, for which a control plane is returned.
func (f *fixture) takesInputs(uid string, in ...encryption.Input) *dynamicfake.FakeDynamicClient {
	f.Helper()
	signer, errSigner := encryption.NewSigner(encryption.GenerateSeed())
	text, recipient, errIdentity := encryption.GenerateIdentity()
	ids, errParse := encryption.ParseIdentities([]byte(text))
	key, errKey := contract.ParsePath(f.path)
	file, errSeal := signer.SealInputs(encryption.Binding{Cluster: f.Session.Cluster.ID, Claim: key, UID: uid}, in, []string{recipient}, 1)
	if err := errors.Join(errSigner, errIdentity, errParse, errKey, errSeal); err != nil {
		f.Fatal(err)
	}
	for _, o := range in {
		f.offered = append(f.offered, v1alpha1.PermissionClaim{Direction: v1alpha1.DirectionUp, Name: o.Name})
	}
	objects := dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme)
	fakeapi.Mend(objects)
	f.Inputs = inputs.Options{Tenant: objects, Opener: func(context.Context) (*encryption.Opener, error) {
		return &encryption.Opener{Cluster: f.Session.Cluster.ID, Keys: []string{signer.Public()}, Identities: ids}, nil
	}}
	f.beginInputs()
	f.pushAsKonnector(uid, map[string]string{f.path: good, key.InputsPath(): string(file)})
	f.follow()
	return objects
}

// A ClusterRole that is older than the bridge gives no right to list.
func TestInputsThatMayNotBeListedAreToldAndLookedForAgain(t *testing.T) {
	f := start(t)
	var lines []string
	f.Log = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "secrets"}: "SecretList", {Version: "v1", Resource: "configmaps"}: "ConfigMapList"})
	objects.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	})
	f.Inputs.Tenant = objects
	f.beginInputs()
	s := &step{api: exportedapi.API{PermissionClaims: []v1alpha1.PermissionClaim{{Direction: v1alpha1.DirectionUp, Name: "ca"}}}}
	s.IsClaim, s.Access = true, decision.Granted
	s.Key = contract.Key{Binding: binding, Namespace: "team-a", Name: "orders"}
	gone := func() *contract.Inputs {
		t.Helper()
		answer := &contract.Status{Result: contract.Gone, UID: "u1"}
		if err := f.addInputs(t.Context(), s, answer); err != nil {
			t.Fatal(err)
		}
		s.Present = answer
		return answer.Inputs
	}
	for range 2 {
		if in := gone(); in == nil || !strings.Contains(in.Refused[contract.AllInputs], v1alpha1.ClaimInputs) {
			t.Errorf("the answer is %+v", in)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], v1alpha1.ClaimInputs) {
		t.Errorf("it logs %q", lines)
	}
	objects.ReactionChain = objects.ReactionChain[1:]
	f.beginInputs() // a start
	if in := gone(); in == nil || len(in.Refused) > 0 {
		t.Errorf("the answer is %+v", in)
	}
	objects.ClearActions()
	if gone(); len(objects.Actions()) > 0 {
		t.Error("it is looked at once more")
	}
}
