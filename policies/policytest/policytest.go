// Package policytest runs the tests of people's policies: changes of claims, and what the
// policies are to say of each.
package policytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/policies/evaluator"
)

// APIVersion and Kind are those of a file with tests.
const (
	APIVersion = "gitbind.dev/v1alpha1"
	Kind       = "PolicyTest"
)

// Want is a verdict.
type Want string

// The verdicts.
const (
	Allow Want = "Allow"
	Deny  Want = "Deny"
	Warn  Want = "Warn"
)

// Case is a change, and what is to be said of it.
type Case struct {
	Name string `json:"name"`
	// Object is the claim after the change, OldObject the one before it; without Object it
	// is deleted, without OldObject it is new.
	Object    *unstructured.Unstructured `json:"object,omitempty"`
	OldObject *unstructured.Unstructured `json:"oldObject,omitempty"`
	Want      Want                       `json:"want"`
	// Message is a part of what is said, if it matters.
	Message string `json:"message,omitempty"`

	// policies are those that the case is about; all when there are none.
	policies []string
	file     string
	line     int
}

// Suite are policies with their tests.
type Suite struct {
	Set   *evaluator.Set
	Cases []Case
}

// Read makes a Suite of files: documents of kind PolicyTest have its cases, all others the
// policies, bindings and parameters. Its error is evaluator.Problems.
func Read(files ...evaluator.File) (*Suite, error) {
	s := &Suite{}
	var manifests []evaluator.File
	var problems evaluator.Problems
	for _, f := range files {
		for _, d := range evaluator.Documents(f) {
			var head struct{ Kind string }
			if yaml.Unmarshal(d.Data, &head) != nil || head.Kind != Kind {
				manifests = append(manifests, d)
				continue
			}
			cases, found := read(d)
			s.Cases, problems = append(s.Cases, cases...), append(problems, found...)
		}
	}
	m, err := evaluator.Parse(manifests...)
	if err == nil {
		s.Set, err = evaluator.Compile(m)
	}
	var more evaluator.Problems
	if errors.As(err, &more) {
		problems = append(problems, more...)
	}
	for _, c := range s.Cases {
		for _, name := range c.policies {
			if err == nil && !slices.Contains(s.Set.Policies(), name) {
				problems = append(problems, &contract.Problem{File: c.file, Line: 1, Reason: fmt.Sprintf("there is no policy %s that gates can judge by", name)})
			}
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return s, err
}

// read reads one document of cases.
func read(f evaluator.File) ([]Case, evaluator.Problems) {
	var content struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Policies   []string `json:"policies"`
		Cases      []Case   `json:"cases"`
	}
	var problems evaluator.Problems
	say := func(field, format string, args ...any) {
		problems = append(problems, &contract.Problem{File: f.Name, Line: f.Before + max(1, contract.LineOf(f.Data, field)), Reason: fmt.Sprintf(format, args...)})
	}
	if err := yaml.UnmarshalStrict(f.Data, &content); err != nil {
		say("", "%s", strings.Join(strings.Fields(err.Error()), " "))
		return nil, problems
	}
	if content.APIVersion != APIVersion {
		say("apiVersion", "apiVersion is %q: want %s", content.APIVersion, APIVersion)
	}
	if len(content.Cases) == 0 {
		say("", "has no cases")
	}
	for i := range content.Cases {
		c := &content.Cases[i]
		at := fmt.Sprintf("cases[%d]", i)
		c.policies, c.file, c.line = content.Policies, f.Name, f.Before+max(1, contract.LineOf(f.Data, at))
		switch {
		case c.Name == "":
			say(at, "the case has no name")
		case !slices.Contains([]Want{Allow, Deny, Warn}, c.Want):
			say(at+".want", "%s: want is %q: it is one of %s, %s, %s", c.Name, c.Want, Allow, Deny, Warn)
		case c.Object == nil && c.OldObject == nil:
			say(at, "%s: has neither object nor oldObject", c.Name)
		}
		for field, u := range map[string]*unstructured.Unstructured{"object": c.Object, "oldObject": c.OldObject} {
			if u != nil && (u.GetAPIVersion() == "" || u.GetName() == "") {
				say(at+"."+field, "%s: %s wants apiVersion, kind and metadata.name", c.Name, field)
			}
		}
	}
	return content.Cases, problems
}

// Change is that of the case. The resource is guessed from the kind, as a plural of it.
func (c Case) Change() evaluator.Change {
	of := c.Object
	if of == nil {
		of = c.OldObject
	}
	resource, _ := meta.UnsafeGuessKindToResource(of.GroupVersionKind())
	return evaluator.Change{Resource: resource, Object: c.Object, OldObject: c.OldObject}
}

// Result is what came of a case.
type Result struct {
	Name string
	// Problem is nil for one that passed.
	Problem *contract.Problem
}

// Run runs all cases. A policy without a case that it denies, or warns of, fails, too: its
// tests would pass without it.
func (s *Suite) Run(ctx context.Context) ([]Result, error) {
	var results []Result
	speaking := map[string]bool{}
	for _, c := range s.Cases {
		v, err := s.Set.Evaluate(ctx, c.Change())
		if err != nil {
			return nil, err
		}
		v = c.about(v)
		for _, name := range s.Set.Policies() {
			speaking[name] = speaking[name] || speaks(v, name)
		}
		r := Result{Name: c.Name}
		if reason := c.compare(v); reason != "" {
			r.Problem = &contract.Problem{File: c.file, Line: c.line, Reason: c.Name + ": " + reason}
		}
		results = append(results, r)
	}
	for _, name := range s.Set.Policies() {
		if !speaking[name] {
			results = append(results, Result{Name: name, Problem: &contract.Problem{Reason: "policy " + name + ": no case is denied by it, or warned of: add one"}})
		}
	}
	return results, nil
}

// about is what the case's policies say.
func (c Case) about(v evaluator.Verdict) evaluator.Verdict {
	if len(c.policies) == 0 {
		return v
	}
	var own evaluator.Verdict
	for _, d := range v.Denials {
		if slices.Contains(c.policies, d.Policy) {
			own.Denials = append(own.Denials, d)
		}
	}
	for _, w := range v.Warnings {
		if slices.ContainsFunc(c.policies, func(name string) bool { return warns(w, name) }) {
			own.Warnings = append(own.Warnings, w)
		}
	}
	return own
}

// speaks reports whether a policy denies, or warns.
func speaks(v evaluator.Verdict, policy string) bool {
	return slices.ContainsFunc(v.Denials, func(d evaluator.Denial) bool { return d.Policy == policy }) ||
		slices.ContainsFunc(v.Warnings, func(w string) bool { return warns(w, policy) })
}

// warns reports whether a warning is a policy's, which is named in quotes.
func warns(warning, policy string) bool {
	return strings.Contains(warning, "'"+policy+"' with binding")
}

// compare says how a verdict differs from what was wanted, "" if it does not.
func (c Case) compare(v evaluator.Verdict) string {
	got, said := Allow, []string{}
	if len(v.Warnings) > 0 {
		got, said = Warn, v.Warnings
	}
	if !v.Allowed() {
		got, said = Deny, nil
		for _, d := range v.Denials {
			said = append(said, d.String())
		}
	}
	text := strings.Join(said, "; ")
	switch {
	case got != c.Want && text != "":
		return fmt.Sprintf("want %s, got %s: %s", c.Want, got, text)
	case got != c.Want:
		return fmt.Sprintf("want %s, got %s", c.Want, got)
	case !strings.Contains(text, c.Message):
		return fmt.Sprintf("want words %q, got: %s", c.Message, text)
	}
	return ""
}
