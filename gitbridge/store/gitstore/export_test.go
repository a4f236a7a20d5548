package gitstore

// SetIncrement sets how many objects are taken for what changed.
func (r *Repository) SetIncrement(n int) { r.http.increment = n }
