package session

import "sync"

// Registry holds the sessions of all followed app clusters.
type Registry struct {
	mu          sync.Mutex
	byID        map[string]*Session
	byNamespace map[string]*Session
}

// Add makes a session known, in the place of an older one of the same cluster.
func (r *Registry) Add(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID, r.byNamespace = map[string]*Session{}, map[string]*Session{}
	}
	r.byID[s.Cluster.ID], r.byNamespace[s.Cluster.Namespace] = s, s
}

// Remove forgets a session.
func (r *Registry) Remove(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[s.Cluster.ID] == s {
		delete(r.byID, s.Cluster.ID)
		delete(r.byNamespace, s.Cluster.Namespace)
	}
}

// Get is the session of a cluster, nil if it is not followed.
func (r *Registry) Get(clusterID string) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[clusterID]
}

// In is the session of the cluster with a tenant namespace, nil if it is not
// followed.
func (r *Registry) In(namespace string) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byNamespace[namespace]
}

// All are all sessions.
func (r *Registry) All() []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Session
	for _, s := range r.byID {
		all = append(all, s)
	}
	return all
}
