package serviceinfo

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/konnector/internal/cli/output"
)

// secret is one that has credentials.
type secret struct {
	key client.ObjectKey
	// of is the title of its claim.
	of, since string
	// data is nil where it could not be read.
	data    map[string][]byte
	words   []string
	kubectl string
}

// fact is something that a Secret says about a service.
type fact struct {
	name string
	// keys are those that say it, the first one counts: those of the Service Binding
	// specification, then what services have in their place.
	keys []string
	// env is the variable for a Pod, and pg that of PostgreSQL's clients.
	env, pg string
}

// facts are what is shown. The values of all other keys are not.
var facts = []fact{
	{"Type", []string{"type"}, "", ""},
	{"Provider", []string{"provider"}, "", ""},
	{"Host", []string{"host", "hostname", "endpoint", "instance_service"}, "SERVICE_HOST", "PGHOST"},
	{"Port", []string{"port"}, "SERVICE_PORT", "PGPORT"},
	{"Database", []string{"database", "dbname", "name"}, "SERVICE_DATABASE", "PGDATABASE"},
	{"User", []string{"username", "user"}, "SERVICE_USER", "PGUSER"},
}

// hidden are what is named, and not shown.
var hidden = []fact{
	{"Password", []string{"password"}, "SERVICE_PASSWORD", "PGPASSWORD"},
	{"URI", []string{"uri", "url"}, "SERVICE_URI", ""},
}

// keyOf is the key that says a fact; "" for none.
func (s secret) keyOf(f fact) string {
	for _, key := range f.keys {
		if len(s.data[key]) > 0 {
			return key
		}
	}
	return ""
}

// value is what a Secret says in clear: where no key does, its URI may.
func (s secret) value(f fact) string {
	if key := s.keyOf(f); key != "" {
		return string(s.data[key])
	}
	u := s.uri()
	switch {
	case u == nil:
		return ""
	case f.name == "Host":
		return u.Hostname()
	case f.name == "Port":
		return u.Port()
	case f.name == "Database":
		return strings.TrimPrefix(u.Path, "/")
	case f.name == "User":
		return u.User.Username()
	}
	return ""
}

// uri is nil where there is none, or one that cannot be read. Why is not said: the error
// has the URI in it.
func (s secret) uri() *url.URL {
	u, err := url.Parse(string(s.data[s.keyOf(hidden[1])]))
	if err != nil || u.Host == "" {
		return nil
	}
	return u
}

// maxShown is how long a value may be to be shown, in bytes.
const maxShown = 253

// isShown refuses values that may hold more than they should, as a URL for a host may
// hold a password, and those that cannot be printed.
func isShown(f fact, value string) bool {
	return value != "" && len(value) <= maxShown && output.Line(value) == value && (f.name == "User" || !strings.Contains(value, "@"))
}

// isPostgreSQL tells whether it is for PostgreSQL, by what it or its offer says.
func (s secret) isPostgreSQL() bool {
	words := append([]string{string(s.data["type"])}, s.words...)
	if u := s.uri(); u != nil {
		words = append(words, u.Scheme)
	}
	return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(strings.ToLower(w), "postgres") })
}

// psql is a line for a shell; "" where something is missing. What it says is given as
// variables: psql could take a part of an argument for options.
func (s secret) psql() string {
	password := s.keyOf(hidden[0])
	if !s.isPostgreSQL() || password == "" {
		return ""
	}
	var parts []string
	for _, f := range facts {
		switch value := s.value(f); {
		case f.pg == "":
		case isShown(f, value):
			parts = append(parts, f.pg+"="+quote(value))
		case value != "", f.name == "Host":
			return ""
		}
	}
	read := fmt.Sprintf(`%s get secret %s -n %s -o go-template='{{index .data "%s" | base64decode}}'`, s.kubectl, quote(s.key.Name), quote(s.key.Namespace), password)
	return strings.Join(append(parts, `PGPASSWORD="$(`+read+`)" psql`), " ")
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// quote is a word for a POSIX shell.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// variable is one of a Pod's, with the Secret's key that it is taken from.
type variable struct{ Name, Key string }

func (s secret) variables() []variable {
	var out []variable
	for _, f := range slices.Concat(facts, hidden) {
		name := f.env
		if s.isPostgreSQL() {
			name = cmp.Or(f.pg, f.env)
		}
		if key := s.keyOf(f); key != "" && name != "" {
			out = append(out, variable{name, key})
		}
	}
	return out
}

// pod is a part of a Pod. Names are quoted: some would be numbers.
var pod = template.Must(template.New("").Parse(`
In a Pod of namespace {{.Namespace}}, as variables and as files:

containers:
- name: app
  env:
{{- range .Variables}}
  - name: {{.Name}}
    valueFrom: {secretKeyRef: {name: "{{$.Name}}", key: "{{.Key}}"}}
{{- end}}
  # Where applications look that know the Service Binding specification.
  - {name: SERVICE_BINDING_ROOT, value: /bindings}
  volumeMounts:
  - {name: credentials, mountPath: "/bindings/{{.Name}}", readOnly: true}
volumes:
- name: credentials
  secret: {secretName: "{{.Name}}"}
`))

func (in Input) print(s secret) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\nSecret %s, of %s", s.key.Name, s.of)
	if at, err := time.Parse(time.RFC3339, s.since); err == nil {
		fmt.Fprintf(&b, ", unchanged for %s", duration.HumanDuration(max(in.Now().Sub(at), 0)))
	}
	b.WriteString("\n")
	line := func(name, text string) { fmt.Fprintf(&b, "  %-9s  %s\n", name, text) }
	for _, f := range facts {
		switch value := s.value(f); {
		case isShown(f, value):
			line(f.name, value)
		case value != "":
			line(f.name, "not shown: it is not one plain word")
		}
	}
	for _, f := range hidden {
		if key := s.keyOf(f); key != "" {
			line(f.name, "not shown: key "+key)
		}
	}
	if len(s.data) > 0 {
		line("Keys", strings.Join(slices.Sorted(maps.Keys(s.data)), ", "))
	}
	if psql := s.psql(); psql != "" {
		fmt.Fprintf(&b, "\nIn a shell from where the host can be reached; the password is not shown:\n\n%s\n", psql)
	}
	_ = pod.Execute(&b, struct {
		Namespace, Name string
		Variables       []variable
	}{s.key.Namespace, s.key.Name, s.variables()})
	_, _ = in.Terminal.Out.Write(b.Bytes())
}
