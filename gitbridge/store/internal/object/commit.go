package object

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Person is an author or committer, with the time of their act.
type Person struct {
	Name, Email string
	When        time.Time
}

// CommitData is a decoded commit.
type CommitData struct {
	Tree              ID
	Parents           []ID
	Author, Committer Person
	Message           string
}

// Encode writes a commit object: the same bytes for the same data.
func (c CommitData) Encode() Object {
	return commitObject(c.headers(), "", c.Message)
}

// EncodeSigned writes a commit object with a signature of what it is without.
func (c CommitData) EncodeSigned(sign func(commit []byte) (signature string)) Object {
	return commitObject(c.headers(), sign(c.Encode().Data), c.Message)
}

// signatureHeader has a commit's signature; its further lines begin with a space.
const signatureHeader = "gpgsig"

func commitObject(headers, signature, message string) Object {
	var b bytes.Buffer
	b.WriteString(headers)
	if signature != "" {
		b.WriteString(signatureHeader + " " + strings.ReplaceAll(strings.TrimSuffix(signature, "\n"), "\n", "\n ") + "\n")
	}
	b.WriteString("\n" + message)
	return Object{ID: Sum(Commit, b.Bytes()), Kind: Commit, Data: b.Bytes()}
}

// Signed gives a commit's signature, "" for none, and what it is of: the commit without it.
// It reads the first signature, as git does.
func Signed(data []byte) (commit []byte, signature string) {
	headers, message, _ := bytes.Cut(data, []byte("\n\n"))
	var kept, lines []string
	inside := false
	for line := range strings.SplitSeq(string(headers), "\n") {
		rest, begins := strings.CutPrefix(line, signatureHeader+" ")
		switch {
		case begins && lines == nil:
			inside, lines = true, []string{rest}
		case inside && strings.HasPrefix(line, " "):
			lines = append(lines, line[1:])
		default:
			inside = false
			kept = append(kept, line)
		}
	}
	if lines == nil {
		return data, ""
	}
	return []byte(strings.Join(kept, "\n") + "\n\n" + string(message)), strings.Join(lines, "\n") + "\n"
}

// headers are those without a signature, each with its line's end.
func (c CommitData) headers() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", c.Tree)
	for _, p := range c.Parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	fmt.Fprintf(&b, "author %s\n", c.Author)
	fmt.Fprintf(&b, "committer %s\n", c.Committer)
	return b.String()
}

func (p Person) String() string {
	return fmt.Sprintf("%s <%s> %d +0000", Clean(p.Name, "unknown"), Clean(p.Email, ""), p.When.Unix())
}

// Clean makes a name or an address that cannot break out of its place in a
// commit: without control characters and angle brackets.
func Clean(s, otherwise string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '<' || r == '>' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	// What Git itself takes off both ends.
	if s = strings.Trim(s, " .,:;\"\\'"); s == "" {
		return otherwise
	}
	return s
}

// DecodeCommit reads a commit. What Git does not need (the signature, odd
// lines for people) is passed over.
func DecodeCommit(data []byte) (CommitData, error) {
	var c CommitData
	text, last := string(data), ""
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if line == "" {
			c.Message = text
			break
		}
		key, value, _ := strings.Cut(line, " ")
		// Git reads the tree and the parents only where it wrote them.
		if (key == "tree") != (last == "") || key == "parent" && last != "tree" && last != "parent" {
			return CommitData{}, malformed("commit line %.20q", line)
		}
		if err := c.header(key, value); err != nil {
			return CommitData{}, err
		}
		last = line[:max(len(key), 1)]
	}
	if c.Tree.IsZero() {
		return CommitData{}, malformed("commit without a tree")
	}
	return c, nil
}

func (c *CommitData) header(key, value string) (err error) {
	switch key {
	case "tree":
		c.Tree, err = ParseID(value)
	case "parent":
		var id ID
		id, err = ParseID(value)
		c.Parents = append(c.Parents, id)
	case "author":
		c.Author = parsePerson(value)
	case "committer":
		c.Committer = parsePerson(value)
	}
	if err != nil {
		return malformed("commit's %s: %v", key, err)
	}
	return nil
}

// parsePerson takes "Name <email> seconds zone" and gives what it finds.
func parsePerson(s string) (p Person) {
	open, end := strings.IndexByte(s, '<'), strings.LastIndexByte(s, '>')
	if open < 0 || end < open {
		p.Name = s
		return p
	}
	p.Name, p.Email = strings.TrimSpace(s[:open]), s[open+1:end]
	when, zone, _ := strings.Cut(strings.TrimSpace(s[end+1:]), " ")
	seconds, err := strconv.ParseInt(when, 10, 64)
	// Beyond this, time.Time no longer formats as a date.
	if err != nil || seconds < 0 || seconds > 1<<37 {
		return p
	}
	p.When = time.Unix(seconds, 0).In(parseZone(zone))
	return p
}

func parseZone(s string) *time.Location {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) != 5 || n < -2400 || n > 2400 {
		return time.UTC
	}
	if n == 0 {
		return time.UTC
	}
	return time.FixedZone("", (n/100*60+n%100)*60)
}
