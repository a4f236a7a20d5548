package informers

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// dropped is in the place of an object that is not to be kept.
type dropped struct{ metav1.PartialObjectMetadata }

// kept passes on the events of a watch but for those of objects that are dropped.
// (apimachinery's Filter waits for ever for a reader who stopped.)
type kept struct {
	watch.Interface
	events  chan watch.Event
	stop    sync.Once
	stopped chan struct{}
}

func drop(from watch.Interface) watch.Interface {
	k := &kept{Interface: from, events: make(chan watch.Event), stopped: make(chan struct{})}
	go k.run()
	return k
}

// ResultChan has what is passed on.
func (k *kept) ResultChan() <-chan watch.Event { return k.events }

// Stop ends the watch.
func (k *kept) Stop() {
	k.stop.Do(func() { close(k.stopped) })
	k.Interface.Stop()
}

func (k *kept) run() {
	defer close(k.events)
	for e := range k.Interface.ResultChan() {
		if _, isDropped := e.Object.(*dropped); isDropped {
			continue
		}
		select {
		case k.events <- e:
		case <-k.stopped:
			return
		}
	}
}
