"""What a user of tf.distribute brings: Keras on MultiWorkerMirroredStrategy, its peers from TF_CONFIG, a checkpoint
after every epoch in the chief's directory, from which a restarted job goes on. The digits are drawn here: an image has
no network but the cluster's."""
import json
import os
import sys

import numpy as np
import tensorflow as tf

directory = sys.argv[1] if len(sys.argv) > 1 else "/pvcmnt"
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
print("worker %d, replicas in sync: %d" % (index, strategy.num_replicas_in_sync), flush=True)

# Ten patterns and noise.
chance = np.random.default_rng(1)
patterns = chance.normal(size=(10, 8, 8, 1)).astype(np.float32)
labels = chance.integers(0, 10, 2048)
pictures = patterns[labels] + 0.5 * chance.normal(size=(2048, 8, 8, 1)).astype(np.float32)
data = tf.data.Dataset.from_tensor_slices((pictures, labels)).repeat().batch(128)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = strategy.experimental_distribute_dataset(data.with_options(options))

with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8, 8, 1)), tf.keras.layers.Conv2D(8, 3, activation="relu"),
                                 tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    optimizer = tf.keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)
    epoch = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=epoch)

# Saving is collective: all take part, and only the chief's file is kept.
place = os.path.join(directory, "checkpoints") if index == 0 else "/tmp/checkpoints-%d" % index
manager = tf.train.CheckpointManager(checkpoint, place, max_to_keep=2)


@tf.function
def step(batch):
    def replica(images, wanted):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.nn.compute_average_loss(loss_of(wanted, logits), global_batch_size=128)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        right = tf.reduce_sum(tf.cast(tf.argmax(logits, 1) == tf.cast(wanted, tf.int64), tf.float32))
        return loss, right
    loss, right = strategy.run(replica, args=batch)
    return strategy.reduce("SUM", loss, None), strategy.reduce("SUM", right, None)


batches = iter(data)
while epoch.numpy() < epochs:
    accuracy = 0.0
    for _ in range(16):
        loss, right = step(next(batches))
        accuracy += right.numpy() / 128 / 16
    epoch.assign_add(1)
    manager.save()
    print("Epoch %d, Loss: %.6f, Accuracy: %.6f" % (epoch.numpy(), loss.numpy(), accuracy), flush=True)
