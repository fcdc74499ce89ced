"""Small networks, one for each thing an operation can do and each chain that a plan may fuse.
A case is (name, lines, batch); every one ends in a loss, so that gradients come from a real one."""
import itertools
import random

CLASSES = 4
TIES = "with ties"      # in a case's name: inputs are small integers, so that many are equal


def head(value, image=True, smoothing=0.0):
    """From any value to a loss: a dense layer gives every element of it a weight of its own."""
    lines = ["input label i32"]
    if image:
        lines.append(f"flatten flat {value}")
        value = "flat"
    return lines + [f"dense logits {value} units={CLASSES}",
                    f"softmax_cross_entropy each logits label smoothing={smoothing}",
                    "output logits logits", "loss each"]


def picture(channels, height, width):
    return f"input x f32 {channels} {height} {width}"


PADDINGS = ("padding=valid", "padding=same", "padding=explicit before=1 after=1",
            "padding=explicit before=0 after=1", "padding=explicit before=2 after=1")


def convolution(rng, kernel, stride, padding):
    dilation = 2 if kernel in (2, 3) and rng.random() < 0.3 else 1
    bias = rng.randrange(2)
    inputs, outputs = (rng.choice((1, 3, 5, 8, 16, 17, 32)) for _ in range(2))
    height = rng.choice((7, 8, 9, 10, 12))
    width = height if rng.random() < 0.6 else rng.choice((7, 8, 11))
    batch = rng.choice((1, 3, 4))
    line = (f"conv2d y x channels={outputs} kernel={kernel} stride={stride} dilation={dilation} "
            f"bias={bias} {padding}")
    name = f"{line} on {inputs}x{height}x{width}"
    return name, [picture(inputs, height, width), line, "output y y"] + head("y"), batch


def convolutions():
    rng = random.Random(20)
    for kernel, stride, padding in itertools.product((1, 2, 3, 5, 7), (1, 2, 3), PADDINGS):
        for _ in range(2):
            yield convolution(rng, kernel, stride, padding)
    channels = (1, 3, 5, 8, 16, 17, 32)
    for number, (inputs, outputs) in enumerate(itertools.product(channels, channels)):
        kernel, stride, size = (3, 1)[number % 2], 1 + number % 2, 6 + number % 3
        line = f"conv2d y x channels={outputs} kernel={kernel} stride={stride} padding=same"
        yield (f"{line} on {inputs}x{size}x{size}",
               [picture(inputs, size, size), line] + head("y"), (4, 3, 1)[number % 3])


def grouped_convolutions():
    for inputs, outputs, groups in ((8, 8, 8), (16, 16, 16), (17, 17, 17), (3, 3, 3), (32, 32, 32),
                                    (16, 32, 2), (32, 16, 4), (6, 9, 3), (16, 16, 2), (5, 10, 5)):
        for kernel, stride, dilation in ((3, 1, 1), (3, 2, 1), (5, 2, 1), (3, 1, 2), (1, 1, 1)):
            line = (f"conv2d y x channels={outputs} kernel={kernel} stride={stride} "
                    f"dilation={dilation} groups={groups} padding=same bias={stride - 1}")
            yield f"{line} on {inputs}x9x8", [picture(inputs, 9, 8), line] + head("y"), 3


def odd_kernels():
    for height, width, stride in ((1, 3, 1), (3, 1, 2), (2, 5, 1), (1, 7, 2)):
        line = (f"conv2d y x channels=8 kernel_height={height} kernel_width={width} "
                f"stride={stride} padding=same")
        yield f"{line} on 5x9x8", [picture(5, 9, 8), line] + head("y"), 3


def image_inputs():
    for channels, height, width in ((3, 8, 8), (1, 9, 7), (4, 6, 5)):
        yield (f"conv2d on a channels-last image of {channels}x{height}x{width}",
               [f"image x {channels} {height} {width}",
                "conv2d y x channels=8 kernel=3 stride=2 padding=same"] + head("y"), 3)
    yield ("channels-last image straight to flatten and dense", ["image x 3 5 4"] + head("x"), 3)
    yield ("channels-last image straight to a pool",
           ["image x 3 8 6", "max_pool y x kernel=2"] + head("y"), 3)
    yield ("channels-last image used twice",
           ["image x 3 8 6", "conv2d a x channels=3 kernel=3 padding=same", "add y a x"]
           + head("y"), 3)


def one_channel_images():
    """MNIST's first layers, which have a kernel of their own, and what is not quite like them."""
    tails = (("",), ("relu r y",), ("max_pool p y kernel=2",),
             ("relu r y", "max_pool p r kernel=2"), ("max_pool p y kernel=2", "relu r p"),
             ("relu r y", "max_pool p r kernel=3 stride=2"),
             ("relu r y", "max_pool p r kernel=2 padding=same"),
             ("relu r y", "max_pool p r kernel=2", "add s p p"),
             ("relu r y", "sigmoid g y", "add s r g"),
             ("batch_norm b y", "relu r b"),
             ("max_pool p y kernel=2", "batch_norm b p"),
             ("relu r y", "max_pool p r kernel=2", "batch_norm b p"),
             ("relu r y", "avg_pool p r kernel=2"))
    shapes = ((8, 9, 8), (16, 8, 8), (32, 12, 11), (24, 7, 10), (12, 8, 8), (8, 3, 3))
    for number, (tail, shape) in enumerate(itertools.product(tails, shapes)):
        channels, height, width = shape
        if height == 3 and any("pool" in line for line in tail):
            continue
        lines = [line for line in tail if line]
        last = lines[-1].split()[1] if lines else "y"
        start = f"image x 1 {height} {width}" if number % 3 else picture(1, height, width)
        conv = f"conv2d y x channels={channels} kernel=3 bias={(number + 1) % 2}"
        what = ", ".join(line.split()[0] for line in [conv] + lines)
        yield (f"one channel of {height}x{width} to {channels}: {what}, bias {(number + 1) % 2}",
               [start, conv] + lines + head(last), (3, 1, 4)[number % 3])


def batch_norms():
    for channels in (3, 8, 17, 64):
        for options in ("", " momentum=0.99 epsilon=0.001"):
            yield (f"batch_norm{options} on {channels}x5x6",
                   [picture(channels, 5, 6), f"batch_norm y x{options}", "output y y"]
                   + head("y"), 4)
        yield (f"batch_norm on {channels}",
               [f"input x f32 {channels}", "batch_norm y x", "output y y"]
               + head("y", image=False), 12)


    for channels, size in ((8, 1), (3, 1), (5, 2)):
        yield (f"batch_norm of one example on {channels}x{size}x{size}",
               [picture(channels, size, size), "batch_norm y x", "output y y"] + head("y"), 1)
    yield ("batch_norm of one example on 7",
           ["input x f32 7", "batch_norm y x", "output y y"] + head("y", image=False), 1)
    yield ("batch_norm of batch norm, each with its own momentum",
           [picture(8, 5, 6), "conv2d a x channels=8 kernel=1", "batch_norm m a momentum=0.5",
            "relu r m", "batch_norm y r"] + head("y"), 4)


def pools():
    for kind in ("max_pool", "avg_pool"):
        for number, (kernel, stride, padding, size) in enumerate(
                itertools.product((2, 3), (1, 2, 3),
                                  PADDINGS[:4] + ("padding=explicit before=1 after=0",),
                                  ((7, 7), (8, 8), (8, 9)))):
            channels = (3, 8, 17)[number % 3]
            line = f"{kind} y x kernel={kernel} stride={stride} {padding}"
            yield (f"{line} on {channels}x{size[0]}x{size[1]}",
                   [picture(channels, *size), line, "output y y"] + head("y"), (1, 3, 4)[number % 3])
    # The gradient of equal numbers goes to the first of them, as in PyTorch and TensorFlow.
    for number, (kernel, stride, padding) in enumerate(
            itertools.product((2, 3), (1, 2, 3), PADDINGS[:3])):
        line = f"max_pool y x kernel={kernel} stride={stride} {padding}"
        for channels in (5, 16):
            yield (f"{line} {TIES} on {channels}x8x7",
                   [picture(channels, 8, 7), line] + head("y"), 1 + number % 3)
    yield (f"one channel, convolution and max pool {TIES}",
           ["image x 1 10 8", "conv2d y x channels=8 kernel=3", "relu r y",
            "max_pool p r kernel=2"] + head("p"), 3)
    for channels, height, width in ((3, 7, 7), (8, 4, 4), (17, 5, 3), (64, 1, 1)):
        yield (f"global_avg_pool on {channels}x{height}x{width}",
               [picture(channels, height, width), "global_avg_pool y x", "output y y"]
               + head("y"), 3)


def element_operations():
    for kind in ("relu", "sigmoid"):
        for shape in ("7", "64", "3 5 5", "16 4 4"):
            yield (f"{kind} on {shape}",
                   [f"input x f32 {shape}", f"{kind} y x", "output y y"]
                   + head("y", image=" " in shape), 3)
    for shape in ("7", "3 5 5", "16 4 4"):
        yield (f"add on {shape}",
               [f"input x f32 {shape}", f"input z f32 {shape}", "add y x z", "output y y"]
               + head("y", image=" " in shape), 3)
    for shape in ("8", "3 5 5", "17 2 3"):
        yield f"add of a value to itself on {shape}", (
            [f"input x f32 {shape}", "sigmoid s x", "add y s s"]
            + head("y", image=" " in shape)), 3
    yield "flatten of 17x3x2", [picture(17, 3, 2), "flatten y x", "output y y"] + head(
        "y", image=False), 4
    for inputs, units, bias, batch in ((1, 1, 1, 1), (7, 5, 1, 3), (64, 32, 0, 4), (33, 17, 1, 64),
                                       (300, 9, 0, 1)):
        yield (f"dense units={units} bias={bias} on {inputs}",
               [f"input x f32 {inputs}", f"dense y x units={units} bias={bias}", "output y y"]
               + head("y", image=False), batch)


def concats():
    for channels in ((8, 8), (3, 5), (8, 3), (5, 8, 16), (1, 2, 3, 4), (16, 16, 16, 16), (17, 8)):
        inputs = [f"input x{i} f32 {count} 4 5" for i, count in enumerate(channels)]
        names = " ".join(f"x{i}" for i in range(len(channels)))
        yield (f"concat of {channels} channels",
               inputs + [f"concat y {names}", "output y y"] + head("y"), 3)
        convs = [f"conv2d c{i} x{i} channels={count} kernel=3 padding=same"
                 for i, count in enumerate(channels)]
        names = " ".join(f"c{i}" for i in range(len(channels)))
        yield (f"concat of convolutions to {channels} channels, then a convolution",
               inputs + convs + [f"concat j {names}", "conv2d y j channels=8 kernel=1"]
               + head("y"), 3)
    yield ("concat of a value with itself and its own convolution",
           [picture(8, 6, 6), "conv2d a x channels=8 kernel=3 padding=same", "relu r a",
            "conv2d b r channels=5 kernel=1", "concat y r b r"] + head("y"), 3)
    yield ("concat on 2-D values",
           ["input x f32 5", "input z f32 3", "concat y x z"] + head("y", image=False), 3)


def losses():
    for classes, smoothing in ((2, 0.0), (2, 0.1), (10, 0.0), (10, 0.1), (1001, 0.1)):
        yield (f"softmax_cross_entropy smoothing={smoothing} on {classes}",
               [f"input x f32 {classes}", "input label i32",
                f"softmax_cross_entropy each x label smoothing={smoothing}", "output logits x",
                "loss each"], 5)
    for batch in (1, 3, 64):
        yield (f"sigmoid_cross_entropy, batch {batch}",
               ["input x f32 6", "dense logits x units=1", "input label f32 1",
                "sigmoid_cross_entropy each logits label", "output logits logits", "loss each"],
               batch)
    for width, smoothing in ((3, 0.0), (3, 0.2), (17, 0.1)):
        yield (f"sigmoid_cross_entropy smoothing={smoothing} on {width}",
               [f"input x f32 {width}", f"input label f32 {width}",
                f"sigmoid_cross_entropy each x label smoothing={smoothing}", "output logits x",
                "loss each"], 5)


def chain(name, lines, channels=8, size=6, batch=3, **options):
    return name, [picture(channels, size, size)] + lines + head("y", **options), batch


def chains():
    """What plans fuse, and what they must not although it looks alike."""
    for channels in (8, 5, 32):
        conv = f"conv2d a x channels={channels} kernel=3 padding=same"
        plain = conv + " bias=0"
        again = f"conv2d c r channels={channels} kernel=3 padding=same bias=0"
        width = {"channels": channels}
        yield chain(f"conv+relu, {channels} channels", [conv, "relu y a"], **width)
        yield chain(f"conv+sigmoid, {channels} channels", [conv, "sigmoid y a"], **width)
        yield chain(f"conv+bn, {channels} channels", [plain, "batch_norm y a"], **width)
        yield chain(f"conv+bn+bn, {channels} channels",
                    [plain, "batch_norm n a", "batch_norm y n"], **width)
        yield chain(f"conv with bias+bn, {channels} channels", [conv, "batch_norm y a"], **width)
        yield chain(f"conv+bn+relu, {channels} channels",
                    [plain, "batch_norm n a", "relu y n"], **width)
        yield chain(f"bn+relu on an input, {channels} channels",
                    ["batch_norm n x", "relu y n"], **width)
        yield chain(f"add+relu, {channels} channels",
                    [conv, "add s a x", "relu y s"], **width)
        yield chain(f"bn+add+relu, {channels} channels",
                    [plain, "batch_norm n a", "add s n x", "relu y s"], **width)
        yield chain(f"add+relu with the batch norm second, {channels} channels",
                    [plain, "batch_norm n a", "add s x n", "relu y s"], **width)
        yield chain(f"sum of two batch norms+relu, {channels} channels",
                    [plain, "batch_norm n a", "conv2d b x channels=%d kernel=1 bias=0" % channels,
                     "batch_norm m b", "add s n m", "relu y s"], **width)
        yield chain(f"residual block, {channels} channels",
                    [plain, "batch_norm n a", "relu r n", again, "batch_norm m c", "add s m r",
                     "relu y s"], **width)
        yield chain(f"value used three times, {channels} channels",
                    [conv, "relu r a", again, "batch_norm m c", "add s m r", "add t s r",
                     "relu y t"], **width)
    yield ("one image, joined with itself normalised, pooled to a point",
           [picture(1, 6, 5), "batch_norm n x", "concat c n x", "global_avg_pool g c", "flatten f g",
            "dense d f units=4", "relu r d"] + head("r", image=False), 1)
    yield from shared_values()
    yield from deep_chains()


def shared_values():
    plain = "conv2d a x channels=8 kernel=3 padding=same bias=0"
    yield chain("conv+relu whose convolution is used elsewhere",
                [plain, "relu r a", "add y r a"])
    yield chain("bn+relu whose batch norm is used elsewhere",
                [plain, "batch_norm n a", "relu r n", "add y r n"])
    yield chain("conv+bn whose convolution is used elsewhere",
                [plain, "batch_norm n a", "add y n a"])
    yield chain("add+relu whose sum is used elsewhere",
                [plain, "add s a x", "relu r s", "conv2d b r channels=8 kernel=1", "add y b s"])
    yield chain("relu of an input that is used elsewhere", ["relu r x", "add y r x"])
    yield chain("relu after relu", ["relu r x", "conv2d a r channels=8 kernel=1", "relu b a",
                                    "relu y b"])
    yield chain("one value through two convolutions and a pool, joined",
                [plain, "relu r a", "conv2d b r channels=8 kernel=1", "max_pool p r kernel=3 "
                 "stride=1 padding=same", "conv2d d r channels=5 kernel=3 padding=same",
                 "concat y b p d"])
    yield chain("batch norm whose sum and itself are used",
                [plain, "batch_norm n a", "add s n x", "conv2d c n channels=8 kernel=1",
                 "add y s c"])
    yield chain("convolution whose sum and itself are used",
                [plain, "add s a x", "conv2d c a channels=8 kernel=1", "add y s c"])
    yield chain("batch norm of which a sum and the output are used",
                [plain, "batch_norm n a", "output features n", "add s n x", "relu y s"])
    yield chain("an output that the loss does not depend on",
                [plain, "relu r a", "conv2d b r channels=5 kernel=1", "output aside b",
                 "relu y x"])
    yield chain("an intermediate value that is also an output",
                [plain, "batch_norm n a", "output features n", "relu y n"])
    yield chain("value used six times",
                ["conv2d r x channels=8 kernel=1"]
                + [f"conv2d c{i} r channels=8 kernel={1 + 2 * (i % 2)} padding=same"
                   for i in range(5)]
                + ["add s c0 c1", "add t s c2", "add u t c3", "add v u c4", "add w v r",
                   "relu y w"])
    yield chain("input used four times",
                ["conv2d a x channels=8 kernel=1", "sigmoid b x", "add c a b", "add d c x",
                 "max_pool e x kernel=3 stride=1 padding=same", "add y d e"])
    yield chain("relu with two readers, one of them a sum with what came before it",
                ["conv2d a x channels=8 kernel=1", "batch_norm b a", "sigmoid c b", "relu d c",
                 "add e d b", "conv2d y e channels=5 kernel=1"])
    yield chain("max pool behind a relu with another reader",
                ["conv2d a x channels=8 kernel=1", "relu b a", "max_pool c b kernel=2",
                 "avg_pool d b kernel=2", "add y c d"])
    yield chain("max pool behind conv+relu", ["conv2d a x channels=8 kernel=3 padding=same",
                                              "relu b a", "max_pool y b kernel=3 stride=2"])
    yield chain("max pool behind bn+relu", ["conv2d a x channels=8 kernel=3 bias=0", "batch_norm n a",
                                            "relu b n", "max_pool y b kernel=2"], size=7)
    yield chain("max pool with padding behind conv+relu",
                ["conv2d a x channels=8 kernel=3", "relu b a",
                 "max_pool y b kernel=3 stride=2 padding=same"], size=8)
    yield chain("sum of three convolutions of one value",
                ["conv2d a x channels=8 kernel=1", "conv2d b x channels=8 kernel=3 padding=same",
                 "conv2d c x channels=8 kernel=5 padding=same", "add s a b", "add t s c",
                 "relu y t"])


    yield from views()


def views():
    """A flattened picture is the picture's memory under another shape: whoever works in place on
    one must not spoil the other."""
    conv = "conv2d a x channels=8 kernel=3 padding=same"
    for operation in ("relu", "sigmoid"):
        yield chain(f"{operation} of a flattened picture that is used elsewhere",
                    [conv, "flatten f a", f"{operation} r f", "dense g r units=5",
                     "global_avg_pool q a", "flatten p q", "concat y g p"], image=False)
        yield chain(f"{operation} of a flattened input that is used elsewhere",
                    ["flatten f x", f"{operation} r f", "dense g r units=5",
                     "global_avg_pool q x", "flatten p q", "concat y g p"], image=False)
        yield chain(f"picture flattened first, {operation} later",
                    [conv, "flatten f a", f"{operation} r a", "global_avg_pool q r",
                     "flatten p q",
                     "dense g f units=5", "concat y g p"], image=False)
    yield chain("flattened picture used by two dense layers",
                [conv, "relu r a", "flatten f r", "dense g f units=5", "dense h f units=5",
                 "add y g h"], image=False)
    yield chain("flattened picture that is also an output",
                [conv, "relu r a", "flatten f r", "output features f", "dense y f units=5"],
                image=False)
    yield chain("picture flattened twice",
                [conv, "flatten f a", "flatten g a", "dense h f units=5", "dense i g units=5",
                 "add y h i"], image=False)


def deep_chains():
    yield chain("pool between convolutions",
                ["conv2d a x channels=16 kernel=3 padding=same", "relu r a",
                 "max_pool p r kernel=2", "conv2d b p channels=17 kernel=3 padding=same",
                 "relu q b", "avg_pool y q kernel=3 stride=1 padding=same"], channels=3, size=8)
    yield chain("strided residual block with a projection",
                ["conv2d p x channels=16 kernel=1 stride=2 bias=0", "batch_norm q p",
                 "conv2d a x channels=8 kernel=1 bias=0", "batch_norm b a", "relu c b",
                 "conv2d d c channels=8 kernel=3 stride=2 padding=explicit before=1 after=1 bias=0",
                 "batch_norm e d", "relu f e", "conv2d g f channels=16 kernel=1 bias=0",
                 "batch_norm h g", "add s h q", "relu y s"], size=8)
    yield chain("two residual blocks in a row",
                ["conv2d a x channels=8 kernel=3 padding=same bias=0", "batch_norm b a", "relu c b",
                 "conv2d d c channels=8 kernel=3 padding=same bias=0", "batch_norm e d",
                 "add f e c", "relu g f", "conv2d h g channels=8 kernel=3 padding=same bias=0",
                 "batch_norm i h", "add j i g", "relu y j"])
    name, lines, batch = chain("conv, global pool, dense",
                               ["conv2d a x channels=16 kernel=3 padding=same bias=0",
                                "batch_norm b a", "relu c b", "global_avg_pool y c"])
    yield name, lines, batch
    yield ("dense, batch norm, relu, dense",
           ["input x f32 20", "dense a x units=12 bias=0", "batch_norm b a", "relu c b",
            "dense d c units=9", "sigmoid y d"] + head("y", image=False), 8)


def uneven_windows():
    """Axes that are not alike."""
    conv = ("conv2d y x channels=8 kernel_height=3 kernel_width=2 stride_height=2 dilation_width=2 "
            "padding=explicit top=1 right=2")
    yield f"{conv} on 5x9x8", [picture(5, 9, 8), conv, "output y y"] + head("y"), 3
    for line in ("conv2d y x channels=16 kernel_height=1 kernel_width=5 padding=explicit left=2 "
                 "right=2 groups=2",
                 "conv2d y x channels=8 kernel=3 stride_height=1 stride_width=3 padding=same"):
        yield f"{line} on 8x7x10", [picture(8, 7, 10), line] + head("y"), 3
    window = ("kernel_height=3 kernel_width=2 stride_height=2 stride_width=1 padding=explicit "
              "top=1 bottom=1 right=1")
    for operation in ("max_pool", "avg_pool"):
        for channels in (3, 16):
            for more in ("", " count_padding=1") if operation == "avg_pool" else ("",):
                line = f"{operation} y x {window}{more}"
                yield f"{line} on {channels}x9x8", [picture(channels, 9, 8), line] + head("y"), 3
    yield ("max_pool that hangs over the end",
           [picture(8, 8, 8), "conv2d a x channels=16 kernel=1",
            "max_pool y a kernel=3 stride=2 padding=explicit after=1"] + head("y"), 3)


FUNCTIONS = ("tanh", "leaky_relu alpha=0.1", "elu alpha=0.7", "softplus", "softsign",
             "hard_sigmoid alpha=0.25 beta=0.4", "hard_swish", "silu", "gelu", "erf", "exp", "abs",
             "negate")
POSITIVE = ("log", "sqrt", "reciprocal", "power alpha=1.5")


def functions():
    """Behind a convolution, whose layout has padding where there are 12 channels."""
    for channels in (16, 12):
        conv = f"conv2d a x channels={channels} kernel=3 padding=same"
        for function in FUNCTIONS:
            yield chain(f"unary {function} on {channels} channels",
                        [conv, f"unary y a kind={function}"])
        for function in POSITIVE:
            yield chain(f"unary {function} on {channels} channels",
                        [conv, "unary e a kind=exp", f"unary y e kind={function}"])
        for limits in ("low=0.0 high=0.6", "low=-0.3 high=0.5", "low=0.1", "high=-0.2"):
            yield chain(f"clip {limits} on {channels} channels",
                        [conv, "batch_norm b a", f"clip c b {limits}",
                         "conv2d y c channels=8 kernel=1"])
        for axis, log in itertools.product((1, 2, 3), (0, 1)):
            yield chain(f"softmax axis={axis} log={log} on {channels} channels",
                        [conv, f"softmax y a axis={axis} log={log}"])
    yield chain("reshape", ["conv2d a x channels=12 kernel=3 padding=same", "relu r a",
                            "reshape s r shape=6x2x64", "softmax t s axis=2",
                            "reshape y t shape=12x8x8"], size=8)


def arithmetics():
    conv = "conv2d a x channels=12 kernel=3 padding=same"
    for kind in ("add", "subtract", "multiply", "divide"):
        gate = ["global_avg_pool g a", "conv2d h g channels=12 kernel=1", "unary w h kind=exp"]
        yield chain(f"{kind} with one number per channel",
                    [conv] + gate + [f"arithmetic y a w kind={kind}"])
        yield chain(f"{kind} of one number per channel",
                    [conv] + gate + [f"arithmetic y w a kind={kind}"] if kind != "divide" else
                    [conv] + gate + ["unary b a kind=exp", "arithmetic y w b kind=divide"])
        yield chain(f"{kind} of equal shapes",
                    [conv, "conv2d b x channels=12 kernel=3 padding=same", "unary c b kind=exp",
                     f"arithmetic y a c kind={kind}"])
        yield chain(f"{kind} with a parameter", [conv, "parameter p 12 1 1",
                                                 f"arithmetic y a p kind={kind}"])
    yield ("bias by arithmetic", ["input x f32 20", "dense a x units=12 bias=0", "parameter p 12",
                                  "arithmetic b a p kind=add", "relu y b"]
           + head("y", image=False), 8)


def wide_convolutions():
    """3x3 with many channels and tiles, which Winograd's method takes: whole tiles and cut ones, every
    padding. (So many numbers are never all away from a ReLU's kink: those chains are in the models.)"""
    for number, padding in enumerate(PADDINGS):
        height, width = ((17, 14), (16, 16), (13, 21), (18, 15), (11, 19))[number]
        # With 16 lanes it takes multiples of 32, with 8 lanes those of 16.
        channels = ([(64, 64)], [(64, 96)], [(80, 64), (96, 64)], [(112, 64), (160, 96)],
                    [(64, 128)])[number]
        for inputs, outputs in channels:
            line = f"conv2d y x channels={outputs} kernel=3 bias={(number + 1) % 2} {padding}"
            yield (f"{line} on {inputs}x{height}x{width}",
                   [picture(inputs, height, width), line, "output y y"] + head("y"), 4 + number)
    # VGG16's at their sizes, without anything behind them whose slope could jump.
    for channels, outputs, size, batch in ((64, 64, 224, 1), (128, 128, 112, 1), (128, 256, 56, 1),
                                           (256, 512, 28, 2), (512, 512, 14, 4)):
        yield (f"conv2d of {channels} to {outputs} channels at {size}x{size}, then averages",
               [picture(channels, size, size),
                f"conv2d a x channels={outputs} kernel=3 padding=same",
                "avg_pool y a kernel=7 stride=7"] + head("y"), batch)
    conv = "conv2d a x channels=64 kernel=3 padding=same"
    wide = {"channels": 64, "size": 14, "batch": 5}
    yield chain("conv+bn, 64 channels", [conv + " bias=0", "batch_norm y a"], **wide)
    yield chain("conv+conv+add, 64 channels",
                [conv, "conv2d b a channels=64 kernel=3 padding=same bias=0", "add y b x"], **wide)


def wide_strided_convolutions():
    """3x3 with stride 2 and many channels and tiles, which Winograd's method takes, too: ResNet-50's at their
    sizes, and tiles that are cut on either side."""
    for inputs, outputs, height, width, after, batch in (
            (128, 128, 56, 56, 1, 2), (256, 256, 28, 28, 1, 5), (512, 512, 14, 14, 1, 17),
            (64, 64, 33, 27, 1, 4), (80, 112, 33, 41, 0, 4), (64, 96, 16, 24, 2, 11), (64, 64, 3, 2, 1, 64)):
        line = (f"conv2d y x channels={outputs} kernel=3 stride=2 bias={inputs % 64 // 16} "
                f"padding=explicit before=1 after={after}")
        yield (f"{line} on {inputs}x{height}x{width}",
               [picture(inputs, height, width), line, "output y y"] + head("y"), batch)
    for height, width, padding in ((28, 32, "same"), (31, 33, "valid")):
        line = f"conv2d y x channels=64 kernel=3 stride=2 bias=1 padding={padding}"
        yield (f"{line} on 64x{height}x{width}",
               [picture(64, height, width), line, "output y y"] + head("y"), 6)
    yield chain("conv with stride+bn, 64 channels",
                ["conv2d a x channels=64 kernel=3 stride=2 padding=explicit before=1 after=1 bias=0",
                 "batch_norm y a"], channels=64, size=30, batch=5)


def points():
    """1x1 on pictures of many pixels, whose weights' gradient is ours: blocks of outputs by threes and twos,
    pixels that are no whole pieces; and what follows them in ResNet-50."""
    for inputs, outputs, height, width, batch in ((16, 16, 10, 10, 3), (64, 72, 11, 13, 2),
                                                  (24, 40, 20, 21, 2), (256, 64, 28, 28, 1),
                                                  (64, 256, 56, 56, 1), (512, 128, 28, 28, 2)):
        line = f"conv2d y x channels={outputs} kernel=1 bias=0"
        yield (f"{line} on {inputs}x{height}x{width}",
               [picture(inputs, height, width), line, "output y y"] + head("y"), batch)
    # Those that leave pixels out: rows of a picture at a time, whole ones, several small ones, of which one is left;
    # wide rows, every padding, and steps between taps.
    for inputs, outputs, height, width, batch, window in (
            (64, 128, 56, 56, 1, "kernel=1 stride=2"), (24, 40, 29, 31, 2, "kernel=1 stride=3"),
            (64, 72, 56, 56, 1, "kernel=3 stride=2 padding=same"),
            (128, 128, 28, 28, 2, "kernel=3 stride=2 padding=explicit before=1 after=1"),
            (64, 64, 14, 14, 5, "kernel=3 stride=2 padding=explicit before=1 after=1"),
            (16, 24, 33, 27, 2, "kernel=3 stride=3 dilation=2 padding=same"),
            (40, 16, 21, 45, 3, "kernel=3 stride=2"), (16, 16, 5, 411, 2, "kernel=3 stride=2 padding=same")):
        line = f"conv2d y x channels={outputs} bias=0 {window}"
        yield (f"{line} on {inputs}x{height}x{width}",
               [picture(inputs, height, width), line, "output y y"] + head("y"), batch)
    conv = "conv2d a x channels=64 kernel=1 bias=0"
    wide = {"channels": 64, "size": 14, "batch": 5}
    yield chain("1x1 conv+bn, 64 channels", [conv, "batch_norm y a"], **wide)
    # Few numbers, which can all be away from the ReLU's kink.
    yield chain("1x1 conv+bn+add+relu, 16 channels",
                ["conv2d a x channels=16 kernel=1 bias=0", "batch_norm b a", "add c b x", "relu y c"],
                channels=16, size=10, batch=3)


def all_cases():
    for group in (convolutions, grouped_convolutions, odd_kernels, image_inputs, one_channel_images,
                  batch_norms, pools, element_operations, concats, losses, chains, uneven_windows,
                  functions, arithmetics, wide_convolutions,
                  wide_strided_convolutions, points):
        yield from group()
