package story

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gitbind.dev/test/e2e/platform"
)

const (
	namespace = "team-a"
	name      = "orders"
	file      = "bindings/postgresqlinstances.anynines.com/claims/" + namespace + "/" + name + ".yaml"

	nano   = "postgresql-single-nano"
	small  = "postgresql-single-small"
	medium = "postgresql-replica-medium"
)

func manifest(plan string) string {
	return fmt.Sprintf(`apiVersion: anynines.com/v1
kind: PostgresqlInstance
metadata:
  name: %s
  namespace: %s
spec:
  service: a9s-postgresql13
  plan: %s
  expose: Internal
  parameters:
    maxConnections: 120
`, name, namespace, plan)
}

// related is a claim that belongs to the database.
func related(kind, spec string) string {
	return fmt.Sprintf(`apiVersion: anynines.com/v1
kind: %s
metadata:
  name: %s
  namespace: %s
spec:
  serviceInstanceType: postgresql
  %s
`, kind, name, namespace, spec)
}

// applyText applies a claim as dora.
func (s *Story) applyText(ctx context.Context, manifest string) error {
	path := filepath.Join(s.Platform.Dir, "claim.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		return err
	}
	_, err := s.Platform.Kubectl(ctx, s.developer, "apply", "-f", path)
	return err
}

// apply applies the instance as dora, and returns when the app cluster had it.
func (s *Story) apply(ctx context.Context, plan string) (time.Time, error) {
	if err := s.applyText(ctx, manifest(plan)); err != nil {
		return time.Time{}, err
	}
	e, err := s.app.Until(ctx, "the app cluster has it", planIs(plan))
	return e.At, err
}

func planIs(plan string) func(platform.Event) bool {
	return func(e platform.Event) bool {
		return e.Object.GetName() == name && platform.Is(e.Object, plan, "spec", "plan")
	}
}
