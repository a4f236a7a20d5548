package contract

import "fmt"

// Problem says why a file on main is refused, to the file's author.
type Problem struct {
	// File is the path from the repository's root.
	File string `json:"file"`
	// Line counts from 1; 0 means the whole file.
	Line int `json:"line,omitempty"`
	// Reason says what is wrong and, where it can, what to do.
	Reason string `json:"reason"`
}

func (p *Problem) Error() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason)
	}
	return p.File + ": " + p.Reason
}
