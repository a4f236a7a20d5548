package review

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
)

// mergedKept is how long the control plane may take to answer a merged change until nothing
// more is said of it there.
const mergedKept = 24 * time.Hour

// told is what the head of a change shows.
type told struct {
	// check is that, and text a digest of its text.
	check githost.Check
	text  string
	// claims are those that it changes: by path, the blob that main would have, "" for none.
	claims map[string]string
	// waits is a digest of the paths of those that would wait for room in a quota, "" for none.
	waits string
	// tried is another one whenever the control plane's API server says something else.
	tried string
	// effect is that of the change, and awaitedSince is since when it is not known what that
	// API server says to just this version; zero if it is, or never will be.
	effect       string
	awaitedSince time.Time
}

// saysAs reports whether people would be told the same, but for numbers.
func (t told) saysAs(o told) bool {
	return t.check.Commit == o.check.Commit && t.check.OK == o.check.OK && t.check.Pending == o.check.Pending && t.waits == o.waits && t.tried == o.tried
}

// shows reports whether another check would be the same.
func (t told) shows(o told) bool {
	t.check.Text, o.check.Text = "", ""
	return t.check == o.check && t.text == o.text
}

// brief is what is kept of a change that is no copy of a pull request, of which nothing is said once
// main has it: no text, and a claim of each API. There may be thousands.
func (t told) brief() told {
	claims, seen := map[string]string{}, map[string]bool{}
	for path, blob := range t.claims {
		if key, err := contract.ParsePath(path); err == nil && !seen[key.Binding] {
			claims[path], seen[key.Binding] = blob, true
		}
	}
	t.check.Text, t.claims = "", claims
	return t
}

// isOf reports whether a change is about claims of an API.
func (t told) isOf(binding string) bool {
	for path := range t.claims {
		if key, err := contract.ParsePath(path); err == nil && key.Binding == binding {
			return true
		}
	}
	return false
}

// merged is a change that main has, and of which the control plane has not done all yet.
type merged struct {
	told
	at time.Time
}

// addMerged keeps of a change that is proposed no more what is to be said of it, if people
// have merged its pull request.
func (c *Checks) addMerged(ctx context.Context, cluster string, was told) error {
	if _, pull := githost.PullNumber(was.check.Branch); !pull || len(was.claims) == 0 {
		return nil
	}
	done, err := c.isMerged(ctx, cluster, was)
	if err != nil || !done {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.merged[cluster]
	c.merged[cluster] = append(all[max(len(all)+1-githost.MaxChanges, 0):], merged{was, c.service.Now()})
	return nil
}

// isMerged tells whether main has a change: its commit or, of one that was squashed or
// rebased, its files.
func (c *Checks) isMerged(ctx context.Context, cluster string, was told) (bool, error) {
	outcome, err := c.service.Git.Outcome(ctx, cluster, was.check.Branch, was.check.Commit)
	if err != nil || outcome.Merged {
		return outcome.Merged, err
	}
	for path, blob := range was.claims {
		if is, err := c.blob(ctx, cluster, path); err != nil || is != blob {
			return false, err
		}
	}
	return true, nil
}

// blob is that of a file of main, "" where there is none.
func (c *Checks) blob(ctx context.Context, cluster, path string) (string, error) {
	_, blob, err := c.service.Git.Read(ctx, cluster, "main", path)
	if errors.Is(err, githost.ErrNotFound) || errors.Is(err, githost.ErrTooLarge) {
		err = nil
	}
	return blob, err
}

// hasMerged tells whether there is a merged change of which something is to be said.
func (c *Checks) hasMerged(cluster string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.merged[cluster]) > 0
}

// tellMerged has the heads of merged changes show what the control plane has made of them.
func (c *Checks) tellMerged(ctx context.Context, cluster string) error {
	c.mu.Lock()
	all := c.merged[cluster]
	c.mu.Unlock()
	var left []merged
	var errs []error
	for _, m := range all {
		if c.service.Now().Sub(m.at) > mergedKept {
			continue
		}
		results, err := c.results(ctx, cluster, m.claims)
		if err == nil && results != nil {
			check := c.summarizeMerged(cluster, m.check, results)
			if check.Words != m.check.Words {
				err = c.host.Check(ctx, cluster, check)
			}
			if err == nil && !slices.ContainsFunc(results, func(r result) bool { return r.passing }) {
				continue
			}
			if err == nil {
				m.check.Words = check.Words
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.check.Branch, err))
		}
		left = append(left, m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.merged[cluster] = left
	return errors.Join(errs...)
}

// result is what the control plane has made of a claim as main has it.
type result struct {
	key contract.Key
	// words follow the claim's name.
	words string
	ok    bool
	// passing says that the control plane goes on by itself, and waits that it does when
	// there is room in a quota.
	passing, waits bool
}

// results are those of claims by path, in its order; nil until each is answered.
func (c *Checks) results(ctx context.Context, cluster string, claims map[string]string) ([]result, error) {
	var all []result
	for _, path := range slices.Sorted(maps.Keys(claims)) {
		// Main may have another version by now, which is as good.
		blob, err := c.blob(ctx, cluster, path)
		if err != nil {
			return nil, err
		}
		data, _, err := c.service.Git.Read(ctx, cluster, "status", path)
		if err != nil && !errors.Is(err, githost.ErrNotFound) {
			return nil, err
		}
		answer := &contract.Status{Result: contract.Gone}
		if err == nil {
			if answer, err = contract.DecodeStatus(data); err != nil {
				return nil, err
			}
		}
		if answer.Answers.Blob != blob {
			return nil, nil
		}
		key, err := contract.ParsePath(path)
		if err != nil {
			return nil, err
		}
		all = append(all, resultOf(key, answer))
	}
	return all, nil
}

func resultOf(key contract.Key, s *contract.Status) result {
	why := s.Message
	if s.Problem != nil {
		why = s.Problem.Reason
	}
	r := result{key: key}
	switch s.Result {
	case contract.Applied:
		r.words, r.ok = "is applied", true
		return r
	case contract.Denied:
		r.words = "is refused"
		if s.Reason == contract.OverQuota {
			r.words, r.ok, r.passing, r.waits = "waits for room", true, true, true
		}
	case contract.Gone:
		r.words, r.ok = "is deleted", true
		return r
	case contract.Deleting:
		r.words, r.ok, r.passing = "is being deleted", true, true
		return r
	case contract.Held:
		r.words = "is held until somebody decides"
	case contract.Failed:
		r.words, r.passing = "could not be applied yet, and is tried again", true
	case contract.Lost:
		r.words = "is missing on the control plane"
	default:
		r.words = "is refused"
	}
	if why != "" {
		r.words += ": " + why
	}
	return r
}

func (r result) String() string { return r.key.Namespace + "/" + r.key.Name + " " + r.words }

// summarizeMerged is what the head of a merged change shows, where before is what it has shown.
func (c *Checks) summarizeMerged(cluster string, before githost.Check, results []result) githost.Check {
	page := c.service.PublicURL + "/clusters/" + cluster
	check := before
	var bad []result
	for _, r := range results {
		if !r.ok {
			bad = append(bad, r)
		}
	}
	of := results[0]
	switch {
	case len(results) == 1:
		check.Words = of.String()
	case len(bad) > 0:
		of = bad[0]
		check.Words = fmt.Sprintf("%d of %d claims are not as it says, such as %s", len(bad), len(results), of)
	case slices.ContainsFunc(results, func(r result) bool { return r.passing }):
		check.Words = fmt.Sprintf("All %d claims become as it says", len(results))
		if i := slices.IndexFunc(results, func(r result) bool { return r.waits }); i >= 0 {
			check.Words += fmt.Sprintf(", but %s", results[i])
		}
	default:
		check.Words = fmt.Sprintf("All %d claims are as it says", len(results))
	}
	check.Words = brief.Cut(check.Words, githost.MaxWords)
	check.OK, check.Pending = len(bad) == 0, false
	check.URL = page + "/bindings/" + of.key.Binding + "/" + of.key.Namespace + "/" + of.key.Name
	if len(results) > 1 && len(bad) != 1 {
		check.URL = page
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**%s.** [Look at it](%s)\n", said(check.Words), check.URL)
	if len(results) > 1 {
		for _, r := range bad[:min(len(bad), maxRows)] {
			fmt.Fprintf(&b, "\n- %s %s", code(r.key.Namespace+"/"+r.key.Name), code(r.words))
		}
		b.WriteString("\n")
	}
	// Below it stays what was merged.
	_, change, _ := strings.Cut(before.Text, "\n")
	check.Text = ended(b.String() + change)
	return check
}
