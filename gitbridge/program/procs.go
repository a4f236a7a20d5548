package program

import (
	"os"
	"runtime"
)

// leastProcs is how many goroutines run at once, at least.
const leastProcs = 4

// RaiseProcs has Go run several goroutines at once also on a machine with one processor or two,
// and the kernel divide these among them, unless GOMAXPROCS is set: the kernel lets one that was
// waiting go on after a millisecond or two, and Go only when another has worked for ten.
func RaiseProcs() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < leastProcs {
		runtime.GOMAXPROCS(leastProcs)
	}
}
