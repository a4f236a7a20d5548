// Command print prints its version.
package main

import (
	"fmt"

	"gitbind.dev/gitbridge/version"
)

func main() { fmt.Print(version.String()) }
