// crumb quantize of a graph, or of a checkpoint as a graph: puts quantizers where a recipe says, with scales
// of activations from calibration data.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags/recipe_flags.h"
#include "cli/output.h"
#include "jobs/report_file.h"

namespace crumb::cli {

/// The flags that only graphs have.
struct GraphFlags {
  std::vector<std::string> data, batch_axes, shapes, arguments;
  std::string to, profile, device;
  std::int64_t opset = 0;
  std::size_t tokens = 0;  ///< tokens of a text; 0: all
  bool tensors_only = false;
  bool pairs = false, float16_io = false, float32_io = false;

  bool any() const {
    return !data.empty() || !batch_axes.empty() || !arguments.empty() || !shapes.empty() || !to.empty() ||
           !profile.empty() || !device.empty() || opset != 0 || tokens != 0 || pairs || float16_io ||
           float32_io;
  }
};

void add_graph_flags(CLI::App& verb, GraphFlags& flags);

struct QuantizeGraph {
  std::string input, output;
  RecipeFlags recipe;
  std::optional<Recipe> chosen;  ///< the recipe, instead of the flags' one
  Json assignment = {};          ///< how the recipe was chosen, for the report in JSON; null: by flags
  GraphFlags flags;
  int threads = 0;
  std::uint64_t memory = 0;  ///< bytes of samples in flight; 0: the default
  bool json = false, dry_run = false, resume = false;
  jobs::ReportFile report = {};
};

void quantize_graph(const QuantizeGraph& options);

}  // namespace crumb::cli
