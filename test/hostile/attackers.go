package hostile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
)

// attackersVariable makes a process that of the attackers.
const attackersVariable = "GITBIND_HOSTILE_ATTACKERS"

// attackers are a process of their own. It leaves the processors to those whom it attacks, who
// otherwise have other machines; and in the process that measures, what is measured would wait
// for it.
type attackers struct {
	cmd   *exec.Cmd
	stdin io.Closer
	says  *json.Decoder
}

// orders are what the process of the attackers is told.
type orders struct {
	Seed         uint64
	Repositories []repository
}

// startAttackers starts this program once more, as the process of the attackers, and waits until
// it begins. It attacks until stop, or the end of this process.
func startAttackers(ctx context.Context, seed uint64, repositories []repository) (*attackers, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &attackers{cmd: exec.CommandContext(ctx, "nice", "-n", "19", program)}
	a.cmd.Env = append(os.Environ(), attackersVariable+"=1")
	a.cmd.Stderr = os.Stderr
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.stdin, a.says = stdin, json.NewDecoder(stdout)
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the attackers: %w", err)
	}
	var began bool
	err = json.NewEncoder(stdin).Encode(orders{seed, repositories})
	if err = cmp.Or(err, a.says.Decode(&began)); err != nil {
		_ = stdin.Close()
		return nil, fmt.Errorf("the attackers do not begin: %w", errors.Join(err, a.cmd.Wait()))
	}
	return a, nil
}

// stop ends the attack, and returns how often each attack had which outcome.
func (a *attackers) stop() (counts map[string]map[string]int, err error) {
	_ = a.stdin.Close()
	err = a.says.Decode(&counts)
	if err = errors.Join(err, a.cmd.Wait()); err != nil {
		return nil, fmt.Errorf("the attackers: %w", err)
	}
	return counts, nil
}

// AttackIfAsked is what a program begins with that calls Run. In the process that Run starts
// for the attackers, it attacks, and does not return.
func AttackIfAsked() {
	if os.Getenv(attackersVariable) == "" {
		return
	}
	if err := attackAsTold(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "attackers:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// attackAsTold attacks what it reads, until in ends. It writes true when it begins, and at the
// end how often each attack had which outcome.
func attackAsTold(in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var o orders
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("read what to attack: %w", err)
	}
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, in)
	}()
	log := &log{counts: map[string]map[string]int{}}
	var all []*attacker
	for _, r := range o.Repositories {
		a, err := newAttacker(ctx, r, log)
		if err != nil {
			return err
		}
		all = append(all, a)
	}
	said := json.NewEncoder(out)
	if err := said.Encode(true); err != nil {
		return err
	}
	var working sync.WaitGroup
	for i, a := range all {
		working.Go(func() { a.work(ctx, rand.New(rand.NewPCG(o.Seed, uint64(i)))) })
	}
	working.Wait()
	return said.Encode(log.counts)
}
