"""The networks lockstep brings, written a second time, from their published descriptions."""
import numpy
import torch

import oracle


def resnet50(classes):
    """v1.5: the stride of a block is on its 3x3 convolution. Strided convolutions pad both sides
    by a fixed amount, whatever the size of the picture, then convolve without padding."""

    def conv_norm(walk, x, channels, kernel, stride, **draws):
        pad = (kernel - 1) // 2
        padding = {"padding": "explicit", "before": pad, "after": kernel - 1 - pad}
        x = walk.conv2d(x, channels, kernel, stride, bias=0, **padding)
        return walk.batch_norm(x, **draws)

    def block(walk, x, width, stride, project):
        shortcut = conv_norm(walk, x, 4 * width, 1, stride) if project else x
        y = walk.relu(conv_norm(walk, x, width, 1, 1, **sharp))
        y = walk.relu(conv_norm(walk, y, width, 3, stride, **sharp))
        # A small scale lets the shortcut lead, as in a trained network; without it rounding grows
        # from block to block, and not even PyTorch's two precisions agree on the gradients.
        y = conv_norm(walk, y, 4 * width, 1, 1, draw_scale=oracle.near_fifth,
                      draw_shift=lambda random, values: oracle.shift_off_zero(
                          random, values + shortcut.detach()))
        return walk.relu(walk.add(y, shortcut))

    sharp = {"draw_shift": oracle.shift_off_zero}

    def network(inputs, walk):
        x = walk.relu(conv_norm(walk, inputs["image"].permute(0, 3, 1, 2), 64, 7, 2, **sharp))
        x = walk.max_pool(x, 3, 2, padding="same")
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for i in range(blocks):
                x = block(walk, x, 64 << stage, 2 if i == 0 and stage > 0 else 1, i == 0)
        logits = walk.dense(walk.flatten(walk.global_avg_pool(x)), classes)
        return classify(walk, logits, inputs)

    return network


def vgg16(classes):
    def network(inputs, walk):
        x = inputs["image"].permute(0, 3, 1, 2)
        for channels, layers in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(layers):
                x = walk.relu(walk.conv2d(x, channels, 3, padding="same"))
            x = walk.max_pool(x, 2)
        x = walk.flatten(x)
        for _ in range(2):
            x = walk.relu(walk.dense(x, 4096))
        return classify(walk, walk.dense(x, classes), inputs)

    return network


def mnist_keras(classes):
    def network(inputs, walk):
        x = inputs["image"].permute(0, 3, 1, 2)
        x = walk.flatten(walk.relu(walk.conv2d(x, 32, 3)))
        x = walk.relu(walk.dense(x, 128))
        return classify(walk, walk.dense(x, classes), inputs)

    return network


def mnist_custom(classes):
    def network(inputs, walk):
        x = inputs["image"].permute(0, 3, 1, 2)
        for channels in (32, 64):
            x = walk.max_pool(walk.relu(walk.conv2d(x, channels, 3)), 2)
        x = walk.relu(walk.dense(walk.flatten(x), 64))
        return classify(walk, walk.dense(x, classes), inputs)

    return network


MISSING = 0x9ae16a3b2f90404f


def wide_deep(rows, dim, hidden):
    """Embeddings by torch's own EmbeddingBag, whose gradients are sparse in the same way."""

    def look_up(table, places, missing):
        vectors = torch.nn.functional.embedding(places, table)
        return vectors * (~missing).unsqueeze(2).to(vectors.dtype)

    def network(inputs, walk):
        take = walk.parameters.take
        numeric = inputs["numeric"]
        minimum = take((numeric.shape[1],), oracle.small, statistic=True)
        extent = take((numeric.shape[1],), oracle.near_one, statistic=True)
        walk.new_statistics[0], walk.new_statistics[1] = minimum.numpy(), extent.numpy()
        numeric = (numeric - minimum) / extent
        category = inputs["category"].detach().numpy().astype(numpy.int64).view(numpy.uint64)
        columns = category.shape[1]
        missing = torch.tensor(category == MISSING)
        places = torch.tensor((category % numpy.uint64(rows)).astype(numpy.int64))
        places = places + torch.arange(columns) * rows
        deep = look_up(take((columns * rows, dim), oracle.small), places, missing)
        x = torch.cat([deep.flatten(1), numeric], 1)
        walk.count(1)
        for units in hidden:
            x = walk.relu(walk.dense(x, units))
        logits = walk.dense(x, 1)
        wide = look_up(take((columns * rows, 1), oracle.small), places, missing).sum(1)
        logits = logits + wide + take((1,), oracle.small)
        return {"logits": logits}, walk.sigmoid_cross_entropy(logits, inputs["label"])

    return network


def classify(walk, logits, inputs):
    return {"logits": logits}, walk.softmax_cross_entropy(logits, inputs["label"])


NETWORKS = {"resnet50": resnet50, "vgg16": vgg16, "mnist_keras": mnist_keras,
            "mnist_custom": mnist_custom}
