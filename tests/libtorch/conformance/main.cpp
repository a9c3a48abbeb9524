// Runs cases of ONNX's conformance suite: folders that hold model.onnx and test_data_set_*/{input,output}_*.pb.
//
//   crumb_onnx_cases [--exact | --step=S] [--gradients] [--device=D] FOLDER...
//
// One line a case: "passed|failed|unsupported|refused<TAB>folder<TAB>why". `unsupported`: operators with neither
// a kernel nor a body of operators that have one; `refused`: files that are not read (strings, sequences, ...).
//
//   --exact       values must be equal bit by bit, NaN to any NaN; otherwise within the suite's tolerances
//   --step=S      values may be off by S, at most one in 10,000 of them, and are equal otherwise
//   --device=D    on that device, which may be the far one (tests/support/far_device.cpp)
//   --gradients   floating inputs want gradients, so that operators go the way that keeps them
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "graph/control/decide.h"
#include "graph/onnx/expand_functions.h"
#include "graph/onnx/read.h"
#include "libtorch/engine.h"
#include "libtorch/execute/graph_module.h"

namespace {

namespace fs = std::filesystem;
using crumb::graph::NamedTensor;
using crumb::libtorch::to_typed;
using crumb::libtorch::TypedTensor;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<NamedTensor> tensors_of(const fs::path& folder, const std::string& kind) {
  std::vector<NamedTensor> tensors;
  for (int i = 0; fs::exists(folder / (kind + "_" + std::to_string(i) + ".pb")); ++i) {
    const std::string bytes = bytes_of(folder / (kind + "_" + std::to_string(i) + ".pb"));
    tensors.push_back(crumb::graph::parse_onnx_tensor_file(std::as_bytes(std::span(bytes))).take(kind));
  }
  return tensors;
}

struct Options {
  bool exact = false;
  double step = 0;
  bool gradients = false;
  at::Device device = at::kCPU;
};

/// Why `found` is not `expected` within the suite's tolerances; empty where it is.
std::string difference(const TypedTensor& found, const TypedTensor& expected, const Options& options) {
  if (found.type != expected.type || found.tensor.sizes() != expected.tensor.sizes()) {
    return "expected " + text_of(expected) + ", found " + text_of(found);
  }
  const at::Tensor a = found.tensor.detach().to(at::kCPU), b = expected.tensor;
  if (!a.is_floating_point() && !a.is_complex()) {
    const auto differ = (a != b).sum().item<std::int64_t>();
    return differ == 0 ? ""
                       : std::to_string(differ) + " of " + std::to_string(a.numel()) + " elements differ";
  }
  if (options.exact && a.is_floating_point()) {
    const at::Tensor same = (a == b).logical_and(at::signbit(a) == at::signbit(b));
    const at::Tensor wrong = same.logical_or(a.isnan().logical_and(b.isnan())).logical_not().flatten();
    if (!wrong.any().item<bool>()) return "";
    const auto first = wrong.to(at::kByte).argmax().item<std::int64_t>();
    const auto text = [&](const at::Tensor& t) {
      char digits[64];
      std::snprintf(digits, sizeof digits, "%.9g", t.flatten()[first].item<double>());
      return std::string(digits);
    };
    return std::to_string(wrong.sum().item<std::int64_t>()) + " of " + std::to_string(a.numel()) +
           " elements differ; element " + std::to_string(first) + ": expected " + text(b) + ", found " +
           text(a);
  }
  if (options.step > 0 && a.is_floating_point()) {
    const at::Tensor error = (a.to(at::kDouble) - b.to(at::kDouble)).abs();
    const auto off = (error > options.step * 1e-3).sum().item<std::int64_t>();
    const double most = error.max().item<double>();
    if (off <= a.numel() / 10000 && most <= options.step * 1.001) return "";
    return std::to_string(off) + " of " + std::to_string(a.numel()) + " elements are off, the most by " +
           std::to_string(most);
  }
  const bool narrow = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
  const at::ScalarType wide = a.is_complex() ? at::kComplexDouble : at::kDouble;
  // Sums that cancel leave what float32 rounds off their terms.
  const at::Tensor size = at::where(b.isfinite(), b.abs(), 0).flatten();
  const double largest = size.numel() > 0 ? size.max().item<double>() : 0;
  const double least = narrow ? 1e-3 : std::max(1e-7, 4e-7 * largest);
  if (at::isclose(a.to(wide), b.to(wide), 1e-3, least, true).all().item<bool>()) return "";
  const at::Tensor error = (a.to(wide) - b.to(wide)).abs();
  return "values differ by up to " + std::to_string(error.max().item<double>());
}

std::string run_case(const fs::path& folder, const Options& options, std::string& why) {
  crumb::graph::Graph graph;
  try {
    graph = crumb::graph::expand_functions(
        crumb::graph::decide_control_flow(crumb::graph::read_onnx(folder / "model.onnx")),
        crumb::libtorch::engine());
  } catch (const crumb::Error& error) {
    why = error.what();
    return "refused";
  }
  if (const std::string nodes = crumb::libtorch::unsupported_nodes(graph); !nodes.empty()) {
    why = nodes;
    return "unsupported";
  }
  int sets = 0;
  try {
    crumb::libtorch::GraphModule network(graph);
    network.to(options.device);
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      ++sets;
      std::vector<TypedTensor> inputs;
      for (const NamedTensor& input : tensors_of(entry, "input")) {
        inputs.push_back(to_typed(input.tensor, options.device));
        at::Tensor& tensor = inputs.back().tensor;
        if (options.gradients && tensor.is_floating_point()) tensor.set_requires_grad(true);
      }
      const auto outputs = network.run(std::move(inputs));
      const auto expected = tensors_of(entry, "output");
      for (std::size_t i = 0; i < expected.size(); ++i) {
        why = difference(outputs.at(i), to_typed(expected[i].tensor), options);
        if (!why.empty()) {
          why = entry.path().filename().string() + ", output " + std::to_string(i) + ": " + why;
          return "failed";
        }
      }
    }
  } catch (const std::exception& error) {
    why = error.what();
    return "failed";
  }
  if (sets == 0) why = "no test data";
  return sets > 0 ? "passed" : "failed";
}

}  // namespace

int main(int count, char** arguments) {
  at::set_num_threads(1);
  Options options;
  int first = 1;
  for (; first < count && std::string_view(arguments[first]).starts_with("--"); ++first) {
    const std::string_view flag = arguments[first];
    if (flag == "--exact") {
      options.exact = true;
    } else if (flag == "--gradients") {
      options.gradients = true;
    } else if (flag.starts_with("--device=")) {
      options.device = at::Device(std::string(flag.substr(9)));
    } else if (flag.starts_with("--step=")) {
      options.step = std::strtod(arguments[first] + 7, nullptr);
    } else {
      std::fprintf(stderr, "crumb_onnx_cases: unknown flag %s\n", arguments[first]);
      return 2;
    }
  }
  const c10::AutoGradMode gradients(options.gradients);
  for (int i = first; i < count; ++i) {
    std::string why;
    const std::string verdict = run_case(arguments[i], options, why);
    for (char& c : why) {
      if (c == '\n' || c == '\t') c = ' ';
    }
    std::printf("%s\t%s\t%s\n", verdict.c_str(), arguments[i], why.c_str());
    std::fflush(stdout);
  }
}
