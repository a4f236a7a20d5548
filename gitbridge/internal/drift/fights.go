package drift

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// Many corrections of one object within the window are a fight: then the
	// next one waits, each time twice as long.
	many     = 3
	window   = 10 * time.Minute
	firstLag = time.Minute
	lastLag  = 30 * time.Minute
)

// Fights remembers which objects were corrected, so that two controllers that
// want different things do not write without end. The zero value is ready. It
// may be lost at any time: then a fight is found again.
type Fights struct {
	mu     sync.Mutex
	fights map[string]fight
}

type fight struct {
	// odd is what Found says right after the object was applied, where that is
	// not "": nobody changed anything since.
	odd string
	// corrected are the last corrections, oldest first, of change.
	corrected []time.Time
	change    Change
	lag       time.Duration
}

// Forget drops what is known of a claim that is gone.
func (f *Fights) Forget(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.fights, path)
}

// Applied is told what Found says of an object as it was just applied.
func (f *Fights) Applied(path, found string) {
	f.change(path, func(x *fight) { x.odd = found })
}

// IsDrift reports whether what Found says of an object is somebody's doing.
func (f *Fights) IsDrift(path, found string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return found != "" && found != f.fights[path].odd
}

// Corrected is told of a correction.
func (f *Fights) Corrected(path string, c Change, now time.Time) {
	f.change(path, func(x *fight) {
		if x.isOver(now) {
			x.corrected, x.lag = nil, 0
		}
		x.corrected = append(x.corrected, now)
		x.change = c
		if len(x.corrected) < many {
			return
		}
		x.corrected = x.corrected[len(x.corrected)-many:]
		if x.lag == 0 && now.Sub(x.corrected[0]) > window {
			return
		}
		x.lag = min(max(2*x.lag, firstLag), lastLag)
	})
}

// Wait says how long not to correct an object.
func (f *Fights) Wait(path string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.fights[path]
	if x.lag == 0 {
		return 0
	}
	return max(0, x.lag-now.Sub(x.last()))
}

// Words say, for people, that there is a fight, and for how long to say so if
// nothing comes; "" when there is none.
func (f *Fights) Words(path string, now time.Time) (words string, rest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.fights[path]
	if x.lag == 0 || x.isOver(now) {
		return "", 0
	}
	by := "somebody"
	if len(x.change.Managers) > 0 {
		by = strings.Join(x.change.Managers, ", ")
	}
	fields := x.change.Fields
	const most = 3
	more := ""
	if len(fields) > most {
		fields, more = fields[:most], fmt.Sprintf(" and %d more", len(x.change.Fields)-most)
	}
	return fmt.Sprintf("on the control plane %s keeps changing %s%s: it is set back to what the file says, but less and less often. "+
		"Its operator must stop one of the two", by, strings.Join(fields, ", "), more), x.lag + window - now.Sub(x.last())
}

func (f *Fights) change(path string, change func(*fight)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.fights[path]
	change(&x)
	if x.odd == "" && len(x.corrected) == 0 {
		delete(f.fights, path)
		return
	}
	if f.fights == nil {
		f.fights = map[string]fight{}
	}
	f.fights[path] = x
}

func (x *fight) last() time.Time {
	if len(x.corrected) == 0 {
		return time.Time{}
	}
	return x.corrected[len(x.corrected)-1]
}

// isOver reports whether nothing came for so long that what comes next is
// another matter.
func (x *fight) isOver(now time.Time) bool {
	return len(x.corrected) > 0 && now.Sub(x.last()) >= x.lag+window
}
