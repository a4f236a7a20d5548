package embedded

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"k8s.io/utils/lru"
)

const (
	// recentPacks is how many packs of pushes are remembered, over all repositories, and
	// recentPack how large each may be.
	recentPacks = 128
	recentPack  = 128 << 10
	// recentSteps is how many pushes one fetch is answered with.
	recentSteps = 16

	packHead = len("PACK") + 4 + 4
)

// recent remembers what was pushed last. An agent that has the head before a push asks
// for what the push brought, and the pack that came is the answer.
type recent struct {
	// pushes are of type recentPush, by recentName.
	pushes *lru.Cache
}

// recentName is a head that a push has set in a repository.
type recentName struct {
	repository *repository
	head       plumbing.Hash
}

// recentPush is a push that was whole: its pack has what its head has beyond the one
// before, file by file.
type recentPush struct {
	before  plumbing.Hash
	pack    []byte
	largest int64
}

func newRecent() *recent { return &recent{lru.New(recentPacks)} }

func (r *recent) put(repo *repository, cmd command, p packFile, c *check) {
	if len(p.data) > recentPack {
		return
	}
	r.pushes.Add(recentName{repo, cmd.New}, recentPush{cmd.Old, bytes.Clone(p.data), c.largest()})
}

// answer answers a fetch of what one or some pushes brought, as git would with deltas
// left out. It is in parts that others share: a slow client costs no copy. ok is false for
// any other request.
func (r *recent) answer(repo *repository, request []byte) (answer [][]byte, ok bool) {
	asked, ok := parseIncrement(bytes.NewReader(request))
	if !ok {
		return nil, false
	}
	var packs [][]byte
	for head := asked.want; head != asked.have; {
		known, ok := r.pushes.Get(recentName{repo, head})
		if !ok || len(packs) == recentSteps {
			return nil, false
		}
		push := known.(recentPush)
		if push.largest >= asked.limit {
			return nil, false
		}
		packs = append(packs, push.pack)
		head = push.before
	}
	if len(packs) == 0 {
		return nil, false
	}
	return append([][]byte{appendPkt(nil, "ACK "+asked.have.String()+"\n")}, joinPacks(packs)...), true
}

// joinPacks makes one pack of packs without deltas, in parts.
func joinPacks(packs [][]byte) (parts [][]byte) {
	head := bytes.Clone(packs[0][:packHead])
	var count uint32
	parts = append(parts, head)
	for _, p := range packs {
		count += binary.BigEndian.Uint32(p[packHead-4:])
		parts = append(parts, p[packHead:len(p)-sha1.Size])
	}
	binary.BigEndian.PutUint32(head[packHead-4:], count)
	sum := sha1.New()
	for _, p := range parts {
		_, _ = sum.Write(p)
	}
	return append(parts, sum.Sum(nil))
}

// increment is a request for all that follows on one commit, of which the client has the
// tree, and nothing of what is before it.
type increment struct {
	want, have plumbing.Hash
	// limit is from which size on files are left out, in bytes.
	limit int64
}

// incrementForm is an increment in the form in which the agents ask, line by line; the
// empty line is a flush.
var incrementForm = regexp.MustCompile(`^want ([0-9a-f]{40})((?: [!-~]+)*)\nshallow ([0-9a-f]{40})\nfilter blob:limit=([0-9]{1,18})\n\nhave ([0-9a-f]{40})\ndone$`)

// plainCapabilities are those of a client that reads a pack with nothing around it.
var plainCapabilities = []string{"ofs-delta", "no-progress", "shallow", "filter"}

// parseIncrement reads an increment. ok is false for any other request.
func parseIncrement(r io.Reader) (inc increment, ok bool) {
	var lines [6]string
	for i := range lines {
		line, err := readPkt(r)
		if err != nil {
			return inc, false
		}
		lines[i] = strings.TrimSuffix(string(line), "\n")
	}
	m := incrementForm.FindStringSubmatch(strings.Join(lines[:], "\n"))
	if m == nil || m[3] != m[5] {
		return inc, false
	}
	for c := range strings.FieldsSeq(m[2]) {
		if !slices.Contains(plainCapabilities, c) && !strings.HasPrefix(c, "agent=") {
			return inc, false
		}
	}
	limit, err := strconv.ParseInt(m[4], 10, 64)
	return increment{plumbing.NewHash(m[1]), plumbing.NewHash(m[5]), limit}, err == nil
}
