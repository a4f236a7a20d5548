package branch

import (
	"fmt"
	"strings"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/object"
)

// message is the commit message of one or more edits by one author.
func message(edits []store.Edit) string {
	var b strings.Builder
	subjects := unique(edits, func(e store.Edit) []string {
		return []string{line(e.Subject, "update")}
	})
	if len(subjects) == 1 {
		b.WriteString(subjects[0] + "\n")
	} else {
		fmt.Fprintf(&b, "%s%d changes\n\n", commonPrefix(subjects), len(subjects))
		for _, s := range subjects {
			fmt.Fprintf(&b, "- %s\n", s)
		}
	}
	trailers := unique(edits, func(e store.Edit) []string {
		var lines []string
		for _, t := range e.Trailers {
			lines = append(lines, line(t.Key, "Trailer")+": "+line(t.Value, ""))
		}
		return lines
	})
	trailers = append(trailers, unique(edits, func(e store.Edit) []string {
		var lines []string
		for _, s := range e.CoAuthors {
			if s != e.Author {
				s.Name, s.Email = object.Clean(s.Name, "unknown"), object.Clean(s.Email, "")
				lines = append(lines, "Co-authored-by: "+s.String())
			}
		}
		return lines
	})...)
	if len(trailers) > 0 {
		b.WriteString("\n" + strings.Join(trailers, "\n") + "\n")
	}
	return b.String()
}

// messageSize is at least how many bytes an edit adds to a message.
func messageSize(e store.Edit) int {
	const line = len("Co-authored-by:  <>\n")
	size := line + len(e.Subject)
	for _, t := range e.Trailers {
		size += line + len(t.Key) + len(t.Value)
	}
	for _, s := range e.CoAuthors {
		size += line + len(s.Name) + len(s.Email)
	}
	return size
}

// unique collects lines of all edits, each one once, in their order.
func unique(edits []store.Edit, lines func(store.Edit) []string) []string {
	seen := map[string]bool{}
	var all []string
	for _, e := range edits {
		for _, l := range lines(e) {
			if !seen[l] {
				seen[l] = true
				all = append(all, l)
			}
		}
	}
	return all
}

// line makes one line of a text, so that it cannot become another part of the
// message.
func line(s, otherwise string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029
	}), " ")
	if s == "" {
		return otherwise
	}
	return s
}

// commonPrefix is "claim: " if all subjects begin with it.
func commonPrefix(subjects []string) string {
	topic, _, ok := strings.Cut(subjects[0], ": ")
	if !ok {
		return ""
	}
	topic += ": "
	for _, s := range subjects {
		if !strings.HasPrefix(s, topic) {
			return ""
		}
	}
	return topic
}
