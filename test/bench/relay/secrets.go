package relay

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Secrets carries the Secrets with a label from one API server to the same place in
// another, in clear.
type Secrets struct {
	Selector string
	From, To kubernetes.Interface
}

// Run carries until ctx ends; it returns when it has begun.
func (s *Secrets) Run(ctx context.Context) error {
	queue := newQueue()
	secrets := informers.NewSharedInformerFactoryWithOptions(s.From, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = s.Selector })).
		Core().V1().Secrets().Informer()
	add := func(o any) {
		if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
			queue.Add(key)
		}
	}
	if _, err := secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }}); err != nil {
		return err
	}
	go secrets.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), secrets.HasSynced) {
		return fmt.Errorf("run the relay of Secrets: %w", context.Cause(ctx))
	}
	for range Workers {
		go work(ctx, queue, func(ctx context.Context, key string) error {
			o, ok, err := secrets.GetIndexer().GetByKey(key)
			if err != nil || !ok {
				return err
			}
			return s.carry(ctx, o.(*corev1.Secret))
		})
	}
	context.AfterFunc(ctx, queue.ShutDown)
	return nil
}

func (s *Secrets) carry(ctx context.Context, from *corev1.Secret) error {
	to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name, Labels: from.Labels}, Type: from.Type, Data: from.Data}
	_, err := s.To.CoreV1().Secrets(to.Namespace).Update(ctx, to, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = s.To.CoreV1().Secrets(to.Namespace).Create(ctx, to, metav1.CreateOptions{})
	}
	return err
}
