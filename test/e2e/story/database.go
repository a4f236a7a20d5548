package story

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/postgres/server"
)

const (
	secretName = name + "-service-binding"
	createRows = "CREATE TABLE deliveries AS SELECT generate_series(1, " + rows + ") AS id"
	countRows  = "SELECT count(*) FROM deliveries"
	rows       = "1000"

	askInterval = 100 * time.Millisecond
)

// credentials are how to connect, as a Secret says it.
type credentials map[string]string

// psql is what psql prints for one statement.
func (s *Story) psql(ctx context.Context, c credentials, sql string) (string, error) {
	programs, err := server.Find()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(programs.Dir, "psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command="+sql)
	// Not as arguments: others may read those.
	cmd.Env = append(os.Environ(), "PGHOST="+c["host"], "PGPORT="+c["port"], "PGDATABASE="+c["database"],
		"PGUSER="+c["username"], "PGPASSWORD="+c["password"], "PGCONNECT_TIMEOUT=60")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql: %s: %w: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// ask is one question as dora, with the Secret of the app cluster.
func (s *Story) ask(ctx context.Context, sql string) (string, error) {
	c, err := s.credentials(ctx)
	if err != nil {
		return "", err
	}
	return s.psql(ctx, c, sql)
}

// answers asks until PostgreSQL says what is wanted: with another plan it is restarted.
func (s *Story) answers(ctx context.Context, sql, want string) error {
	for {
		got, err := s.ask(ctx, sql)
		if err != nil {
			got = err.Error()
		}
		if got == want {
			s.say("psql: %s → %s", sql, got)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: the last answer was %q, not %q", sql, context.Cause(ctx), got, want)
		case <-time.After(askInterval):
		}
	}
}

// credentials reads the Secret as dora.
func (s *Story) credentials(ctx context.Context) (credentials, error) {
	out, err := s.Platform.Kubectl(ctx, s.developer, "get", "secret", secretName, "-n", namespace, "-o", "json")
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(out), u); err != nil {
		return nil, err
	}
	return s.read(u), nil
}

// read remembers the password, so that it can be looked for.
func (s *Story) read(u *unstructured.Unstructured) credentials {
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	c := credentials{}
	for key, value := range data {
		plain, _ := base64.StdEncoding.DecodeString(value)
		c[key] = string(plain)
	}
	s.Scan.Add(c["password"])
	return c
}

// delivered is a Secret in the app cluster with another password than before.
func (s *Story) delivered(ctx context.Context, before credentials) (platform.Event, error) {
	return s.secrets.Until(ctx, "the Secret is in the app cluster", func(e platform.Event) bool {
		return e.Type != watch.Deleted && e.Object.GetNamespace() == namespace && e.Object.GetName() == secretName &&
			s.read(e.Object)["password"] != before["password"]
	})
}

func (s *Story) insertRows(ctx context.Context) error {
	e, err := s.delivered(ctx, credentials{})
	if err != nil {
		return err
	}
	c := s.read(e.Object)
	s.say("Secret %s/%s: %s", namespace, secretName, strings.Join(slices.Sorted(maps.Keys(c)), ", "))
	if _, err := s.psql(ctx, c, createRows); err != nil {
		return err
	}
	s.say("psql: %s", createRows)
	s.measured("the first command → the first rows are inserted", time.Since(s.Began))
	return s.answers(ctx, countRows, rows)
}

// standbysFollow asks each server of the instance what it is, and sees that they have the
// rows. Only the primary's address is in the Secret.
func (s *Story) standbysFollow(ctx context.Context) error {
	if err := s.rememberSuperuser(ctx); err != nil {
		return err
	}
	const isStandby = "SELECT pg_is_in_recovery()"
	if err := s.answers(ctx, isStandby, "f"); err != nil {
		return err
	}
	primary, err := s.credentials(ctx)
	if err != nil {
		return err
	}
	for {
		standbys := 0
		ports, err := s.Platform.DatabasePorts()
		for _, port := range ports {
			c := maps.Clone(primary)
			c["port"] = port
			there, _ := s.psql(ctx, c, isStandby)
			if has, _ := s.psql(ctx, c, countRows); there == "t" && has == rows {
				standbys++
			}
		}
		if standbys == 2 {
			s.say("psql on the other two servers: %s → t, %s → %s", isStandby, countRows, rows)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("of the servers at %v, %d are standbys with all rows, not 2: %w", ports, standbys, errors.Join(context.Cause(ctx), err))
		case <-time.After(askInterval):
		}
	}
}

func (s *Story) restore(ctx context.Context) error {
	began := time.Now()
	if err := s.applyText(ctx, related("Backup", "instanceRef: "+name)); err != nil {
		return err
	}
	saved, err := s.backups.Until(ctx, "the backup is complete", isReady)
	if err != nil {
		return err
	}
	s.measured("apply → the backup is complete", saved.At.Sub(began))
	if _, err := s.ask(ctx, "DROP TABLE deliveries"); err != nil {
		return err
	}
	_, err = s.ask(ctx, countRows)
	if err := isRefusal(err, "does not exist"); err != nil {
		return fmt.Errorf("ask for the table that was dropped: %w", err)
	}
	s.say("psql: DROP TABLE deliveries; %s → it does not exist", countRows)
	began = time.Now()
	if err := s.applyText(ctx, related("Restore", "instanceRef: "+name+"\n  backupRef: "+name)); err != nil {
		return err
	}
	back, err := s.restores.Until(ctx, "the restore is complete", isReady)
	if err != nil {
		return err
	}
	s.measured("apply → the restore is complete", back.At.Sub(began))
	return s.answers(ctx, countRows, rows)
}

// isReady tells that a claim of the app cluster is.
func isReady(e platform.Event) bool {
	return e.Object.GetName() == name && platform.Condition(e.Object, "Ready", "status", "gitbind", "conditions") == "True"
}

func (s *Story) rotate(ctx context.Context) error {
	before, err := s.credentials(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.Platform.Kubectl(ctx, s.Platform.Control(), "delete", "secret", secretName, "-n", s.there); err != nil {
		return err
	}
	e, err := s.delivered(ctx, before)
	if err != nil {
		return err
	}
	s.measured("password replaced → it is in the app cluster", e.At.Sub(began))
	_, err = s.psql(ctx, before, countRows)
	if err := isRefusal(err, "password authentication failed"); err != nil {
		return fmt.Errorf("connect with the password that was replaced: %w", err)
	}
	s.say("psql with the old password: password authentication failed")
	return s.answers(ctx, countRows, rows)
}

// isRefusal is nil for an error with these words.
func isRefusal(err error, words string) error {
	if err == nil {
		return fmt.Errorf("PostgreSQL does not refuse it: want %q", words)
	}
	if !strings.Contains(err.Error(), words) {
		return err
	}
	return nil
}

// findNoPassword looks at all that is there but Secrets.
func (s *Story) findNoPassword(ctx context.Context) error {
	if n := s.Scan.Known(); n < 3 {
		return fmt.Errorf("there were %d passwords: not all are looked for", n)
	}
	if err := s.Platform.FindSecrets(ctx, s.Scan); err != nil {
		return err
	}
	s.say("none of %d passwords is in a Git object, an object of a cluster but Secrets, an Event, a log, a metric or a file", s.Scan.Known())
	return nil
}

// rememberSuperuser has the password looked for that the operator made for itself.
func (s *Story) rememberSuperuser(ctx context.Context) error {
	out, err := s.Platform.Kubectl(ctx, s.Platform.Control(), "get", "secrets", "-n", s.there, "-o", "json")
	if err != nil {
		return err
	}
	var all unstructured.UnstructuredList
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return err
	}
	for i := range all.Items {
		s.read(&all.Items[i])
	}
	return nil
}
