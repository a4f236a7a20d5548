// Package policy makes of the objects that a template has as policies what judges claims.
// It judges nothing itself: see policies/evaluator.
package policy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/policies/evaluator"
)

// Compile gives nil for no objects. The error is of the template's operator.
func Compile(objects []runtime.RawExtension) (*evaluator.Set, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	manifests, err := Parse(objects)
	if err != nil {
		return nil, err
	}
	set, err := evaluator.Compile(manifests)
	if err != nil {
		return nil, err
	}
	if unbound := set.Unbound(); len(unbound) > 0 {
		return nil, fmt.Errorf("no ValidatingAdmissionPolicyBinding turns on %s", strings.Join(unbound, ", "))
	}
	return set, nil
}

// maxObjects is what a template may have; its CRD says the same.
const maxObjects = 64

// Parse reads the objects. It refuses Secrets: what policies are judged by is published.
func Parse(objects []runtime.RawExtension) (*evaluator.Manifests, error) {
	if len(objects) > maxObjects {
		return nil, fmt.Errorf("there are %d objects, the most is %d", len(objects), maxObjects)
	}
	var files []evaluator.File
	for i, o := range objects {
		// As YAML, problems have the lines that a person would see.
		data, err := yaml.JSONToYAML(o.Raw)
		if err != nil {
			return nil, fmt.Errorf("spec.policies[%d]: %w", i, err)
		}
		files = append(files, evaluator.File{Name: fmt.Sprintf("spec.policies[%d]", i), Data: data})
	}
	manifests, err := evaluator.Parse(files...)
	if err != nil {
		return nil, err
	}
	for _, o := range manifests.Others() {
		if o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" {
			return nil, fmt.Errorf("the Secret %s/%s cannot be a parameter, as everybody who reads the repository reads it: use a ConfigMap", o.GetNamespace(), o.GetName())
		}
	}
	return manifests, nil
}

// maxTold is how many problems are told at once.
const maxTold = 3

// Told is an error of Compile in one sentence, without lines, as nobody has the file.
func Told(err error) string {
	var problems evaluator.Problems
	if !errors.As(err, &problems) {
		return err.Error()
	}
	var words []string
	for _, p := range problems {
		words = append(words, p.File+": "+p.Reason)
	}
	return brief.List(words, maxTold, "; ")
}

// Revision is another one for other objects, and "" for none.
func Revision(objects []runtime.RawExtension) string {
	if len(objects) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, o := range objects {
		fmt.Fprintf(sum, "%d ", len(o.Raw))
		sum.Write(o.Raw)
	}
	return fmt.Sprintf(" policies %x", sum.Sum(nil)[:10])
}
