// Other sizes: upsampling, padding, pixels into channels and back.
#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

/// By the scales that were given, else by the sizes that came out; both along the axes behind the channels.
void resize(Op& op, const char* mode, const char* coordinates, const Attributes& more = {}) {
  const char* input = op.has("input") ? "input" : "self";
  const Seen x = op.seen(input), y = op.result();
  const auto rank = static_cast<std::size_t>(x.rank());
  Ints axes;
  std::vector<Number> sizes;
  for (std::size_t i = 2; i < rank; ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
    sizes.push_back(y.sizes[i]);
  }
  std::vector<double> scales;
  if (op.has("scale_factors")) {
    scales = op.reals("scale_factors");
  } else if (op.has("scales")) {
    scales = {op.real("scales")};
  } else {
    for (const char* name : {"scales_d", "scales_h", "scales_w"}) {
      if (op.has(name)) scales.push_back(op.real(name));
    }
  }
  Attributes attributes = more;
  attributes["mode"] = std::string(mode);
  attributes["coordinate_transformation_mode"] = std::string(coordinates);
  attributes["axes"] = axes;
  if (scales.size() == axes.size() && std::string(coordinates) != "align_corners") {
    std::vector<float> factors(scales.begin(), scales.end());
    const at::Tensor constant = at::tensor(factors, at::dtype(at::kFloat));
    return op.set(
        op.net.add("Resize", {op.tensor(input), "", op.net.tensor(constant, "scales")}, attributes));
  }
  op.set(op.net.add("Resize", {op.tensor(input), "", "", op.net.sizes(sizes)}, attributes));
}

void nearest(Op& op) { resize(op, "nearest", "asymmetric", {{"nearest_mode", std::string("floor")}}); }
void nearest_exact(Op& op) {
  resize(op, "nearest", "half_pixel", {{"nearest_mode", std::string("round_prefer_ceil")}});
}
void resize_linear(Op& op) {
  resize(op, "linear", op.flag("align_corners") ? "align_corners" : "half_pixel");
}
void cubic(Op& op) {
  resize(op, "cubic", op.flag("align_corners") ? "align_corners" : "half_pixel", {{"cubic_coeff_a", -0.75F}});
}

/// LibTorch names the last axis first, (before, behind) each.
void pad_by(Op& op, const std::string& mode) {
  const std::vector<Number> pad = op.numbers(op.has("pad") ? "pad" : "padding");
  const auto rank = static_cast<std::size_t>(op.seen("self").rank());
  std::vector<Number> pads(2 * rank, Number{0, 0});
  for (std::size_t i = 0; 2 * i + 1 < pad.size(); ++i) {
    pads[rank - 1 - i] = pad[2 * i];
    pads[2 * rank - 1 - i] = pad[2 * i + 1];
  }
  Names inputs = {op.tensor("self"), op.net.sizes(pads)};
  if (mode == "constant" && op.has("value")) inputs.push_back(op.self("value"));
  op.set(op.net.add("Pad", inputs, {{"mode", mode}}));
}

void pad(Op& op) {
  const std::string mode = op.text("mode");
  if (mode == "constant" || mode == "reflect") return pad_by(op, mode);
  if (mode == "replicate") return pad_by(op, "edge");
  if (mode == "circular") return pad_by(op, "wrap");
  op.fail("mode " + mode);
}
/// The mode as LibTorch numbers it.
void pad_by_number(Op& op) {
  constexpr const char* kModes[] = {"reflect", "edge", "wrap", "constant"};
  const std::int64_t mode = op.integer("mode");
  if (mode < 0 || mode > 3) op.fail("mode " + std::to_string(mode));
  pad_by(op, kModes[mode]);
}
void pad_constant(Op& op) { pad_by(op, "constant"); }
void pad_reflect(Op& op) { pad_by(op, "reflect"); }
void pad_replicate(Op& op) { pad_by(op, "edge"); }

void pixel_shuffle(Op& op) {
  op.set(op.net.add("DepthToSpace", {op.tensor("self")},
                    {{"blocksize", op.integer("upscale_factor")}, {"mode", std::string("CRD")}}));
}

/// [n, c, h r, w r] to [n, c r r, h, w]; the index within a block changes most slowly but for the channel.
void pixel_unshuffle(Op& op) {
  const std::int64_t r = op.integer("downscale_factor");
  const Seen x = op.seen("self");
  if (x.rank() != 4) op.fail("an input that has not 4 axes");
  const auto& s = x.sizes;
  const Number by{r, r}, h{s[2].first / r, s[2].second / r}, w{s[3].first / r, s[3].second / r};
  const std::vector<Number> split = {s[0], s[1], h, by, w, by};
  const std::string blocks =
      op.net.transpose(op.net.reshape(op.tensor("self"), s, split), {0, 1, 3, 5, 2, 4});
  op.set(op.net.reshape(blocks, {s[0], s[1], by, by, h, w}, op.result().sizes));
}

constexpr ConversionRow kResizeRows[] = {
    {"aten::upsample_nearest1d", nearest},
    {"aten::upsample_nearest2d", nearest},
    {"aten::upsample_nearest3d", nearest},
    {"aten::_upsample_nearest_exact1d", nearest_exact},
    {"aten::_upsample_nearest_exact2d", nearest_exact},
    {"aten::_upsample_nearest_exact3d", nearest_exact},
    {"aten::upsample_linear1d", resize_linear},
    {"aten::upsample_bilinear2d", resize_linear},
    {"aten::upsample_trilinear3d", resize_linear},
    {"aten::upsample_bicubic2d", cubic},
    {"aten::pad", pad},
    {"aten::_pad_enum", pad_by_number},
    {"aten::constant_pad_nd", pad_constant},
    {"aten::reflection_pad1d", pad_reflect},
    {"aten::reflection_pad2d", pad_reflect},
    {"aten::reflection_pad3d", pad_reflect},
    {"aten::replication_pad1d", pad_replicate},
    {"aten::replication_pad2d", pad_replicate},
    {"aten::replication_pad3d", pad_replicate},
    {"aten::pixel_shuffle", pixel_shuffle},
    {"aten::pixel_unshuffle", pixel_unshuffle},
};

}  // namespace

std::span<const ConversionRow> resize_conversions() { return kResizeRows; }

}  // namespace crumb::libtorch
