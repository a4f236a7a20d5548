//go:build !linux

package env

// unmountBelow has nothing to do: nodes need Linux.
func unmountBelow(string) error { return nil }
