package chaos

import (
	"context"
	"time"
)

// day is by how much a clock is wrong.
const day = 24 * time.Hour

// wrongClock has the clock of a component be wrong for a while. Its process may be killed
// meanwhile: the next one has the same clock. No clock is wrong while the Git host lacks
// something: of a list of Secrets that it loses then, and whose time has not come, is known
// what becomes (docs/decisions/2026-11-23-secrets.md).
func (i *injector) wrongClock(ctx context.Context, f Fault) {
	i.severe.Lock()
	defer i.severe.Unlock()
	i.say("%s", f.what())
	for _, by := range []time.Duration{f.By, 0} {
		if err := i.platform.SetClock(f.Process, by); err != nil {
			i.fail("the clock of %s cannot be set: %v", f.Process, err)
			return
		}
		if by != 0 {
			sleep(ctx, f.For)
		}
	}
	i.count(f)
}
