"""Networks of the zoo whose packages carry weights of PyTorch: their modules, rebuilt, with the weights in them.

PyTorch is imported where it is needed: most of the zoo does without.
"""


def _load(path):
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)


def efficientnet_lite0(weights):
    """EfficientNet-Lite0: MBConv blocks without squeeze and excite, ReLU6, padding as TensorFlow's SAME."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Conv(nn.Conv2d):
        def forward(self, x):
            pads = []
            for size, kernel, stride in zip(x.shape[:1:-1], self.weight.shape[:1:-1], self.stride):
                total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
                pads += [int(total // 2), int(total - total // 2)]
            return F.conv2d(F.pad(x, pads), self.weight, None, self.stride, 0, 1, self.groups)

    def norm(channels):
        return nn.BatchNorm2d(channels, eps=1e-3)

    class Block(nn.Module):
        def __init__(self, expand, kernel, stride, before, after):
            super().__init__()
            inside = before * expand
            self.adds = stride == 1 and before == after
            if expand > 1:
                self._expand_conv, self._bn0 = Conv(before, inside, 1, bias=False), norm(inside)
            self._depthwise_conv = Conv(inside, inside, kernel, stride, groups=inside, bias=False)
            self._bn1, self._project_conv, self._bn2 = norm(inside), Conv(inside, after, 1, bias=False), norm(after)

        def forward(self, x):
            y = F.relu6(self._bn0(self._expand_conv(x))) if hasattr(self, "_expand_conv") else x
            y = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(y)))))
            return x + y if self.adds else y

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self._conv_stem, self._bn0 = Conv(3, 32, 3, 2, bias=False), norm(32)
            blocks, before = [], 32
            for expand, kernel, stride, after, repeats in [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                                                          (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]:
                for i in range(repeats):
                    blocks.append(Block(expand, kernel, stride if i == 0 else 1, before, after))
                    before = after
            self._blocks = nn.ModuleList(blocks)
            self._conv_head, self._bn1, self._fc = Conv(320, 1280, 1, bias=False), norm(1280), nn.Linear(1280, 1000)

        def forward(self, x):
            x = F.relu6(self._bn0(self._conv_stem(x)))
            for block in self._blocks:
                x = block(x)
            x = F.relu6(self._bn1(self._conv_head(x)))
            return self._fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))

    network = Network()
    network.load_state_dict(_load(weights))
    return network


def resemblyzer(weights):
    """The speaker encoder: three LSTM layers, a linear one, Relu, length 1."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.linear = nn.LSTM(40, 256, 3, batch_first=True), nn.Linear(256, 256)

        def forward(self, mels):
            _, (hidden, _) = self.lstm(mels)
            made = torch.relu(self.linear(hidden[-1]))
            return made / torch.norm(made, dim=1, keepdim=True)

    network = Network()
    network.load_state_dict(_load(weights)["model_state"], strict=False)
    return network


def crepe_tiny(weights):
    """CREPE's tiny size: six convolutions along time, each with Relu, norm and pool, and a linear layer."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            before, after = [1, 128, 16, 16, 16, 32], [128, 16, 16, 16, 32, 64]
            for i in range(6):
                kernel, stride = ((512, 1), (4, 1)) if i == 0 else ((64, 1), (1, 1))
                setattr(self, f"conv{i + 1}", nn.Conv2d(before[i], after[i], kernel, stride))
                setattr(self, f"conv{i + 1}_BN", nn.BatchNorm2d(after[i], eps=0.0010000000474974513))
            self.classifier = nn.Linear(256, 360)

        def forward(self, x):
            x = x[:, None, :, None]
            for i in range(6):
                x = F.pad(x, (0, 0, 254, 254) if i == 0 else (0, 0, 31, 32))
                x = getattr(self, f"conv{i + 1}_BN")(torch.relu(getattr(self, f"conv{i + 1}")(x)))
                x = F.max_pool2d(x, (2, 1), (2, 1))
            return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).reshape(-1, 256)))

    network = Network()
    network.load_state_dict(_load(weights))
    return network


def onet(weights):
    """MTCNN's last network on one patch: logits and softmax of a face, its box and landmarks, side by side."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.prelu1, self.pool1 = nn.Conv2d(3, 32, 3), nn.PReLU(32), nn.MaxPool2d(3, 2, ceil_mode=True)
            self.conv2, self.prelu2, self.pool2 = nn.Conv2d(32, 64, 3), nn.PReLU(64), nn.MaxPool2d(3, 2, ceil_mode=True)
            self.conv3, self.prelu3, self.pool3 = nn.Conv2d(64, 64, 3), nn.PReLU(64), nn.MaxPool2d(2, 2, ceil_mode=True)
            self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
            self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
            self.dense6_1, self.dense6_2, self.dense6_3 = nn.Linear(256, 2), nn.Linear(256, 4), nn.Linear(256, 10)

        def forward(self, x):
            x = self.pool1(self.prelu1(self.conv1(x)))
            x = self.pool2(self.prelu2(self.conv2(x)))
            x = self.pool3(self.prelu3(self.conv3(x)))
            x = self.prelu4(self.conv4(x)).permute(0, 3, 2, 1).reshape(-1, 1152)
            x = self.prelu5(self.dense5(x))
            return torch.cat([torch.softmax(self.dense6_1(x), 1), self.dense6_2(x), self.dense6_3(x)], 1)

    network = Network()
    network.load_state_dict(_load(weights))
    return network


def craft(weights):
    """EasyOCR's detector (Baek et al. 2019): VGG16 with norms, whose stages a U-shaped decoder joins; at half the resolution how
    much a place is a letter's middle, and how much it lies between two letters."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def stage(first, *layers):
        """Layers with the numbers that they have in VGG16; a number is the width of a convolution with its norm."""
        made, at = nn.Sequential(), first
        for layer in layers:
            for module in [nn.Conv2d(*layer, 3, padding=1), nn.BatchNorm2d(layer[1])] if isinstance(layer, tuple) else [layer]:
                made.add_module(str(at), module)
                at += 1
        return made

    def joint(before, inside, after):
        joint = nn.Module()
        joint.conv = nn.Sequential(nn.Conv2d(before, inside, 1), nn.BatchNorm2d(inside), nn.ReLU(),
                                   nn.Conv2d(inside, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())
        return joint

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            relu, pool = nn.ReLU(), nn.MaxPool2d(2)
            self.basenet = nn.Module()
            self.basenet.slice1 = stage(0, (3, 64), relu, (64, 64), relu, pool, (64, 128), relu, (128, 128))
            self.basenet.slice2 = stage(12, relu, pool, (128, 256), relu, (256, 256))
            self.basenet.slice3 = stage(19, relu, (256, 256), relu, pool, (256, 512), relu, (512, 512))
            self.basenet.slice4 = stage(29, relu, (512, 512), relu, pool, (512, 512), relu, (512, 512))
            self.basenet.slice5 = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(512, 1024, 3, padding=6, dilation=6),
                                                nn.Conv2d(1024, 1024, 1))
            self.upconv1, self.upconv2 = joint(1024 + 512, 512, 256), joint(256 + 512, 256, 128)
            self.upconv3, self.upconv4 = joint(128 + 256, 128, 64), joint(64 + 128, 64, 32)
            heads = [nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 16, 3, padding=1),
                     nn.Conv2d(16, 16, 1)]
            self.conv_cls = nn.Sequential(*[module for head in heads for module in (head, nn.ReLU())], nn.Conv2d(16, 2, 1))

        def forward(self, x):
            stages = []
            for part in (self.basenet.slice1, self.basenet.slice2, self.basenet.slice3, self.basenet.slice4):
                x = part(x)
                stages.append(x)
            y = self.upconv1.conv(torch.cat([self.basenet.slice5(x), x], 1))
            # The stages are taken behind the activation that the next one begins with.
            for stage, join in zip(stages[2::-1], (self.upconv2, self.upconv3, self.upconv4)):
                y = F.interpolate(y, size=stage.shape[2:], mode="bilinear", align_corners=False)
                y = join.conv(torch.cat([y, torch.relu(stage)], 1))
            return self.conv_cls(y)

    return _without_module(Network(), weights)


ENGLISH = "0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ €ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def english_g2(weights):
    """EasyOCR's recognizer of English: convolutions down to one row, two LSTM layers in both directions, each with a linear one, and
    for each column the logits of nothing and of the characters of ENGLISH."""
    import torch
    from torch import nn

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.linear = nn.LSTM(256, 256, bidirectional=True, batch_first=True), nn.Linear(512, 256)

        def forward(self, x):
            return self.linear(self.rnn(x)[0])

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            conv = lambda before, after, bias=True: nn.Conv2d(before, after, 3, padding=1, bias=bias)
            relu, norm = nn.ReLU(), nn.BatchNorm2d
            self.FeatureExtraction = nn.Module()
            self.FeatureExtraction.ConvNet = nn.Sequential(
                conv(1, 32), relu, nn.MaxPool2d(2), conv(32, 64), relu, nn.MaxPool2d(2), conv(64, 128), relu, conv(128, 128), relu,
                nn.MaxPool2d((2, 1)), conv(128, 256, False), norm(256), relu, conv(256, 256, False), norm(256), relu,
                nn.MaxPool2d((2, 1)), nn.Conv2d(256, 256, 2), relu,
            )  # fmt: skip
            self.SequenceModeling = nn.Sequential(Both(), Both())
            self.Prediction = nn.Linear(256, 97)

        def forward(self, x):
            columns = self.FeatureExtraction.ConvNet(x).mean(2).permute(0, 2, 1)
            return self.Prediction(self.SequenceModeling(columns))

    return _without_module(Network(), weights)


def _without_module(network, weights):
    """Names of tensors begin with "module." where a network was trained on several devices."""
    network.load_state_dict({name.removeprefix("module."): tensor for name, tensor in _load(weights).items()})
    return network
