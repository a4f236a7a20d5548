package contract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"
)

// MaxFileSize is the largest file that is read as a claim, in bytes.
const MaxFileSize = 1 << 20

const (
	// maxDepth is how deep a claim may be nested: more than any schema needs, less
	// than hurts.
	maxDepth = 64
	// maxValues is how many values a claim may have, and maxSeparators how many characters that
	// may separate values, also in texts: more take too much memory to find out.
	maxValues     = 20_000
	maxSeparators = 100_000
)

// File is a file on a branch.
type File struct {
	// Path is relative to the repository's root.
	Path string
	// Mode is Git's mode of the tree entry, for example 0o100644; 0 is an ordinary file.
	Mode uint32
	// Size in bytes. It counts where it is larger than len(Data), as for a file that is
	// too large to be read.
	Size int64
	Data []byte
}

// Git's modes of tree entries.
const (
	ModeRegular    uint32 = 0o100644
	ModeExecutable uint32 = 0o100755
	ModeSymlink    uint32 = 0o120000
	ModeSubmodule  uint32 = 0o160000
)

// Decode reads a claim file. The kind is the bound API's; with "" any kind is
// taken. The error is always a *Problem; no problem of one file says anything
// of another.
func Decode(f File, kind string) (*Claim, error) {
	d := decoder{file: f.Path, noun: "claim", remove: "to remove the service, remove the file", fields: "apiVersion, kind, metadata, spec"}
	key, err := ParsePath(f.Path)
	if err != nil {
		return nil, d.problem(0, "%s", err)
	}
	doc, object, err := d.object(f)
	if err != nil {
		return nil, err
	}
	return d.claim(key, kind, doc, object)
}

// NameIn is the name that the object in a file says it has, wherever the file lies; false where
// there is none, or it cannot be read.
func NameIn(f File) (namespace, name string, ok bool) {
	_, object, err := decoder{file: f.Path}.object(f)
	if err != nil {
		return "", "", false
	}
	meta, _ := object["metadata"].(map[string]any)
	namespace, _ = meta["namespace"].(string)
	name, ok = meta["name"].(string)
	return namespace, name, ok
}

// decoder reads one file.
type decoder struct {
	file string
	// noun is what the file should hold, remove how to take back what it says,
	// and fields are those that it should have: in words.
	noun, remove, fields string
}

// object reads a file as one plain object.
func (d decoder) object(f File) (*yaml.Node, map[string]any, error) {
	if err := d.readable(f); err != nil {
		return nil, nil, err
	}
	if separators(f.Data) > maxSeparators {
		return nil, nil, d.problem(0, "%s", tooManySeparators)
	}
	var doc *yaml.Node
	var object map[string]any
	err := whileDecoding(f.Data, func() (err error) {
		if doc, err = d.document(f.Data); err != nil {
			return err
		}
		if values(doc) > maxValues {
			return d.problem(0, "%s", tooManyValues)
		}
		if err := k8syaml.UnmarshalStrict(f.Data, &object, preserveInts); err != nil {
			return d.yamlError(err)
		}
		return nil
	})
	return doc, object, err
}

func (d decoder) problem(line int, format string, args ...any) *Problem {
	return &Problem{File: d.file, Line: line, Reason: fmt.Sprintf(format, args...)}
}

func (d decoder) readable(f File) error {
	switch f.Mode {
	case ModeRegular, 0:
	case ModeExecutable:
		return d.problem(0, "is executable: commit it as an ordinary file (git update-index --chmod=-x)")
	case ModeSymlink:
		return d.problem(0, "is a symbolic link: commit the manifest itself")
	case ModeSubmodule:
		return d.problem(0, "is a submodule: commit the manifest itself")
	default:
		return d.problem(0, "has mode %o: commit it as an ordinary file", f.Mode)
	}
	switch {
	case max(f.Size, int64(len(f.Data))) > MaxFileSize:
		// How many more is not always known.
		return d.problem(0, "has more than %d bytes, which is the most: make it smaller", MaxFileSize)
	case !utf8.Valid(f.Data):
		return d.problem(line(f.Data, invalidAt(f.Data)), "is not UTF-8 text")
	case bytes.HasPrefix(f.Data, []byte("\xef\xbb\xbf")):
		return d.problem(1, "starts with a byte order mark: save it as UTF-8 without one")
	case len(bytes.TrimSpace(f.Data)) == 0:
		return d.problem(0, "is empty: %s", d.remove)
	}
	return nil
}

// document checks the YAML before anything expands it, and gives its root.
func (d decoder) document(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, d.problem(0, "holds no object: %s", d.remove)
		}
		return nil, d.yamlError(err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, d.problem(more.Line, "holds a second document: one %s in a file", d.noun)
	case !errors.Is(err, io.EOF):
		return nil, d.yamlError(err)
	}
	if err := d.walk(&doc, 0); err != nil {
		return nil, err
	}
	n := doc.Content[0]
	if n.Kind != yaml.MappingNode {
		return nil, d.problem(n.Line, "is not an object: want %s", d.fields)
	}
	return n, nil
}

func (d decoder) walk(n *yaml.Node, depth int) error {
	switch {
	case depth > maxDepth:
		return d.problem(n.Line, "is nested deeper than %d levels", maxDepth)
	case n.Kind == yaml.AliasNode:
		return d.problem(n.Line, "uses the alias *%s: write the value out", n.Value)
	case n.Anchor != "":
		return d.problem(n.Line, "uses the anchor &%s: write the value out where it is needed", n.Anchor)
	case n.Tag != "" && n.Style&yaml.TaggedStyle != 0:
		return d.problem(n.Line, "uses the tag %s: write a plain value", n.Tag)
	}
	seen := map[string]bool{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch {
			case c.Kind != yaml.ScalarNode:
				return d.problem(c.Line, "has a key that is no string")
			case c.Tag == "!!merge":
				return d.problem(c.Line, "uses the merge key <<: write the values out")
			case seen[c.Value]:
				return d.problem(c.Line, "has the key %q twice", c.Value)
			}
			seen[c.Value] = true
		}
		if err := d.walk(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

var (
	tooManySeparators = fmt.Sprintf("has more than %d commas, colons, dashes, brackets and ends of lines: make it smaller", maxSeparators)
	tooManyValues     = fmt.Sprintf("has more than %d values: make it smaller", maxValues)
)

// TooLarge says why a claim's file, which was encoded, would not be read: "" where it is.
func TooLarge(data []byte) string {
	switch n := separators(data); {
	case len(data) > MaxFileSize:
		return fmt.Sprintf("has %d bytes, the most is %d", len(data), MaxFileSize)
	case n > maxSeparators:
		return tooManySeparators
	case 2*n <= maxValues:
		return ""
	}
	var doc yaml.Node
	if err := whileDecoding(data, func() error { return yaml.Unmarshal(data, &doc) }); err == nil && values(&doc) > maxValues+1 {
		return tooManyValues
	}
	return ""
}

// values is how many values a document has, with its keys.
func values(n *yaml.Node) int {
	all := 1
	for _, c := range n.Content {
		all += values(c)
	}
	return all
}

var yamlLine = regexp.MustCompile(`line (\d+): ?`)

// yamlError turns a parser's error into a problem at its line. The parsers
// give the line only in their text.
func (d decoder) yamlError(err error) *Problem {
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	n := 0
	if m := yamlLine.FindStringSubmatch(reason); m != nil {
		n, _ = strconv.Atoi(m[1])
		reason = strings.Replace(reason, m[0], "", 1)
	}
	return d.problem(n, "is not valid YAML: %s", strings.Join(strings.Fields(reason), " "))
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

func line(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte("\n")) }
