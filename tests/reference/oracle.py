"""What a network should compute: the lines of tests/support/network_text.h in PyTorch, in double
precision, on weights that are exactly representable in single precision."""
import math

import numpy
import torch
import torch.nn.functional as F


class Parameters:
    """Parameters in the order in which a network asks for them, drawn on the first walk."""

    def __init__(self, seed, dtype=torch.float64):
        self.random = numpy.random.RandomState(seed)
        self.dtype = dtype
        self.plain = []          # float32 arrays, as the case file has them
        self.tensors = []        # leaves, of self.dtype
        self.statistic = []      # whether each is a running statistic
        self.at = 0

    def rewind(self):
        self.at = 0

    def take(self, shape, draw, statistic=False):
        """The next parameter; `draw(random, shape)` gives its first value."""
        if self.at == len(self.tensors):
            array = draw(self.random, tuple(shape)).astype(numpy.float32)
            self.plain.append(array)
            self.tensors.append(torch.tensor(array, dtype=self.dtype).requires_grad_(not statistic))
            self.statistic.append(statistic)
        self.at += 1
        assert tuple(self.tensors[self.at - 1].shape) == tuple(shape)
        return self.tensors[self.at - 1]


def fan_in(random, shape):
    """Keeps the size of what passes through: variance 2 / fan-in."""
    return random.standard_normal(shape) * math.sqrt(2.0 / max(1, numpy.prod(shape[1:])))


def small(random, shape):
    return random.standard_normal(shape) * 0.3


def near_one(random, shape):
    return random.uniform(0.5, 1.5, shape)


def either_sign(random, shape):
    return near_one(random, shape) * random.choice((-1, 1), shape)


def near_fifth(random, shape):
    return random.uniform(0.1, 0.3, shape)


class Walk:
    """One pass over a network. In training mode batch norm uses the batch and notes where the
    running statistics go: new_statistics[number of the parameter]."""

    def __init__(self, parameters, training, watch_kinks=False):
        self.parameters = parameters
        self.training = training
        self.watch_kinks = watch_kinks
        self.new_statistics = {}
        self.kink = math.inf     # relative distance of the nearest kink of relu or max
        self.longest = 1         # longest sum, forward or backward: the tolerance grows with it
        self.depth = 0
        self.magnification = 1.0 # of rounding, by batch norms of values far from zero
        parameters.rewind()

    def count(self, *lengths):
        self.longest = max(self.longest, *lengths)
        self.depth += 1

    # Operations -------------------------------------------------------------------------------

    def conv2d(self, x, channels, kernel, stride=1, dilation=1, groups=1, padding="valid",
               before=0, after=0, bias=1, **axes):
        stride, dilation = by_axis(axes, "stride", stride), by_axis(axes, "dilation", dilation)
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        weights = self.parameters.take((channels, x.shape[1] // groups, *kernel), fan_in)
        offset = self.parameters.take((channels,), small) if bias else None
        x = F.pad(x, pad_amounts(x, kernel, stride, dilation, padding, before, after, axes))
        y = F.conv2d(x, weights, offset, stride, 0, dilation, groups)
        self.count(weights[0].numel(), y.numel() // channels,
                   channels // groups * kernel[0] * kernel[1])
        return y

    def batch_norm(self, x, momentum=0.9, epsilon=1e-5, draw_scale=either_sign, draw_shift=None):
        """`draw_shift`, if given, makes the shift from the values it will be added to."""
        channels = x.shape[1]
        scale = self.parameters.take((channels,), draw_scale)
        number = self.parameters.at + 1
        if draw_shift:
            shift = self.parameters.take((channels,), lambda random, shape: draw_shift(
                random, self.normalize(x, *moments(x), epsilon, scale).detach()))
        else:
            shift = self.parameters.take((channels,), small)
        mean = self.parameters.take((channels,), small, statistic=True)
        variance = self.parameters.take((channels,), near_one, statistic=True)
        self.count(x.numel() // channels)
        if self.training:
            old = mean, variance
            mean, variance = moments(x)
            # Values are rounded relative to their size; dividing by a small deviation magnifies it.
            far = mean.detach().abs() / torch.sqrt(variance.detach() + epsilon)
            self.magnification = max(self.magnification, float(far.max()))
            self.note_statistics(number, old, mean, variance, x.numel() // channels, momentum)
        return self.normalize(x, mean, variance, epsilon, scale) + along_channels(shift, x)

    def normalize(self, x, mean, variance, epsilon, scale):
        normal = x - along_channels(mean, x)
        return normal * along_channels(scale / torch.sqrt(variance + epsilon), x)

    def note_statistics(self, number, old, mean, variance, count, momentum):
        """The running variance takes the unbiased estimate, as TensorFlow and PyTorch do."""
        unbiased = variance * count / max(1, count - 1)
        for i, (before, now) in enumerate(zip(old, (mean, unbiased))):
            moved = momentum * before.detach() + (1 - momentum) * now.detach()
            self.new_statistics[number + i] = moved.numpy()

    def relu(self, x):
        self.count(1)
        if self.watch_kinks:
            size = x.detach().abs()
            size = size[size > 0]       # zeros of an earlier relu have no gradient
            self.kink = min(self.kink, float(size.min() / size.max()))
        return F.relu(x)

    def sigmoid(self, x):
        self.count(1)
        return torch.sigmoid(x)

    def max_pool(self, x, kernel=0, stride=0, padding="valid", before=0, after=0, **axes):
        kernel = by_axis(axes, "kernel", kernel)
        stride = by_axis(axes, "stride", stride or kernel)
        pads = pad_amounts(x, kernel, stride, (1, 1), padding, before, after, axes)
        x = F.pad(x, pads, value=-math.inf)
        self.count(1)
        if self.watch_kinks:
            self.note_ties(x.detach(), kernel, stride)
        return F.max_pool2d(x, kernel, stride)

    def note_ties(self, x, kernel, stride):
        windows = x.unfold(2, kernel[0], stride[0]).unfold(3, kernel[1], stride[1]).flatten(4)
        first, second = windows.topk(2, dim=4).values.unbind(4)
        scale = x[torch.isfinite(x)].abs().max() + 1e-30
        apart = (first - second)[first != 0] / scale     # zeros of a relu have no gradient
        if apart.numel():
            self.kink = min(self.kink, float(apart.min()))

    def avg_pool(self, x, kernel=0, stride=0, padding="valid", before=0, after=0, count_padding=0,
                 **axes):
        """Padding does not count, as in TensorFlow, unless it is told to."""
        kernel = by_axis(axes, "kernel", kernel)
        stride = by_axis(axes, "stride", stride or kernel)
        pads = pad_amounts(x, kernel, stride, (1, 1), padding, before, after, axes)
        there = F.pad(torch.ones_like(x[:1, :1]), pads, value=float(count_padding))
        count = F.avg_pool2d(there, kernel, stride) * kernel[0] * kernel[1]
        self.count(kernel[0] * kernel[1])
        return F.avg_pool2d(F.pad(x, pads), kernel, stride) * kernel[0] * kernel[1] / count

    def global_avg_pool(self, x):
        self.count(x.shape[2] * x.shape[3])
        return x.mean((2, 3), keepdim=True)

    def dense(self, x, units, bias=1):
        weights = self.parameters.take((units, x.shape[1]), fan_in)
        offset = self.parameters.take((units,), small) if bias else None
        self.count(x.shape[1], x.shape[0], units)
        return F.linear(x, weights, offset)

    def add(self, a, b):
        self.count(1)
        return a + b

    def arithmetic(self, a, b, kind):
        self.count(a.numel() // b.numel() + 1, b.numel() // a.numel() + 1)
        return {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul,
                "divide": torch.div}[kind](a, b)

    def parameter(self, *shape):
        return self.parameters.take(shape, either_sign)

    def clip(self, x, low=-math.inf, high=math.inf):
        self.count(1)
        self.note_kinks(x, low, high)
        return F.hardtanh(x, low, high)

    def note_kinks(self, x, *places):
        for place in places:
            if self.watch_kinks and math.isfinite(place):
                self.kink = min(self.kink, float((x.detach() - place).abs().min()))

    def unary(self, x, kind, alpha=0.0, beta=0.0):
        self.count(4)
        kinks = {"leaky_relu": (0,), "elu": (0,), "abs": (0,), "hard_swish": (-3, 3)}
        if kind == "hard_sigmoid":
            kinks[kind] = (-beta / alpha, (1 - beta) / alpha)
        self.note_kinks(x, *kinks.get(kind, ()))
        return UNARY[kind](x, alpha, beta)

    def softmax(self, x, axis=1, log=0):
        self.count(x.shape[axis])
        return F.log_softmax(x, axis) if log else F.softmax(x, axis)

    def reshape(self, x, shape):
        return x.reshape(x.shape[0], *map(int, shape.split("x")))

    def concat(self, *values):
        self.count(1)
        return torch.cat(values, 1)

    def flatten(self, x):
        return x.flatten(1)

    def softmax_cross_entropy(self, logits, labels, smoothing=0.0):
        self.count(logits.shape[1])
        each = F.cross_entropy(logits, labels.long(), reduction="none", label_smoothing=smoothing)
        if self.watch_kinks and float(each.detach().max()) < 0.05:
            self.kink = 0.0     # probability 1, less 1: nothing left of it in single precision
        return each

    def sigmoid_cross_entropy(self, logits, labels, smoothing=0.0):
        targets = labels.to(logits.dtype).view_as(logits)
        targets = targets * (1 - smoothing) + smoothing / 2
        each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        self.count(1)
        return each.flatten(1).mean(1) if each.dim() > 1 else each


UNARY = {
    "tanh": lambda x, a, b: torch.tanh(x),
    "leaky_relu": lambda x, a, b: F.leaky_relu(x, a),
    "elu": lambda x, a, b: F.elu(x, a),
    "softplus": lambda x, a, b: F.softplus(x),
    "softsign": lambda x, a, b: F.softsign(x),
    "hard_sigmoid": lambda x, a, b: torch.clamp(a * x + b, 0, 1),
    "hard_swish": lambda x, a, b: F.hardswish(x),
    "silu": lambda x, a, b: F.silu(x),
    "gelu": lambda x, a, b: F.gelu(x),
    "erf": lambda x, a, b: torch.erf(x),
    "exp": lambda x, a, b: torch.exp(x),
    "log": lambda x, a, b: torch.log(x),
    "sqrt": lambda x, a, b: torch.sqrt(x),
    "abs": lambda x, a, b: torch.abs(x),
    "negate": lambda x, a, b: -x,
    "reciprocal": lambda x, a, b: 1 / x,
    "power": lambda x, a, b: x ** a,
}


def by_axis(axes, what, common):
    """(height, width) of what may be given for both or for each."""
    both = common if isinstance(common, tuple) else (common, common)
    return axes.get(f"{what}_height", both[0]), axes.get(f"{what}_width", both[1])


def along_channels(vector, x):
    return vector.view([1, -1] + [1] * (x.dim() - 2))


def moments(x):
    axes = [0] + list(range(2, x.dim()))
    mean = x.mean(axes)
    return mean, ((x - along_channels(mean, x)) ** 2).mean(axes)


def shift_off_zero(random, values):
    """A shift for each channel of `values` [N, C, H, W] after which none of them is near zero:
    the middle of the widest gap around a random number. A relu behind it then has no input whose
    sign depends on rounding, so its gradient can be compared strictly."""
    columns = -values.transpose(0, 1).flatten(1).numpy()
    columns.sort(axis=1)
    shifts = numpy.empty(len(columns))
    for channel, column in enumerate(columns):
        middle = 0.3 * random.standard_normal()
        low, high = middle - 0.25, middle + 0.25
        near = column[numpy.searchsorted(column, low):numpy.searchsorted(column, high)]
        points = numpy.concatenate(([low], near, [high]))
        widest = numpy.diff(points).argmax()
        shifts[channel] = (points[widest] + points[widest + 1]) / 2
    return shifts


def pad_amounts(x, kernel, stride, dilation, padding, before, after, axes):
    """For F.pad: left, right, top, bottom."""
    if padding == "valid":
        return [0, 0, 0, 0]
    if padding == "explicit":
        return [before + axes.get("left", 0), after + axes.get("right", 0),
                before + axes.get("top", 0), after + axes.get("bottom", 0)]
    amounts = []
    for axis in (3, 2):
        size, span = x.shape[axis], (kernel[axis - 2] - 1) * dilation[axis - 2] + 1
        step = stride[axis - 2]
        total = max((-(-size // step) - 1) * step + span - size, 0)
        amounts += [total // 2, total - total // 2]
    return amounts


def parse(words):
    names = [word for word in words if "=" not in word]
    options = dict(word.split("=") for word in words if "=" in word)
    for key, value in options.items():
        if key not in ("padding", "kind", "shape"):
            options[key] = float(value) if "." in value or "e" in value else int(value)
    return names, options


def conv_kernel(options):
    height = options.pop("kernel_height", None)
    if height:
        options["kernel"] = (height, options.pop("kernel_width"))
    return options


def run_lines(text, inputs, walk):
    """Interprets the lines; gives (outputs by name, loss of each example or None)."""
    values, outputs, loss = dict(inputs), {}, None
    for line in text.strip().splitlines():
        (operation, *names), options = parse(line.split())
        if operation == "input":
            continue
        if operation == "image":
            values[names[0]] = values["image"].permute(0, 3, 1, 2)
            continue
        if operation == "output":
            outputs[names[0]] = values[names[1]]
        elif operation == "loss":
            loss = values[names[0]]
        elif operation == "parameter":
            values[names[0]] = walk.parameter(*map(int, names[1:]))
        else:
            arguments = [values[name] for name in names[1:]]
            if operation == "conv2d":
                conv_kernel(options)
            if operation != "conv2d" and "kernel_width" in options:
                options.setdefault("kernel", (options["kernel_height"], options["kernel_width"]))
            values[names[0]] = getattr(walk, operation)(*arguments, **options)
    return outputs, loss


class Expected:
    """Results of one mode, as numpy arrays named as run_case names them behind the pass."""

    def __init__(self, network, parameters, inputs, training, watch_kinks=False):
        leaves = {name: torch.tensor(array) for name, array in inputs.items()}
        for name, leaf in leaves.items():
            if leaf.dtype.is_floating_point:
                leaves[name] = leaf.to(parameters.dtype).requires_grad_(training)
        self.walk = Walk(parameters, training, watch_kinks)
        with torch.set_grad_enabled(training):
            outputs, loss = network(leaves, self.walk)
        self.arrays = {f"output/{name}": value.detach().numpy() for name, value in outputs.items()}
        if loss is not None:
            self.arrays["loss"] = loss.detach().numpy()
        if training:
            self.differentiate(loss, leaves, parameters)

    def differentiate(self, loss, leaves, parameters):
        for tensor in parameters.tensors:
            tensor.grad = None
        loss.mean().backward()
        for number, tensor in enumerate(parameters.tensors):
            if not parameters.statistic[number]:
                self.arrays[f"gradient/{number}"] = gradient(tensor)
        for number, value in self.walk.new_statistics.items():
            self.arrays[f"statistic/{number}"] = value
        for name, leaf in leaves.items():
            if leaf.requires_grad:
                self.arrays[f"input_gradient/{name}"] = gradient(leaf)


def gradient(tensor):
    return (torch.zeros_like(tensor) if tensor.grad is None else tensor.grad).numpy()
