package credential

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	at       = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	anHour   = at.Add(time.Hour)
	twoHours = at.Add(2 * time.Hour)
)

func TestARecordSurvivesItsSecret(t *testing.T) {
	for _, r := range []Record{
		{},
		{Hash: "a", Expires: anHour},
		{Hash: "a", Expires: anHour, NextHash: "b", NextExpires: twoHours},
		{Hash: "a", Expires: anHour, NextHash: "b", NextExpires: twoHours, PreparedHash: "c", PreparedExpires: twoHours},
	} {
		data := map[string][]byte{"sha256": []byte("old"), "next-sha256": []byte("older"), "prepared-sha256": []byte("oldest"), "other": []byte("kept")}
		r.WriteTo(data)
		if diff := cmp.Diff(r, ReadRecord(data)); diff != "" || string(data["other"]) != "kept" {
			t.Errorf("%+v (-want +got)\n%s", r, diff)
		}
	}
}

func TestWhichTokensCount(t *testing.T) {
	both := Record{Hash: "a", Expires: anHour, NextHash: "b", NextExpires: twoHours}
	for _, c := range []struct {
		name   string
		record Record
		hash   string
		now    time.Time
		want   Verdict
	}{
		{"the one that counts", both, "a", at, Current},
		{"the next one", both, "b", at, Next},
		{"the one that has expired beside the next one", both, "a", anHour, Expired},
		{"the next one has expired too", both, "b", twoHours, Expired},
		{"the one before a first use", both.Promoted(), "a", at, Unknown},
		{"after a first use", both.Promoted(), "b", at, Current},
		{"an earlier next one", both.Offered("c", twoHours), "b", at, Unknown},
		{"a prepared one", both.Prepared("c", twoHours), "c", at, Prepared},
		{"a prepared one that has expired", both.Prepared("c", twoHours), "c", twoHours, Expired},
		{"a prepared one after a renewal", both.Prepared("c", twoHours).Offered("d", twoHours), "c", at, Prepared},
		{"a prepared one after a first use", both.Prepared("c", twoHours).Promoted(), "c", at, Prepared},
		{"a prepared one after it replaced the others", both.Prepared("c", twoHours).Replaced(), "c", at, Current},
		{"the one before a replacement", both.Prepared("c", twoHours).Replaced(), "a", at, Unknown},
		{"the next one before a replacement", both.Prepared("c", twoHours).Replaced(), "b", at, Unknown},
		{"nothing is shown to a record without a prepared one", Record{}.Prepared("", twoHours), "", at, Unknown},
		{"nothing is kept", Record{}, "a", at, Unknown},
		{"nothing is shown", Record{}, "", at, Unknown},
		{"nothing is shown to a record without a next one", Record{Hash: "a", Expires: anHour}, "", at, Unknown},
		{"a time that cannot be read", ReadRecord(map[string][]byte{"sha256": []byte("a"), "expires": []byte("soon")}), "a", at, Expired},
	} {
		if got, _ := c.record.Judge(c.hash, c.now); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestEnded(t *testing.T) {
	both := Record{Hash: "a", NextHash: "b"}
	for name, c := range map[string]struct {
		after Record
		want  []string
	}{
		"a renewal ends an earlier next one": {both.Offered("c", anHour), []string{"b"}},
		"a first use ends the one before":    {both.Promoted(), []string{"a"}},
		"revoked":                            {Record{}, []string{"a", "b"}},
		"a replacement ends all":             {both.Prepared("c", anHour).Replaced(), []string{"a", "b"}},
		"to prepare one ends nothing":        {both.Prepared("c", anHour), nil},
		"nothing":                            {both, nil},
	} {
		if diff := cmp.Diff(c.want, Ended(both, c.after)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// A Git host of its own keeps a token for as long as it counts.
func TestH10_WhatHasExpiredDoesNotCount(t *testing.T) {
	all := Record{Hash: "a", Expires: anHour, NextHash: "b", NextExpires: twoHours, PreparedHash: "c", PreparedExpires: twoHours}
	for now, want := range map[time.Time][]string{at: {"a", "b", "c"}, anHour: {"b", "c"}, twoHours: {}} {
		if diff := cmp.Diff(want, all.Counting(now)); diff != "" {
			t.Errorf("at %s (-want +got)\n%s", now, diff)
		}
	}
}
