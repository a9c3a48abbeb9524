#include "jobs/engines/torchscript_file.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "formats/zip/zip.h"
#include "graph/batch_axes.h"
#include "graph/batches.h"
#include "graph/torchscript_reader.h"
#include "jobs/engines/graph_inputs.h"
#include "jobs/engines/open_engine.h"
#include "models/read_graph.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::Tensor;
using graph::TorchScriptArgument;

std::map<std::string, std::string> constants_of(const std::vector<std::string>& requests,
                                                const std::string& field) {
  std::map<std::string, std::string> constants;
  for (const std::string& requested : requests) {
    const std::size_t equals = requested.find('=');
    if (equals == std::string::npos || equals == 0)
      throw usage_error(field + " " + quote_text(requested) + ": expected NAME=VALUE, as in steps=4");
    if (!constants.emplace(requested.substr(0, equals), requested.substr(equals + 1)).second)
      throw usage_error(field + " gives " + quote_text(requested.substr(0, equals)) + " twice");
  }
  return constants;
}

/// The file of an array, or the first of a folder of arrays.
std::string first_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.path().extension() == ".npy") files.push_back(entry.path().string());
  return files.empty() ? path : *std::ranges::min_element(files);
}

/// NAME=PATH and PATH with the first file in the place of a folder.
std::string with_first_file(const std::string& requested, const Graph& inputs) {
  for (const std::string& name : inputs.inputs)
    if (requested.starts_with(name + "=")) return name + "=" + first_file(requested.substr(name.size() + 1));
  return first_file(requested);
}

Tensor narrowed(const Tensor& array) {
  return array.type() == graph::ElementType::kDouble ? Tensor::floats(array.shape(), array.to_floats())
                                                     : array;
}

std::vector<Tensor> example_of(const Graph& names, const TorchScriptExample& example) {
  Graph missing = names, given = names;
  missing.inputs.clear();
  given.inputs.clear();
  const auto is_given = [&](const std::string& name) {
    return std::ranges::any_of(example.inputs,
                               [&](const std::string& one) { return one.starts_with(name + "="); });
  };
  const bool has_unnamed = std::ranges::any_of(example.inputs, [&](const std::string& one) {
    return std::ranges::none_of(names.inputs,
                                [&](const std::string& name) { return one.starts_with(name + "="); });
  });
  for (const std::string& name : names.inputs) {
    const bool by_shape = example.shapes.contains(name) && !is_given(name) && !has_unnamed;
    (by_shape ? missing : given).inputs.push_back(name);
  }
  std::vector<std::string> files;
  for (const std::string& one : example.inputs) files.push_back(with_first_file(one, names));
  const std::vector<Tensor> read = read_inputs(given, files, example.inputs_field);
  std::vector<Tensor> all;
  std::size_t next = 0;
  for (const std::string& name : names.inputs) {
    const bool by_shape = std::ranges::find(missing.inputs, name) != missing.inputs.end();
    if (by_shape) {
      all.push_back(drawn_input(names, name, example.shapes.at(name), example.inputs_field));
      continue;
    }
    all.push_back(example.narrows ? narrowed(read[next]) : read[next]);
    ++next;
  }
  return all;
}

/// Requests of NAME=... with forward()'s own names in the place of those that another network has, without
/// those of inputs that forward() does not take.
std::vector<std::string> by_own_names(const std::vector<std::string>& requests,
                                      const std::vector<std::string>& own,
                                      const std::vector<std::string>& called) {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  const bool are_called_so =
      std::ranges::all_of(own, [&](const std::string& name) { return has(called, name); });
  std::vector<std::string> translated;
  for (const std::string& requested : requests) {
    const auto name = std::ranges::find_if(
        called, [&](const std::string& one) { return requested.starts_with(one + "="); });
    const bool is_by_place = name != called.end() && !are_called_so && called.size() == own.size();
    if (is_by_place)
      translated.push_back(own[static_cast<std::size_t>(name - called.begin())] +
                           requested.substr(name->size()));
    else if (name == called.end() || has(own, *name))
      translated.push_back(requested);
  }
  return translated;
}

/// Leaves each input its first samples.
void take_first(graph::TorchScriptCall& call, std::int64_t most) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    Tensor& input = call.inputs[i];
    const std::int64_t axis = call.batch_axes.empty() ? 0 : call.batch_axes[i];
    if (axis < 0 || axis >= static_cast<std::int64_t>(input.rank())) continue;
    const std::int64_t count = input.shape()[static_cast<std::size_t>(axis)];
    if (count > most) input = graph::samples_of(input, 0, most, axis);
  }
}

}  // namespace

bool is_torchscript(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const auto file = MappedFile::open(path);
  if (!file.ok()) return false;  // its reader will say why
  const std::span<const std::byte> bytes = file.value().bytes();
  if (bytes.size() < 2 || bytes[0] != std::byte{'P'} || bytes[1] != std::byte{'K'}) return false;
  const auto members = parse_zip(bytes);
  return members.ok() && std::ranges::any_of(members.value(), [](const ZipMember& member) {
           const std::size_t folder = member.name.find('/');
           return folder != std::string::npos && member.name.compare(folder, 6, "/code/") == 0;
         });
}

TorchScriptGraph read_torchscript(const fs::path& path, const TorchScriptExample& given,
                                  const Observer& observer) {
  const graph::TorchScriptReader& reader = open_torchscript_reader();
  const std::string field = observer.spelled("arguments");
  graph::TorchScriptCall call{.inputs = {}, .constants = constants_of(given.arguments, field)};
  Graph names;
  TorchScriptExample example = given;
  const std::vector<TorchScriptArgument> arguments = reader.arguments(path);
  for (const TorchScriptArgument& argument : arguments) {
    const std::string what = quote_text(path.string()) + ": forward() takes " + quote_text(argument.name) +
                             " of type " + argument.type;
    const bool is_constant = call.constants.contains(argument.name);
    if (is_constant && argument.is_tensor)
      throw usage_error(what + ", which is no constant: give " + given.inputs_field + " " + argument.name +
                        "=FILE.npy");
    if (is_constant || argument.has_default) continue;
    if (!argument.is_tensor) throw usage_error(what + ": give " + field + " " + argument.name + "=VALUE");
    names.inputs.push_back(argument.name);
    names.values[argument.name].type = graph::ElementType::kFloat;
  }
  if (!given.called.empty()) {
    example.inputs = by_own_names(given.inputs, names.inputs, given.called);
    example.batch_axes = by_own_names(given.batch_axes, names.inputs, given.called);
  }
  for (const auto& [name, shape] : example.shapes)
    if (std::ranges::find(names.inputs, name) == names.inputs.end())
      throw usage_error(observer.spelled("shapes") + " " + quote_text(name) + ": " +
                        unknown_name("input", name, names.inputs));
  call.inputs = example_of(names, example);
  std::vector<std::string> of_inputs;  // outputs have no names yet
  for (const std::string& requested : example.batch_axes)
    if (std::ranges::find(names.inputs, requested.substr(0, requested.rfind('='))) != names.inputs.end())
      of_inputs.push_back(requested);
  const graph::BatchAxes axes = graph::parse_batch_axes(names, of_inputs, observer.spelled("batch_axes"));
  if (!axes.empty())
    for (const std::string& name : names.inputs) call.batch_axes.push_back(graph::batch_axis_of(axes, name));
  if (example.most_samples > 0) take_first(call, example.most_samples);
  return {.graph = reader.read(path, call), .inputs = std::move(call.inputs)};
}

Graph read_graph_or_archive(const fs::path& path, const TorchScriptExample& example,
                            const Observer& observer) {
  if (is_torchscript(path)) return read_torchscript(path, example, observer).graph;
  if (!example.inputs.empty() || !example.arguments.empty())
    throw usage_error((example.inputs.empty() ? observer.spelled("arguments") : example.inputs_field) +
                      " is for TorchScript archives, and " + quote_text(path.string()) + " is none");
  return models::read_graph(path);
}

}  // namespace crumb::jobs
