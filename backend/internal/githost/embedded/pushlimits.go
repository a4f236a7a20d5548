package embedded

import (
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/store/limits"
	"gitbind.dev/gitbridge/store/pack"
)

// defaultMaxPush is the largest push, in bytes as they are sent.
const defaultMaxPush = 64 << 20

// packLimits bound what one push may bring.
var packLimits = pack.Limits{
	Objects: 200_000, Object: 32 << 20, Total: 512 << 20, Kept: 128 << 20,
	Commit: limits.Commit, Commits: limits.Commits,
}

const (
	// pushMemory is how many bytes all pushes that are in work may take; one of them may
	// take its own limits beyond that.
	pushMemory = 192 << 20
	// gitMemory is about what git takes at most for a push within packLimits.
	gitMemory = 96 << 20
)

// pushTooLarge is told of a push of more bytes than a limit.
func pushTooLarge(limit int64) error {
	return refusal.New(refusal.TooLarge, "the push is larger than %d MiB: push fewer commits at a time, and keep large files elsewhere", limit>>20)
}
