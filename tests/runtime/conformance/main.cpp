// Runs cases of ONNX's conformance suite on the runtime: folders that hold model.onnx and
// test_data_set_*/{input,output}_*.pb.
//
//   crumb_runtime_cases FOLDER...
//
// One line a case: "passed|failed|unsupported|refused<TAB>folder<TAB>why". `unsupported`: operators, or forms of them, with
// neither a kernel nor a body of operators that have one; `refused`: files that are not read (strings, sequences, ...).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "graph/control/decide.h"
#include "graph/onnx/expand_functions.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/read.h"
#include "runtime/engine.h"

namespace {

namespace fs = std::filesystem;
using crumb::graph::NamedTensor;
using crumb::graph::Tensor;

std::vector<Tensor> tensors_of(const fs::path& folder, const std::string& kind) {
  std::vector<Tensor> tensors;
  for (int i = 0; fs::exists(folder / (kind + "_" + std::to_string(i) + ".pb")); ++i) {
    std::ifstream file(folder / (kind + "_" + std::to_string(i) + ".pb"), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    tensors.push_back(
        crumb::graph::parse_onnx_tensor_file(std::as_bytes(std::span(bytes))).take(kind).tensor);
  }
  return tensors;
}

std::string text_of(const Tensor& tensor) {
  return std::string(crumb::graph::name_of(tensor.type())) + " " + crumb::graph::text_of(tensor.shape());
}

/// Why `found` is not `expected` within the suite's tolerances; empty where it is.
std::string difference(const Tensor& found, const Tensor& expected) {
  if (found.type() != expected.type() || found.shape() != expected.shape())
    return "expected " + text_of(expected) + ", found " + text_of(found);
  if (!crumb::graph::is_float(found.type())) {
    const auto a = found.to_ints(), b = expected.to_ints();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i])
        return "element " + std::to_string(i) + ": expected " + std::to_string(b[i]) + ", found " +
               std::to_string(a[i]);
    }
    return "";
  }
  const auto a = found.to_floats(), b = expected.to_floats();
  double largest = 0;
  for (const float y : b)
    largest = std::isfinite(y) ? std::max(largest, std::fabs(static_cast<double>(y))) : largest;
  const bool narrow = crumb::graph::info(found.type()).bits < 32;
  // Sums that cancel leave what float32 rounds off their terms.
  const double least = narrow ? 1e-3 : std::max(1e-7, 4e-7 * largest);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    if (x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= least + 1e-3 * std::fabs(y))
      continue;
    return "element " + std::to_string(i) + ": expected " + std::to_string(y) + ", found " +
           std::to_string(x);
  }
  return "";
}

std::string run_case(const fs::path& folder, std::string& why) {
  const crumb::runtime::Engine engine(1);
  crumb::graph::Graph graph;
  try {
    graph = crumb::graph::infer_shapes(crumb::graph::expand_functions(
        crumb::graph::decide_control_flow(crumb::graph::read_onnx(folder / "model.onnx")), engine));
  } catch (const crumb::Error& error) {
    why = error.what();
    return "refused";
  }
  std::unique_ptr<crumb::graph::Executable> network;
  try {
    network = engine.prepare(graph);
  } catch (const crumb::Error& error) {
    why = error.what();
    return "unsupported";
  }
  int sets = 0;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      ++sets;
      const auto outputs = network->run(tensors_of(entry, "input"));
      const auto expected = tensors_of(entry, "output");
      for (std::size_t i = 0; i < expected.size(); ++i) {
        why = difference(outputs.at(i), expected[i]);
        if (why.empty()) continue;
        why = entry.path().filename().string() + ", output " + std::to_string(i) + ": " + why;
        return "failed";
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
  for (int i = 1; i < count; ++i) {
    std::string why;
    const std::string verdict = run_case(arguments[i], why);
    std::ranges::replace_if(
        why, [](char c) { return c == '\n' || c == '\t'; }, ' ');
    std::printf("%s\t%s\t%s\n", verdict.c_str(), arguments[i], why.c_str());
    std::fflush(stdout);
  }
}
