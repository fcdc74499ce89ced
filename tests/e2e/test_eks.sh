#!/usr/bin/env bash
# Deep learning on EKS: the document's claims efs-claim and fsx-claim, bound to local volumes (what only AWS has, CSI
# drivers and eksctl, is compared with the drivers' own names by tests/interop/check_manifests.sh), MPIJobs that train from
# each of them, and one that trains from an S3 server in the cluster, which wants signatures.
. "$(dirname "$0")/lib.sh"
records=$(imagenet_records) || exit 1
small=(-p BATCH_SIZE=4 -p STEPS=2 -p CPU=500m -p MEMORY=1Gi -p LAUNCHER_CPU=200m -p GRACE_SECONDS=20
    -p ARGS="--image-size 64 --classes 10 --threads 1 --eval-data none")
job=resnet50v1-5-fp32-training
before

# The claim is the rendered one; the volume and the class behind it are ours, under the names that it asks for.
volumes=()
for system in efs fsx; do
    # Few files of its own: the job saves its checkpoints beside them.
    mkdir -p "$WORK/$system" && cp "$records"/*-00000-of-* "$WORK/$system"
    must "a local volume stands in for $system-pv" local_volume "$system-pv-$NS" "$WORK/$system" 100Gi "$system-sc-$NS"
    volumes+=("$system-pv-$NS")
    k8s render eks-storage -p FILE_SYSTEM=$system -p FILE_SYSTEM_ID=fs-0123456789abcdef0 -p CAPACITY=100Gi |
        awk 'BEGIN { RS = "---\n" } /kind: PersistentVolumeClaim/' |
        sed "s/\($system-pv\|$system-sc\)\$/\1-$NS/" >"$WORK/$system-claim.yaml"
    must "$system-claim is accepted" kubectl apply -f "$WORK/$system-claim.yaml"
    check 'and bound' wait_for 30 phase "pvc/$system-claim" Bound
done
check "kubectl get pvc shows what the document shows" says '^fsx-claim +Bound +fsx-pv' kubectl get pvc

# train SOURCE PARAMETERS...
train() {
    local source=$1
    shift
    must "the MPIJob on $source is accepted" k8s apply eks-training -p SOURCE="$source" "${small[@]}" "$@"
    check 'it succeeds' says succeeded k8s wait eks-training --timeout 240
    check "its launcher's log has both steps" says 'step 2/2, loss [0-9.]+' k8s logs eks-training
    check 'of two ranks' says '2 ranks' k8s logs eks-training
    show 3 k8s logs eks-training
    [ "$source" = s3 ] || check 'and saved a checkpoint on the claim' "$LOCKSTEP" checkpoint verify "$WORK/$source/checkpoints/$job"
    check 'it is deleted' k8s delete eks-training -p SOURCE="$source" "${small[@]}" "$@"
}
train efs
train fsx

# S3: a server of this cluster, filled from outside.
must "the server's image is here" tests/e2e/cluster/import "$(tests/e2e/images/s3)"
kubectl create secret generic s3-key --from-literal=AWS_ACCESS_KEY_ID=interop --from-literal=AWS_SECRET_ACCESS_KEY='se/cret+key=1' >/dev/null
kubectl create -f - >/dev/null <<'END_OF_SERVER'
apiVersion: v1
kind: Pod
metadata: {name: s3, labels: {app: s3}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: s3
    image: localhost/versitygw:1
    args: [--port, ":7070", --region, us-west-2, --keep-alive, posix, --sidecar, /data/meta, /data/buckets]
    env:
    - {name: VGW_QUIET, value: "true"}
    - {name: ROOT_ACCESS_KEY, valueFrom: {secretKeyRef: {name: s3-key, key: AWS_ACCESS_KEY_ID}}}
    - {name: ROOT_SECRET_KEY, valueFrom: {secretKeyRef: {name: s3-key, key: AWS_SECRET_ACCESS_KEY}}}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    readinessProbe: {tcpSocket: {port: 7070}, periodSeconds: 1}
    volumeMounts: [{name: data, mountPath: /data}]
  initContainers:
  - name: directories
    image: localhost/busybox:1
    command: [mkdir, -p, /data/meta, /data/buckets/dl-benchmark-dataset]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: s3}
spec:
  selector: {app: s3}
  ports: [{port: 7070}]
END_OF_SERVER
must 'an S3 server runs in the cluster' kubectl wait --for=condition=Ready pod/s3 --timeout=60s
address=$(kubectl get service s3 -o 'jsonpath={.spec.clusterIP}')
check 'records are written to it' env AWS_ENDPOINT_URL_S3="http://$address:7070" AWS_REGION=us-west-2 AWS_ACCESS_KEY_ID=interop \
    AWS_SECRET_ACCESS_KEY='se/cret+key=1' LOCKSTEP_CACHE_DIR="$WORK/cache" "$LOCKSTEP" data make imagenet \
    s3://dl-benchmark-dataset/imagenet --examples 40 --eval-examples 8 --train-shards 2 --image-size 100
train s3 -p S3_PATH=s3://dl-benchmark-dataset/imagenet -p S3_ENDPOINT=http://s3:7070 -p S3_SECRET=s3-key
kubectl delete pod/s3 service/s3 secret/s3-key >/dev/null
check 'the claims are deleted' kubectl delete -f "$WORK/efs-claim.yaml" -f "$WORK/fsx-claim.yaml"
check 'and the volumes' kubectl delete pv "${volumes[@]}"
check 'nothing is left behind' nothing_left
finish
