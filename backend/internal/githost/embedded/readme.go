package embedded

import (
	"bytes"
	_ "embed"
	"fmt"
	"time"
)

// readme tells a person who clones a repository what it is.
//
//go:embed readme.md
var readme []byte

// firstCommit is the stream for git fast-import that makes main.
func firstCommit(now time.Time) []byte {
	const message = "Explain this repository\n"
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit %s\n", mainRef)
	fmt.Fprintf(&b, "committer gitbind <backend@%s> %d +0000\n", controlPlaneDomain, now.Unix())
	fmt.Fprintf(&b, "data %d\n%s", len(message), message)
	fmt.Fprintf(&b, "M 100644 inline README.md\n")
	fmt.Fprintf(&b, "data %d\n%s\ndone\n", len(readme), readme)
	return b.Bytes()
}
