// Operators whose meaning, not only their form, changed from version to version.
#include <algorithm>

#include "graph/edit.h"
#include "graph/passes/opset_mover.h"

namespace crumb::graph {

namespace {

constexpr std::string_view kNotKnown = ", which that version does not know";

constexpr std::int64_t kMostZeroPoints = 1 << 20;

Tensor no_numbers() { return Tensor::floats({0}, {}); }

}  // namespace

/// Before 13 the input counts as a matrix: axes before `axis` are rows, the others columns. That is the same
/// where `axis` is the last one, or only sizes of 1 follow.
NodeMover::Why NodeMover::softmax(Node& node, std::int64_t from) {
  if (!crosses(from, 13)) return {};
  const Shape* shape = shape_of(node, 0);
  if (!shape) {
    if (up(from, 13)) return softmax_of_rows(node);
    return "has an input of unknown shape; its axis means another thing in that version";
  }
  const auto rank = static_cast<std::int64_t>(shape->size());
  std::int64_t axis = node.int_or("axis", from < 13 ? 1 : -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) return "has an axis that is not there";
  const bool same = std::all_of(shape->begin() + std::min(axis + 1, rank), shape->end(),
                                [](const Dim& dim) { return dim.size == 1; });
  if (same && axis < rank) {
    node.attributes["axis"] = axis;
    return {};
  }
  return up(from, 13) ? softmax_of_rows(node) : softmax_of_axis(node, axis, shape->size());
}

NodeMover::Why NodeMover::softmax_of_rows(Node& node) {
  const std::string shape = before(node, "Shape", {node.inputs.at(0)});
  const std::string rows = before(node, "Flatten", {node.inputs[0]}, {{"axis", node.int_or("axis", 1)}});
  const std::string output = node.outputs.at(0), made = divert(node, "rows");
  node.inputs[0] = rows;
  node.attributes["axis"] = std::int64_t{-1};
  after(node, "Reshape", {made, shape}, output);
  return {};
}

NodeMover::Why NodeMover::softmax_of_axis(Node& node, std::int64_t axis, std::size_t rank) {
  Ints perm(rank);  // swaps the axis with the last one: its own inverse
  for (std::size_t i = 0; i < rank; ++i) perm[i] = static_cast<std::int64_t>(i);
  std::swap(perm.at(static_cast<std::size_t>(axis)), perm.back());
  node.inputs[0] = before(node, "Transpose", {node.inputs[0]}, {{"perm", perm}});
  const std::string output = node.outputs.at(0), made = divert(node, "last");
  node.attributes["axis"] = static_cast<std::int64_t>(rank) - 1;
  after(node, "Transpose", {made}, output, {{"perm", perm}});
  return {};
}

NodeMover::Why NodeMover::batch_norm(Node& node, std::int64_t from) {
  if (from < 7 && node.int_or("is_test", 0) == 0) return "is in training mode";
  if (node.int_or("spatial", 1) != 1) return "has statistics of every element (spatial 0)";
  const bool has_more = std::any_of(node.outputs.begin() + !node.outputs.empty(), node.outputs.end(),
                                    [](const std::string& value) { return !value.empty(); });
  if (node.int_or("training_mode", 0) != 0 || has_more) return "is in training mode";
  node.outputs.resize(std::min<std::size_t>(node.outputs.size(), 1));
  for (const char* name : {"is_test", "spatial", "training_mode"}) node.attributes.erase(name);
  if (to_ < 7) node.attributes["is_test"] = std::int64_t{1};
  return {};
}

NodeMover::Why NodeMover::upsample(Node& node, std::int64_t from) {
  if (from < 7 || to_ < 7) return "is written otherwise before operator set 7";
  if (from >= 9 && !node.has_input(1)) return "has no scales";
  if (from < 9 && to_ >= 9) {
    const auto scales = node.floats_or("scales", {});
    set_input(node, 1,
              constant(node, "scales", Tensor::floats({static_cast<std::int64_t>(scales.size())}, scales)));
    node.attributes.erase("scales");
  }
  if (down(from, 9)) {
    const Tensor* scales = constant_input(graph_, node, 1);
    if (!scales) return "computes its scales, which that version fixes";
    node.attributes["scales"] = scales->to_floats();
    node.inputs.resize(1);
  }
  if (to_ < 10) return {};
  node.op = "Resize";
  if (node.text_or("mode", "nearest") == "bilinear") node.attributes["mode"] = std::string("linear");
  if (to_ == 10) return {};
  node.inputs = {node.inputs.at(0), "", node.inputs.at(1)};
  return old_sampling(node);
}

/// Writes Upsample and Resize of operator set 10 as Resize of 11.
NodeMover::Why NodeMover::old_sampling(Node& node) {
  node.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  node.attributes["nearest_mode"] = std::string("floor");
  if (to_ < 13) set_input(node, 1, constant(node, "roi", no_numbers()));
  return {};
}

/// Operator set 10 takes the nearest element that is not before the coordinate on axes that shrink, and not
/// behind it on axes that grow. Later sets do the same on all axes: the axes that shrink become a Resize of
/// their own.
void NodeMover::old_nearest(Node& node) {
  if (node.text_or("mode", "nearest") != "nearest") return;
  const std::string scales = node.inputs.at(2);
  std::string less, more;
  if (const Tensor* known = constant_input(graph_, node, 2)) {
    std::vector<float> down_by = known->to_floats(), up_by = down_by;
    const bool shrinks = std::ranges::any_of(down_by, [](float scale) { return scale < 1; });
    if (!shrinks) return;
    for (float& scale : down_by) scale = std::min(scale, 1.0F);
    for (float& scale : up_by) scale = std::max(scale, 1.0F);
    if (std::ranges::all_of(up_by, [](float scale) { return scale == 1; })) {
      node.attributes["nearest_mode"] = std::string("ceil");
      return;
    }
    less = constant(node, "scales_less", Tensor::floats(known->shape(), down_by));
    more = constant(node, "scales_more", Tensor::floats(known->shape(), up_by));
  } else {
    const std::string one = constant(node, "one", Tensor::scalar(1.0F));
    less = before(node, "Min", {scales, one});
    more = before(node, "Max", {scales, one});
  }
  auto attributes = node.attributes;
  attributes["nearest_mode"] = std::string("ceil");
  node.inputs[0] = before(node, "Resize", {node.inputs[0], node.inputs[1], less}, std::move(attributes));
  node.inputs[2] = more;
}

NodeMover::Why NodeMover::resize(Node& node, std::int64_t from) {
  if (up(from, 11)) {
    if (!node.has_input(1)) return "has no scales";
    node.inputs = {node.inputs.at(0), "", node.inputs.at(1)};
    if (auto why = old_sampling(node)) return why;
    old_nearest(node);
    return {};
  }
  if (down(from, 11)) return "cannot be said in the Resize of operator set 10";
  if (down(from, 19) && node.text_or("coordinate_transformation_mode", "") == "half_pixel_symmetric") {
    return "has the coordinates 'half_pixel_symmetric'" + std::string(kNotKnown);
  }
  if (down(from, 18)) {
    if (node.int_or("antialias", 0) != 0) return "has antialias" + std::string(kNotKnown);
    if (node.text_or("keep_aspect_ratio_policy", "stretch") != "stretch")
      return "has an aspect ratio policy" + std::string(kNotKnown);
    if (node.has("axes")) return "resizes chosen axes" + std::string(kNotKnown);
  }
  if (down(from, 13)) {
    for (const std::size_t i : {1, 2}) {
      if (!node.has_input(i)) set_input(node, i, constant(node, i == 1 ? "roi" : "scales", no_numbers()));
    }
  }
  return {};
}

NodeMover::Why NodeMover::scatter(Node& node, std::int64_t from) {
  const std::string reduction = node.text_or("reduction", "none");
  if (down(from, 18) && (reduction == "max" || reduction == "min")) {
    return "has the reduction '" + reduction + "'" + std::string(kNotKnown);
  }
  return {};
}

NodeMover::Why NodeMover::roi_align(Node& node, std::int64_t from) {
  const std::string mode = "coordinate_transformation_mode", old = "output_half_pixel";
  if (up(from, 16)) node.attributes[mode] = old;
  if (down(from, 16)) {
    if (node.text_or(mode, "half_pixel") != old)
      return "has the coordinates 'half_pixel'" + std::string(kNotKnown);
    node.attributes.erase(mode);
  }
  return {};
}

NodeMover::Why NodeMover::grid_sample(Node& node, std::int64_t from) {
  if (!crosses(from, 20)) return {};
  const Shape* shape = shape_of(node, 0);
  if (down(from, 20) && (!shape || shape->size() != 4))
    return "does not sample pictures" + std::string(kNotKnown);
  std::string mode = node.text_or("mode", "linear");
  for (const auto& [before_20, from_20] : {std::pair("bilinear", "linear"), std::pair("bicubic", "cubic")}) {
    if (mode == (to_ < 20 ? from_20 : before_20)) {
      mode = to_ < 20 ? before_20 : from_20;
      break;
    }
  }
  node.attributes["mode"] = mode;
  return {};
}

NodeMover::Why NodeMover::quantize_linear(Node& node, std::int64_t from) {
  if (down(from, 21) && node.op == "QuantizeLinear" && node.int_or("output_dtype", 0) != 0) {
    const auto type = element_type_of(node.int_or("output_dtype", 0));
    const auto scale = node.has_input(1) ? graph_.shape_of(node.inputs[1]) : std::nullopt;
    if (!node.has_input(2)) {
      if (!type || !scale || !std::ranges::all_of(*scale, &Dim::known))
        return "has a type without a zero point" + std::string(kNotKnown);
      Ints shape;
      for (const Dim& dim : *scale) shape.push_back(dim.size);
      const auto count = count_elements(shape);
      const bool fits = count.ok() && count.value() <= kMostZeroPoints;
      const auto bytes = fits ? packed_bytes(*type, count.value()) : Failure{""};
      if (!bytes.ok()) return "has a type without a zero point" + std::string(kNotKnown);
      set_input(node, 2,
                constant(node, "zero_point", Tensor(*type, shape, std::vector<std::byte>(bytes.value()))));
    }
    node.attributes.erase("output_dtype");
  }
  if (down(from, 13)) {
    const Tensor* scale = constant_input(graph_, node, 1);
    if (!scale || scale->size() != 1) return "has a scale for each channel" + std::string(kNotKnown);
    node.attributes.erase("axis");
  }
  return {};
}

}  // namespace crumb::graph
