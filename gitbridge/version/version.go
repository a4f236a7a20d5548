// Package version says which gitbind a program is. It is the same for all of them.
package version

import (
	"path"
	"regexp"
	"runtime/debug"
)

// The linker sets them: see the Makefile and release/. linked is what git describe says,
// registry where the images of this build are: empty when their names have no registry.
var linked, registry string

// String is the version of this program. Built in another way than by the Makefile
// it is the one that the go command recorded, or "(devel)" if that knew none.
func String() string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return development
}

// development is what the go command calls a build whose version it does not know.
const development = "(devel)"

// Registry is where the images of this version are, such as
// "registry.example.com/gitbind"; empty when nothing is known.
func Registry() string { return registry }

var noTag = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// Tag is a version as a tag of an image. A build without a version has no image of its
// own: "latest".
func Tag(version string) string {
	if version == development {
		return "latest"
	}
	return noTag.ReplaceAllString(version, "-")
}

// Image is the name of an image of this version, such as "gitbind-konnector", in a
// registry (and a folder of it), or without one when it is empty.
func Image(registry, name string) string { return path.Join(registry, name) + ":" + Tag(String()) }
