package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/test/fakeapi"
)

const cluster, password = "k3x9", "geheim-4711"

var (
	key   = contract.Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}
	claim = Claim{Key: key, APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", UID: "u1", AnsweredUID: "u1"}
)

// world is a bridge that seals, an app cluster's key, and its Secrets.
type world struct {
	*testing.T
	signer     *encryption.Signer
	opener     *encryption.Opener
	recipients []string
	client     client.Client
}

func newWorld(t *testing.T, intercept interceptor.Funcs, there ...*corev1.Secret) *world {
	t.Helper()
	signer, err := encryption.NewSigner(encryption.GenerateSeed())
	if err != nil {
		t.Fatal(err)
	}
	text, recipient, err := encryption.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	ids, err := encryption.ParseIdentities([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b := fakeapi.Builder()
	for _, s := range there {
		if s != nil {
			b = b.WithObjects(s)
		}
	}
	return &world{
		T: t, signer: signer, recipients: []string{recipient}, client: fakeapi.New(b, intercept),
		opener: &encryption.Opener{Cluster: cluster, Keys: []string{signer.Public()}, Identities: ids},
	}
}

func (w *world) seal(name, uid string, secret encryption.Secret, sequence int64) []byte {
	w.Helper()
	if secret.Name == "" {
		secret.Name = "orders-creds"
	}
	of := key
	of.Name = name
	file, err := w.signer.Seal(encryption.Binding{Cluster: cluster, Claim: of, UID: uid}, secret, w.recipients, sequence)
	if err != nil {
		w.Fatal(err)
	}
	return file
}

func (w *world) deliver(c Claim, file []byte, known bool) (int64, error) {
	w.Helper()
	return Deliverer{Client: w.client, FieldOwner: "konnector"}.Deliver(w.Context(), c, Secret{Name: "orders-creds", Sequence: sequenceOf(file), File: file, Known: known}, w.opener)
}

// sequenceOf is what a file says, as the bridge lists it.
func sequenceOf(file []byte) int64 {
	body, _, _ := contract.CutSignature(file)
	e, err := contract.DecodeEncryptedSecret(body)
	if err != nil {
		return 0
	}
	return e.Sequence
}

// get is the Secret as it is, nil for none.
func (w *world) get() *corev1.Secret {
	w.Helper()
	s := &corev1.Secret{}
	err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "team-a", Name: "orders-creds"}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func data(password string) encryption.Secret {
	return encryption.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"username": []byte("u"), "password": []byte(password)}}
}

// someones is a Secret that is there, with the value "old".
func someones(change func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "orders-creds", UID: "s1", Labels: map[string]string{"kept": "yes"}, Annotations: map[string]string{}},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("old")},
	}
	if change != nil {
		change(s)
	}
	return s
}

// delivered is one that was delivered for an object, as version 5.
func delivered(uid types.UID, change func(*corev1.Secret)) *corev1.Secret {
	return someones(func(s *corev1.Secret) {
		s.Labels["app.kubernetes.io/managed-by"] = "gitbind-konnector"
		s.Annotations["gitbind.dev/sequence"] = "5"
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: claim.APIVersion, Kind: claim.Kind, Name: key.Name, UID: uid, Controller: new(true)}}
		if change != nil {
			change(s)
		}
	})
}

func adopt(name string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Annotations["gitbind.dev/adopt"] = name }
}

func controlled(kind, name string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: "x", Controller: new(true)}}
	}
}

// What becomes of a Secret of version 7, by what is there.
func TestF8_WhatIsThereIsOverwrittenOnlyIfItIsTheClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		there *corev1.Secret
		// reason is of the trouble, "" for none.
		reason string
		says   string
	}{
		"nothing":                            {nil, "", ""},
		"somebody's":                         {someones(nil), SecretExists, "kubectl annotate secret -n team-a orders-creds gitbind.dev/adopt=orders"},
		"somebody's with our label":          {someones(func(s *corev1.Secret) { s.Labels["app.kubernetes.io/managed-by"] = "gitbind-konnector" }), SecretExists, ""},
		"handed over":                        {someones(adopt("orders")), "", ""},
		"handed over to another claim":       {someones(adopt("billing")), SecretExists, ""},
		"controlled by another":              {someones(controlled("Certificate", "tls")), SecretExists, "controlled by Certificate tls"},
		"controlled by another, handed over": {someones(func(s *corev1.Secret) { controlled("Certificate", "tls")(s); adopt("orders")(s) }), SecretExists, ""},
		"another claim's":                    {delivered("u9", func(s *corev1.Secret) { s.OwnerReferences[0].Name = "billing" }), SecretExists, "PostgresqlInstance billing"},
		"another API's":                      {delivered("u9", func(s *corev1.Secret) { s.OwnerReferences[0].APIVersion = "example.org/v1" }), SecretExists, ""},
		"ours":                               {delivered("u1", nil), "", ""},
		"ours of an earlier life":            {delivered("u0", nil), "", ""},
		"ours of an earlier life, newer":     {delivered("u0", func(s *corev1.Secret) { s.Annotations["gitbind.dev/sequence"] = "9" }), "", ""},
		"ours of another type":               {delivered("u1", func(s *corev1.Secret) { s.Type = corev1.SecretTypeBasicAuth }), "", ""},
		"ours and immutable":                 {delivered("u1", func(s *corev1.Secret) { s.Immutable = new(true) }), "", ""},
		"ours and newer":                     {delivered("u1", func(s *corev1.Secret) { s.Annotations["gitbind.dev/sequence"] = "8" }), Replayed, "kubectl delete secret -n team-a orders-creds"},
		"ours and being deleted": {delivered("u1", func(s *corev1.Secret) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.org/wait"}
		}), Terminating, ""},
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known %t", name, known), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, interceptor.Funcs{}, c.there)
				before := w.get()
				sequence, err := w.deliver(claim, w.seal("orders", "u1", data(password), 7), known)
				got := w.get()
				if c.reason != "" {
					checkTrouble(t, err, c.reason, c.says)
					// Nothing else tells that a person has done something about it.
					if trouble := (*Trouble)(nil); errors.As(err, &trouble) && !trouble.Retry {
						t.Error("it is not tried again")
					}
					if diff := cmp.Diff(before, got); diff != "" {
						t.Errorf("it was changed: %s", diff)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if sequence != 7 || string(got.Data["password"]) != password || got.Type != corev1.SecretTypeOpaque || got.Annotations["gitbind.dev/sequence"] != "7" {
					t.Errorf("version %d is %s, %s, %v", sequence, got.Data, got.Type, got.Annotations)
				}
				owner := metav1.GetControllerOf(got)
				if owner == nil || owner.UID != "u1" || owner.Name != "orders" || owner.BlockOwnerDeletion != nil || len(got.OwnerReferences) != 1 {
					t.Errorf("owners are %v", got.OwnerReferences)
				}
				if got.Annotations["gitbind.dev/adopt"] != "" || got.Labels["app.kubernetes.io/managed-by"] != "gitbind-konnector" {
					t.Errorf("it is marked with %v, %v", got.Labels, got.Annotations)
				}
			})
		}
	}
}

func checkTrouble(t *testing.T, err error, reason, says string) {
	t.Helper()
	var trouble *Trouble
	if !errors.As(err, &trouble) || trouble.Reason != reason || !strings.Contains(trouble.Message, says) {
		t.Errorf("error is %v: want %s %q", err, reason, says)
	}
	if err != nil && strings.Contains(err.Error(), password) {
		t.Errorf("the error repeats the value: %v", err)
	}
}

// Otherwise a control plane would choose the keys of a Connection that is made later.
func TestF7_NothingIsDeliveredToASystemNamespace(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{v1alpha1.SystemNamespace, "kube-system"} {
		w := newWorld(t, interceptor.Funcs{})
		c := claim
		c.Key.Namespace = namespace
		file, err := w.signer.Seal(encryption.Binding{Cluster: cluster, Claim: c.Key, UID: "u1"}, encryption.Secret{Name: "orders-creds"}, w.recipients, 7)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.deliver(c, file, false)
		checkTrouble(t, err, SystemNamespace, namespace)
		var all corev1.SecretList
		if err := w.client.List(t.Context(), &all); err != nil || len(all.Items) > 0 {
			t.Errorf("%d Secrets are in %s, %v", len(all.Items), namespace, err)
		}
	}
}

// Swapped, foreign, invented: nothing is written, and it is said why.
func TestF7_WhatIsNotForThisClaimIsNotDelivered(t *testing.T) {
	t.Parallel()
	reborn, unknown := claim, claim
	reborn.AnsweredUID, unknown.AnsweredUID = "u0", ""
	typed := func(of corev1.SecretType) encryption.Secret {
		s := data(password)
		s.Type = of
		return s
	}
	other := data(password)
	other.Name = "billing-creds"
	for name, c := range map[string]struct {
		claim  Claim
		file   func(w *world) []byte
		reason string
	}{
		"for this object":                      {claim, func(w *world) []byte { return w.seal("orders", "u1", data(password), 7) }, ""},
		"before the object was known":          {claim, func(w *world) []byte { return w.seal("orders", "", data(password), 7) }, ""},
		"for the object that was here before":  {claim, func(w *world) []byte { return w.seal("orders", "u0", data(password), 7) }, NotForThisClaim},
		"for the object before a rebuild":      {reborn, func(w *world) []byte { return w.seal("orders", "u0", data(password), 7) }, ""},
		"for this one, and the answer is not":  {reborn, func(w *world) []byte { return w.seal("orders", "u1", data(password), 7) }, NotForThisClaim},
		"for no object, and the answer is":     {reborn, func(w *world) []byte { return w.seal("orders", "", data(password), 7) }, NotForThisClaim},
		"for no object, as the answer":         {unknown, func(w *world) []byte { return w.seal("orders", "", data(password), 7) }, ""},
		"for an object, and the answer is not": {unknown, func(w *world) []byte { return w.seal("orders", "u1", data(password), 7) }, NotForThisClaim},
		"for another claim":                    {claim, func(w *world) []byte { return w.seal("billing", "u1", data(password), 7) }, NotForThisClaim},
		"with another's name":                  {claim, func(w *world) []byte { return w.seal("orders", "u1", other, 7) }, Refused},
		"that is cut":                          {claim, func(w *world) []byte { return w.seal("orders", "u1", data(password), 7)[:99] }, NotSigned},
		"that is altered": {claim, func(w *world) []byte {
			return bytes.Replace(w.seal("orders", "u1", data(password), 7), []byte("sequence: 7"), []byte("sequence: 8"), 1)
		}, NotSigned},
		"of another bridge": {claim, func(w *world) []byte {
			return newWorld(w.T, interceptor.Funcs{}).seal("orders", "u1", data(password), 7)
		}, UnknownSigner},
		"to another key": {claim, func(w *world) []byte {
			w.recipients = newWorld(w.T, interceptor.Funcs{}).recipients
			return w.seal("orders", "u1", data(password), 7)
		}, NoKey},
		"without a key here":    {claim, func(w *world) []byte { file := w.seal("orders", "u1", data(password), 7); w.opener = nil; return file }, NoKey},
		"of a ServiceAccount":   {claim, func(w *world) []byte { return w.seal("orders", "u1", typed("kubernetes.io/service-account-token"), 7) }, Refused},
		"that lets nodes in":    {claim, func(w *world) []byte { return w.seal("orders", "u1", typed("bootstrap.kubernetes.io/token"), 7) }, Refused},
		"of Crossplane's type":  {claim, func(w *world) []byte { return w.seal("orders", "u1", typed("connection.crossplane.io/v1alpha1"), 7) }, ""},
		"larger than all files": {claim, func(*world) []byte { return make([]byte, contract.MaxFileSize+1) }, TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, nil)
			_, err := w.deliver(c.claim, c.file(w), false)
			if got := w.get(); (got != nil) != (c.reason == "") {
				t.Errorf("there is %v", got)
			}
			if c.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			checkTrouble(t, err, c.reason, "orders-creds")
		})
	}
}

func TestF4_ARotatedValueFollowsAndAnEditedOneIsSetBack(t *testing.T) {
	t.Parallel()
	writes := 0
	w := newWorld(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if data, err := patch.Data(o); err != nil || string(data) != "{}" {
			writes++
		}
		return c.Patch(ctx, o, patch, opts...)
	}}, nil)
	deliver := func(password string, sequence int64) {
		t.Helper()
		if _, err := w.deliver(claim, w.seal("orders", "u1", data(password), sequence), true); err != nil {
			t.Fatal(err)
		}
		if got := string(w.get().Data["password"]); got != password {
			t.Errorf("it is %s: want %s", got, password)
		}
	}
	deliver("first", 7)
	deliver("first", 7)
	if writes != 0 {
		t.Errorf("%d writes change nothing", writes)
	}
	deliver("second", 8)
	edited := w.get()
	edited.Data = map[string][]byte{"password": []byte("mine"), "more": nil}
	edited.Labels["app.kubernetes.io/part-of"] = "shop"
	if err := w.client.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	deliver("second", 8)
	got := w.get()
	if _, more := got.Data["more"]; more || got.Labels["app.kubernetes.io/part-of"] != "shop" {
		t.Errorf("it has %v, %v", slices.Collect(maps.Keys(got.Data)), got.Labels)
	}
	if _, err := w.deliver(claim, w.seal("orders", "u1", data("first"), 7), true); err == nil || string(w.get().Data["password"]) != "second" {
		t.Errorf("an older version was taken: %v", err)
	}
	if err := w.client.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	deliver("first", 7)
}

// Somebody may take a Secret for their own between the look and the write.
func TestF8_WhatBecomesSomeonesMeanwhileStays(t *testing.T) {
	t.Parallel()
	taken := false
	w := newWorld(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if data, err := patch.Data(o); err == nil && string(data) != "{}" && !taken {
			taken = true
			s := &corev1.Secret{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), s); err != nil {
				return err
			}
			controlled("Certificate", "theirs")(s)
			s.Data = map[string][]byte{"password": []byte("theirs")}
			if err := c.Update(ctx, s); err != nil {
				return err
			}
		}
		return c.Patch(ctx, o, patch, opts...)
	}}, delivered("u1", nil))
	_, err := w.deliver(claim, w.seal("orders", "u1", data("new"), 7), true)
	checkTrouble(t, err, SecretExists, "orders-creds")
	if got := w.get(); !taken || string(got.Data["password"]) != "theirs" || got.OwnerReferences[0].Name != "theirs" {
		t.Errorf("it is %s, of %+v", got.Data["password"], got.OwnerReferences)
	}
}

func TestOnlyWhatWasDeliveredIsRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		there *corev1.Secret
		goes  bool
	}{
		"nothing":                 {nil, true},
		"ours":                    {delivered("u1", nil), true},
		"ours of an earlier life": {delivered("u0", nil), true},
		"somebody's":              {someones(nil), false},
		"handed over":             {someones(adopt("orders")), false},
		"another claim's":         {delivered("u9", func(s *corev1.Secret) { s.OwnerReferences[0].Name = "billing" }), false},
	} {
		w := newWorld(t, interceptor.Funcs{}, c.there)
		if err := (Deliverer{Client: w.client}).Remove(t.Context(), claim, "orders-creds"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if gone := w.get() == nil; gone != c.goes {
			t.Errorf("%s: gone is %t", name, gone)
		}
	}
}

// What the API server says no to is told, and no value with it.
func TestWhatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "secrets"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "orders-creds", field.ErrorList{field.Invalid(field.NewPath("data").Key("tls.crt"), password, "it is "+password)})
	for name, c := range map[string]struct {
		create, read error
		reason, says string
	}{
		"no right":            {apierrors.NewForbidden(resource, "orders-creds", errors.New("no")), nil, Forbidden, "kubectl gitbind connect"},
		"no right to read":    {apierrors.NewAlreadyExists(resource, "orders-creds"), apierrors.NewForbidden(resource, "orders-creds", errors.New("no")), Forbidden, ""},
		"the policy":          {apierrors.NewAlreadyExists(resource, "orders-creds"), fakeapi.PolicyDenies(resource, "orders-creds", "gitbind-konnector-secrets", "it is "+password), SecretExists, ""},
		"somebody's policy":   {apierrors.NewAlreadyExists(resource, "orders-creds"), fakeapi.PolicyDenies(resource, "orders-creds", "freeze", "it is "+password), Refused, ""},
		"a value":             {invalid, nil, Refused, "data[tls.crt]"},
		"a namespace's end":   {fakeapi.NamespaceEnds(resource, "orders-creds", "team-a"), nil, Terminating, ""},
		"it is out of order":  {fakeapi.WebhookFails("x.example.org", password), nil, Failed, ""},
		"it cannot right now": {apierrors.NewServiceUnavailable("later"), nil, Failed, "503"},
		"a webhook's own no":  {webhookerrors.ToStatusErr("x", &metav1.Status{Code: http.StatusNotAcceptable, Message: password}), nil, Failed, "406"},
		"it keeps changing":   {apierrors.NewAlreadyExists(resource, "orders-creds"), apierrors.NewNotFound(resource, "orders-creds"), Failed, "keeps changing"},
	} {
		w := newWorld(t, interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return c.create },
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return c.read
			},
		}, nil)
		_, err := w.deliver(claim, w.seal("orders", "u1", data(password), 7), false)
		t.Log(name)
		checkTrouble(t, err, c.reason, c.says)
		if name == "somebody's policy" {
			// It is still there, and to be taken away when that passes.
			checkTrouble(t, (Deliverer{Client: w.client}).Remove(t.Context(), claim, "orders-creds"), c.reason, c.says)
		}
	}
}
