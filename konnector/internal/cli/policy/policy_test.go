package policy

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

const library = "../../../../policies/library"

// checkout is a work tree of a repository, with a person's changes after its commit.
type checkout struct {
	t   *testing.T
	dir string
}

func newCheckout(t *testing.T) *checkout {
	c := &checkout{t, t.TempDir()}
	c.git("init", "-q", "-b", "main")
	c.write("README.md", "hello")
	return c
}

func (c *checkout) git(args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func (c *checkout) commit() { c.git("add", "-A"); c.git("commit", "-q", "-m", "x") }

func (c *checkout) write(path, content string) {
	c.t.Helper()
	path = filepath.Join(c.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		c.t.Fatal(err)
	}
}

const orders = "bindings/postgresqlinstances.anynines.com/claims/team-a/orders.yaml"

func claim(name, plan string) string {
	return "apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata:\n  name: " + name + "\n  namespace: team-a\nspec:\n  service: a9s-postgresql13\n  plan: postgresql-single-" + plan + "\n"
}

func (c *checkout) path(name string) string {
	return filepath.Join(c.dir, filepath.Dir(orders), name+".yaml")
}

// check gives the output and the error.
func (c *checkout) check(in CheckInput) (string, error) {
	c.t.Helper()
	var out bytes.Buffer
	in.Call = command.Call{Terminal: &terminal.Terminal{Out: &out}}
	if in.Paths == nil {
		in.Paths = []string{c.dir}
	}
	if in.Policies == nil {
		in.Policies = []string{filepath.Join(library, "no-downgrade"), filepath.Join(library, "plan-allow-list")}
	}
	err := Check(c.t.Context(), in)
	return strings.ReplaceAll(out.String(), c.dir+"/", ""), err
}

func code(err error) int {
	var exit *usage.Exit
	if errors.As(err, &exit) {
		return exit.Code
	}
	return 0
}

func TestCheckSaysWhatAChangeIsRefusedFor(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.write(orders, claim("orders", "big"))
	c.write("bindings/postgresqlinstances.anynines.com/request.yaml", "x")
	c.commit()
	// Without a base each is new, and big is not on the list.
	out, err := c.check(CheckInput{})
	if want := orders + ":8: error: plan-allow-list: plan postgresql-single-big is not for namespace team-a, which may have: postgresql-single-nano, postgresql-single-small\n1 claims, 1 of them judged by 2 policies: 1 denied.\n"; out != want || code(err) != 1 {
		t.Errorf("it says, %v:\n%s", err, cmp.Diff(want, out))
	}
	// As a change nothing happened.
	if out, err := c.check(CheckInput{Base: "main"}); err != nil || out != "1 claims, 0 of them judged by 2 policies: nothing is denied.\n" {
		t.Errorf("it says, %v:\n%s", err, out)
	}
	c.write(orders, claim("orders", "nano"))
	c.write(filepath.Join(filepath.Dir(orders), "other.yaml"), claim("else", "nano"))
	out, err = c.check(CheckInput{Base: "main"})
	for _, want := range []string{
		orders + ":8: error: no-downgrade: plan cannot go from postgresql-single-big to postgresql-single-nano",
		"other.yaml:4: error: ", "2 claims, 1 of them judged by 2 policies: 2 denied.",
	} {
		if !strings.Contains(out, want) || code(err) != 1 {
			t.Errorf("no %q, %v:\n%s", want, err, out)
		}
	}
	// One file alone, and one that is deleted.
	if out, err := c.check(CheckInput{Base: "main", Paths: []string{c.path("other")}}); code(err) != 1 || strings.Contains(out, "no-downgrade") {
		t.Errorf("it says, %v:\n%s", err, out)
	}
	c.git("rm", "-q", "-f", orders)
	if out, err := c.check(CheckInput{Base: "main", Paths: []string{c.dir}}); code(err) != 1 || strings.Contains(out, "no-downgrade") {
		t.Errorf("it says, %v:\n%s", err, out)
	}
}

// Who proposes a change may propose a .gitattributes before it.
func TestWhatAClaimWasIsReadWhateverAttributesSay(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"", "clusters/east/"} {
		for _, attributes := range []string{"", "bindings/** export-ignore", "bindings/** text eol=crlf", "*.yaml ident"} {
			c := newCheckout(t)
			c.write(folder+".gitattributes", attributes+"\n")
			c.write(folder+orders, claim("orders", "big")+"# $Id$ $Format:%H$\n")
			c.commit()
			if out, err := c.check(CheckInput{Base: "main"}); err != nil || !strings.Contains(out, "1 claims, 0 of them judged") {
				t.Errorf("%s%s: one that did not change, %v:\n%s", folder, attributes, err, out)
			}
			// Git gives it other ends of lines in the work tree of some people.
			c.write(folder+orders, strings.ReplaceAll(claim("orders", "big")+"# $Id$ $Format:%H$\n", "\n", "\r\n"))
			if out, err := c.check(CheckInput{Base: "main"}); err != nil || !strings.Contains(out, "1 claims, 0 of them judged") {
				t.Errorf("%s%s: one of which only the ends of lines changed, %v:\n%s", folder, attributes, err, out)
			}
			c.write(folder+orders, claim("orders", "nano"))
			if out, err := c.check(CheckInput{Base: "main"}); code(err) != 1 || !strings.Contains(out, "no-downgrade") {
				t.Errorf("%s%s: %v:\n%s", folder, attributes, err, out)
			}
		}
	}
}

// Who proposes a change names its files, and a CI may take lines for commands.
func TestNoNameBeginsALineOfItsOwn(t *testing.T) {
	t.Parallel()
	f := finding{File: "a\n::error::b.yaml", Line: 1, Level: levelError, Policy: "p\nq", Message: "no\nway"}
	r := report{Findings: []finding{f}, Unbound: []string{"p\nq"}, AdmissionOnly: []string{"p\nq"}, Policies: []string{"p\nq"}}
	if got := strings.Count(r.text(), "\n"); got != 4 {
		t.Errorf("%d lines:\n%s", got, r.text())
	}
}

func TestAClaimIsFoundWhateverFoldersAreCalled(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"/home/bindings/x/claims/clone/bindings/b.example.org/claims/ns/a.yaml": "bindings/b.example.org/claims/ns/a.yaml",
		"/clone/bindings/b.example.org/claims/bindings/a.yaml":                  "bindings/b.example.org/claims/bindings/a.yaml",
		"/clone/bindings/b.example.org/claims/ns/deep/a.yaml":                   "bindings/b.example.org/claims/ns/deep/a.yaml",
		"/clone/bindings/b.example.org/request.yaml":                            "",
		"/clone/README.md": "",
	} {
		if _, got, err := place(name); got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestCheckFillsInTheDefaultsOfADefinition(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.write(orders, strings.Replace(claim("orders", "nano"), "  plan: postgresql-single-nano\n", "", 1))
	crd := `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: postgresqlinstances.anynines.com}
spec:
  group: anynines.com
  scope: Namespaced
  names: {plural: postgresqlinstances, kind: PostgresqlInstance}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {service: {type: string}, plan: {type: string, default: postgresql-single-big}}}}}}
`
	if out, err := c.check(CheckInput{}); err != nil {
		t.Errorf("it says, %v:\n%s", err, out)
	}
	another := strings.ReplaceAll(strings.ReplaceAll(crd, "postgresqlinstance", "backup"), "PostgresqlInstance", "Backup")
	for name, definitions := range map[string]string{
		"one":                    crd,
		"two":                    another + "---\n" + crd,
		"lines that end in CRLF": strings.ReplaceAll(another+"---\n"+crd, "\n", "\r\n"),
		"a comment between":      another + "--- # of a8s\n" + crd,
		"a blank between":        another + "--- \n" + crd,
	} {
		c.write("crd.yaml", definitions)
		out, err := c.check(CheckInput{Definitions: []string{filepath.Join(c.dir, "crd.yaml")}})
		if code(err) != 1 || !strings.Contains(out, "plan postgresql-single-big is not for namespace team-a") {
			t.Errorf("%s: it says, %v:\n%s", name, err, out)
		}
	}
}

func TestCheckRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.write(orders, claim("orders", "nano"))
	c.commit()
	c.write("broken.yaml", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec: {matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE], resources: ['*']}]}, validations: [{expression: request.userInfo.username == 'alice'}]}\n")
	for words, in := range map[string]CheckInput{
		"no such revision":                {Base: "origin/main"},
		"--base --help: ":                 {Base: "--help"},
		"no such file":                    {Paths: []string{filepath.Join(c.dir, "none")}},
		"not at the place of a claim":     {Paths: []string{filepath.Join(c.dir, "README.md")}},
		"uses request.userInfo":           {Policies: []string{filepath.Join(c.dir, "broken.yaml")}},
		"is no ValidatingAdmissionPolicy": {Policies: []string{filepath.Join(library, "naming/tests")}},
	} {
		if out, err := c.check(in); err == nil || !strings.Contains(err.Error(), words) || out != "" {
			t.Errorf("want %q: %v\n%s", words, err, out)
		}
	}
}

func TestReportsForPrograms(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.write(orders, claim("orders", "big"))
	for format, read := range map[string]func([]byte) (file string, line int, err error){
		formatJSON: func(data []byte) (string, int, error) {
			var r report
			err := json.Unmarshal(data, &r)
			return r.Findings[0].File, r.Findings[0].Line, err
		},
		formatSARIF: func(data []byte) (string, int, error) {
			var log struct {
				Version string
				Runs    []struct {
					Results []struct {
						RuleID    string
						Locations []struct {
							PhysicalLocation struct {
								ArtifactLocation struct{ URI string }
								Region           struct{ StartLine int }
							}
						}
					}
				}
			}
			err := json.Unmarshal(data, &log)
			at := log.Runs[0].Results[0].Locations[0].PhysicalLocation
			return at.ArtifactLocation.URI, at.Region.StartLine, err
		},
		formatJUnit: func(data []byte) (string, int, error) {
			var suite struct {
				Failures int `xml:"failures,attr"`
				Cases    []struct {
					Name string `xml:"name,attr"`
				} `xml:"testcase"`
			}
			err := xml.Unmarshal(data, &suite)
			name, _, _ := strings.Cut(suite.Cases[0].Name, ":")
			return name, 7 + suite.Failures, err
		},
	} {
		out, err := c.check(CheckInput{Format: format})
		if code(err) != 1 {
			t.Errorf("%s: %v", format, err)
		}
		if file, line, err := read([]byte(out)); err != nil || file != orders || line != 8 {
			t.Errorf("%s: %s:%d, %v in\n%s", format, file, line, err, out)
		}
	}
}

func TestTestsOfPolicies(t *testing.T) {
	t.Parallel()
	run := func(paths ...string) (string, error) {
		var out bytes.Buffer
		err := Test(t.Context(), TestInput{Call: command.Call{Terminal: &terminal.Terminal{Out: &out}}, Paths: paths})
		return out.String(), err
	}
	if out, err := run(library); err != nil || !strings.Contains(out, "cases of 6 policies: all passed.") || !strings.Contains(out, "Policy deletion-protection is left to API servers.") {
		t.Errorf("the library's: %v\n%s", err, out)
	}
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policy := filepath.Join(library, "no-downgrade/policy.yaml")
	wrong := write("wrong.yaml", "apiVersion: gitbind.dev/v1alpha1\nkind: PolicyTest\ncases:\n- name: grows\n  want: Deny\n  message: smaller\n  object: {apiVersion: anynines.com/v1, kind: PostgresqlInstance, metadata: {name: a, namespace: b}}\n")
	out, err := run(policy, wrong)
	for _, want := range []string{wrong + ":4: error: grows: want Deny, got Allow", "policy no-downgrade: no case is denied by it", "1 cases of 1 policies: 2 failed."} {
		if code(err) != 1 || !strings.Contains(out, want) {
			t.Errorf("no %q, %v:\n%s", want, err, out)
		}
	}
	text, err := os.ReadFile(wrong)
	if err != nil {
		t.Fatal(err)
	}
	second := write("second.yaml", "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata: {name: a, namespace: b}\r\n---\r\n"+strings.ReplaceAll(string(text), "\n", "\r\n"))
	out, err = run(policy, second)
	if want := second + ":8: error: grows: want Deny, got Allow"; code(err) != 1 || !strings.Contains(out, want) {
		t.Errorf("of a second document: no %q, %v:\n%s", want, err, out)
	}
	for words, content := range map[string]string{
		"it is one of Allow, Deny, Warn":        "cases: [{name: a, want: Maybe, object: {apiVersion: v1, kind: A, metadata: {name: a}}}]",
		"has neither object nor oldObject":      "cases: [{name: a, want: Deny}]",
		"has no cases":                          "cases: []",
		"there is no policy other":              "policies: [other]\ncases: [{name: a, want: Deny, object: {apiVersion: v1, kind: A, metadata: {name: a}}}]",
		"the case has no name":                  "cases: [{want: Deny, object: {apiVersion: v1, kind: A, metadata: {name: a}}}]",
		"wants apiVersion, kind and metadata":   "cases: [{name: a, want: Deny, object: {kind: A}}]",
		"unknown field \"expect\"":              "cases: [{name: a, expect: Deny}]",
		"apiVersion is \"v1\"":                  "apiVersion: v1\ncases: [{name: a, want: Deny}]",
		"Object 'Kind' is missing":              "cases: [{name: a, want: Deny, object: {}}]",
		"want is \"\": it is one of Allow, Den": "cases: [{name: a, object: {apiVersion: v1, kind: A, metadata: {name: a}}}]",
	} {
		if !strings.Contains(content, "apiVersion: v1\n") {
			content = "apiVersion: gitbind.dev/v1alpha1\n" + content
		}
		bad := write("bad.yaml", "kind: PolicyTest\n"+content+"\n")
		if _, err := run(policy, bad); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", content, err, words)
		}
	}
}
