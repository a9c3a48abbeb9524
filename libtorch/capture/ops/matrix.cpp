// Products of matrices.
#include <cmath>
#include <limits>

#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

/// Gemm for two axes, which keeps the weight as it is; MatMul behind a Transpose otherwise.
void linear(Op& op) {
  const Seen x = op.seen("input"), weight = op.seen("weight");
  const bool biased = op.has("bias");
  if (x.rank() == 2 && weight.rank() == 2) {
    Names inputs = {op.tensor("input"), op.tensor("weight")};
    if (biased) inputs.push_back(op.tensor("bias"));
    return op.set(op.net.add("Gemm", inputs, {{"transB", std::int64_t{1}}}));
  }
  std::string w = op.tensor("weight");
  if (weight.rank() == 2) w = op.net.transpose(w, {1, 0});
  const std::string y = op.net.add("MatMul", {op.tensor("input"), w});
  op.set(biased ? op.net.add("Add", {y, op.tensor("bias")}) : y);
}

std::string self_of(Op& op) { return op.has("self") ? op.tensor("self") : op.tensor("input"); }

void matmul(Op& op) { op.set(op.net.add("MatMul", {self_of(op), op.tensor("other")})); }
void mm(Op& op) { op.set(op.net.add("MatMul", {self_of(op), op.tensor("mat2")})); }
void mv(Op& op) { op.set(op.net.add("MatMul", {self_of(op), op.tensor("vec")})); }
void dot(Op& op) { op.set(op.net.add("MatMul", {self_of(op), op.tensor("tensor")})); }

std::string scaled(Op& op, const std::string& value, const char* factor) {
  const at::Scalar by = op.scalar(factor);
  return by.equal(1) ? value : op.net.add("Mul", {value, op.net.scalar(by, op.result().type)});
}

/// beta * self + alpha * (a @ b)
void add_product(Op& op, const char* a, const char* b) {
  const std::string product = scaled(op, op.net.add("MatMul", {op.tensor(a), op.tensor(b)}), "alpha");
  if (op.scalar("beta").equal(0)) return op.set(product);
  op.set(op.net.add("Add", {scaled(op, op.tensor("self"), "beta"), product}));
}

/// What a matrix is the transpose of; empty where it is none.
std::string transposed_of(const Network& net, const std::string& value) {
  for (const graph::Node& node : net.graph.nodes) {
    if (!node.is("Transpose") || node.outputs[0] != value) continue;
    return node.ints_or("perm", {}) == Ints{1, 0} ? node.inputs[0] : "";
  }
  return {};
}

/// Linear layers are recorded as addmm of the weight's transpose: Gemm keeps the weight as it is.
void addmm(Op& op) {
  const std::string mat2 = op.tensor("mat2"), weight = transposed_of(op.net, mat2);
  Attributes attributes{{"alpha", static_cast<float>(op.real("alpha"))},
                        {"beta", static_cast<float>(op.real("beta"))}};
  if (!weight.empty()) attributes["transB"] = std::int64_t{1};
  op.set(
      op.net.add("Gemm", {op.tensor("mat1"), weight.empty() ? mat2 : weight, op.tensor("self")}, attributes));
}
void baddbmm(Op& op) { add_product(op, "batch1", "batch2"); }
void addmv(Op& op) { add_product(op, "mat", "vec"); }

void einsum(Op& op) {
  std::string equation = op.text("equation");
  std::erase(equation, ' ');
  op.set(op.net.add("Einsum", op.tensors("tensors"), {{"equation", equation}}));
}

void bilinear(Op& op) {
  const std::string y = op.net.add("Einsum", {op.tensor("input1"), op.tensor("weight"), op.tensor("input2")},
                                   {{"equation", std::string("...i,oij,...j->...o")}});
  op.set(op.has("bias") ? op.net.add("Add", {y, op.tensor("bias")}) : y);
}

Ints last_two_swapped(std::int64_t rank) {
  Ints order = axes_up_to(rank);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return order;
}

/// softmax(q k^T * scale + mask) v
void attention(Op& op) {
  Network& net = op.net;
  const Seen q = op.seen("query"), k = op.seen("key");
  if (op.flag("enable_gqa")) op.fail("enable_gqa");
  const auto fixed_size = [&](const Seen& of, std::size_t from_end) {
    const Number size = of.sizes[of.sizes.size() - from_end];
    if (!size.fixed()) op.fail("a causal mask or a scale that follows the batch");
    return size.first;
  };
  const double scale =
      op.has("scale") ? op.real("scale") : 1 / std::sqrt(static_cast<double>(fixed_size(q, 1)));
  std::string scores =
      net.add("MatMul", {op.tensor("query"), net.transpose(op.tensor("key"), last_two_swapped(k.rank()))});
  scores = net.add("Mul", {scores, net.scalar(scale, q.type)});
  const double lowest = -std::numeric_limits<double>::infinity();
  if (op.has("attn_mask")) {
    std::string mask = op.tensor("attn_mask");
    if (op.seen("attn_mask").type == at::kBool) {
      mask = net.add("Where", {mask, net.scalar(0.0, q.type), net.scalar(lowest, q.type)});
    }
    scores = net.add("Add", {scores, mask});
  }
  if (op.flag("is_causal")) {
    const at::Tensor all = at::full({fixed_size(q, 2), fixed_size(k, 2)}, lowest, at::dtype(q.type));
    scores = net.add("Add", {scores, net.tensor(all.triu(1), "causal_mask")});
  }
  const std::string weights = net.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  op.set(net.add("MatMul", {weights, op.tensor("value")}));
}

constexpr ConversionRow kMatrixRows[] = {
    {"aten::linear", linear},
    {"aten::matmul", matmul},
    {"aten::mm", mm},
    {"aten::bmm", mm},
    {"aten::mv", mv},
    {"aten::dot", dot},
    {"aten::addmm", addmm},
    {"aten::addmv", addmv},
    {"aten::baddbmm", baddbmm},
    {"aten::einsum", einsum},
    {"aten::bilinear", bilinear},
    {"aten::scaled_dot_product_attention", attention},
};

}  // namespace

std::span<const ConversionRow> matrix_conversions() { return kMatrixRows; }

}  // namespace crumb::libtorch
