package env

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy has each request logged once, when it has been answered, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`

func (c *Cluster) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// auditing are the flags of an API server that logs requests; none where that was not asked for.
func (c *Cluster) auditing() ([]string, error) {
	if !c.audit {
		return nil, nil
	}
	policy := filepath.Join(c.dir, "audit-policy.yaml")
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + c.auditLog(), "--audit-log-mode=batch", "--audit-log-batch-max-wait=1s"},
		os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

// Audited are the requests that the API server has logged, in the order of their ends. Those
// of the last second or so may be missing. It needs Options.Audit.
func (c *Cluster) Audited() ([]auditv1.Event, error) {
	data, err := os.ReadFile(c.auditLog())
	if err != nil {
		return nil, fmt.Errorf("read the audit log of %s: %w", c.Name, err)
	}
	var events []auditv1.Event
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			break // the last line is being written
		}
		events = append(events, e)
	}
	return events, lines.Err()
}
