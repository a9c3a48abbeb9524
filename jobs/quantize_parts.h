// The two ways of quantize(): tensors one by one, or a network. Internal to jobs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "jobs/quantize.h"

namespace crumb::jobs {

/// Returns all files that are read for a request.
std::vector<std::filesystem::path> inputs_of(const QuantizeRequest& request);

/// Checks, before anything is read, that the output is not an input and can be written. Does nothing in a dry
/// run.
void claim_output_of(const QuantizeRequest& request);

/// Whether a path is an ONNX file, by its name.
bool is_network_file(const std::string& path);

/// Notes how many scales did not fit their format.
void note_saturated(const std::vector<TensorReport>& tensors, Notes& notes);

/// Opens a checkpoint. Throws Error also where its head is another than its configuration says.
Checkpoint open_checkpoint(const std::string& input, const std::string& key);

/// Returns the graph that the packed file stores; "" where models/ has none for this checkpoint. Throws Error
/// where a cache is to be quantized and there is none.
std::string stored_structure(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                             const SpecOrKeep& kv_cache);

QuantizeReport quantize_tensors(const QuantizeRequest& request, Observer& observer);
QuantizeReport quantize_network(const QuantizeRequest& request, Observer& observer);

}  // namespace crumb::jobs
