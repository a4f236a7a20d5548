package contract

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxNameLength is the longest name of a claim, in bytes: below what the
// control plane's names leave room for.
const MaxNameLength = 200

const (
	root       = "bindings"
	claimsDir  = "claims"
	exportFile = "export.yaml"
	suffix     = ".yaml"
	refusedDir = "refused"
	inputsDir  = "inputs"

	requestFile = "request.yaml"
)

// Root is the folder below which all claims lie, on either branch.
const Root = root

// ErrNotClaimPath says that a path is not that of a claim.
var ErrNotClaimPath = errors.New("not the path of a claim: want bindings/<plural>.<group>/claims/<namespace>/<name>.yaml")

// Key names one claim of one app cluster.
type Key struct {
	// Binding is the bound API, "<plural>.<group>".
	Binding   string
	Namespace string
	Name      string
}

// Path is where the claim lies on main, and its ClaimStatus on status.
func (k Key) Path() string {
	return ClaimsPath(k.Binding) + "/" + k.Namespace + "/" + k.Name + suffix
}

// InputsPath is where what travels with the claim to the control plane lies on main.
func (k Key) InputsPath() string { return InputsPath(k.Binding, k.Namespace) + "/" + k.Name + suffix }

// String is "<namespace>/<name> (<plural>.<group>)", as commit messages have it.
func (k Key) String() string { return k.Namespace + "/" + k.Name + " (" + k.Binding + ")" }

// Group is the API group of the binding.
func (k Key) Group() string { return BindingGroup(k.Binding) }

// Validate says whether each part can be a part of a path and of an object.
func (k Key) Validate() error {
	if err := ValidateBinding(k.Binding); err != nil {
		return err
	}
	switch {
	case len(validation.IsDNS1123Label(k.Namespace)) > 0:
		return fmt.Errorf("%q cannot be a namespace: want at most 63 lower-case letters, digits and \"-\"", k.Namespace)
	case len(k.Name) > MaxNameLength:
		return fmt.Errorf("the name has %d characters: the longest has %d", len(k.Name), MaxNameLength)
	case len(validation.IsDNS1123Subdomain(k.Name)) > 0:
		return fmt.Errorf("%q cannot be a name: want lower-case letters, digits, \"-\" and \".\"", k.Name)
	}
	return nil
}

// ParsePath is the inverse of Key.Path. Its error is ErrNotClaimPath when the
// path has another shape, or says which part is not valid.
func ParsePath(path string) (Key, error) {
	k, ok := parse(path, claimsDir)
	if !ok {
		return Key{}, ErrNotClaimPath
	}
	return k, k.Validate()
}

// BindingOf is the binding of a claim's path, "" of any other path.
func BindingOf(path string) string {
	key, err := ParsePath(path)
	if err != nil {
		return ""
	}
	return key.Binding
}

// ParseInputsPath is the inverse of Key.InputsPath; false for any other path.
func ParseInputsPath(path string) (Key, bool) {
	k, ok := parse(path, inputsDir)
	return k, ok && k.Validate() == nil
}

// parse reads a path in one of the folders that have one for each namespace.
func parse(path, dir string) (Key, bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 5 || parts[0] != root || parts[2] != dir {
		return Key{}, false
	}
	name, ok := strings.CutSuffix(parts[4], suffix)
	return Key{Binding: parts[1], Namespace: parts[3], Name: name}, ok
}

// ValidateBinding says whether a name is "<plural>.<group>".
func ValidateBinding(name string) error {
	plural, group, ok := strings.Cut(name, ".")
	if !ok || len(validation.IsDNS1123Label(plural)) > 0 || len(validation.IsDNS1123Subdomain(group)) > 0 {
		return fmt.Errorf("binding %q: want <plural>.<group>, for example postgresqlinstances.anynines.com", name)
	}
	return nil
}

func isName(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }

// BindingGroup is the API group in a binding's name.
func BindingGroup(binding string) string {
	_, group, _ := strings.Cut(binding, ".")
	return group
}

// BindingPath is the folder of a binding, on either branch.
func BindingPath(binding string) string { return root + "/" + binding }

// ClaimsPath is the folder of a binding's claims, on either branch.
func ClaimsPath(binding string) string { return BindingPath(binding) + "/" + claimsDir }

// InputsPath is the folder of what travels to the control plane with a binding's claims in
// a namespace.
func InputsPath(binding, namespace string) string {
	return BindingPath(binding) + "/" + inputsDir + "/" + namespace
}

// ExportPath is where the APIServiceExport of a binding lies on status.
func ExportPath(binding string) string { return BindingPath(binding) + "/" + exportFile }

// RequestPath is where the Request for a binding lies on main, and the answer to
// it on status.
func RequestPath(binding string) string { return BindingPath(binding) + "/" + requestFile }

// ParseRequestPath is the inverse of RequestPath; false for any other path.
func ParseRequestPath(path string) (binding string, ok bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 3 || parts[0] != root || parts[2] != requestFile || ValidateBinding(parts[1]) != nil {
		return "", false
	}
	return parts[1], true
}

// StatusPath is where status says what became of a path of main: the same path
// for a claim's and a request's, refused/<path> for any other, and
// refused/sha256-<hash> where that cannot be written. Problem.File holds the path
// itself, if it is not too long.
func StatusPath(path string) string {
	if _, err := ParsePath(path); err == nil {
		return path
	}
	if _, ok := ParseRequestPath(path); ok {
		return path
	}
	if !ordinary(path) {
		return fmt.Sprintf("%s/sha256-%x", refusedDir, sha256.Sum256([]byte(path)))
	}
	return refusedDir + "/" + path
}

// ordinary reports whether every Git client can check a path out.
func ordinary(path string) bool {
	const maxPath, maxComponent, maxDepth = 2000, 200, 50
	if len(path) > maxPath || strings.Count(path, "/") > maxDepth || !utf8.ValidString(path) {
		return false
	}
	for component := range strings.SplitSeq(path, "/") {
		switch lower := strings.ToLower(component); {
		case component == "", component == ".", component == "..", len(component) > maxComponent,
			strings.HasPrefix(lower, ".git"), strings.HasPrefix(lower, "git~"),
			strings.ContainsFunc(component, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`\:*?"<>|`, r) }):
			return false
		}
	}
	return true
}

// RefusedRoot is the folder on status with the verdicts on files of main that
// are no claims.
const RefusedRoot = refusedDir

// MainAnswerPath is where status says what is wrong with main as a whole: that it is
// more than is read, or has too many files to be answered one by one.
const MainAnswerPath = refusedDir + "/main"

// IsReserved reports whether a path below Root is a part of the contract that
// has no answer of its own: all in the folder of inputs, which the claim's answer is about.
func IsReserved(path string) bool {
	parts := strings.Split(path, "/")
	return len(parts) >= 3 && parts[0] == root && parts[2] == inputsDir
}
