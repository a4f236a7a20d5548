package decision

import (
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// terminating is for an object whose delete has begun: by its user, by this
// agent because the file went, or with its namespace or API.
func (f Facts) terminating() Decision {
	switch {
	case !f.Finalizer:
		// Released by a person. When it is gone and the file is there, it is
		// created again.
		return do(Nothing)
	case f.File == nil && f.Problem == nil:
		return f.terminatingFileAbsent()
	case f.BaseRemoved:
		return f.hold(FileCameBack)
	case f.Ending == NamespaceEnds:
		return f.hold(NamespaceDeleted)
	case f.Ending == APIEnds:
		return f.hold(APIDeleted)
	case f.Ending == OwnerEnds:
		return f.hold(OwnerDeleted)
	case f.Problem != nil:
		return f.hold(DeletedAndChanged)
	case f.Writer == v1alpha1.WriterGit:
		return f.hold(GitWrites)
	case contract.Equal(f.Live, f.File), f.Base != nil && !f.fileChanged():
		return do(RemoveFile)
	default:
		return f.whoChanged(do(RemoveFile), f.hold(DeletedAndChanged))
	}
}

func (f Facts) terminatingFileAbsent() Decision {
	switch {
	case f.Gone == Unasked:
		return ask(AskGone)
	case f.Gone == Yes:
		return do(Release)
	case f.Base != nil && !f.BaseRemoved:
		return do(RecordRemoved)
	default:
		return do(Wait)
	}
}
