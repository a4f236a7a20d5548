package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheNewestInstallationIsFound(t *testing.T) {
	install := func(version string, programs ...string) string {
		dir := t.TempDir()
		script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version)
		for _, name := range append(programs, "postgres") {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	all := []string{"initdb", "pg_basebackup", "pg_dump", "pg_restore"}
	old, fifteen, seventeen := install("14.9", all...), install("15.3 (Debian 15.3-1)", all...), install("17rc1", all...)
	clientless := install("18.0", "initdb")
	for name, c := range map[string]struct {
		dirs []string
		want string
	}{
		"the newest":                   {[]string{fifteen, seventeen, old}, seventeen},
		"only a complete one":          {[]string{clientless, fifteen}, fifteen},
		"none that is too old":         {[]string{old}, ""},
		"none in a folder that is not": {[]string{"/nowhere"}, ""},
	} {
		got, err := newest(c.dirs)
		if got.Dir != c.want || errors.Is(err, errMissing) != (c.want == "") {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestSettingsAreValuesWhateverIsInThem(t *testing.T) {
	got := render(map[string]string{"log_statement": "a'b\\'\nport = '1", "port": "1"}, map[string]string{"port": "2"})
	want := "log_statement = 'a''b\\\\'' port = ''1'\nport = '2'\ninclude = 'reload.conf'\n"
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestTheServersWordsAreWithoutTimes(t *testing.T) {
	for log, want := range map[string]string{
		"2026-11-23 04:57:29.728 UTC [3628] LOG:  invalid value\n2026-11-23 04:57:29.728 UTC [3628] HINT:  Available values: none.\n": "invalid value; Available values: none.",
		"postgres: superuser_reserved_connections (3) must be less than max_connections (2)\n":                                        "superuser_reserved_connections (3) must be less than max_connections (2)",
		"2026-11-23 04:57:29.728 UTC [3628] LOG:  database system is shut down\n":                                                     "",
	} {
		if got := words([]byte(log)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAFolderThatTheServersMayNotEnterIsNamed(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	other := &owner{name: "somebody", uid: os.Getuid() + 1, other: true}
	if err := other.mayEnter(filepath.Join(closed, "data")); err == nil || !strings.Contains(err.Error(), "somebody, who may not enter "+closed+":") {
		t.Errorf("got %v, want %s to be named", err, closed)
	}
	if err := (&owner{uid: os.Getuid()}).mayEnter(closed); err != nil {
		t.Error(err)
	}
}
