package repository

import "gitbind.dev/gitbridge/encryption"

// SetOpener says how what travels encrypted is opened from now on; nil for not at all.
// Claims whose Secrets could not be opened are looked at again.
func (r *Repository) SetOpener(o *encryption.Opener) {
	if o.Equal(r.opener.Load()) {
		return
	}
	r.opener.Store(o)
	r.tell.recovered()
}

// Opener is nil as long as there are no keys.
func (r *Repository) Opener() *encryption.Opener { return r.opener.Load() }

// SetSender says how what goes to the control plane is sealed from now on; nil for not at
// all. Claims of which something goes are looked at again.
func (r *Repository) SetSender(s *encryption.Sender) {
	if s.Equal(r.sender.Load()) {
		return
	}
	r.sender.Store(s)
	r.tell.recovered()
}

// Sender is nil as long as there are no keys.
func (r *Repository) Sender() *encryption.Sender { return r.sender.Load() }

// UnknownSigner tells that a Secret is signed with a key that the opener does not know.
func (r *Repository) UnknownSigner() {
	if r.OnUnknownSigner != nil {
		r.OnUnknownSigner()
	}
}
