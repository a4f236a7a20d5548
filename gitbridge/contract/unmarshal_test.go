package contract

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
)

// aliased is a list that is 1,000 times as large when its aliases are expanded.
func aliased(field string) string {
	return field + ": [&a \"" + strings.Repeat("x", 20_000) + "\"" + strings.Repeat(", *a", 1000) + "]\n"
}

func utf16Of(s string) string {
	out := []byte{0xff, 0xfe}
	for _, c := range utf16.Encode([]rune(s)) {
		out = append(out, byte(c), byte(c>>8))
	}
	return string(out)
}

// Of all that the agents read from Git, some bytes of one tenant are no gigabytes for all others.
func TestH1_AliasesAreNotExpanded(t *testing.T) {
	t.Parallel()
	const header = "apiVersion: gitbind.dev/v1alpha1\nkind: "
	inputs := header + "EncryptedInputs\n" + aliased("recipients")
	for name, decode := range map[string]func() error{
		"inputs":           func() error { _, err := DecodeEncryptedInputs([]byte(inputs)); return err },
		"inputs in UTF-16": func() error { _, err := DecodeEncryptedInputs([]byte(utf16Of(inputs))); return err },
		"after a line separator": func() error {
			_, err := DecodeEncryptedInputs([]byte(strings.NewReplacer("&a", "\u2028&a", "*a", "\u2028*a").Replace(inputs)))
			return err
		},
		"at the beginning": func() error {
			_, err := DecodeStatus([]byte("&b {apiVersion: gitbind.dev/v1alpha1, kind: ClaimStatus}"))
			return err
		},
		"a Secret": func() error {
			_, err := DecodeEncryptedSecret([]byte(header + "EncryptedSecret\n" + aliased("keys")))
			return err
		},
		"status": func() error {
			_, err := DecodeStatus([]byte(header + "ClaimStatus\n" + aliased("waiting")))
			return err
		},
		"observed": func() error {
			_, err := DecodeObserved([]byte(header + "Observed\nepoch: e\n" + aliased("x")))
			return err
		},
		"any, strictly": func() error {
			var into map[string]any
			return UnmarshalStrict([]byte(aliased("x")), &into)
		},
	} {
		if err := decode(); err == nil || !strings.Contains(err.Error(), "has an anchor or an alias") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatLooksLikeAnAliasIsText(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"message: a * b & c\n":  "a * b & c",
		"message: \"*a, &b\"\n": "*a, &b",
		"message: \"*\"\nstatus: " + strings.Repeat("{a: ", 70) + "b" + strings.Repeat("}", 70): "*",
		"message: |\n  &a\n  *b\n":        "&a\n*b\n",
		"message: https://a.b/?x=1&y=2\n": "https://a.b/?x=1&y=2",
	} {
		var got struct{ Message string }
		if err := Unmarshal([]byte(data), &got); err != nil || got.Message != want {
			t.Errorf("%q: %q, %v", data, got.Message, err)
		}
	}
}

func claimWith(spec string) File {
	data := "apiVersion: a.b/v1\nkind: A\nmetadata: {name: x, namespace: team}\nspec: {x: [" + spec + "]}\n"
	return File{Path: "bindings/as.a.b/claims/team/x.yaml", Mode: ModeRegular, Size: int64(len(data)), Data: []byte(data)}
}

func TestH1_AClaimOfManyValuesIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ spec, want string }{
		"as many as may be":      {strings.Repeat("a,", maxValues-20), ""},
		"a text with separators": {"\"" + strings.Repeat("a,", maxSeparators-20) + "\"", ""},
		"too many values":        {strings.Repeat("a,", maxValues), "more than 20000 values"},
		"too many to be counted": {strings.Repeat("a,", maxSeparators), "more than 100000 commas"},
	} {
		f := claimWith(c.spec)
		_, err := Decode(f, "")
		if why := TooLarge(f.Data); (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: it is too large as it %q", name, why)
		}
		if problem := (*Problem)(nil); c.want == "" && err != nil || c.want != "" && (!errors.As(err, &problem) || !strings.Contains(problem.Reason, c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No t.Parallel: it measures the memory of the process.
func TestH2_WhatIsDecodedAtOnceHasABound(t *testing.T) {
	data := []byte("apiVersion: gitbind.dev/v1alpha1\nkind: EncryptedInputs\nrecipients: [" + strings.Repeat("a,", 50_000) + "x]\n")
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	peak := func(files int) uint64 {
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		var decoding sync.WaitGroup
		for range files {
			decoding.Go(func() { _, _ = DecodeEncryptedInputs(data) })
		}
		done := make(chan struct{})
		go func() { decoding.Wait(); close(done) }()
		most := uint64(0)
		for {
			select {
			case <-done:
				return most
			case <-time.After(time.Millisecond):
			}
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > before.HeapAlloc {
				most = max(most, now.HeapAlloc-before.HeapAlloc)
			}
		}
	}
	if one, ten := peak(1), peak(10); ten > 5*one {
		t.Errorf("ten files at once take %d MiB, and one %d", ten>>20, one>>20)
	}
}
