// Package version says which gitbind a program is. It is the same for all of them.
package version

import "runtime/debug"

// linked is set by the linker to what git describe says: see the Makefile.
var linked string

// String is the version of this program. Built in another way than by the Makefile
// it is the one that the go command recorded, or "(devel)" if that knew none.
func String() string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
