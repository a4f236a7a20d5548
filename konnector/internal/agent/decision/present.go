package decision

import (
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// absent is for a claim that has no object. Its absence says nothing: it never
// removes a file.
func (f Facts) absent() Decision {
	switch {
	case f.Problem != nil:
		return f.hold(FileInvalid)
	case f.File == nil:
		return do(Nothing)
	case f.NamespaceMissing:
		return f.hold(NamespaceMissing)
	case f.Refusal != "":
		return f.hold(FileRefused)
	default:
		return do(Create)
	}
}

// present is for an object that is to stay.
func (f Facts) present() Decision {
	switch {
	case f.Unfit != nil:
		return f.hold(NameUnfit)
	case f.Problem != nil:
		return f.hold(FileInvalid)
	case f.File == nil:
		return f.fileAbsent()
	case contract.Equal(f.Live, f.File):
		return f.inStep()
	case f.Base == nil:
		return f.whoChanged(do(Rebase), f.bothExist())
	case f.fileChanged() && !f.BaseCurrent:
		// The file may be older than the object, as after a restored backup: what
		// the object says may be nowhere else.
		return f.whoChanged(do(Rebase), f.giveWay(BothExist))
	case f.fileChanged() && f.Continues != Yes:
		return f.fileOfAnotherPast()
	case f.liveChanged() && f.fileChanged():
		return f.whoChanged(do(Rebase), f.bothChanged())
	case f.liveChanged():
		return f.liveAlone()
	case f.Touched, f.Proposed != nil:
		// The file may be the way there, pushed or proposed by this agent, of which
		// Base does not know; then this is the way back.
		return f.whoChanged(do(Rebase), f.backAgain())
	default:
		return f.fileAlone()
	}
}

// fileOfAnotherPast is for a file that differs from Base where it is not known that
// main has the commit of Base. If it has not, the Git host has lost that commit: what
// the file says is older, and undoes nothing that was agreed since.
func (f Facts) fileOfAnotherPast() Decision {
	if f.Continues == Unasked {
		return ask(AskContinues)
	}
	if f.HistoryTooLong {
		return f.whoChanged(do(Rebase), f.hold(HistoryTooLong))
	}
	return f.whoChanged(do(Rebase), f.hold(CommitLost))
}

// inStep is for an object that is as its file.
func (f Facts) inStep() Decision {
	switch {
	case !f.Finalizer, !f.BaseCurrent, f.BaseRemoved, f.Touched, !contract.Equal(f.Live, f.Base):
		return do(Record)
	case f.Lost != nil:
		return f.lost()
	default:
		return do(Nothing)
	}
}

// fileAbsent is for an object that is to stay and has no file.
func (f Facts) fileAbsent() Decision {
	switch {
	case f.Base == nil && f.BaseCommit != "" && f.Continues == Unasked:
		return ask(AskContinues)
	case f.Base == nil && f.BaseCommit != "" && f.Continues == Yes:
		return f.hold(ChangedAndRemoved)
	case f.Base == nil && f.Finalizer && f.OwnWork == Unasked:
		return ask(AskOwnWork)
	case f.Base == nil && f.Interrupted != NotInterrupted:
		// Main had it, and the object is as it was before it could say so, as after the
		// restore of a backup.
		return f.hold(ChangedAndRemoved)
	case f.Base == nil && f.HistoryTooLong:
		// Main may have had it.
		return f.hold(HistoryTooLong)
	case f.Base == nil && f.Writer == v1alpha1.WriterGit:
		return f.hold(GitWrites)
	case f.Base == nil:
		return do(Commit)
	case f.liveChanged(), f.Touched:
		return f.hold(ChangedAndRemoved)
	case f.Writer == v1alpha1.WriterCluster:
		return f.hold(ClusterWrites)
	}
	switch f.Continues {
	case Unasked:
		return ask(AskContinues)
	case Yes:
		return do(Delete)
	}
	if f.HistoryTooLong {
		return f.hold(HistoryTooLong)
	}
	return f.hold(FileMissing)
}

// liveAlone is for a change of the object alone.
func (f Facts) liveAlone() Decision {
	if f.Writer == v1alpha1.WriterGit {
		return f.giveWay(GitWrites)
	}
	switch f.Flips {
	case Unasked:
		return ask(AskFlips)
	case Yes:
		return f.hold(FlipFlop)
	default:
		return do(Commit)
	}
}

// fileAlone is for a change of the file alone, by others.
func (f Facts) fileAlone() Decision {
	switch {
	case f.Writer == v1alpha1.WriterCluster:
		return f.hold(ClusterWrites)
	case f.Refusal != "":
		return f.hold(FileRefused)
	default:
		return do(Write)
	}
}
