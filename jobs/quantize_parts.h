// The two ways of quantize(): tensors one by one, or a network. Internal to jobs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "jobs/quantize.h"

namespace crumb::jobs {

/// All that is read for a request.
std::vector<std::filesystem::path> inputs_of(const QuantizeRequest& request);

/// Before anything is read: the output is none of the inputs, and can be written. Nothing of a dry run.
void claim_output_of(const QuantizeRequest& request);

/// Whether a path is an ONNX file, by its name.
bool is_network_file(const std::string& path);

/// Says of scales that did not fit their format how many there are.
void note_saturated(const std::vector<TensorReport>& tensors, Notes& notes);

/// Opens a checkpoint. Throws Error, too, where its head is not the one that its configuration means.
Checkpoint open_checkpoint(const std::string& input, const std::string& key);

/// The graph that the packed file stores; "" where models/ builds none of this checkpoint. Throws Error where
/// a cache is to be quantized and there is none.
std::string stored_structure(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                             const SpecOrKeep& kv_cache);

QuantizeReport quantize_tensors(const QuantizeRequest& request, Observer& observer);
QuantizeReport quantize_network(const QuantizeRequest& request, Observer& observer);

}  // namespace crumb::jobs
