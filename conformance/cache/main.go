// Command cache keeps the Pods of a namespace as controllers in Go do, until its standard input ends.
//
//	cache informer NAMESPACE            client-go's shared informer
//	cache transform NAMESPACE           the same with a transform that keeps what the controller reads
//	cache controller-runtime NAMESPACE  controller-runtime's cache with ByObject and the same transform
//
// It reads KUBECONFIG. When the store has been filled it prints `synced N` with the number of Pods, and from then on `changed NAME` for each
// event that its handler gets.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// handler prints what changes, once all was listed. Pods that no DaemonSet owns are of no interest.
type handler struct {
	mutex  sync.Mutex
	out    *bufio.Writer
	synced atomic.Bool
}

func (h *handler) print(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok || !h.synced.Load() || !ownedByDaemonSet(pod) {
		return
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	fmt.Fprintln(h.out, "changed", pod.Name)
	h.out.Flush()
}

func (h *handler) OnAdd(object any, _ bool) { h.print(object) }
func (h *handler) OnUpdate(_, object any)   { h.print(object) }
func (h *handler) OnDelete(object any)      { h.print(object) }

func ownedByDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// transform keeps what the controller reads. A transform cannot drop an object: of Pods that do not matter, the name is left.
func transform(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}}
	if ownedByDaemonSet(pod) {
		kept.OwnerReferences = pod.OwnerReferences
		kept.Spec.NodeName = pod.Spec.NodeName
		kept.Status.Phase = pod.Status.Phase
	}
	return kept, nil
}

func run(mode, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := &handler{out: bufio.NewWriter(os.Stdout)}
	count := 0
	switch mode {
	case "informer", "transform":
		clients, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		options := []informers.SharedInformerOption{informers.WithNamespace(namespace)}
		if mode == "transform" {
			options = append(options, informers.WithTransform(transform))
		}
		factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, options...)
		pods := factory.Core().V1().Pods().Informer()
		registration, err := pods.AddEventHandler(events)
		if err != nil {
			return err
		}
		factory.Start(ctx.Done())
		if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return fmt.Errorf("the informer does not sync")
		}
		count = len(pods.GetStore().ListKeys())
	case "controller-runtime":
		log.SetLogger(logr.Discard())
		objects, err := cache.New(config, cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {Namespaces: map[string]cache.Config{namespace: {}}, Transform: transform},
			},
		})
		if err != nil {
			return err
		}
		pods, err := objects.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		registration, err := pods.AddEventHandler(events)
		if err != nil {
			return err
		}
		go func() {
			if err := objects.Start(ctx); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}()
		if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return fmt.Errorf("the cache does not sync")
		}
		var list corev1.PodList
		if err := objects.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		count = len(list.Items)
	default:
		return fmt.Errorf("no such mode: %s", mode)
	}
	events.synced.Store(true)
	fmt.Println("synced", count)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: cache informer|transform|controller-runtime NAMESPACE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
