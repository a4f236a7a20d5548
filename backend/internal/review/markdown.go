package review

import (
	"fmt"
	"strings"
	"unicode"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/brief"
)

// maxRows is how many fields are shown in a comment, and maxCell how long each value,
// in characters.
const maxRows, maxCell = 60, 160

// does says what becomes of a service.
var does = map[restapi.Action]string{restapi.ActionCreate: "orders", restapi.ActionUpdate: "changes", restapi.ActionDelete: "cancels"}

// comment is for a reviewer who knows nothing of gitbind, in Markdown: what becomes of each
// service, by field, and what the control plane would refuse or have wait.
func comment(words, url string, files []restapi.ChangedFile) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s.** [All of it](%s)\n", said(words), url)
	for _, f := range files {
		if f.Problem != "" {
			fmt.Fprintf(&b, "\n- %s would be refused: %s\n", code(f.Path), code(f.Problem))
		}
		if f.Unbinding != "" {
			fmt.Fprintf(&b, "\n- %s: **%s**\n", code(f.Path), said(f.Unbinding))
		}
		if f.Untried != "" {
			fmt.Fprintf(&b, "\n- %s is not tried on the control plane: %s\n", code(f.Path), code(f.Untried))
		}
		if f.Waits != "" {
			fmt.Fprintf(&b, "\n- %s would wait: %s\n", code(f.Path), code(f.Waits))
		}
	}
	rows, more := 0, 0
	row := func(cells ...string) {
		if rows++; rows > maxRows {
			more++
			return
		}
		if rows == 1 {
			b.WriteString("\n| service | field | before | after |\n|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	for _, f := range files {
		if f.Name == "" {
			continue
		}
		name := code(strings.TrimSpace(f.Kind + " " + f.Namespace + "/" + f.Name))
		service := does[f.Action] + " " + name
		switch {
		case f.Held != "":
			row("**"+does[f.Action]+"** "+name, "", "", said(f.Held))
			continue
		case f.Action == restapi.ActionDelete:
			row("**"+does[f.Action]+"** "+name, "", "", "**its service and what is in it are deleted**")
			continue
		case len(f.Fields) == 0:
			row(service, "", "", "")
		}
		for i, field := range f.Fields {
			if i > 0 {
				service = ""
			}
			row(service, code(field.Field), code(field.Before), code(field.After))
		}
		for _, field := range f.Effective {
			row("on the control plane", code(field.Field), code(field.Before), code(field.After))
		}
		for _, field := range f.Unchanged {
			row("on the control plane", code(field), "stays as it is", "stays as it is")
		}
		if more += f.MoreFields; f.MoreFields > 0 && rows < maxRows {
			row("", "…", "", "")
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "\nand %d more fields.\n", more)
	}
	return ended(b.String())
}

// ended ends a text that is too long with a line of it.
func ended(text string) string {
	if len(text) <= githost.MaxText {
		return text
	}
	const more = "\n\n… and more\n"
	lines := text[:strings.LastIndexByte(text[:githost.MaxText-len(more)+1], '\n')+1]
	return strings.TrimRight(lines, "\n") + more
}

// code shows the beginning of a text as it is, "" for none.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "<code>" + literal(brief.Cut(text, maxCell)) + "</code>"
}

// mentions begin what hosts make a mention or a reference of: of a person, an issue, a pull request.
// They look for these in what is shown, where a character reference is the character again, but
// not in code.
const mentions = "@#!$%&~^"

// said shows words of ours, in which others may be quoted: as code if something in them could mention
// somebody.
func said(words string) string {
	if strings.ContainsAny(words, mentions) {
		return "<code>" + literal(words) + "</code>"
	}
	return literal(words)
}

// literal writes all that could mean something to Markdown or HTML as a character reference; what
// cannot be seen is a space.
func literal(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case brief.IsHidden(r), r == '\n', r == '\t':
			b.WriteByte(' ')
		case r < unicode.MaxASCII && !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != ' ':
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
