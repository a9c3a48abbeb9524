// Converts ONNX files between QONNX and QCDQ, for the Python tests beside this file.
//
//   crumb_qcdq_cases to|from|read IN.onnx OUT.onnx [--opset=N] [--native] [--weights-as-float] [--arithmetic] [--bind]
//
// `read` only reads and writes. --bind gives what is open in the input shapes the size 1. Prints the report, one
// "kind<TAB>node" a line; an error as "error: ..." with exit code 1.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "export/qcdq/from_qcdq.h"
#include "export/qcdq/to_qcdq.h"
#include "graph/facts/bind_shapes.h"
#include "graph/onnx/read.h"
#include "graph/onnx/write.h"

int main(int count, char** arguments) {
  using namespace crumb;
  if (count < 4) return 2;
  exporting::QcdqOptions options;
  bool binds = false;
  for (int i = 4; i < count; ++i) {
    const std::string_view option = arguments[i];
    if (option.starts_with("--opset=")) options.opset = std::atoi(option.substr(8).data());
    options.native_types |= option == "--native";
    options.weights_as_float |= option == "--weights-as-float";
    if (option == "--arithmetic") options.arithmetic = crumb::exporting::Arithmetic::kWhereNeeded;
    binds |= option == "--bind";
  }
  try {
    graph::Graph graph = graph::read_onnx(arguments[2]);
    if (binds) graph = graph::bind_shapes(std::move(graph), {});
    exporting::QcdqReport report;
    const std::string_view way = arguments[1];
    if (way == "to") graph = exporting::to_qcdq(std::move(graph), options, &report);
    if (way == "from") graph = exporting::from_qcdq(std::move(graph), &report);
    graph::write_onnx(graph, arguments[3]);
    const auto print = [](const char* kind, const std::vector<std::string>& nodes) {
      for (const std::string& node : nodes) std::printf("%s\t%s\n", kind, node.c_str());
    };
    print("ties", report.ties);
    print("arithmetic", report.arithmetic);
    print("bipolar", report.bipolar);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
