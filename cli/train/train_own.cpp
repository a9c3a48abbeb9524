#include "cli/train/train_own.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <span>

#include "base/checksum.h"
#include "base/files/counted.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/named_values.h"
#include "cli/flags/torchscript_flags.h"
#include "cli/notes.h"
#include "graph/onnx/array_files.h"
#include "jobs/engines/torchscript_file.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
using graph::Tensor;
using tasks::OwnArray;
using tasks::OwnNetwork;
using tasks::OwnOutput;
using tasks::OwnSamples;

constexpr std::string_view kLosses[] = {"ce", "mse"};
constexpr std::string_view kDivergence = "kl";
constexpr double kMostWeight = 1e6;

/// Throws Error at the first value that is not finite.
void expect_finite(const Tensor& tensor, const std::string& from) {
  if (!graph::is_float(tensor.type())) return;
  const std::vector<float> values = tensor.to_floats();
  const auto found = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  if (found != values.end())
    throw Error(from + " holds " + number_text(*found) + " at index " +
                std::to_string(found - values.begin()) + " of " + graph::text_of(tensor.shape()) +
                ", expected finite numbers");
}

OwnArray read(const std::string& flag, const std::string& file) {
  return {.values = graph::read_array(file), .from = flag + " " + quote_text(file)};
}

std::vector<std::string> names_with_labels(const OwnNetwork& own) {
  std::vector<std::string> names;
  for (const OwnOutput& output : own.outputs)
    if (output.aim == OwnOutput::Aim::kLabels) names.push_back(output.name);
  return names;
}

/// Returns the axis of an array's samples, where a value has them on `axis`.
std::int64_t samples_axis(const Tensor& array, std::int64_t axis) {
  return axis < static_cast<std::int64_t>(array.rank()) ? axis : 0;
}

/// Throws Error where arrays do not hold as many samples, or none, or numbers that are not finite.
void check_samples(const OwnNetwork& own, const OwnSamples& samples) {
  struct Axis {
    const OwnArray* array;
    std::int64_t number;
    std::int64_t count;
  };
  std::vector<Axis> axes;
  const auto add = [&](const OwnArray& array, const std::string& name) {
    const std::int64_t axis = samples_axis(array.values, own.axis_of(name));
    const bool has_axis = array.values.rank() > 0;
    axes.push_back({&array, axis, has_axis ? array.values.shape()[static_cast<std::size_t>(axis)] : 0});
  };
  for (std::size_t i = 0; i < samples.inputs.size(); ++i) add(samples.inputs[i], own.graph.inputs[i]);
  for (const auto& [name, array] : samples.targets) add(array, name);
  const Axis& first = axes[0];
  for (std::size_t i = 1; i < axes.size(); ++i) {
    const Axis& other = axes[i];
    if (other.count > 0 && other.count == first.count) continue;
    const std::string along =
        first.number == 0 && other.number == 0
            ? "axis 0"
            : "axes " + std::to_string(first.number) + " and " + std::to_string(other.number);
    throw Error(first.array->from + " is of shape " + graph::text_of(first.array->values.shape()) + " and " +
                other.array->from + " of shape " + graph::text_of(other.array->values.shape()) +
                "; expected as many samples along " + along + ", at least one");
  }
  for (const Axis& one : axes) expect_finite(one.array->values, one.array->from);
}

/// Reads "--data": an array for each input.
std::vector<OwnArray> read_inputs(const OwnNetwork& own, const std::vector<std::string>& requests,
                                  const std::string& model) {
  const std::vector<std::string>& names = own.graph.inputs;
  std::map<std::string, OwnArray> found;
  for (const std::string& requested : requests) {
    const auto [given, file] = split_named("--data", requested, names, "input");
    if (given.empty() && names.size() != 1) {
      throw usage_error("--data " + quote_text(requested) + ": " + quote_text(model) + " takes " +
                        count_text(names.size(), "input") +
                        ", expected NAME=FILE.npy for each, as in --data " + names[0] + "=x.npy");
    }
    const std::string& name = given.empty() ? names[0] : given;
    if (!found.emplace(name, read("--data", file)).second)
      throw usage_error("--data gives input " + quote_text(name) + " twice");
  }
  std::vector<OwnArray> inputs;
  for (const std::string& name : names) {
    if (!found.contains(name))
      throw usage_error("input " + quote_text(name) + " of " + quote_text(model) +
                        " has no samples: give --data " + name + "=FILE.npy");
    inputs.push_back(std::move(found.at(name)));
  }
  return inputs;
}

OwnOutput& output_of(OwnNetwork& own, const std::string& name) {
  return *std::ranges::find(own.outputs, name, &OwnOutput::name);
}

void read_labels(OwnNetwork& own, const std::vector<std::string>& requests) {
  for (const std::string& requested : requests) {
    const auto [given, file] = split_named("--labels", requested, own.graph.outputs, "output");
    const std::string& name = given.empty() ? own.graph.outputs[0] : given;
    if (!own.train.targets.emplace(name, read("--labels", file)).second)
      throw usage_error("--labels gives output " + quote_text(name) + " twice");
    output_of(own, name).aim = OwnOutput::Aim::kLabels;
  }
}

/// Reads NAME=kl or NAME=kl:AXIS: the output is held by the divergence of its distributions.
void read_divergence(OwnNetwork& own, const std::string& requested, const std::string& name,
                     const std::string& loss) {
  const std::string flag = "--loss " + quote_text(requested);
  if (name.empty() || output_of(own, name).aim == OwnOutput::Aim::kLabels)
    throw usage_error(flag + ": kl holds an output without labels to the float network's distributions: " +
                      (name.empty() ? "name it, as in --loss " + own.graph.outputs.back() + "=kl"
                                    : quote_text(name) + " has labels, for ce or mse"));
  OwnOutput& output = output_of(own, name);
  if (!output.loss.empty()) throw usage_error(flag + " stands there twice");
  output.loss = kDivergence;
  if (loss == kDivergence) return;
  const std::string axis = loss.substr(kDivergence.size() + 1);
  std::int64_t number = -1;
  const auto [stop, error] = std::from_chars(axis.data(), axis.data() + axis.size(), number);
  if (error != std::errc() || stop != axis.data() + axis.size() || number < 0)
    throw usage_error(flag + ": expected NAME=kl:AXIS, the axis of the classes from 0 on, as in " + name +
                      "=kl:1");
  output.class_axis = number;
}

void read_losses(OwnNetwork& own, const std::vector<std::string>& requests) {
  std::string of_others;
  for (const std::string& requested : requests) {
    const auto [name, loss] = split_named("--loss", requested, own.graph.outputs, "output");
    if (loss == kDivergence || loss.starts_with(std::string(kDivergence) + ":")) {
      read_divergence(own, requested, name, loss);
      continue;
    }
    if (std::ranges::find(kLosses, loss) == std::end(kLosses)) {
      throw usage_error("--loss " + quote_text(loss) +
                        ": expected ce (classes, by cross entropy) or mse (values, by the mean squared "
                        "error), or of an output without labels kl (distributions)");
    }
    if (!name.empty() && output_of(own, name).aim != OwnOutput::Aim::kLabels)
      throw usage_error("--loss " + quote_text(requested) + ": output " + quote_text(name) +
                        " has no labels: give --labels " + name + "=FILE.npy");
    std::string& kept = name.empty() ? of_others : output_of(own, name).loss;
    if (!kept.empty()) throw usage_error("--loss " + quote_text(requested) + " stands there twice");
    kept = loss;
  }
  for (OwnOutput& output : own.outputs) {
    if (output.aim != OwnOutput::Aim::kLabels || !output.loss.empty()) continue;
    if (of_others.empty())
      throw usage_error("output " + quote_text(output.name) + " has labels, but no loss: give --loss " +
                        output.name + "=ce or " + output.name + "=mse");
    output.loss = of_others;
  }
}

void read_weights(OwnNetwork& own, const std::vector<std::string>& requests) {
  std::set<std::string> seen;
  for (const std::string& requested : requests) {
    const auto [name, text] = split_named("--loss-weight", requested, own.graph.outputs, "output");
    double weight = -1;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, weight);
    if (name.empty() || error != std::errc() || stop != end || !(weight >= 0 && weight <= kMostWeight)) {
      throw usage_error("--loss-weight " + quote_text(requested) +
                        ": expected NAME=NUMBER, a number from 0 to 1000000, as in --loss-weight " +
                        own.graph.outputs[0] + "=0.5");
    }
    if (!seen.insert(name).second)
      throw usage_error("--loss-weight gives output " + quote_text(name) + " twice");
    OwnOutput& output = output_of(own, name);
    output.weight = weight;
    if (weight > 0) continue;
    if (output.aim == OwnOutput::Aim::kLabels)
      throw usage_error("--loss-weight " + quote_text(requested) + ": output " + quote_text(name) +
                        " has labels, which would teach nothing; leave --labels " + name + " out");
    output.aim = OwnOutput::Aim::kFree;
  }
}

/// Says of each output that has no labels what becomes of it.
void settle_others(OwnNetwork& own) {
  for (OwnOutput& output : own.outputs) {
    if (output.aim == OwnOutput::Aim::kLabels) continue;
    const std::string name = quote_text(output.name);
    const graph::Value* value = own.graph.find(output.name);
    const bool is_other =
        value && value->type != graph::ElementType::kUnknown && !graph::is_float(value->type);
    std::string note;
    if (is_other && output.aim == OwnOutput::Aim::kHeld) {
      output.aim = OwnOutput::Aim::kFree;
      output.weight = 0;
      note = "output " + name + " is " + std::string(graph::name_of(value->type)) +
             ": it learns nothing, and comes from what the others learn";
    } else if (output.aim == OwnOutput::Aim::kFree) {
      note = "output " + name + " learns nothing, and comes from what the others learn";
    } else {
      note = "output " + name + " has no labels: it is held to what the float network gives (" +
             (output.loss == kDivergence ? "the divergence from its distributions"
                                         : "the squared error relative to that") +
             ", times " + number_text(output.weight) + "); --labels " + output.name +
             "=FILE.npy teaches it, --loss-weight " + output.name + "=0 lets it go";
    }
    terminal().note(note);
    own.notes.push_back(std::move(note));
  }
}

/// Reads "--valid": an array for each input and each output that has labels.
OwnSamples read_valid(const OwnNetwork& own, const std::vector<std::string>& requests) {
  const std::vector<std::string> labelled = names_with_labels(own);
  std::vector<std::string> names = own.graph.inputs;
  names.insert(names.end(), labelled.begin(), labelled.end());
  std::map<std::string, OwnArray> found;
  std::size_t unnamed = 0;
  for (const std::string& requested : requests) {
    const auto [given, file] = split_named("--valid", requested, names, "input, or output with labels,");
    if (given.empty() && (++unnamed > 2 || names.size() != 2))
      throw usage_error("--valid " + quote_text(requested) + ": expected " +
                        (names.size() == 2 ? "two files, inputs and labels"
                                           : "NAME=FILE.npy for each input and each output that has labels"));
    const std::string& name = given.empty() ? names[unnamed - 1] : given;
    if (!found.emplace(name, read("--valid", file)).second)
      throw usage_error("--valid gives " + quote_text(name) + " twice");
  }
  OwnSamples samples;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!found.contains(names[i]))
      throw usage_error("--valid has nothing for " + quote_text(names[i]) + ": give --valid " + names[i] +
                        "=FILE.npy");
    if (i < own.graph.inputs.size()) {
      samples.inputs.push_back(std::move(found.at(names[i])));
    } else {
      samples.targets.emplace(names[i], std::move(found.at(names[i])));
    }
  }
  return samples;
}

void check_hold_out(const OwnNetwork& own) {
  const Tensor& values = own.train.inputs[0].values;
  const std::int64_t axis = samples_axis(values, own.axis_of(own.graph.inputs[0]));
  const std::int64_t samples = values.shape()[static_cast<std::size_t>(axis)];
  if (samples >= tasks::kHoldOutEvery) return;
  throw Error(own.train.inputs[0].from + " holds " + std::to_string(samples) +
              " samples: every fifth is held out for validation, so five are needed; or give --valid X.npy "
              "Y.npy");
}

void check_types(const OwnNetwork& own, const OwnSamples& samples, const std::string& model) {
  for (std::size_t i = 0; i < samples.inputs.size(); ++i) {
    const graph::Value* input = own.graph.find(own.graph.inputs[i]);
    const graph::ElementType found = samples.inputs[i].values.type();
    if (!input || input->type == graph::ElementType::kUnknown || input->type == found) continue;
    throw Error(samples.inputs[i].from + ": input " + quote_text(own.graph.inputs[i]) + " of " +
                quote_text(model) + " is " + std::string(graph::name_of(input->type)) + ", found " +
                std::string(graph::name_of(found)));
  }
}

graph::Graph read_network(const std::string& model, const OwnNetworkFlags& flags) {
  jobs::TorchScriptExample example{.inputs_field = "--data", .arguments = flags.arguments};
  if (!jobs::is_torchscript(model)) return jobs::read_graph_or_archive(model, example, terminal());
  constexpr std::int64_t kCalled = 4;
  example.inputs = flags.data;
  example.batch_axes = flags.batch_axes;
  example.most_samples = kCalled;
  return jobs::read_torchscript(model, example, terminal()).graph;
}

std::uint32_t fingerprint_of(const OwnNetwork& own, const std::string& model,
                             const std::vector<std::string>& arguments) {
  std::uint32_t sum = crc32_of(MappedFile::open(model).take().bytes());
  for (const std::string& argument : arguments) sum = crc32_of(std::as_bytes(std::span(argument)), sum);
  for (const OwnSamples* samples : {&own.train, own.valid ? &*own.valid : nullptr}) {
    if (!samples) continue;
    for (const OwnArray& input : samples->inputs) sum = crc32_of(input.values.bytes(), sum);
    for (const auto& [name, target] : samples->targets) sum = crc32_of(target.values.bytes(), sum);
  }
  return sum;
}

}  // namespace

void add_own_network_flags(CLI::App& verb, OwnNetworkFlags& flags) {
  const auto several = [](CLI::Option* option, const char* type) {
    option->type_name(type)->expected(1)->allow_extra_args(false)->take_all();
  };
  flag_group(verb, kInputFlags);
  several(verb.add_option("--data", flags.data,
                          "Inputs to train by, [NAME=]X.npy for each, samples along axis 0"),
          "[NAME=]FILE");
  several(verb.add_option("--labels", flags.labels,
                          "Classes (with ce), or what an output shall give (with mse), [NAME=]Y.npy; outputs "
                          "without labels are held to what the float network gives"),
          "[NAME=]FILE");
  several(
      verb.add_option("--loss", flags.losses,
                      "ce (cross entropy) or mse (mean squared error), or NAME=ce for one output; NAME=kl "
                      "holds one without labels by distributions, with the classes on its last axis or "
                      "that of kl:AXIS"),
      "ce|mse|kl");
  several(verb.add_option("--loss-weight", flags.weights,
                          "NAME=0.5, the factor of an output's loss in the sum; 0: it learns nothing (1)"),
          "NAME=NUMBER");
  several(verb.add_option("--batch-axis", flags.batch_axes,
                          "NAME=1, the axis of samples of an input or output (0)"),
          "NAME=AXIS");
  several(verb.add_option("--set-argument", flags.arguments, kArgumentHelp), "NAME=VALUE");
  verb.add_option("--valid", flags.valid,
                  "Inputs and labels to score by, [NAME=]FILE for each (every fifth sample of those above)")
      ->type_name("FILE")
      ->expected(1, 2)  // both at once, or once for each that is named
      ->take_all();
}

void add_own_network_files(const OwnNetworkFlags& flags, std::vector<fs::path>& files) {
  for (const std::vector<std::string>* values : {&flags.data, &flags.labels, &flags.valid}) {
    for (const std::string& value : *values) {
      files.emplace_back(value);
      for (std::size_t at = value.find('='); at != std::string::npos; at = value.find('=', at + 1))
        files.emplace_back(value.substr(at + 1));
    }
  }
}

bool is_own_network(const std::string& task) {
  std::error_code error;
  const fs::path extension = fs::path(task).extension();
  return extension == ".onnx" || extension == ".crumb" || fs::is_regular_file(task, error);
}

std::shared_ptr<const OwnNetwork> read_own_network(const std::string& model, const OwnNetworkFlags& flags) {
  for (const auto& [values, flag] :
       {std::pair(&flags.data, "--data X.npy"), std::pair(&flags.labels, "--labels Y.npy"),
        std::pair(&flags.losses, "--loss ce|mse")}) {
    if (values->empty()) throw usage_error("training " + quote_text(model) + " needs " + flag);
  }
  auto own = std::make_shared<OwnNetwork>();
  own->name = fs::path(model).stem().string();
  own->graph = read_network(model, flags);
  if (own->graph.inputs.empty()) throw Error(quote_text(model) + " takes no inputs");
  for (const std::string& output : own->graph.outputs) own->outputs.push_back({.name = output});
  own->batch_axes = graph::parse_batch_axes(own->graph, flags.batch_axes, "--batch-axis");
  own->train.inputs = read_inputs(*own, flags.data, model);
  read_labels(*own, flags.labels);
  read_losses(*own, flags.losses);
  read_weights(*own, flags.weights);
  check_samples(*own, own->train);
  if (flags.valid.empty()) {
    check_hold_out(*own);
  } else {
    own->valid = read_valid(*own, flags.valid);
    check_samples(*own, *own->valid);
  }
  for (const OwnSamples* samples : {&own->train, own->valid ? &*own->valid : nullptr})
    if (samples) check_types(*own, *samples, model);
  own->fingerprint = fingerprint_of(*own, model, flags.arguments);
  settle_others(*own);
  return own;
}

}  // namespace crumb::cli
