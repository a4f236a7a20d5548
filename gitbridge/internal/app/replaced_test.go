package app_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// TestD6_BridgeRepositoryForcePushedEmptiedReplaced is the control plane's half.
func TestD6_BridgeRepositoryForcePushedEmptiedReplaced(t *testing.T) {
	w, postgresql := scenario(t)
	for _, test := range []struct {
		name string
		run  func(*tenant, []string, []string)
	}{
		{"force-pushed, and pushed back", forcedAndBack},
		{"force-pushed, and approved", forcedAndApproved},
		{"emptied, and put back", emptied},
		{"emptied, and meant", emptiedAndMeant},
		{"replaced by an empty repository", replacedEmpty},
		{"replaced by another history", replaced},
		{"with objects missing", damaged},
		{"removed with too many at once", removedTogether},
	} {
		t.Run(test.name, func(t *testing.T) {
			tn := w.with(t).tenant(postgresql)
			paths := tn.order(6)
			test.run(tn, paths, tn.uids(paths))
		})
	}
}

func forcedAndBack(t *tenant, paths, uids []string) {
	good := t.host.head(t.id, "main")
	begin := t.host.run(t.id, "rev-list", "--max-parents=0", "main")
	t.force(begin)
	t.wantSynced("MainRewritten")
	t.wantUntouched(paths, uids)
	t.bridge.stop()
	t.startBridge()
	t.wantSynced("MainRewritten")
	t.wantUntouched(paths, uids)
	t.force(good)
	t.wantAgreement()
	t.wantUntouched(paths, uids)
}

func forcedAndApproved(t *tenant, paths, uids []string) {
	begin := t.host.run(t.id, "rev-list", "--max-parents=0", "main")
	t.force(begin)
	t.wantSynced("MainRewritten")
	t.approve(v1alpha1.ApproveMainAnnotation, begin)
	for _, p := range paths {
		s := t.wantAnswer(p, contract.Held, "--removals "+begin)
		if s.Reason != contract.NotRemoved {
			t.Errorf("%+v", s)
		}
	}
	t.wantSynced("RemovalsHeld")
	t.wantUntouched(paths, uids)
	// Some are put back, the others are to go: that says a person, of just these.
	t.push("Put back", map[string]string{paths[0]: manifest(paths[0], plan(0)), paths[1]: manifest(paths[1], plan(1))})
	t.wantAnswer(paths[0], contract.Applied)
	t.wantAnswer(paths[1], contract.Applied)
	t.approve(v1alpha1.ApproveRemovalsAnnotation, t.host.head(t.id, "main"))
	t.wantObserved()
	t.wantUntouched(paths, uids)
	t.approve(v1alpha1.ApproveRemovalsAnnotation, begin)
	for _, p := range paths[2:] {
		t.wantAnswer(p, contract.Gone)
	}
	t.wantUntouched(paths[:2], uids[:2])
	t.wantAgreement()
	// An approval counts once: not again when main is set back once more.
	t.eventually("the approvals are used up", func() error {
		a := t.clusterBinding().Annotations
		return is(a[v1alpha1.ApproveMainAnnotation]+a[v1alpha1.ApproveRemovalsAnnotation], "")
	})
	good := t.host.head(t.id, "main")
	t.force(begin)
	t.wantSynced("MainRewritten")
	t.force(good)
	t.wantAgreement()
}

func emptied(t *tenant, paths, uids []string) {
	all := append([]string{"README.md"}, paths...)
	t.remove(all...)
	t.wantSynced("MainEmptied")
	t.wantUntouched(paths, uids)
	files := map[string]string{"README.md": "hello"}
	for i, p := range paths {
		files[p] = manifest(p, plan(i))
	}
	t.push("Put back", files)
	t.wantAgreement()
	t.wantUntouched(paths, uids)
}

func emptiedAndMeant(t *tenant, paths, uids []string) {
	head := t.remove(append([]string{"README.md"}, paths...)...)
	t.wantSynced("MainEmptied")
	t.approve(v1alpha1.ApproveRemovalsAnnotation, head)
	t.wantUntouched(paths, uids)
	t.approve(v1alpha1.ApproveMainAnnotation, head)
	for _, p := range paths {
		t.wantAnswer(p, contract.Gone)
	}
	t.wantObserved()
}

func replacedEmpty(t *tenant, paths, uids []string) {
	kept := t.host.dir(t.id) + ".kept"
	t.must(os.Rename(t.host.dir(t.id), kept))
	t.host.create(t.id, t.password)
	t.host.tell(t.id)
	t.host.Server.CloseClientConnections()
	t.wantSynced("MainMissing")
	t.wantUntouched(paths, uids)
	t.must(os.RemoveAll(t.host.dir(t.id)))
	t.must(os.Rename(kept, t.host.dir(t.id)))
	t.host.Server.CloseClientConnections()
	t.wantAgreement()
	t.wantUntouched(paths, uids)
}

func replaced(t *tenant, paths, uids []string) {
	t.must(os.RemoveAll(t.host.dir(t.id)))
	t.host.create(t.id, t.password)
	repository := t.host.open(t.id, t.password)
	t.main, t.status = repository.Branch("main"), repository.Branch("status")
	other := path(t.apis[0], "team-a", "other")
	head := t.push("Another repository", map[string]string{"README.md": "other", other: manifest(other, nano), paths[0]: manifest(paths[0], plan(0))})
	t.host.Server.CloseClientConnections()
	t.wantSynced("MainRewritten")
	t.wantUntouched(paths, uids)
	if t.object(other) != nil {
		t.Error("it was applied")
	}
	t.approve(v1alpha1.ApproveMainAnnotation, head)
	// Its status is another one too: what was applied is not known from there.
	t.wantAnswer(paths[0], contract.Applied)
	t.wantAnswer(other, contract.Applied)
	t.eventually("the API is published there, too", func() error { _, err := t.exported(t.apis[0]); return err })
	for _, p := range paths[1:] {
		t.wantAnswer(p, contract.Held, "nothing was deleted")
	}
	t.wantUntouched(paths, uids)
	files := map[string]string{}
	for i, p := range paths[1:] {
		files[p] = manifest(p, plan(i+1))
	}
	t.push("Put back", files)
	t.wantAgreement()
	t.wantUntouched(paths, uids)
}

// damaged takes main's newest tree away.
func damaged(t *tenant, paths, uids []string) {
	t.bridge.stop()
	t.push("Change", map[string]string{paths[0]: manifest(paths[0], small)})
	blob := t.host.run(t.id, "rev-parse", "main:"+paths[0])
	t.host.Explode(t.id)
	file := t.host.Loose(t.id, blob)
	kept, err := os.ReadFile(file)
	t.must(err)
	t.must(os.Remove(file))
	t.startBridge()
	t.eventually("it is said that main cannot be read", func() error {
		c := meta.FindStatusCondition(t.clusterBinding().Status.Conditions, v1alpha1.ConditionSynced)
		if c == nil || c.Status != "False" || strings.Contains(c.Message, "fatal") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	t.wantUntouched(paths, uids)
	t.must(os.WriteFile(file, kept, 0o444))
	t.wantObject(paths[0], "spec.plan", "postgresql-single-small")
	t.wantAgreement()
	t.wantUntouched(paths, uids)
}

func removedTogether(t *tenant, paths, uids []string) {
	head := t.remove(paths[:4]...)
	for _, p := range paths[:4] {
		t.wantAnswer(p, contract.Held, "together with 3 others", "--removals "+head)
	}
	t.wantSynced("RemovalsHeld")
	t.wantObserved()
	t.bridge.stop()
	t.startBridge()
	t.push("Meanwhile", map[string]string{paths[4]: manifest(paths[4], small)})
	t.wantObject(paths[4], "spec.plan", "postgresql-single-small")
	t.wantUntouched(paths, uids)
	t.push("Put one back", map[string]string{paths[0]: manifest(paths[0], plan(0))})
	t.wantAnswer(paths[0], contract.Applied)
	t.approve(v1alpha1.ApproveRemovalsAnnotation, t.host.head(t.id, "main"))
	for _, p := range paths[1:4] {
		t.wantAnswer(p, contract.Gone)
	}
	t.wantUntouched([]string{paths[0], paths[4], paths[5]}, []string{uids[0], uids[4], uids[5]})
	t.wantAgreement()
}
