package ui

import (
	"fmt"
	"strings"
	"time"

	"gitbind.dev/gitbridge/brief"
)

// visible gives a text in which everything can be seen: control characters, those
// that turn the direction of writing, and those without a width stand as their
// code points. Somebody's name, message or file could otherwise show another
// content than it has.
func visible(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if !strings.ContainsFunc(s, brief.IsHidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if brief.IsHidden(r) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// short cuts a text to so many characters, on one line.
func short(s string, most int) string { return brief.Cut(visible(brief.OneLine(s)), most) }

// ago says how long something is past.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < 2*time.Minute:
		return "a minute"
	case d < time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	case d < 2*time.Hour:
		return "an hour"
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// size says how large something is.
func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// count is a number with the word for what is counted.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// clock is a time for people, in UTC: with its day if that is another one.
func clock(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04:05 UTC")
	}
	return at.Format("2006-01-02 15:04:05 UTC")
}

// between says how long something took, as git's clocks know it: by the second. It is
// "" for less than nothing.
func between(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d < time.Second:
		return "under 1 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
