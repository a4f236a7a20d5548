package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
				if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
					value, err := strconv.Unquote(s.Value)
					all[value] = err == nil
				}
				return true
			})
		})
	}
	return all
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
