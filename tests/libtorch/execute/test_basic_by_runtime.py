"""Element-wise, matrix and reduction operators of every operator set that onnxruntime has, against it."""

import numpy as np
import pytest
from basic_cases import cases_of
from onnx import TensorProto

UNARY = """Abs Neg Exp Floor Ceil Elu Selu HardSigmoid LeakyRelu Relu Sigmoid Softplus Softsign Tanh Sin Cos Tan Atan
Sinh Cosh Asinh Erf Sign Round Shrink ThresholdedRelu HardSwish Mish Identity Gelu Dropout""".split()
REDUCTIONS = "Sum Mean Max Min L1 L2 LogSumExp SumSquare Prod".split()


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 17, 21])
def test_agrees_with_onnxruntime(crumb_bin, tmp_path, opset):
    cases, rng = cases_of(crumb_bin, tmp_path), np.random.default_rng(opset)

    def draw(*shape):
        return (rng.normal(size=shape) * 3).astype(np.float32)

    def case(op, *inputs, types=None, **attributes):
        return cases.by_runtime(op, opset, list(inputs), types, **attributes)

    x, flags, indices = draw(2, 3, 4), [np.bool_], [np.int64]
    for op in ("Add", "Sub", "Mul", "Div"):
        case(op, x, draw(3, 1))
    for op in ("Max", "Min", "Sum", "Mean"):
        case(op, x, draw(3, 1) if opset >= 8 else draw(2, 3, 4))
    case("Pow", abs(x), draw(4))
    case("PRelu", x, draw(3, 1))
    for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
        case(op, x, draw(4), types=flags)
    for op in UNARY:
        case(op, x)
    case("Celu", x, alpha=1.5)
    case("IsNaN", x, types=flags)
    case("IsInf", x, types=flags)
    for axis in (0, 1, 2):
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            case(op, x, axis=axis)
        case("ArgMax", x, types=indices, axis=axis)
        case("ArgMin", x, types=indices, axis=axis, keepdims=0)
        case("CumSum", x, np.array(axis), exclusive=1)
        both = [np.float32, np.int64]
        if opset < 10:
            case("TopK", x, types=both, axis=axis, k=2)
        else:
            case("TopK", x, np.array([2]), types=both, axis=axis)
    for name in REDUCTIONS:
        as_input = opset >= 18 or (name == "Sum" and opset >= 13)
        for data in (x, np.sign(x).astype(np.int32) if name == "Prod" else (x * 4).astype(np.int32)):
            case(f"Reduce{name}", data)
            if as_input:
                case(f"Reduce{name}", data, np.array([0, -1]), keepdims=0)
            else:
                case(f"Reduce{name}", data, axes=[0, 2], keepdims=0)
    case("Gemm", draw(3, 2), draw(4, 3), draw(1, 4), transA=1, transB=1, alpha=0.5, beta=2.0)
    case("MatMul", draw(2, 1, 3, 4), draw(5, 4, 2))
    case("Einsum", x, draw(5, 4), equation="b...i,ji->...jb")
    case("Det", draw(2, 3, 3))
    if opset < 11:
        case("Clip", x, min=-1.0, max=1.0)
    else:
        case("Clip", x, np.float32(-1), np.float32(1))
    case("Mod", (x * 5).astype(np.int64), np.array([3, -4, 5, -7]))
    case("Mod", x, draw(4), fmod=1)
    for to, scale, dtype in [(TensorProto.INT32, 1, np.int32), (TensorProto.INT8, 60, np.int8),
                             (TensorProto.INT32, 1e9, np.int32), (TensorProto.BOOL, 1, np.bool_),
                             (TensorProto.FLOAT16, 1, np.float16)]:  # fmt: skip
        case("Cast", x * np.float32(scale), types=[dtype], to=to)
    case("Shape", x, types=indices)
    case("Where", x > 0, x, draw(1), types=[np.float32])
    case("EyeLike", draw(3, 5), k=1)
    case("Trilu", x, np.array(1))
    assert len(cases.folders) >= 80  # onnxruntime does not have every operator of every version
    cases.check()
