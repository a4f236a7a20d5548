package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `package sample

const twice = 1 + 1

type list struct{ ok bool }

func (l *list) first(n int, names []string) (found string, ok bool) {
	for i := 0; i < n; i++ {
		switch {
		case names[i] == "x" && !l.ok ||
			len(names) >= twice:
			found = names[i] + "x"
			continue
		case l.ok:
			panic("no")
		}
		n = n - len(names)
	}
	return found, (n > 0)
}
`

func TestRewrite(t *testing.T) {
	m := &mutator{fset: token.NewFileSet(), info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}}
	f, err := parser.ParseFile(m.fset, "sample.go", sample, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(types.Config).Check("sample", m.fset, []*ast.File{f}, m.info); err != nil {
		t.Fatal(err)
	}
	rewritten := m.rewrite(f, []byte(sample))
	var got []string
	for _, m := range m.mutants {
		got = append(got, fmt.Sprintf("%d: %s", m.Pos.Line, m.What))
	}
	want := []string{
		"8: not i < n",
		"8: <= for <",
		"8: the opposite of i++",
		"10: && for ||",
		"10: || for &&",
		`10: not names[i] == "x"`,
		"10: not !l.ok",
		"11: not len(names) >= twice",
		"11: > for >=",
		"12: without found = names[i] + \"x\"",
		"13: without continue",
		"14: not l.ok",
		"17: without n = n - len(names)",
		"17: + for -",
		"19: not n > 0",
		"19: >= for >",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	// What holds them all is Go.
	var files []*ast.File
	help := strings.NewReplacer(`import "os"`, "", `os.Getenv("MUTANT")`, `""`).Replace(fmt.Sprintf(helpers, "sample"))
	for name, src := range map[string]string{"sample.go": string(rewritten), "helpers.go": help} {
		f, err := parser.ParseFile(m.fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		files = append(files, f)
	}
	if _, err := new(types.Config).Check("sample", m.fset, files, nil); err != nil {
		t.Errorf("%v\n%s", err, rewritten)
	}
}
