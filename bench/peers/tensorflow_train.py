#!/usr/bin/env python3
"""Trains one of the benchmark's networks with TensorFlow on random data, the whole step in one
tf.function; prints one line of JSON."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import common  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import Input, Layer, Model, layers  # noqa: E402


class FusedNorm(Layer):
    """Batch norm by TensorFlow's one fused operation. Keras 3 composes it of many and takes a
    sixth longer for a whole ResNet-50 step."""

    def build(self, shape):
        channels = (shape[-1],)
        self.scale = self.add_weight(shape=channels, initializer="ones")
        self.shift = self.add_weight(shape=channels, initializer="zeros")
        self.mean = self.add_weight(shape=channels, initializer="zeros", trainable=False)
        self.variance = self.add_weight(shape=channels, initializer="ones", trainable=False)

    def call(self, x):
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x, self.scale.value, self.shift.value, self.mean.value, self.variance.value,
            epsilon=1e-5, is_training=True, exponential_avg_factor=0.1)
        self.mean.value.assign(mean)
        self.variance.value.assign(variance)
        return y


def conv_norm(x, channels, kernel, stride=1, relu=True):
    if stride > 1:  # fixed padding, as the v1.5 recipe has it
        before = (kernel - 1) // 2
        if before:
            x = layers.ZeroPadding2D(before)(x)
        padding = "valid"
    else:
        padding = "same"
    x = layers.Conv2D(channels, kernel, stride, padding=padding, use_bias=False)(x)
    x = FusedNorm()(x)
    return layers.ReLU()(x) if relu else x


def bottleneck(x, channels, stride, project):
    shortcut = conv_norm(x, 4 * channels, 1, stride, relu=False) if project else x
    y = conv_norm(x, channels, 1)
    y = conv_norm(y, channels, 3, stride)
    y = conv_norm(y, 4 * channels, 1, relu=False)
    return layers.ReLU()(layers.Add()([y, shortcut]))


def resnet50(classes):
    images = Input((224, 224, 3))
    x = conv_norm(images, 64, 7, 2)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for stage, blocks in enumerate(common.RESNET_BLOCKS):
        for block in range(blocks):
            x = bottleneck(x, 64 << stage, 2 if stage > 0 and block == 0 else 1, block == 0)
    x = layers.GlobalAveragePooling2D()(x)
    return Model(images, layers.Dense(classes)(x))


def vgg16(classes):
    images = x = Input((224, 224, 3))
    for channels, convolutions in common.VGG_STAGES:
        for _ in range(convolutions):
            x = layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dropout(0.5)(layers.Dense(4096, activation="relu")(x))
    return Model(images, layers.Dense(classes)(x))


def mnist(classes):
    images = Input((28, 28, 1))
    x = layers.Conv2D(32, 3, activation="relu")(images)
    x = layers.Flatten()(layers.MaxPooling2D(2)(x))
    x = layers.Dense(64, activation="relu")(x)
    return Model(images, layers.Dense(classes)(x))


def create(options):
    """The network, one batch of images and their labels."""
    if options.model == "mnist":
        network, classes = mnist(10), 10
    else:
        classes = common.IMAGENET_CLASSES
        network = {"resnet50": resnet50, "vgg16": vgg16}[options.model](classes)
    images = tf.random.normal((options.batch, *network.input_shape[1:]))
    labels = tf.random.uniform((options.batch,), 0, classes, tf.int32)
    return network, images, labels


def training_step(network, images, labels, recipe, jit_compile):
    """SGD written out on the variables: faster than Keras' optimizer, which adds a pass per
    variable for weight decay and keeps counters."""
    weights = [v.value for v in network.trainable_variables]
    velocities = [tf.Variable(tf.zeros_like(w)) for w in weights] if recipe["momentum"] else None

    def update(index, gradient):
        weight = weights[index]
        if recipe["decay"] and weight.shape.rank > 1:
            gradient += recipe["decay"] * weight
        if velocities:
            tf.raw_ops.ResourceApplyMomentum(
                var=weight.handle, accum=velocities[index].handle, lr=recipe["rate"],
                grad=gradient, momentum=recipe["momentum"])
        else:
            tf.raw_ops.ResourceApplyGradientDescent(
                var=weight.handle, alpha=recipe["rate"], delta=gradient)

    @tf.function(jit_compile=jit_compile)
    def step():
        with tf.GradientTape() as tape:
            logits = network(images, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        for index, gradient in enumerate(tape.gradient(loss, weights)):
            update(index, gradient)
        return loss

    return lambda: float(step().numpy())


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--inter-op", type=int, default=0, help="0: TensorFlow's own choice")
    parser.add_argument("--jit-compile", action="store_true")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.inter_op)
    tf.keras.utils.set_random_seed(options.seed)
    network, images, labels = create(options)
    step = training_step(network, images, labels, common.RECIPES[options.model],
                         options.jit_compile)
    common.measure(step, options, "tensorflow-cpu " + tf.__version__)


if __name__ == "__main__":
    main()
