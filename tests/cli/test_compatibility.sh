#!/bin/sh
# Every option and variable that users bring from the programs they come from is in
# docs/compatibility.md, or is one of ours by the same name, and no command that trains or measures
# calls it unknown.
. "$(dirname "$0")/lib.sh"
page=$here/../../docs/compatibility.md
golden=$here/../golden/help

# ResNet-50 v1.5: launch_benchmark with its model's arguments, imagenet_main.
names="model-name precision mode framework batch-size checkpoint data-location noinstall steps
    train_epochs epochs_between_evals num-intra-threads num-inter-threads num-cores socket-id
    numa-cores-per-instance mpi_num_processes mpi_num_processes_per_socket mpi_hostnames output-dir
    benchmark-only accuracy-only dry-run verbose kmp-blocktime seed
    batch_size max_train_steps inter_op_parallelism_threads intra_op_parallelism_threads version
    resnet_size data_dir model_dir stop_threshold enable_lars label_smoothing weight_decay fine_tune
    dtype loss_scale use_synthetic_data export_dir use_bfloat16 hooks"
# Wide & Deep.
names="$names data_location output_dir"
# tf_cnn_benchmarks.
names="$names model num_batches num_epochs num_warmup_batches display_every data_name device
    data_format optimizer variable_update horovod_device use_fp16 distortions eval train_dir
    save_model_secs mkl kmp_affinity kmp_blocktime kmp_settings num_intra_threads num_inter_threads
    forward_only trace_file momentum print_training_accuracy stop_at_top_1_accuracy"
# train_imagenet_resnet_hvd.
names="$names lr_decay_mode warmup_epochs lr mom wdecay fp16 use_larc log_dir clear_log
    eval_interval save_checkpoints_steps num_parallel_calls synthetic"
# The MNIST programs.
names="$names num_train_epoch run_tensorboard"

for name in $names; do
    dashed=$(echo "$name" | tr _ -)
    grep -q "^| \`--$dashed\` " "$page" ||
        grep -q "^  \(-[a-z], \)\{0,1\}--\(\[no-\]\)\{0,1\}$dashed\( \|$\)" "$golden/train.txt" ||
        fail "docs/compatibility.md has no --$name, and train has none of its own"
    # A value that is wrong for all that take one, so that nothing runs.
    for command in train bench; do
        "$LOCKSTEP" $command no_such_model "--$name=no such value" >"$work/out" 2>"$work/err" &&
            fail "lockstep $command no_such_model --$name: accepted"
        grep -q "unknown option" "$work/err" &&
            fail "lockstep $command --$name: $(cat "$work/err")"
    done
done

for letter in a e i n b v; do
    for command in train bench; do
        "$LOCKSTEP" $command no_such_model "-$letter" 0 >"$work/out" 2>"$work/err"
        grep -q "unknown option" "$work/err" && fail "lockstep $command -$letter is unknown"
    done
done

for name in DATASET_DIR OUTPUT_DIR CHECKPOINT_DIR TARGET_ACCURACY STEPS RETRY_LIMIT \
    OMP_NUM_THREADS KMP_AFFINITY KMP_BLOCKTIME KMP_SETTINGS HOROVOD_FUSION_THRESHOLD \
    HOROVOD_HIERARCHICAL_ALLREDUCE NCCL_SOCKET_IFNAME NCCL_MIN_NRINGS NCCL_DEBUG TF_CONFIG FS_ID \
    HOROVOD_TIMELINE HOROVOD_TIMELINE_MARK_CYCLES HOROVOD_STALL_CHECK_TIME_SECONDS \
    HOROVOD_STALL_SHUTDOWN_TIME_SECONDS HOROVOD_STALL_CHECK_DISABLE HOROVOD_AUTOTUNE \
    HOROVOD_AUTOTUNE_LOG HOROVOD_CYCLE_TIME HOROVOD_CACHE_CAPACITY HOROVOD_CPU_OPERATIONS \
    OMPI_COMM_WORLD_SIZE PMI_SIZE HOROVOD_SIZE GROUP_ID GROUP_NAME NFS_PATH NFS_SERVER PVC_NAME PVC_PATH REPLICAS TF_SERVING_PORT USER_ID \
    USER_NAME IMAGE_SUFFIX IMAGE_VERSION MODEL_DIR MODEL_NAME MODEL_SCRIPT REGISTRY WORKERS; do
    grep -qF "\`\$$name\`" "$page" || fail "docs/compatibility.md has no \$$name"
done

for name in resnet50v1_5 wide_deep_large_ds; do
    grep -q "^| \`$name\` " "$page" || fail "docs/compatibility.md has no $name"
done
run 0 train --model-name=wide_deep_large_ds --data synthetic --batch-size 1 --hidden 4 --threads 1 \
    --steps 1 --json -
grep -q '"model": "wide_deep"' "$work/out" || fail "wide_deep_large_ds is not wide_deep"

for line in "Accuracy: " "Total time: " "Target Accuracy: " "total images/sec: " "run_final"; do
    grep -qF "$line" "$page" || fail "docs/compatibility.md does not tell of '$line'"
done

# The line of a single-node pod works, less --framework, whose only value has no meaning here.
run 0 train --model-name=mnist_custom --precision=fp32 --mode=training --batch-size 16 \
    --checkpoint "$work/checkpoints" --data-location=digits --noinstall --examples 64 -a 1 --quiet \
    -- steps=2 train_epochs=1 epochs_between_evals=1
mentions out "2 steps, 32 examples"
KMP_AFFINITY=granularity=fine run 0 train mnist_custom --examples 64 --threads 1 --steps 1 --quiet
mentions err "KMP_AFFINITY has no effect"

# Horovod's variables: those that mean the same are honoured, the others are said to do nothing.
small="train mnist_custom --examples 64 --threads 1 --steps 2 --quiet"
HOROVOD_TIMELINE=$work/timeline.json run 0 $small
says err ""
grep -q '"traceEvents"' "$work/timeline.json" || fail "HOROVOD_TIMELINE wrote no timeline"
HOROVOD_CYCLE_TIME=3.5 HOROVOD_CPU_OPERATIONS=MPI run 0 $small
mentions err "HOROVOD_CYCLE_TIME has no effect: there are no cycles"
mentions err "HOROVOD_CPU_OPERATIONS has no effect: "
HOROVOD_FUSION_THRESHOLD=16777216 HOROVOD_AUTOTUNE=1 HOROVOD_STALL_CHECK_TIME_SECONDS=5 \
    HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=50 HOROVOD_STALL_CHECK_DISABLE=0 run 0 $small
says err ""
HOROVOD_FUSION_THRESHOLD=much run 2 $small
mentions err "--bucket=much: is not a size"
HOROVOD_AUTOTUNE=perhaps run 2 $small
mentions err "HOROVOD_AUTOTUNE=perhaps: say true or false"
PMI_SIZE=2 run 2 $small
mentions err "PMI_SIZE names 2 ranks, but only mpirun"
OMPI_COMM_WORLD_SIZE=2 run 2 bench mnist_custom --data synthetic
mentions err "OMPI_COMM_WORLD_SIZE names several ranks, but no mpirun started this process"
OMPI_COMM_WORLD_SIZE=2 run 2 bench mnist_custom --data synthetic --forward-only
mentions err "OMPI_COMM_WORLD_SIZE names 2 ranks, but this command computes in one process"
finish
