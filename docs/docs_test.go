// Package docs holds the documentation; its tests keep it from drifting away from
// the code.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = ".."

// walk is the page that walks through the code.
const walk = "how-a-change-travels.md"

var (
	inCode = regexp.MustCompile("`([^`\n]+)`")
	aFile  = regexp.MustCompile(`^[\w./-]+/[\w.-]+\.(go|yaml)$`)
	aName  = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$`)
)

// TestTheWalkNamesWhatIsThere checks that each file which the walk names exists,
// and that each name is declared in one of the files that its paragraph names.
func TestTheWalkNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile(walk)
	if err != nil {
		t.Fatal(err)
	}
	files, names := 0, 0
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		declared := map[string]bool{}
		var wanted []string
		hasGo := false
		for _, m := range inCode.FindAllStringSubmatch(paragraph, -1) {
			switch word := m[1]; {
			case aFile.MatchString(word):
				files++
				path := filepath.Join(root, word)
				if _, err := os.Stat(path); err != nil {
					t.Errorf("%s: there is no %s", walk, word)
				} else if strings.HasSuffix(word, ".go") {
					hasGo = true
					declare(t, path, declared)
				}
			case aName.MatchString(word):
				wanted = append(wanted, word)
			}
		}
		for _, name := range wanted {
			names++
			if hasGo && !declared[name] {
				t.Errorf("%s: %s is not declared in the files that are named beside it:\n%s", walk, name, paragraph)
			}
			if !hasGo {
				t.Errorf("%s: %s stands in a paragraph that names no file", walk, name)
			}
		}
	}
	if files < 30 || names < 60 {
		t.Errorf("only %d files and %d names were found: does the test still read the page?", files, names)
	}
}

// declare adds the names of a file: functions, Type.Method, types, values.
func declare(t *testing.T, path string, names map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			names[name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names[spec.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var (
	aLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	aHeading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug  = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestLinksLead checks that each link within the repository has something at its
// end.
func TestLinksLead(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(append(pages, decisions...), "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range aLink.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checked++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: there is no %s", page, m[1], target)
			} else if anchor != "" && !hasHeading(t, target, anchor) {
				t.Errorf("%s: link to %s: %s has no such heading", page, m[1], target)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d links were found", checked)
	}
}

func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range aHeading.FindAllStringSubmatch(string(text), -1) {
		if slug(m[1]) == anchor {
			return true
		}
	}
	return false
}

func slug(heading string) string {
	return strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
