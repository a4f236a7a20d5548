package branch

import (
	"context"
	"errors"
	"fmt"

	"gitbind.dev/gitbridge/store"
)

// Remove takes the branch away.
func (c *Client) Remove(ctx context.Context, at store.Hash) error {
	unlock, err := c.beginPush(ctx)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	defer unlock()
	if err := c.remoteLock.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.remoteLock.Release(1)
	err = c.remote.Push(ctx, Push{Old: at})
	if err == nil {
		c.setSnapshot(nil)
		return nil
	}
	c.forgetHead()
	if isAnswer(err) {
		return fmt.Errorf("remove: %w", err)
	}
	// Somebody else was first, or no answer came: where the branch is tells.
	head, headErr := c.remote.Head(ctx)
	switch {
	case headErr != nil:
		return fmt.Errorf("remove: %w", errors.Join(err, headErr))
	case head == "":
		c.setSnapshot(nil)
		return nil
	case head != at && !errors.Is(err, store.ErrConflict):
		err = fmt.Errorf("%w: it is at %s", store.ErrConflict, head.Short())
	}
	return fmt.Errorf("remove: %w", err)
}
