package review

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

const postgresql = "postgresqlinstances.anynines.com"

// quotaWorld has an offer with a quota of two claims for a namespace, and of 6 by weight, of
// which so much is used; nil for an unknown part.
func quotaWorld(t *testing.T, usage *v1alpha1.QuotaUsage) (*world, []client.Object) {
	t.Helper()
	export, err := os.ReadFile("../../../gitbridge/internal/export/testdata/postgresqlinstances.export.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	w.files, w.change.Files = map[string][]byte{contract.ExportPath(postgresql): export}, nil
	return w, []client.Object{
		&v1alpha1.APIServiceExportTemplate{ObjectMeta: metav1.ObjectMeta{Name: "offer"}, Spec: v1alpha1.APIServiceExportTemplateSpec{Quota: twoAndSix()}},
		&v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(cluster), Name: postgresql}, Status: v1alpha1.APIServiceExportStatus{Quota: usage}},
	}
}

func twoAndSix() *v1alpha1.Quota {
	return &v1alpha1.Quota{
		Namespace: &v1alpha1.QuotaLimit{Claims: new(int64(2))}, Cluster: &v1alpha1.QuotaLimit{Weight: new(int64(6))},
		Weights: &v1alpha1.QuotaWeights{Field: "spec.plan", Values: map[string]int64{"postgresql-single-small": 4}},
	}
}

func used(claims, weight int64) *v1alpha1.QuotaUsage {
	return &v1alpha1.QuotaUsage{QuotaHash: twoAndSix().Hash(), Claims: claims, Weight: weight, Namespaces: []v1alpha1.NamespaceUsage{{Name: "team-a", Claims: claims, Weight: weight}}}
}

// becomes adds to the change a claim of team-a that has one plan and gets another, "" for no
// file, and gives its path.
func (w *world) becomes(name, was, is string) string {
	key := contract.Key{Binding: postgresql, Namespace: "team-a", Name: name}
	f := githost.FileChange{Path: key.Path()}
	manifest := func(plan string) (blob string, data []byte) {
		if plan == "" {
			return "", nil
		}
		return plan, []byte("apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata: {name: " + name + ", namespace: team-a}\nspec: {service: a9s-postgresql13, plan: postgresql-single-" + plan + "}\n")
	}
	f.Before, f.Was = manifest(was)
	f.After, f.Is = manifest(is)
	w.change.Files = append(w.change.Files, f)
	return f.Path
}

// answers has the bridge have answered a claim's file, as it was before the change.
func (w *world) answers(t *testing.T, path string, result contract.Result, object string) {
	t.Helper()
	blob := w.change.Files[slices.IndexFunc(w.change.Files, func(f githost.FileChange) bool { return f.Path == path })].Before
	data, err := contract.EncodeStatus(&contract.Status{Answers: contract.Answers{Blob: blob, Commit: seenHead}, Result: result, Object: object})
	if err != nil {
		t.Fatal(err)
	}
	w.files[path] = data
}

func TestThatAQuotaHasNoRoomIsSeenBeforeTheMerge(t *testing.T) {
	usedBefore := used(2, 2)
	usedBefore.QuotaHash = "of before"
	for name, c := range map[string]struct {
		usage *v1alpha1.QuotaUsage
		do    func(w *world)
		waits string // words of who waits, by name, "" for nobody
	}{
		"there is room":                   {used(1, 1), func(w *world) { w.becomes("new", "", "nano") }, ""},
		"there is none":                   {used(2, 2), func(w *world) { w.becomes("new", "", "nano") }, "new: namespace team-a has 2 claims of this API, and may have 2"},
		"it is not known":                 {nil, func(w *world) { w.becomes("new", "", "nano") }, ""},
		"it was counted by another quota": {usedBefore, func(w *world) { w.becomes("new", "", "nano") }, ""},
		"one of two":                      {used(1, 1), func(w *world) { w.becomes("a", "", "nano"); w.becomes("b", "", "nano") }, "b: with the rest of this change, namespace team-a has 2 claims"},
		"another is refused":              {used(1, 1), func(w *world) { w.becomes("a", "", "huge"); w.becomes("b", "", "nano") }, ""},
		"a larger plan":                   {used(2, 5), func(w *world) { w.becomes("a", "nano", "small") }, "a: this cluster has 5 of 6 by weight, and this claim weighs 4"},
		"a smaller plan":                  {used(2, 8), func(w *world) { w.becomes("a", "small", "nano") }, ""},
		"another goes":                    {used(2, 5), func(w *world) { w.becomes("a", "nano", "small"); w.becomes("b", "small", "") }, ""},
		"the same is ordered again, so that the removal is held": {used(2, 2), func(w *world) { w.becomes("old", "nano", ""); w.becomes("new", "", "nano") }, "new: namespace team-a has 2"},
		"it has a service, since its removal was held":           {used(2, 2), func(w *world) { w.answers(t, w.becomes("back", "", "nano"), contract.Held, "x/back") }, ""},
		"it has none, since it was refused": {used(2, 2), func(w *world) {
			w.answers(t, w.becomes("a", "nano", "small"), contract.Denied, "")
		}, "a: namespace team-a has 2"},
		"it was refused, so that it gives back nothing that is known": {used(1, 6), func(w *world) {
			w.answers(t, w.becomes("a", "small", "nano"), contract.Denied, "x/a")
			w.becomes("b", "", "nano")
		}, "b: this cluster has 6 of 6 by weight"},
		"it was applied, and gives back": {used(1, 6), func(w *world) {
			w.answers(t, w.becomes("a", "small", "nano"), contract.Applied, "x/a")
			w.becomes("b", "", "nano")
		}, ""},
		"it is lost, and stays so": {used(2, 6), func(w *world) {
			w.answers(t, w.becomes("a", "nano", "small"), contract.Lost, "x/a")
		}, ""},
		"one that is lost gives back nothing": {used(2, 6), func(w *world) {
			w.answers(t, w.becomes("a", "small", ""), contract.Lost, "x/a")
			w.becomes("b", "nano", "small")
		}, "b: this cluster has 6 of 6 by weight"},
		"its answer cannot be read": {used(2, 5), func(w *world) { w.files[w.becomes("a", "nano", "small")] = []byte("{") }, "a: this cluster has 5 of 6"},
		"one that nobody could read is mended": {used(2, 2), func(w *world) {
			w.answers(t, w.becomes("a", "nano", "nano"), contract.Invalid, "x/a")
			w.change.Files[0].Was = []byte("{")
		}, ""},
	} {
		w, objects := quotaWorld(t, c.usage)
		c.do(w)
		got, err := w.service(t, nil, objects...).Change(t.Context(), login.Identity{Username: "alice"}, cluster, "changes/x")
		if err != nil {
			t.Fatal(err)
		}
		if w.reads > 2 {
			t.Errorf("%s: Git was read %d times, and not once for the API and once for all answers", name, w.reads)
		}
		all := ""
		for _, f := range got.Files {
			if f.Waits != "" {
				all += f.Name + ": " + f.Waits
			}
		}
		if (all == "") != (c.waits == "") || !strings.HasPrefix(all, c.waits) {
			t.Errorf("%s: %q, want %q", name, all, c.waits)
		}
		if !got.MayApprove {
			t.Errorf("%s: it may not be approved: %s", name, got.Blocked)
		}
	}
}

// What a claim weighs after a transform is not known, nor for what others wait then: nothing is
// said but of numbers.
func TestATransformLeavesOnlyNumbersToSayBeforeTheMerge(t *testing.T) {
	waiting := used(1, 6)
	waiting.Waiting = []v1alpha1.WaitingClaim{{Namespace: "team-a", Name: "w", Weight: 1}}
	for name, c := range map[string]struct {
		usage *v1alpha1.QuotaUsage
		waits bool
	}{
		"no room by weight":                          {used(1, 6), false},
		"no room by number":                          {used(2, 2), true},
		"room by number, and others wait for weight": {waiting, false},
	} {
		w, objects := quotaWorld(t, c.usage)
		objects[0].(*v1alpha1.APIServiceExportTemplate).Spec.Transform = &v1alpha1.Transform{}
		w.becomes("new", "", "nano")
		got, err := w.service(t, nil, objects...).Change(t.Context(), login.Identity{Username: "alice"}, cluster, "changes/x")
		if err != nil || (got.Files[0].Waits != "") != c.waits {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A change that is reviewed elsewhere is looked at again when there is room: main does not
// move for that.
func TestWhatWaitsIsShownElsewhereUntilThereIsRoom(t *testing.T) {
	w, objects := quotaWorld(t, used(2, 2))
	w.becomes("new", "", "nano")
	host, service := &shown{}, w.service(t, nil, objects...)
	c := NewChecks(service, host, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })

	c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/" + w.change.Branch})
	got := host.await(t, 1)
	if !got.OK || got.Words != "It orders 1 service, but team-a/new would wait: namespace team-a has 2 claims of this API, and may have 2. Delete one, or ask the platform's operator for more" {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Text, "new&#46;yaml</code> would wait: <code>namespace team&#45;a has 2 claims") {
		t.Errorf("a reviewer is told\n%s", got.Text)
	}
	export := objects[1].(*v1alpha1.APIServiceExport)
	control := service.Control.(client.Client)
	if err := control.Get(ctx, client.ObjectKeyFromObject(export), export); err != nil {
		t.Fatal(err)
	}
	export.Status.Quota = used(1, 1)
	if err := control.Status().Update(ctx, export); err != nil {
		t.Fatal(err)
	}
	c.Counted(cluster, postgresql)
	if got := host.await(t, 2); got.Words != "It orders 1 service" {
		t.Errorf("%+v", got)
	}
}

// Usage becomes another one every few seconds where much comes and goes, and to look at all
// changes of a cluster is work.
func TestAnotherUsageCostsLittle(t *testing.T) {
	w, objects := quotaWorld(t, used(2, 2))
	w.becomes("new", "", "nano")
	name, email := contract.Identity("dora", cluster)
	w.change.Commits = []githost.Commit{{Author: name, Email: email}}
	host, service := &shown{}, w.service(t, nil, objects...)
	now := time.Unix(1_800_000_000, 0)
	service.Now = func() time.Time { return now }
	c := NewChecks(service, host, func(string, restapi.RefEvent) {})
	look := func(moved bool, checks, listed int) {
		t.Helper()
		if err := c.check(t.Context(), cluster, aPass(moved)); err != nil || len(host.all) != checks || host.listed != listed {
			t.Fatalf("%d checks, and asked for pull requests %d times, want %d and %d: %v", len(host.all), host.listed, checks, listed, err)
		}
	}
	due := func(want time.Time) {
		t.Helper()
		if got := c.again[cluster]; !got.Equal(want) {
			t.Errorf("it is looked at again at %s, want %s", got, want)
		}
	}
	usage := func(claims int64) {
		t.Helper()
		export, control := &v1alpha1.APIServiceExport{}, service.Control.(client.Client)
		if err := control.Get(t.Context(), client.ObjectKeyFromObject(objects[1]), export); err != nil {
			t.Fatal(err)
		}
		export.Status.Quota = used(claims, claims)
		if err := control.Status().Update(t.Context(), export); err != nil {
			t.Fatal(err)
		}
	}
	c.Counted(cluster, postgresql)
	due(time.Time{}) // No change is known.
	w.judged = func() { c.Counted(cluster, "others.example.org") }
	look(true, 1, 1)
	due(time.Time{})
	w.judged = func() { c.Counted(cluster, postgresql) }
	look(true, 1, 2)
	w.judged = nil
	due(now)
	for range 3 {
		c.Counted(cluster, postgresql)
		due(now.Add(countedEvery))
	}
	now = now.Add(3 * countedEvery)
	c.Counted(cluster, postgresql)
	due(now)

	// Other numbers are no news, but where it moved.
	usage(3)
	look(false, 1, 2)
	look(true, 2, 3)
	usage(1)
	look(false, 3, 3)

	// It was told while the change was looked at for the first time.
	c = NewChecks(service, host, func(string, restapi.RefEvent) {})
	w.judged = func() { c.Counted(cluster, postgresql) }
	look(true, 4, 4)
	due(now)
}

// What waits may have a service now, which the bridge has counted already.
func TestAnAnswerHasWhatWaitsLookedAtAgain(t *testing.T) {
	for name, used := range map[string]*v1alpha1.QuotaUsage{"waits": used(2, 2), "there is room": used(1, 1)} {
		w, objects := quotaWorld(t, used)
		w.becomes("new", "", "nano")
		c := NewChecks(w.service(t, nil, objects...), &shown{}, nil)
		if err := c.check(t.Context(), cluster, aPass(true)); err != nil {
			t.Fatal(err)
		}
		c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/status"})
		if _, again := c.again[cluster]; again != (name == "waits") {
			t.Errorf("%s: it is looked at again: %v", name, again)
		}
	}
}
