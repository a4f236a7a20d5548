package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/policies/attribution"
)

// reviewed is a world in which changes are proposed, with reviewers who say what the test
// says. That the backend says so of its repositories is tested there.
type reviewed struct {
	*world
	*verdicts
}

// verdicts are by branch; of others it is open, unless main has the commit.
type verdicts struct {
	all    sync.Map
	merged func(commit string) bool
}

func withReviewers(w *world) *reviewed {
	r := &reviewed{w, &verdicts{merged: func(commit string) bool {
		return w.host.Command(clusterID, "merge-base", "--is-ancestor", commit, "main").Run() == nil
	}}}
	w.host.SetAPI(http.HandlerFunc(r.serve))
	return r
}

func (v *verdicts) serve(out http.ResponseWriter, r *http.Request) {
	branch, commit := r.URL.Query().Get("branch"), r.URL.Query().Get("commit")
	if r.URL.Path != "/v1/clusters/"+clusterID+"/proposal" || len(commit) != 40 {
		http.NotFound(out, r)
		return
	}
	p := restapi.Proposal{State: restapi.ProposalOpen}
	if v.merged(commit) {
		p.State = restapi.ProposalMerged
	}
	if said, ok := v.all.Load(branch); ok {
		p = said.(restapi.Proposal)
	}
	p.Page = "https://gitbind.example/" + branch
	_ = json.NewEncoder(out).Encode(p)
}

func (w *reviewed) say(branch string, p restapi.Proposal) {
	w.all.Store(branch, p)
	w.host.tell()
}

func (w *reviewed) branch(name string) string { return contract.ChangeBranch(w.key(name)) }

// proposed waits until the branch of a claim says what is looked for; with nil that it
// removes the file.
func (w *reviewed) proposed(name string, check func(map[string]any) error) {
	w.Helper()
	key, branch := w.key(name), w.branch(name)
	w.eventually("proposal of "+name, func() error {
		out, err := w.host.Command(clusterID, "show", branch+":"+key.Path()).CombinedOutput()
		switch {
		case w.host.Head(clusterID, branch) == "":
			return errorf("there is no branch %s", branch)
		case check == nil && err != nil:
			return nil
		case check == nil:
			return errorf("the file is still there")
		case err != nil:
			return errorf("%v: %s", err, out)
		}
		c, err := contract.Decode(contract.File{Path: key.Path(), Data: out}, w.kind.Kind)
		if err != nil {
			return err
		}
		return check(c.Spec)
	})
	// The page is known once the backend has answered.
	w.eventually("it says where to look at "+name, func() error {
		_, reason, message := condition(w.get(name), "AwaitingReview")
		if reason != "Proposed" || !strings.Contains(message, "https://gitbind.example/"+branch+", or kubectl gitbind review "+branch) {
			return errorf("it is %s: %s", reason, message)
		}
		return nil
	})
	if changed := w.git("diff", "--name-only", "main..."+branch); changed != key.Path() {
		w.Errorf("the branch changes %q", changed)
	}
}

// approve merges as a person who has looked at the change, and removes the branch, as the
// embedded host does.
func (w *reviewed) approve(name string) {
	w.Helper()
	branch := w.branch(name)
	w.move(func(main string) string { return w.merge(main, branch) })
	w.git("update-ref", "-d", "refs/heads/"+branch)
	w.host.tell()
}

func (w *reviewed) merge(main, branch string) string {
	w.Helper()
	tree := w.git("merge-tree", "--write-tree", main, branch)
	return w.git("commit-tree", tree, "-p", main, "-p", branch, "-m", "Merge "+branch)
}

// move sets main to what is made of it, beside others who do the same.
func (w *reviewed) move(next func(main string) string) {
	w.Helper()
	w.eventually("main moves", func() error {
		main := w.git("rev-parse", "main")
		if out, err := w.host.Command(clusterID, "update-ref", "refs/heads/main", next(main), main).CombinedOutput(); err != nil {
			return errorf("%v: %s", err, out)
		}
		return nil
	})
}

func (w *reviewed) noBranch(name string) {
	w.Helper()
	w.eventually("no branch of "+name, func() error {
		if head := w.host.Head(clusterID, w.branch(name)); head != "" {
			return errorf("it is at %s", head)
		}
		return nil
	})
}

// settled waits until an object is in step, and nothing of a proposal is left.
func (w *reviewed) settled(name string) {
	w.Helper()
	w.committed(name)
	w.conditionIs(name, "AwaitingReview", "None")
	w.noBranch(name)
	w.eventually("no proposal of "+name, func() error {
		if p := w.get(name).GetAnnotations()[v1alpha1.ProposalAnnotation]; p != "" {
			return errorf("it is %s", p)
		}
		return nil
	})
}

// approved is a claim that was ordered through a review.
func (w *reviewed) approved(name string) {
	w.Helper()
	w.apply(name, spec("small"))
	w.proposed(name, plan("small"))
	w.approve(name)
	w.settled(name)
}

func TestReviewedChanges(t *testing.T) {
	t.Parallel()
	base := withReviewers(newWorld(t))
	base.must(base.client.Create(t.Context(), attribution.ForBinding(base.group, base.plural)))
	base.changes = v1alpha1.ChangesPullRequest
	base.loop()
	run := func(test func(*reviewed)) func(*testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			w := *base.world
			w.T = t
			test(&reviewed{&w, base.verdicts})
		}
	}
	t.Run("E1_an apply is proposed and nothing is ordered", run((*reviewed).isProposed))
	t.Run("E2_what is approved is applied", run((*reviewed).isApproved))
	t.Run("E2_a removal is proposed and done once it is approved", run((*reviewed).removes))
	t.Run("E2_a branch that was merged and stayed is not gone on with", run((*reviewed).branchStays))
	t.Run("E2_an order that was merged and cancelled is a new one when it is applied again", run((*reviewed).isOrderedAgain))
	t.Run("E3_what is rejected is said and can be changed or taken back", run((*reviewed).isRejected))
	t.Run("E3_a rejected removal keeps object and service", run((*reviewed).removalIsRejected))
	t.Run("E4_what is edited while in review is on the branch", run((*reviewed).isEdited))
	t.Run("E4_what a reviewer changes comes to the object", run((*reviewed).reviewerChanges))
	t.Run("E5_two people change one claim", run((*reviewed).twoPeople))
	t.Run("E6_main moves underneath", run((*reviewed).mainMoves))
	t.Run("E6_what was approved and taken back on main is not proposed again", run((*reviewed).isTakenBack))
	t.Run("E7_what is changed back is withdrawn", run((*reviewed).isWithdrawn))
	t.Run("E7_a new object that is deleted is withdrawn", run((*reviewed).newIsDeleted))
	t.Run("E9_what cannot wait is committed with its reason", run((*reviewed).emergency))
	t.Run("E9_an emergency ends with its change", run((*reviewed).emergencyEnds))
	t.Run("E9_an emergency passes nothing that was proposed before it", run((*reviewed).emergencyComesLater))
	t.Run("a process that ends between push and record proposes the same change", run((*reviewed).isInterrupted))
	t.Run("E7_what was pushed and not recorded is withdrawn when it is changed back", run((*reviewed).isInterruptedAndChangedBack))
	t.Run("E7_what was pushed and not recorded is withdrawn when it is deleted", run((*reviewed).isInterruptedAndDeleted))
}

func (w *reviewed) isProposed() {
	w.apply("e1", spec("small"))
	w.proposed("e1", plan("small"))
	if _, ok := w.main().Entry(w.key("e1").Path()); ok {
		w.Error("main has it without a review")
	}
	if by := w.git("log", "-1", "--format=%an", w.branch("e1")); by != "alice" {
		w.Errorf("proposed as %s's", by)
	}
	w.conditionIs("e1", "Committed", "AwaitingReview")
}

func (w *reviewed) isApproved() {
	w.approved("e2")
	w.fileIs("e2", plan("small"))
	w.answer("e2", contract.Status{Result: contract.Applied})
	w.conditionIs("e2", "Applied", "Applied")
	w.setSpec("e2", "big", "plan")
	w.proposed("e2", plan("big"))
	w.fileIs("e2", plan("small"))
	w.approve("e2")
	w.settled("e2")
	w.fileIs("e2", plan("big"))
}

func (w *reviewed) removes() {
	w.approved("e2-gone")
	w.deleteObject("e2-gone")
	w.proposed("e2-gone", nil)
	w.fileIs("e2-gone", plan("small"))
	// Another test here says that all of main is answered, which may let it go as well.
	uid := string(w.get("e2-gone").GetUID())
	w.approve("e2-gone")
	w.fileGone("e2-gone")
	w.answer("e2-gone", contract.Status{Result: contract.Gone, UID: uid})
	w.objectGone("e2-gone")
}

// mergedWithMore has a reviewer add another claim to the branch, and merge it with git, so
// that the branch stays.
func (w *reviewed) mergedWithMore(name string, check func(map[string]any) error) {
	w.Helper()
	w.proposed(name, check)
	branch, other := w.branch(name), name+"-other"
	w.put(w.host.open("Bob", "bob@example.org").Branch(branch), "And another one", w.key(other).Path(), w.file(other, "service: a9s-postgresql13", "plan: small"))
	w.move(func(main string) string { return w.merge(main, branch) })
	w.host.tell()
	w.committed(name)
	w.committed(other)
	w.eventually("nothing of "+name+" is proposed", func() error {
		if p := w.get(name).GetAnnotations()[v1alpha1.ProposalAnnotation]; p != "" {
			return errorf("it is %s", p)
		}
		return nil
	})
	if w.host.Head(clusterID, branch) == "" {
		w.Fatal("the branch is gone")
	}
}

func (w *reviewed) branchStays() {
	w.approved("e2-stays")
	w.setSpec("e2-stays", "big", "plan")
	w.mergedWithMore("e2-stays", plan("big"))
	w.commit("e2-stays", "service: a9s-postgresql13", "plan: small")
	w.objectIs("e2-stays", plan("small"))
	w.committed("e2-stays")
	// The same once more, and then something else: both are changes of what main says now.
	for _, next := range []string{"big", "medium"} {
		w.setSpec("e2-stays", next, "plan")
		w.proposed("e2-stays", plan(next))
	}
	w.approve("e2-stays")
	w.settled("e2-stays")
	w.fileIs("e2-stays", plan("medium"))
}

func (w *reviewed) isOrderedAgain() {
	w.apply("e2-again", spec("big"))
	w.mergedWithMore("e2-again", plan("big"))
	w.main() // The person has what was merged.
	uid := string(w.get("e2-again").GetUID())
	w.removeFiles("e2-again")
	w.eventually("it goes, or is gone", func() error {
		// Another test here says that all of main is answered, which may let it go as well.
		if u := w.get("e2-again"); u != nil && u.GetDeletionTimestamp() == nil {
			return errorf("it does not")
		}
		return nil
	})
	w.answer("e2-again", contract.Status{Result: contract.Gone, UID: uid})
	w.objectGone("e2-again")
	w.apply("e2-again", spec("big"))
	w.proposed("e2-again", plan("big"))
	w.approve("e2-again")
	w.settled("e2-again")
	w.fileIs("e2-again", plan("big"))
}

func (w *reviewed) reject(name string) {
	w.Helper()
	w.say(w.branch(name), restapi.Proposal{State: restapi.ProposalRejected, By: "bob", Message: "too big"})
	if message := w.conditionIs(name, "Held", "Rejected"); !strings.Contains(message, `bob rejected this change: "too big"`) {
		w.Errorf("who rejected it, and why, is not said: %s", message)
	}
}

func (w *reviewed) isRejected() {
	w.approved("e3")
	w.setSpec("e3", "big", "plan")
	w.proposed("e3", plan("big"))
	w.reject("e3")
	w.objectIs("e3", plan("big"))
	w.say(w.branch("e3"), restapi.Proposal{State: restapi.ProposalOpen})
	w.setSpec("e3", "medium", "plan")
	w.proposed("e3", plan("medium"))
	w.reject("e3")
	w.decideOn("e3", "Rejected", "file")
	w.objectIs("e3", plan("small"))
	w.decided("e3")
	if head := w.host.Head(clusterID, w.branch("e3")); head == "" {
		w.Error("what was rejected is on no branch")
	}
}

func (w *reviewed) removalIsRejected() {
	w.approved("e3-kept")
	w.deleteObject("e3-kept")
	w.proposed("e3-kept", nil)
	w.reject("e3-kept")
	uid := w.get("e3-kept").GetUID()
	w.decideOn("e3-kept", "Rejected", "release")
	w.eventually("another object", func() error {
		if u := w.get("e3-kept"); u == nil || u.GetUID() == uid {
			return errorf("there is none")
		}
		return nil
	})
	w.committed("e3-kept")
	w.fileIs("e3-kept", plan("small"))
	w.noBranch("e3-kept")
}

func (w *reviewed) isEdited() {
	w.apply("e4", spec("small"))
	w.proposed("e4", plan("small"))
	w.setSpec("e4", "medium", "plan")
	w.proposed("e4", plan("medium"))
	if n := len(strings.Fields(w.git("log", "--format=%H", "main.."+w.branch("e4")))); n != 2 {
		w.Errorf("%d commits, want one for each edit", n)
	}
	w.approve("e4")
	w.settled("e4")
	w.fileIs("e4", plan("medium"))
}

func (w *reviewed) reviewerChanges() {
	w.apply("e4-both", spec("big"))
	w.proposed("e4-both", plan("big"))
	w.put(w.host.open("Bob", "bob@example.org").Branch(w.branch("e4-both")), "Smaller", w.key("e4-both").Path(), w.file("e4-both", "service: a9s-postgresql13", "plan: medium"))
	w.approve("e4-both")
	w.objectIs("e4-both", plan("medium"))
	w.settled("e4-both")
	w.conditionIs("e4-both", "Conflict", "None")
}

func (w *reviewed) twoPeople() {
	w.approved("e5")
	w.setSpec("e5", "big", "plan")
	w.proposed("e5", plan("big"))
	config := rest.CopyConfig(w.admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: "bob", Groups: []string{"system:masters"}}
	bob, err := client.New(config, client.Options{})
	w.must(err)
	w.eventually("bob edits", func() error {
		u := w.get("e5")
		w.must(unstructured.SetNestedField(u.Object, "ddl", "spec", "parameters", "logStatement"))
		return bob.Update(w.Context(), u)
	})
	w.proposed("e5", field("ddl", "parameters", "logStatement"))
	w.proposed("e5", plan("big"))
	if by := w.git("log", "--format=%an", "main.."+w.branch("e5")); by != "bob\nalice" {
		w.Errorf("proposed by %q", by)
	}
	w.approve("e5")
	w.settled("e5")
}

func (w *reviewed) mainMoves() {
	w.approved("e6")
	w.setSpec("e6", "big", "plan")
	w.proposed("e6", plan("big"))
	w.commit("e6", "service: a9s-postgresql13", "plan: small", "parameters: {logStatement: ddl}")
	w.objectIs("e6", field("ddl", "parameters", "logStatement"))
	w.objectIs("e6", plan("big"))
	w.proposed("e6", field("ddl", "parameters", "logStatement"))
	w.proposed("e6", plan("big"))
	if by := w.git("log", "--format=%an", "main.."+w.branch("e6")); by != "alice" {
		w.Errorf("it is proposed as %q's", by)
	}
	w.approve("e6")
	w.settled("e6")
	w.fileIs("e6", plan("big"))
	w.fileIs("e6", field("ddl", "parameters", "logStatement"))
}

func (w *reviewed) isTakenBack() {
	w.approved("e6-back")
	w.setSpec("e6-back", "big", "plan")
	w.proposed("e6-back", plan("big"))
	before, branch := w.git("rev-parse", "main:"+w.key("e6-back").Path()), w.branch("e6-back")
	// Both are on main before anybody is told.
	w.move(func(main string) string {
		merge := w.merge(main, branch)
		git := func(args ...string) string {
			cmd := w.host.Command(clusterID, args...)
			cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+filepath.Join(w.host.dir, "taken-back"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				w.Fatalf("git %v: %v: %s", args, err, out)
			}
			return strings.TrimSpace(string(out))
		}
		git("read-tree", merge)
		git("update-index", "--cacheinfo", "100644,"+before+","+w.key("e6-back").Path())
		return git("commit-tree", git("write-tree"), "-p", merge, "-m", "Take it back")
	})
	w.host.tell()
	w.objectIs("e6-back", plan("small"))
	w.settled("e6-back")
}

func (w *reviewed) isWithdrawn() {
	w.approved("e7")
	w.setSpec("e7", "big", "plan")
	w.proposed("e7", plan("big"))
	w.setSpec("e7", "small", "plan")
	w.settled("e7")
	w.fileIs("e7", plan("small"))
}

func (w *reviewed) newIsDeleted() {
	w.apply("e7-new", spec("small"))
	w.proposed("e7-new", plan("small"))
	w.deleteObject("e7-new")
	w.noBranch("e7-new")
	w.goes("e7-new")
	if _, ok := w.main().Entry(w.key("e7-new").Path()); ok {
		w.Error("main has it")
	}
}

// goes waits until an object is gone that never came to main: the control plane is to have seen
// all of main, which others move.
func (w *reviewed) goes(name string) {
	w.Helper()
	w.eventually("no object "+name, func() error {
		w.observe()
		if w.get(name) != nil {
			return errorf("it is there")
		}
		return nil
	})
}

func (w *reviewed) emergency() {
	w.approved("e9")
	w.edit("e9", func(u *unstructured.Unstructured) {
		w.must(unstructured.SetNestedField(u.Object, "big", "spec", "plan"))
		w.annotate(u, v1alpha1.EmergencyAnnotation, "disk is\nfull")
	})
	w.fileIs("e9", plan("big"))
	if message := w.git("log", "-1", "--format=%B", "main", "--", w.key("e9").Path()); !strings.Contains(message, contract.TrailerEmergency+": disk is full") {
		w.Errorf("the commit does not say why: %s", message)
	}
	w.settled("e9")
	if reason := w.get("e9").GetAnnotations()[v1alpha1.EmergencyAnnotation]; reason != "" {
		w.Errorf("the next change would pass, too: %s", reason)
	}
	w.setSpec("e9", "small", "plan")
	w.proposed("e9", plan("small"))
	w.fileIs("e9", plan("big"))
}

func (w *reviewed) emergencyEnds() {
	w.approved("e9-ends")
	w.edit("e9-ends", func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.PauseAnnotation, "true") })
	w.conditionIs("e9-ends", "Held", "Paused")
	w.edit("e9-ends", func(u *unstructured.Unstructured) {
		w.must(unstructured.SetNestedField(u.Object, "big", "spec", "plan"))
		w.annotate(u, v1alpha1.EmergencyAnnotation, "INC-1")
	})
	// Somebody else was as quick, and merged the same.
	w.commit("e9-ends", "service: a9s-postgresql13", "plan: big")
	w.edit("e9-ends", func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.PauseAnnotation, "") })
	w.settled("e9-ends")
	w.setSpec("e9-ends", "small", "plan")
	w.proposed("e9-ends", plan("small"))
	w.fileIs("e9-ends", plan("big"))
}

func (w *reviewed) emergencyComesLater() {
	w.approved("e9-later")
	w.setSpec("e9-later", "big", "plan")
	w.proposed("e9-later", plan("big"))
	declare := func(reason string) {
		w.edit("e9-later", func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.EmergencyAnnotation, "INC-2") })
		w.eventually("it says what an emergency is for", func() error {
			if _, is, message := condition(w.get("e9-later"), "Committed"); is != reason || !strings.Contains(message, "An emergency lets pass") {
				return errorf("it is %s: %s", is, message)
			}
			return nil
		})
		w.fileIs("e9-later", plan("small"))
	}
	declare("AwaitingReview")
	w.edit("e9-later", func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.EmergencyAnnotation, "") })
	w.reject("e9-later")
	declare("Held")
	w.setSpec("e9-later", "medium", "plan")
	w.fileIs("e9-later", plan("medium"))
	w.settled("e9-later")
}

// forgetProposal has an object say of its proposal what it says between push and record, and
// a plan.
func (w *reviewed) forgetProposal(name, plan string) {
	w.Helper()
	config := rest.CopyConfig(w.admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:gitbind-system:konnector", Groups: []string{"system:masters"}}
	konnector, err := client.New(config, client.Options{})
	w.must(err)
	u := w.get(name)
	begun := fmt.Sprintf(`{"uid":%q,"commit":"","users":["alice"],"begun":true}`, u.GetUID())
	w.must(konnector.Patch(w.Context(), u, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
		`{"metadata":{"annotations":{%q:%q}},"spec":{"plan":%q}}`, v1alpha1.ProposalAnnotation, begun, plan))))
	if u.GetAnnotations()[v1alpha1.ProposalAnnotation] != begun {
		w.Fatal("the annotation was kept as it was")
	}
}

func (w *reviewed) isInterrupted() {
	w.apply("e10", spec("small"))
	w.proposed("e10", plan("small"))
	w.forgetProposal("e10", "small")
	w.eventually("it is recorded again", func() error {
		p, head := w.get("e10").GetAnnotations()[v1alpha1.ProposalAnnotation], w.host.Head(clusterID, w.branch("e10"))
		if head == "" || !strings.Contains(p, head) {
			return errorf("it is %s", p)
		}
		return nil
	})
	if commits := w.git("log", "--format=%an", "main.."+w.branch("e10")); commits != "alice" {
		w.Errorf("the branch has commits of %q, want one of alice's", commits)
	}
}

// If somebody approved what was taken back, main would say it all the same.
func (w *reviewed) isInterruptedAndChangedBack() {
	w.approved("e11")
	w.setSpec("e11", "big", "plan")
	w.proposed("e11", plan("big"))
	w.forgetProposal("e11", "small")
	w.settled("e11")
	w.fileIs("e11", plan("small"))
}

func (w *reviewed) isInterruptedAndDeleted() {
	w.apply("e12", spec("small"))
	w.proposed("e12", plan("small"))
	// As long as it is paused, it is not proposed again.
	w.edit("e12", func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.PauseAnnotation, "true") })
	w.conditionIs("e12", "Held", "Paused")
	w.forgetProposal("e12", "small")
	w.deleteObject("e12")
	w.edit("e12", func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.PauseAnnotation, "") })
	w.noBranch("e12")
	w.goes("e12")
}

// A namespace can ask for reviews, for all its claims, and a binding for all namespaces.
func TestReviewIsAskedForByNamespaceOrBinding(t *testing.T) {
	t.Parallel()
	w := withReviewers(newLoop(t))
	w.apply("orders", spec("small"))
	w.committed("orders")
	label := func(value string) {
		n := namespace(w.namespace)
		w.must(w.client.Patch(t.Context(), n, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, v1alpha1.ChangesLabel, value))))
	}
	label(`"PullRequest"`)
	w.conditionIs("orders", "AwaitingReview", "None")
	w.setSpec("orders", "big", "plan")
	w.proposed("orders", plan("big"))
	label("null")
	// Nobody need approve it any more.
	w.fileIs("orders", plan("big"))
	w.committed("orders")
	w.noBranch("orders")

	w.patchBinding(`{"spec":{"changes":"PullRequest","onRejection":"Revert"}}`)
	w.conditionIs("orders", "AwaitingReview", "None")
	w.setSpec("orders", "medium", "plan")
	w.proposed("orders", plan("medium"))
	w.say(w.branch("orders"), restapi.Proposal{State: restapi.ProposalRejected, By: "bob", Message: "too small"})
	w.objectIs("orders", plan("big"))
	if message := w.conditionIs("orders", "Conflict", "Rejected"); !strings.Contains(message, w.branch("orders")) {
		t.Errorf("it does not say where the object's version is: %s", message)
	}
	if kept := w.git("show", w.branch("orders")+":"+w.key("orders").Path()); !slices.Contains(strings.Split(kept, "\n"), "  plan: medium") {
		t.Errorf("what was rejected is not on its branch: %s", kept)
	}
}

// Who deletes a binding with its claims has decided on all of them.
func TestUnbindingIsNotReviewed(t *testing.T) {
	t.Parallel()
	w := withReviewers(newLoop(t))
	names := w.claims(3)
	w.patchBinding(`{"spec":{"changes":"PullRequest"}}`)
	w.conditionIs(names[0], "AwaitingReview", "None")
	w.setPolicy(v1alpha1.DeletionDelete)
	w.unbind()
	for _, name := range names {
		w.fileGone(name)
	}
	if branches := w.git("for-each-ref", "refs/heads/changes"); branches != "" {
		t.Errorf("proposed: %s", branches)
	}
	// So that it ends.
	for _, name := range names {
		w.answer(name, contract.Status{Result: contract.Gone, UID: string(w.get(name).GetUID())})
	}
	for _, name := range names {
		w.objectGone(name)
	}
}
