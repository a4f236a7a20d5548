package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/brief"
)

// maxCommands bounds the refs of one push. A person who pushes all of a large
// set of change branches stays far below it.
const maxCommands = 1000

// errRequest says that the head of a push is not as the protocol has it, or
// asks for what this host does not do.
var errRequest = errors.New("malformed push")

// command is one ref update of a push.
type command struct {
	Ref      string
	Old, New plumbing.Hash
}

func (c command) create() bool { return c.Old.IsZero() }
func (c command) remove() bool { return c.New.IsZero() }

func refsOf(commands []command) []string {
	refs := make([]string, len(commands))
	for i, c := range commands {
		refs[i] = c.Ref
	}
	return refs
}

// pushRequest is the head of a receive-pack request: everything before the
// pack.
type pushRequest struct {
	Commands []command
	// ReportStatus and SideBand are what the client can read.
	ReportStatus, SideBand bool
	// Shallow says that the client does not have all history.
	Shallow bool
}

// parsePushRequest reads the head of a receive-pack request from r and leaves
// r at the first byte of the pack. A request without commands is what git
// sends to ask whether it is let in.
func parsePushRequest(r io.Reader) (*pushRequest, error) {
	req := &pushRequest{}
	seen := map[string]bool{}
	for {
		line, err := readPkt(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRequest, err)
		}
		if line == nil {
			return req, nil
		}
		if rest, ok := bytes.CutPrefix(line, []byte("shallow ")); ok && len(req.Commands) == 0 {
			// The boundary of a shallow clone: it concerns git, not the rules,
			// which want every parent here anyway.
			if _, err := parseHash(strings.TrimSuffix(string(rest), "\n")); err != nil {
				return nil, err
			}
			req.Shallow = true
			continue
		}
		head, caps, hasCaps := bytes.Cut(line, []byte{0})
		if hasCaps {
			if len(req.Commands) > 0 {
				return nil, fmt.Errorf("%w: capabilities after the first line", errRequest)
			}
			if err := req.setCapabilities(string(caps)); err != nil {
				return nil, err
			}
		}
		c, err := parseCommand(strings.TrimSuffix(string(head), "\n"))
		if err != nil {
			return nil, err
		}
		if seen[c.Ref] {
			return nil, fmt.Errorf("%w: %q twice", errRequest, c.Ref)
		}
		seen[c.Ref] = true
		if req.Commands = append(req.Commands, c); len(req.Commands) > maxCommands {
			return nil, fmt.Errorf("%w: more than %d refs", errRequest, maxCommands)
		}
	}
}

func (r *pushRequest) setCapabilities(caps string) error {
	for _, c := range strings.Fields(caps) {
		switch name, value, _ := strings.Cut(c, "="); {
		case name == "report-status" || name == "report-status-v2":
			r.ReportStatus = true
		case name == "side-band-64k":
			r.SideBand = true
		case name == "push-options" || name == "push-cert":
			return fmt.Errorf("%w: %s is not supported", errRequest, name)
		case name == "object-format" && value != "sha1":
			return fmt.Errorf("%w: object format %q is not supported", errRequest, value)
		}
	}
	return nil
}

// parseCommand reads "<old> <new> <ref>".
func parseCommand(line string) (command, error) {
	f := strings.SplitN(line, " ", 3)
	if len(f) != 3 {
		return command{}, fmt.Errorf("%w: %q is no ref update", errRequest, abbreviate(line))
	}
	before, err := parseHash(f[0])
	if err != nil {
		return command{}, err
	}
	after, err := parseHash(f[1])
	if err != nil {
		return command{}, err
	}
	if !validRef(f[2]) {
		return command{}, fmt.Errorf("%w: %q is no ref name", errRequest, abbreviate(f[2]))
	}
	return command{Ref: f[2], Old: before, New: after}, nil
}

// validRef tells whether a name is one that git takes for a ref. Git would
// refuse others too, but only after this host has made a path of it to read the
// ref's present value.
func validRef(name string) bool {
	if len(name) > 1000 || strings.ContainsAny(name, " ~^:?*[\\") || strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		// It is a file's name, to which git adds ".lock".
		if part == "" || len(part) > 250 || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

func parseHash(s string) (plumbing.Hash, error) {
	if !plumbing.IsHash(s) || strings.ToLower(s) != s {
		return plumbing.ZeroHash, fmt.Errorf("%w: %q is no object name", errRequest, abbreviate(s))
	}
	return plumbing.NewHash(s), nil
}

// abbreviate keeps what a client sent from filling logs and messages.
func abbreviate(s string) string { return brief.CutBytes(s, 80) }
