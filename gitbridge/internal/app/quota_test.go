package app_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// A quota lets in as many claims as there is room for, no matter which come at once,
// keeps what is there, and lets in those that wait when there is room: also after a restart.
func TestAQuotaBoundsWhatAClusterHas(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	hash := "" // of the present one
	quota := func(q *v1alpha1.Quota) {
		w.Helper()
		if hash = ""; q != nil {
			hash = q.Hash()
		}
		w.offers(api, func(s *v1alpha1.APIServiceExportTemplateSpec) { s.Quota = q })
	}
	two, three, five, six := new(int64(2)), new(int64(3)), new(int64(5)), new(int64(6))
	weights := &v1alpha1.QuotaWeights{Field: "spec.plan", Values: map[string]int64{"postgresql-single-big": 4}}
	quota(&v1alpha1.Quota{Namespace: &v1alpha1.QuotaLimit{Claims: two}})
	w.startBridge()
	t, other := w.tenant(api), w.tenant(api)
	files, all := map[string]string{}, []string{}
	for i := range 4 {
		p := path(api, "team-a", fmt.Sprint("db-", i))
		files[p], all = manifest(p, nano), append(all, p)
	}
	t.push("Order four at once", files)
	other.push("Order four at once", files)
	// in are those that were let in, and waits the others.
	var in, waits []string
	settle := func(want int) {
		w.Helper()
		t.eventually(fmt.Sprintf("%d are let in", want), func() error {
			in, waits = nil, nil
			for _, p := range all {
				switch s := t.answer(p); {
				case s != nil && s.Result == contract.Applied:
					in = append(in, p)
				case s != nil && s.Result == contract.Denied:
					waits = append(waits, p)
				}
			}
			if len(in) != want || len(in)+len(waits) != len(all) {
				return fmt.Errorf("%d are, and %d wait", len(in), len(waits))
			}
			return nil
		})
		for _, p := range waits {
			if t.object(p) != nil {
				w.Errorf("%s has an object", p)
			}
		}
	}
	usage := func(want *v1alpha1.QuotaUsage) {
		w.Helper()
		if want != nil {
			want.QuotaHash = hash
		}
		t.eventually("the usage is published", func() error { return differ(want, t.export(api).Status.Quota) })
	}
	settle(2)
	t.wantAnswer(waits[0], contract.Denied, "namespace team-a has 2 claims of this API, and may have 2")
	elsewhere := path(api, "team-b", "db")
	t.push("Elsewhere", map[string]string{elsewhere: manifest(elsewhere, nano)})
	t.wantAnswer(elsewhere, contract.Applied)
	t.eventually("the usage is published", func() error {
		got := t.export(api).Status.Quota
		if got == nil || len(got.Waiting) != 2 || got.Waiting[0].Namespace != "team-a" {
			return fmt.Errorf("%+v", got)
		}
		got.Waiting = nil
		want := &v1alpha1.QuotaUsage{QuotaHash: hash, Claims: 3, Weight: 3, Namespaces: []v1alpha1.NamespaceUsage{{Name: "team-a", Claims: 2, Weight: 2}, {Name: "team-b", Claims: 1, Weight: 1}}}
		return differ(want, got)
	})
	t.eventually("the export is in Git, without the usage", func() error {
		e, err := t.exported(api)
		if err == nil && e.Status.Quota != nil {
			err = fmt.Errorf("it has %+v", e.Status.Quota)
		}
		return err
	})

	test.Log("one goes, and one that waits comes, before and after a restart")
	gone := in[0]
	t.remove(gone)
	t.wantAnswer(gone, contract.Gone)
	all = without(all, gone)
	settle(2)
	t.restarted()
	kept := in[0]
	uid := t.object(kept).GetUID()
	t.remove(in[1])
	t.wantAnswer(in[1], contract.Gone)
	all = without(all, in[1])
	settle(2)
	late := path(api, "team-a", "late")
	t.push("One more", map[string]string{late: manifest(late, nano)})
	t.wantAnswer(late, contract.Denied, "may have 2")

	test.Log("a higher one lets in who waits, and weights bound what plans may be changed to")
	all = append(all, late)
	quota(&v1alpha1.Quota{Namespace: &v1alpha1.QuotaLimit{Claims: three, Weight: five}, Cluster: &v1alpha1.QuotaLimit{Weight: six}, Weights: weights})
	settle(3)
	t.push("A big one", map[string]string{kept: manifest(kept, bigPlan)})
	s := t.wantAnswer(kept, contract.Denied, "namespace team-a has 3 of 5 by weight, and this claim weighs 4")
	if s.Problem == nil || s.Problem.Line == 0 {
		w.Errorf("problem %+v", s.Problem)
	}
	t.wantObject(kept, "spec.plan", "postgresql-single-nano")
	raised, err := contract.ParsePath(kept)
	w.must(err)
	usage(&v1alpha1.QuotaUsage{
		Claims: 4, Weight: 4, Namespaces: []v1alpha1.NamespaceUsage{{Name: "team-a", Claims: 3, Weight: 3}, {Name: "team-b", Claims: 1, Weight: 1}},
		Waiting: []v1alpha1.WaitingClaim{{Namespace: "team-a", Name: raised.Name, Weight: 4, Has: new(int64(1))}},
	})
	t.approve(v1alpha1.ApproveRemovalsAnnotation, t.remove(late))
	t.wantAnswer(late, contract.Gone)
	t.wantAnswer(kept, contract.Applied)
	t.wantObject(kept, "spec.plan", "postgresql-single-big")
	t.restarted()
	usage(&v1alpha1.QuotaUsage{Claims: 3, Weight: 6, Namespaces: []v1alpha1.NamespaceUsage{{Name: "team-a", Claims: 2, Weight: 5}, {Name: "team-b", Claims: 1, Weight: 1}}})

	test.Log("a lower one takes nothing away, and what is there may be changed")
	quota(&v1alpha1.Quota{Cluster: &v1alpha1.QuotaLimit{Claims: new(int64(0)), Weight: new(int64(1))}, Weights: weights})
	again := path(api, "team-a", "again")
	t.push("One more", map[string]string{again: manifest(again, nano)})
	t.wantAnswer(again, contract.Denied, "this cluster has 3 claims of this API, and may have 0")
	t.push("Other settings", map[string]string{kept: strings.Replace(manifest(kept, bigPlan), "1GB", "2GB", 1)})
	t.wantObject(kept, "spec.parameters.sharedBuffers", "2GB")
	t.wantAnswer(kept, contract.Applied)
	if now := t.object(kept); now.GetUID() != uid {
		w.Error("the service was made again")
	}
	quota(nil)
	t.wantAnswer(again, contract.Applied)
	usage(nil)
}

func differ(want, got *v1alpha1.QuotaUsage) error {
	if d := cmp.Diff(want, got); d != "" {
		return errors.New(d)
	}
	return nil
}

func without(all []string, one string) (out []string) {
	for _, s := range all {
		if s != one {
			out = append(out, s)
		}
	}
	return out
}
