package decision

import "gitbind.dev/gitbridge/api/v1alpha1"

// bothExist is for an object and a file of others that never agreed.
func (f Facts) bothExist() Decision {
	if f.Interrupted == AllPushed {
		// What was proposed of the object is on main, and was changed there.
		return f.fileAlone()
	}
	return f.giveWay(BothExist)
}

// bothChanged is for changes on both sides, of which the file's is by others.
func (f Facts) bothChanged() Decision {
	switch {
	case f.Interrupted == AllPushed:
		return f.fileAlone()
	case f.mayBeEditedSince():
		return f.giveWay(BothChanged)
	case f.Writer == v1alpha1.WriterGit:
		return f.giveWay(GitWrites)
	case f.Writer == v1alpha1.WriterCluster:
		return f.hold(ClusterWrites)
	case f.MergeRefusal != "":
		return f.giveWay(BothChanged)
	}
	switch f.Merges {
	case Unasked:
		return ask(AskMerge)
	case Yes:
		return do(Merge)
	default:
		return f.giveWay(BothChanged)
	}
}

// backAgain is for an object that was edited and is as Base again, or was never
// edited, beside a change of the file by others.
func (f Facts) backAgain() Decision {
	if f.mayBeEditedSince() {
		return f.giveWay(BothChanged)
	}
	return f.fileAlone()
}

// mayBeEditedSince reports whether it cannot be told which fields of the object were edited since a
// push of it, as there may have been one.
func (f Facts) mayBeEditedSince() bool {
	return f.Interrupted == EditedSince || f.Interrupted == NotInterrupted && f.HistoryTooLong
}

// giveWay lets the file win.
func (f Facts) giveWay(why Reason) Decision {
	switch {
	case f.Writer == v1alpha1.WriterCluster:
		return f.hold(ClusterWrites)
	case f.Refusal != "":
		return f.hold(FileRefused)
	default:
		return Decision{Action: GiveWay, Reason: why}
	}
}
