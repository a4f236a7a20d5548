package statusbranch

// Tombstones is how many are noted.
func (b *Branch) Tombstones() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tombstones.Len()
}
