package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/policy"
	"gitbind.dev/policies/bound"
	"gitbind.dev/policies/evaluator"
	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/env"
)

// policies measures what policies of an offer cost for a claim: where it is judged, and on
// its way.
func (r *run) policies(ctx context.Context) error {
	n := 50
	if r.Quick {
		n = 10
	}
	for _, many := range []int{0, 1, 5, 20} {
		with := fmt.Sprintf(" (policies: %d)", many)
		objects, err := planPolicies(many)
		if err != nil {
			return err
		}
		if err := r.offer(ctx, objects, many); err != nil {
			return err
		}
		if many > 0 {
			judged, err := judgeClaims(ctx, objects, 20*n)
			if err != nil {
				return err
			}
			r.add(figure.Of("a claim is judged"+with, r.size, "µs", judged, nil))
		}
		floor := &way{resource: stage.Floor, names: r.newNames("p", n)}
		subject := &way{resource: stage.Subject, names: r.newNames("p", n)}
		for i := range n {
			for _, w := range []*way{floor, subject} {
				if err := r.apply(ctx, w, i); err != nil {
					return err
				}
			}
		}
		r.add(figure.Of("kubectl apply → answered by the app cluster"+with, r.size, "ms", subject.answered, floor.answered))
		r.add(figure.Of("kubectl apply → claim on the control plane"+with, r.size, "ms", subject.apply, floor.apply))
	}
	return r.offer(ctx, nil, 0)
}

// refusedHere is a plan that of so many policies only the last one refuses that an app cluster
// has, and refusedThere one that only those refuse that it has no room for.
func refusedHere(many int) string  { return fmt.Sprintf("refused-here-%d", many) }
func refusedThere(many int) string { return fmt.Sprintf("refused-there-%d", many) }

// planPolicies are so many times the library's, each with a ConfigMap of its own.
func planPolicies(many int) (objects []runtime.RawExtension, err error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "policies/library/plan-allow-list/policy.yaml"))
	if err != nil {
		return nil, err
	}
	text = bytes.ReplaceAll(text, []byte("{name: plan-allow-list,"), []byte("{name: plan-allow-list, namespace: gitbind-system,"))
	here := min(many, bound.Places)
	for i := range many {
		plans := "postgresql-single-nano"
		if i < here {
			plans += ", " + refusedThere(many)
		}
		if i < here-1 {
			plans += ", " + refusedHere(many)
		}
		all := bytes.ReplaceAll(text, []byte("plan-allow-list"), fmt.Appendf(nil, "plans-%02d", i+1))
		all = fmt.Appendf(all, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: plans-%02d, namespace: gitbind-system}, data: {plans: '%s'}}\n", i+1, plans)
		for document := range bytes.SplitSeq(all, []byte("---\n")) {
			raw, err := yaml.YAMLToJSON(document)
			if err != nil {
				return nil, err
			}
			objects = append(objects, runtime.RawExtension{Raw: raw})
		}
	}
	return objects, nil
}

// offer gives the offer these policies, and waits until app cluster and bridge judge by them.
func (r *run) offer(ctx context.Context, objects []runtime.RawExtension, many int) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"policies": objects}})
	if err != nil {
		return err
	}
	templates := r.Control.Resource(v1alpha1.GroupVersion.WithResource("apiserviceexporttemplates"))
	if _, err := templates.Patch(ctx, "postgresql", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	claims := r.App.Resource(stage.Subject).Namespace(stage.Namespace(0))
	ordered := func(name, plan string) *unstructured.Unstructured {
		o := stage.Object(stage.Subject, stage.Namespace(0), name)
		o.Object["spec"].(map[string]any)["plan"] = plan
		return o
	}
	if err := env.Await(shortTime, func() error {
		_, err := claims.Create(ctx, ordered("refused", refusedHere(many)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case many == 0 && err != nil:
			return fmt.Errorf("the app cluster still judges by policies: %w", err)
		case many > 0 && err == nil:
			return fmt.Errorf("the app cluster does not judge by %d policies", many)
		case many > 0 && !strings.Contains(err.Error(), refusedThere(many)):
			return fmt.Errorf("the app cluster judges by others than %d policies: %w", many, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if many > bound.Places {
		name := r.newNames("p", 1)[0]
		if _, err := claims.Create(ctx, ordered(name, refusedThere(many)), metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := env.Await(shortTime, func() error {
			o, err := claims.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if message, _, _ := unstructured.NestedString(o.Object, "status", "gitbind", "message"); !strings.Contains(message, "denied request") {
				return fmt.Errorf("the bridge does not judge by %d policies: it says %q", many, message)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return r.Quiet(ctx, still)
}

// judgeClaims judges a claim n times as the bridge does, in microseconds.
func judgeClaims(ctx context.Context, objects []runtime.RawExtension, n int) (judged figure.Samples, err error) {
	set, err := policy.Compile(objects)
	if err != nil {
		return nil, err
	}
	change := evaluator.Change{Resource: stage.Subject, Object: stage.Object(stage.Subject, stage.Namespace(0), "judged")}
	for range n {
		began := time.Now()
		verdict, err := set.Judge(ctx, change)
		took := time.Since(began)
		switch {
		case err != nil:
			return nil, err
		case !verdict.Allowed():
			return nil, fmt.Errorf("judge a claim: %v", verdict.Denials)
		}
		judged = append(judged, float64(took)/float64(time.Microsecond))
	}
	return judged, nil
}
