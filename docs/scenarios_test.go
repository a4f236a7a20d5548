package docs

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the index of scenarios")

// index is the page that has it, between two lines.
const (
	index = "developing.md"
	begin = "<!-- scenarios: go test ./docs -update -->\n"
	end   = "<!-- end of scenarios -->\n"
)

// scenarios are those that must have tests, by number.
var scenarios = []struct{ number, what string }{
	{"A1", "sign in"},
	{"A2", "list what may be bound"},
	{"A3", "a catalogue in groups"},
	{"A4", "bind gives what to apply"},
	{"A5", "applying it installs the CRD"},
	{"A6", "a new claim is on the control plane, with labels that lead back"},
	{"A7", "exports are owned by their cluster, and objects lead back to it"},
	{"A8", "tenant namespace and RBAC exist"},
	{"A9", "a change goes up, the removal of a field too"},
	{"A10", "status comes down"},
	{"A11", "a Secret of a claim travels"},
	{"A12", "a Secret that labels choose travels"},
	{"A13", "a delete travels and waits"},
	{"A14", "two app clusters with the same names are isolated"},
	{"A15", "two control planes for one app cluster"},
	{"B1", "Secret, Connection and APIServiceBinding in any order"},
	{"B2", "the heartbeat of an app cluster"},
	{"B3", "the CRD is installed and marked as ours"},
	{"B4", "finalizer and markers"},
	{"B5", "an object of somebody else is not overwritten"},
	{"B6", "deleting a conflicting claim leaves that object"},
	{"B7", "an operator lets it be adopted"},
	{"B8", "an API that is offered later is found"},
	{"B9", "the Secret after the Connection"},
	{"B10", "a Secret of two connections outlives the first"},
	{"B11", "deleting the binding unbinds"},
	{"B12", "unbinding that leaves services alone"},
	{"B13", "schema updates: always or never"},
	{"B14", "a right that is missing is a condition"},
	{"B15", "stopped and begun again"},
	{"B16", "a Secret that is selected no more goes"},
	{"C1", "changes by the provider's side to fields that are not ours stay"},
	{"C2", "filters: which namespaces belong to a connection"},
	{"C3", "over-long names"},
	{"C4", "many resources in one binding"},
	{"C5", "Secrets by reference, selector and name"},
	{"C6", "deleting the claim removes its Secrets"},
	{"C7", "schemas merged and kept"},
	{"C8", "a definition with several versions"},
	{"C9", "metrics"},
	{"C10", "every invalid object of our kinds is refused by its CRD"},
	{"D1", "concurrent edits on both sides, every row of the table"},
	{"D2", "a pull request adds, changes and removes a claim"},
	{"D3", "the app cluster restored from an old etcd snapshot"},
	{"D4", "the app cluster rebuilt empty"},
	{"D5", "the control plane rebuilt empty"},
	{"D6", "the repository force-pushed, emptied, replaced"},
	{"D7", "the Git host down for ten minutes under load"},
	{"D8", "the control plane down"},
	{"D9", "the backend down"},
	{"D10", "an agent killed fifty times under load"},
	{"D11", "the Lease lost while working"},
	{"D12", "credentials that expired, or were rotated or revoked"},
	{"D13", "a clock that is an hour off"},
	{"D14", "the network cut between each pair"},
	{"D15", "the Git host's disk full"},
	{"D16", "hostile content in the repository"},
	{"D17", "a hostile app cluster reaches for another tenant"},
	{"D18", "a bad template stops no other binding"},
	{"D19", "a breaking change of a schema while objects exist"},
	{"D20", "10,000 claims through all of it"},
	{"D21", "the Git host restored from an older backup"},
	{"D22", "a namespace with claims, and a bound CRD, deleted"},
	{"D23", "a claim's file moved"},
	{"D24", "a removal reverted while the object goes"},
	{"D25", "a claim object deleted on the control plane"},
	{"D26", "created and deleted before the bridge looked"},
	{"D27", "another GitOps tool that applies the old manifest again and again"},
	{"D28", "an agent stopped, replaced, and continued"},
	{"D29", "defaults, a mutating webhook, a second served version: no commit"},
	{"D30", "a kubectl edit during a write from Git"},
	{"D31", "killed between push and base, then edited again"},
	{"D32", "kubectl replace, saved YAML restored, a forged annotation"},
	{"E1", "where changes are reviewed, an apply is proposed and says so on the object"},
	{"E2", "what is approved is applied in both clusters"},
	{"E3", "what is rejected is said, and kept or reverted"},
	{"E4", "edited while in review"},
	{"E5", "two people on one claim"},
	{"E6", "main moves underneath"},
	{"E7", "a change that becomes empty, or is withdrawn"},
	{"E8", "several claims as one change"},
	{"E9", "an emergency passes over the review, and is recorded"},
	{"E10", "one policy, three gates, one verdict in the same words"},
	{"E11", "unsigned main is held"},
	{"E12", "a webhook that is lost, forged or repeated"},
	{"E13", "a host that has had enough of requests"},
	{"E14", "a repository moved to another host"},
	{"E15", "a branch that is protected no more"},
	{"F1", "a client connects with the delivered Secret"},
	{"F2", "a changed plan changes the running service"},
	{"F3", "backup, loss, restore: the rows are back"},
	{"F4", "a rotated value follows"},
	{"F5", "what came with a claim goes with it"},
	{"F6", "an unchanged Secret makes no commit"},
	{"F7", "swapped, replayed, invented and foreign files are refused"},
	{"F8", "a foreign Secret of the same name stays"},
	{"F9", "a key that is lost, rotated or revoked"},
	{"F10", "every rule of the kinds, accepted and refused"},
	{"F11", "from claims to composites without a new service"},
	{"F12", "no value of a Secret is anywhere it should not be"},
}

// told are the scenarios that tests show which are not called after them.
var told = map[string][]string{
	"E15": {"`TestConformance` (backend/internal/githost/gitea, github and gitlab)"},
	"F1":  {"`TestStory` (test/e2e)"}, "F2": {"`TestStory` (test/e2e)"}, "F3": {"`TestStory` (test/e2e)"},
}

// numbered are tests, and parts of tests, with a scenario's number in the name.
var numbered = regexp.MustCompile(`(?m)^func (Test([A-F]\d+)_\w+)\(|t\.Run\("(([A-F]\d+)_[^"]+)"`)

// TestEachScenarioHasATest checks that the index is complete and says what is
// there.
func TestEachScenarioHasATest(t *testing.T) {
	tests := find(t)
	page, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	listed, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the index", index)
	}
	var b strings.Builder
	b.WriteString("\n| | scenario | tests |\n|---|---|---|\n")
	for _, s := range scenarios {
		if len(tests[s.number]) == 0 {
			t.Errorf("no test has %s in its name: %s", s.number, s.what)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.number, s.what, strings.Join(tests[s.number], ", "))
	}
	b.WriteString("\n")
	if *update {
		if err := os.WriteFile(index, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if listed != b.String() {
		t.Errorf("the index in %s is not current: go test ./docs -update", index)
	}
}

// find gives, by number, the packages with a test of it, and the test's name.
func find(t *testing.T) map[string][]string {
	t.Helper()
	tests := maps.Clone(told)
	for path, text := range testFiles(t) {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range numbered.FindAllStringSubmatch(text, -1) {
			number, name := m[2], "`"+m[1]+"`"
			if number == "" {
				number, name = m[4], "“"+m[3]+"”"
			}
			tests[number] = append(tests[number], fmt.Sprintf("%s (%s)", name, dir))
		}
	}
	for number := range tests {
		slices.Sort(tests[number])
	}
	return tests
}

// testFiles are the texts of all files with tests but these, by path.
func testFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == "." {
			return nil
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// named are a test, and a part of one, as the threat model writes them.
var named = regexp.MustCompile("`(Test\\w+)`|\"([HL]\\d+_[^\"\n]+)\"")

// TestTheThreatModelNamesTests checks that what the page says is refused has a test.
func TestTheThreatModelNamesTests(t *testing.T) {
	page, err := os.ReadFile("threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, text := range testFiles(t) {
		all.WriteString(text)
	}
	found := named.FindAllStringSubmatch(string(page), -1)
	if len(found) < 20 {
		t.Errorf("%d tests are named: is the pattern right?", len(found))
	}
	for _, m := range found {
		want := "func " + m[1] + "("
		if m[1] == "" {
			want = `t.Run("` + m[2] + `"`
		}
		if !strings.Contains(all.String(), want) {
			t.Errorf("there is no %s", want)
		}
	}
}
