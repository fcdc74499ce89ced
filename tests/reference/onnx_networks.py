"""Networks as people write them in PyTorch, torchvision's architectures included (Debian has no
torchvision): the layers, their order and their parameters' names are those of the published ones."""
import torch
from torch import nn


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 32), nn.Tanh(),
                         nn.Linear(32, 10))


class Views(nn.Module):
    """Shapes by view() and size(), as older code has it, and products without nn.Linear."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 5)
        self.weight = nn.Parameter(torch.randn(6 * 12 * 12, 20) * 0.05)
        self.bias = nn.Parameter(torch.randn(20) * 0.1)
        self.scale = nn.Parameter(torch.rand(6, 1, 1) + 0.5)
        self.last = nn.Linear(20, 10, bias=False)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv(x)) * self.scale, 2)
        x = x.view(x.size(0), -1)
        x = torch.sigmoid(x @ self.weight + self.bias)
        return torch.log_softmax(self.last(x), 1)


def cnn():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False),
                         nn.BatchNorm2d(16), nn.LeakyReLU(0.1),
                         nn.AvgPool2d(3, 2, padding=1), nn.Dropout(0.25), nn.Flatten(),
                         nn.Linear(16 * 16, 10), nn.Softmax(1))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False),
                                            nn.BatchNorm2d(width))

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + (self.downsample(x) if self.downsample else x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                                            nn.BatchNorm2d(4 * width))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(out)))))
        return self.relu(out + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, block, depths, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for number, depth in enumerate(depths):
            width, blocks = 64 << number, []
            for i in range(depth):
                blocks.append(block(inputs, width, 2 if number and i == 0 else 1))
                inputs = width * block.expansion
            setattr(self, f"layer{number + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet18(classes=1000):
    return ResNet(BasicBlock, (2, 2, 2, 2), classes)


def resnet50(classes=1000):
    return ResNet(Bottleneck, (3, 4, 6, 3), classes)


class VGG(nn.Module):
    """VGG-11 with batch norm, or without; narrower than published where `width` says so."""

    def __init__(self, norm, classes=1000, width=64, hidden=4096):
        super().__init__()
        layers, inputs = [], 3
        for part in (1, "M", 2, "M", 4, 4, "M", 8, 8, "M", 8, 8, "M"):
            if part == "M":
                layers.append(nn.MaxPool2d(2, 2))
                continue
            layers.append(nn.Conv2d(inputs, part * width, 3, padding=1))
            layers += ([nn.BatchNorm2d(part * width)] if norm else []) + [nn.ReLU(inplace=True)]
            inputs = part * width
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(nn.Linear(inputs * 49, hidden), nn.ReLU(True), nn.Dropout(),
                                        nn.Linear(hidden, hidden), nn.ReLU(True), nn.Dropout(),
                                        nn.Linear(hidden, classes))
        for module in self.modules():           # as published: equal biases, which exporters join
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.constant_(module.bias, 0)

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        hidden = inputs * expand
        self.use_res_connect = stride == 1 and inputs == outputs
        layers = [conv_norm(inputs, hidden, 1)] if expand != 1 else []
        layers += [conv_norm(hidden, hidden, 3, stride, hidden),
                   nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


def conv_norm(inputs, outputs, kernel, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups,
                                   bias=False), nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True))


class MobileNetV2(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        features, inputs = [conv_norm(3, 32, 3, 2)], 32
        for expand, outputs, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                               (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                               (6, 320, 1, 1)):
            for i in range(count):
                features.append(InvertedResidual(inputs, outputs, stride if i == 0 else 1, expand))
                inputs = outputs
        features.append(conv_norm(inputs, 1280, 1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


class Mixed(nn.Module):
    """Branches that are joined, ceil_mode, a squeeze-and-excitation gate, means by mean()."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, (3, 5), (2, 1), (1, 2))
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.left, self.right = nn.Conv2d(12, 8, 1), nn.Conv2d(12, 10, 3, padding=1, dilation=1)
        self.down, self.up = nn.Conv2d(18, 4, 1), nn.Conv2d(4, 18, 1)
        self.last = nn.Linear(18, 7)

    def forward(self, x):
        x = self.pool(nn.functional.silu(self.stem(x)))
        x = torch.cat([nn.functional.elu(self.left(x)), nn.functional.gelu(self.right(x))], 1)
        gate = self.up(torch.relu(self.down(x.mean((2, 3), keepdim=True))))
        x = x * nn.functional.hardsigmoid(gate) - 0.25
        return self.last(nn.functional.hardswish(x).mean((2, 3)))


def keep_from_kinks(module):
    """Batch norms before a ReLU6 keep each channel within one of its three parts: below, between and above,
    none nearer to 0 and 6 than rounding reaches. Otherwise rounding decides about gradients: numbers that
    differ by a ten-millionth give gradients that differ by a fifth, in double precision too."""
    layers = list(module.modules())
    with torch.no_grad():
        for norm, behind in zip(layers, layers[1:]):
            if isinstance(norm, nn.BatchNorm2d) and isinstance(behind, nn.ReLU6):
                channel = torch.arange(norm.num_features)
                norm.weight.mul_(0.2)
                norm.bias.add_(torch.where(channel % 8 == 3, -3.0,
                                           torch.where(channel % 8 == 6, 9.0, 3.0)))
    return module


def draw(module, seed):
    """Weights and statistics of which no two tensors are alike, of a size that keeps signals."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in list(module.named_parameters()) + list(module.named_buffers()):
            if not tensor.dtype.is_floating_point:
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("running_var"):
                tensor.copy_(noise.abs() * 0.2 + 0.8)
            elif name.endswith("running_mean"):
                tensor.copy_(noise * 0.1)
            elif tensor.dim() == 1:
                tensor.copy_(tensor + noise * 0.05)
    return module
