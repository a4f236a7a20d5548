// Package allowedsigners says with which keys the agents sign their commits.
package allowedsigners

import (
	"context"
	"errors"
	"fmt"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/konnector/internal/cli/command"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	Connection string
}

// Do prints the keys, a line each.
func Do(ctx context.Context, in Input) error {
	connection, err := in.Cluster.Connection(ctx, in.Connection)
	if err != nil {
		return err
	}
	lines, err := linesOf(connection)
	if err != nil {
		return err
	}
	for _, line := range lines {
		fmt.Fprintln(in.Terminal.Out, line)
	}
	return nil
}

func linesOf(c *v1alpha1.Connection) ([]string, error) {
	var lines []string
	if key := c.Status.SigningKey; key != "" {
		_, email := contract.ComponentIdentity(contract.Konnector, c.Spec.ClusterID)
		lines = append(lines, signing.AllowedSigner(email, signing.Key(key)))
	}
	if c.Status.Encryption != nil {
		for _, public := range c.Status.Encryption.SigningKeys {
			key, err := signing.Ed25519Key(public)
			if err != nil {
				return nil, fmt.Errorf("status.encryption.signingKeys of Connection %s: %w", c.Name, err)
			}
			_, email := contract.BridgeIdentity()
			lines = append(lines, signing.AllowedSigner(email, key))
		}
	}
	if len(lines) == 0 {
		return nil, errors.New("the Connection has no key: the konnector signs its commits when spec.signCommits is true, and the backend tells it the bridge's keys")
	}
	return lines, nil
}
