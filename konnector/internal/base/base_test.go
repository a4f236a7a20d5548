package base

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/flipflop"
)

func object(uid, annotation string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("anynines.com/v1")
	u.SetKind("PostgresqlInstance")
	u.SetNamespace("team-a")
	u.SetName("orders")
	u.SetUID("")
	if uid != "" {
		u.Object["metadata"].(map[string]any)["uid"] = uid
	}
	if annotation != "" {
		u.SetAnnotations(map[string]string{v1alpha1.BaseAnnotation: annotation})
	}
	return u
}

func orders(spec map[string]any) *contract.Claim {
	return &contract.Claim{
		APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders",
		Labels: map[string]string{"team": "a"}, Spec: spec,
	}
}

func encode(t *testing.T, b *Base) string {
	t.Helper()
	s, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	want := &Base{
		UID: "u1", Connection: "c1", Commit: "1234", Blob: "5678", Generation: 7, Committed: true, Removed: true,
		LeftOut: []string{"/spec/size"}, Stray: []string{"example.com/owner"},
		Lost:   &decision.Lost{Reason: decision.BothChanged, Branch: "conflicts/b/team-a/orders/1", Fields: []string{"spec.plan"}, Users: []string{"alice"}},
		Writes: []flipflop.Write{{At: 1, Git: true, Since: "12", Fields: []string{"a:b"}}, {At: 2, Fields: []string{"c:d"}}},
		Claim:  orders(map[string]any{"plan": "small", "size": int64(3), "ratio": 0.5, "list": []any{"a", int64(1)}, "none": nil}),
	}
	s := encode(t, want)
	if diff := cmp.Diff(want, Read(object("u1", s))); diff != "" {
		t.Error(diff)
	}
	if s != encode(t, want) {
		t.Error("equal bases give different annotations")
	}
}

func TestWhatIsWrittenIsReadForAnySpec(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return strings.ToValidUTF8(s, "?") }),
			rapid.Map(rapid.Int64(), func(i int64) any { return i }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		)
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-z]{1,5}`), value(depth-1), 0, 3), func(m map[string]any) any { return m }),
		)
	}
	rapid.Check(t, func(rt *rapid.T) {
		spec := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,5}`), value(3), 0, 4).Draw(rt, "spec")
		b := &Base{UID: "u1", Claim: orders(spec)}
		s, err := b.Encode()
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(b, Read(object("u1", s))); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestNoBase(t *testing.T) {
	good := encode(t, &Base{UID: "u1", Claim: orders(map[string]any{"plan": "small"})})
	unbound := encode(t, &Base{Claim: orders(map[string]any{"plan": "small"})})
	replaced := func(key, value string) string {
		var m map[string]any
		if err := json.Unmarshal([]byte(good), &m); err != nil {
			t.Fatal(err)
		}
		m[key] = value
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, tc := range map[string]struct{ uid, annotation string }{
		"there is none":                                   {"u1", ""},
		"of another object":                               {"u2", good},
		"of an object that does not exist yet":            {"", good},
		"no JSON":                                         {"u1", "v1:" + good},
		"content is not base64":                           {"u1", replaced("content", "%%%")},
		"content is not gzip":                             {"u1", replaced("content", "aGVsbG8=")},
		"content is no JSON":                              {"u1", replaced("content", gzipped(t, []byte("hello")))},
		"content is no claim":                             {"u1", replaced("content", gzipped(t, []byte(`{"a":1}`)))},
		"content unpacks to more than a claim can have":   {"u1", replaced("content", gzipped(t, []byte(`{"kind":"`+strings.Repeat("a", 8<<20)+`"}`)))},
		"made with the object, whose status is not there": {"u1", unbound},
	} {
		t.Run(name, func(t *testing.T) {
			if b := Read(object(tc.uid, tc.annotation)); b != nil {
				t.Errorf("got %+v", b)
			}
		})
	}
}

// An object that the konnector created carries a base without UID, which its
// status makes its own.
func TestBaseMadeWithItsObject(t *testing.T) {
	u := object("u1", encode(t, &Base{Commit: "1234", Claim: orders(map[string]any{"plan": "small"})}))
	if err := unstructured.SetNestedField(u.Object, "u1", "status", "gitbind", "uid"); err != nil {
		t.Fatal(err)
	}
	b := Read(u)
	if b == nil || b.UID != "u1" || b.Commit != "1234" {
		t.Fatalf("got %+v", b)
	}
	if err := unstructured.SetNestedField(u.Object, "u0", "status", "gitbind", "uid"); err != nil {
		t.Fatal(err)
	}
	if b := Read(u); b != nil {
		t.Errorf("the status is of another object, yet got %+v", b)
	}
}

func TestTooLarge(t *testing.T) {
	spec := map[string]any{}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		spec[fmt.Sprint("k", i)] = fmt.Sprint(r.Uint64())
	}
	if _, err := (&Base{UID: "u1", Claim: orders(spec)}).Encode(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

// TestWhatUnpacksToTooMuchIsRefused uses claims that can be read up to the limit:
// only their length is wrong.
func TestWhatUnpacksToTooMuchIsRefused(t *testing.T) {
	claim := []byte(`{"apiVersion":"anynines.com/v1","kind":"PostgresqlInstance","spec":{}}`)
	for _, tc := range []struct {
		bytes int
		want  error
	}{
		{maxContent, nil},
		{maxContent + 1, ErrTooLarge},
		{2 * maxContent, ErrTooLarge},
	} {
		spaces := bytes.Repeat([]byte(" "), tc.bytes-len(claim))
		if _, err := unpack(gzipped(t, slices.Concat(claim, spaces))); !errors.Is(err, tc.want) {
			t.Errorf("%d bytes: got %v, want %v", tc.bytes, err, tc.want)
		}
	}
}

func gzipped(t *testing.T, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func FuzzRead(f *testing.F) {
	s, err := (&Base{UID: "u1", Claim: orders(map[string]any{"plan": "small"})}).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s)
	f.Add(`{"uid":"u1","content":""}`)
	f.Fuzz(func(t *testing.T, value string) {
		b := Read(object("u1", value))
		if b == nil {
			return
		}
		again, err := b.Encode()
		if errors.Is(err, ErrTooLarge) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, Read(object("u1", again))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFitsIsWhetherItCanBeEncodedAndKept(t *testing.T) {
	random := rand.NewChaCha8([32]byte{})
	for _, n := range []int{1, 100 << 10, 143 << 10, 150 << 10, 200 << 10} {
		noise := make([]byte, n)
		_, _ = random.Read(noise)
		for kind, text := range map[string]string{"noise": base64.StdEncoding.EncodeToString(noise), "the same": strings.Repeat("x", n)} {
			b := &Base{UID: "u1", Claim: orders(map[string]any{"text": text})}
			value, err := b.Encode()
			if fits := b.Fits(nil); (fits == nil) != (err == nil) {
				t.Errorf("%d bytes of %s: fits %v, encode %v", n, kind, fits, err)
			}
			for _, beside := range []int{0, 60 << 10, 100 << 10, 150 << 10, 255 << 10} {
				// What was the base makes room.
				annotations := map[string]string{v1alpha1.BaseAnnotation: strings.Repeat("x", 50<<10), "other": strings.Repeat("x", beside)}
				fits := b.Fits(annotations)
				annotations[v1alpha1.BaseAnnotation] = value + strings.Repeat("x", 1<<10)
				if kept := errors.Join(err, validation.ValidateAnnotationsSize(annotations)); (fits == nil) != (kept == nil) || fits != nil && !errors.Is(fits, ErrTooLarge) {
					t.Errorf("%d bytes of %s beside %d: fits %v, kept %v", n, kind, beside, fits, kept)
				}
			}
		}
	}
}

func benchmarked() *Base {
	return &Base{UID: "u1", Connection: "c1", Commit: "1234", Blob: "5678", Claim: orders(map[string]any{
		"service": "a9s-postgresql13", "plan": "postgresql-single-nano", "expose": "Internal",
		"parameters": map[string]any{"maxConnections": int64(120), "logStatement": "ddl"},
	})}
}

func BenchmarkEncode(b *testing.B) {
	base := benchmarked()
	for b.Loop() {
		if _, err := base.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	s, err := benchmarked().Encode()
	if err != nil {
		b.Fatal(err)
	}
	u := object("u1", s)
	for b.Loop() {
		if Read(u) == nil {
			b.Fatal("it is not read")
		}
	}
}

// TestTheBaseOfAnObjectThatWasJustCreated is about the time between the creation
// of an object from a file and its first status.
func TestTheBaseOfAnObjectThatWasJustCreated(t *testing.T) {
	unnamed := encode(t, &Base{Commit: "1234", Claim: orders(map[string]any{"plan": "small"})})
	named := encode(t, &Base{UID: "u1", Commit: "1234", Claim: orders(map[string]any{"plan": "small"})})
	by := func(manager, fields string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{
			{Manager: "another", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}},
			{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}},
		}
	}
	const base = `{"f:metadata":{"f:annotations":{"f:gitbind.dev/base":{}}}}`
	for name, c := range map[string]struct {
		annotation, status string
		by                 []metav1.ManagedFieldsEntry
		want               bool
	}{
		"the konnector's own":                     {unnamed, "", by("gitbind-konnector", base), true},
		"one that was saved and created again":    {unnamed, "", by("velero-server", base), false},
		"one of which the konnector has another":  {unnamed, "", by("gitbind-konnector", `{"f:metadata":{"f:labels":{"f:gitbind.dev/base":{}}}}`), false},
		"one whose managed fields are not known":  {unnamed, "", nil, false},
		"one with the status of another":          {unnamed, "u2", by("gitbind-konnector", base), false},
		"one that names another object":           {strings.Replace(named, "u1", "u2", 1), "", by("gitbind-konnector", base), false},
		"one that names it, which Read finds":     {named, "", by("gitbind-konnector", base), false},
		"one that cannot be read":                 {"{", "", by("gitbind-konnector", base), false},
		"one without an annotation":               {"", "", by("gitbind-konnector", base), false},
		"one whose managed fields make no sense":  {unnamed, "", by("gitbind-konnector", `[]`), false},
		"one whose content cannot be read either": {`{"uid":"","content":"!"}`, "", by("gitbind-konnector", base), false},
	} {
		u := object("u1", c.annotation)
		u.SetManagedFields(c.by)
		if c.status != "" {
			u.Object["status"] = map[string]any{"gitbind": map[string]any{"uid": c.status}}
		}
		b := ReadCreated(u, "gitbind-konnector")
		if (b != nil) != c.want {
			t.Errorf("%s: %v", name, b)
		}
		if b != nil && (b.UID != "u1" || b.Commit != "1234" || b.Claim.Spec["plan"] != "small") {
			t.Errorf("%s: %+v", name, b)
		}
		if b != nil && Read(u) != nil {
			t.Errorf("%s: Read gives it, too", name)
		}
	}
}

func TestL7_WhatTheStatusSaysOfAnAgreement(t *testing.T) {
	for name, c := range map[string]struct {
		gitbind map[string]any
		want    string
	}{
		"its own":                  {map[string]any{"uid": "u1", "commit": "1234"}, "1234"},
		"of another object":        {map[string]any{"uid": "u2", "commit": "1234"}, ""},
		"of nobody":                {map[string]any{"commit": "1234"}, ""},
		"it was never agreed on":   {map[string]any{"uid": "u1"}, ""},
		"the status says nothing":  {nil, ""},
		"the commit makes no word": {map[string]any{"uid": "u1", "commit": int64(1)}, ""},
	} {
		u := object("u1", "")
		u.Object["status"] = map[string]any{"gitbind": c.gitbind}
		if got := AgreedAt(u); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
