package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutant is one small change to a package.
type mutant struct {
	Pos  token.Position
	What string
}

// helpers is what the rewritten files of a package call. MUTANT is the number of the
// mutant that is active.
const helpers = `package %s

import "os"

var mutantNow = os.Getenv("MUTANT")

func mutated(n string) bool { return n == mutantNow }

func mutatedLogic(n string, and, a bool, b func() bool) bool {
	if and != mutated(n) {
		return a && b()
	}
	return a || b()
}

func mutatedValue[T any](n string, mutant, original T) T {
	if mutated(n) {
		return mutant
	}
	return original
}
`

// opposite are the operators that are exchanged.
var opposite = map[token.Token]token.Token{
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
}

// mutator rewrites the files of a package so that they hold all mutants at once, each
// of them asleep: the package is then compiled and linked once, not once for each.
type mutator struct {
	fset    *token.FileSet
	info    *types.Info
	mutants []mutant

	src   []byte
	edits []edit
}

// edit puts text in the place of src[from:to]. Of several at one place, those of
// lower order come first.
type edit struct {
	from, to, order int
	text            string
}

// rewrite gives the source of f with its mutants.
func (m *mutator) rewrite(f *ast.File, src []byte) []byte {
	m.src, m.edits = src, nil
	var parents []ast.Node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			return false
		}
		switch n := n.(type) {
		case ast.Expr:
			m.expression(n, parents)
		case ast.Stmt:
			m.statement(n, parents)
		}
		parents = append(parents, n)
		return true
	})
	slices.SortStableFunc(m.edits, func(a, b edit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return a.order - b.order
	})
	var out bytes.Buffer
	at := 0
	for _, e := range m.edits {
		out.Write(src[at:e.from])
		out.WriteString(e.text)
		at = e.to
	}
	out.Write(src[at:])
	return out.Bytes()
}

func (m *mutator) expression(e ast.Expr, parents []ast.Node) {
	tv := m.info.Types[e]
	if !tv.IsValue() || tv.Value != nil {
		return
	}
	depth := len(parents)
	if isBasic(tv.Type, types.IsBoolean) && decides(e, parents) {
		n := m.add(e.Pos(), "not %s", m.text(e))
		m.wrap(e, depth, "((", fmt.Sprintf(") != mutated(%s))", n))
	}
	b, ok := e.(*ast.BinaryExpr)
	if !ok || isArithmetic(b.Op) && (!isBasic(tv.Type, types.IsNumeric) || m.calls(b)) {
		return
	}
	other, ok := opposite[b.Op]
	if !ok {
		return
	}
	n := m.add(b.OpPos, "%s for %s", other, b.Op)
	x, y := m.text(b.X), m.text(b.Y)
	switch b.Op {
	case token.LAND, token.LOR:
		at := m.offset(b.OpPos)
		m.edits = append(m.edits, edit{at, at + 2, 0, ", func() bool { return ("})
		m.wrap(e, depth, fmt.Sprintf("mutatedLogic(%s, %v, ", n, b.Op == token.LAND), ") })")
	case token.LSS, token.GTR:
		m.wrap(e, depth, "(", fmt.Sprintf(" || mutated(%s) && (%s) == (%s))", n, x, y))
	case token.LEQ, token.GEQ:
		m.wrap(e, depth, "(", fmt.Sprintf(" && !(mutated(%s) && (%s) == (%s)))", n, x, y))
	default:
		m.wrap(e, depth, fmt.Sprintf("mutatedValue(%s, (%s) %s (%s), ", n, x, other, y), ")")
	}
}

// decides reports whether the negation of a truth value is a mutant of its own: that of
// a comparison, and of what an if, a for, a case or a return depends on.
func decides(e ast.Expr, parents []ast.Node) bool {
	var parent ast.Node
	for _, p := range slices.Backward(parents) {
		if _, ok := p.(*ast.ParenExpr); !ok {
			parent = p
			break
		}
	}
	if not, ok := parent.(*ast.UnaryExpr); ok && not.Op == token.NOT {
		return false // Its own negation is the same.
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return false
	case *ast.BinaryExpr:
		return e.Op != token.LAND && e.Op != token.LOR
	case *ast.UnaryExpr:
		return e.Op == token.NOT
	}
	switch p := parent.(type) {
	case *ast.BinaryExpr:
		return p.Op == token.LAND || p.Op == token.LOR
	case *ast.IfStmt, *ast.ForStmt, *ast.CaseClause, *ast.ReturnStmt:
		return true
	}
	return false
}

func (m *mutator) statement(s ast.Stmt, parents []ast.Node) {
	depth := len(parents)
	switch parent := parents[depth-1].(type) {
	case *ast.BlockStmt:
	case *ast.CaseClause:
	case *ast.CommClause:
		if parent.Comm == s {
			return
		}
	default:
		if inc, ok := s.(*ast.IncDecStmt); ok {
			m.incDec(inc)
		}
		return
	}
	switch s := s.(type) {
	case *ast.IncDecStmt:
		m.incDec(s)
		return
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok && m.text(call.Fun) == "panic" {
			return
		}
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE || m.text(s.Lhs[0]) == "_" {
			return
		}
	case *ast.BranchStmt:
		if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
			return
		}
	default:
		return
	}
	n := m.add(s.Pos(), "without %s", m.text(s))
	m.wrap(s, depth, fmt.Sprintf("if !mutated(%s) { ", n), " }")
}

func (m *mutator) incDec(s *ast.IncDecStmt) {
	if t := m.info.TypeOf(s.X); !types.Identical(t, types.Typ[types.Int]) {
		return
	}
	by := "mutatedValue(%s, -1, 1)"
	if s.Tok == token.DEC {
		by = "mutatedValue(%s, 1, -1)"
	}
	at := m.offset(s.TokPos)
	n := m.add(s.TokPos, "the opposite of %s", m.text(s))
	m.edits = append(m.edits, edit{at, at + 2, 0, " += " + fmt.Sprintf(by, n)})
}

// add notes a mutant and gives its number as a Go string.
func (m *mutator) add(at token.Pos, format string, args ...any) string {
	what, _, more := strings.Cut(fmt.Sprintf(format, args...), "\n")
	if more {
		what += " …"
	}
	m.mutants = append(m.mutants, mutant{m.fset.Position(at), what})
	return fmt.Sprintf("%q", fmt.Sprint(len(m.mutants)))
}

// wrap puts text around a node: what is wrapped around it later is within that, and
// around the nodes that it holds.
func (m *mutator) wrap(n ast.Node, depth int, before, after string) {
	from, to := m.offset(n.Pos()), m.offset(n.End())
	for i, e := range m.edits {
		if e.from == to && e.order == -depth && e.to == to {
			m.edits[i].text = after + e.text
			m.edits = append(m.edits, edit{from, from, depth, before})
			return
		}
	}
	m.edits = append(m.edits, edit{from, from, depth, before}, edit{to, to, -depth, after})
}

// calls reports whether an expression may do more than give a value.
func (m *mutator) calls(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			tv := m.info.Types[call.Fun]
			found = found || !tv.IsType() && !tv.IsBuiltin()
		}
		return !found
	})
	return found
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

func (m *mutator) text(n ast.Node) string {
	return string(m.src[m.offset(n.Pos()):m.offset(n.End())])
}

func isArithmetic(op token.Token) bool { return op == token.ADD || op == token.SUB }

func isBasic(t types.Type, info types.BasicInfo) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&info != 0
}
