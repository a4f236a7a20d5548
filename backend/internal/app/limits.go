package app

import (
	"errors"

	"github.com/spf13/pflag"

	"gitbind.dev/backend/internal/githost/embedded"
)

// defaultClusters is how many clusters one owner may have.
const defaultClusters = 10

// limitOptions are the flags about how much of the platform one tenant may take.
type limitOptions struct {
	clusters      int
	repositoryMiB int64
	branches      int
	workMiB       int64
}

func (o *limitOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.clusters, "max-clusters", defaultClusters, "how many clusters one person or pipeline may have; 0: any number")
	f.Int64Var(&o.repositoryMiB, "max-repository-size", embedded.DefaultMaxBytes>>20, "how large a repository may be on the disk, in MiB; people may fill half of it, and the konnector three quarters")
	f.IntVar(&o.branches, "max-branches", embedded.DefaultMaxRefs, "how many branches a repository may have; people may make half of them, and the konnector three quarters")
	f.Int64Var(&o.workMiB, "max-work", 0, "how many MiB a second of pushes and fetches of one owner's repositories the embedded host works on, two thirds of that for one cluster (default: 3 for each processor)")
}

func (o *limitOptions) check() error {
	if o.clusters < 0 || o.repositoryMiB < 0 || o.branches < 0 || o.workMiB < 0 {
		return errors.New("--max-clusters, --max-repository-size, --max-branches and --max-work must not be negative")
	}
	return nil
}
