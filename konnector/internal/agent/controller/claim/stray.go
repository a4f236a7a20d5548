package claim

import (
	"maps"
	"slices"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// withStrayKeys is a version with the labels and annotations that the file has and
// that do not travel: they are their author's.
func (l *look) withStrayKeys(version *contract.Claim) *contract.Claim {
	if l.file == nil {
		return version
	}
	if l.base != nil && l.facts.Base != nil && l.base.Blob == string(l.file.Hash) {
		// Mostly it is a file of ours, which has nothing else and need not be read.
		if data, err := contract.Encode(l.facts.Base); err == nil && string(store.BlobHash(data)) == l.base.Blob {
			return version
		}
	}
	file, err := l.readFile()
	if err != nil {
		return version
	}
	return l.api.schema.Keys().With(version, file)
}

// stray are the labels and annotations of the file that do not travel.
func (l *look) stray() []string {
	if l.says == nil && l.base != nil {
		return l.strayOf(l.base.Stray)
	}
	if l.says == nil {
		return nil
	}
	return l.strayOf(slices.Concat(slices.Collect(maps.Keys(l.says.Labels)), slices.Collect(maps.Keys(l.says.Annotations))))
}

// strayOf are those keys that do not travel, sorted.
func (l *look) strayOf(keys []string) []string {
	stray := slices.DeleteFunc(slices.Clone(keys), l.api.schema.Keys().Travels)
	slices.Sort(stray)
	if stray = slices.Compact(stray); len(stray) == 0 {
		return nil
	}
	return stray
}

// unchangedFile is the file that the base was made from. It is the base, with what came
// to travel since.
func (l *look) unchangedFile() (*contract.Claim, error) {
	keys := l.api.schema.Keys()
	if !slices.ContainsFunc(l.base.Stray, keys.Travels) {
		return l.facts.Base, nil
	}
	says, err := l.readFile()
	if err != nil {
		return nil, err
	}
	came := func(base, file map[string]string) map[string]string {
		out := maps.Clone(base)
		for _, key := range l.base.Stray {
			value, has := file[key]
			if !has || !keys.Travels(key) {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
		return out
	}
	file := *l.facts.Base
	file.Labels, file.Annotations = came(file.Labels, says.Labels), came(file.Annotations, says.Annotations)
	return &file, nil
}
