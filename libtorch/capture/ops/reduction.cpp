// Reductions and sums along an axis.
#include <cmath>

#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

std::int64_t keeps(Op& op) { return op.flag("keepdim") ? 1 : 0; }

/// Over `dim`, all axes where it is left out.
std::string reduced(Op& op, const char* name, const std::string& x, std::int64_t keep) {
  const std::int64_t rank = op.seen("self").rank();
  if (rank == 0) return x;
  return op.net.add(name, {x, op.net.ints(op.axes("dim", rank))}, {{"keepdims", keep}});
}

void sum(Op& op) { op.set(reduced(op, "ReduceSum", op.self(), keeps(op))); }
void mean(Op& op) { op.set(reduced(op, "ReduceMean", op.self(), keeps(op))); }
void prod(Op& op) { op.set(reduced(op, "ReduceProd", op.self(), keeps(op))); }
void amax(Op& op) { op.set(reduced(op, "ReduceMax", op.self(), keeps(op))); }
void amin(Op& op) { op.set(reduced(op, "ReduceMin", op.self(), keeps(op))); }
void logsumexp(Op& op) { op.set(reduced(op, "ReduceLogSumExp", op.self(), keeps(op))); }

/// An index along an axis; into the flattened tensor where no axis is given.
std::string place(Op& op, const char* name) {
  const Seen x = op.seen("self");
  const bool all = !op.has("dim");
  const std::string from =
      all ? op.net.add("Reshape", {op.tensor("self"), op.net.ints({-1})}) : op.tensor("self");
  return op.net.add(name, {from},
                    {{"axis", all ? 0 : op.axis("dim", x.rank())}, {"keepdims", all ? 0 : keeps(op)}});
}
void argmax(Op& op) { op.set(place(op, "ArgMax")); }
void argmin(Op& op) { op.set(place(op, "ArgMin")); }

/// max(), max(dim) with its index, max(other).
void extreme(Op& op, const char* reduce, const char* arg, const char* both) {
  if (op.has("other")) return op.set(op.net.add(both, {op.self(), op.self("other")}));
  op.set(reduced(op, reduce, op.tensor("self"), keeps(op)));
  if (op.results() > 1 && op.wants(1)) op.set(place(op, arg), 1);
}
void max(Op& op) { extreme(op, "ReduceMax", "ArgMax", "Max"); }
void min(Op& op) { extreme(op, "ReduceMin", "ArgMin", "Min"); }

/// The mean of squared distances from the mean, times n / (n - correction).
std::string variance(Op& op) {
  Network& net = op.net;
  const Seen x = op.seen("self");
  const std::int64_t rank = x.rank();
  double correction = op.has("correction") ? op.real("correction") : 1;
  if (op.has("unbiased")) correction = op.flag("unbiased") ? 1 : 0;
  const std::string far = net.add("Sub", {op.self(), reduced(op, "ReduceMean", op.self(), 1)});
  const std::string spread = reduced(op, "ReduceMean", net.add("Mul", {far, far}), keeps(op));
  if (correction == 0) return spread;
  double n = 1;
  for (const std::int64_t axis : op.axes("dim", rank)) {
    const Number size = x.sizes[static_cast<std::size_t>(axis)];
    if (!size.fixed()) op.fail("an unbiased variance over the batch");
    n *= static_cast<double>(size.first);
  }
  return net.add("Mul", {spread, net.scalar(n / (n - correction), op.result().type)});
}
void var(Op& op) { op.set(variance(op)); }
void deviation(Op& op) { op.set(op.net.add("Sqrt", {variance(op)})); }

void norm_of(Op& op, double p) {
  Network& net = op.net;
  const std::string x = op.self();
  const std::int64_t keep = keeps(op);
  if (p == 1) return op.set(reduced(op, "ReduceL1", x, keep));
  if (p == 2) return op.set(reduced(op, "ReduceL2", x, keep));
  const std::string size = net.add("Abs", {x});
  if (std::isinf(p)) return op.set(reduced(op, p > 0 ? "ReduceMax" : "ReduceMin", size, keep));
  if (p == 0) op.fail("a count of what is not 0");
  const auto type = op.result().type;
  const std::string total = reduced(op, "ReduceSum", net.add("Pow", {size, net.scalar(p, type)}), keep);
  op.set(net.add("Pow", {total, net.scalar(1 / p, type)}));
}
void norm(Op& op) { norm_of(op, op.has("p") ? op.real("p") : 2); }
void vector_norm(Op& op) { norm_of(op, op.real("ord")); }
void frobenius_norm(Op& op) { norm_of(op, 2); }

void cumsum(Op& op) {
  op.set(op.net.add("CumSum", {op.self(), op.net.index(op.axis("dim", op.seen("self").rank()))}));
}

/// any and all: the largest and the smallest of 0 and 1.
void holds(Op& op, const char* name) {
  const std::string x = op.net.cast(op.operand("self", at::kBool), at::kInt);
  op.set(op.net.cast(reduced(op, name, x, keeps(op)), at::kBool));
}
void any(Op& op) { holds(op, "ReduceMax"); }
void all(Op& op) { holds(op, "ReduceMin"); }

constexpr ConversionRow kReductionRows[] = {
    {"aten::sum", sum},
    {"aten::mean", mean},
    {"aten::prod", prod},
    {"aten::amax", amax},
    {"aten::amin", amin},
    {"aten::logsumexp", logsumexp},
    {"aten::argmax", argmax},
    {"aten::argmin", argmin},
    {"aten::max", max},
    {"aten::min", min},
    {"aten::var", var},
    {"aten::std", deviation},
    {"aten::norm", norm},
    {"aten::linalg_vector_norm", vector_norm},
    {"aten::frobenius_norm", frobenius_norm},
    {"aten::cumsum", cumsum},
    {"aten::any", any},
    {"aten::all", all},
};

}  // namespace

std::span<const ConversionRow> reduction_conversions() { return kReductionRows; }

}  // namespace crumb::libtorch
