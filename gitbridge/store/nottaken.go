package store

// NotTakenError says that the remote could not store a push, as when its disk is full or a
// quota is used up. Nothing was changed there, and trying again later is right.
type NotTakenError struct {
	// Reason is the remote's, and the same while the trouble is the same. Words are what
	// else it said, such as names of temporary files; "" for nothing.
	Reason, Words string
}

func (e *NotTakenError) Error() string {
	text := "the remote could not store the push: " + e.Reason
	if e.Words != "" && e.Words != e.Reason {
		text += ": " + e.Words
	}
	return text
}
