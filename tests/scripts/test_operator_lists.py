"""What an operator is stands in one table (graph/operator_traits.h): no other code has a list of operators' names."""

import re

# Kernels, what the standard's operator sets changed, and what other tools have of them.
MAY = re.compile(
    r"graph/operator_traits\.cpp|graph/onnx/schemas|graph/passes/opset|runtime/ops/|libtorch/(execute|capture)/ops/|export/(lint|hls4ml|finn|qcdq)/"
)
MOST = 3  # names that one statement may ask for
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def operators(repo):
    text = (repo / "graph/operator_traits.cpp").read_text()
    return set(re.findall(r'^    \{(?:""|\w+),\s+"(\w+)"', text, re.MULTILINE))


def lists_in(text, names):
    """The operators named by each statement, or in one pair of braces, that names too many."""
    for part in re.split(r"[;{}]", COMMENT.sub("", text)):
        found = sorted({name for name in re.findall(r'"(\w+)"', part) if name in names})
        if len(found) > MOST:
            yield found


def test_names_of_operators_stand_in_the_table_only(repo, of_scripts):
    names = operators(repo)
    assert len(names) > 200
    lists = {}
    rooms = of_scripts("check_includes").MAY_INCLUDE
    for room in [room for room, includes in rooms.items() if "graph" in [room, *includes]]:
        for path in sorted((repo / room).rglob("*")):
            name = path.relative_to(repo).as_posix()
            if path.suffix in {".h", ".cpp", ".inc"} and not MAY.match(name):
                if found := list(lists_in(path.read_text(), names)):
                    lists[name] = found
    assert not lists, "ask graph/operator_traits.h, and give the operators a trait there"


PRODUCT = re.compile(r'(?:\bis\(|\bop [!=]= )"(?:MatMul|Gemm|Conv|ConvTranspose)"')
# What is about one of these operators' own form (Gemm's factors, layouts of images), and how often it names them. Others ask
# graph/weighted_product.h. The numbers may only become smaller.
OF_ONE_FORM = {
    "analysis/accumulator/computed_terms.cpp": 1,
    "analysis/accumulator/lay_out_weight.cpp": 3,
    "analysis/accumulator/register_products.cpp": 1,
    "analysis/accumulator/run_in_registers.cpp": 1,
    "analysis/products.cpp": 7,
    "graph/adapters.cpp": 1,
    "graph/onnx/channels_last_operators.cpp": 2,
    "graph/packed/write.cpp": 1,
    "graph/passes/channels_last.cpp": 1,
    "graph/passes/gemm.cpp": 2,
    "graph/passes/layout.cpp": 1,
    "graph/quantize/nonnegative.cpp": 1,
    "graph/sparse_products.cpp": 2,
    "libtorch/execute/packed_kernels.cpp": 3,
    "qat/attach.cpp": 1,
    "tasks/train/wraparound.cpp": 1,
}


def test_products_are_asked_for_by_their_axes(repo, of_scripts):
    """Whoever rewrites weights takes any product that has axes of outputs and inputs, not MatMul, Gemm and Conv by name."""
    found = {}
    rooms = of_scripts("check_includes").MAY_INCLUDE
    for room in [room for room, includes in rooms.items() if "graph" in [room, *includes]]:
        for path in sorted((repo / room).rglob("*")):
            name = path.relative_to(repo).as_posix()
            if path.suffix in {".h", ".cpp", ".inc"} and not MAY.match(name):
                if count := len(PRODUCT.findall(COMMENT.sub("", path.read_text()))):
                    found[name] = count
    assert found == OF_ONE_FORM


def test_a_list_is_found(repo):
    names = operators(repo)
    assert list(lists_in('constexpr std::array k = {"Add", "Mul", "Sub", "Div"};', names))
    assert list(lists_in('if (op == "Relu" || op == "Elu" || op == "Selu" || op == "Celu") return;', names))
    assert not list(lists_in('// {"Add", "Mul", "Sub", "Div"}\nif (node.is("Add")) return; f("Mul"); g("Sub"); h("Div");', names))
