package policy

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"gitbind.dev/konnector/internal/cli/output"
)

// The formats of a report.
const (
	formatText  = "text"
	formatJSON  = "json"
	formatSARIF = "sarif"
	formatJUnit = "junit"
)

// The levels of a finding, as SARIF calls them.
const (
	levelError   = "error"
	levelWarning = "warning"
)

// finding is one thing that is against a claim, or a test that failed.
type finding struct {
	File string `json:"file,omitempty"`
	// Line is 0 when the whole file is meant.
	Line    int    `json:"line,omitempty"`
	Level   string `json:"level"`
	Policy  string `json:"policy,omitempty"`
	Binding string `json:"binding,omitempty"`
	Case    string `json:"case,omitempty"`
	Message string `json:"message"`
}

// report is what a command found.
type report struct {
	// Claims were looked at, Judged those of them that are changes.
	Claims int `json:"claims,omitempty"`
	Judged int `json:"judged,omitempty"`
	// Cases are those of tests.
	Cases    int      `json:"cases,omitempty"`
	Policies []string `json:"policies"`
	// AdmissionOnly are policies that only API servers judge by, Unbound those that no
	// binding turns on.
	AdmissionOnly []string  `json:"admissionOnly,omitempty"`
	Unbound       []string  `json:"unbound,omitempty"`
	Findings      []finding `json:"findings"`
}

func (r *report) add(f finding) { r.Findings = append(r.Findings, f) }

func (r *report) failed() bool {
	return slices.ContainsFunc(r.Findings, func(f finding) bool { return f.Level == levelError })
}

func (r *report) print(w io.Writer, format string) error {
	if r.Findings == nil {
		r.Findings = []finding{}
	}
	switch format {
	case formatJSON:
		return output.Data(w, output.JSON, r)
	case formatSARIF:
		return output.Data(w, output.JSON, r.sarif())
	case formatJUnit:
		return r.junit(w)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

func (r *report) text() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintln(&b, output.Line(f.String()))
	}
	for _, name := range r.Unbound {
		fmt.Fprintf(&b, "Policy %s has no binding: it judges nothing.\n", output.Line(name))
	}
	for _, name := range r.AdmissionOnly {
		fmt.Fprintf(&b, "Policy %s is left to API servers.\n", output.Line(name))
	}
	bad := len(slices.DeleteFunc(slices.Clone(r.Findings), func(f finding) bool { return f.Level != levelError }))
	if r.Cases > 0 {
		fmt.Fprintf(&b, "%d cases of %d policies: %s.\n", r.Cases, len(r.Policies), failures(bad, "all passed", "failed"))
		return b.String()
	}
	fmt.Fprintf(&b, "%d claims, %d of them judged by %d policies: %s.\n", r.Claims, r.Judged, len(r.Policies), failures(bad, "nothing is denied", "denied"))
	return b.String()
}

func failures(n int, none, some string) string {
	if n == 0 {
		return none
	}
	return fmt.Sprintf("%d %s", n, some)
}

// String is the finding as compilers write theirs.
func (f finding) String() string {
	at := f.File
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	parts := []string{f.Level}
	if at != "" {
		parts = []string{at, f.Level}
	}
	if f.Policy != "" {
		parts = append(parts, f.Policy)
	}
	return strings.Join(append(parts, f.Message), ": ")
}

// sarif is the report as SARIF 2.1.0, which code hosts show beside the lines.
func (r *report) sarif() any {
	type object = map[string]any
	rules := []object{}
	for _, name := range r.Policies {
		rules = append(rules, object{"id": name})
	}
	results := []object{}
	for _, f := range r.Findings {
		location := object{"artifactLocation": object{"uri": f.File}}
		if f.Line > 0 {
			location["region"] = object{"startLine": f.Line}
		}
		result := object{"level": f.Level, "message": object{"text": f.Message}, "locations": []object{{"physicalLocation": location}}}
		if f.Policy != "" {
			result["ruleId"] = f.Policy
		}
		results = append(results, result)
	}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": object{"name": "kubectl gitbind policy", "rules": rules}}, "results": results}},
	}
}

// junit is the report as JUnit's XML: a test for each finding, or one that passed.
func (r *report) junit(w io.Writer) error {
	type failure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
	}
	type testcase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *failure `xml:"failure"`
		Output  string   `xml:"system-out,omitempty"`
	}
	type testsuite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	s := testsuite{Name: "kubectl gitbind policy"}
	for _, f := range r.Findings {
		c := testcase{Class: f.Policy + f.Case, Name: strings.TrimSuffix(fmt.Sprintf("%s:%d", f.File, f.Line), ":0")}
		if f.Level == levelError {
			c.Failure, s.Failures = &failure{Message: f.Message, Type: f.Policy}, s.Failures+1
		} else {
			c.Output = f.Message
		}
		s.Cases = append(s.Cases, c)
	}
	if len(s.Cases) == 0 {
		s.Cases = []testcase{{Class: "policies", Name: strings.TrimSpace(r.text())}}
	}
	s.Tests = len(s.Cases)
	data, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}
