package cli

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/usage"
)

func TestAnInterruptionKeepsQuietOfNothingThatRemains(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("wait: %w", ctx.Err()), "interrupted\n"},
		{fmt.Errorf("resolve: %w", &usage.Remains{Err: ctx.Err(), What: "The decision stands"}), "interrupted\nThe decision stands\n"},
	} {
		var out bytes.Buffer
		if code := end(ctx, &cobra.Command{}, c.err, &out); code != exitInterrupted || out.String() != c.want {
			t.Errorf("%d, %q, want %q", code, out.String(), c.want)
		}
	}
}
