package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/backend/internal/requests"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/fakeapi"
)

const cluster = "k3x9d2abqw"

var (
	seenHead   = strings.Repeat("a", 40)
	seenEffect = strings.Repeat("e", 40)
)

// world is a cluster of alice's, shared with others, with one proposed change. What is
// tested is who may do what: the host's part is tested with a real one.
type world struct {
	// roles are "<user> <role> <name of a part>", as RBAC has them.
	roles    []string
	change   githost.Change
	outcome  githost.Outcome
	recorded []githost.Event
	merged   []githost.Merge
	fails    error
	// files are those of the branch status, and main has the blobs of those of main.
	files map[string][]byte
	main  map[string]string
	// reads is how often files were read.
	reads int
	// gone says that the change is proposed no more, and unseen why it cannot be looked at.
	gone   bool
	unseen error
	// listed are the changes of the list, nil for change alone.
	listed []githost.Change
	// more says that there are others beside those.
	more bool
	// judged is called when a change is looked at, if it is not nil.
	judged func()
}

func (w *world) Person(_ context.Context, id string, who login.Identity) (access.Caller, error) {
	caller := access.Caller{Role: access.Member, Cluster: id, Name: who.Username, Rights: rights{w, who.Username}}
	switch {
	case who.Username == "alice":
		caller.Role, caller.Rights = access.Owner, nil
	case !slices.ContainsFunc(w.roles, func(r string) bool { return strings.HasPrefix(r, who.Username+" ") }):
		return caller, refusal.New(refusal.NotFound, "no such cluster, or it is not yours")
	}
	return caller, nil
}

type rights struct {
	*world
	user string
}

func (r rights) May(_ context.Context, role restapi.RepositoryRole, part access.Part) (bool, error) {
	return slices.Contains(r.roles, fmt.Sprintf("%s %s %s", r.user, role, part.Name())), nil
}

func (w *world) Changes(context.Context, string) (changes []githost.Change, more bool, err error) {
	if w.gone {
		return nil, false, w.fails
	}
	if w.listed != nil {
		return w.listed, w.more, w.fails
	}
	return []githost.Change{w.change}, w.more, w.fails
}

func (w *world) Branches(ctx context.Context, cluster string) (all []string, err error) {
	changes, _, err := w.Changes(ctx, cluster)
	for _, c := range changes {
		all = append(all, c.Branch)
	}
	return all, err
}

func (w *world) Change(context.Context, string, string) (*githost.Change, error) {
	c := w.change
	if w.judged != nil {
		w.judged()
	}
	return &c, errors.Join(w.fails, w.unseen)
}

func (w *world) Outcome(context.Context, string, string, string) (githost.Outcome, error) {
	return w.outcome, w.fails
}

func (w *world) Record(_ context.Context, _, _, _ string, e githost.Event) error {
	w.recorded = append(w.recorded, e)
	return w.fails
}

func (w *world) Merge(_ context.Context, _ string, m githost.Merge) (string, error) {
	w.merged = append(w.merged, m)
	return strings.Repeat("d", 40), w.fails
}

func (w *world) Read(_ context.Context, _, revision, path string) ([]byte, string, error) {
	if blob := w.main[path]; revision == "main" && blob != "" {
		return []byte(blob), blob, nil
	}
	w.reads++
	data, ok := w.files[path]
	if !ok || revision != "status" {
		return nil, "", githost.ErrNotFound
	}
	return data, digest(string(data)), nil
}

func (w *world) ReadAll(_ context.Context, _, _ string, paths []string, fn func(string, []byte) error) error {
	w.reads++
	for _, path := range paths {
		if err := fn(path, w.files[path]); err != nil {
			return err
		}
	}
	return nil
}

// newWorld is one in which bob proposes to change a claim.
func newWorld() *world {
	return &world{
		roles: []string{
			"bob propose databases.example.com:team-a", "carol approve databases.example.com:team-a", "dave propose ", "eve view ",
			"frank approve databases.example.com:team-b", "grace approve ", "bob approve ",
		},
		change: githost.Change{
			Branch: "changes/databases.example.com/team-a/orders", Head: seenHead, Effect: seenEffect,
			Files:   []githost.FileChange{{Path: orders, Before: "b", Was: []byte("x"), After: "a", Is: []byte("y")}},
			Commits: []githost.Commit{{Hash: seenHead, Email: "bob@example.com"}},
			Events:  []githost.Event{{Kind: githost.EventPushed, By: "bob", Commit: seenHead}},
		},
	}
}

func (w *world) service(t *testing.T, change func(*v1alpha1.ClusterBinding), more ...client.Object) *Service {
	t.Helper()
	cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	if change != nil {
		change(cb)
	}
	return &Service{
		Access: w, Git: w, Control: fakeapi.New(fakeapi.Builder().WithStatusSubresource(&v1alpha1.APIServiceExport{}).WithObjects(append(more, cb)...)), Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
}

func verdict(v restapi.Verdict) restapi.Review {
	in := restapi.Review{Branch: "changes/databases.example.com/team-a/orders", Head: seenHead, Verdict: v, Message: " Why?\n"}
	if v == restapi.VerdictApprove {
		in.Effect = seenEffect
	}
	return in
}

func TestWhoMayDoWhat(t *testing.T) {
	for _, c := range []struct {
		who                      string
		comment, reject, approve string // words of the refusal, "" for none
	}{
		{"alice", "", "", ""},
		{"bob", "", "", "you (bob) have pushed a part of it"},
		{"carol", "", "", ""},
		{"dave", "", "may not approve changes of binding databases.example.com, namespace team-a", "may not approve changes of binding databases.example.com, namespace team-a"},
		{"eve", "neither propose nor approve", "may not approve", "may not approve"},
		{"frank", "neither propose nor approve", "may not approve", "may not approve"},
		{"grace", "", "", ""},
		{"mallory", "no such cluster", "no such cluster", "no such cluster"},
	} {
		for v, words := range map[restapi.Verdict]string{restapi.VerdictComment: c.comment, restapi.VerdictReject: c.reject, restapi.VerdictApprove: c.approve} {
			w := newWorld()
			_, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: c.who}, cluster, verdict(v))
			if words == "" && (err != nil || len(w.recorded)+len(w.merged) != 1) {
				t.Errorf("%s may not %s: %v", c.who, v, err)
			}
			if words != "" && (err == nil || !strings.Contains(err.Error(), words) || len(w.recorded)+len(w.merged) > 0) {
				t.Errorf("%s and %s: %v, want %q; recorded %v, merged %v", c.who, v, err, words, w.recorded, w.merged)
			}
		}
		shown, err := newWorld().service(t, nil).Change(t.Context(), login.Identity{Username: c.who}, cluster, "changes/x")
		if err != nil {
			shown = &restapi.Change{}
		}
		if shown.MayComment != (c.comment == "") || shown.MayReject != (c.reject == "") || shown.MayApprove != (c.approve == "") || err == nil && (shown.Blocked == "") != (c.approve == "") {
			t.Errorf("%s is shown %+v", c.who, shown)
		}
	}
}

// Somebody who may only propose takes back what is theirs alone.
func TestWhoMayOnlyProposeRejectsNothingOfOthers(t *testing.T) {
	bobName, bobEmail := contract.Identity("bob", cluster)
	_, alices := contract.Identity("alice", cluster)
	_, konnector := contract.ComponentIdentity(contract.Konnector, cluster)
	commit := func(email string, with ...string) githost.Commit { return githost.Commit{Email: email, With: with} }
	pushed := func(who ...string) (events []githost.Event) {
		for _, by := range who {
			events = append(events, githost.Event{Kind: githost.EventPushed, By: by, Commit: seenHead})
		}
		return events
	}
	for what, c := range map[string]struct {
		events  []githost.Event
		commits []githost.Commit
		older   bool
		may     bool
	}{
		"bob's own":                                {pushed("bob"), []githost.Commit{commit("bob@example.com"), commit("x@example.com")}, false, true},
		"bob's own, in several pushes":             {pushed("bob", "bob"), []githost.Commit{commit("bob@example.com")}, false, true},
		"bob's on alice's":                         {pushed("alice", "bob"), []githost.Commit{commit("bob@example.com"), commit("alice@example.com")}, false, false},
		"alice's on bob's":                         {pushed("bob", "alice"), []githost.Commit{commit("alice@example.com"), commit("bob@example.com")}, false, false},
		"bob's on what alice made in the cluster":  {pushed("bob"), []githost.Commit{commit("bob@example.com"), commit(alices)}, false, false},
		"bob's on what the konnector made":         {pushed("bob"), []githost.Commit{commit("bob@example.com"), commit(konnector)}, false, false},
		"bob's on what bob and alice made":         {pushed("bob"), []githost.Commit{commit("bob@example.com"), commit(bobEmail, "alice <"+alices+">")}, false, false},
		"bob's on what bob made":                   {pushed("bob"), []githost.Commit{commit("bob@example.com"), commit(bobEmail, bobName+" <"+bobEmail+">")}, false, true},
		"what bob made in the cluster, not pushed": {nil, []githost.Commit{commit(bobEmail)}, false, false},
		"more commits than are looked at":          {pushed("bob"), []githost.Commit{commit("bob@example.com")}, true, false},
		"before it was recorded who pushes":        {nil, []githost.Commit{commit("bob@example.com")}, false, false},
	} {
		w := newWorld()
		w.roles = []string{"bob propose databases.example.com:team-a"}
		w.change.Events, w.change.Commits, w.change.Older = c.events, c.commits, c.older
		s := w.service(t, nil)
		_, err := s.Review(t.Context(), login.Identity{Username: "bob"}, cluster, verdict(restapi.VerdictReject))
		if c.may != (err == nil) || c.may != (len(w.recorded) == 1) || err != nil && !strings.Contains(err.Error(), "may not approve") {
			t.Errorf("%s: %v, recorded %v", what, err, w.recorded)
		}
		shown, err := s.Change(t.Context(), login.Identity{Username: "bob"}, cluster, w.change.Branch)
		if err != nil || shown.MayReject != c.may || !shown.MayComment || shown.MayApprove {
			t.Errorf("%s: shown %+v, %v", what, shown, err)
		}
		if _, err := s.Review(t.Context(), login.Identity{Username: "alice"}, cluster, verdict(restapi.VerdictReject)); err != nil {
			t.Errorf("%s, and who may approve: %v", what, err)
		}
	}
}

// Who changed a claim in the app cluster approves that no more than who pushed it, as far
// as both know them by one name.
func TestNobodyApprovesWhatTheyChangedInTheCluster(t *testing.T) {
	author := func(user string) (name, email string) { return contract.Identity(user, cluster) }
	_, konnector := contract.ComponentIdentity(contract.Konnector, cluster)
	for _, c := range []struct {
		what   string
		commit githost.Commit
		own    bool
	}{
		{"grace alone", githost.Commit{}, true},
		{"dave, and grace with him", githost.Commit{With: []string{"grace <grace@" + contract.ClusterDomain(cluster) + ">"}}, true},
		{"dave", githost.Commit{}, false},
		{"the konnector", githost.Commit{Email: konnector}, false},
	} {
		w := newWorld()
		if c.commit.Email == "" {
			user, _, _ := strings.Cut(strings.ReplaceAll(c.what, ",", ""), " ")
			c.commit.Author, c.commit.Email = author(user)
		}
		c.commit.Hash = seenHead
		w.change.Commits, w.change.Events = []githost.Commit{c.commit}, nil
		_, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: "grace"}, cluster, verdict(restapi.VerdictApprove))
		if c.own != (err != nil) || c.own && !strings.Contains(err.Error(), "you (grace) have made a part of it: somebody else approves it") {
			t.Errorf("made by %s: %v", c.what, err)
		}
	}
}

func TestAKonnectorIsToldWhatBecameOfWhatItProposed(t *testing.T) {
	const branch = "changes/databases.example.com/team-a/orders"
	for _, c := range []struct {
		outcome githost.Outcome
		want    restapi.Proposal
	}{
		{githost.Outcome{}, restapi.Proposal{State: restapi.ProposalOpen}},
		{githost.Outcome{Merged: true}, restapi.Proposal{State: restapi.ProposalMerged}},
		{githost.Outcome{Closed: true}, restapi.Proposal{State: restapi.ProposalClosed}},
		{githost.Outcome{Lost: true}, restapi.Proposal{State: restapi.ProposalLost}},
		{githost.Outcome{Rejection: &githost.Event{By: "carol", Message: "Too big."}}, restapi.Proposal{State: restapi.ProposalRejected, By: "carol", Message: "Too big."}},
	} {
		w := newWorld()
		w.outcome = c.outcome
		s := w.service(t, nil)
		s.PublicURL = "https://gitbind.example"
		c.want.Page = "https://gitbind.example/clusters/" + cluster + "/" + branch
		ask := func(query string) (any, error) {
			return s.proposal(httptest.NewRequest(http.MethodGet, "/v1/clusters/"+cluster+"/proposal?"+query, nil), access.Caller{Role: access.Konnector, Cluster: cluster})
		}
		if got, err := ask("branch=" + branch + "&commit=" + seenHead); err != nil || got != c.want {
			t.Errorf("%+v, %v, want %+v", got, err, c.want)
		}
		for _, query := range []string{"", "branch=main&commit=" + seenHead, "branch=" + branch + "&commit=HEAD", "branch=" + branch} {
			if got, err := ask(query); !refusal.Is(err, refusal.Invalid) {
				t.Errorf("%q: %+v, %v", query, got, err)
			}
		}
	}
}

// asAlice takes each token for one of hers.
type asAlice struct{}

func (asAlice) Verify(context.Context, string) (login.Identity, error) {
	return login.Identity{Username: "alice"}, nil
}

func TestAListOfChangesSaysThatThereAreMore(t *testing.T) {
	t.Parallel()
	for more, want := range map[bool]string{false: "", true: "true"} {
		w := newWorld()
		w.more = more
		s := w.service(t, nil)
		s.Requests = &requests.Server{Login: asAlice{}, Log: s.Log}
		mux := http.NewServeMux()
		s.Mount(mux)
		r := httptest.NewRequest(http.MethodGet, "/v1/clusters/"+cluster+"/changes", nil)
		r.Header.Set("Authorization", "Bearer token")
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		var changes []restapi.Change
		if err := json.Unmarshal(answer.Body.Bytes(), &changes); err != nil || len(changes) != 1 || answer.Header().Get(restapi.MoreHeader) != want {
			t.Errorf("there are more: %t: %d changes, %v, %v", more, len(changes), answer.Header(), err)
		}
	}
}

func TestALinkToAChangeIsOfItsBranch(t *testing.T) {
	t.Parallel()
	s := newWorld().service(t, nil)
	for branch, want := range map[string]string{
		"changes/databases.example.com/team-a/orders":        "changes/databases.example.com/team-a/orders",
		"changes/databases.example.com/team-a/orders%2Elock": "changes/databases.example.com/team-a/orders%252Elock",
		"changes/50%-off":      "changes/50%25-off",
		"changes/fix-#12/a(b)": "changes/fix-%2312/a%28b%29",
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/clusters/"+cluster+"/proposal?commit="+seenHead+"&branch="+url.QueryEscape(branch), nil)
		got, err := s.proposal(r, access.Caller{Role: access.Konnector, Cluster: cluster})
		if p, _ := got.(restapi.Proposal); err != nil || p.Page != "/clusters/"+cluster+"/"+want {
			t.Errorf("%s: %+v, %v, want %s", branch, got, err, want)
		}
	}
}

func TestWhatIsRecordedAndMergedIsWhatWasSaid(t *testing.T) {
	w := newWorld()
	s := w.service(t, nil)
	at := time.Unix(1_800_000_000, 0).UTC()
	if _, err := s.Review(t.Context(), login.Identity{Username: "carol"}, cluster, verdict(restapi.VerdictReject)); err != nil {
		t.Fatal(err)
	}
	if want := (githost.Event{Kind: githost.EventRejected, By: "carol", At: at, Message: "Why?"}); len(w.recorded) != 1 || w.recorded[0] != want {
		t.Errorf("recorded %+v, want %+v", w.recorded, want)
	}
	answer, err := s.Review(t.Context(), login.Identity{Username: "carol"}, cluster, verdict(restapi.VerdictApprove))
	if err != nil || answer.Merged == "" {
		t.Fatal(answer, err)
	}
	want := githost.Merge{Branch: w.change.Branch, Head: seenHead, Effect: seenEffect, By: "carol", Message: "Why?", At: at}
	if len(w.merged) != 1 || w.merged[0] != want {
		t.Errorf("merged %+v, want %+v", w.merged, want)
	}
}

// TestInputsAreNoProblem changes what a claim refers to, beside a file that is no part of the contract.
func TestInputsAreNoProblem(t *testing.T) {
	t.Parallel()
	key := contract.Key{Binding: "databases.example.com", Namespace: "team-a", Name: "orders"}
	c := githost.Change{Files: []githost.FileChange{
		{Path: key.InputsPath(), Before: "a", After: "b", Was: []byte("x"), Is: []byte("y")},
		{Path: contract.BindingPath(key.Binding) + "/other.yaml", After: "b", Is: []byte("y")},
	}}
	files, _ := newWorld().service(t, nil).files(t.Context(), cluster, &c, false)
	if files[0].Problem != "" || files[1].Problem == "" {
		t.Errorf("%+v", files)
	}
}

func TestWhatStandsAgainstAnApproval(t *testing.T) {
	for words, change := range map[string]func(*world){
		"begin it again":                    func(w *world) { w.change.Unrelated, w.change.Files, w.change.Effect = true, nil, "" },
		"main has changed the same lines":   func(w *world) { w.change.Conflicts, w.change.Files, w.change.Effect = []string{orders}, nil, "" },
		"too much for one person":           func(w *world) { w.change.More, w.change.Effect = true, "" },
		"at most 300 files and 100 commits": func(w *world) { w.change.Older = true },
		"main has all of it":                func(w *world) { w.change.Files = nil },
		"before it was recorded who pushes": func(w *world) { w.change.Events = nil },
		"look again":                        func(w *world) { w.change.Head = strings.Repeat("b", 40) },
		"no such proposed change":           func(w *world) { w.fails = githost.ErrNotFound },
		"the Git host takes too long":       func(w *world) { w.fails = context.DeadlineExceeded },
		"git: exit status 128":              func(w *world) { w.fails = errors.New("git: exit status 128") },
	} {
		w := newWorld()
		change(w)
		_, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: "grace"}, cluster, verdict(restapi.VerdictApprove))
		if err == nil || !strings.Contains(err.Error(), words) || len(w.merged) > 0 {
			t.Errorf("%v, want %q; merged %v", err, words, w.merged)
		}
	}
	w := newWorld()
	_, err := w.service(t, func(cb *v1alpha1.ClusterBinding) { cb.Spec.Signatures = &v1alpha1.Signatures{} }).
		Review(t.Context(), login.Identity{Username: "grace"}, cluster, verdict(restapi.VerdictApprove))
	if err == nil || !strings.Contains(err.Error(), "git merge --no-ff -S origin/changes/databases.example.com/team-a/orders") || len(w.merged) > 0 {
		t.Errorf("where commits are to be signed: %v", err)
	}
	// On another host than this anybody makes such a commit, also with one of bob's below.
	for _, events := range [][]githost.Event{nil, newWorld().change.Events} {
		w = newWorld()
		w.change.Imported, w.change.Events, w.change.Commits[0].Email = true, events, "dora@"+contract.ClusterDomain(cluster)
		if _, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: "grace"}, cluster, verdict(restapi.VerdictApprove)); err == nil || !strings.Contains(err.Error(), "before it was recorded who pushes") || len(w.merged) > 0 {
			t.Errorf("of another host: %v", err)
		}
	}
	// The konnector's own pushes are not those of a person.
	w = newWorld()
	w.change.Events, w.change.Commits[0].Email = nil, "dora@"+contract.ClusterDomain(cluster)
	if _, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: "grace"}, cluster, verdict(restapi.VerdictApprove)); err != nil {
		t.Errorf("of the konnector: %v", err)
	}
	// A change of two parts needs the role on both.
	w = newWorld()
	w.change.Files = append(w.change.Files, githost.FileChange{Path: strings.Replace(orders, "team-a", "team-b", 1), After: "a", Is: []byte("y")})
	for who, may := range map[string]bool{"carol": false, "frank": false, "grace": true} {
		if _, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: who}, cluster, verdict(restapi.VerdictApprove)); (err == nil) != may {
			t.Errorf("%s: %v", who, err)
		}
	}
	// So does one of a file that is no part's.
	w = newWorld()
	w.change.Files = []githost.FileChange{{Path: "OWNERS", After: "a", Is: []byte("y")}}
	if _, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: "carol"}, cluster, verdict(restapi.VerdictApprove)); err == nil {
		t.Error("carol approves a file of the root")
	}
}

// Main gets the commits of a change, and with them what others propose by them, also where a merge
// of git merge -s ours changes nothing of that.
func TestACommitIsDecidedOnByWhoMayDecideOnAllThatItTouches(t *testing.T) {
	teamA, teamB := access.Part{Binding: "databases.example.com", Namespace: "team-a"}, access.Part{Binding: "databases.example.com", Namespace: "team-b"}
	for _, c := range []struct {
		who     string
		touched []access.Part
		files   bool
		lacking string
	}{
		{"carol", []access.Part{teamA}, true, ""},
		{"carol", []access.Part{teamA, teamB}, true, "may not approve changes of binding databases.example.com, namespace team-b, which its commits touch: the cluster's owner"},
		{"frank", []access.Part{teamA, teamB}, true, "may not approve changes of binding databases.example.com, namespace team-a: "},
		{"carol", []access.Part{{}}, true, "may not approve changes of all of the repository, which its commits touch"},
		{"grace", []access.Part{{}, teamA, teamB}, true, ""},
		{"alice", []access.Part{{}, teamA, teamB}, true, ""},
		// The verdict is on the commit, also where it is proposed by another branch.
		{"carol", []access.Part{teamB}, false, "namespace team-b, which its commits touch"},
	} {
		for _, v := range []restapi.Verdict{restapi.VerdictApprove, restapi.VerdictReject} {
			w := newWorld()
			if w.change.Touched = c.touched; !c.files {
				w.change.Files, w.change.Conflicts = nil, []string{orders}
			}
			_, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: c.who}, cluster, verdict(v))
			done := len(w.recorded)+len(w.merged) > 0
			if done != (c.lacking == "" && (c.files || v == restapi.VerdictReject)) || c.lacking != "" && !strings.Contains(fmt.Sprint(err), c.lacking) {
				t.Errorf("%s and %s of %v: %v, want %q", c.who, v, c.touched, err, c.lacking)
			}
		}
		w := newWorld()
		w.change.Touched = c.touched
		if _, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: c.who}, cluster, verdict(restapi.VerdictComment)); (err == nil) != (c.who != "frank") {
			t.Errorf("%s says something of what touches %v: %v", c.who, c.touched, err)
		}
	}
}

// Rights are asked for of what a merge would change now: nothing else may be merged by them.
func TestAnApprovalOfAnotherEffectThanThatOfNowIsJudgedOfNothing(t *testing.T) {
	for what, change := range map[string]func(*world){
		"another effect":                      func(w *world) { w.change.Effect = strings.Repeat("f", 40) },
		"another one, which she may not have": func(w *world) { w.change.Effect, w.change.Files[0].Path = strings.Repeat("f", 40), "OWNERS" },
	} {
		w := newWorld()
		change(w)
		_, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: "carol"}, cluster, verdict(restapi.VerdictApprove))
		if err == nil || !strings.Contains(err.Error(), "look again") || len(w.merged) > 0 {
			t.Errorf("%s: %v, merged %v", what, err, w.merged)
		}
	}
	// What has no effect of its own is merged as nothing else, whatever the approval names.
	w := newWorld()
	w.change.Effect = ""
	_, _ = w.service(t, nil).Review(t.Context(), login.Identity{Username: "carol"}, cluster, verdict(restapi.VerdictApprove))
	if len(w.merged) > 0 && w.merged[0].Effect != "" {
		t.Errorf("merged %v", w.merged)
	}
}

// The page's form counts characters, not bytes.
func TestAMessageIsAsLongInAnyScript(t *testing.T) {
	t.Parallel()
	for _, character := range []string{"x", "ж", "語", "🙂"} {
		in, w := verdict(restapi.VerdictComment), newWorld()
		in.Message = strings.Repeat(character, githost.MaxMessage)
		if _, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: "carol"}, cluster, in); err != nil || len(w.recorded) != 1 {
			t.Errorf("%d of %s: %v, recorded %d", githost.MaxMessage, character, err, len(w.recorded))
		}
	}
}

func TestBadInput(t *testing.T) {
	for words, change := range map[string]func(*restapi.Review){
		"branch":                      func(in *restapi.Review) { in.Branch = "main" },
		"head":                        func(in *restapi.Review) { in.Head = "main" },
		"effect: give":                func(in *restapi.Review) { in.Effect = "" },
		"effect: it is for":           func(in *restapi.Review) { in.Verdict = restapi.VerdictComment },
		"verdict":                     func(in *restapi.Review) { in.Verdict, in.Effect = "merge", "" },
		"message: say something":      func(in *restapi.Review) { in.Verdict, in.Effect, in.Message = restapi.VerdictReject, "", " \n" },
		"message: it has 4097 ch":     func(in *restapi.Review) { in.Message = strings.Repeat("x", githost.MaxMessage+1) },
		"message: it has characters":  func(in *restapi.Review) { in.Message = "a\u202eb" },
		"characters that cannot be s": func(in *restapi.Review) { in.Message = "a\x1b[2Jb" },
		"that cannot be seen":         func(in *restapi.Review) { in.Message = "a\u2028b" },
	} {
		in := verdict(restapi.VerdictApprove)
		change(&in)
		w := newWorld()
		if _, err := w.service(t, nil).Review(t.Context(), login.Identity{Username: "grace"}, cluster, in); !refusal.Is(err, refusal.Invalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
		if len(w.recorded)+len(w.merged) > 0 {
			t.Errorf("%s: recorded %v, merged %v", words, w.recorded, w.merged)
		}
	}
}
