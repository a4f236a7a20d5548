package figure

import (
	"fmt"
	"strings"
)

// sideBySide is a table of the figures that were taken on more than one host, each with
// what the bare relay needs for the same; "" when there are none.
func (r *Report) sideBySide() string {
	var b strings.Builder
	for _, f := range r.Figures {
		if f.Host != "" || f.Floor == nil && f.Unit != "MiB" {
			continue
		}
		for _, other := range r.Figures {
			if other.Host != "" && other.Name == f.Name && other.Size == f.Size {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.Name, thousands(f.Size), f.floor(), f.besideFloor(), other.besideFloor())
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return sideBySideHead + b.String()
}

func (f Figure) floor() string {
	if f.Floor == nil {
		return "–"
	}
	return values(*f.Floor, f.FloorP99, f.Unit)
}

// besideFloor is the figure, and how many times the floor of its own run it is.
func (f Figure) besideFloor() string {
	text := values(f.P50, f.P99, f.Unit)
	if f.Ratio != nil {
		text += fmt.Sprintf(": %s ×", number(*f.Ratio))
	}
	return text
}

func values(p50 float64, p99 *float64, unit string) string {
	if p99 == nil {
		return number(p50) + " " + unit
	}
	return number(p50) + " / " + number(*p99) + " " + unit
}

const sideBySideHead = `
## Side by side

The same work by the bare relay, and by gitbind with its embedded host and with a real
Gitea (SQLite, as it comes): median / 99th percentile, of few samples the worst, and how
many times the relay's median in the same run. The relay keeps no history, asks nobody and
ends with its process. It is a part of the measuring process, so it has no memory of its own.

| | size | relay | embedded host | Gitea |
|---|---:|---:|---:|---:|
`
