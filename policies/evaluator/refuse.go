package evaluator

import (
	"fmt"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"gitbind.dev/gitbridge/contract"
)

// use is what an expression uses of what it is given.
type use struct {
	// fields are paths into object and oldObject, as "spec.plan".
	fields []string
	// variables are the names of the policy's variables.
	variables []string
}

var (
	requestFields = []string{"name", "namespace", "operation", "kind", "resource", "subResource", "requestKind", "requestResource", "requestSubResource"}
	objectFields  = []string{"apiVersion", "kind", "metadata", "spec"}
	metaFields    = []string{"name", "namespace", "labels", "annotations"}
)

// examine finds what a parsed expression uses. Its error names what not every gate knows.
func examine(ast *celast.AST) (use, error) {
	var u use
	for _, ident := range celast.MatchDescendants(celast.NavigateAST(ast), celast.KindMatcher(celast.IdentKind)) {
		path := pathFrom(ident)
		var err error
		switch root := ident.AsIdent(); root {
		case "namespaceObject":
			err = fmt.Errorf("uses namespaceObject: a namespace's labels and annotations are not in Git; request.namespace is its name")
		case "authorizer":
			err = fmt.Errorf("uses authorizer: whose change it is, is known only where it is made")
		case "request":
			err = path.checkRequest()
		case "params":
			err = path.checkParams()
		case "object", "oldObject":
			if err = path.checkObject(root); err == nil && len(path.fields) > 0 {
				u.fields = append(u.fields, strings.Join(path.fields, "."))
			}
		case "variables":
			if len(path.fields) > 0 {
				u.variables = append(u.variables, path.fields[0])
			}
		}
		if err != nil {
			return u, err
		}
	}
	return u, nil
}

// path is how an expression goes on from a name: by which fields, and what it does with
// what is there.
type path struct {
	fields []string
	// tested says that it is asked only whether it is there, or null.
	tested bool
	// keyed says that keys of it are asked for, which are not known before it runs.
	keyed bool
}

// pathFrom follows the fields that are taken of a name.
func pathFrom(n celast.NavigableExpr) path {
	var p path
	for {
		parent, ok := n.Parent()
		if !ok {
			return p
		}
		switch parent.Kind() {
		case celast.SelectKind:
			p.fields = append(p.fields, parent.AsSelect().FieldName())
			if parent.AsSelect().IsTestOnly() {
				p.tested = true
				return p
			}
		case celast.CallKind:
			if !p.call(n, parent.AsCall()) {
				return p
			}
		default:
			return p
		}
		n = parent
	}
}

// call goes through a call that takes a value, and says whether the path goes on in
// its result.
func (p *path) call(n celast.NavigableExpr, c celast.CallExpr) (on bool) {
	args := c.Args()
	if c.IsMemberFunction() {
		// It is there, or what is given in its place.
		if c.Target().ID() != n.ID() {
			return false
		}
		p.tested = c.FunctionName() == "hasValue"
		return c.FunctionName() == "orValue" || c.FunctionName() == "value"
	}
	if len(args) != 2 {
		return false
	}
	first := args[0].ID() == n.ID()
	switch c.FunctionName() {
	case operators.OptSelect, operators.Index, operators.OptIndex:
		key, literal := text(args[1])
		switch {
		case !first:
			return false
		case !literal:
			p.keyed = true
			return false
		}
		p.fields = append(p.fields, key)
		return true
	case operators.In, operators.OldIn:
		if key, literal := text(args[0]); !first && literal {
			p.fields = append(p.fields, key)
		} else {
			p.keyed = !first
		}
	case operators.Equals, operators.NotEquals:
		p.tested = isNull(args[0]) || isNull(args[1])
	}
	return false
}

func text(e celast.Expr) (string, bool) {
	if e.Kind() != celast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

func isNull(e celast.Expr) bool {
	return e.Kind() == celast.LiteralKind && e.AsLiteral().Type() == types.NullType
}

func (p path) checkRequest() error {
	switch {
	case len(p.fields) == 0:
		return fmt.Errorf("uses request as a whole: of it, every gate knows %s", strings.Join(requestFields, ", "))
	case !slices.Contains(requestFields, p.fields[0]):
		return fmt.Errorf("uses request.%s: of request, every gate knows %s", p.fields[0], strings.Join(requestFields, ", "))
	}
	return nil
}

// checkParams lets all of a parameter pass that people write.
func (p path) checkParams() error {
	if len(p.fields) == 0 || p.fields[0] != "metadata" {
		if len(p.fields) == 0 && !p.tested && !p.keyed {
			return fmt.Errorf("uses params as a whole: name the fields of it")
		}
		return nil
	}
	return p.checkMetadata("params")
}

func (p path) checkObject(root string) error {
	switch {
	case len(p.fields) == 0 && p.tested:
		return nil
	case len(p.fields) == 0:
		return fmt.Errorf("uses %s as a whole: an API server adds to it what is not in Git; name the fields, as %s.spec", root, root)
	case p.fields[0] == "metadata":
		return p.checkMetadata(root)
	case !slices.Contains(objectFields, p.fields[0]):
		return fmt.Errorf("uses %s.%s: of a claim, every gate knows %s", root, p.fields[0], strings.Join(objectFields, ", "))
	}
	return nil
}

func (p path) checkMetadata(root string) error {
	switch {
	case len(p.fields) == 1 && p.tested:
		return nil
	case len(p.fields) == 1:
		return fmt.Errorf("uses %s.metadata as a whole: name the fields, of which every gate knows %s", root, strings.Join(metaFields, ", "))
	case !slices.Contains(metaFields, p.fields[1]):
		return fmt.Errorf("uses %s.metadata.%s, which an API server sets: of metadata, every gate knows %s", root, p.fields[1], strings.Join(metaFields, ", "))
	case root == "params", p.fields[1] != "labels" && p.fields[1] != "annotations":
		return nil
	case len(p.fields) == 2 && !p.tested && !p.keyed:
		return fmt.Errorf("uses %s.metadata.%s as a whole: not all of them are in Git; name the keys", root, p.fields[1])
	case len(p.fields) > 2 && !contract.MayTravel(p.fields[2]):
		return fmt.Errorf("uses %s.metadata.%s[%q], which belongs to a tool or a server and is never in Git", root, p.fields[1], p.fields[2])
	}
	return nil
}
