// What a quantized model's file holds, layer by layer: for pages. Internal to jobs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/quantized_tensor.h"
#include "report/report.h"

namespace crumb::jobs {

/// A constant that is stored as codes.
struct StoredLayer {
  std::string name, format;
  std::vector<std::uint64_t> shape;
  std::uint64_t weights = 0;
  std::uint64_t bytes = 0;  ///< of codes, scales and the rest, before compression
};

struct StoredModel {
  std::string name;          ///< of its file
  double bits_a_weight = 0;  ///< of the layers, scales included; 0 where there is none
  std::vector<StoredLayer> layers;
  std::vector<report::LayerHistograms> histograms;  ///< as the layers are
};

/// Reads the codes of a packed file, or of a QONNX or QCDQ file; of another model nothing. Of large layers rows at
/// even distances are counted, 2 million weights together. Throws Error where a packed file is damaged.
StoredModel stored_model(const std::string& path);

/// How wide accumulators must be for the products of integers in a network's file, and what they are certified to be;
/// no rows where there is none or the file holds no network. Throws Error where it is damaged.
report::Table accumulators_of(const std::string& path);

/// How often a tensor's codes and values are used; `layer` is filled in.
report::LayerHistograms histograms_of(const QuantizedView& tensor);

/// A row for each layer of the models.
report::Table stored_table(const std::vector<StoredModel>& models);

/// Adds the layers' histograms; where they would make the page too large those of the layers with the most weights,
/// and a note.
void add_histograms(const std::vector<StoredModel>& models, report::Report& page);

}  // namespace crumb::jobs
