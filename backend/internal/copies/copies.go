// Package copies finds out from the heartbeats of konnectors whether two copies of one app
// cluster are live: one that was started from an etcd snapshot has the same credential,
// the same UIDs and the same Lease as the original, each in its own etcd. It also tells a
// konnector when no other one of its cluster is live, before which it removes nothing.
//
// What tells two copies apart is the process. In one cluster the Lease lets one process
// speak after the other: one that was followed by another never speaks again. So two
// copies are live when a process speaks, then another one, and then the first again. Each
// heartbeat says which answer its process has heard last, so that it was sent after that
// one was given: no clock takes part in it, and a heartbeat that comes late, twice, or
// from a process that has ended since, proves nothing.
//
// It keeps everything in memory, writes nothing, and ends no process and no credential.
package copies

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// minGoneAfter and maxGoneAfter bound what a konnector says of itself.
	minGoneAfter, maxGoneAfter = time.Second, time.Minute
	// remembered is for how long a process is remembered that is not heard of any more,
	// and maxProcesses how many are of one cluster.
	remembered   = time.Hour
	maxProcesses = 32
)

// Beat is one heartbeat of a konnector.
type Beat struct {
	// Process is the konnector's, and Credential the hash of what it shows.
	Process, Credential string
	// Heard is what the answer to the process' last heartbeat said.
	Heard string
	// GoneAfter is after how long without a heartbeat the process has ended.
	GoneAfter time.Duration
	// Ending says that it is the last one.
	Ending bool
}

// Answer is what there is to say to it.
type Answer struct {
	// Heard names this answer: it belongs into the next heartbeat.
	Heard string
	// Copied says that two copies are live, until one is settled on.
	Copied bool
	// Alone says that no other process of the cluster can be live.
	Alone bool
}

// Clusters are all app clusters whose konnectors are heard of.
type Clusters struct {
	// began is when this process could hear first, and name its own: what another one
	// has said counts for nothing.
	began time.Time
	name  string

	mu    sync.Mutex
	order uint64
	all   map[string]*cluster
}

type cluster struct {
	processes map[string]*process
	copied    bool
	// settled says that what was known from before this process began is over.
	settled bool
	// ended are the credentials that were shown before that.
	ended map[string]bool
}

type process struct {
	// first is the place of its first heartbeat among all, and last when it was heard of.
	first uint64
	// after are the places of the first heartbeats that it sent after it was known of
	// another process, by that process.
	after     map[string]uint64
	last      time.Time
	goneAfter time.Duration
	ended     bool
	// credential is the one that it showed last.
	credential string
}

func (p *process) isGone(now time.Time) bool { return p.ended || now.Sub(p.last) >= p.goneAfter }

// New returns what has heard of no konnector yet.
func New(now time.Time) *Clusters {
	return &Clusters{began: now, name: rand.Text(), all: map[string]*cluster{}}
}

func (c *Clusters) of(name string) *cluster {
	if c.all[name] == nil {
		c.all[name] = &cluster{processes: map[string]*process{}, ended: map[string]bool{}}
	}
	return c.all[name]
}

// Beat notes a heartbeat of a cluster's konnector. Said is whether the cluster is known to
// be copied from before this process began.
func (c *Clusters) Beat(name string, b Beat, said bool, now time.Time) Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order++
	of := c.of(name)
	of.copied = of.copied || said && !of.settled
	if of.ended[b.Credential] {
		// It was on its way when the credential ended.
		return Answer{Copied: of.copied}
	}
	me := of.note(b, c.order, now)
	of.copied = of.proves(b.Process, c.heard(b.Heard), c.order) || of.copied
	a := Answer{Heard: c.name + "." + strconv.FormatUint(c.order, 10), Copied: of.copied}
	a.Alone = !a.Copied && !me.ended && now.Sub(c.began) >= me.goneAfter
	for _, other := range of.processes {
		a.Alone = a.Alone && (other == me || other.isGone(now))
	}
	return a
}

// note keeps that a process was heard of.
func (c *cluster) note(b Beat, order uint64, now time.Time) *process {
	me := c.processes[b.Process]
	if me == nil {
		c.forget(now)
		me = &process{first: order, after: map[string]uint64{}}
		c.processes[b.Process] = me
	}
	// One that has said that it ends is not live, whatever comes late.
	me.ended = me.ended || b.Ending
	me.last, me.credential = now, b.Credential
	me.goneAfter = min(max(b.GoneAfter, minGoneAfter), maxGoneAfter)
	return me
}

// proves reports whether a process spoke before and after another one that has not ended,
// where it now speaks at some place after it has heard the answer of another.
func (c *cluster) proves(name string, heard, order uint64) bool {
	me, proven := c.processes[name], false
	for other, o := range c.processes {
		if o == me {
			continue
		}
		if me.after[other] == 0 && heard >= o.first {
			me.after[other] = order
		}
		between := o.after[name]
		proven = proven || between > 0 && between <= heard && !me.ended && !o.ended
	}
	return proven
}

// heard is the place of the answer that a konnector has heard, 0 for none of this backend
// process.
func (c *Clusters) heard(text string) uint64 {
	name, order, ok := strings.Cut(text, ".")
	n, err := strconv.ParseUint(order, 10, 64)
	if !ok || err != nil || name != c.name {
		return 0
	}
	return n
}

// forget makes room for one more.
func (c *cluster) forget(now time.Time) {
	oldest := ""
	for name, p := range c.processes {
		switch {
		case now.Sub(p.last) > remembered:
			c.drop(name)
		case oldest == "" || p.last.Before(c.processes[oldest].last):
			oldest = name
		}
	}
	if len(c.processes) >= maxProcesses {
		c.drop(oldest)
	}
}

func (c *cluster) drop(name string) {
	delete(c.processes, name)
	for _, p := range c.processes {
		delete(p.after, name)
	}
}

// Settle starts from scratch for a cluster: its owner has decided which copy goes on, and all
// credentials from before have ended.
func (c *Clusters) Settle(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of(name)
	of.ended = map[string]bool{}
	for _, p := range of.processes {
		of.ended[p.credential] = true
	}
	of.processes, of.copied, of.settled = map[string]*process{}, false, true
}

// Copied reports whether two copies of a cluster are live. Said is whether it is known to
// be copied from before this process began.
func (c *Clusters) Copied(name string, said bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.all[name]
	if of == nil {
		return said
	}
	return of.copied || said && !of.settled
}
