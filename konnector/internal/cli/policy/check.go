// Package policy judges claims in files by policies, and runs policies' tests.
package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/usage"
	"gitbind.dev/policies/evaluator"
)

// CheckInput is what the person asked for.
type CheckInput struct {
	command.Call
	Paths, Policies, Definitions []string
	// Base is the revision that the claims are changes of; "" for none.
	Base   string
	Format string
}

// Check judges claims.
func Check(ctx context.Context, in CheckInput) error {
	if len(in.Paths) == 0 {
		in.Paths = []string{"."}
	}
	set, err := policies(in.Policies)
	if err != nil {
		return err
	}
	schemas, err := definitions(in.Definitions)
	if err != nil {
		return err
	}
	files, err := claimFiles(in.Paths)
	if err != nil {
		return err
	}
	c := checker{set: set, schemas: schemas, bases: bases{revision: in.Base}}
	r := &report{Policies: set.Policies(), AdmissionOnly: set.AdmissionOnly(), Unbound: set.Unbound()}
	for _, f := range files {
		if err := c.check(ctx, f, r); err != nil {
			return err
		}
	}
	if err := r.print(in.Terminal.Out, in.Format); err != nil {
		return err
	}
	if r.failed() {
		return &usage.Exit{Code: 1}
	}
	return nil
}

func policies(paths []string) (*evaluator.Set, error) {
	files, err := manifests(paths)
	if err != nil {
		return nil, err
	}
	m, err := evaluator.Parse(files...)
	if err != nil {
		return nil, err
	}
	set, err := evaluator.Compile(m)
	if err == nil && len(set.Policies())+len(set.AdmissionOnly()) == 0 {
		err = fmt.Errorf("there is no ValidatingAdmissionPolicy in %v", paths)
	}
	return set, err
}

// definitions are the schemas of APIs, by binding.
func definitions(paths []string) (map[string]*contract.Schema, error) {
	files, err := manifests(paths)
	if err != nil {
		return nil, err
	}
	schemas := map[string]*contract.Schema{}
	for _, f := range files {
		for _, doc := range evaluator.Documents(f) {
			var list struct {
				Items []apiextensionsv1.CustomResourceDefinition `json:"items"`
			}
			var one apiextensionsv1.CustomResourceDefinition
			if err := errors.Join(yaml.Unmarshal(doc.Data, &list), yaml.Unmarshal(doc.Data, &one)); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			for _, crd := range append(list.Items, one) {
				if crd.Kind != "CustomResourceDefinition" {
					continue
				}
				if schemas[crd.Name], err = contract.NewSchema(&crd); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", f.Name, crd.Name, err)
				}
			}
		}
	}
	return schemas, nil
}

type checker struct {
	set     *evaluator.Set
	schemas map[string]*contract.Schema
	bases   bases
}

// check judges one file.
func (c *checker) check(ctx context.Context, f claimFile, r *report) error {
	before, err := c.bases.of(ctx, f)
	if err != nil {
		return err
	}
	r.Claims++
	if before != nil && bytes.Equal(withoutCR(before), withoutCR(f.data)) {
		return nil
	}
	claim, problem := c.decode(f.path, f.data)
	if problem != nil {
		r.add(finding{File: f.name, Line: problem.Line, Level: levelError, Message: problem.Reason})
		return nil
	}
	change := evaluator.Change{Object: claim.Object()}
	// What could not be read before was nothing.
	if old, problem := c.decode(f.path, before); before != nil && problem == nil {
		change.OldObject = old.Object()
	}
	key, _ := contract.ParsePath(f.path)
	gv, _ := schema.ParseGroupVersion(claim.APIVersion)
	change.Resource = gv.WithResource(key.Binding[:len(key.Binding)-len(key.Group())-1])
	verdict, err := c.set.Judge(ctx, change)
	if err != nil {
		return err
	}
	r.Judged++
	for _, d := range verdict.Denials {
		r.add(finding{File: f.name, Line: contract.LineOf(f.data, d.Field), Level: levelError, Policy: d.Policy, Binding: d.Binding, Message: d.Message})
	}
	for _, text := range verdict.Warnings {
		r.add(finding{File: f.name, Level: levelWarning, Message: text})
	}
	return nil
}

// withoutCR has a text's lines end as git keeps them: in a work tree they may end otherwise.
func withoutCR(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) }

// decode reads a claim as the agents do, with the defaults of its schema if that is known.
func (c *checker) decode(path string, data []byte) (*contract.Claim, *contract.Problem) {
	claim, err := contract.Decode(contract.File{Path: path, Data: data}, "")
	if problem := (*contract.Problem)(nil); errors.As(err, &problem) {
		return nil, problem
	}
	key, _ := contract.ParsePath(path)
	if s := c.schemas[key.Binding]; s != nil {
		claim = s.Normalize(claim)
	}
	return claim, nil
}
