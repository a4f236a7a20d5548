package request

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
)

const (
	binding = "postgresqlinstances.anynines.com"
	path    = "bindings/" + binding + "/request.yaml"
)

func TestDecide(t *testing.T) {
	file := func(template string, policy contract.DeletionPolicy) *File {
		return &File{Blob: "b1", Line: 4, Request: contract.Request{Binding: binding, Template: template, DeletionPolicy: policy}}
	}
	offer := func(name, of string, permitted, offered bool) Offer { return Offer{name, of, permitted, offered} }
	applied := func(policy contract.DeletionPolicy) *contract.Status {
		return &contract.Status{Result: contract.Applied, Answers: contract.Answers{Blob: "b1", Commit: "c1"}, Status: map[string]any{"template": "pg", "deletionPolicy": string(policy)}}
	}
	held := func(reason contract.Reason) *contract.Status {
		return &contract.Status{Result: contract.Held, Reason: reason, Answers: contract.Answers{Commit: "c2"}, Status: map[string]any{"template": "pg", "deletionPolicy": "Refuse"}}
	}
	pg, big, of := offer("pg", binding, true, true), offer("big", binding, true, true), &Export{Template: "pg"}
	for _, c := range []struct {
		name  string
		facts Facts
		want  Effect
		// result is "" for no answer.
		result    contract.Result
		reason    contract.Reason
		words     string
		permitted string // "yes", "no" or "" where nobody asks
	}{
		{"asked for, permitted, offered", Facts{File: file("pg", contract.Refuse), Offers: []Offer{pg}}, Grant, contract.Applied, "", "", ""},
		{"the one offer of the API", Facts{File: file("", contract.Refuse), Offers: []Offer{pg}}, Grant, contract.Applied, "", "", ""},
		{"the one that may be bound", Facts{File: file("", contract.Refuse), Offers: []Offer{pg, offer("big", binding, false, true)}}, Grant, contract.Applied, "", "", ""},
		{"the one that can be bound", Facts{File: file("", contract.Refuse), Offers: []Offer{pg, offer("big", binding, true, false)}}, Grant, contract.Applied, "", "", ""},
		{"one of several", Facts{File: file("", contract.Refuse), Offers: []Offer{pg, big}}, Nothing, contract.Invalid, "", "name one in spec.template (big, pg)", ""},
		{"there is none", Facts{File: file("", contract.Refuse)}, Nothing, contract.Denied, "", "there is no offer of " + binding + " that this cluster may bind", ""},
		{"the named one is not there", Facts{File: file("pg", contract.Refuse)}, Nothing, contract.Denied, "", `there is no offer "pg" that this cluster may bind`, ""},
		{"the named one is not permitted", Facts{File: file("pg", contract.Refuse), Offers: []Offer{offer("pg", binding, false, true)}}, Nothing, contract.Denied, "", "its ServiceAccount gb-k3x9:gitbind-tenant the verb bind on apiserviceexporttemplates/pg", ""},
		{"the name is misspelt", Facts{File: file("gp", contract.Refuse), Offers: []Offer{pg, big, offer("closed", binding, true, false), offer("secret", binding, false, true)}}, Nothing, contract.Denied, "", `there is no offer "gp" that this cluster may bind; of this API it may bind: big, pg. Its owner lists the offers with kubectl gitbind catalog`, ""},
		{"it is not told what an offer is of that may not be bound", Facts{File: file("secret", contract.Refuse), Offers: []Offer{offer("secret", "others.example.org", false, true)}}, Nothing, contract.Denied, "", `there is no offer "secret"`, ""},
		{"the offer of another API", Facts{File: file("mq", contract.Refuse), Offers: []Offer{offer("mq", "queues.anynines.com", true, true)}}, Nothing, contract.Invalid, "", "is of queues.anynines.com", ""},
		{"it cannot be bound just now", Facts{File: file("pg", contract.Refuse), Offers: []Offer{offer("pg", binding, true, false)}}, Nothing, contract.Denied, "", "cannot be bound just now", ""},
		{"a bad file", Facts{File: &File{Blob: "b1", Problem: &contract.Problem{File: path, Line: 3, Reason: "no"}}, Offers: []Offer{pg}}, Nothing, contract.Invalid, "", "no", ""},
		{"a bad file unbinds nothing", Facts{File: &File{Blob: "b2", Problem: &contract.Problem{File: path, Reason: "no"}}, Offers: []Offer{pg}, Export: of, Present: applied(contract.Refuse)}, Nothing, contract.Invalid, "", "no", ""},
		{"a reserved group", Facts{Binding: "roles.rbac.authorization.k8s.io", File: file("", contract.Refuse), Offers: []Offer{offer("x", "roles.rbac.authorization.k8s.io", true, true)}}, Nothing, contract.Invalid, "", "reserved", ""},
		{"our own group", Facts{Binding: "clusterbindings.gitbind.dev", File: file("", contract.Refuse)}, Nothing, contract.Invalid, "", "reserved", ""},

		{"bound", Facts{File: file("pg", contract.Refuse), Offers: []Offer{pg}, Export: of}, Nothing, contract.Applied, "", "", "yes"},
		{"bound, by an offer that came before others", Facts{File: file("", contract.Refuse), Offers: []Offer{pg, big}, Export: of}, Nothing, contract.Applied, "", "", "yes"},
		{"bound, and not offered any more", Facts{File: file("pg", contract.Refuse), Offers: []Offer{offer("pg", binding, true, false)}, Export: of}, Nothing, contract.Applied, "", "", "yes"},
		{"the right is lost", Facts{File: file("pg", contract.Refuse), Offers: []Offer{offer("pg", binding, false, true)}, Export: of, Present: applied(contract.Refuse)}, Nothing, contract.Held, contract.NotPermitted, "new claims wait", "no"},
		{"the template is gone", Facts{File: file("", contract.Refuse), Export: of}, Nothing, contract.Held, contract.NotPermitted, "new claims wait", "no"},
		{"bound by another offer", Facts{File: file("big", contract.Refuse), Offers: []Offer{pg, big}, Export: of}, Nothing, contract.Denied, "", "bound by the offer pg already", "yes"},
		{"bound by another offer, and the wanted one may not be", Facts{File: file("big", contract.Refuse), Offers: []Offer{pg, offer("big", binding, false, true)}, Export: of}, Nothing, contract.Denied, "", `there is no offer "big"`, "yes"},
		{"being unbound", Facts{File: file("pg", contract.Refuse), Offers: []Offer{pg}, Export: &Export{Template: "pg", Terminating: true}}, Nothing, contract.Failed, "", "is being unbound", "yes"},

		{"nothing was asked", Facts{Export: of}, Nothing, "", "", "", ""},
		{"removed", Facts{Present: applied(contract.Refuse), Export: of, Removed: true}, Withdraw, "", "", "", ""},
		{"removed, with claims", Facts{Present: applied(contract.Refuse), Export: of, Removed: true, Claim: "team-a/orders"}, Nothing, contract.Held, contract.ClaimsExist, "such as team-a/orders", ""},
		{"removed, with claims that the konnector deletes", Facts{Present: applied(contract.Delete), Export: of, Removed: true, Claim: "team-a/orders"}, Nothing, contract.Held, contract.ClaimsExist, "", ""},
		{"removed, with claims to be orphaned", Facts{Present: applied(contract.Orphan), Export: of, Removed: true, Claim: "team-a/orders"}, Withdraw, "", "", "", ""},
		{"the last claim went", Facts{Present: held(contract.ClaimsExist), Export: of}, Withdraw, "", "", "", ""},
		{"there are still claims", Facts{Present: held(contract.ClaimsExist), Export: of, Claim: "team-a/orders"}, Nothing, contract.Held, contract.ClaimsExist, "", ""},
		{"missing, and nobody removed it", Facts{Present: applied(contract.Orphan), Export: of}, Nothing, contract.Held, contract.NotRemoved, "Put the file back", ""},
		{"missing, and its answer cannot be read", Facts{Present: decision.Unread(""), Export: of}, Nothing, contract.Held, contract.NotRemoved, "Put the file back", ""},
		{"missing since a first contact", Facts{Present: held(contract.NotRemoved), Export: of, Removed: true}, Nothing, contract.Held, contract.NotRemoved, "Put the file back", ""},
		{"removed, and never bound", Facts{Present: &contract.Status{Result: contract.Denied, Answers: contract.Answers{Blob: "b1", Commit: "c1"}}, Removed: true}, Nothing, "", "", "", ""},
	} {
		f := c.facts
		f.Path, f.Head, f.ServiceAccount = path, "c3", "gb-k3x9:gitbind-tenant"
		if f.Binding == "" {
			f.Binding = binding
		}
		d := Decide(f)
		permitted := ""
		if d.Permitted != nil {
			permitted = map[bool]string{true: "yes", false: "no"}[*d.Permitted]
		}
		if d.Effect != c.want || permitted != c.permitted || (d.Answer == nil) != (c.result == "") {
			t.Errorf("%s: %+v, want %s, permitted %q", c.name, d, c.want, c.permitted)
			continue
		}
		if d.Effect == Grant && d.Template != "pg" {
			t.Errorf("%s: grants %q", c.name, d.Template)
		}
		if s := d.Answer; s != nil {
			if s.Result != c.result || s.Reason != c.reason || !strings.Contains(s.Message, c.words) {
				t.Errorf("%s: answers %+v", c.name, s)
			}
			if (s.Result == contract.Denied || s.Result == contract.Invalid) && (s.Problem == nil || s.Problem.File != path) {
				t.Errorf("%s: names no file", c.name)
			}
		}
	}
}

// Otherwise anybody could find out what is offered to others.
func TestAnOfferThatMayNotBeBoundIsToldAsOneThatIsNotThere(t *testing.T) {
	answer := func(offers ...Offer) string {
		return Decide(Facts{Path: path, Binding: binding, ServiceAccount: "gb-k3x9:gitbind-tenant", Offers: offers,
			File: &File{Blob: "b1", Request: contract.Request{Binding: binding, Template: "secret"}}}).Answer.Message
	}
	permitted := Offer{"pg", binding, true, true}
	if got, want := answer(permitted, Offer{"secret", binding, false, true}), answer(permitted); got != want {
		t.Errorf("%q, and for none %q", got, want)
	}
}

func TestAnAnswerKeepsWhatTheRequestSaidOfItsEnd(t *testing.T) {
	f := Facts{Path: path, Binding: binding, Head: "c1", Offers: []Offer{{"pg", binding, true, true}}, Export: &Export{Template: "pg"},
		File: &File{Blob: "b1", Request: contract.Request{Binding: binding, DeletionPolicy: contract.Orphan}}}
	s := Decide(f).Answer
	if s.Answers != (contract.Answers{Blob: "b1", Commit: "c1"}) {
		t.Errorf("answers %+v", s.Answers)
	}
	// It becomes a bad file, and goes.
	f.Present, f.File = s, &File{Blob: "b2", Problem: &contract.Problem{File: path, Reason: "no"}}
	f.Present = Decide(f).Answer
	f.File, f.Removed, f.Claim = nil, true, "team-a/orders"
	if d := Decide(f); d.Effect != Withdraw {
		t.Errorf("%+v", d)
	}
}

func TestARefusedRequestSaysWhatBecomesOfItsClaims(t *testing.T) {
	const big = "big"
	for _, c := range []struct {
		name        string
		before, now contract.DeletionPolicy // "" is no answer before, and a bad file
		export      *Export
		permitted   bool
		result      contract.Result
		want        Effect // when the file goes, and claims are there
	}{
		{"it asks for another offer, and to orphan", contract.Refuse, contract.Orphan, &Export{Template: "pg"}, true, contract.Denied, Withdraw},
		{"it asks for another offer, and not to orphan any more", contract.Orphan, contract.Refuse, &Export{Template: "pg"}, true, contract.Denied, Nothing},
		{"it asks for another offer, and to delete", contract.Orphan, contract.Delete, &Export{Template: "pg"}, true, contract.Denied, Nothing},
		{"it asks for an offer that it may not bind", contract.Orphan, contract.Refuse, &Export{Template: "pg"}, false, contract.Denied, Nothing},
		{"it is the first one", "", contract.Refuse, &Export{Template: "pg"}, true, contract.Denied, Nothing},
		{"it is the first one, and asks to orphan what is not its own", "", contract.Orphan, &Export{Template: "pg"}, true, contract.Denied, Nothing},
		{"the right is lost", contract.Orphan, contract.Refuse, &Export{Template: big}, false, contract.Held, Nothing},
		{"the API is being unbound", contract.Orphan, contract.Refuse, &Export{Template: big, Terminating: true}, true, contract.Failed, Nothing},
		{"a bad file says nothing new", contract.Orphan, "", &Export{Template: "pg"}, true, contract.Invalid, Withdraw},
		{"a bad file says nothing new, and claims stay", contract.Refuse, "", &Export{Template: "pg"}, true, contract.Invalid, Nothing},
	} {
		f := Facts{
			Path: path, Binding: binding, Head: "c1", Export: c.export, Offers: []Offer{{"pg", binding, true, true}, {big, binding, c.permitted, true}},
			File: &File{Blob: "b2", Request: contract.Request{Binding: binding, Template: big, DeletionPolicy: c.now}},
		}
		if c.now == "" {
			f.File.Problem = &contract.Problem{File: path, Reason: "no"}
		}
		if c.before != "" {
			f.Present = &contract.Status{Answers: contract.Answers{Blob: "b1", Commit: "c0"}, Status: map[string]any{"template": "pg", "deletionPolicy": string(c.before)}}
		}
		f.Present = Decide(f).Answer
		if f.Present.Result != c.result {
			t.Errorf("%s: answers %+v", c.name, f.Present)
		}
		f.File, f.Removed, f.Claim = nil, true, "team-a/orders"
		if d := Decide(f); d.Effect != c.want {
			t.Errorf("%s: %+v, want %s", c.name, d, c.want)
		}
	}
}

// The app cluster keeps its claims until the control plane has taken note of Orphan.
func TestWhatARequestSaysOfItsEndCountsAlsoWhenItsAPIWasTakenAway(t *testing.T) {
	for _, policy := range []contract.DeletionPolicy{contract.Orphan, contract.Refuse, contract.Delete} {
		f := Facts{
			Path: path, Binding: binding, Head: "c2", File: &File{Blob: "b2", Request: contract.Request{Binding: binding, DeletionPolicy: policy}},
			Present: &contract.Status{Answers: contract.Answers{Blob: "b1", Commit: "c1"}, Status: map[string]any{"template": "pg", "deletionPolicy": "Refuse"}},
		}
		f.Present = Decide(f).Answer
		want := map[string]any{"template": "pg", "deletionPolicy": string(policy)}
		if diff := cmp.Diff(want, f.Present.Status); diff != "" || f.Present.Result != contract.Denied || f.Present.Answers.Blob != "b2" {
			t.Errorf("%s: %+v: %s", policy, f.Present, diff)
		}
		// There is nothing that it takes with it, and nothing left to say.
		f.File, f.Removed, f.Claim = nil, true, "team-a/orders"
		if d := Decide(f); d.Effect != Nothing || d.Answer != nil {
			t.Errorf("%s: it goes: %+v", policy, d)
		}
	}
}

// A request that goes takes back what it was granted, and nothing that was
// granted otherwise.
func TestARequestTakesOnlyItsOwnWithIt(t *testing.T) {
	ask := func(template string) *File {
		return &File{Blob: "b-" + template, Request: contract.Request{Binding: binding, Template: template, DeletionPolicy: contract.Refuse}}
	}
	bad := &File{Blob: "b-bad", Problem: &contract.Problem{File: path, Reason: "no"}}
	pg, big := Offer{"pg", binding, true, true}, Offer{"big", binding, true, true}
	for _, c := range []struct {
		name   string
		files  []*File
		offers []Offer
		want   Effect
	}{
		{"granted", []*File{ask("pg")}, []Offer{pg}, Withdraw},
		{"granted, and then it was changed to one that is denied", []*File{ask("pg"), ask("big")}, []Offer{pg, big}, Withdraw},
		{"granted, and then it was spoilt", []*File{ask(""), bad}, []Offer{pg}, Withdraw},
		{"denied: there is another", []*File{ask("big")}, []Offer{pg, big}, Nothing},
		{"denied: no such offer", []*File{ask("none")}, []Offer{pg}, Nothing},
		{"denied twice", []*File{ask("none"), ask("big")}, []Offer{pg, big}, Nothing},
		{"denied, and then granted", []*File{ask("big"), ask("pg")}, []Offer{pg, big}, Withdraw},
		{"never read", []*File{bad}, []Offer{pg}, Nothing},
		{"what it asks for it may not bind any more", []*File{ask("pg")}, nil, Withdraw},
	} {
		f := Facts{Path: path, Binding: binding, Head: "c1", Export: &Export{Template: "pg"}, Offers: c.offers}
		for _, f.File = range c.files {
			f.Present = Decide(f).Answer
		}
		f.File, f.Removed = nil, true
		if d := Decide(f); d.Effect != c.want || d.Answer != nil {
			t.Errorf("%s: %+v, want %s", c.name, d, c.want)
		}
	}
}
