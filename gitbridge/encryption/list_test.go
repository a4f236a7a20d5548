package encryption

import (
	"errors"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/contract"
)

func TestF7_AListIsOfOneClaimAndAsItWasSigned(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	o := &Opener{Cluster: binding.Cluster, Keys: []string{s.Public()}}
	list := func(change func(*contract.SecretList)) *contract.SecretList {
		l := *s.List(binding, map[string]int64{"a": 1, "b": 2}, nil, 7)
		l.Versions = maps.Clone(l.Versions)
		change(&l)
		return &l
	}
	asItIs := func(*contract.SecretList) {}
	if err := o.CheckList(claim, list(asItIs)); err != nil {
		t.Fatal(err)
	}
	other := claim
	other.Name = "billing"
	elsewhere, elsewhen := claim, claim
	elsewhere.Namespace, elsewhen.Binding = "team-b", "caches.example.org"
	for name, err := range map[string]error{
		"a name less":     o.CheckList(claim, list(func(l *contract.SecretList) { delete(l.Versions, "a") })),
		"a name more":     o.CheckList(claim, list(func(l *contract.SecretList) { l.Versions["c"] = 1 })),
		"none":            o.CheckList(claim, list(func(l *contract.SecretList) { l.Versions = nil })),
		"another version": o.CheckList(claim, list(func(l *contract.SecretList) { l.Versions["a"] = 2 })),
		"a newer list":    o.CheckList(claim, list(func(l *contract.SecretList) { l.Sequence++ })),
		"another UID":     o.CheckList(claim, list(func(l *contract.SecretList) { l.UID = "u2" })),
		"no signature":    o.CheckList(claim, list(func(l *contract.SecretList) { l.Signature = "" })),
		"another claim":   o.CheckList(other, list(asItIs)),
		"another team":    o.CheckList(elsewhere, list(asItIs)),
		"another API":     o.CheckList(elsewhen, list(asItIs)),
		"another cluster": (&Opener{Cluster: "other", Keys: o.Keys}).CheckList(claim, list(asItIs)),
	} {
		if !errors.Is(err, ErrSignature) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	if err := (&Opener{Cluster: binding.Cluster, Keys: []string{newSigner(t).Public()}}).CheckList(claim, list(asItIs)); !errors.Is(err, ErrUnknownSigner) {
		t.Errorf("error is %v", err)
	}
}

// A list that says the same stays as it is, byte for byte; any other one is newer.
func TestAListIsSignedAgainWhenItSaysSomethingElse(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	if l := s.List(binding, nil, nil, 7); l != nil {
		t.Errorf("without Secrets there is %+v", l)
	}
	reborn := binding
	reborn.UID = "u2"
	versions := map[string]int64{"a": 1}
	first := s.List(binding, versions, nil, 7)
	for name, c := range map[string]struct {
		signer   *Signer
		b        Binding
		versions map[string]int64
		present  *contract.SecretList
		now      int64
		// sequence is 0 where it stays.
		sequence int64
	}{
		"it says the same":         {s, binding, map[string]int64{"a": 1}, first, 9, 0},
		"one more":                 {s, binding, map[string]int64{"a": 1, "b": 1}, first, 9, 9},
		"none":                     {s, binding, nil, first, 9, 9},
		"another version":          {s, binding, map[string]int64{"a": 2}, first, 9, 9},
		"the clock went back":      {s, binding, map[string]int64{"a": 2}, first, 3, 8},
		"the claim is another":     {s, reborn, versions, first, 9, 9},
		"it was altered":           {s, binding, versions, &contract.SecretList{UID: first.UID, Versions: versions, Sequence: 1 << 60, Signature: first.Signature}, 9, 9},
		"the bridge has a new key": {newSigner(t), binding, versions, first, 9, 9},
	} {
		got := c.signer.List(c.b, c.versions, c.present, c.now)
		if c.sequence == 0 {
			if got != c.present {
				t.Errorf("%s: it is %+v", name, got)
			}
			continue
		}
		if got.Sequence != c.sequence || got.UID != c.b.UID || !maps.Equal(got.Versions, c.versions) {
			t.Errorf("%s: it is %+v", name, got)
		}
		if err := (&Opener{Cluster: c.b.Cluster, Keys: []string{c.signer.Public()}}).CheckList(c.b.Claim, got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is signed is so after its way through the file of a ClaimStatus, too.
func TestListProperties(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	o := &Opener{Cluster: binding.Cluster, Keys: []string{s.Public()}}
	rapid.Check(t, func(t *rapid.T) {
		versions := rapid.MapOfN(rapid.StringMatching(`[a-z0-9]([-.a-z0-9]{0,20}[a-z0-9])?`), rapid.Int64Min(0), 1, 5).Draw(t, "versions")
		l := s.List(binding, versions, nil, rapid.Int64Min(0).Draw(t, "now"))
		data, err := contract.EncodeStatus(&contract.Status{Result: contract.Applied, Answers: contract.Answers{Commit: "c"}, Secrets: l})
		if err != nil {
			t.Fatal(err)
		}
		read, err := contract.DecodeStatus(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.CheckList(claim, read.Secrets); err != nil || !read.Secrets.Same(l) {
			t.Fatalf("%v: %s", err, data)
		}
	})
}
