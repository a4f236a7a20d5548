package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// inCommand is an object that a kubectl command names, as kind/name or as kind name.
var inCommand = regexp.MustCompile(`\b(deploy|deployment|statefulset|pvc|poddisruptionbudget|clusterrolebinding|secret)[/ ]((?:gitbind|gitbridge)[a-z0-9:-]*|konnector)\b`)

// TestCommandsNameWhatIsInstalled checks that the objects which kubectl commands name are
// in the manifests, and that Secrets are there or in the code, which makes most of them.
func TestCommandsNameWhatIsInstalled(t *testing.T) {
	manifests, code := objects(t), literals(t)
	kinds := map[string]string{
		"deploy": "Deployment", "deployment": "Deployment", "statefulset": "StatefulSet", "pvc": "PersistentVolumeClaim",
		"poddisruptionbudget": "PodDisruptionBudget", "clusterrolebinding": "ClusterRoleBinding", "secret": "Secret",
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			_, command, ok := strings.Cut(line, "kubectl ")
			if !ok || strings.HasPrefix(command, "create ") {
				continue
			}
			for _, m := range inCommand.FindAllStringSubmatch(command, -1) {
				checked++
				kind := kinds[m[1]]
				name := strings.TrimSuffix(m[2], "-b") // the shard of the example
				if !manifests[kind+"/"+name] && (kind != "Secret" || !code[name]) {
					t.Errorf("%s:%d: there is no %s %s", page, i+1, kind, m[2])
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d names were found", checked)
	}
}

// TestThePodForFilesFitsTheBackend compares the pod of the page about backups with the
// Deployment, whose files it reads and writes.
func TestThePodForFilesFitsTheBackend(t *testing.T) {
	text, err := os.ReadFile("operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, manifest, _ := strings.Cut(string(text), "```yaml\n# files.yaml\n")
	manifest, _, _ = strings.Cut(manifest, "```")
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
		t.Fatal(err)
	}
	var backend appsv1.Deployment
	text, err = os.ReadFile(filepath.Join(root, "kustomize/deployments/backend/deployment.yaml"))
	if err == nil {
		err = yaml.UnmarshalStrict(text, &backend)
	}
	if err != nil {
		t.Fatal(err)
	}
	of := backend.Spec.Template.Spec
	if diff := cmp.Diff(of.SecurityContext, pod.Spec.SecurityContext); diff != "" {
		t.Errorf("the user (-backend +page):\n%s", diff)
	}
	for _, v := range pod.Spec.Volumes {
		if !slices.ContainsFunc(of.Volumes, func(o corev1.Volume) bool { return cmp.Equal(o, v) }) {
			t.Errorf("the backend has no volume %+v", v)
		}
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if !slices.Contains(of.Containers[0].VolumeMounts, m) {
			t.Errorf("the backend mounts nothing as %+v", m)
		}
	}
	if pod.Namespace != backend.Namespace || len(pod.Spec.Volumes) != 1 || len(pod.Spec.Containers[0].VolumeMounts) != 1 {
		t.Errorf("the pod is %+v", pod)
	}
}

// objects are those of the manifests, as Kind/name; certificates name their Secrets.
func objects(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	read(t, filepath.Join(root, "kustomize"), ".yaml", func(_ string, data []byte) {
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			var o struct {
				Kind     string
				Metadata struct{ Name string }
				Spec     struct{ SecretName string }
			}
			if yaml.Unmarshal([]byte(document), &o) == nil && o.Kind != "" {
				all[o.Kind+"/"+o.Metadata.Name] = true
				all["Secret/"+o.Spec.SecretName] = true
			}
		}
	})
	return all
}

// literals are the strings of the code.
func literals(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	inspect(t, func(n ast.Node) {
		if value, ok := literal(n); ok {
			all[value] = true
		}
	})
	return all
}

func literal(n ast.Node) (value string, ok bool) {
	s, ok := n.(*ast.BasicLit)
	if !ok || s.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(s.Value)
	return value, err == nil
}

// inspect shows all of the code that is no test.
func inspect(t *testing.T, show func(ast.Node)) {
	t.Helper()
	for _, dir := range []string{"backend", "gitbridge", "konnector"} {
		read(t, filepath.Join(root, dir), ".go", func(path string, data []byte) {
			if strings.HasSuffix(path, "_test.go") {
				return
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, data, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				show(n)
				return true
			})
		})
	}
}

// read gives all files of a folder with this ending.
func read(t *testing.T, dir, ending string, do func(path string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ending) {
			return err
		}
		data, err := os.ReadFile(path)
		do(path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	aMetric   = regexp.MustCompile(`\bgitbind_\w+`)
	itsLabel  = regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"([^"]*)"`)
	byLabels  = regexp.MustCompile(`by \(([^)]*)\)`)
	aWord     = regexp.MustCompile(`\w+`)
	ofBuckets = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// TestTheTableOfMetricsIsTheCodes compares names and labels.
func TestTheTableOfMetricsIsTheCodes(t *testing.T) {
	text, err := os.ReadFile("operating.md")
	if err != nil {
		t.Fatal(err)
	}
	code := metrics(t)
	table := map[string]bool{}
	for line := range strings.SplitSeq(string(text), "\n") {
		row := strings.Split(line, "|")
		if len(row) != 5 || !strings.HasPrefix(row[1], " `gitbind_") {
			continue
		}
		for _, name := range aMetric.FindAllString(row[1], -1) {
			table[name] = true
			labels, ok := code[name]
			if !ok {
				t.Errorf("the table has %s, the code has not", name)
			}
			for _, label := range labels {
				if !slices.Contains(aWord.FindAllString(row[2], -1), label) {
					t.Errorf("the table lacks the label %s of %s", label, name)
				}
			}
		}
	}
	for name := range code {
		if !table[name] {
			t.Errorf("the table lacks %s", name)
		}
	}
}

// TestAlertsAskForWhatThereIs checks the metrics, labels and values that alerts name.
func TestAlertsAskForWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("operating.md")
	if err != nil {
		t.Fatal(err)
	}
	code, words := metrics(t), literals(t)
	_, alerts, _ := strings.Cut(string(text), "```yaml\ngroups:\n")
	alerts, advice, _ := strings.Cut(alerts, "```")
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte("groups:\n"+alerts), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules.Groups) != 1 || len(rules.Groups[0].Rules) < 9 {
		t.Fatalf("the rules are %+v", rules)
	}
	for _, program := range []string{"gitbind-backend", "gitbridge"} {
		// What a program says of itself goes with it, and nothing is 0 then.
		if gone := fmt.Sprintf(`absent(gitbind_build_info{program=%q})`, program); !strings.Contains(alerts, gone) {
			t.Errorf("no alert says that there is no %s: %s", program, gone)
		}
	}
	for _, rule := range rules.Groups[0].Rules {
		if !strings.Contains(advice, "`"+rule.Alert+"`") {
			t.Errorf("%s: nothing says what to look at", rule.Alert)
		}
		labels := []string{"le"}
		for _, name := range aMetric.FindAllString(rule.Expr, -1) {
			of, ok := code[ofBuckets.ReplaceAllString(name, "")]
			if !ok {
				t.Errorf("%s: there is no %s", rule.Alert, name)
			}
			labels = append(labels, of...)
		}
		var used []string
		for _, m := range byLabels.FindAllStringSubmatch(rule.Expr, -1) {
			used = append(used, aWord.FindAllString(m[1], -1)...)
		}
		for _, m := range itsLabel.FindAllStringSubmatch(rule.Expr, -1) {
			used = append(used, m[1])
			for value := range strings.SplitSeq(m[2], "|") {
				if !words[value] {
					t.Errorf("%s: nothing in the code is called %s", rule.Alert, value)
				}
			}
		}
		for _, label := range used {
			if !slices.Contains(labels, label) {
				t.Errorf("%s: its metrics have no label %s", rule.Alert, label)
			}
		}
	}
}

// metrics are those that the code registers, with their labels: calls with the name, the
// help text and the labels.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"gitbind_build_info": {"program", "version", "goversion"}}
	inspect(t, func(n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return
		}
		name, ok := literal(call.Args[0])
		if !ok || !strings.HasPrefix(name, "gitbind_") {
			return
		}
		all[name] = nil
		for _, arg := range call.Args[2:] {
			if label, ok := literal(arg); ok {
				all[name] = append(all[name], label)
			}
		}
	})
	return all
}
