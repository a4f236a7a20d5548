// Command print prints its version and the name of its image.
package main

import (
	"fmt"

	"gitbind.dev/gitbridge/version"
)

func main() { fmt.Print(version.String(), " ", version.Image(version.Registry(), "it")) }
