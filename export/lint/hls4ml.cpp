// Rules about single operators that hls4ml's parser has, some of them FINN's too.
#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include "base/files/text.h"
#include "export/lint/checks.h"
#include "graph/passes/layout.h"
#include "graph/passes/passes.h"

namespace crumb::exporting::checks {
namespace {

using Ints = std::vector<std::int64_t>;

bool is_conv(const Node& node) { return node.is("Conv") || node.is("Conv", kChannelsLastDomain); }

/// Whose attributes have to be written: convolutions, for FINN pools too.
bool has_windows(const Node& node, Profile profile) {
  return is_conv(node) || (profile == Profile::kFinn && (node.is("MaxPool") || node.is("AveragePool")));
}

/// Of the attributes that have defaults, those that the tool fails without.
std::set<std::string_view> needed_attributes(const Node& node, Profile profile) {
  if (!is_conv(node)) return {"strides", "pads"};
  if (profile == Profile::kFinn) return {"strides", "pads", "group"};
  return {"kernel_shape", "strides", "dilations", "pads", "group"};
}

/// An attribute that must be written and is not, and its numbers; no value where they are not known.
struct Missing {
  std::string name;
  std::optional<Ints> value;

  graph::Attribute attribute() const {
    if (name == "group") return value->front();
    return *value;
  }
};

Ints sizes(const Shape& shape, std::size_t first, std::size_t count) {
  Ints found;
  for (std::size_t i = first; i < first + count; ++i) found.push_back(shape[i].size);
  return found;
}

/// SAME_UPPER and SAME_LOWER as numbers; nothing where the input's size is not known.
std::optional<Ints> same_pads(const Shape& input, const Node& node, const Ints& kernel, bool upper) {
  const std::size_t axes = kernel.size();
  const Ints strides = node.ints_or("strides", Ints(axes, 1)),
             dilations = node.ints_or("dilations", Ints(axes, 1));
  if (input.size() != axes + 2 || strides.size() != axes || dilations.size() != axes) return {};
  Ints pads(2 * axes);
  for (std::size_t i = 0; i < axes; ++i) {
    const graph::Dim& size = input[i + (is_last(node) ? 1 : 2)];
    if (!size.known() || strides[i] < 1) return {};
    const std::int64_t windows = (size.size + strides[i] - 1) / strides[i];
    const std::int64_t total = std::max<std::int64_t>(
        0, (windows - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size.size);
    pads[i] = upper ? total / 2 : total - total / 2;
    pads[i + axes] = total - pads[i];
  }
  return pads;
}

std::vector<Missing> missing_attributes(const Graph& graph, const Node& node, Profile profile) {
  std::vector<Missing> missing;
  const auto needed = needed_attributes(node, profile);
  const auto lacks = [&](const char* name) { return needed.contains(name) && !node.has(name); };
  const auto weight = is_conv(node) ? graph.shape_of(input_of(node, 1)) : std::nullopt;
  const std::size_t axes =
      weight && weight->size() >= 3 ? weight->size() - 2 : node.ints_or("kernel_shape", {}).size();
  const auto of_axes = [&](Ints value) {
    return axes > 0 ? std::optional<Ints>(std::move(value)) : std::nullopt;
  };
  std::optional<Ints> kernel;
  if (node.has("kernel_shape")) {
    kernel = node.ints_or("kernel_shape", {});
  } else if (weight && axes > 0) {
    kernel = sizes(*weight, is_last(node) ? 1 : 2, axes);
    if (std::ranges::any_of(*kernel, [](std::int64_t size) { return size < 0; })) kernel.reset();
  }
  if (lacks("kernel_shape")) missing.push_back({"kernel_shape", kernel});
  for (const char* ones : {"strides", "dilations"}) {
    if (lacks(ones)) missing.push_back({ones, of_axes(Ints(axes, 1))});
  }
  if (lacks("group")) missing.push_back({"group", Ints{1}});
  const std::string pad = node.text_or("auto_pad", "NOTSET");
  if (profile == Profile::kFinn && is_conv(node) && pad != "NOTSET") return missing;  // qonnx works them out
  if (pad.starts_with("SAME")) {
    const auto input = graph.shape_of(input_of(node, 0));
    std::optional<Ints> pads;
    if (input && kernel) pads = same_pads(*input, node, *kernel, pad == "SAME_UPPER");
    missing.push_back({"pads", pads});
  } else if ((!node.has("pads") && pad == "NOTSET") || pad == "VALID") {
    missing.push_back({"pads", of_axes(Ints(2 * axes, 0))});
  }
  return missing;
}

/// hls4ml looks whether the roi's number is true, and fails on none and on several.
bool has_one_number(const Tensor* roi) { return roi && roi->size() == 1; }

bool crops(const Node& node) {
  return node.text_or("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
}

}  // namespace

void layouts(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const bool flat =
        node.is("BatchNormalization") && subject.graph().rank_of(input_of(node, 0)).value_or(3) <= 2;
    const bool has_form = node.is("Conv") || node.is("MaxPool") || (node.is("BatchNormalization") && !flat);
    if (!has_form && !node.is("GlobalMaxPool")) continue;
    report.add(node,
               "channels are on axis 1, expected them last" +
                   (has_form ? ", by " + std::string(kChannelsLastDomain) + "::" + node.op : std::string()),
               graph::has_channels_last_form(subject.graph(), node));
  }
}

Graph put_channels_last(Graph graph, Profile) { return graph::channels_last(std::move(graph)); }

void conv_attributes(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const Profile profile = subject.is_for(Profile::kFinn) ? Profile::kFinn : Profile::kHls4ml;
    if (!has_windows(node, profile)) continue;
    const bool pads_itself = node.text_or("auto_pad", "NOTSET") != "NOTSET";
    for (const Missing& missing : missing_attributes(subject.graph(), node, profile)) {
      report.add(node,
                 missing.name == "pads" && pads_itself
                     ? "auto_pad is " + quote_text(node.text_or("auto_pad", "")) + ", expected pads"
                     : "attribute " + missing.name + " is not written",
                 missing.value.has_value());
    }
  }
}

Graph write_conv_attributes(Graph graph, Profile profile) {
  for (Node& node : graph.nodes) {
    if (!has_windows(node, profile)) continue;
    for (const Missing& missing : missing_attributes(graph, node, profile)) {
      if (!missing.value) continue;
      if (missing.name == "pads") node.attributes.erase("auto_pad");
      node.attributes[missing.name] = missing.attribute();
    }
  }
  return graph;
}

void conv_groups(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    const std::int64_t groups = is_conv(node) ? node.int_or("group", 1) : 1;
    const auto weight = is_conv(node) ? subject.graph().shape_of(input_of(node, 1)) : std::nullopt;
    if (!weight || weight->size() < 3) continue;
    if (subject.is_for(Profile::kFinn) && weight->size() != 4) {
      report.add(node, "it has " + std::to_string(weight->size() - 2) +
                           " axes, expected two (of which one may be 1)");
    }
    const graph::Dim& each = is_last(node) ? weight->back() : (*weight)[1];
    const bool is_depthwise =
        each.size == 1 && !(subject.is_for(Profile::kFinn) && (*weight)[0].size != groups);
    if (groups == 1 || is_depthwise) continue;
    report.add(node, "it has " + std::to_string(groups) +
                         " groups of several channels, expected one group, or one "
                         "for each channel" +
                         (subject.is_for(Profile::kFinn) ? " and as many outputs" : ""));
  }
}

void reshapes(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!node.is("Reshape") || !node.has_input(1) || subject.constant(node, 1)) continue;
    const Value* made = node.has_output(0) ? subject.graph().find(node.outputs[0]) : nullptr;
    report.add(node, "its target shape is computed, expected a constant", made && made->is_static());
  }
}

Graph fix_reshapes(Graph graph, Profile) {
  return for_each_node(std::move(graph), [](Graph& all, std::size_t i) {
    const Node& node = all.nodes[i];
    if (!node.is("Reshape") || !node.has_input(1) || all.constant(node.inputs[1])) return;
    const Value* made = node.has_output(0) ? all.find(node.outputs[0]) : nullptr;
    if (!made || !made->is_static()) return;
    const Ints shape = sizes(*made->shape, 0, made->shape->size());
    give_constant(all, all.nodes[i], 1, Tensor::ints({static_cast<std::int64_t>(shape.size())}, shape));
    // A size of 0 would stand for the input's.
    if (std::ranges::find(shape, 0) != shape.end()) all.nodes[i].attributes["allowzero"] = std::int64_t{1};
  });
}

void transposes(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!node.is("Transpose") || node.has("perm")) continue;
    report.add(node, "attribute perm is not written", subject.graph().rank_of(input_of(node, 0)).has_value());
  }
}

Graph write_perms(Graph graph, Profile) {
  for (Node& node : graph.nodes) {
    const auto rank =
        node.is("Transpose") && !node.has("perm") ? graph.rank_of(input_of(node, 0)) : std::nullopt;
    if (!rank) continue;
    Ints perm(*rank);
    std::iota(perm.rbegin(), perm.rend(), 0);
    node.attributes["perm"] = perm;
  }
  return graph;
}

void concats(const Subject& subject, Report& report) {
  constexpr std::size_t kMost = 4;  // three and the batch
  for (const Node& node : subject.nodes()) {
    const auto rank = node.is("Concat") ? subject.graph().rank_of(output_of(node)) : std::nullopt;
    if (rank && *rank > kMost) {
      report.add(node, "it joins tensors of " + std::to_string(*rank) + " axes, expected at most " +
                           std::to_string(kMost));
    }
  }
}

void pads(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!node.is("Pad")) continue;
    const std::string mode = node.text_or("mode", "constant");
    if (mode != "constant") {
      report.add(node, "its mode is " + quote_text(mode) + ", expected constant");
    } else if (node.version < 11 ? node.float_or("value", 0) != 0
                                 : node.has_input(2) && uniform(subject.constant(node, 2)) != 0.0F) {
      report.add(node, "it does not pad with 0");
    }
  }
}

void resizes(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!node.is("Resize") || node.version < 11) continue;
    const auto shape = subject.graph().shape_of(input_of(node, 0));
    if (shape && shape->size() == 4 && !((*shape)[1] == (*shape)[2]))  // channels last
      report.add(node,
                 "it resizes " + text_of(*shape) + ", expected as many rows as columns: hls4ml swaps them",
                 false);
    if (!has_one_number(subject.constant(node, 1)))
      report.add(node, "its roi is not one number, without which hls4ml's parser fails", !crops(node));
  }
}

Graph add_rois(Graph graph, Profile) {
  return for_each_node(std::move(graph), [](Graph& all, std::size_t i) {
    const Node& node = all.nodes[i];
    if (!node.is("Resize") || node.version < 11 || crops(node) ||
        has_one_number(constant_input(all, node, 1)))
      return;
    const std::string roi = graph::add_constant(all, node.name + "_roi", Tensor::floats({1}, {{0.0F}}));
    if (all.nodes[i].inputs.size() < 2) all.nodes[i].inputs.resize(2);
    all.nodes[i].inputs[1] = roi;
  });
}

void table_operators(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    for (const char* op : {"Softmax", "Sigmoid", "Tanh", "Softplus", "Softsign", "Elu", "Selu"}) {
      if (node.is(op)) report.add(node, "hls4ml reads it from a table of fixed-point numbers");
    }
  }
}

}  // namespace crumb::exporting::checks
