package contract

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"golang.org/x/sync/semaphore"
	k8syaml "sigs.k8s.io/yaml"
)

const (
	// separatorBytes is what decoding takes for each separator of a file, in bytes, and decodingBytes
	// what all files that are decoded at once may take in the process. What takes less than
	// smallBytes, as most files do, does not wait for others.
	separatorBytes = 900
	decodingBytes  = 128 << 20
	smallBytes     = 1 << 20
)

// decoding bounds the memory for decoding: a file of 1 MiB may take 225 MiB meanwhile.
var decoding = semaphore.NewWeighted(decodingBytes)

// whileDecoding decodes some YAML when there is memory for it.
func whileDecoding(data []byte, decode func() error) error {
	if weight := min(int64(separators(data))*separatorBytes, decodingBytes); weight > smallBytes {
		// It waits for others that decode, and these wait for nothing else.
		_ = decoding.Acquire(context.Background(), weight)
		defer decoding.Release(weight)
	}
	return decode()
}

// separators is how many characters may separate values in some YAML. Each comes with two values
// at most, as a comma in {a,b} does.
func separators(data []byte) int {
	n := 1
	for _, c := range data {
		switch c {
		case '\n', '\r', ',', ':', '-', '?', '[', '{':
			n++
		}
	}
	return n
}

// Unmarshal reads YAML that a program wrote, into what has its fields. Unknown fields are left out,
// as a newer version may have added them. Nothing need be known of who wrote it: what takes much
// memory waits for its turn, and aliases, by which a few bytes are gigabytes when they are expanded,
// are an error.
func Unmarshal(data []byte, into any) error {
	return unmarshal(data, func() error { return k8syaml.Unmarshal(data, into, preserveInts) })
}

// UnmarshalStrict is Unmarshal where unknown fields are an error.
func UnmarshalStrict(data []byte, into any) error {
	return unmarshal(data, func() error { return k8syaml.UnmarshalStrict(data, into, preserveInts) })
}

func unmarshal(data []byte, decode func() error) error {
	return whileDecoding(data, func() error {
		if mayHaveAliases(data) {
			if err := refuseAliases(data); err != nil {
				return err
			}
		}
		return decode()
	})
}

func refuseAliases(data []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	if n := aliasIn(&doc); n != nil {
		return fmt.Errorf("line %d has an anchor or an alias", n.Line)
	}
	return nil
}

// aliasIn is the first value that has an anchor, or is an alias; nil for none.
func aliasIn(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return n
	}
	for _, c := range n.Content {
		if found := aliasIn(c); found != nil {
			return found
		}
	}
	return nil
}

// mayHaveAliases reports whether an anchor or an alias may begin somewhere in some YAML of any
// encoding. Within a word none does.
func mayHaveAliases(data []byte) bool {
	for at := 0; ; at++ {
		i := bytes.IndexAny(data[at:], "&*")
		if i < 0 {
			return false
		}
		if at += i; at == 0 || !strings.ContainsRune(wordCharacters, rune(data[at-1])) {
			return true
		}
	}
}

const wordCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./"
