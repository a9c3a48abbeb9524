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
