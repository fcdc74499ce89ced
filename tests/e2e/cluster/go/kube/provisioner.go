package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Who made a volume: the controller-manager leaves the deletion of a volume
// that carries another maker's name to that maker.
const (
	provisionerName = "cluster/local-dir"
	madeBy          = "pv.kubernetes.io/provisioned-by"
)

type provisioner struct {
	api  kubernetes.Interface
	base string
}

// newProvisionerCommand makes claims of the storage classes served by
// "cluster/local-dir" real: one directory per claim, handed out as a volume of
// type "local" (and not "hostPath") because the kubelet applies a pod's
// fsGroup to that type, so pods that do not run as root can write to it. All
// nodes are of one machine and see the same directories.
func newProvisionerCommand() *cobra.Command {
	var kubeconfig string
	p := &provisioner{}
	command := &cobra.Command{
		Use:   "provisioner",
		Short: "back claims with directories of this machine",
		RunE: func(*cobra.Command, []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			if p.api, err = kubernetes.NewForConfig(config); err != nil {
				return err
			}
			for {
				if err := p.round(context.Background()); err != nil {
					fmt.Fprintln(os.Stderr, "provisioner:", err)
				}
				time.Sleep(time.Second)
			}
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster")
	command.Flags().StringVar(&p.base, "dir", "", "where the volumes' directories live")
	return command
}

func (p *provisioner) round(ctx context.Context) error {
	classes, err := p.api.StorageV1().StorageClasses().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	policy := map[string]core.PersistentVolumeReclaimPolicy{}
	for _, class := range classes.Items {
		if class.Provisioner == provisionerName {
			policy[class.Name] = core.PersistentVolumeReclaimDelete
			if class.ReclaimPolicy != nil {
				policy[class.Name] = *class.ReclaimPolicy
			}
		}
	}
	claims, err := p.api.CoreV1().PersistentVolumeClaims("").List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Spec.StorageClassName == nil || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
			continue
		}
		reclaim, ours := policy[*claim.Spec.StorageClassName]
		if !ours {
			continue
		}
		if err := p.make(ctx, claim, reclaim); err != nil {
			fmt.Fprintln(os.Stderr, "provisioner:", claim.Namespace+"/"+claim.Name+":", err)
		}
	}
	return p.sweep(ctx)
}

func (p *provisioner) make(ctx context.Context, claim *core.PersistentVolumeClaim, reclaim core.PersistentVolumeReclaimPolicy) error {
	name := "pvc-" + string(claim.UID)
	dir := filepath.Join(p.base, name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	// The process's umask must not narrow what a freshly formatted volume allows.
	if err := os.Chmod(dir, 0o777); err != nil {
		return err
	}
	volume := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{madeBy: provisionerName}},
		Spec: core.PersistentVolumeSpec{
			Capacity:                      core.ResourceList{core.ResourceStorage: claim.Spec.Resources.Requests[core.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			StorageClassName:              *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: reclaim,
			VolumeMode:                    claim.Spec.VolumeMode,
			PersistentVolumeSource:        core.PersistentVolumeSource{Local: &core.LocalVolumeSource{Path: dir}},
			ClaimRef: &core.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{
				NodeSelectorTerms: []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{{
					Key: core.LabelOSStable, Operator: core.NodeSelectorOpIn, Values: []string{"linux"},
				}}}},
			}},
		},
	}
	_, err := p.api.CoreV1().PersistentVolumes().Create(ctx, volume, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// sweep deletes what released volumes held, and then the volumes.
func (p *provisioner) sweep(ctx context.Context) error {
	volumes, err := p.api.CoreV1().PersistentVolumes().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for _, volume := range volumes.Items {
		if volume.Annotations[madeBy] != provisionerName || volume.Spec.Local == nil ||
			volume.Status.Phase != core.VolumeReleased ||
			volume.Spec.PersistentVolumeReclaimPolicy != core.PersistentVolumeReclaimDelete ||
			filepath.Dir(volume.Spec.Local.Path) != filepath.Clean(p.base) {
			continue
		}
		if err := os.RemoveAll(volume.Spec.Local.Path); err != nil {
			return err
		}
		if err := p.api.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{}); err != nil && !errors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
