package controlplane

import (
	"context"
	"fmt"
	"slices"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Cluster is an app cluster as a person knows it.
type Cluster struct{ ID, Name string }

func (c Cluster) String() string {
	if c.Name == "" {
		return c.ID
	}
	return c.ID + " (" + c.Name + ")"
}

// OpenCluster opens a backend as Open does, and gives the cluster that is meant: that of
// the Connection, or with a URL the person's own one of this id or name.
func (a Access) OpenCluster(ctx context.Context, url, connection, ref string) (*Client, Cluster, error) {
	return a.openCluster(ctx, url, connection, ref, func(c restapi.Cluster) bool { return c.Owner == "" })
}

// OpenShared is OpenCluster also for clusters that others share with the person.
func (a Access) OpenShared(ctx context.Context, url, connection, ref string) (*Client, Cluster, error) {
	return a.openCluster(ctx, url, connection, ref, func(restapi.Cluster) bool { return true })
}

func (a Access) openCluster(ctx context.Context, url, connection, ref string, meant func(restapi.Cluster) bool) (*Client, Cluster, error) {
	backend, found, err := a.Open(ctx, url, connection)
	switch {
	case err != nil:
		return nil, Cluster{}, err
	case found != nil:
		return backend, Cluster{ID: found.Spec.ClusterID}, nil
	}
	all, err := backend.Clusters(ctx)
	if err != nil {
		return nil, Cluster{}, err
	}
	cluster, err := choose(slices.DeleteFunc(all, func(c restapi.Cluster) bool { return !meant(c) }), ref)
	return backend, cluster, err
}

// choose is the cluster of an id or of a name.
func choose(all []restapi.Cluster, ref string) (Cluster, error) {
	var own, found []Cluster
	for _, c := range all {
		cluster := Cluster{c.ID, c.Name}
		if c.ID == ref {
			return cluster, nil
		}
		if c.Name == ref {
			found = append(found, cluster)
		}
		own = append(own, cluster)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		text := fmt.Sprintf("you have no cluster %q there", ref)
		for i, c := range own {
			sep := ", "
			if i == 0 {
				sep = "; yours are "
			}
			text += sep + c.String()
		}
		return Cluster{}, fmt.Errorf("%s", text)
	}
	return Cluster{}, usage.Errorf("you have several clusters %q: give the id, %s or %s", ref, found[0].ID, found[1].ID)
}
