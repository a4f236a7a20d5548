package figure

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// plots are bars, drawn here: a library for plots would bring fonts and
// rasterizers for what is some rectangles with words.
func (r *Report) plots() map[string]string {
	var ratios, times []bar
	for _, f := range r.Figures {
		label := fmt.Sprintf("%s, %s", f.Title(), thousands(f.Size))
		if f.Ratio != nil {
			ratios = append(ratios, bar{label: label, value: *f.Ratio, mark: 1})
		}
		if f.Unit == "ms" {
			b := bar{label: label, value: f.P50}
			if f.Floor != nil {
				b.mark = *f.Floor
			}
			times = append(times, b)
		}
	}
	return map[string]string{
		"ratios.svg": chart("How many times the floor", "the line is the floor", ratios, longestRatio),
		"times.svg":  chart("Median, milliseconds", "the line is the floor, where there is one", times, math.Inf(1)),
	}
}

// bar is one line of a chart; mark is where a line is drawn across it, 0 for
// none.
type bar struct {
	label       string
	value, mark float64
}

// longestRatio is where bars end, as the others would not be seen beside a host that takes a
// hundred times as long.
const longestRatio = 20

const (
	labelWidth = 420
	barWidth   = 380
	lineHeight = 22
)

func chart(title, note string, bars []bar, longest float64) string {
	var b strings.Builder
	most := 0.0
	for _, x := range bars {
		most = max(most, x.value, x.mark)
	}
	most = min(most, longest)
	height := 50 + lineHeight*len(bars)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12" fill="#333">`+"\n", labelWidth+barWidth+80, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="10" y="20" font-size="14" font-weight="bold">%s</text><text x="%d" y="20" fill="#777">%s</text>`+"\n", html.EscapeString(title), labelWidth+8, html.EscapeString(note))
	at := func(v float64) float64 { return math.Round(min(v/max(most, 1e-9), 1)*barWidth*10) / 10 }
	for i, x := range bars {
		y := 36 + i*lineHeight
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth, y+13, html.EscapeString(x.label))
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%g" height="15" fill="#5b8db8"/>`, labelWidth+8, y+1, at(x.value))
		if x.mark > 0 {
			fmt.Fprintf(&b, `<rect x="%g" y="%d" width="2" height="19" fill="#b0413e"/>`, labelWidth+8+at(x.mark), y-1)
		}
		fmt.Fprintf(&b, `<text x="%g" y="%d">%s</text>`+"\n", labelWidth+14+at(max(x.value, x.mark)), y+13, number(x.value))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
