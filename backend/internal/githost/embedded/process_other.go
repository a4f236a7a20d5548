//go:build !linux

package embedded

import "time"

// limitProcess is for Linux, where the host runs.
func limitProcess(int, uint64, time.Duration) error { return nil }
