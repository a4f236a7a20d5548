package unbind

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/test/fakeapi"
)

func bound(name, template string) v1alpha1.APIServiceBinding {
	return v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.APIServiceBindingSpec{Template: template}}
}

func TestFind(t *testing.T) {
	all := []v1alpha1.APIServiceBinding{bound("databases.example.com", "database"), bound("databases.example.org", "other"), bound("queues.example.com", "")}
	for name, want := range map[string]string{
		"databases.example.com": "databases.example.com", "database": "databases.example.com", "queues": "queues.example.com", "nothing": "", "databases": "error",
	} {
		b, err := find(all, name)
		got := ""
		switch {
		case err != nil:
			got = "error"
		case b != nil:
			got = b.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestNoClaimGoesWithoutADecision(t *testing.T) {
	for _, c := range []struct {
		claims  int
		policy  v1alpha1.DeletionPolicy
		refused bool
	}{
		{0, v1alpha1.DeletionRefuse, false},
		{1, v1alpha1.DeletionRefuse, true},
		{1, "", true},
		{1, "Something", true},
		{1, v1alpha1.DeletionOrphan, false},
		{1, v1alpha1.DeletionDelete, false},
	} {
		p := plan{name: "databases.example.com", policy: c.policy, claims: make([]string, c.claims)}
		if err := p.refused(); (err != nil) != c.refused {
			t.Errorf("%d claims, %q: %v", c.claims, c.policy, err)
		}
	}
}

func TestWhatGoesIsShownAndALongListIsCut(t *testing.T) {
	p := plan{name: "databases.example.com", policy: v1alpha1.DeletionDelete}
	for i := range 25 {
		p.claims = append(p.claims, fmt.Sprintf("team-a/db-%02d", i))
	}
	var out bytes.Buffer
	p.show(&out)
	for _, want := range []string{"25 claims go, and their SERVICES ARE DELETED", "    team-a/db-19\n", "    and 5 more\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// A file on main that comes to say Delete while a person is asked is written into the spec: what
// was shown, and agreed to, is that services stay. The konnector writes the status all the time.
func TestL2_OnlyWhatWasShownIsUnbound(t *testing.T) {
	t.Parallel()
	to := func(policy v1alpha1.DeletionPolicy) func(*testing.T, client.Client, *v1alpha1.APIServiceBinding) {
		return func(t *testing.T, c client.Client, b *v1alpha1.APIServiceBinding) {
			b.Spec.DeletionPolicy = policy
			if err := c.Update(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	status := func(t *testing.T, c client.Client, b *v1alpha1.APIServiceBinding) {
		b.Status.Kind = "Database"
		if err := c.Status().Update(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	again := func(t *testing.T, c client.Client, b *v1alpha1.APIServiceBinding) {
		if err := c.Delete(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		b.ResourceVersion = ""
		if err := c.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what      string
		shown     v1alpha1.DeletionPolicy
		claims    v1alpha1.DeletionPolicy
		meanwhile func(*testing.T, client.Client, *v1alpha1.APIServiceBinding)
		deleted   bool
	}{
		{"services stay, as the binding says", v1alpha1.DeletionOrphan, "", nil, true},
		{"services stay, as the person says", v1alpha1.DeletionRefuse, v1alpha1.DeletionOrphan, nil, true},
		{"the binding comes to say Delete", v1alpha1.DeletionOrphan, "", to(v1alpha1.DeletionDelete), false},
		{"the binding comes to say Delete where the person says what it said", v1alpha1.DeletionOrphan, v1alpha1.DeletionOrphan, to(v1alpha1.DeletionDelete), false},
		{"the binding comes to say Delete where the person says otherwise", v1alpha1.DeletionRefuse, v1alpha1.DeletionOrphan, to(v1alpha1.DeletionDelete), false},
		{"the status is written, as the binding says", v1alpha1.DeletionOrphan, "", status, true},
		{"the status is written, as the person says", v1alpha1.DeletionRefuse, v1alpha1.DeletionOrphan, status, true},
		{"it is another binding", v1alpha1.DeletionOrphan, "", again, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			api := fakeapi.New(fakeapi.Builder().WithStatusSubresource(&v1alpha1.APIServiceBinding{}))
			b := bound("databases.example.com", "database")
			b.Finalizers, b.Spec.DeletionPolicy = []string{v1alpha1.BindingFinalizer}, c.shown
			if c.what == "it is another binding" {
				b.Finalizers = nil
			}
			if err := api.Create(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			var in Input
			in.Cluster = &appcluster.Cluster{WithWatch: api}
			p := plan{name: b.Name, binding: b.DeepCopy(), policy: c.claims}
			if p.policy == "" {
				p.policy = c.shown
			}
			if c.meanwhile != nil {
				c.meanwhile(t, api, b.DeepCopy())
			}
			err := in.begin(t.Context(), p)
			if (err == nil) != c.deleted {
				t.Errorf("error: %v", err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(&b), &b); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			if deleted := !b.DeletionTimestamp.IsZero(); deleted != c.deleted {
				t.Errorf("deleted: %v", deleted)
			}
			if c.deleted && b.Spec.DeletionPolicy != p.policy {
				t.Errorf("it is deleted with %s", b.Spec.DeletionPolicy)
			}
		})
	}
}
