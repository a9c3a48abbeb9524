// What of a checkpoint does not go into a packed file.
#pragma once

#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// "no output depends on 'pooler.dense.bias', ..." of tensors that the network of a checkpoint does not have,
/// and that do not go along with it. Precondition: one at least.
std::string text_of_unused(const std::vector<std::string>& names);

/// Says that a packed file does not take them along; nothing where there are none.
void note_unused(const std::vector<std::string>& names, Notes& notes);

/// Says which tool quantized a checkpoint, whose values it is read as, and what its files hold beside
/// tensors: at most twenty lines and a count.
void note_reading(const Checkpoint& checkpoint, Observer& observer);

/// Names what a model's folder holds that the packed file will not, and what crumb embed cannot run.
void note_folder(const Checkpoint& checkpoint, Notes& notes);

}  // namespace crumb::jobs
