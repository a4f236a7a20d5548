package program

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/version"
)

// parse is what a command line makes of a program's defaults.
func parse(t *testing.T, args ...string) Options {
	t.Helper()
	o := Options{HealthListen: ":8081", Lease: lease.Default()}
	o.Lease.Name = "gitbind-test"
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(f)
	o.AddLeaseFlags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDefaultsOfAProgramAreThoseOfItsFlags(t *testing.T) {
	o := parse(t, "--lease-identity=pod-1")
	want := lease.Default()
	want.Name, want.Identity = "gitbind-test", "pod-1"
	if diff := cmp.Diff(want, o.Lease); diff != "" || o.HealthListen != ":8081" || o.MetricsListen != "0" {
		t.Errorf("flags give %+v\n%s", o, diff)
	}
}

func TestALevelThatDoesNotExistIsRefused(t *testing.T) {
	for args, want := range map[string]string{"--log-level=warn": `--log-level is "warn"`, "--log-encoding=text": `--log-encoding is "text"`} {
		if _, err := parse(t, args).SetLog(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// standardError is what is written there meanwhile. Tests that use it are not parallel:
// the process has one.
func standardError(t *testing.T, do func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	standard := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = standard }()
	do()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNothingThatIsLoggedIsDropped(t *testing.T) {
	const entries = 1000
	text := standardError(t, func() {
		log, err := parse(t).SetLog()
		if err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			log.Info("Refused", "number", i)
		}
	})
	if got := strings.Count(text, "\n"); got != entries {
		t.Errorf("%d lines of %d are there", got, entries)
	}
}

func TestDebugIsLoggedWhereItIsAskedFor(t *testing.T) {
	for args, want := range map[string][]string{
		"":                  {"info V(0)", "info Info", "warn Warn", "error Error"},
		"--verbose":         {"info V(0)", "debug V(1)", "debug Debug", "info Info", "warn Warn", "error Error"},
		"--log-level=debug": {"info V(0)", "debug V(1)", "debug Debug", "info Info", "warn Warn", "error Error"},
		"--log-level=error": {"error Error"},
	} {
		text := standardError(t, func() {
			log, err := parse(t, strings.Fields(args)...).SetLog()
			if err != nil {
				t.Fatal(err)
			}
			log.Info("V(0)")
			log.V(1).Info("V(1)")
			s := Slog(log).With("a", 1).WithGroup("g")
			s.Debug("Debug", "b", 2)
			s.Info("Info")
			s.Warn("Warn")
			s.Error("Error")
		})
		var got []string
		for line := range strings.Lines(text) {
			var entry struct{ Level, Msg string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatalf("%s: %v in %s", args, err, line)
			}
			got = append(got, entry.Level+" "+entry.Msg)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q logs (-want +got)\n%s", args, diff)
		}
	}
}

func TestMetricsSayWhichVersionAProgramIs(t *testing.T) {
	r := prometheus.NewRegistry()
	for _, program := range []string{"gitbridge", "gitbridge", "gitbind-konnector"} {
		if err := registerBuildInfo(r, program); err != nil {
			t.Fatal(err)
		}
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range families[0].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		got = append(got, families[0].GetName()+" "+labels["program"]+" "+labels["version"]+" "+labels["goversion"])
	}
	slices.Sort(got)
	of := " " + version.String() + " " + runtime.Version()
	want := []string{"gitbind_build_info gitbind-konnector" + of, "gitbind_build_info gitbridge" + of}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSeveralGoroutinesRunAtOnceOnOneProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "1")
	if RaiseProcs(); runtime.GOMAXPROCS(0) != 1 {
		t.Errorf("%d, where one was asked for", runtime.GOMAXPROCS(0))
	}
	t.Setenv("GOMAXPROCS", "")
	if RaiseProcs(); runtime.GOMAXPROCS(0) != leastProcs {
		t.Errorf("%d, want %d", runtime.GOMAXPROCS(0), leastProcs)
	}
	runtime.GOMAXPROCS(leastProcs + 1)
	if RaiseProcs(); runtime.GOMAXPROCS(0) != leastProcs+1 {
		t.Errorf("%d, where there are more", runtime.GOMAXPROCS(0))
	}
}
