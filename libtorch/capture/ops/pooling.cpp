// Pools.
#include <limits>

#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

/// How many of the last axes a pool works on, from its name: "aten::max_pool2d" has 2.
std::size_t spatial_of(const Op& op) {
  const std::string kind = op.kind();
  return static_cast<std::size_t>(kind[kind.find("pool") + 4] - '0');
}

/// With an axis of 1 before them where there are only channels before the axes.
struct Pooled {
  Pooled(Op& op, std::size_t axes) : alone(op.seen("self").rank() == static_cast<std::int64_t>(axes) + 1) {
    x = alone ? op.net.unsqueeze(op.tensor("self"), {0}) : op.tensor("self");
  }
  std::string result(Op& op, const std::string& y) const { return alone ? op.net.squeeze(y, {0}) : y; }
  bool alone;
  std::string x;
};

Attributes windows(Op& op, std::size_t axes) {
  const Ints kernel = op.ints("kernel_size", axes);
  Ints strides = op.has("stride") ? op.ints("stride", axes) : kernel;
  if (strides.empty()) strides = kernel;
  Ints pads = op.ints("padding", axes);
  pads.insert(pads.end(), pads.begin(), pads.end());
  return {{"kernel_shape", kernel},
          {"strides", strides},
          {"pads", pads},
          {"ceil_mode", std::int64_t{op.flag("ceil_mode") ? 1 : 0}}};
}

void max_pool(Op& op) {
  if (op.wants(1)) op.fail("the indices of its maxima are used");
  const std::size_t axes = spatial_of(op);
  const Pooled pooled(op, axes);
  Attributes attributes = windows(op, axes);
  attributes["dilations"] = op.ints("dilation", axes);
  op.set(pooled.result(op, op.net.add("MaxPool", {pooled.x}, attributes)));
}

void average_pool(Op& op) {
  const std::size_t axes = spatial_of(op);
  const Pooled pooled(op, axes);
  Attributes attributes = windows(op, axes);
  attributes["count_include_pad"] = std::int64_t{op.flag("count_include_pad", true) ? 1 : 0};
  double factor = 1;
  if (op.has("divisor_override")) {
    if (op.flag("ceil_mode")) op.fail("divisor_override with ceil_mode");
    attributes["count_include_pad"] = std::int64_t{1};
    for (const std::int64_t size : std::get<Ints>(attributes["kernel_shape"]))
      factor *= static_cast<double>(size);
    factor /= static_cast<double>(op.integer("divisor_override"));
  }
  std::string y = op.net.add("AveragePool", {pooled.x}, attributes);
  if (factor != 1) y = op.net.add("Mul", {y, op.net.scalar(factor, op.result().type)});
  op.set(pooled.result(op, y));
}

/// Along one axis, window i from floor(i * in / out) to ceil((i + 1) * in / out).
std::string pool_axis(Op& op, const std::string& x, std::int64_t axis, std::int64_t in, std::int64_t out,
                      const char* reduce) {
  if (in == out) return x;
  Names parts;
  for (std::int64_t i = 0; i < out; ++i) {
    const std::string part = op.net.slice(x, axis, i * in / out, ((i + 1) * in + out - 1) / out);
    parts.push_back(op.net.add(reduce, {part, op.net.ints({axis})}));
  }
  return op.net.add("Concat", parts, {{"axis", axis}});
}

/// One window for all, windows of one size, or else axis by axis.
void adaptive_pool(Op& op, const char* name, const char* global, const char* reduce) {
  if (op.wants(1)) op.fail("the indices of its maxima are used");
  const std::size_t axes = spatial_of(op);
  const Pooled pooled(op, axes);
  const Seen from = op.seen("self"), to = op.result();
  const auto rank = static_cast<std::size_t>(from.rank());
  Ints in, out, kernel;
  bool even = true, one = true;
  for (std::size_t i = rank - axes; i < rank; ++i) {
    if (!from.sizes[i].fixed() || !to.sizes[i].fixed()) op.fail("it pools along the batch");
    in.push_back(from.sizes[i].first);
    out.push_back(to.sizes[i].first);
    even = even && out.back() > 0 && in.back() % out.back() == 0;
    one = one && out.back() == 1;
  }
  if (one) return op.set(pooled.result(op, op.net.add(global, {pooled.x})));
  if (even) {
    for (std::size_t i = 0; i < axes; ++i) kernel.push_back(in[i] / out[i]);
    const std::string y = op.net.add(name, {pooled.x}, {{"kernel_shape", kernel}, {"strides", kernel}});
    return op.set(pooled.result(op, y));
  }
  std::string y = pooled.x;
  for (std::size_t i = 0; i < axes; ++i) {
    y = pool_axis(op, y, static_cast<std::int64_t>(i) + 2, in[i], out[i], reduce);
  }
  op.set(pooled.result(op, y));
}

void adaptive_average_pool(Op& op) { adaptive_pool(op, "AveragePool", "GlobalAveragePool", "ReduceMean"); }
void adaptive_max_pool(Op& op) { adaptive_pool(op, "MaxPool", "GlobalMaxPool", "ReduceMax"); }

constexpr ConversionRow kPoolingRows[] = {
    {"aten::max_pool1d", max_pool},
    {"aten::max_pool2d", max_pool},
    {"aten::max_pool3d", max_pool},
    {"aten::max_pool1d_with_indices", max_pool},
    {"aten::max_pool2d_with_indices", max_pool},
    {"aten::max_pool3d_with_indices", max_pool},
    {"aten::avg_pool1d", average_pool},
    {"aten::avg_pool2d", average_pool},
    {"aten::avg_pool3d", average_pool},
    {"aten::adaptive_avg_pool1d", adaptive_average_pool},
    {"aten::adaptive_avg_pool2d", adaptive_average_pool},
    {"aten::adaptive_avg_pool3d", adaptive_average_pool},
    {"aten::_adaptive_avg_pool2d", adaptive_average_pool},
    {"aten::_adaptive_avg_pool3d", adaptive_average_pool},
    {"aten::adaptive_max_pool1d", adaptive_max_pool},
    {"aten::adaptive_max_pool2d", adaptive_max_pool},
    {"aten::adaptive_max_pool3d", adaptive_max_pool},
};

}  // namespace

std::span<const ConversionRow> pooling_conversions() { return kPoolingRows; }

}  // namespace crumb::libtorch
