package base

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/contract"
)

// LeftOut are the fields of an agreed version that its file does not have, as
// sorted JSON pointers below the claim's labels, annotations and spec: the schema's
// defaults and an admission webhook added them. Where a whole object is left out
// only that is named, and lists are compared with nothing: they are in the file or
// not. File is the file as it is written, without defaults; nil for one that says
// all of the version.
func LeftOut(file, agreed *contract.Claim) []string {
	if file == nil {
		return nil
	}
	var out []string
	var compare func(path string, file, agreed map[string]any)
	compare = func(path string, file, agreed map[string]any) {
		for key, value := range agreed {
			field := path + "/" + escape.Replace(key)
			in, ok := file[key]
			if !ok {
				out = append(out, field)
				continue
			}
			a, isObject := value.(map[string]any)
			f, isObjectInFile := in.(map[string]any)
			if isObject && isObjectInFile {
				compare(field, f, a)
			}
		}
	}
	compare("", parts(file), parts(agreed))
	slices.Sort(out)
	return out
}

// WithDefaultsOf is the base with what the spec of its object has and the base has not,
// where nobody edited that spec since: a schema got defaults that it did not have. The
// file leaves them out. The base is not changed.
func (b *Base) WithDefaultsOf(object *contract.Claim) *Base {
	var added []string
	for _, pointer := range LeftOut(b.Claim, object) {
		if strings.HasPrefix(pointer, "/spec/") {
			added = append(added, pointer)
		}
	}
	if len(added) == 0 {
		return b
	}
	out := *b
	out.Claim = (&Base{Claim: object, LeftOut: added}).Complete(b.Claim)
	out.LeftOut = slices.Concat(b.LeftOut, added)
	slices.Sort(out.LeftOut)
	return &out
}

// Complete is a file that was changed since, with the fields of the base that it
// leaves out and left out before: that they are not there is no edit, whatever the
// schema's defaults are now. A field that was in the file then, and is not now, stays
// away. The argument is not changed.
func (b *Base) Complete(file *contract.Claim) *contract.Claim {
	if len(b.LeftOut) == 0 {
		return file
	}
	whole := parts(file)
	for _, pointer := range b.LeftOut {
		complete(whole, parts(b.Claim), strings.Split(pointer, "/")[1:])
	}
	out := *file
	out.Spec, _ = whole["spec"].(map[string]any)
	out.Labels, out.Annotations = texts(whole["labels"]), texts(whole["annotations"])
	return &out
}

// complete adds to one object what another one has at a path. It adds no parents:
// where they went, the field went with them.
func complete(to, from map[string]any, path []string) {
	key := unescape.Replace(path[0])
	value, ok := from[key]
	if !ok {
		return
	}
	in, there := to[key]
	child, isObject := value.(map[string]any)
	switch {
	case !there && len(path) == 1:
		to[key] = runtime.DeepCopyJSONValue(value)
	case !there || !isObject:
	default:
		object, ok := in.(map[string]any)
		if !ok {
			return
		}
		if len(path) > 1 {
			complete(object, child, path[1:])
			return
		}
		// It was left out whole, and is in the file in part now.
		for key := range child {
			complete(object, child, []string{escape.Replace(key)})
		}
	}
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// parts is a claim as one object, which shares nothing with it.
func parts(c *contract.Claim) map[string]any {
	out := map[string]any{"spec": map[string]any{}}
	if c.Spec != nil {
		out["spec"] = runtime.DeepCopyJSON(c.Spec)
	}
	for key, m := range map[string]map[string]string{"labels": c.Labels, "annotations": c.Annotations} {
		values := make(map[string]any, len(m))
		for k, v := range m {
			values[k] = v
		}
		out[key] = values
	}
	return out
}

func texts(value any) map[string]string {
	m, _ := value.(map[string]any)
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k], _ = v.(string)
	}
	return out
}
